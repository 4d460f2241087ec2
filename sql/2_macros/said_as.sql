-- Macro said_as(text, pattern, said): a text in other words: `said` with the groups of the pattern, wherever in the
-- text the pattern matches; NULL where it does not.

create macro said_as(text, pattern, said) as
    if(regexp_matches(text, pattern), regexp_replace(text, '^.*?' || pattern || '.*$', said), null)
