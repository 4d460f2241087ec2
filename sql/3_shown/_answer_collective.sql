-- A row is a kind of collective of several ranks and how fast it was: one of the three that take most time, the slowest first.
--
-- Of those whose speed is known. Groups of one purpose, as the pairs of tensor parallelism, are together; a slow link is that
-- of the slowest of them.
--
-- columns:
--   operation            varchar   as in collective_match
--   group_description    varchar   what the group is for, NULL if unknown
--   member_cnt           bigint    ranks of the group
--   collective_cnt       bigint    how many there were
--   mean_bytes           bigint    bytes of one, on average
--   is_even              boolean   whether all had as many
--   transfer_ns          bigint    time from the last arrival to the end, of all
--   busbw_bytes_s        double    bus bandwidth of all, as nccl-tests has it
--   group_cnt            bigint    groups
--   slowest_ranks        varchar   ranks of the slowest of them, NULL if not recorded
--   slowest_bytes_s      double    its bus bandwidth
--   fastest_bytes_s      double    that of the fastest

with
of_group as (
    select
        matched.operation,
        matched.group_description,
        matched.member_cnt,
        member.group_ranks,
        count(*) as collective_cnt,
        sum(matched.bytes) as bytes,
        min(matched.bytes) as min_bytes,
        max(matched.bytes) as max_bytes,
        sum(matched.transfer_ns) as transfer_ns,
        sum(matched.busbw_bytes_s * matched.transfer_ns) / sum(matched.transfer_ns) as busbw_bytes_s
    from collective_match as matched
    left join collective as member using (collective_id)
    where matched.busbw_bytes_s is not null
    group by matched.operation, matched.group_description, matched.member_cnt, member.group_ranks, matched.group_name
),
of_purpose as (
    select
        operation,
        group_description,
        member_cnt,
        sum(collective_cnt)::bigint as collective_cnt,
        (sum(bytes) / sum(collective_cnt))::bigint as mean_bytes,
        min(min_bytes) = max(max_bytes) as is_even,
        sum(transfer_ns)::bigint as transfer_ns,
        sum(busbw_bytes_s * transfer_ns) / sum(transfer_ns) as busbw_bytes_s,
        count(*) as group_cnt,
        arg_min_null(group_ranks, busbw_bytes_s) as slowest_ranks,
        min(busbw_bytes_s) as slowest_bytes_s,
        max(busbw_bytes_s) as fastest_bytes_s
    from of_group
    group by operation, group_description, member_cnt
    order by transfer_ns desc, operation, group_description, member_cnt
    limit 3
)
from of_purpose
order by slowest_bytes_s, operation, group_description, member_cnt
