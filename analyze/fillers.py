"""What is computed of a finished database by arrays and not by its views' statements, for those who ask for it."""

from collections.abc import Collection
from functools import partial

from .predict.predictions import Predictions
from .ranks import stragglers
from .shortcuts import views as shortcuts
from .store.database import Database


def fill(opened: Database, without: Collection[str] = ()) -> Database:
    """The database, in which views read what arrays compute, but for those `without`."""
    found = shortcuts.tables(opened) | Predictions(opened).tables()
    # what many read (rules the same views, reports the steps): planned in each statement it takes seconds in all
    found |= {view: partial(opened.rows_of, view) for view in ("_finding", "_step")}
    found |= {"straggler": partial(stragglers.rows, opened)}
    opened.filling({name: make for name, make in found.items() if name not in without})
    return opened
