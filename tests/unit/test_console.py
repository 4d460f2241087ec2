"""What is told on stderr: in a terminal in lines that fit, in a pipe as it is."""

import io
import sys

import pytest
from lorabench import console

SENTENCE = "run.sqlite: missing: NVTX_EVENTS: no such table (no ranges: all GPU work is unattributed)\x1b[2J"


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_sentence_fits_a_terminal_and_is_one_line_in_a_pipe(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = io.StringIO()
    monkeypatch.setattr(told, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr", told)
    monkeypatch.setenv("COLUMNS", "40")
    console.tell_sentence(SENTENCE)
    lines = told.getvalue().splitlines()
    assert len(lines) > 1 and max(map(len, lines)) <= 40 if is_terminal else len(lines) == 1
    assert " ".join(line.strip() for line in lines) == SENTENCE.replace("\x1b", r"\x1b")


@pytest.mark.parametrize(("written", "shown"), [(b"no end", "no end\nours\n"), (b"an end\n", "an end\nours\n")])
def test_what_lorabench_says_begins_a_line(written: bytes, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    for is_error in (False, True):
        console.pass_on(is_error, written)
        console.pass_on(is_error, b"")  # its end
    console.put("ours")
    console.tell("ours")
    assert capsys.readouterr() == (shown, shown)
