-- A row is one collective of several ranks that were found to belong together, or what one rank did that belongs to none.
--
-- Rows of ranks belong together by their Comms Id (torch 2.13 and later), else by group and number in it (Seq), else by
-- group and place in the step: matched_by. They are matched only if operation, type and bytes agree and every rank of the
-- group is there; reason says what is wrong otherwise. bytes is what an all-gather puts out, of others what goes in
-- (mean of the ranks); transfer_ns goes from the last arrival to the first end, of ranks with several clocks on the clock on
-- which that is shortest, so that no clocks are compared (of broadcasts and others that a rank can leave before all have
-- come, across them). Bandwidths are those of nccl-tests: bytes / transfer, and that times 2(n-1)/n for an all-reduce, (n-1)/n
-- for all-gather, reduce-scatter and all-to-all.
--
-- columns:
--   step                bigint    number of the step, NULL outside of steps
--   operation           varchar   'all_reduce', 'all_gather' …
--   name                varchar   its name, NULL if not recorded
--   group_name          varchar   the process group, NULL if not recorded
--   group_description   varchar   what the group is for, NULL if not recorded
--   member_cnt          bigint    ranks in it; 1 for an unmatched row
--   dtype               varchar   type of the elements, NULL if not recorded
--   bytes               bigint    bytes of a rank, NULL if not recorded
--   matched_by          varchar   'comms_id', 'seq' or 'place', NULL where there was nothing to match with
--   reason              varchar   why the row is unmatched, NULL for a matched collective
--   skew_ns             bigint    from the first arrival to the last; NULL within the clocks' error
--   last_rank           integer   the last to arrive; NULL where skew_ns is, and where several may have been it
--   transfer_ns         bigint    from the last arrival to the first end; NULL where it would not be positive or is within the clocks' error
--   algbw_bytes_s       double    bytes / transfer_ns, per second
--   busbw_bytes_s       double    algbw_bytes_s times the factor of nccl-tests
--   work_ns             bigint    time of its kernels, mean of the ranks, waiting included; NULL without kernels
--   error_ns            bigint    skew_ns is accurate to within this much; where it is NULL, the most it can be
--   match_id            bigint    key of the matched collective, NULL for an unmatched row
--   collective_id       bigint    key of its (first) row of the table collective
--   source_id           integer   input of an unmatched row, NULL for a matched collective, see trace_info
--   rank                integer   rank of an unmatched row, NULL for a matched collective

with
matched as (
    select
        match_id,
        any_value(step) as step,
        any_value(operation)::varchar as operation,
        any_value(name order by source_id) as name,
        any_value(group_name) as group_name,
        any_value(group_description) as group_description,
        any_value(member_cnt) as member_cnt,
        any_value(dtype) as dtype,
        if(
            any_value(operation) = 'all_gather',
            coalesce(max(out_bytes), sum(in_bytes)),
            avg(coalesce(in_bytes, out_bytes))
        )::bigint as bytes,
        any_value(matched_by)::varchar as matched_by,
        avg(work_end_ns - work_start_ns)::bigint as work_ns
    from _arrival
    group by match_id
),
measured as (
    select
        matched.*,
        met.skew_ns,
        met.last_rank,
        met.transfer_ns,
        matched.bytes / met.transfer_ns * 1e9 as algbw_bytes_s,
        met.error_ns
    from matched
    left join _met as met using (match_id)
)
select
    step,
    operation,
    name,
    group_name,
    group_description,
    member_cnt,
    dtype,
    bytes,
    matched_by,
    null::varchar as reason,
    skew_ns,
    last_rank,
    transfer_ns,
    algbw_bytes_s,
    algbw_bytes_s * case
        when operation = 'all_reduce' then 2 * (member_cnt - 1) / member_cnt
        when operation in ('all_gather', 'reduce_scatter', 'all_to_all') then (member_cnt - 1) / member_cnt
        else 1
    end as busbw_bytes_s,
    work_ns,
    error_ns,
    match_id,
    match_id as collective_id,
    null::integer as source_id,
    null::integer as rank
from measured
union all
select
    matched.step,
    collective.operation::varchar,
    collective.name,
    collective.group_name,
    collective.group_description,
    1,
    collective.dtype,
    if(collective.operation = 'all_gather', collective.out_bytes, coalesce(collective.in_bytes, collective.out_bytes)),
    matched.matched_by::varchar,
    coalesce(matched.reason, 'no other rank is here'),
    null,
    null,
    null,
    null,
    null,
    collective.work_end_ns - collective.work_start_ns,
    null,
    null,
    collective.collective_id,
    collective.source_id,
    source.rank
from collective
join source using (source_id)
left join matched_collective as matched using (collective_id)
where collective.operation is not null and matched.match_id is null and source_id not in (from _memory_pass)
order by collective_id
