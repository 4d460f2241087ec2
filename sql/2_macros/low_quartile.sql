-- Macro low_quartile(x, few): the first quartile of numbers, of fewer than so many the least.

create macro low_quartile(x, few) as
    if(count(x) < few, min(x), quantile_cont(x, 0.25))
