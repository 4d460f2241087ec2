-- A row is an input whose devices work one after another: one is idle while another one of the process works.
--
-- Layers spread over GPUs (device_map="auto") would run in turn: if the model fits on one GPU (in 8 or 4 bits), run a copy on each and split the batch (torchrun, DDP); else FSDP, or a pipeline of micro-batches. So would models that need each other's results (a policy and its reference): compute the next batch of one beside this one of the other. The limit assumes devices that all work all the time.
--
-- Without torch: Split each step's work by data, not by parts; or cut it into smaller pieces that several devices work on at a time.
--
-- Only with: from _blamed_place where rule = 'devices_in_turn'

select
    source_id,
    said_devices as place,
    saving_ns,
    occurrence_cnt,
    format('one waits while another works, {:,} times, {}', occurrence_cnt,
        said_lengths(occurrence_cnt, mean_ns, longest_ns, long_cnt, long_ns)) as evidence,
    data_parallel_advice(source_id) as advice
from (
    select
        source_id,
        sum(saving_ns) as saving_ns,
        sum(occurrence_cnt)::bigint as occurrence_cnt,
        sum(occurrence_cnt * mean_ns) / sum(occurrence_cnt) as mean_ns,
        max(longest_ns) as longest_ns,
        sum(long_cnt)::bigint as long_cnt,
        sum(long_ns) as long_ns
    from _blamed_place
    where rule = 'devices_in_turn'
    group by source_id
)
join (
    select source_id, 'GPUs ' || string_agg(distinct device_id, ', ' order by device_id) as said_devices
    from _stream_work
    where device_id is not null
    group by source_id
) using (source_id)
