"""SST-2: sentences with a sentiment to train on and to validate with, from wherever they lie, and their batches.

An epoch's order follows from the seed, the adapter's name and the epoch's number. An epoch is the whole steps that the
sentences give: what is left of a last one is left out, other sentences in each epoch.
"""

import csv
import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...errors import InputError, first_line
from ..settings.spec import RunSpec
from ..settings.tasks import GLUE, WORDS
from . import words
from .data import Batch

_HELD_OUT = 10  # where there is no validation split: every so many-th sentence
_VALIDATION = ("validation", "dev", "valid", "val")
_TEXTS = ("sentence", "text")

Sentence = tuple[str, int]
Example = tuple[list[int], int]
Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class Splits:
    """Sentences as numbers of words, with their classes."""

    train: list[Example]
    validation: list[Example]
    held_out: str  # where the validation sentences come from, in words


def load(spec: RunSpec, tokenizer: Any, vocabulary: int, classes: int) -> Splits:
    """The sentences of --data. `tokenizer` is the model's own, None where it has none.

    Raises InputError for data that cannot be had, or is not as SST-2's.
    """
    train, validation, held_out = _sentences(spec, classes)
    encode = _encoder(spec, tokenizer, vocabulary)
    return Splits([(encode(s), c) for s, c in train], [(encode(s), c) for s, c in validation], held_out)


def _encoder(spec: RunSpec, tokenizer: Any, vocabulary: int) -> Encode:
    if tokenizer is not None:
        return lambda text: list(tokenizer(text, truncation=True, max_length=spec.seq_len)["input_ids"])

    def encode(text: str) -> list[int]:
        ids = words.encode(text, vocabulary)
        return ids if len(ids) <= spec.seq_len else [*ids[: spec.seq_len - 1], ids[-1]]

    try:
        encode("")
    except ValueError as error:
        raise InputError(f"--model {spec.model} has no tokenizer, and {error}") from error
    return encode


def _sentences(spec: RunSpec, classes: int) -> tuple[list[Sentence], list[Sentence], str]:
    if spec.data == WORDS:
        return *words.sentences(spec.seed), "made of the same words"
    if spec.data == GLUE:
        found = _from_the_hub()
        where: dict[str, str] = {name: f"--data glue, {name}" for name in found}
    else:
        files = _files(Path(spec.data))
        found = {name: _records(listed) for name, listed in files.items()}
        where = {name: str(listed[0]) for name, listed in files.items()}
    read = {
        name: [_sentence(record, classes, f"{where[name]}, record {n}") for n, record in enumerate(records, 1)]
        for name, records in found.items()
    }
    train, validation = read["train"], read.get("validation")
    if validation is not None:
        held_out = "a split of its own"
    else:
        held_out = f"every {_HELD_OUT}th sentence of the training data"
        train, validation = [s for n, s in enumerate(train) if n % _HELD_OUT], train[::_HELD_OUT]
    if not train or not validation:
        raise InputError(
            f"--data {spec.data} has too few sentences: {len(train)} to train, {len(validation)} to validate"
        )
    return train, validation, held_out


def _from_the_hub() -> dict[str, Iterable[Any]]:
    """GLUE's SST-2 as the package datasets loads it, from the hub or its cache."""
    try:
        import datasets

        loaded = datasets.load_dataset("glue", "sst2")
        return {name: loaded[name] for name in ("train", "validation")}
    except Exception as error:  # whatever the library of its version raises without a network
        said = first_line(error)
        raise InputError(
            f"--data glue: datasets cannot load GLUE's SST-2 ({said}); where there is a network, load_dataset('glue', "
            "'sst2').save_to_disk('sst2') leaves a folder for --data sst2; or use --data words"
        ) from error


def _files(path: Path) -> dict[str, list[Path]]:
    """The files of each split: of a folder that save_to_disk wrote, of GLUE's folder, or a file and its neighbour."""
    if path.is_file():
        beside = (path.with_name(f"{name}{path.suffix}") for name in _VALIDATION)
        validation = next((p for p in beside if p.is_file() and p != path), None) if path.stem == "train" else None
        return {"train": [path]} | ({"validation": [validation]} if validation else {})
    found: dict[str, list[Path]] = {}
    for split, names in (("train", ("train",)), ("validation", _VALIDATION)):
        for name in names:
            listed = sorted(path.glob(f"{name}/data-*.arrow")) or sorted(path.glob(f"{name}.tsv"))
            listed = listed or sorted(path.glob(f"{name}.jsonl"))
            if listed and split not in found:
                found[split] = listed
    if "train" not in found and (listed := sorted(path.glob("data-*.arrow"))):
        found["train"] = listed
    if "train" not in found:
        raise InputError(
            f"--data {path} is not a folder of sentences: neither one that datasets' save_to_disk wrote nor one with "
            "train.tsv or train.jsonl"
        )
    return found


def _records(files: list[Path]) -> list[Any]:
    readers = {".tsv": _read_tsv, ".jsonl": _read_jsonl, ".arrow": _read_arrow}
    found = []
    for file in files:
        if file.suffix not in readers:
            raise InputError(f"--data {file} is neither .tsv nor .jsonl nor a saved dataset")
        try:
            found += readers[file.suffix](file)
        except (OSError, ValueError, csv.Error) as error:  # what Arrow and JSON raise are ValueErrors
            raise InputError(f"cannot read --data {file}: {error}") from error
    return found


def _read_tsv(path: Path) -> list[Any]:
    """As GLUE ships it: a line of names, then sentence and label with a tabulator between; quotes mean nothing."""
    with path.open(encoding="utf-8", newline="") as file:
        records: list[Any] = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for record in records:
        label = record.get("label")
        record["label"] = int(label) if isinstance(label, str) and label.lstrip("-").isdigit() else label
    return records


def _read_jsonl(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def _read_arrow(path: Path) -> list[Any]:
    import pyarrow as pa

    with pa.OSFile(str(path)) as stream, pa.ipc.open_stream(stream) as reader:
        records: list[Any] = reader.read_all().to_pylist()
    return records


def _sentence(record: Any, classes: int, where: str) -> Sentence:
    record = record if isinstance(record, dict) else {}
    text, label = next((record[name] for name in _TEXTS if name in record), None), record.get("label")
    if not isinstance(text, str):
        raise InputError(f"{where} has no sentence; write it under sentence or text")
    if label == -1:
        raise InputError(f"{where} has the label -1: GLUE's test split has none; use train and validation")
    if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < classes:
        raise InputError(f"{where}: label must be a class below {classes}, not {label!r}")
    return text, label


def padded(examples: list[Example], padding: int) -> Batch:
    """A batch of sentences, filled up on the right."""
    longest = max(len(ids) for ids, _ in examples)
    ids = torch.full((len(examples), longest), padding, dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, (numbers, _) in enumerate(examples):
        ids[row, : len(numbers)] = torch.tensor(numbers)
        mask[row, : len(numbers)] = 1
    return Batch(ids, mask, torch.tensor([label for _, label in examples]))


class Epochs:
    """The training batches of one adapter, epoch after epoch, for ever."""

    def __init__(self, splits: Splits, spec: RunSpec, adapter: str, rows: int, accumulated: int, padding: int):
        """Raises InputError when the sentences do not fill one optimizer step."""
        self._examples, self._rows, self._padding = splits.train, rows, padding
        self._random = torch.Generator().manual_seed(spec.seed * 1_000_003 + zlib.crc32(adapter.encode()))
        self.steps_per_epoch = len(splits.train) // (rows * accumulated)
        self._used = self.steps_per_epoch * rows * accumulated
        self._order: list[int] = []
        if not self._used:
            raise InputError(
                f"--data {spec.data} has {len(splits.train)} sentences to train on, and a step takes "
                f"{rows * accumulated}; lower --batch-size or --grad-accum"
            )

    def next(self) -> Batch:
        """The next batch, on the CPU."""
        return padded([self._examples[n] for n in self._chosen()], self._padding)

    def skip(self) -> None:
        """Go on as if the next batch had been made."""
        self._chosen()

    def _chosen(self) -> list[int]:
        if not self._order:
            self._order = torch.randperm(len(self._examples), generator=self._random)[: self._used].tolist()
        chosen, self._order = self._order[: self._rows], self._order[self._rows :]
        return chosen
