-- A row is one event of a piece of a Kineto trace, its numbers as they are written.
--
-- For pieces in which something has another type than it should have (torch.compile writes "grid": "grid(100,)"), a
-- fraction or more digits than a double: only what is not JSON is refused. What an argument has in the place of a list or
-- of an object is NULL and counted in misfit_cnt. Reads the file `path`; times are of `time_type`.

select
    event.*,
    coalesce(json_type(text, '$.args') not in ('OBJECT', 'NULL'), false)::integer
    + coalesce(json_type(text, '$.args.grid') not in ('ARRAY', 'NULL'), false)::integer
    + coalesce(json_type(text, '$.args.block') not in ('ARRAY', 'NULL'), false)::integer as misfit_cnt
from (
    select
        json_transform(
            text,
            '{
                "ph": "varchar", "cat": "varchar", "name": "varchar", "pid": "varchar", "tid": "varchar",
                "ts": "varchar", "dur": "varchar",
                "args": {
                    "correlation": "varchar", "device": "varchar", "context": "varchar", "stream": "varchar",
                    "bytes": "varchar", "grid": ["varchar"], "block": ["varchar"], "graph node id": "varchar",
                    "Sequence number": "varchar", "Fwd thread id": "varchar", "name": "varchar", "labels": "varchar",
                    "Input Dims": "json", "Input type": "json", "Concrete Inputs": "json",
                    "wait_on_cuda_event_record_corr_id": "varchar", "Collective name": "varchar"
                }
            }'
        ) as event,
        text
    from read_json($path, format = 'array', records = false, columns = {text: 'json'})
)
