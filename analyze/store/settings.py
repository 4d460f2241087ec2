"""What a user may set about reports: thresholds, and rules for classes of kernels. The database keeps them."""

import csv
import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path

import duckdb

from ...errors import UsageError
from ...small_files import read_text

_SUBJECTS = ("kernel", "path")
_COLUMNS = ("subject", "pattern", "class")


@dataclass(frozen=True)
class Settings:
    """Thresholds by name, and rules (subject, pattern, class) that come before the built-in ones."""

    thresholds: tuple[tuple[str, float], ...] = ()
    rules: tuple[tuple[str, str, str], ...] = ()

    @property
    def fingerprint(self) -> str:
        """A text that is the same for the same settings."""
        return hashlib.sha256(repr((sorted(self.thresholds), self.rules)).encode()).hexdigest()[:16]

    @property
    def text(self) -> str:
        """The settings as a process that reads an input is given them; '' for the defaults."""
        return "" if self == Settings() else json.dumps([self.thresholds, self.rules])

    @classmethod
    def of_text(cls, text: str) -> "Settings":
        """The settings that such a text holds."""
        if not text:
            return cls()
        thresholds, rules = json.loads(text)
        return cls(tuple((str(n), float(v)) for n, v in thresholds), tuple((s, p, c) for s, p, c in rules))

    def apply(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Write the settings into a new database. Raises UsageError for a threshold that does not exist."""
        known = [str(row[0]) for row in connection.execute("select name from threshold order by name").fetchall()]
        for name, value in self.thresholds:
            if name not in known:
                raise UsageError(f"no such threshold: {name!r}; the thresholds are: {', '.join(known)}")
            connection.execute("update threshold set value = ? where name = ?", [value, name])
        for number, (subject, pattern, class_) in enumerate(self.rules):
            try:
                connection.execute("select regexp_matches('', ?)", [pattern])
            except duckdb.Error as error:
                raise UsageError(f"--kernel-classes: {pattern!r} is not a regular expression: {error}") from error
            connection.execute(
                "insert into kernel_class_rule values (?, ?, ?, ?)",
                [number - len(self.rules), subject, pattern, class_],
            )


def parse(thresholds: list[str], rules: Path | None) -> Settings:
    """Settings from NAME=VALUE texts and a CSV file. Raises UsageError for texts that are neither."""
    return Settings(tuple(_threshold(text) for text in thresholds), _read_rules(rules) if rules else ())


def _threshold(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"--threshold {text}: write NAME=VALUE with a number, as in long_gap_ns=1000000")
    if number < 0:
        raise UsageError(f"--threshold {text}: no time, count or share can be below 0; write 0 for none")
    return name.strip(), number


def _read_rules(path: Path) -> tuple[tuple[str, str, str], ...]:
    try:
        reader = csv.DictReader(read_text(path).splitlines())
        rows = list(reader)
    except OSError as error:
        raise UsageError(f"cannot read --kernel-classes {path}: {error.strerror}") from error
    except (ValueError, csv.Error) as error:
        raise UsageError(f"--kernel-classes {path} is not CSV: {error}") from error
    if tuple(reader.fieldnames or ()) != _COLUMNS:
        raise UsageError(f"--kernel-classes {path}: the first line must be {','.join(_COLUMNS)}")
    for number, row in enumerate(rows, start=2):
        if row["subject"] not in _SUBJECTS or not row["pattern"] or not row["class"] or None in row:
            raise UsageError(
                f"--kernel-classes {path}, line {number}: subject is kernel or path, then a pattern and a class"
            )
    return tuple((row["subject"], row["pattern"], row["class"]) for row in rows)
