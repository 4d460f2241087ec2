-- A row is what one event of a piece of a Kineto trace says of a collective operation, as it is written.
--
-- Read apart from the other arguments: few traces have them, and each column of `batch` costs every event of every trace.
-- Reads the file `path`, whose first event has the position behind `first_position`.
--
-- needs: batch

with
written as (
    select $first_position + row_number() over () as position, text
    from read_json($path, format = 'array', records = false, columns = {text: 'json'})
),
collective as (
    select position, json_extract_string(text, ['$.args.dtype', '$.args."In msg nelems"', '$.args."Out msg nelems"',
        '$.args."Group size"', '$.args."Process Group Name"', '$.args."Process Group Description"',
        '$.args."Process Group Ranks"', '$.args."Comms Id"', '$.args.Seq', '$.args."Src Rank"', '$.args."Dst Rank"']) as said
    from written
    semi join (from batch where name = 'record_param_comms' or collective_name is not null) as batch using (position)
)
select
    position,
    said[1] as dtype,
    said[2] as in_element_cnt,
    said[3] as out_element_cnt,
    said[4] as group_size,
    said[5] as group_name,
    said[6] as group_description,
    said[7] as group_ranks,
    said[8] as comms_id,
    said[9] as seq,
    said[10] as src_rank,
    said[11] as dst_rank
from collective
