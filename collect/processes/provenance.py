"""Where a run comes from: versions, commit, device. Nothing that names a person or a machine."""

import os
import platform
import shutil
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ...version import installed

PACKAGES = ("lorabench", "torch", "transformers", "peft", "bitsandbytes", "accelerate", "nvtx")
OPTIONAL = ("torchao", "optimum-quanto", "gptqmodel")  # named where they are installed
# What a child may see. Everything else stays out of the reports of nsys, which keep the whole environment.
_KEPT = (
    "PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "LANG", "LC_ALL", "TMPDIR", "TZ", "VIRTUAL_ENV",
    "CONDA_PREFIX", "PYTHONPATH", "HOME", "XDG_CACHE_HOME", "CC", "CXX", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE",
)  # fmt: skip
_KEPT_PREFIXES = (
    "CUDA_", "NVIDIA_", "NCCL_", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "TORCH", "PYTORCH_", "HF_", "TRITON_", "BNB_",
    "HIP_", "HSA_", "ROCR_", "ROCM_", "GPU_", "GLOO_", "TOKENIZERS_",
)  # fmt: skip
_PERSONAL = ("HOME", "USER", "LOGNAME", "HOSTNAME", "MAIL", "PWD", "OLDPWD", "SUDO_USER")
# A word of a secret's name ends so: MAX_TOKENS and TOKENIZERS_PARALLELISM are none.
_SECRET = ("TOKEN", "KEY", "KEYS", "SECRET", "PASS", "PASSWD", "PASSWORD", "CREDENTIAL", "CREDENTIALS", "AUTH")


def environment(is_recorded: bool) -> dict[str, str]:
    """The environment of a child: what libraries need. Where it is recorded (nsys), without home and secrets."""
    kept = {k: v for k, v in os.environ.items() if k in _KEPT or k.startswith(_KEPT_PREFIXES)}
    if is_recorded:
        kept = {k: v for k, v in kept.items() if k not in _PERSONAL and not _is_secret(k, v)}
    return kept


def environment_of_command(is_recorded: bool) -> dict[str, str]:
    """The environment of somebody's own command: whole, but where it is recorded without names and secrets."""
    if not is_recorded:
        return dict(os.environ)
    return {
        k: v for k, v in os.environ.items() if k not in _PERSONAL and not k.startswith("SSH_") and not _is_secret(k, v)
    }


def _is_secret(name: str, value: str) -> bool:
    """Whether a variable holds a secret: by its name, or as an address with a password in it."""
    return any(word.endswith(_SECRET) for word in name.upper().split("_")) or ("://" in value and "@" in value)


def versions() -> dict[str, str | None]:
    """Versions of Python and of the packages that matter; None for what is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in (*PACKAGES, *OPTIONAL):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            if name in PACKAGES:
                found[name] = None
    if not found["lorabench"]:
        found["lorabench"] = installed()  # run from its folder
    return found


def now() -> str:
    """The time, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def of_run(started: str) -> dict[str, Any]:
    """What a manifest says of the command, the versions and the commit of the folder that it ran in."""
    return {
        "command": ["lorabench", *sys.argv[1:]],
        "versions": versions(),
        "commit": commit(Path.cwd()),
        "started": started,
    }


def commit(folder: Path) -> str | None:
    """The commit of a folder, with '-dirty' when files differ from it; None outside a repository."""
    git = shutil.which("git")
    if git is None:
        return None
    done = subprocess.run(
        [git, "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or None


def of_device(device: Any) -> dict[str, Any]:
    """Name, memory and driver of the device that a run used."""
    import torch

    if device.type != "cuda":
        return {"type": "cpu", "name": processor(), "cpu_cnt": os.cpu_count(), "threads": torch.get_num_threads()}
    properties = torch.cuda.get_device_properties(device)
    return {
        "type": "cuda", "name": properties.name, "memory_bytes": properties.total_memory,
        "sm_cnt": properties.multi_processor_count, "capability": f"{properties.major}.{properties.minor}",
        "driver": driver(), "cuda": torch.version.cuda,
    }  # fmt: skip


def driver() -> str | None:
    """The version of NVIDIA's driver, None without one."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text("utf-8", errors="replace")
    except OSError:
        return None
    return next((word for word in text.split() if word[0].isdigit() and word.count(".") >= 1), None)


def processor() -> str:
    """The processor's name."""
    lines = _cpuinfo().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def has_bfloat16() -> bool | None:
    """Whether the processor multiplies in bfloat16 (others convert, which is slower); None where nothing says so."""
    words = set(_cpuinfo().split())
    return bool(words & {"avx512_bf16", "amx_bf16", "bf16", "svebf16"}) if words else None


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError:
        return ""
