"""The receipt on top of a page: the GPU's time as one bar whose parts add up, and all that a picture of it says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

# Of the answer's parts: what people read, and whose colour it has.
PARTS = {
    "compute": ("computes", "matmul"),
    "communication": ("communicates, nothing else", "communication"),
    "rank_wait": ("waits for later ranks", "idle rank"),
    "copies": ("copies, nothing else", "copy"),
    "host": ("waits for the CPU", "idle"),
    "dependency": ("waits for other work", "idle other"),
    "in_turn": ("waits for another GPU", "idle rank"),
    "kernel_wait": ("between kernels", "idle between"),
    "idle": ("is idle", "idle"),
    "unrecorded": ("not recorded", "idle unknown"),
}


@dataclass(frozen=True)
class Part:
    """A part of the GPU's time: a share of the window."""

    name: str
    share: float
    kind: str


@dataclass(frozen=True)
class Receipt:
    """The parts, which add up to the window, and all that a picture of the receipt says."""

    parts: list[Part]
    picture: dict[str, Any]

    def worded(self, said: Callable[[str], str]) -> "Receipt":
        """The same with the words of its picture as the page says them, but for its title, which is a name."""
        words = {
            "verdict": [said(line) for line in self.picture["verdict"]],
            "cards": [[what, said(value)] for what, value in self.picture["cards"]],
            "best": said(self.picture["best"]),
        }
        return replace(self, picture=self.picture | words)


_CARD_CNT = 4


def _posted(cards: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """The cards that a picture has room for: the first ones, and how much memory it takes, which is last of all."""
    memory = [card for card in cards if card["what"].startswith("peak memory")][:1]
    return [card for card in cards if card not in memory][: _CARD_CNT - len(memory)] + memory


def receipt(
    name: str, verdict: Sequence[str], shares: dict[str, float], cards: Sequence[dict[str, str]],
    changes: Sequence[dict[str, str]],
) -> Receipt:  # fmt: skip
    """The receipt of a page; without parts where there is no GPU work."""
    parts = [Part(PARTS[part][0], share, PARTS[part][1]) for part, share in shares.items() if share > 0]
    best = changes[0] if changes else None
    picture = {
        "title": name, "verdict": list(verdict), "parts": [[part.name, part.share, part.kind] for part in parts],
        "cards": [[card["what"], card["value"]] for card in _posted(cards)],
        "best": f"{best['rule']}: {best['cost']}" if best else "",
    }  # fmt: skip
    return Receipt(parts, picture)
