"""Batches for each adapter, the same whatever the mode and whoever else trains.

An adapter's sequences follow from the seed and the adapter's name, so that adding or removing another one changes
nothing. Batches are right-padded; labels are IGNORED where a token is padding.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from ...errors import InputError
from ..settings.spec import RunSpec
from . import conversations, packing
from . import records as of_files

IGNORED = -100  # the label that cross_entropy leaves out
_LOGNORMAL = -0.7, 0.5  # of length / longest: a median of half the longest, as in instruction data


@dataclass(frozen=True)
class Batch:
    """Sequences of one or more adapters: input_ids, attention_mask and labels are [rows, length] int64 tensors.

    For classifiers labels is [rows]. position_ids is there for packed rows alone (packing.py).
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    labels: torch.Tensor
    position_ids: torch.Tensor | None = None

    def to(self, device: torch.device, non_blocking: bool = True) -> "Batch":
        """The batch on a device; from pinned memory the copy may still be running when this returns."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pinned(self) -> "Batch":
        """The batch in pinned memory, from which a copy to a GPU does not make the CPU wait."""
        return self._each(lambda tensor: tensor.pin_memory())

    def __reduce__(self) -> tuple[Any, ...]:
        """Between processes as plain arrays: torch would open a socket for each tensor, which takes milliseconds."""
        tensors = (self.input_ids, self.attention_mask, self.labels, self.position_ids)
        return _of_arrays, tuple(None if tensor is None else tensor.numpy() for tensor in tensors)

    def tensors(self) -> list[torch.Tensor]:
        """What it is made of."""
        found = (self.input_ids, self.attention_mask, self.labels, self.position_ids)
        return [tensor for tensor in found if tensor is not None]

    def _each(self, do: Callable[[torch.Tensor], torch.Tensor]) -> "Batch":
        positions = None if self.position_ids is None else do(self.position_ids)
        return Batch(do(self.input_ids), do(self.attention_mask), do(self.labels), positions)

    def inputs(self) -> dict[str, torch.Tensor]:
        """What a model takes: of packed rows the positions, which say what a token may see."""
        if self.position_ids is not None:
            return {"input_ids": self.input_ids, "position_ids": self.position_ids}
        return {"input_ids": self.input_ids, "attention_mask": self.attention_mask}

    def padded(self, multiple: int) -> "Batch":
        """The same with sequences as long as the next multiple."""
        missing = -self.input_ids.shape[1] % multiple
        if not missing or self.labels.ndim == 1:
            return self
        padding = ((self.input_ids, 0), (self.attention_mask, 0), (self.labels, IGNORED))
        return Batch(*(F.pad(tensor, (0, missing), value=value) for tensor, value in padding))

    def looked_at(self) -> int:
        """How long the sequence is that a token is in, on average of tokens, padding included."""
        if self.position_ids is None:
            return self.input_ids.shape[1]
        lengths = torch.cat([row.bincount() for row in packing.borders_of(self.position_ids)])
        return round(float((lengths * lengths).sum() / lengths.sum()))

    @property
    def rows(self) -> int:
        """Number of sequences."""
        return len(self.input_ids)

    def part(self, start: int, stop: int) -> "Batch":
        """Some of its rows, padded as before."""
        return self._each(lambda tensor: tensor[start:stop])

    def loss_cnt(self) -> int:
        """How many losses its mean is over: of tokens that have a label and one before them, or of rows."""
        return len(self.labels) if self.labels.ndim == 1 else int((self.labels[:, 1:] != IGNORED).sum())

    def tokens(self) -> tuple[int, int, int]:
        """(computed, non-padding, trained) tokens of a batch on the CPU; trained ones are those that a loss is of."""
        return self.input_ids.numel(), int(self.attention_mask.sum()), self.loss_cnt()


def _of_arrays(*arrays: Any) -> Batch:
    ids, mask, labels, positions = (None if array is None else torch.from_numpy(array) for array in arrays)
    assert ids is not None and mask is not None and labels is not None
    return Batch(ids, mask, labels, positions)


def joined(batches: Sequence[Batch]) -> Batch:
    """The union batch: rows of one after rows of the other, padded to the longest."""
    if len(batches) == 1:
        return batches[0]
    longest = max(b.input_ids.shape[1] for b in batches)

    def pad(tensor: torch.Tensor, value: int) -> torch.Tensor:
        return torch.nn.functional.pad(tensor, (0, longest - tensor.shape[1]), value=value)

    def positions(batch: Batch) -> torch.Tensor:
        assert batch.position_ids is not None
        padding = torch.arange(longest - batch.position_ids.shape[1]).expand(batch.rows, -1)
        return torch.cat([batch.position_ids, padding], 1)

    return Batch(
        torch.cat([pad(b.input_ids, 0) for b in batches]),
        torch.cat([pad(b.attention_mask, 0) for b in batches]),
        torch.cat([pad(b.labels, IGNORED) for b in batches]),
        None if batches[0].position_ids is None else torch.cat([positions(b) for b in batches]),
    )


@dataclass(frozen=True)
class Source:
    """Where sequences come from: the spec's data, for a model with so many words and, if a classifier, classes."""

    spec: RunSpec
    vocabulary: int
    classes: int | None = None
    tokenizer: Any = None
    why_no_tokenizer: str = ""  # of a checkpoint that should have one; without a reason bytes stand for words
    notes: list[str] = field(default_factory=list)  # what was left out of the data, to be told
    _read: list[list[tuple[list[int], Any]]] = field(default_factory=list)

    def stream(self, adapter: str, rows: int) -> "Stream":
        """The batches of one adapter."""
        if self.spec.data != "synthetic" and not self._read:  # once for all adapters
            self._read.append(self._examples(Path(self.spec.data)))
        return Stream(self, adapter, rows, self._read[0] if self._read else None)

    def _examples(self, path: Path) -> list[tuple[list[int], Any]]:
        records = of_files.read_jsonl(path) if path.is_file() else _read_dataset(path)
        read = [self._example(r, f"{path}, record {number + 1}") for number, r in enumerate(records)]
        found = [e for e in read if e and (self.classes is not None or any(label != IGNORED for label in e[1][1:]))]
        if not found and not any(read):
            raise InputError(f"{path} holds no sequences of at least 2 tokens")
        if not found:
            raise InputError(
                f"{path}: no answer begins within --seq-len {self.spec.seq_len}; raise it, or --train-on all"
            )
        if late := sum(map(bool, read)) - len(found):
            self.notes.append(
                f"{late} of {len(read)} records of {path} are left out: no answer begins within --seq-len "
                f"{self.spec.seq_len}"
            )
        return found

    def _example(self, record: Any, where: str) -> tuple[list[int], Any] | None:
        of_files.check_object(record, where)
        ids: Any = record.get("input_ids")
        if ids is None:
            return self._from_text(record, where)
        if not _are_tokens(ids, self.vocabulary):
            raise InputError(
                f"{where}: input_ids must be a list of whole numbers below the vocabulary of {self.vocabulary}"
            )
        ids = ids[: self.spec.seq_len]
        if self.classes is not None:
            return (ids, self._class(record, where)) if ids else None
        return (ids, self._labels(record, ids, where)) if len(ids) > 1 else None

    def _from_text(self, record: dict[str, Any], where: str) -> tuple[list[int], Any] | None:
        text = conversations.text_of(record, self.tokenizer, where)
        if text is None:
            raise of_files.unknown(where)
        if self.why_no_tokenizer:
            raise InputError(
                f"{where} is text, and --model {self.spec.model} cannot read it: {self.why_no_tokenizer}; save the "
                "tokenizer into its folder (tokenizer.save_pretrained), or give records with input_ids"
            )
        words = conversations.tokenise(text, self.tokenizer, self.vocabulary, self.spec.seq_len)
        if self.classes is not None:
            return (words.ids, self._class(record, where)) if words.ids else None
        is_all = self.spec.train_on == "all"
        labels = [i if is_all or own else IGNORED for i, own in zip(words.ids, words.is_answer, strict=True)]
        return (words.ids, labels) if len(words.ids) > 1 else None

    def _class(self, record: dict[str, Any], where: str) -> int:
        label = record.get("label")
        if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < (self.classes or 0):
            raise InputError(f"{where}: label must be a class below {self.classes}, not {label!r}")
        return label

    def _labels(self, record: dict[str, Any], ids: list[int], where: str) -> list[int]:
        labels = record.get("labels")
        labels = ids if labels is None else labels
        if not _are_tokens(labels, self.vocabulary, (IGNORED,)):
            raise InputError(
                f"{where}: labels must be a list of whole numbers below the vocabulary of {self.vocabulary}, or "
                f"{IGNORED}"
            )
        labels = labels[: self.spec.seq_len]
        if len(labels) != len(ids):
            raise InputError(f"{where}: labels and input_ids differ in length")
        if all(label == IGNORED for label in labels[1:]):  # the first is nobody's next token
            raise InputError(
                f"{where} has nothing to train: all its labels within --seq-len {self.spec.seq_len} are {IGNORED}; "
                "leave it out or raise --seq-len"
            )
        return labels


def _are_tokens(values: Any, vocabulary: int, others: tuple[int, ...] = ()) -> bool:
    return isinstance(values, list) and all(
        type(value) is int and (0 <= value < vocabulary or value in others) for value in values
    )


class Stream:
    """The batches of one adapter; each call of next() gives the following one, for ever."""

    def __init__(self, source: Source, adapter: str, rows: int, examples: list[tuple[list[int], Any]] | None):
        self._source, self._rows, self._examples = source, rows, examples
        self._random = torch.Generator().manual_seed(source.spec.seed * 1_000_003 + zlib.crc32(adapter.encode()))
        self._order: list[int] = []
        self._held: list[packing.Sequence] = []  # what did not fit into the last row

    def skip(self) -> None:
        """Go on as if the next batch had been made."""
        self._packed() if self._source.spec.packing else self._drawn()

    def _packed(self) -> list[list[packing.Sequence]]:
        return packing.fill(self._draw, self._rows, self._source.spec.seq_len, self._held)

    def _drawn(self) -> list[tuple[list[int], Any]]:
        return [self._draw() for _ in range(self._rows)]

    def next(self) -> Batch:
        """The next batch, on the CPU."""
        if self._source.spec.packing:
            return Batch(*packing.tensors(self._packed(), IGNORED))
        drawn = self._drawn()
        longest = max(len(ids) for ids, _ in drawn)
        ids = torch.zeros(self._rows, longest, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        labels = torch.full_like(ids, IGNORED)
        for row, (words, label) in enumerate(drawn):
            ids[row, : len(words)] = torch.tensor(words)
            mask[row, : len(words)] = 1
            if self._source.classes is None:
                labels[row, : len(words)] = torch.tensor(label)
        if self._source.classes is not None:
            labels = torch.tensor([label for _, label in drawn])
        return Batch(ids, mask, labels)

    def _draw(self) -> tuple[list[int], Any]:
        if self._examples is not None:
            if not self._order:
                self._order = torch.randperm(len(self._examples), generator=self._random).tolist()
            return self._examples[self._order.pop()]
        words = torch.randint(self._source.vocabulary, (self._length(),), generator=self._random).tolist()
        if self._source.classes is None:
            return words, words
        return words, int(torch.randint(self._source.classes, (), generator=self._random))

    def _length(self) -> int:
        longest = self._source.spec.seq_len
        if self._source.spec.lengths == "fixed":
            return longest
        if self._source.spec.lengths == "uniform":
            return int(torch.randint(2, longest + 1, (), generator=self._random))
        mean, deviation = _LOGNORMAL
        drawn = torch.randn((), generator=self._random) * deviation + mean
        return max(2, min(longest, int(drawn.exp() * longest)))


def _read_dataset(path: Path) -> list[Any]:
    """A folder that datasets' save_to_disk wrote: its Arrow files hold everything needed."""
    import pyarrow as pa

    records: list[Any] = []
    for file in of_files.dataset_files(path):
        try:
            with pa.OSFile(str(file)) as stream, pa.ipc.open_stream(stream) as reader:
                records += reader.read_all().to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"cannot read --data {file}: {error}") from error
    return records
