-- A row is how many arguments of a piece that was read by kineto_text are not what they should be.
--
-- needs: batch

select
    coalesce(
        sum(
            misfit_cnt
            + (correlation is not null and whole(correlation) is null)::integer
            + (device is not null and try_cast(whole(device) as integer) is null)::integer
            + (context is not null and whole(context) is null)::integer
            + (stream is not null and whole_text(stream) is null)::integer
            + (bytes is not null and whole(bytes) is null)::integer
            + (
                grid is not null
                and list_count([try_cast(whole(grid[i]) as integer) for i in [1, 2, 3]]) < least(list_count(grid), 3)
            )::integer
            + (
                block is not null
                and list_count([try_cast(whole(block[i]) as integer) for i in [1, 2, 3]]) < least(list_count(block), 3)
            )::integer
            + (graph_node is not null and whole(graph_node) is null)::integer
            + (sequence_number is not null and whole(sequence_number) is null)::integer
            + (forward_thread is not null and whole(forward_thread) is null)::integer
            + (waits_for_correlation is not null and whole(waits_for_correlation) is null)::integer
        ),
        0
    )::bigint as misfit_cnt
from batch
