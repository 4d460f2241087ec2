-- A row is one piece of memory from its allocation to its free, with what it is for.
--
-- An address belongs to an allocation until its next event. What a run's ledger names is what it says ('exact'), and what
-- torch's memory timeline names, too ('heuristic': it infers them from the graph). The rest goes by lifetime:
-- 'temporary' is freed by the operator that allocated it or within its phase; memory of the forward that the backward
-- or nothing within the forward frees, of a recomputation that outlives it, and of a compiled graph that nothing frees, is
-- 'activation', but 'forward_result' where no backward needs it: nothing learns in the recording, text is generated, or it
-- outlives a step. What the backward keeps for later is 'gradient', what the optimizer keeps is 'optimizer_state', what a
-- model keeps that was made, loaded or moved outside of them 'parameter'; the rest of the backward is 'autograd_detail'.
-- To keep is never to free, to outlive a step, or to live for most of the recording; of what a model is made of, to be
-- there when it works; of what an optimizer makes, to be there until its next update (which may be weights, too, where
-- these are replaced). What was there before the recording goes by who frees it (the optimizer its state, zero_grad
-- gradients), else by who made it. That is 'exact' where a ledger has taken out what it knows, 'heuristic' elsewhere.
--
-- columns:
--   allocation_id   bigint    key, NULL for what only a ledger knows from before the recording
--   source_id       integer   the input
--   process_id      bigint    the process, NULL if not recorded
--   thread_id       bigint    the thread that asked, NULL if not recorded
--   device          varchar   the device, 'cpu' or 'cuda:0' …
--   start_ns        bigint    when it was allocated, NULL for before the recording
--   free_ns         bigint    when it was freed, NULL where it was not
--   bytes           bigint    size
--   path_id         bigint    name path of the innermost annotation around the allocation, NULL without
--   stack_id        bigint    name of the Python frames that asked, NULL if not recorded
--   phase           varchar   phase that it was allocated in, as _memory_event_phase has it, NULL where nothing tells
--   category        varchar   what it is for, see memory_by_category
--   basis           varchar   'exact' or 'heuristic'
--   name            varchar   the parameter that it is, or belongs to, NULL for others
--   adapter         varchar   the adapter of that parameter, NULL for others

with
event as (
    select
        *,
        row_number() over (order by source_id, time_ns, bytes) as allocation_id
    from _memory_event_phase
    where address is not null
),
followed as (
    select
        *,
        lead(time_ns) over same_place as next_ns,
        lead(bytes) over same_place as next_bytes,
        lead(phase) over same_place as next_phase,
        lead(allocation_id) over same_place as next_id,
        row_number() over same_place as place_number
    from event
    window same_place as (partition by source_id, process_id, device, address order by time_ns, allocation_id)
),
allocated as (
    select
        * exclude (next_ns, next_bytes, next_phase, next_id, place_number),
        if(next_bytes < 0, next_ns, null) as free_ns,
        if(next_bytes < 0, next_phase, null) as free_phase,
        if(next_bytes < 0, next_id, null) - allocation_id as event_cnt
    from followed
    where bytes > 0
),
whole as (
    select source_id, count(*) as event_cnt, max(time_ns) as end_ns from event group by source_id
),
turn as materialized (
    select *, lead(time_ns) over (partition by source_id, process, device order by turn) - time_ns as length_ns
    from _memory_border
),
shortest as (
    select source_id, process, device, min(length_ns) as length_ns from turn group by all
),
-- two steps or more begin while it lives, so there is a whole one in between; most live too shortly for that
stepped as (
    select allocated.allocation_id
    from (
        select allocated.*, coalesce(allocated.process_id, -1) as process, coalesce(allocated.free_ns, whole.end_ns) as end_ns
        from allocated
        join whole using (source_id)
    ) as allocated
    join shortest using (source_id, process, device)
    asof left join turn as first
        on first.source_id = allocated.source_id
        and first.process = allocated.process
        and first.device = allocated.device
        and first.time_ns <= allocated.time_ns
    asof join turn as last
        on last.source_id = allocated.source_id
        and last.process = allocated.process
        and last.device = allocated.device
        and last.time_ns <= allocated.end_ns
    where allocated.end_ns - allocated.time_ns >= shortest.length_ns and last.turn - coalesce(first.turn, 0) >= 2
),
work as (
    select source_id, coalesce(process_id, -1) as process, device, phase, start_ns
    from _memory_phase_stretch
    where phase in ('forward', 'backward', 'optimizer')
),
-- what a model is made of is there when it works
worked as (
    select allocated.allocation_id
    from allocated
    asof join work
        on work.source_id = allocated.source_id
        and work.process = coalesce(allocated.process_id, -1)
        and work.device = allocated.device
        and work.start_ns >= allocated.time_ns
    where allocated.phase is null and allocated.made_as is not null and work.start_ns < allocated.free_ns
),
-- an optimizer that puts new tensors in the place of its state frees them in the next update, and never keeps one for long;
-- by when that is, as few recordings say who frees
replaced as (
    select allocated.allocation_id
    from allocated
    asof join work
        on work.source_id = allocated.source_id
        and work.process = coalesce(allocated.process_id, -1)
        and work.device = allocated.device
        and work.start_ns < allocated.free_ns
    where allocated.phase = 'optimizer' and work.phase = 'optimizer' and work.start_ns > allocated.time_ns
),
lived as (
    select
        allocated.* exclude (event_cnt),
        replaced.allocation_id is not null as is_replaced,
        stepped.allocation_id is not null as outlives_step,
        allocated.free_ns is null or stepped.allocation_id is not null or worked.allocation_id is not null
        or 4 * allocated.event_cnt > 3 * whole.event_cnt as is_kept
    from allocated
    join whole using (source_id)
    left join stepped using (allocation_id)
    left join worked using (allocation_id)
    left join replaced using (allocation_id)
),
has_ledger as (
    select distinct source_id from memory_owner where is_exact
),
-- what the ledger says of an address at a moment
found as (
    select allocated.allocation_id, owner.category, owner.name, owner.adapter, owner.is_exact
    from memory_owner as owner
    asof join allocated
        on allocated.source_id = owner.source_id
        and allocated.device = owner.device
        and allocated.address = owner.address
        and allocated.time_ns <= owner.time_ns
    where not owner.is_before and coalesce(allocated.free_ns >= owner.time_ns, true)
    union all
    select allocated.allocation_id, owner.category, owner.name, owner.adapter, owner.is_exact
    from memory_owner as owner
    join allocated
        on allocated.source_id = owner.source_id
        and allocated.device = owner.device
        and allocated.address = owner.address
    where owner.is_before and allocated.is_before
    union all
    -- weights that lie in what a file was read into at once (safetensors); at the end no two such pieces overlap
    select held.allocation_id, owner.category, null, null, owner.is_exact
    from memory_owner as owner
    asof join (from allocated where free_ns is null) as held
        on held.source_id = owner.source_id and held.device = owner.device and held.address <= owner.address
    where owner.category in ('parameter', 'adapter_parameter')
        and not owner.is_before
        and owner.time_ns >= held.time_ns
        and owner.address > held.address
        and owner.address + owner.bytes <= held.address + held.bytes
),
-- of several the most lasting purpose
purpose as (
    select
        found.allocation_id,
        arg_min(found.category, rank.number) as category,
        arg_min(nullif(found.name, ''), rank.number) as name,
        arg_min(nullif(found.adapter, ''), rank.number) as adapter,
        bool_and(found.is_exact) as is_exact
    from found
    join memory_category as rank using (category)
    group by found.allocation_id
),
judged as (
    select
        lived.*,
        has_ledger.source_id is not null as has_ledger,
        purpose.name,
        purpose.adapter,
        purpose.category as known_category,
        purpose.is_exact,
        case
            when is_before and phase is null then
                case free_phase
                    when 'zero_grad' then 'gradient'
                    when 'optimizer' then 'optimizer_state'
                    when 'backward' then 'activation'
                    else coalesce(made_as, 'unknown')
                end
            when made_as = 'gathered' then 'parameter'
            when made_as = 'bucket' then 'gradient'
            when is_quantisation then 'quantisation_workspace'
            when is_compiled and phase is distinct from 'backward'
                and (free_ns is null or free_phase in ('backward', 'recompute')) then 'activation'
            when free_ns <= operator_end_ns then 'temporary'
            when phase = 'recompute' then if(free_phase = 'recompute', 'temporary', 'activation')
            when phase = 'backward' then
                if(has_ledger.source_id is null and (is_kept or free_phase in ('optimizer', 'zero_grad')),
                    'gradient', 'autograd_detail')
            when phase in ('optimizer', 'zero_grad') then
                if(has_ledger.source_id is null and (is_kept or is_replaced), 'optimizer_state', 'temporary')
            when phase in ('data', 'h2d') then 'input'
            when free_phase in ('backward', 'recompute') then 'activation'
            -- kept for a backward that did not come: dropped outside of the forward, by an error, or never
            when phase = 'forward' and free_phase is null then 'activation'
            when is_kept then coalesce(made_as, 'unknown')
            else 'temporary'
        end as by_life,
        if(
            by_life = 'activation' and free_phase is distinct from 'backward' and free_phase is distinct from 'recompute'
            and (outlives_step or is_generating or is_evaluating or learning.source_id is null),
            'forward_result', by_life
        ) as likely_category
    from lived
    left join _memory_learning as learning using (source_id)
    left join has_ledger using (source_id)
    left join purpose using (allocation_id)
),
-- there before the recording: what the ledger took stock of, until its first event; unless the file itself has it
before as (
    select distinct on (owner.source_id, owner.device, owner.address)
        owner.source_id,
        first.process_id,
        owner.device,
        if(owner.device = 'cpu', owner.bytes, (owner.bytes + 511) // 512 * 512) as bytes,
        first.time_ns as free_ns,
        owner.category,
        owner.is_exact,
        nullif(owner.name, '') as name,
        nullif(owner.adapter, '') as adapter
    from memory_owner as owner
    left join followed as first
        on first.source_id = owner.source_id
        and first.device = owner.device
        and first.address = owner.address
        and first.place_number = 1
    where owner.is_before and not coalesce(first.is_before, false)
    order by owner.source_id, owner.device, owner.address, owner.time_ns
)
select
    allocation_id,
    source_id,
    process_id,
    thread_id,
    device,
    if(is_before, null, time_ns) as start_ns,
    free_ns,
    bytes,
    path_id,
    stack_id,
    phase,
    coalesce(known_category, likely_category) as category,
    if(
        coalesce(is_exact, false)
        or (known_category is null and has_ledger and likely_category in ('temporary', 'autograd_detail', 'quantisation_workspace')),
        'exact', 'heuristic'
    ) as basis,
    name,
    adapter
from judged
union all by name
select
    null::bigint as allocation_id,
    before.source_id,
    coalesce(before.process_id, one.process_id) as process_id,
    before.device,
    before.free_ns,
    before.bytes,
    before.category,
    if(before.is_exact, 'exact', 'heuristic') as basis,
    before.name,
    before.adapter
from before
left join (
    select source_id, min(process_id) as process_id from memory_event group by source_id
) as one using (source_id)
