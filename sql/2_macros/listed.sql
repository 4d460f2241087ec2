-- Macro listed(x, whose, place, is_meant): numbers that are meant, in the order of whose they are and of their place, no NULL
-- among them; NULL of more than 64, of which one that is far out says nothing of the others.

create macro listed(x, whose, place, is_meant) as
    if(
        count(x) filter (is_meant) <= 64,
        coalesce(list(x order by whose, place) filter (is_meant and x is not null), []),
        null
    )
