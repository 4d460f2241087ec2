"""Kinds of base models that need packages or a GPU: what is missing is said, with commands that pip takes."""

import json
import shlex
from typing import Any

import pytest
from lorabench import cli_runs
from lorabench.collect.run import environments
from lorabench.collect.run.doctor import MISSING, OK
from lorabench.errors import ToolError


def test_the_command_line_knows_the_kinds() -> None:
    assert set(cli_runs._KINDS.split("|")) == set(environments.KINDS)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The versions that are installed, to be set."""
    installed: dict[str, str] = {}

    def version(name: str) -> str:
        if name not in installed:
            raise environments.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(environments, "version", version)
    monkeypatch.setattr(environments.provenance, "driver", lambda: None)
    return installed


@pytest.mark.parametrize("kind", environments.KINDS)
def test_what_is_missing_is_named_and_nothing_is_pretended(kind: str, here: dict[str, str]) -> None:
    found = environments.examine(kind)
    assert {f.state for f in found} == {MISSING}
    with pytest.raises(ToolError, match=f"--kind {kind}") as caught:
        environments.settings_of(kind)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [name for name, k in environments.KINDS.items() if not k.never])
def test_the_commands_install_everything_that_is_needed(kind: str, here: dict[str, str]) -> None:
    from packaging.requirements import Requirement

    lines = [f.advice for f in environments.examine(kind) if f.what.startswith("command ")]
    (install,) = [shlex.split(line) for line in lines if "pip install" in line]
    asked = install[install.index("install") + 1 :]
    wanted = environments.KINDS[kind]
    assert {*wanted.packages, *(wanted.pins if wanted.is_own else ())} <= set(asked)
    assert all(Requirement(requirement) for requirement in asked)
    assert lines[-1].split()[0].endswith("lorabench")


def test_a_wrong_version_is_missing(here: dict[str, str]) -> None:
    here |= {"gptqmodel": "7.7.0", "optimum": "2.3.0", "torch": "2.13.0+cpu", "transformers": "5.23.0"}
    first = next(f for f in environments.examine("gptq") if f.state == MISSING)
    assert (first.what, first.found) == ("torch>=2.14.1,<3", "2.13.0+cpu is here")
    with pytest.raises(ToolError, match=r"lacks torch>=2\.14\.1,<3; `lorabench doctor --kind gptq` prints what to do"):
        environments.settings_of("gptq")


def test_a_kind_that_is_all_there_stands_for_settings(here: dict[str, str]) -> None:
    here |= {"torchao": "0.18.0"}
    assert environments.settings_of("torchao") == {"method": "qlora", "quant": "int8wo"}
    assert {f.state for f in environments.examine("torchao")} == {OK}


def test_unsloth_on_a_cpu_lacks_a_gpu_and_with_one_is_a_script_of_ones_own(
    here: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here |= {"unsloth": "2026.10.9", "unsloth_zoo": "2026.10.9", "torch": "2.13.0", "transformers": "5.17.0"}
    here |= {"bitsandbytes": "0.50.2"}
    with pytest.raises(ToolError, match="--kind unsloth-bnb lacks NVIDIA GPU"):
        environments.settings_of("unsloth-bnb")
    monkeypatch.setattr(environments.provenance, "driver", lambda: "580.1")
    with pytest.raises(ToolError, match=r"not loaded by lorabench; profile a script .* lorabench collect -- python"):
        environments.settings_of("unsloth-bnb")


def test_the_command_line_says_it(run_command: Any) -> None:
    rows = json.loads(run_command("doctor", "--kind", "unsloth-gptq-triton", "--json").out)
    assert rows[-1]["what"] == "environment" and "no environment has both" in rows[-1]["found"]
    said = run_command("collect", "--kind", "unsloth-gptq-triton", "--dry-run", code=4)
    assert "no environment has both" in said.err
    assert "must be one of torchao" in run_command("doctor", "--kind", "gguf", code=2).err


@pytest.mark.parametrize(
    ("origin", "asked"),
    [
        (None, "lorabench[collect]"),  # from an index
        ({"url": "file:///src/lorabench", "dir_info": {}}, "lorabench[collect] @ file:///src/lorabench"),
        (
            {"url": "https://host/lorabench", "vcs_info": {"vcs": "git", "commit_id": "0123"}},
            "lorabench[collect] @ git+https://host/lorabench@0123",
        ),
    ],
)
def test_a_new_environment_gets_lorabench_from_where_this_one_came(
    origin: Any, asked: str, here: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if origin is None else json.dumps(origin)

    monkeypatch.setattr(environments, "distribution", lambda name: Installed())
    (install,) = [shlex.split(line) for line in environments.commands("gptq") if "pip install" in line]
    assert asked in install
