-- A row is a finding (_finding) with what a change of its place would save by replay, where a change can be replayed.
--
-- The rule's places are changed together; each has its share of what that saves. A rule about late launches saves no more
-- than the gaps that it is blamed for. A wait costs more than the gap behind it, because the CPU loses its lead; what rules
-- about idle time save together, the largest first behind what is made ready (which takes its time whatever else waits), is
-- never more than the idle time; where others have most of what one would save alone, its evidence says so. Copies that block save besides what
-- of them runs beside other work once nothing waits for them, which is never more than what runs with nothing beside it. Where without a wait less than half of
-- the idle time behind it would go, the evidence says whose the rest is, and host_work what it would save; where more than
-- half as much again would, why. Of what others are blamed for it says how much would be saved where that is less than four
-- fifths, and of a limit where that is less than 95 %. Copies save what hiding them does; those that the link has no time for beside other work
-- can only be fewer: what that saves is at most what they cost. In an input without steps, where nothing from before or after
-- a step can run beside them, it is as well: the evidence says what hiding them saves, pinned where that is advised. Without a replay nobody knows what a wait leaves, and
-- host_work and lost_lead save nothing. Where closing gaps for which nobody is known to be late saves next to nothing by replay, what they
-- wait for may be missing, and they are the limit. Where the clocks of CPU and GPU disagree, no launch tells why a device is idle: rules about that say
-- nothing, and nothing is replayed. Hiding communication saves no more than if it took no time, but for the stages of a
-- pipeline, which wait for what others compute.
--
-- columns:
--   rule             varchar   name of the rule
--   source_id        integer   the input
--   place            varchar   as in finding
--   saving_ns        double    what the place would save, NULL where that is not known
--   occurrence_cnt   bigint    how often
--   evidence         varchar   what was seen
--   advice           varchar   what to do
--   limit_ns         double    what a change saves at most, alone: the gaps, stretches or kernels that the place is blamed for
--   is_predicted     boolean   whether saving_ns is by replay and the advice says what to change, else it is a limit

with
limited as (
    select source_id, rule, count(*) as place_cnt, sum(saving_ns) as limit_ns
    from _finding
    group by source_id, rule
),
idle as (
    select source_id, sum(saving_ns) as idle_ns
    from _judged_gap
    where cause <> 'kernel_wait' and not coalesce(starts_with(rule, 'unrecorded'), false)
    group by source_id
),
-- copies with nothing beside them
alone as (
    select source_id, sum(exposed_memory_ns) as exposed_ns
    from steady_state
    group by source_id
),
-- a replay is of steps: where what follows them counts, too, it says nothing of that
replayed as (
    from followed_rule
    where source_id not in (select source_id from _steady_time where has_rest)
        and source_id not in (select source_id from _clock_shift)
        -- what a stage of a pipeline receives is ready when another one has computed it, whatever sending takes
        and not (rule = 'exposed_communication' and source_id in (select source_id from collective where operation in ('send', 'recv')))
),
-- where the link has no time left for most of the copies, they cannot be hidden, and copying less is all that helps
hidden as (
    select source_id, exposed.rule, hidden.saving_ns as hidden_ns
    from (from replayed where rule = 'exposed_copy') as exposed
    join (from replayed where rule = 'hidden_copy') as hidden using (source_id)
    where 2 * hidden.saving_ns < exposed.saving_ns
),
followed as (
    select
        limited.*,
        -- small products do not reach what a data sheet says, and no trace which kernel reads what another one wrote; one
        -- rank does not know for which others it waits
        followed_rule.saving_ns is not null and hidden.hidden_ns is null
        and limited.rule not in ('float32_matmul', 'unfused_elementwise', 'exposed_communication')
        and not (limited.rule = 'long_dependency' and 10 * followed_rule.saving_ns < limited.limit_ns)
        -- what is copied once, computed once and copied back has nothing of a step before or after to run beside
        and (limited.rule <> 'exposed_copy' or limited.source_id in (select source_id from _steady_time where step_cnt > 0))
        or limited.rule = 'straggler_rank' and limited.source_id in (
            select source_id from _replayed_rank where without_ns is not null
        ) as is_predicted,
        hidden.hidden_ns,
        coalesce(beside.saving_ns, hidden.hidden_ns) as beside_ns,
        idle.idle_ns,
        if(limited.rule in ('blocking_copy', 'pageable_async_copy'), coalesce(alone.exposed_ns, 0), 0) as exposed_ns,
        coalesce(part_of_rule(limited.rule) = 'idle', false) as is_idle,
        case
            when followed_rule.saving_ns is null then if(limited.rule in ('host_work', 'lost_lead'), 0, limited.limit_ns)
            when limited.rule = 'long_dependency' and 10 * followed_rule.saving_ns < limited.limit_ns then limited.limit_ns
            when limited.rule in ('blocking_copy', 'pageable_async_copy', 'synchronisation')
                then greatest(0, followed_rule.saving_ns)
            when limited.source_id not in (select source_id from _steady_time where step_cnt > 0)
                then greatest(0, least(followed_rule.saving_ns, limited.limit_ns))
            else greatest(0, least(followed_rule.saving_ns, beside.saving_ns, limited.limit_ns))
        end as saving_ns
    from limited
    left join replayed as followed_rule on followed_rule.source_id = limited.source_id and followed_rule.rule = limited.rule
    -- copies that can be hidden still take their time on the link
    left join replayed as beside
        on beside.source_id = limited.source_id
        and limited.rule = 'exposed_copy'
        and beside.rule = 'hidden_copy'
        and limited.source_id not in (select source_id from hidden)
    left join hidden on hidden.source_id = limited.source_id and hidden.rule = limited.rule
    left join idle on idle.source_id = limited.source_id
    left join alone on alone.source_id = limited.source_id
),
-- a lead is lost by what waits behind the waits of other rules, so that they go together, by what they save in all
ranked as (
    select *, if(is_together, sum(saving_ns) over (partition by source_id, is_together), saving_ns) as rank_ns
    from (
        select
            *,
            rule in ('synchronisation', 'blocking_copy', 'pageable_async_copy', 'lost_lead')
            and source_id in (select source_id from followed where rule = 'lost_lead' and saving_ns > 0) as is_together
        from followed
    )
),
-- the largest first: what is left of the idle time is for the others. What is compiled or loaded takes its time in any case;
-- that dropping a wait saves more than the gaps behind it rests on overlap that the trace does not show
idling as (
    select
        *,
        if(
            is_idle and idle_ns is not null,
            greatest(0, least(saving_ns, idle_ns - coalesce(sum(saving_ns) over (
                partition by source_id, is_idle
                order by rule = 'compiling_or_loading' desc, rank_ns desc, rule = 'lost_lead', saving_ns desc, rule
                rows between unbounded preceding and 1 preceding
            ), 0))),
            saving_ns
        ) as idle_share_ns
    from ranked
    where not is_idle or source_id not in (select source_id from _clock_shift)
),
shared as (
    select
        *,
        greatest(0, least(saving_ns - idle_share_ns, exposed_ns - coalesce(sum(if(exposed_ns > 0, saving_ns - idle_share_ns, 0)) over (
            partition by source_id order by saving_ns desc, rule rows between unbounded preceding and 1 preceding
        ), 0))) as unblocked_ns,
        idle_share_ns + unblocked_ns as shared_ns
    from idling
),
-- of copies those that the link between host and device has no time for
bounded as (
    select
        found.*,
        hidden.hidden_ns is not null
        and regexp_matches(found.evidence, 'the most in copy (HtoD|DtoH)')
        and not coalesce(starts_with(found.advice, 'Pin '), false) as is_of_link
    from _finding as found
    left join hidden using (source_id, rule)
)
select
    found.* exclude (is_of_link) replace (
        if(found.saving_ns = 0, 0, found.saving_ns * shared.shared_ns / nullif(shared.limit_ns, 0)) as saving_ns,
        if(
            found.is_of_link and not coalesce(starts_with(found.advice, 'FSDP '), false),
            'Copy less: keep weights and optimizer states on the device, token ids instead of embeddings, 8 or 16 bits '
            || 'instead of 32, fewer and larger batches between two transfers of the weights.',
            found.advice
        ) as advice,
        case
            when found.is_of_link
                then found.evidence || format(
                    if(
                        shared.place_cnt = 1, '; without them {} less (then the rest is the limit); if they are only hidden behind other work, {} (the link is busy)',
                        '; with all such copies gone, these save {} (then the rest is the limit); if they are only hidden behind other work, {} (the link is busy)'
                    ),
                    said_ns(found.saving_ns * shared.shared_ns / shared.limit_ns),
                    said_ns(found.saving_ns * least(shared.hidden_ns, shared.shared_ns) / shared.limit_ns))
            when found.rule = 'exposed_copy' and not shared.is_predicted and 5 * shared.beside_ns < 4 * shared.shared_ns
                then found.evidence || format(
                    if(
                        coalesce(starts_with(found.advice, 'Pin '), false),
                        '; pinned and run beside the other work here, {} less',
                        '; {} of them fit beside the other work here'
                    ),
                    said_ns(found.saving_ns * shared.beside_ns / shared.limit_ns))
            when not shared.is_predicted and found.saving_ns > 0 and 20 * shared.shared_ns < 19 * shared.limit_ns
                then found.evidence || format('; at most {} would be saved', said_ns(found.saving_ns * shared.shared_ns / shared.limit_ns))
            when not shared.is_predicted then found.evidence
            -- either of two changes closes the same gaps: the larger one has them
            when shared.is_idle and found.rule <> 'host_work' and found.saving_ns > 0 and 2 * shared.shared_ns < least(shared.saving_ns, shared.limit_ns)
                then found.evidence || format('; alone it saves {}, most of it idle time that other findings count',
                    said_ns(found.saving_ns * least(shared.saving_ns, shared.limit_ns) / shared.limit_ns))
            when found.rule not in ('blocking_copy', 'pageable_async_copy', 'synchronisation')
                then found.evidence || if(
                    found.saving_ns > 0 and 5 * shared.shared_ns < 4 * shared.limit_ns,
                    format('; {} would be saved', said_ns(found.saving_ns * shared.shared_ns / shared.limit_ns)), ''
                )
            when 2 * shared.unblocked_ns > shared.shared_ns
                then found.evidence || format('; nothing runs beside these copies, as the CPU waits for them: {} of them would be hidden',
                    said_ns(found.saving_ns * shared.unblocked_ns / shared.limit_ns))
            when 2 * shared.shared_ns < shared.limit_ns then found.evidence || '; most of it is the CPU''s work'
            -- behind the idle time, before where the CPU is: a screen has room for two lines
            when 2 * shared.shared_ns > 3 * shared.limit_ns
                then regexp_replace(found.evidence, '(; |$)', ', and again later, as the CPU has lost its lead\1')
            else found.evidence
        end as evidence
    ),
    found.saving_ns as limit_ns,
    -- to find out what the CPU does there saves nothing yet
    shared.is_predicted
    and not coalesce(regexp_matches(found.advice, '^(Name what|Look at what|Compare its calls)'), false) as is_predicted
from bounded as found
join shared on shared.source_id = found.source_id and shared.rule = found.rule
