"""The GPUs that an export lists, and what CUDA calls them."""

from typing import NamedTuple

from .nsys_processes import pid_of
from .nsys_tables import Export


class Device(NamedTuple):
    """A GPU: nsys' number for it, CUDA's, and what is known of it."""

    gpu_id: object
    ordinal: object
    name: object
    memory_bytes: object
    sm_cnt: object


def devices(export: Export) -> list[Device]:
    """The GPUs of an export, of one of several processes those that it uses.

    TARGET_INFO_GPU.id is no CUDA ordinal: TARGET_INFO_CUDA_DEVICE (schema 3.17.2 and later) maps it, before that
    cuDevice does where it is filled and distinct.
    """
    has = export.columns.get("TARGET_INFO_GPU", {})
    key = next((has[name] for name in ("id", "deviceid") if name in has), None)  # the latter in exports of 2020
    if key is None or "name" not in has:
        return []
    optional = [f'"{has[c]}"' if c in has else "null" for c in ("cudevice", "totalmemory", "smcount")]
    gpus = export.select(f'select "{key}", name, {", ".join(optional)} from TARGET_INFO_GPU order by 1')
    known = export.columns.get("TARGET_INFO_CUDA_DEVICE", {})
    if {"gpuid", "cudaid"} <= known.keys():
        own = (
            f" where {known['pid']} = {pid_of(export.process)}" if export.process is not None and "pid" in known else ""
        )
        # of GPUs that several processes call the same the first
        ordinals = dict(export.select(f"select cudaId, min(gpuId) from TARGET_INFO_CUDA_DEVICE{own} group by cudaId"))
        by_id = {gpu[0]: gpu for gpu in gpus}
        return [
            Device(gpu, ordinal, *(by_id[gpu][n] for n in (1, 3, 4)))
            for ordinal, gpu in ordinals.items()
            if gpu in by_id
        ]
    listed = [g[2] for g in gpus]
    if None in listed or len(set(listed)) < len(listed):
        listed = list(range(len(gpus)))
    return [Device(g[0], ordinal, g[1], g[3], g[4]) for ordinal, g in zip(listed, gpus, strict=True)]
