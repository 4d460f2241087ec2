-- Updates _predicted_finding: exposed communication saves what is left of it without the waiting for later ranks.
--
-- A rank alone takes for communication what it waits for others. The saving of an input is shared among its places as what is
-- left of them.

update _predicted_finding as found
set
    saving_ns = late.left_ns * least(1, late.saved_ns / nullif(late.all_left_ns, 0)),
    limit_ns = late.left_ns,
    evidence = if(
        late.waited_ns > 0,
        regexp_replace(
            found.evidence, '(, the most in |$)', said_waiting(late.waited_ns, found.limit_ns) || '\1'
        ),
        found.evidence
    )
from (
    select
        found.source_id,
        found.place,
        coalesce(late.waited_ns, 0) as waited_ns,
        greatest(0, found.limit_ns - coalesce(late.waited_ns, 0)) as left_ns,
        sum(left_ns) over (partition by found.source_id) as all_left_ns,
        sum(found.saving_ns) over (partition by found.source_id) as saved_ns
    from _predicted_finding as found
    left join (
        select
            source_id,
            if(device_id is null, null, place) as place,
            device_id is null as is_cpu,
            sum(waited_ns) / greatest(1, count(distinct device_id)) as waited_ns
        from _late_rank_wait
        group by all
    ) as late
        on late.source_id = found.source_id
        and (late.is_cpu or late.place is not distinct from found.place)
    where found.rule = 'exposed_communication'
) as late
where
    found.rule = 'exposed_communication'
    and late.source_id = found.source_id
    and late.place is not distinct from found.place
