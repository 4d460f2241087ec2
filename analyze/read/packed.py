"""Files packed in ways that lorabench does not unpack: by what, what undoes it, and what they begin with inside."""

import bz2
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

ZIP = b"PK\x03\x04"


def _with_arrow(packer: str) -> Callable[[Path], Any]:
    def opened(path: Path) -> Any:
        import pyarrow as pa

        return pa.input_stream(str(path), compression=packer)

    return opened


# How a file begins, the packer, what unpacks it, and what looks into it here. JSON and snapshots are read from gzip.
_PACKERS: tuple[tuple[bytes, str, str, Callable[[Path], Any] | None], ...] = (
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -d", _with_arrow("zstd")),
    (b"\xfd7zXZ\x00", "xz", "xz -dk", lzma.LZMAFile),
    (b"BZh", "bzip2", "bzip2 -dk", bz2.BZ2File),
    (ZIP, "zip", "unzip", None),
    (b"7z\xbc\xaf\x27\x1c", "7z", "7z x", None),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -d", _with_arrow("lz4")),
)


def advice(head: bytes) -> str:
    """How a file that begins so is packed and what unpacks it; "" where it is not."""
    for signature, packer, command, _ in _PACKERS:
        if head.startswith(signature):
            return f"packed with {packer}; unpack it first: `{command}`"
    return ""


def start(path: Path, size: int) -> bytes:
    """The first bytes of what is packed; none where it cannot be looked into here, or is damaged."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
        for signature, _, _, opened in _PACKERS:
            if head.startswith(signature) and opened is not None:
                with opened(path) as unpacked:
                    return bytes(unpacked.read(size))
    except (OSError, EOFError, lzma.LZMAError, ValueError):
        pass
    return b""
