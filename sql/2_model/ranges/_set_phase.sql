-- A row is a set of name paths that GPU work has (attribution) and the phase of training that this work belongs to.
--
-- In this order: computed again in the backward, below a range named recompute or by operators (_recomputing_set); in the optimizer, in input, copying to the device or without gradients, by the
-- innermost range around the launching call that means a phase; in the backward, if a range of that name is around the call
-- or was open when another thread made it, if the work was found by sequence number for a forward operator, or if a backward
-- node is around it; in the forward, by a range of that name or where backward nodes point to the operator around it, or are named as its own (X and XBackward, of an
-- autograd.Function). Sets
-- without a row have no phase.
--
-- columns:
--   source_id        integer   the input
--   attribution_id   bigint    the set of paths, see attribution
--   phase            varchar   'data', 'h2d', 'no_grad', 'forward', 'backward', 'recompute' or 'optimizer'

with
node as (
    select distinct path_id
    from _backward_node
),
differentiated as (
    select distinct path_id
    from attribution
    join range_path using (path_id)
    where rule = 'sequence' and kind = 'operator'
    union
    -- what reentrant checkpointing runs in its backward points to other nodes
    select range_path.path_id
    from range_path
    join name using (name_id)
    semi join (
        select regexp_extract(name.text, '(\w+)Backward$', 1) as function
        from range_path
        join node using (path_id)
        join name using (name_id)
    ) as own on own.function = name.text
    where range_path.kind = 'operator'
),
told as (
    select
        attribution.attribution_id,
        attribution.source_id,
        attribution.rule,
        range_path.depth,
        said.phase,
        attribution.path_id in (from node) as is_node,
        attribution.attribution_id in (select attribution_id from _recomputing_set) as is_again,
        attribution.path_id in (from differentiated) as is_differentiated
    from attribution
    join range_path using (path_id)
    left join _phase_name as said on said.name_id = range_path.name_id and range_path.kind = 'annotation'
),
summed as (
    select
        source_id,
        attribution_id,
        arg_max(phase, depth) filter (rule = 'direct' and phase is not null) as around,
        arg_max(phase, depth) filter (rule = 'window' and phase is not null) as meanwhile,
        bool_or(rule = 'direct' and phase = 'recompute' or is_again) is true as is_recomputed,
        bool_or(rule = 'sequence' or rule = 'direct' and is_node or phase = 'backward') as is_backward,
        bool_or(rule = 'direct' and is_differentiated) as is_differentiated
    from told
    group by source_id, attribution_id
),
found as (
    select
        source_id,
        attribution_id,
        case
            when is_recomputed then 'recompute'
            when around in ('data', 'h2d', 'optimizer', 'zero_grad', 'no_grad') then around
            when is_backward is true then 'backward'
            when around is not null then around
            when meanwhile is not null then meanwhile
            when is_differentiated then 'forward'
        end as phase
    from summed
)
select source_id, attribution_id, phase
from found
where phase in ('data', 'h2d', 'no_grad', 'forward', 'backward', 'recompute', 'optimizer')
