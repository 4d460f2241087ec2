"""--perfetto as Perfetto's own trace processor reads it: the same slices, sums, arrows and counters, and no complaint.

The trace processor is no package here: name a trace_processor_shell in $TRACE_PROCESSOR or on PATH. It was built from
Perfetto's source (v58.2) when these tests were written.
"""

import csv
import io
import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, corpus_params
from lorabench.analyze.store.database import Database
from lorabench.reports import perfetto

PROGRAM = os.environ.get("TRACE_PROCESSOR") or shutil.which("trace_processor_shell")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no trace_processor_shell on PATH or in $TRACE_PROCESSOR")
TRACES = [
    ROOT / "fixtures" / "lora-run.json.gz", ROOT / "fixtures" / "lora-run.sqlite",
    ROOT / "fixtures" / "h200-batch" / "trace.json.gz", *corpus_params("nsys/*.sqlite"),
    *corpus_params("kineto/*.json.gz"),
]  # fmt: skip
WANTED = """
    select kind::varchar as category, text as name, count(*), sum(end_ns - start_ns)::bigint
    from gpu_op join name using (name_id) group by all
    union all select kind::varchar, text, count(*), sum(end_ns - start_ns)::bigint
    from range join name on name.name_id = range.text_id group by all
    union all select 'call', text, count(*), sum(end_ns - start_ns)::bigint
    from api_call join name using (name_id) where not is_duplicate group by all
    union all select 'idle', replace(rule, '_', ' '), count(*), sum(end_ns - start_ns)::bigint
    from _blamed_gap where rule is not null group by all"""


def asked(trace: Path, statement: str) -> list[dict[str, str]]:
    """The rows of a query in the trace processor."""
    query = trace.with_suffix(".sql")
    query.write_text(statement + ";\n", "utf-8")
    done = subprocess.run([str(PROGRAM), "-q", query, trace], capture_output=True, text=True, timeout=600, check=True)
    return list(csv.DictReader(io.StringIO(done.stdout)))


@pytest.fixture(scope="module", params=TRACES, ids=lambda path: path.name)
def export(request: Any, database_of: Callable[[Path], Database], tmp_path_factory: pytest.TempPathFactory) -> Any:
    database = database_of(request.param)
    path = tmp_path_factory.mktemp("perfetto") / "trace.json"
    perfetto.write(database, path)
    return database, path


def test_it_has_every_slice_with_its_length(export: tuple[Database, Path]) -> None:
    database, path = export
    rows = asked(path, "select category, name, count(*) as cnt, sum(dur) as ns from slice group by 1, 2")
    found = Counter({(row["category"], row["name"]): (int(row["cnt"]), int(row["ns"])) for row in rows})
    assert found == {(category, name): (cnt, ns) for category, name, cnt, ns in database.rows(WANTED)}


def test_it_has_no_complaint_and_every_arrow(export: tuple[Database, Path]) -> None:
    database, path = export
    assert asked(path, "select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []
    ((arrows,),) = database.rows(
        "select count(*) from gpu_op join api_call using (api_call_id) where is_first_op and not is_duplicate"
    )
    assert asked(path, "select count(*) as cnt from flow") == [{"cnt": str(arrows)}]


def test_it_has_every_counter(export: tuple[Database, Path]) -> None:
    _, path = export
    events = [event for event in json.loads(path.read_text("utf-8"))["traceEvents"] if event["ph"] == "C"]
    found = asked(path, "select count(*) as cnt, coalesce(sum(value), 0) as value from counter")
    assert int(found[0]["cnt"]) == sum(len(event["args"]) for event in events)
    assert float(found[0]["value"]) == pytest.approx(
        sum(v for event in events for v in event["args"].values()), rel=1e-9
    )
