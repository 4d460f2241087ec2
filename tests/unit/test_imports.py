"""A function that is called when a module has been imported, whoever has asked for the module before."""

import importlib
import importlib.machinery
import importlib.util
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lorabench.collect.scripts.hook.imports import AfterImport

NAME = "waited_for"


def loads(text: str) -> Callable[[Path], None]:
    """Rewrite the module, so that it can be imported or not, and try to import it."""

    def act(folder: Path) -> None:
        (folder / f"{NAME}.py").write_text(text, "utf-8")
        importlib.invalidate_caches()
        try:
            importlib.import_module(NAME)
        except ZeroDivisionError:
            assert NAME not in sys.modules

    return act


PROBES: dict[str, Callable[[Path], Any]] = {
    "find_spec": lambda _: importlib.util.find_spec(NAME),
    "get_loader": lambda _: importlib.machinery.PathFinder.find_spec(NAME),
    "iter_modules": lambda folder: list(pkgutil.iter_modules([str(folder)])),
    "an import that fails": loads("1 / 0"),
    "another module": lambda _: importlib.import_module("this_one_is_there"),
}


@given(probes=st.lists(st.sampled_from(sorted(PROBES)), max_size=4))
def test_who_only_looks_whether_a_module_is_there_uses_nothing_up(
    probes: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("modules")
    (folder / f"{NAME}.py").write_text("value = 1\n", "utf-8")
    (folder / "this_one_is_there.py").write_text("", "utf-8")
    finders, called = list(sys.meta_path), list[int]()
    sys.path.insert(0, str(folder))
    try:
        AfterImport().call(NAME, lambda module: called.append(module.value))
        for probe in probes:
            PROBES[probe](folder)
        assert not called
        loads("value = 1\n")(folder)
        assert called == [1]
        importlib.reload(sys.modules[NAME])
        assert called == [1]
    finally:
        sys.path.remove(str(folder))
        sys.meta_path[:] = finders
        for name in (NAME, "this_one_is_there"):
            sys.modules.pop(name, None)
        sys.path_importer_cache.pop(str(folder), None)
