"""Loaded by each Python process of a command under `lorabench collect -- COMMAND`, in place of the environment's own.

Does nothing but give lorabench's hook a name, start it, and load the sitecustomize that would have been loaded.
"""

import os
import sys
import types


def _start() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    # as if it were never there: the script finds what it would find, and its children inherit the environment
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    folder = os.environ.get("LORABENCH_HOOK")
    if folder and os.path.isdir(folder):
        package = types.ModuleType("_lorabench")
        package.__path__ = [os.path.abspath(os.path.join(here, *[os.pardir] * 4))]
        sys.modules["_lorabench"] = package
        from _lorabench.collect.scripts.hook import start

        start.begin(folder)


def _load_replaced() -> None:
    own = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if own is not None:
            sys.modules["sitecustomize"] = own


try:
    _start()
except Exception as error:  # the script goes on whatever fails here; it is said
    sys.stderr.write("lorabench: this process is not profiled (%s: %s)\n" % (type(error).__name__, error))
_load_replaced()
