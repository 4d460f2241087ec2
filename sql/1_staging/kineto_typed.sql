-- A row is one event of a piece of a Kineto trace, every field in the type that it should have.
--
-- DuckDB refuses the piece when a value has another type: kineto_text reads it then. Numbers are doubles, because a
-- bigint here would round fractions without a word. Reads the file `path`; times are of `time_type`.

select ph, cat, name, pid, tid, ts, dur, args, 0 as misfit_cnt
from read_json(
    $path,
    format = 'array',
    records = true,
    columns = {
        ph: 'varchar',
        cat: 'varchar',
        name: 'varchar',
        pid: 'varchar',
        tid: 'varchar',
        ts: '$time_type',
        dur: '$time_type',
        args: 'struct(
            correlation double, device double, context double, stream varchar, bytes double, grid double[],
            block double[], "graph node id" double, "Sequence number" double, "Fwd thread id" double, name varchar,
            labels varchar, "Input Dims" json, "Input type" json, "Concrete Inputs" json,
            wait_on_cuda_event_record_corr_id double, "Collective name" varchar
        )'
    }
)
