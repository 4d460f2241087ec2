"""Makes databases and job folders as earlier versions left them, from those of this version."""

import json
import lzma
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
from lorabench.analyze.job import folder
from lorabench.analyze.store.upgrades import SCHEMA_VERSION

_ZSTD_UNTIL = 11  # the schema of versions that packed results so


# What makes a database of this version one of an earlier one.
NEW_OF_COLLECTIVES = (
    *(
        "collective_id",
        "process_id",
        "found_by",
        "operation",
        "in_bytes",
        "out_bytes",
        "group_name",
        "group_description",
    ),
    *(
        "group_ranks",
        "comms_id",
        "seq",
        "src_rank",
        "dst_rank",
        "device_id",
        "stream_id",
        "work_start_ns",
        "work_end_ns",
    ),
    "work_cnt",
)
BACKWARDS = {
    17: ["drop table call_frame"],
    16: ["drop table kernel_counter"],
    15: ["drop table gpu_metric_sample"],
    14: ["drop table sampled_frame"],
    13: ["alter table out_of_memory_event drop column reserved_bytes"],
    12: ["drop table os_call"],
    11: ["drop table waiting_call"],
    10: ["alter table run_step drop column real_token_cnt"],
    9: ["drop table matched_collective", "drop table clock", "alter table source drop column host",
        *(f"alter table collective drop column {name}" for name in NEW_OF_COLLECTIVES)],
    8: [f"drop table {name}" for name in ("found_step", "replayed_step", "predicted_change", "followed_rule")],
    7: ["drop table reach"],
    6: ["drop table memory_category", "alter table memory_event drop column requested_bytes",
        "alter table set_work drop column rule_cnt", "alter table source drop column is_timed"],
}  # fmt: skip


def of_version(version: int, made: Path, path: Path) -> Path:
    """A copy of a database's tables as an earlier version had them."""
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"attach '{made}' as new (read_only)")
        names = connection.execute("select table_name from duckdb_tables() where database_name = 'new'").fetchall()
        for (name,) in names:
            connection.execute(f'create table "{name}" as from new.main."{name}"')
        for step in range(SCHEMA_VERSION - 1, version - 1, -1):
            for statement in BACKWARDS.get(step, []):
                connection.execute(statement)
        # thresholds, rules and devices that came later are not in it
        connection.execute("delete from threshold where name not in ('long_gap_ns', 'kernel_wait_ns')")
        connection.execute("update threshold set value = 1000.0 where name = 'kernel_wait_ns'")  # the default then
        connection.execute("delete from kernel_class_rule where priority > 300")
        connection.execute("delete from device_peak")
        connection.execute(f"update lorabench set schema_version = {version}")
    return path


def job_of_version(version: int, made: Path, place: Path) -> Path:
    """A copy of a merged job as an earlier version made it, or as a later one would say that it did."""
    shutil.copytree(made, place)
    for one in (place / folder.INPUTS).iterdir():
        if version <= SCHEMA_VERSION:
            (one / folder.PART).unlink()
            of_version(version, next((made / folder.INPUTS).glob(f"{one.name}/{folder.PART}")), one / folder.PART)
        for name, former in zip((folder.RESULT, folder.LARGE), folder.FORMER, strict=True):
            content = _says(lzma.decompress((one / name).read_bytes()), version)
            if version <= _ZSTD_UNTIL:
                (one / name).unlink()
                (one / former).write_bytes(pa.Codec("zstd").compress(content))
            else:
                (one / name).write_bytes(lzma.compress(content))
    with duckdb.connect(str(place / folder.DATABASE)) as connection:
        connection.execute(f"update lorabench set schema_version = {version}, sql = '0123'")
        connection.execute("alter table job_input drop column versions")
    return place


def _says(content: bytes, version: int) -> bytes:
    """A result whose first table says that another version made it."""
    left = pa.BufferReader(content)
    stream = pa.ipc.open_stream(left)
    header = json.loads(stream.read_all()["header"][0].as_py()) | {"versions": f"{version}/0123/1"}
    new = pa.BufferOutputStream()
    with pa.ipc.new_stream(new, stream.schema) as written:
        written.write_table(pa.table({"header": [json.dumps(header)]}, schema=stream.schema))
    return bytes(new.getvalue()) + content[left.tell() :]
