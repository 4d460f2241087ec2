"""Which ranges each launch reaches, without a row for every (launch, range): chains of ranges up a tree."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .intervals import NONE, Ints, Tree, take


@dataclass(frozen=True)
class Reach:
    """The ranges that account for each launch: chains up the tree, and what overlaps too oddly to be in one."""

    tree: Tree
    depth: npt.NDArray[np.int32]  # of every range
    chains: tuple[Ints, ...]  # innermost range of each launch, rule by rule; NONE without
    extra: tuple[Ints, Ints, Ints]  # (launch, range, rule) outside the chains: partial overlaps

    def of_operations(self, launch: Ints) -> "Reach":
        """The same for GPU operations, given the launch of each (NONE without): one entry an operation."""
        operation, pair = self._extra_pairs(launch)
        chains = tuple(take(chain, launch) for chain in self.chains)
        return Reach(self.tree, self.depth, chains, (operation, self.extra[1][pair], self.extra[2][pair]))

    def extra_of(self, launch: Ints) -> tuple[Ints, Ints]:
        """(operation, range) outside the chains, given the launch of each operation (NONE without)."""
        operation, pair = self._extra_pairs(launch)
        return operation, self.extra[1][pair]

    def _extra_pairs(self, launch: Ints) -> tuple[Ints, Ints]:
        known = np.flatnonzero(launch >= 0)
        return spread(launch[known], known, self.extra[0], np.arange(len(self.extra[0])))

    def levels(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """(launch, range, rule) triples, deepest level first, each (launch, range) once.

        At level d every chain whose innermost range lies at d or deeper has arrived at its range of depth d.

        chains of a launch   rule 1: mm < forward < step     rule 2: backward < step
        level 2              mm, 1
        level 1              forward, 1   backward, 2
        level 0              step, 1                         both have arrived: it is the first rule's
        """
        at = [chain.copy() for chain in self.chains]
        begin = [take(self.depth, chain).astype(np.int32) for chain in self.chains]
        extra_depth = self.depth[self.extra[1]]
        for level in range(int(self.depth.max(initial=NONE)), -1, -1):
            here = [np.flatnonzero(depth >= level) for depth in begin]
            triples = [tuple(column[extra_depth == level] for column in self.extra)]
            for rule, (chain, launch) in enumerate(zip(at, here, strict=True)):
                new = launch
                for earlier in at[:rule]:
                    new = new[earlier[new] != chain[new]]
                if new.size:
                    triples.append((new, chain[new], np.full(len(new), rule)))
            yield _joined(triples)
            for chain, launch in zip(at, here, strict=True):
                chain[launch] = self.tree.parent[chain[launch]]


def _joined(triples: list[tuple[Ints, Ints, Ints]]) -> tuple[Ints, Ints, Ints]:
    """Triples end to end, empty ones left out."""
    filled = [t for t in triples if t[0].size] or triples[:1]
    if len(filled) == 1:
        return filled[0]
    launch, range_, rule = (np.concatenate(column) for column in zip(*filled, strict=True))
    return launch, range_, rule


def spread(group_of: Ints, member: Ints, group: Ints, value: Ints) -> tuple[Ints, Ints]:
    """(member, value) for every (group, value), for all members of the group."""
    if not group.size:
        return group, value
    order = np.argsort(group_of, kind="stable")
    begin = np.searchsorted(group_of[order], group)
    count = np.searchsorted(group_of[order], group, side="right") - begin
    position = np.repeat(begin - np.cumsum(count) + count, count) + np.arange(count.sum())
    return member[order[position]], np.repeat(value, count)
