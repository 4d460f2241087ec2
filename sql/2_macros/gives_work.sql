-- Macro gives_work(call): whether a call of that name gives the GPU work: it launches, copies or sets memory.

create macro gives_work(call) as
    regexp_matches(call, 'Launch|Memcpy|Memset') and not regexp_matches(call, 'HostFunc|Attribute|Bounds')
