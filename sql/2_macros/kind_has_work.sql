-- Macro kind_has_work(kind): whether files of that kind hold calls, GPU work and their times, and not memory alone.

create macro kind_has_work(kind) as kind <> 'snapshot'
