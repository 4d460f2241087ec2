"""What a process that reads a trace asks of the libraries below it.

Arrays of a trace are tens of megabytes. By default glibc gives each back to the system when it is freed, Arrow brings
an allocator of its own that shares nothing with numpy's, and numpy asks for huge pages, which the system must clear
(and a virtual machine find) whole. Together that took a fifth of the time of reading a million kernels. And numpy's
linear algebra, which nothing here uses, starts a thread for each core, which takes as long as all other imports.
"""

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
_KEPT_BYTES = 128 << 20
_LARGEST_KEPT = 32 << 20
_ENVIRONMENT = {
    "NUMPY_MADVISE_HUGEPAGE": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}


def tune() -> None:
    """Have this process, and those that it starts, keep what they free; numpy and pyarrow must not be loaded yet.

    What the user has set in the environment stays. Where the C library is another one, its malloc is left alone.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if sys.platform == "linux" and not any(name.startswith("MALLOC_") for name in os.environ):
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
            mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT)
            mallopt(_M_ARENA_MAX, 1)  # what the thread that reads ahead has freed, others use again
