"""A .duckdb that somebody else made: its views are not run, its tables are tables, SQL reaches no other file."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import opened
from lorabench.errors import InputError, UnknownFormatError, UsageError


@pytest.fixture(scope="module")
def made(synthetic_trace: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "theirs.duckdb"
    opened(synthetic_trace("nsys"), db=path).close()
    return path


@pytest.fixture
def theirs(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "theirs.duckdb"))


def edited(path: Path, *statements: str) -> Path:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


@pytest.mark.parametrize("name", ["range_summary", "source", "lorabench", "set_work"])
@pytest.mark.parametrize("command", ["analyze -o r.csv", "analyze -o all/", "report -o p.html", "validate", "query"])
@pytest.mark.first(2)
def test_views_of_others_read_no_file(
    theirs: Path, tmp_path: Path, name: str, command: str, run_here: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text("the-secret")
    kind = "view" if name == "range_summary" else "table"
    edited(
        theirs,
        f"alter {kind} {name} rename to hidden",
        f"create view {name} as select hidden.*, content from hidden, read_text('{tmp_path / 'secret.txt'}')",
    )
    first, *options = command.split()
    statement = [f"select * from {name}"] if first == "query" else []
    done = run_here(first, theirs, *statement, *options)
    assert "the-secret" not in done.stdout + done.stderr
    made = [path for path in tmp_path.rglob("*") if path.suffix in (".csv", ".html")]
    assert not any("the-secret" in path.read_text() for path in made)
    # a view of that name is not looked at, ours is; a table that is a view is no table of ours
    assert done.returncode == (0 if name == "range_summary" else 3), done.stderr


def test_views_and_functions_of_others_are_not_run(theirs: Path, tmp_path: Path) -> None:
    with opened(theirs) as database:
        expected = database.view("kernel_summary").to_dicts()
    edited(
        theirs,
        "create or replace view kernel_summary as select string_agg(repeat('x', 1000000)) from range(10000000)",
        "create or replace macro sample_stddev(x) as error('of others')",
        "create view mine as select 42 as answer",
    )
    with opened(theirs) as database:
        assert database.view("kernel_summary").to_dicts() == expected
        assert database.query("from mine").rows() == [(42,)], "views of other names are the owner's"


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("drop table lorabench", UnknownFormatError),
        ("update lorabench set schema_version = 1", InputError),
        ("drop table set_work cascade", InputError),
        ("alter table gpu_op drop column start_ns", InputError),
        ("alter table gpu_op alter column start_ns type varchar", InputError),
    ],
)
@pytest.mark.first(3)
def test_other_tables_are_refused_in_a_line(
    statement: str, error: type[Exception], theirs: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.duckdb"  # without views, which would hold their tables
    with duckdb.connect(str(copy)) as connection:
        connection.execute(f"attach '{theirs}' as old")
        for (name,) in connection.execute(
            "select table_name from duckdb_tables() where database_name = 'old'"
        ).fetchall():
            connection.execute(f'create table "{name}" as from old.main."{name}"')
        connection.execute(statement)
    with pytest.raises(error) as raised:
        opened(copy).close()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "statement",
    [
        "copy (select 1) to 'made.csv'",
        "select * from read_text('/etc/hostname')",
        "from glob('/etc/*')",
        "attach 'made.duckdb'",
        "call enable_logging('QueryLog', storage='file', storage_path='made')",
        "from enable_logging(storage='file', storage_path='made')",
        "set enable_external_access = true",
        "install httpfs",
        "pragma database_size",
        "drop table gpu_op",
        "select 1; select 2",
        "",
    ],
)
@pytest.mark.first(8)
@pytest.mark.slow
def test_a_query_is_a_select_and_touches_no_file(statement: str, theirs: Path, tmp_path: Path) -> None:
    with opened(theirs) as database, pytest.raises(UsageError) as raised:
        database.query(statement)
    assert "one select" in str(raised.value) or "cannot access other files" in str(raised.value)
    assert not list(tmp_path.glob("made*"))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("interval 1 day", "1 day"),
        ("'a'::blob", "a"),
        ("'101'::bit", "101"),
        ("[1, 2]", "[1, 2]"),
        ("{'a': 1}", '{"a": 1}'),
        ("date '9999-12-31'", "9999-12-31"),
        ("union_value(a := 1)", "1"),
        ("'infinity'::timestamp", "infinity"),
    ],
)
@pytest.mark.first(3)
@pytest.mark.slow
def test_values_of_every_type_are_printed(
    expression: str, text: str, theirs: Path, run_command: Callable[..., Any]
) -> None:
    statement = f"select {expression} as x"
    assert run_command("query", theirs, statement).out.split("\n")[1].strip() == text
    (row,) = csv.DictReader(run_command("query", theirs, statement, "--csv").out.splitlines())
    assert row["x"] == text
    (found,) = json.loads(run_command("query", theirs, statement, "--json").out)
    assert found["x"] in (text, [1, 2], {"a": 1})


@pytest.mark.slow
def test_a_database_is_never_an_address(
    theirs: Path, tmp_path: Path, run_here: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB would load an extension for a name that begins with md: or quack:."""
    monkeypatch.chdir(tmp_path)
    for prefix in ("md:", "motherduck:", "http:", "s3:"):
        odd = theirs.with_name(f"{prefix}x.duckdb")
        odd.hardlink_to(theirs)
        done = run_here("query", odd.name, "select 1 as one", "--csv")
        assert (done.returncode, done.stdout) == (0, "one\n1\n"), done.stderr
