-- A row is one range before whose work the GPU is idle for longer than the threshold long_gap_ns, because the CPU does something else.
--
-- Look at what the CPU did before the launch: reading input, Python, logging, checkpoints, evaluation, allocating. Name it with ranges (lorabench.span), or record Python's stacks.
select
    source_id,
    place,
    saving_ns,
    occurrence_cnt,
    evidence,
    case
        when not is_seen
            then 'Look at what the CPU did before the launch: reading input, Python, logging, checkpoints, evaluation, '
                || 'allocating. Name it with ranges (lorabench.span), or record Python''s stacks.'
        when cpu_kind is null
            then 'Name what the CPU does there with ranges (lorabench.span), or record Python''s stacks (with_stack=True): '
                || 'nothing of it is in the trace. Often it reads input, logs or saves.'
        when cpu_kind = 'call'
            then 'Avoid this call within steps: keep what is allocated (no empty_cache), load kernels beforehand. If it '
                || 'should be quick, look for a lock or a missing core.'
        when cpu_kind = 'operator'
            then 'Compare its calls (range_instance): if some alone are slow, it allocates, compiles or searches an '
                || 'algorithm (cudnn.benchmark, MIOpen), or lacks a core; if all are, call it less often.'
        when cpu_kind = 'many'
            then 'Do less in many small steps there: fewer and larger operators (foreach, fused, torch.compile), nothing '
                || 'asked of each tensor in Python.'
        else 'Look at what is done there besides launching: input, logging, saving, Python. Narrower ranges '
            || '(lorabench.span) or stacks say which part.'
    end as advice
from _long_gap_place
where rule = 'long_idle_gap'
