-- Macro high_quartile(x, few): the third quartile of numbers, of fewer than so many the greatest.

create macro high_quartile(x, few) as
    if(count(x) < few, max(x), quantile_cont(x, 0.75))
