-- A row is one kind of copy on one device in one time bin: how many bytes went through.
--
-- The bytes of a copy are spread evenly over its duration, so a copy that crosses a border counts in both bins by time.
-- A copy of no duration counts where it began.
--
-- columns:
--   device_id           integer   the device
--   copy_kind           varchar   'HtoD', 'DtoH', 'DtoD', 'PtoP' …, or 'memset'
--   bin                 bigint    number of the bin, from 0
--   start_ns            bigint    its start
--   end_ns              bigint    its end
--   moved_bytes         double    bytes that went through within the bin
--   bandwidth_bytes     double    moved_bytes a second of the bin
--   source_id           integer   the input, see trace_info
--   rank                integer   rank of the input, NULL if not recorded

with
copy as (
    select source_id, device_id, coalesce(copy_kind, 'memset') as copy_kind, bytes, start_ns, end_ns
    from memory_operation
    join gpu_op using (gpu_op_id)
    where bytes is not null
)
select
    copy.device_id,
    copy.copy_kind,
    bin.bin,
    bin.start_ns,
    bin.end_ns,
    sum(
        case
            when copy.end_ns = copy.start_ns then copy.bytes
            else copy.bytes::double * (least(copy.end_ns, bin.end_ns) - greatest(copy.start_ns, bin.start_ns))
                / (copy.end_ns - copy.start_ns)
        end
    ) as moved_bytes,
    moved_bytes * 1e9 / (bin.end_ns - bin.start_ns) as bandwidth_bytes,
    copy.source_id,
    any_value(source.rank) as rank
from copy
join _time_bin as bin
    on bin.source_id = copy.source_id
    and bin.end_ns > bin.start_ns
    and (
        (copy.start_ns < bin.end_ns and copy.end_ns > bin.start_ns)
        or (copy.start_ns = copy.end_ns and copy.start_ns >= bin.start_ns and copy.start_ns < bin.end_ns)
    )
join source on source.source_id = copy.source_id
group by copy.source_id, copy.device_id, copy.copy_kind, bin.bin, bin.start_ns, bin.end_ns
order by copy.source_id, copy.device_id, copy.copy_kind, bin.bin
