-- Macro launches_kernels(call): whether a call of that name launches a kernel (no graph).

create macro launches_kernels(call) as
    regexp_matches(call, '^(cu|cuda|hip)(Module|Ext|ExtModule)?Launch(Cooperative)?Kernel')
