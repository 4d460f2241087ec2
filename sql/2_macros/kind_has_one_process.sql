-- Macro kind_has_one_process(kind): whether a file of that kind holds what one process did, whatever processes its
-- threads name.

create macro kind_has_one_process(kind) as kind = 'kineto'
