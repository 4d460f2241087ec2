"""What a process of several that train together must know before it loads torch."""

import os
import sys


def environment(number: int, cnt: int) -> dict[str, str]:
    """The names are torchrun's, so profilers know the rank, too. On one machine gloo needs but the loopback."""
    found = {
        "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(cnt), "LOCAL_WORLD_SIZE": str(cnt),
    }  # fmt: skip
    if sys.platform == "linux":
        found["GLOO_SOCKET_IFNAME"] = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    if not os.environ.get("OMP_NUM_THREADS"):
        found["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 2) // 2 // cnt))
    return found
