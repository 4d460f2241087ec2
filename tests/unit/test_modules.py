"""What lorabench starts is lorabench, also in the folder above a checkout of that name."""

import subprocess
from pathlib import Path

import pytest
from lorabench import modules


def test_a_checkout_in_the_current_folder_is_not_taken_for_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lorabench").mkdir()
    (tmp_path / "lorabench" / "__init__.py").write_text("raise SystemExit('this is the checkout')")
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(modules.command("lorabench", "--version"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("lorabench ")
