"""Memory as NVIDIA's management library counts it, as nvidia-smi shows it. Needs no package, only the driver."""

import ctypes
import functools
from typing import Any

_OK = 0


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def used_bytes(uuid: str) -> int | None:
    """Memory in use on the GPU with this UUID, of all processes; None where the library or the GPU is not to be had."""
    library = _library()
    if library is None:
        return None
    name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
    handle, memory = ctypes.c_void_p(), _Memory()
    if library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle)) != _OK:
        return None
    if library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != _OK:
        return None
    return int(memory.used)


@functools.cache
def _library() -> Any:
    """The library, ready; None without one."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return library if library.nvmlInit_v2() == _OK else None
