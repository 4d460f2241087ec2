-- Macro listed(x, whose, place, is_meant): numbers that are meant, in the order of whose they are and of their place; NULL of
-- more than 64, of which one that is far out says nothing of the others.

create macro listed(x, whose, place, is_meant) as
    if(count(x) filter (is_meant) <= 64, list(x order by whose, place) filter (is_meant), null)
