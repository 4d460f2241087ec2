-- A row is how many numbers that the events of a piece say of collective operations are none.
--
-- needs: collective_batch

select
    coalesce(
        sum(
            len(list_filter(
                [in_element_cnt, out_element_cnt, group_size, seq, src_rank, dst_rank],
                lambda number: number is not null and whole_written(number) is null
            ))
        ),
        0
    )::bigint as misfit_cnt
from collective_batch
