-- A row is a kind of collective of several ranks and how fast it was: one of the three that take most time, the slowest first.
--
-- Of those whose speed is known. Groups of one purpose, as the pairs of tensor parallelism, are together.
--
-- columns:
--   operation           varchar   as in collective_match
--   group_description   varchar   what the group is for, NULL if unknown
--   member_cnt          bigint    ranks of the group
--   collective_cnt      bigint    how many there were
--   mean_bytes          bigint    bytes of one, on average
--   is_even             boolean   whether all had as many
--   transfer_ns         bigint    time from the last arrival to the end, of all
--   busbw_bytes_s       double    bus bandwidth, as nccl-tests has it

select *
from (
    select
        operation,
        group_description,
        member_cnt,
        count(*) as collective_cnt,
        avg(bytes)::bigint as mean_bytes,
        min(bytes) = max(bytes) as is_even,
        sum(transfer_ns)::bigint as transfer_ns,
        sum(busbw_bytes_s * transfer_ns) / sum(transfer_ns) as busbw_bytes_s
    from collective_match
    where busbw_bytes_s is not null
    group by operation, group_description, member_cnt
    order by transfer_ns desc, operation, group_description, member_cnt
    limit 3
)
order by busbw_bytes_s, operation, group_description, member_cnt
