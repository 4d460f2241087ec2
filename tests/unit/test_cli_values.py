"""Values of the command line: the same with plain types taken as they are and with a schema of typer for each."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from lorabench import cli_values
from typer import core
from typer.testing import CliRunner

WORDS = st.lists(
    st.one_of(
        st.text(st.characters(codec="utf-8", exclude_characters="\0\n\r"), max_size=6),
        st.sampled_from(["3", "-3", "007", "\u0663", "1e3", "9" * 40, "", "--number", "--least=2", "--least=0"]),
        st.sampled_from(["--each=a", "/", "/dev/null", "no/such", "--name", "--share=1.5", "--share=x", "--out=/tmp"]),
    ),
    max_size=5,
)  # fmt: skip


def made() -> typer.Typer:
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)

    @app.command()
    def told(
        paths: list[Path],
        number: Annotated[int | None, typer.Option()] = None,
        least: Annotated[int, typer.Option(min=1)] = 4,
        share: Annotated[float | None, typer.Option()] = None,
        name: Annotated[str | None, typer.Option()] = None,
        out: Annotated[Path | None, typer.Option()] = None,
        each: Annotated[list[str] | None, typer.Option()] = None,
        flag: bool = False,
    ) -> None:
        typer.echo(repr((paths, number, least, share, name, out, each, flag)))

    return app


def said(words: list[str]) -> tuple[int, str]:
    ended = CliRunner().invoke(made(), words)
    return ended.exit_code, ended.output


def both(words: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    whole = said(words)
    with monkeypatch.context() as patched:
        kept = core._TyperParameter.get_runtime_param
        patched.setattr(core._TyperParameter, "get_runtime_param", kept)  # put back at the end
        cli_values.without_schemas()
        return whole, said(words)


@given(
    words=WORDS, option=st.sampled_from(["--number", "--least", "--share", "--name", "--out", "--each"]), value=WORDS
)
@pytest.mark.slow
def test_commands_get_and_say_what_they_do_with_schemas(words: list[str], option: str, value: list[str]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for line in (words, ["a", option, *value[:1]], [*words, f"{option}={''.join(value[:1])}"]):
            whole, plain = both(line, monkeypatch)
            assert plain == whole


def test_a_path_that_cannot_be_read_is_refused_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_text("")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    whole, plain = both([str(tmp_path / "x")], monkeypatch)
    assert plain == whole and plain[0] == 2 and "not readable" in plain[1]


def test_reading_a_trace_makes_no_schema() -> None:
    trace = Path(__file__).parents[2] / "fixtures" / "lora-run.sqlite"
    program = (
        "import sys; from lorabench.__main__ import main\n"
        f"sys.argv = ['lorabench', 'analyze', {str(trace)!r}, '--report', 'kernel_summary', '--csv', '--limit', '3']\n"
        "try:\n    main()\nfinally:\n    print('pydantic' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.split()[-1] == "False"
