"""The house rules: who imports whom, what is documented, what stays small."""

import ast
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import metadata
from itertools import takewhile
from pathlib import Path

import lorabench
import pytest
from caches import cache_in
from conftest import ROOT
from lorabench import sql, vocabulary
from lorabench.analyze.attribute import critical_path
from lorabench.reports.tables import schema

PACKAGE = Path(lorabench.__file__).parent
VIEWS = [f for f in sql.load() if f.folder == sql.REPORTS]


def test_imports_keep_their_direction() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--config", ROOT / "pyproject.toml", "--no-cache"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def _modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_help_loads_nothing_heavy() -> None:
    loaded = _modules_after("import lorabench.cli")
    assert not loaded & {"duckdb", "numpy", "polars", "pyarrow", "plotly", "torch"}


@pytest.mark.parametrize("format", ["nsys", "kineto"])
def test_analyze_loads_nothing_that_it_does_not_need(
    format: str, synthetic_trace: Callable[..., Path], tmp_path: Path
) -> None:
    """Of pyarrow.compute, which takes a twentieth of a small file's time to load, it needs a few functions."""
    trace = synthetic_trace(format)
    loaded = _modules_after(
        f"import lorabench; lorabench.open({str(trace)!r}, db={str(tmp_path / 'x.duckdb')!r}).close()"
    )
    assert not loaded & {"torch", "plotly", "polars", "pandas", "typer", "pyarrow.compute"}


@pytest.mark.slow
def test_an_unchanged_input_is_answered_without_arrays(
    synthetic_trace: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing them takes longer than all the rest, and what fills views by arrays is not asked by a report."""
    monkeypatch.setenv("XDG_CACHE_HOME", cache_in(tmp_path))
    words = ["lorabench", "analyze", str(synthetic_trace("nsys")), "-o", str(tmp_path / "report.csv"), "--quiet"]
    code = f"import contextlib, sys\nsys.argv = {words!r}\nfrom lorabench.__main__ import main\n"
    code += "with contextlib.suppress(SystemExit):\n    main()"
    assert "numpy" in _modules_after(code)
    assert not _modules_after(code) & {"numpy", "pyarrow", "polars"}


@pytest.mark.parametrize("view", VIEWS, ids=lambda v: v.name)
@pytest.mark.first(1)
def test_a_header_says_what_the_view_returns(
    view: sql.SqlFile, database_of: Callable, synthetic_trace: Callable
) -> None:
    rows = database_of(synthetic_trace("nsys")).rows(f"describe select * from {view.name}")
    assert [(c.name, c.type.upper()) for c in view.columns] == [(name, kind) for name, kind, *_ in rows]


def test_headers_of_private_views_say_what_they_return(database_of: Callable, synthetic_trace: Callable) -> None:
    database = database_of(synthetic_trace("nsys"))
    for view in (view for folder in (sql.MODEL, sql.SHOWN, sql.COMPARED) for view in sql.in_folder(folder)):
        found = [name for name, *_ in database.rows(f"describe select * from {view.name}")]
        assert [column.name for column in view.columns] == found, view.name


@pytest.mark.parametrize(
    "rule", [*sql.in_folder(sql.FINDINGS), *sql.in_folder(sql.MEMORY_FINDINGS)], ids=lambda r: r.name
)
def test_a_rule_says_what_to_do(rule: sql.SqlFile) -> None:
    """In a paragraph for programs with torch, and perhaps another for those without: both are said as they are."""
    advice, *elsewhere = rule.method.split("\n\n")
    assert len(advice) > 40 and all(text.startswith("Without torch: ") for text in elsewhere)


def test_every_sql_file_begins_with_what_it_is() -> None:
    for file in sql.load():
        assert file.row


def test_units_are_in_the_names() -> None:
    plain = {
        "bytes",
        "call_api_start_time",
        "call_api_end_time",
        "kernel_start_time",
        "kernel_end_time",
        "stddev_bytes",
        "bin",
        "apart",
        "fixed",
        "measured",
        "per_adapter",
        "token_per_s",  # launch_cost: in the unit of its measure
        "flop",
        "flop_s",
        "bytes_s",
        "step",
        "stage",
        "event_number",
        *("value_sum", "value_mean", "value_min", "value_max"),  # of counters, whose names have units
    }
    for view in VIEWS:
        for column in view.columns:
            if column.type in ("bigint", "double"):
                assert column.name in plain or re.search(
                    r"(_ns|_bytes|_bytes_s|_hz|_cnt|_frac|_id|pid|tid|sequence_number)$", column.name
                ), f"{view.name}.{column.name} has no unit"


def test_the_schema_page_is_up_to_date() -> None:
    assert (ROOT / "sql" / "SCHEMA.md").read_text("utf-8") == schema.markdown(), "run `make schema`"


def test_all_sql_is_in_the_installed_package() -> None:
    inside = {p.relative_to(PACKAGE / "sql") for p in (PACKAGE / "sql").glob("[0-9]*/**/*.*")}
    assert inside == {p.relative_to(ROOT / "sql") for p in (ROOT / "sql").glob("[0-9]*/**/*.*")}


def test_the_installed_package_has_the_modules_of_the_checkout_and_no_others() -> None:
    rooms = ("analyze", "collect", "reports", "sql")
    here = {p.relative_to(ROOT) for room in rooms for p in (ROOT / room).rglob("*.py")}
    here |= {p.relative_to(ROOT) for p in ROOT.glob("*.py") if p.name != "setup.py"}
    inside = {p.relative_to(PACKAGE) for p in PACKAGE.rglob("*.py")}
    assert {p for p in inside if p.parts[0] in rooms or len(p.parts) == 1} - {Path("setup.py")} == here


def test_the_package_says_whose_licences_it_carries() -> None:
    about = metadata("lorabench")
    assert about["License-Expression"] == "Apache-2.0 AND MIT"
    assert set(about.get_all("License-File") or ()) == {"LICENSE", "reports/page/vendor/plotly-basic.LICENSE"}


def test_the_package_shows_what_it_offers_and_not_what_it_is_made_of() -> None:
    assert set(lorabench.__all__) <= set(dir(lorabench))
    assert [name for name in dir(lorabench) if not name.startswith("__") and name not in lorabench.__all__] == []


def test_the_page_of_the_package_refers_to_nothing_that_only_the_repository_has() -> None:
    page = str(metadata("lorabench").get_payload())
    assert page.startswith("# lorabench\n")
    assert re.findall(r"\]\((?!https?:)[^)]*\)|<!--.*-->|\(how\)|\b(?:above|below)\b.*(?:shows?|picture)", page) == []
    captions = re.findall(r"!\[[^]]*\]\([^)]*\)\n(\*.*\*)", (ROOT / "README.md").read_text("utf-8"))
    assert captions
    assert not [caption for caption in captions if caption in page]


def test_sql_spells_the_words_of_the_vocabulary() -> None:
    text = "\n".join(f.statement for f in sql.load())
    for word in (*vocabulary.RANGE_KINDS, *vocabulary.OP_KINDS, *vocabulary.RULES, *vocabulary.PHASES):
        assert f"'{word}'" in text, word


def test_enums_have_the_words_of_the_vocabulary() -> None:
    enums = {(t.name, c.name): c.sql_type for t in sql.in_folder(sql.TABLES) for c in t.columns if c.type == "enum"}
    words = {
        ("gpu_op", "kind"): vocabulary.OP_KINDS,
        ("range", "kind"): vocabulary.RANGE_KINDS,
        ("range", "style"): ("PushPop", "StartEnd", "Complete"),
        ("reach", "rule"): vocabulary.RULES,
        ("critical_segment", "kind"): critical_path.KINDS,
        ("collective", "found_by"): vocabulary.COLLECTIVES_FOUND_BY,
        ("collective", "operation"): vocabulary.COLLECTIVES,
        ("matched_collective", "matched_by"): vocabulary.MATCHED_BY,
    }
    assert {place: literal.removeprefix("enum") for place, literal in enums.items()} == {
        place: f"({', '.join(map(sql.literal, values))})" for place, values in words.items()
    }


def test_files_and_functions_stay_small() -> None:
    for path in PACKAGE.rglob("*.py"):
        if {"tests", "fixtures", "benchmarks"} & set(path.parts) or "site-packages" in path.relative_to(PACKAGE).parts:
            continue
        lines = path.read_text("utf-8").splitlines()
        assert len(lines) <= 450, path
        assert lines[0].startswith('"""'), f"{path} does not say what it is for"
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, f"{path}: {node.name}"


def test_no_module_counts_on_another_to_load_a_part_of_arrow() -> None:
    """`pa.compute` is there where something else has loaded it, and then again not: its functions are named."""
    for path in PACKAGE.rglob("*.py"):
        if not {"tests", "site-packages"} & set(path.relative_to(PACKAGE).parts):
            assert not re.search(r"\bpa\.compute\b", path.read_text("utf-8")), path


def test_error_codes_are_those_of_the_docstring() -> None:
    from lorabench import errors

    for line in errors.__doc__.splitlines():
        if match := re.match(r"\W*(\w+Error)\s+(\d)\s", line):
            assert getattr(errors, match[1]).exit_code == int(match[2])


def test_nothing_names_the_machine_it_was_made_on() -> None:
    for path in ROOT.rglob("*"):
        if path.suffix in (".py", ".sql", ".md", ".toml", ".csv", ".json") and ".venv" not in path.parts:
            assert not re.search(r"/(root|home)/\w", path.read_text("utf-8")), path


@pytest.mark.parametrize("path", sorted((ROOT / "fixtures").glob("*.*")), ids=lambda p: p.name)
def test_fixtures_name_no_paths_of_the_machine(path: Path) -> None:
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    assert path.suffix == ".py" or not re.search(rb"/(root|home|tmp|work|Users)/\w", content)


def test_what_the_kind_of_a_file_decides_is_said_in_one_place() -> None:
    """So a reader of another format is a recipe: the macros kind_*, and what is about one format alone."""
    of_one_format = {"upgrades.py", "sources.py", "page.py", "vocabulary.py", "_steady_time.sql"}
    word = re.compile(r"'(nsys|kineto|snapshot)'|\bSOURCE_(NSYS|KINETO|SNAPSHOT)\b")
    files = [*(ROOT / "sql").rglob("*.sql"), *(ROOT / "analyze").rglob("*.py"), *(ROOT / "reports").rglob("*.py")]
    found = {
        path.name
        for path in files
        if any(word.search(line) for line in path.read_text("utf-8").splitlines() if not line.startswith("--"))
    }
    assert {name for name in found if not name.startswith("kind_")} - of_one_format == {"ingest.py"}


def test_staging_files_say_what_they_need() -> None:
    """Tables that a reader makes first, and those of the model."""
    for file in sql.in_folder(sql.STAGING):
        lines = [line.partition("--")[0] for line in file.text.splitlines() if not line.startswith("--")]
        body = "\n".join(lines)
        own = set(re.findall(r"\b(\w+) as (?:materialized )?\(\s*(?:select|from|with|values)", body))
        read = set(re.findall(r"(?<!distinct )\b(?:from|join)\s+(\w+)\b(?!\s*\()", body)) - own
        comments = takewhile(lambda line: line.startswith("--"), file.text.splitlines())
        header = " ".join(line.removeprefix("--").strip() for line in comments)
        said = header.partition("needs: ")[2].partition(" given: ")[0]
        assert [name for name in said.split(", ") if name] == sorted(read), file.name


def test_statements_say_what_they_are_given() -> None:
    """What takes the place of a $parameter, by its name; of values for a ? in words."""
    for file in sql.in_folder(sql.STATEMENTS):
        header = " ".join(line.removeprefix("--").strip() for line in file.text.splitlines() if line.startswith("--"))
        given = re.sub(r"\([^)]*\)", "", header.partition("given: ")[2])
        named = set(re.findall(r"\w+", given.replace(" and ", ", ")))
        assert named == set(re.findall(r"\$(\w+)", file.statement)), file.name


def test_sql_of_more_than_a_few_lines_lies_in_a_file() -> None:
    """In Python are statements that choose rows and columns, and that fetch arrays: what something is lies in sql/."""
    asks = re.compile(r"\bselect\b.*\bfrom\b|\binsert into\b|\bupdate\b.*\bset\b|\bcreate\b.*\bas\b", re.DOTALL)
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for room in ("analyze", "collect", "reports")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.JoinedStr | ast.Constant) and (node.end_lineno or 0) - node.lineno >= 6
        and asks.search(ast.unparse(node)) and not _is_docstring(node)
    ]  # fmt: skip
    assert not found


def _is_docstring(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.col_offset in (0, 4, 8) and isinstance(node.value, str) and (
        node.value[:1].isupper()
    )  # fmt: skip
