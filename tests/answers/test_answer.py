"""The answer on one screen: its parts add up, its first sentence is about the largest of them, and its lines fit."""

import itertools
import json
import shlex
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import CORPUS, ROOT, absent, corpus_params, opened, quick
from lorabench import rundir
from lorabench.analyze.pipeline import analyze
from lorabench.analyze.predict.predictions import what_if
from lorabench.analyze.store import checks, views
from lorabench.analyze.store.database import Database
from lorabench.reports.answer import answer, answer_text, next_text, verdict_text, what_if_text
from lorabench.reports.page import cards
from lorabench.reports.page.section import Source
from lorabench.reports.tables import sources
from lorabench.reports.tables.units import said_ns
from lorabench.reports.terminal import screen

FILES = [
    *corpus_params("nsys/*.sqlite"), *corpus_params("kineto/*.json.gz"), *corpus_params("memory_snapshots/*.pickle"),
    ROOT / "fixtures" / "lora-run.sqlite", ROOT / "fixtures" / "torch-cpu.json.gz", ROOT / "fixtures" / "h200-batch",
]  # fmt: skip


@pytest.fixture(scope="module", params=FILES, ids=lambda path: path.name)
def database(request: pytest.FixtureRequest, database_of: Callable[[Path], Database]) -> Database:
    return database_of(request.param)


@pytest.fixture(scope="module")
def found(database: Database) -> dict[str, Any]:
    return answer.answer(database)


@pytest.mark.first(1)
def test_the_parts_of_the_window_add_up_and_no_finding_saves_more_than_its_part(
    database: Database, found: dict[str, Any]
) -> None:
    parts = found["parts"]
    if not parts:
        return
    assert sum(parts.values()) == pytest.approx(1)
    saved: dict[str | None, float] = defaultdict(float)
    for row in found["findings"]:
        ((part,),) = database.rows("select part_of_rule(?)", row["rule"])
        saved[part] += (row["saving_ns"] or 0) / found["window_ns"]
    tolerance = 0.01  # devices whose windows differ a little are averaged
    idle = parts.get("host", 0) + parts.get("dependency", 0)
    assert saved["idle"] <= idle + tolerance
    assert saved["compute"] <= parts["compute"] + tolerance
    assert saved["copies"] <= parts["copies"] + tolerance
    assert saved["communication"] <= parts["communication"] + tolerance


@pytest.mark.first(4)
def test_no_law_of_findings_is_broken(database: Database) -> None:
    assert checks.broken_laws(database) == {}


@pytest.mark.first(1)
def test_a_rule_that_is_not_asked_for_want_of_what_it_needs_would_find_nothing(database: Database) -> None:
    guards = {rule.name: rule.only_with for rule in views.rules_of("_finding") if rule.only_with}
    idle = [name for name, guard in guards.items() if not database.rows(f"{guard} limit 1")]
    assert idle
    rules = views.of_chosen_rules("_finding", idle)
    with database.computing_once(statement=rules):
        assert database.rows(rules) == []


def _saved_within(database: Database, row: dict[str, Any], path: str) -> float:
    """What the places of a rule save together whose path is this one or below it."""
    ((saved,),) = database.rows(
        "select sum(saving_ns) from _predicted_finding where rule = ? and starts_with(coalesce(place, '') || '/', ?) "
        "and source_id = (select min(source_id) from _predicted_finding where rule = ? and evidence = ?)",
        row["rule"], path, row["rule"], row["evidence"],
    )  # fmt: skip
    return float(saved)


def test_what_speaks_for_a_finding_says_how_much_of_it_is_here(database: Database, found: dict[str, Any]) -> None:
    window_ns = found["window_ns"] or (found["steady"] or {}).get("window_ns")
    for row in found["findings"]:
        said = answer.part(row, window_ns) + row["evidence"]
        if row["place_cnt"] > 1 and row["saving_ns"]:
            share, (before, place, after) = f"{row['place_saving_ns'] / window_ns:.1%}", answer.where(row)
            share += " once" if "paid once" in row["advice"] and not row["is_once"] else ""
            assert 0 < row["place_saving_ns"] <= row["saving_ns"]
            if after:
                assert said == f"{share} here; {row['evidence']}"
                assert place == (row["place"] or answer.OUTSIDE) and after == f" and {row['place_cnt'] - 1:,} more"
            else:
                preposition = "before" if row["rule"] in ("long_idle_gap", "long_dependency") else "in"
                assert said == f"{share} {preposition} {row['place']}: {row['evidence']}"
                assert (
                    before.startswith(f"{row['place_cnt']:,} places") and 2 * row["place_saving_ns"] < row["saving_ns"]
                )
                within = f"{place}/" if place else ""
                assert _saved_within(database, row, within) > row["saving_ns"] / 2
        else:
            assert said == row["evidence"]


def test_a_wait_that_costs_more_than_the_idle_time_behind_it_says_why(database: Database) -> None:
    rows = database.rows(
        """select evidence, is_predicted, sum(saving_ns) over rules, sum(limit_ns) over rules from _predicted_finding
        where rule in ('blocking_copy', 'pageable_async_copy', 'synchronisation')
        window rules as (partition by source_id, rule)"""
    )
    for evidence, is_predicted, saving_ns, limit_ns in rows:
        costs_more = bool(is_predicted and 2 * saving_ns > 3 * limit_ns)
        assert ("and again later, as the CPU has lost its lead" in evidence) is costs_more, evidence


def test_the_answer_fits_a_screen(found: dict[str, Any]) -> None:
    lines = list(answer_text.lines(found))
    assert max(map(len, lines)) <= screen.WIDTH
    assert 2 <= len(lines) <= 24


def test_the_first_sentence_is_about_the_largest_part(database: Database, found: dict[str, Any]) -> None:
    said = verdict_text.verdict(found)
    assert said[:40] in "\n".join(answer_text.lines(found))
    if not found["parts"]:
        if found["recorder"] == "allocator snapshot":
            assert said == verdict_text.SNAPSHOT_SAYS + ("; times are of ranges on the CPU" if found["ranges"] else "")
        elif any(database.rows(f"select 1 from {table} limit 1") for table in ("range", "api_call")):
            calls = "select count(*) from api_call join name using (name_id) where gives_work(text)"
            is_missing = database.rows(calls) != [(0,)]
            assert said.startswith("the GPU's work is missing" if is_missing else "no GPU work in this file")
        else:
            has_calls = bool(database.rows("from os_call limit 1"))
            assert said == (verdict_text.CPU_ALONE if has_calls else verdict_text.NOTHING)
        return
    (part, share), *others = sorted(found["parts"].items(), key=lambda entry: -entry[1])
    begins = {"compute": "GPU-bound", "communication": "communication-bound", "copies": "copy-bound",
              "host": "the CPU is late", "dependency": "waiting", "kernel_wait": "many tiny kernels"}  # fmt: skip
    if said.startswith("the CPU sets the pace"):  # by the replay of kernels that take a tenth less
        changed = what_if(database, [r"scale=^(?!\[CUDA|Mem(cpy|set) ).*:0.9"]).row(0, named=True)
        assert 10 * changed["saving_frac"] < found["parts"]["compute"] / 2 + 0.01
        assert f"compute is {found['parts']['compute']:.0%}" in said
    elif said.startswith("not all is recorded"):
        ((unrecorded_ns,),) = database.rows(
            "select sum(saving_ns) from _judged_gap where rule = ?", found["unrecorded"]["rule"]
        )
        assert unrecorded_ns > share * found["window_ns"] / 2
        return
    elif others and others[0][1] > share / 2:
        assert said.startswith(f"no single limit: {part.replace('_', ' ')}") and f"{others[0][1]:.0%}" in said
    else:
        assert said.startswith(begins[part])
    assert f"{share:.0%}" in said or said.startswith("the CPU sets the pace")


@pytest.mark.first(25)
def test_faster_kernels_save_no_more_than_what_hangs_on_them(database: Database, found: dict[str, Any]) -> None:
    """The critical path against the replay, which knows nothing of it."""
    if not found["parts"] or found["critical_gpu_frac"] is None:
        return
    ((saving_frac,),) = (
        what_if(database, [r"scale=^(?!\[CUDA|Mem(cpy|set) ).*:0.01"]).select("saving_frac").head(1).rows()
    )
    assert saving_frac <= found["critical_gpu_frac"] + 0.01


def test_hiding_communication_saves_no_more_than_if_it_took_no_time(database: Database, found: dict[str, Any]) -> None:
    saving = sum(row["saving_ns"] or 0 for row in found["findings"] if row["rule"] == "exposed_communication")
    if not saving or not database.rows("select 1 from gpu_op limit 1"):
        return
    changed = what_if(database, ["scale=communication:0"]).row(0, named=True)
    assert saving <= 1.01 * changed["saving_ns"] * changed["step_cnt"] + 0.001 * found["window_ns"]


@pytest.mark.first(27)
def test_a_copy_that_blocks_and_is_exposed_costs_its_time_once(database: Database, found: dict[str, Any]) -> None:
    savings = {row["rule"]: row["saving_ns"] or 0 for row in found["findings"]}
    blocking = sum(savings.get(rule, 0) for rule in ("blocking_copy", "pageable_async_copy"))
    if not blocking or not savings.get("exposed_copy"):
        return
    changes = what_if(database, ["pin=*", "drop-sync=*", "hide-copies=*"]).row(0, named=True)
    step_cnt = database.rows("select step_cnt from predicted_change limit 1")[0][0]
    assert blocking + savings["exposed_copy"] <= changes["saving_ns"] * step_cnt + 0.01 * found["window_ns"]


@pytest.mark.parametrize(
    "path", ["run.sqlite", "/a/" + "long/" * 9 + "run.sqlite", "/a/" + "long/" * 30 + "my run.sqlite"]
)
def test_what_to_type_next_can_be_pasted_and_has_an_answer(
    database: Database, found: dict[str, Any], path: str
) -> None:
    lines = [line[6:] for line in next_text.lines(found, [path])]
    if "record with" in lines[0]:
        return
    named = {}
    if lines[0].startswith("INPUT="):
        (named["INPUT"],) = shlex.split(lines.pop(0).removeprefix("INPUT="))
    words = [[named.get(word.removeprefix("$"), word) for word in shlex.split(line)] for line in lines]
    assert [(word[0], word[2]) for word in words] == [("lorabench", path)] * len(words) and len(words) > 1
    assert words[0][1:] == ["report", path, "--open"]
    for command, asked in [(word[1], word[3:]) for word in words[1:]]:
        view = "what_if" if command == "what-if" else asked[0]
        assert database.rows(f"select 1 from {view} limit 1"), view


@pytest.mark.first(4)
def test_two_changes_together_save_no_less_than_one(database: Database, found: dict[str, Any]) -> None:
    if not found["parts"]:
        return

    def saved(*changes: str) -> float | None:
        """None for what is not known, as what a CPU costs where pages of managed memory move."""
        found: float | None = what_if(database, changes).row(0, named=True)["saving_frac"]
        return found

    single = {change: saved(change) for change in ("drop-sync=*", "cpu=*:0", "scale=.*:0.5")}
    known = {change: frac for change, frac in single.items() if frac is not None}
    for one, other in itertools.combinations(known, 2):
        both = saved(one, other)
        assert both is not None and both >= max(known[one], known[other]) - 1e-3, (one, other)


def test_a_change_that_is_long_keeps_what_it_does() -> None:
    row = {"change": f"graph={'execute_context_1(888)/' * 9}mm", "saving_ns": 7, "step_ns": 3, "saving_frac": 0.7,
           "replay_error_frac": 0.0, "step_cnt": None, "note": "", "source_id": 1, "rank": None}  # fmt: skip
    known = {"has_gpu": True, "shift_ns": None, "step_ns": None, "turn_cnt": None, "missing_ns": 0, "input_ns": 0}
    said = list(what_if_text.lines([row], {1: known}))
    assert said[1].startswith("  graph=…") and "/mm " in said[1] and max(map(len, said)) <= screen.WIDTH


def test_long_changes_that_are_made_together_have_a_line_each() -> None:
    places = ("graph=run/step/backward", "scale=elementwise|data_movement|reduction:3.722", "pin=a place of work")
    row = {"change": " ".join(places), "saving_ns": 7, "step_ns": 3, "saving_frac": 0.7, "replay_error_frac": 0.0,
           "step_cnt": None, "note": "", "source_id": 1, "rank": None}  # fmt: skip
    known = {"has_gpu": True, "shift_ns": None, "step_ns": None, "turn_cnt": None, "missing_ns": 0, "input_ns": 0}
    said = [line.strip() for line in what_if_text.lines([row], {1: known})]
    assert said[1] == "graph=run/step/backward and" and said[2].endswith("reduction:3.722 and")
    assert said[2].startswith("scale=") and said[3].startswith("pin=a place of work ")


def test_of_many_ranks_those_that_save_most_are_shown_behind_the_one_that_the_answer_is_about() -> None:
    row = {"change": "cpu=*:0", "saving_ns": 7, "step_ns": 3, "replay_error_frac": 0.0, "step_cnt": None, "note": ""}
    known = {"has_gpu": True, "shift_ns": None, "step_ns": None, "turn_cnt": None, "missing_ns": 0, "input_ns": 0}
    saved = {0: 0.01, 1: 0.002, 2: 0.021, 3: 0.4, 4: 0.019}
    rows = [row | {"source_id": rank + 1, "rank": rank, "saving_frac": frac} for rank, frac in saved.items()]
    said = list(what_if_text.lines(rows, dict.fromkeys(range(1, 6), known)))
    assert [line for line in said if line.startswith("rank")] == ["rank 0:", "rank 3:", "rank 2:"]
    assert said[-1] == "2 more inputs, which save no more: --csv has all, or choose one with --rank"


def test_changes_that_save_nothing_are_cut_where_one_is_longer_than_a_line() -> None:
    row = {"change": "cpu=*:0", "saving_ns": 7, "step_ns": 3, "saving_frac": 0.7, "replay_error_frac": 0.0,
           "step_cnt": None, "note": "", "source_id": 1, "rank": None}  # fmt: skip
    none = [row | {"change": change, "saving_ns": 0, "saving_frac": 0.0} for change in (f"graph={'x' * 90}", "pin=*")]
    known = {"has_gpu": True, "shift_ns": None, "step_ns": None, "turn_cnt": None, "missing_ns": 0, "input_ns": 0}
    said = list(what_if_text.lines([row, *none], {1: known}))
    assert max(map(len, said)) <= screen.WIDTH and "graph=…xxx" in " ".join(said) and "pin=*" in " ".join(said)


def test_adapters_in_turn_are_turns_of_a_step_in_predictions_as_in_the_answer() -> None:
    row = {"change": "cpu=*:0", "saving_ns": 4_000_000, "step_ns": 6_000_000, "saving_frac": 0.4, "step_cnt": 16,
           "replay_error_frac": 0.0, "note": "", "source_id": 1, "rank": None}  # fmt: skip
    known = {"has_gpu": False, "shift_ns": None, "step_ns": 4_100_000, "missing_ns": 0, "input_ns": 0}
    (head, first, *_) = what_if_text.lines([row | {"saving_ns": 0}], {1: known | {"turn_cnt": 8, "step_ns": 6e6}})
    assert head.startswith("8 steps of 2 turns: 12.0 ms each, ") and "12.0 ms" in first
    (head, *_) = what_if_text.lines([row | {"saving_ns": 0}], {1: known | {"turn_cnt": 16, "step_ns": 6e6}})
    assert head.startswith("16 steps: 6.0 ms each, ")


def finding(**more: object) -> dict[str, object]:
    """A finding of a trace of 100 ms."""
    return {
        "rule": "long_idle_gap", "saving_ns": 20_000_000, "place_cnt": 1, "place": "step", "within": None,
        "place_saving_ns": 20_000_000, "is_predicted": True, "is_once": False, "evidence": "a gap",
        "advice": "Look at it.",
    } | more  # fmt: skip


@pytest.mark.parametrize(
    ("more", "saving"),
    [
        ({}, " 20.0%"),
        ({"is_predicted": False}, " at most 20.0%"),
        ({"is_once": True}, " once 20.0%"),
        ({"saving_ns": None, "place_saving_ns": None}, " not known"),
    ],
)
def test_what_a_saving_is_stands_before_it(more: dict[str, object], saving: str) -> None:
    (_, line, *_) = answer_text._first([finding(**more)], 100_000_000, (3, 3, 3), 2, True)
    assert line.endswith(saving) and len(line) == screen.WIDTH


def test_advice_that_was_given_is_not_given_again() -> None:
    rows = [finding(advice=advice) for advice in ("Pin it.", "Fuse them.", "Pin it.")]
    lines = answer_text._first(rows, 100_000_000, (3, 3, 3), 2, True)
    assert [line for line in lines if "->" in line] == ["  -> Pin it.", "  -> Fuse them.", "  -> As for 1."]


def test_advice_is_cut_where_the_screen_is_small_alone(run_command: Callable[..., Any]) -> None:
    """In a pipe, which has no end, and on a tall screen it is whole."""
    said = run_command("summary", ROOT / "fixtures" / "lora-run.sqlite").out
    assert "…" not in said.partition("what to do first")[2].partition("next:")[0]
    with opened(ROOT / "fixtures" / "lora-run.sqlite") as database:
        found = answer.answer(database)
    found["findings"] = [finding(advice=f"This {number} is long, " * 40 + "and ends.") for number in range(3)]
    small, tall, endless = (list(answer_text.lines(found, height)) for height in (24, 200, None))
    assert len(small) <= 24 and any(line.endswith("…") for line in small)
    assert tall == endless and sum(line.endswith("and ends.") for line in tall) == 3


# Of each trace the first sentence and the first advice, which a person has read beside the numbers under them.
# PYTHONPATH=tests:fixtures python tests/answers/test_answer.py writes the file again.
READ = ROOT / "tests" / "golden" / "answers.txt"


@pytest.mark.first(5)
def test_the_cards_of_the_page_agree_with_it(database: Database, found: dict[str, Any]) -> None:
    """How busy a GPU is, in the same time; launching without what launches wait."""
    shown = {card["what"]: card for card in cards.cards(Source(database, sources.shown(database)), None)}
    busy = [card for what, card in shown.items() if what.endswith("busy")]
    assert bool(busy) == bool(found["parts"])
    if len(busy) == 1 and "more GPUs" not in busy[0]["note"]:
        share = sum(found["parts"].get(name, 0) for name in ("compute", "communication", "copies"))
        assert float(busy[0]["value"].removesuffix("%")) == pytest.approx(100 * share, abs=0.051)
        assert f"of {said_ns(found['window_ns'])}" in busy[0]["note"]
        assert ("warm steps" in busy[0]["note"]) == bool(found["steady"]["is_steady"])
    if "launches" in shown:
        ((ns,),) = database.rows("select sum(launch_api_ns - launch_wait_ns) from launch_summary")
        assert shown["launches"]["note"].startswith(f"{said_ns(ns)} of CPU")


def said(path: Path, found: dict[str, Any]) -> list[str]:
    lines = list(answer_text.lines(found))
    first = [" ".join(line.split()) for line in lines if line.startswith("1 ")]
    return [path.name, f"  {verdict_text.verdict(found)}", *(f"  {line}" for line in first)]


def test_what_is_said_first_is_what_a_person_has_read(
    found: dict[str, Any], database: Database, request: pytest.FixtureRequest
) -> None:
    path = request.node.callspec.params["database"]
    assert "\n".join(said(path, found)) in READ.read_text("utf-8")


def test_the_command_line_prints_it(run_command: Callable[..., Any], tmp_path: Path) -> None:
    trace = ROOT / "fixtures" / "lora-run.sqlite"
    printed = run_command("analyze", trace).out
    assert run_command("summary", trace).out == printed
    said = run_command("analyze", trace, "-o", tmp_path / "r.csv")
    assert (said.out, said.err) == (f"wrote {tmp_path / 'r.csv'}\n", printed)
    assert run_command("analyze", trace, "-o", tmp_path / "r.csv", "--quiet").err == ""
    assert json.loads(run_command("summary", trace, "--json").out)["steps"]["step_cnt"] == 2


def test_a_file_in_which_the_operating_system_alone_is_timed_says_so(run_command: Callable[..., Any]) -> None:
    path = CORPUS / "nsys" / "no-cuda-non-utf8-metadata.schema-3.24.sqlite"
    if not path.exists():
        absent("corpus", f"no corpus of real profiles at {CORPUS}")
    said = run_command("analyze", path).out.splitlines()
    assert said[1] == verdict_text.CPU_ALONE
    assert said[2:] == [
        "  nsys: CUDA profiling might have not been started correctly.",
        "  nsys: No CUDA events collected. Does the process use CUDA?",
        "next: record with nsys profile --trace=cuda,nvtx, the command that uses the GPU",
    ]


@pytest.mark.parametrize(
    ("summary", "says"),
    quick(5, [
        (
            '{"step_wall_ns": {"p50": 35100000}, "step_cnt": 2, "warmup_step_cnt": 1}',
            "  without a profiler the median step takes 35.1 ms; all else here is profiled",
        ),
        ('{"step_wall_ns": {"p50": 2600000000}, "step_cnt": 1, "warmup_step_cnt": 1}', None),  # of a script
        ('{"step_wall_ns": {"p50": NaN}}', None),
        ('{"step_wall_ns": {"p50": "1; drop table"}}', None),
        ("[[[", "lost"),
        (
            '{"step_wall_ns": {"p50": 35100000.5}}',
            "  without a profiler the median step takes 35.1 ms; all else here is profiled",
        ),
        ('{"step_wall_ns": 7}', None),
        ("{}", None),
    ]),
)  # fmt: skip
@pytest.mark.first(1)
def test_a_trace_of_a_run_says_what_a_step_takes_without_a_profiler(
    summary: str, says: str | None, synthetic_trace: Callable[..., Path], tmp_path: Path
) -> None:
    trace = synthetic_trace("kineto")
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(trace, run / trace.name)
    (run / rundir.MANIFEST).write_text(json.dumps({"format": rundir.FORMAT}), "utf-8")
    (run / rundir.SUMMARY).write_text(summary, "utf-8")
    with opened(run, db=tmp_path / "run.duckdb") as database:
        told = [line for line in answer_text.lines(answer.answer(database)) if "without a profiler" in line]
        lost = database.rows("select 1 from source_fact where section = 'lost' and item = ?", rundir.SUMMARY)
    assert told == ([says] if says and says != "lost" else [])
    assert bool(lost) == (says == "lost")


@pytest.mark.parametrize(
    ("head", "category", "said"),
    [
        ({}, "kernel", "chrome trace"),
        ({"schemaVersion": 1}, "kernel", "torch.profiler"),
        ({}, "cpu_op", "torch.profiler"),
        ({}, "Operator", "torch.profiler"),
    ],
)
@pytest.mark.first(1)
def test_a_trace_is_torchs_where_something_in_it_says_so(
    head: dict[str, Any], category: str, said: str, tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    event = {"ph": "X", "cat": category, "name": "aten::mm", "ts": 1, "dur": 5, "pid": 1, "tid": 1}
    (tmp_path / "t.json").write_text(json.dumps(head | {"traceEvents": [event]}))
    assert json.loads(run_command("summary", tmp_path / "t.json", "--json").out)["recorder"] == said


@pytest.mark.slow
def test_who_recorded_nothing_is_told_what_to_record_with(tmp_path: Path, run_command: Callable[..., Any]) -> None:
    event = {"ph": "i", "cat": "mark", "name": "here", "ts": 1, "pid": 1, "tid": 1}
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    last = run_command("summary", tmp_path / "t.json").out.splitlines()[-1]
    assert last == "next: record with torch.profiler, activities=[CPU, CUDA]"
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": [event]}))  # which nothing shows to be torch's
    assert "holds no event of torch.profiler" in run_command("summary", tmp_path / "t.json", code=3).err


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        texts = []
        for number, chosen in enumerate(p.values[0] if hasattr(p, "values") else p for p in FILES):
            with analyze([Path(chosen)], Path(folder) / f"{number}.duckdb") as database:
                texts += said(Path(chosen), answer.answer(database))
        READ.write_text("\n".join([*texts, ""]), "utf-8")


@pytest.mark.slow
def test_on_a_cpu_what_cold_steps_compile_is_not_what_takes_the_time(
    tmp_path: Path, run_command: Callable[..., Any]
) -> None:
    """Its time is that of the warm steps, as all else that is said."""
    begin, events = 1_000, []
    for number, length in enumerate((90_000, *[10_000] * 5)):
        common = {"ph": "X", "pid": 1, "tid": 1}
        events.append(common | {"cat": "user_annotation", "name": f"step {number}", "ts": begin, "dur": length})
        events.append(common | {"cat": "cpu_op", "name": "aten::mm", "ts": begin + 10, "dur": 6_000})
        if number == 0:
            events.append(common | {"cat": "cpu_op", "name": "aten::compile", "ts": begin + 7_000, "dur": 80_000})
        begin += length + 10
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}), "utf-8")
    said = run_command("summary", tmp_path / "trace.json").out
    assert "5 warm steps" in said and "aten::compile" not in said
    found = json.loads(run_command("summary", tmp_path / "trace.json", "--json").out)["ranges"]
    assert [(row["path"], row["self_wall_ns"], round(row["open_frac"], 2)) for row in found] == [
        ("aten::mm", 30_000_000, 0.6), ("step", 20_000_000, 1.0),
    ]  # fmt: skip
