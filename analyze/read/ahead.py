"""Work that another thread does ahead of the one that needs it."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

_T = TypeVar("_T")


@contextmanager
def ahead(items: Iterable[_T]) -> Iterator[Iterator[_T]]:
    """The items, each made by a thread of its own while the one before is in use; an error is raised in its place.

    An item is no longer in use when the next one is asked for: not before that is the next but one begun. When the
    block ends, so has the thread.
    """
    with ThreadPoolExecutor(1, "ahead") as thread:
        yield _made_by(thread, iter(items))


def _made_by(thread: ThreadPoolExecutor, left: Iterator[_T]) -> Iterator[_T]:
    coming = thread.submit(_next, left)
    while (item := coming.result()) is not None:
        coming = thread.submit(_next, left)
        yield item[0]


def _next(left: Iterator[_T]) -> tuple[_T] | None:
    for item in left:
        return (item,)
    return None
