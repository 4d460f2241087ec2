"""How a process that reads a trace keeps its memory: what is freed is used again instead of being fetched anew.

Arrays of a trace are tens of megabytes. By default glibc gives each back to the system when it is freed, Arrow brings
an allocator of its own that shares nothing with numpy's, and numpy asks for huge pages, which the system must clear
(and a virtual machine find) whole. Together that took a fifth of the time of reading a million kernels.
"""

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_KEPT_BYTES = 128 << 20
_LARGEST_KEPT = 1 << 30


def keep_freed_memory() -> None:
    """Set it for this process and those that it starts; before numpy and pyarrow are imported, or it does little.

    What the user has set in the environment stays. Nothing happens where the C library is another one.
    """
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if sys.platform == "linux" and not any(name.startswith("MALLOC_") for name in os.environ):
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
            mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT)
