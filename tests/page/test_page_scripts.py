"""The page's scripts: their own tests under node, and how a page carries them."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import lorabench
import pytest
from conftest import ROOT, absent
from lorabench.reports.page import assets

PAGE = Path(lorabench.__file__).parent / "reports" / "page"


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None:
        absent("node", "node is not installed")
    return str(found)


@pytest.mark.slow
def test_the_modules_hold_their_own_tests(node: str) -> None:
    tests = sorted((ROOT / "tests" / "page").glob("*.test.mjs"))
    done = subprocess.run([node, "--test", *tests], capture_output=True, text=True, check=False)
    assert len(tests) >= 3 and done.returncode == 0, done.stdout + done.stderr


def test_what_a_page_carries_is_a_script(node: str, tmp_path: Path) -> None:
    (tmp_path / "page.js").write_text(assets.own(), "utf-8")
    done = subprocess.run([node, "--check", tmp_path / "page.js"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not re.search(r"^(import|export) ", assets.own(), re.MULTILINE)


def test_every_module_is_carried_behind_those_that_it_needs() -> None:
    modules = {path.stem: path.read_text("utf-8") for path in (PAGE / "scripts").glob("*.mjs")}
    assert sorted(assets.ORDER) == sorted(modules)
    for name, text in modules.items():
        for needed in re.findall(r'from "\./(\w+)\.mjs"', text):
            assert assets.ORDER.index(needed) < assets.ORDER.index(name), f"{name} needs {needed}"


def test_the_library_is_the_one_that_was_vendored() -> None:
    told = (PAGE / "vendor" / "README.md").read_text("utf-8")
    file = PAGE / "vendor" / "plotly-basic.min.js"
    assert hashlib.sha256(file.read_bytes()).hexdigest() in told
    assert (
        f"plotly.js (basic - minified) v{re.search('[0-9]+[.][0-9]+[.][0-9]+', told)[0]}"
        in file.read_text("utf-8")[:200]
    )
    assert (PAGE / "vendor" / "plotly-basic.LICENSE").is_file()
