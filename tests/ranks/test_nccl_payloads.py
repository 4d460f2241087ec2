"""What nsys keeps of NCCL's payloads: bytes, communicators, peers and roots; what becomes of damaged ones."""

import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import nccl_payloads
import pytest
from conftest import quick
from lorabench import nsys
from lorabench.analyze.pipeline import analyze
from nccl_payloads import Call

MIB = 1 << 20
CALLS = [
    Call("ncclAllReduce", 20_000, 120_000, 8 * MIB), Call("ncclAllGather", 140_000, 180_000, MIB),
    Call("ncclReduceScatter", 200_000, 240_000, MIB), Call("ncclBroadcast", 250_000, 280_000, 3 * MIB, other=1),
]  # fmt: skip
COMMUNICATOR = "0xfedcba9876543210"


def of(rank: int) -> list[Call]:
    """What a rank of two calls: the same, and a message to the other or from it."""
    return [*CALLS, Call(("ncclSend", "ncclRecv")[rank], 300_000, 320_000, 2 * MIB, other=1 - rank)]


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.first(1)
def test_payloads_say_bytes_communicator_peer_and_root(as_json: bool, tmp_path: Path) -> None:
    path = nccl_payloads.write(tmp_path / "run.sqlite", 1, 2, of(1), as_json=as_json)
    with analyze([path], tmp_path / "x.duckdb") as database:
        rows = database.rows(
            "select operation, in_bytes, out_bytes, group_size, group_name, src_rank, dst_rank, work_cnt, found_by "
            "from collective where operation is not null order by collective_id"
        )
        assert database.rows("select * from source_fact where item like 'payloads%'") == []
    assert [row[:3] + row[5:7] for row in rows] == [
        ("all_reduce", 8 * MIB, 8 * MIB, None, None), ("all_gather", MIB, 2 * MIB, None, None),
        ("reduce_scatter", 2 * MIB, MIB, None, None), ("broadcast", 3 * MIB, 3 * MIB, 1, None),
        ("recv", None, 2 * MIB, 0, 1),
    ]  # fmt: skip
    assert {row[3:5] + row[7:] for row in rows} == {(2, COMMUNICATOR, 1, "library")}


@pytest.mark.slow
def test_ranks_of_nsys_are_matched_by_communicator_and_have_bandwidths(tmp_path: Path) -> None:
    paths = [nccl_payloads.write(tmp_path / f"rank{rank}.sqlite", rank, 2, of(rank)) for rank in range(2)]
    with analyze(paths, tmp_path / "x.duckdb") as database:
        rows = database.rows(
            "select operation, bytes, member_cnt, matched_by, reason, algbw_bytes_s, busbw_bytes_s "
            "from collective_match"
        )
    assert [row[:5] for row in rows] == [
        (operation, size, 2, "place", None)
        for operation, size in [
            ("all_reduce", 8 * MIB), ("all_gather", 2 * MIB), ("reduce_scatter", 2 * MIB), ("broadcast", 3 * MIB),
            ("send", 2 * MIB),
        ]
    ]  # fmt: skip
    assert rows[0][5:] == (pytest.approx(8 * MIB / 100e-6), pytest.approx(8 * MIB / 100e-6))
    assert rows[1][6] == pytest.approx(2 * MIB / 40e-6 / 2)


@pytest.mark.slow
def test_ranks_that_disagree_on_bytes_are_not_matched(tmp_path: Path) -> None:
    other = [Call("ncclAllReduce", 20_000, 120_000, 4 * MIB), *CALLS[1:]]
    paths = [
        nccl_payloads.write(tmp_path / f"rank{rank}.sqlite", rank, 2, calls)
        for rank, calls in enumerate([CALLS, other])
    ]
    with analyze(paths, tmp_path / "x.duckdb") as database:
        rows = database.rows("select distinct reason from collective_match where operation = 'all_reduce'")
    assert rows[0][0] in (
        f"bytes differ: rank {one} {own}, most others {other}"
        for one, own, other in ((0, 8 * MIB, 4 * MIB), (1, 4 * MIB, 8 * MIB))
    )
    assert len(rows) == 1


def test_an_export_without_values_says_how_to_get_them(tmp_path: Path) -> None:
    path = nccl_payloads.write(tmp_path / "run.sqlite", 0, 2, CALLS, blobs=False)
    with analyze([path], tmp_path / "x.duckdb") as database:
        assert database.rows("select distinct in_bytes, group_name from collective") == [(None, None)]
        ((note,),) = database.rows("select note from source_fact where item = 'payloads of NCCL'")
    assert "--include-blobs=true" in note


def _blob(place: int, content: bytes) -> Callable[[bytes], bytes]:
    return lambda value: value[:place] + content + value[place + len(content) :]


@pytest.mark.parametrize(
    ("damage", "lost"),
    quick(
        3,
        [
            pytest.param(_blob(0, b"\x07"), 1, id="another domain"),
            pytest.param(_blob(16, b"\xff" * 8), 1, id="another size"),
            pytest.param(lambda value: value[:40], 1, id="cut off"),
            pytest.param(_blob(8, b"\x63"), 1, id="no such schema"),
            pytest.param(_blob(24, b"\x21"), 1, id="another place"),
            pytest.param(lambda value: value[:31], 1, id="no header"),
            pytest.param(_blob(40, b"\xff" * 8), 0, id="more bytes than there are"),
        ],
    ),
)
@pytest.mark.first(2)
@pytest.mark.slow
def test_a_damaged_payload_costs_itself(damage: Callable[[bytes], bytes], lost: int, tmp_path: Path) -> None:
    path = nccl_payloads.write(tmp_path / "run.sqlite", 0, 2, CALLS)
    with sqlite3.connect(path) as db:
        ((row, value),) = db.execute("select rowid, binaryData from NVTX_EVENTS where start = 15000").fetchall()
        db.execute("update NVTX_EVENTS set binaryData = ? where rowid = ?", [damage(value), row])
    db.close()
    with analyze([path], tmp_path / "x.duckdb") as database:
        rows = database.rows(
            "select operation, in_bytes from collective where operation is not null order by operation::varchar"
        )
        said = database.rows("select value::int from source_fact where section = 'lost' and item = 'payloads of NCCL'")
    assert rows == [("all_gather", MIB), ("all_reduce", None), ("broadcast", 3 * MIB), ("reduce_scatter", 2 * MIB)]
    assert said == ([(1,)] if lost else [])


@pytest.mark.parametrize(
    "text",
    [
        "[" * 4000, "{}]", "7", "null", '{"Message size [bytes]": -1}', '{"Message size [bytes]": 1e3}',
        '{"NCCL communicator ID": 18446744073709551616}', '{"Root": true}', '{"Message size [bytes]": "1"}',
    ],
)  # fmt: skip
@pytest.mark.first(2)
def test_damaged_json_costs_itself(text: str, tmp_path: Path) -> None:
    path = nccl_payloads.write(tmp_path / "run.sqlite", 0, 2, CALLS, as_json=True)
    with sqlite3.connect(path) as db:
        db.execute("update NVTX_EVENTS set jsonText = ? where start = 15000", [text])
    db.close()
    with analyze([path], tmp_path / "x.duckdb") as database:
        assert database.rows("select count(*), count(in_bytes) from collective where operation is not null") == [(4, 3)]
        said = database.rows("select value::int from source_fact where section = 'lost' and item = 'payloads of NCCL'")
    assert said == [(1,)]


def test_payloads_are_found_where_their_texts_lie_elsewhere(tmp_path: Path) -> None:
    path = nccl_payloads.write(tmp_path / "run.sqlite", 0, 2, CALLS, as_json=True)
    with sqlite3.connect(path) as db:
        db.execute("insert into StringIds select 1000 + rowid, jsonText from NVTX_EVENTS where jsonText is not null")
        db.execute("update NVTX_EVENTS set jsonTextId = 1000 + rowid, jsonText = null where jsonText is not null")
    db.close()
    with analyze([path], tmp_path / "x.duckdb") as database:
        assert database.rows("select count(in_bytes), any_value(group_name) from collective") == [(4, COMMUNICATOR)]


@pytest.mark.parametrize(
    "change",
    quick(
        2,
        [
            "drop table NVTX_PAYLOAD_SCHEMAS",
            "update NVTX_PAYLOAD_SCHEMAS set payloadSize = 'many'",
            'update NVTX_PAYLOAD_SCHEMA_ENTRIES set "offset" = -8',
            "insert into NVTX_PAYLOAD_SCHEMAS select domainId, schemaId, name, type, flags, numEntries, 8, alignTo "
            "from NVTX_PAYLOAD_SCHEMAS",
            "alter table NVTX_PAYLOAD_SCHEMA_ENTRIES drop column name",
        ],
    ),
)
def test_schemas_that_make_no_sense_cost_the_payloads_alone(change: str, tmp_path: Path) -> None:
    path = nccl_payloads.write(tmp_path / "run.sqlite", 0, 2, CALLS)
    with sqlite3.connect(path) as db:
        db.execute(change)
    db.close()
    with analyze([path], tmp_path / "x.duckdb") as database:
        assert database.rows("select count(*), count(in_bytes) from collective where operation is not null") == [(4, 0)]


@pytest.mark.parametrize("knows", [True, False])
def test_reports_are_exported_with_payloads_where_nsys_can(knows: bool, tmp_path: Path) -> None:
    program = tmp_path / "nsys"
    help_text = "--include-blobs=" if knows else "--lazy="
    program.write_text(
        f"""#!/bin/sh
if [ "$2" = "--help" ]; then echo "{help_text}"; exit; fi
echo "$@" > {tmp_path}/said
for word in "$@"; do if [ "$before" = "--output" ]; then echo x > "$word"; fi; before="$word"; done
""",
        "utf-8",
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    nsys.export(str(program), tmp_path / "a.nsys-rep", tmp_path / "a.sqlite")
    assert ("--include-blobs true" in (tmp_path / "said").read_text("utf-8")) is knows
