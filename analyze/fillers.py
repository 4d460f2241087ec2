"""What is computed of a finished database by arrays and not by its views' statements, for those who ask for it."""

from collections.abc import Collection
from functools import partial

from .predict.predictions import Predictions
from .ranks import alike, stragglers
from .shortcuts import views as shortcuts
from .store.database import Database


def fill(opened: Database, without: Collection[str] = ()) -> Database:
    """The database, in which views read what arrays compute, but for those `without`."""
    found = shortcuts.tables(opened) | Predictions(opened).tables()
    # what many read (rules the same views, reports the steps): planned in each statement it takes seconds in all
    by_statement = ["_finding", "_step"]
    if opened.rows("from _several_ranks limit 1"):
        by_statement.append("straggler")
        found["_replayed_rank"] = partial(alike.rows, opened)
    else:
        found |= {view: partial(stragglers.none, opened, view) for view in stragglers.VIEWS}
    found |= {view: partial(opened.rows_of, view) for view in by_statement}
    opened.filling({name: make for name, make in found.items() if name not in without}, by_statement)
    return opened
