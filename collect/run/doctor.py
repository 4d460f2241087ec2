"""What this machine can do, and what to do about what is missing."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ... import nsys
from ...errors import ToolError
from ..processes import nsys_profile, provenance

OK, MISSING, WARNING = "ok", "missing", "warning"

# From this driver on an nsys is needed that knows it: NVIDIA's release notes pair each CUDA with both.
_DRIVER_NEEDS_NSYS = ((580, (2025, 3)), (570, (2024, 6)), (555, (2024, 2)), (535, (2023, 2)), (525, (2022, 4)))


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: its state, what was found, and what to do (empty when nothing)."""

    what: str
    state: str
    found: str
    advice: str = ""


def examine() -> list[Finding]:
    """Look at packages, GPU, nsys and permissions; the last findings say which passes will run."""
    packages, gpu, tool = _packages(), _gpu(), _nsys()
    return [*packages, *gpu, *tool, *_permissions(), *_passes(packages, gpu, tool)]


def _packages() -> list[Finding]:
    found = []
    for name, version in provenance.versions().items():
        advice = "" if version else 'pip install "lorabench[collect]"'
        found.append(Finding(name, OK if version else MISSING, version or "not installed", advice))
    return found


def _gpu() -> list[Finding]:
    driver = provenance.driver()
    if driver is None:
        return [Finding("NVIDIA driver", WARNING, "none", "runs use the CPU; for a GPU install NVIDIA's driver")]
    found = [Finding("NVIDIA driver", OK, driver)]
    try:
        import torch
    except ImportError:
        return found
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        name = torch.cuda.get_device_name(0)
        memory = torch.cuda.get_device_properties(0).total_memory / 2**30
        found.append(Finding("GPU", OK, f"{count} x {name}, {memory:.0f} GiB"))
    elif torch.version.cuda is None and torch.version.hip is None:
        found.append(
            Finding("GPU", MISSING, f"torch {torch.__version__} is a CPU build", "install a CUDA build of torch")
        )
    else:
        found.append(
            Finding("GPU", MISSING, f"torch was built for CUDA {torch.version.cuda} and sees no GPU",
                    "look at nvidia-smi and CUDA_VISIBLE_DEVICES; the driver may be older than torch's CUDA")
        )  # fmt: skip
    return found


def _nsys() -> list[Finding]:
    try:
        tool = nsys_profile.usable()
    except ToolError as error:
        advice = "download Nsight Systems, or on Debian: apt-get install nsight-systems (non-free)"
        return [Finding("nsys", MISSING, str(error).split(";")[0], advice)]
    version = nsys.version(tool)
    shown = ".".join(map(str, version))
    driver = provenance.driver()
    if driver is not None:
        major = int(driver.split(".")[0])
        needed = next((n for least, n in _DRIVER_NEEDS_NSYS if major >= least), (0,))
        if version < needed:
            wanted = ".".join(map(str, needed))
            return [
                Finding("nsys", WARNING, f"{shown} is older than driver {driver}",
                        f"it may record no CUDA; install {wanted} or later")
            ]  # fmt: skip
    return [Finding("nsys", OK, shown)]


def _permissions() -> list[Finding]:
    found = []
    try:
        level = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text("ascii"))
    except (OSError, ValueError):
        level = None
    if level is not None and level > 2:
        found.append(
            Finding(
                "perf_event_paranoid", WARNING, str(level), "nsys cannot sample the CPU; lorabench does not need it"
            )
        )
    restricted = Path("/proc/driver/nvidia/params")
    try:
        if "RmProfilingAdminOnly: 1" in restricted.read_text("utf-8") and os.geteuid() != 0:
            found.append(
                Finding("GPU counters", WARNING, "for administrators only",
                        "traces work; metrics need NVreg_RestrictProfilingToAdminUsers=0")
            )  # fmt: skip
    except OSError:
        pass
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    found.append(Finding("disk", OK if free > 5 else WARNING, f"{free:.0f} GiB free", "" if free > 5 else "make room"))
    return found


def _passes(packages: list[Finding], gpu: list[Finding], tool: list[Finding]) -> list[Finding]:
    needed = {f.what: f for f in packages}
    can_train = all(needed[n].state == OK for n in ("torch", "transformers", "peft"))
    device = "on the GPU" if any(f.what == "GPU" and f.state == OK for f in gpu) else "on the CPU"
    state, said = (OK, f"will run {device}") if can_train else (MISSING, "needs torch, transformers and peft")
    found = [Finding(f"pass {name}", state, said) for name in ("timing", "torch", "memory")]
    if not can_train or tool[0].state == MISSING:
        return [*found, Finding("pass nsys", MISSING, "will be skipped", tool[0].advice)]
    quality = "kernels and ranges" if device == "on the GPU" else "ranges, no kernels: there is no GPU"
    return [*found, Finding("pass nsys", tool[0].state, f"will record {quality}", tool[0].advice)]
