"""Sets of name paths: each launch of a set has the paths that its own ranges say, whatever lies in whatever."""

import numpy as np
from arrays import LAUNCHES, RANGES, THREADS, as_ranges, ints
from hypothesis import given, settings
from hypothesis import strategies as st
from lorabench.analyze.attribute.attribution import Attribution, Launches, attribute, path_sets

# A walk over a call stack: open an annotation (0), operator (1) or backward node (2), launch (3) or close (4), with a
# name or sequence number.
WALK = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), max_size=30)


def nested(walks: list[list[tuple[int, int]]]) -> tuple[list[tuple], list[tuple]]:
    """(ranges, launches) as LAUNCHES and RANGES have them, of a walk for each thread."""
    ranges, launches = [], []
    for thread, walk in enumerate(walks):
        stack: list[tuple[int, int, int]] = []
        for now, (what, label) in enumerate([*walk, *[(4, 0)] * len(walk)]):
            if what == 3:
                launches.append((thread, now, 0))
            elif what < 3:
                stack.append((now, what, label))
            elif stack:
                begin, kind, name = stack.pop()
                ranges.append((thread, begin, now - begin, name, None if kind == 0 else 1 + name, kind == 2))
    return ranges, launches


def attributed(rows: list[tuple], launches: list[tuple]) -> Attribution:
    known = {row[0] for row in rows}
    zeros = np.zeros(len(launches), dtype=np.int64)
    track = ints([thread if thread in known else -1 for thread, _, _ in launches])
    start = ints([begin for _, begin, _ in launches])
    return attribute(as_ranges(rows), Launches(zeros, track, start, start + ints([length for *_, length in launches])))


def paths_of(found: Attribution, launch: int) -> dict[int, int]:
    """Each path of a launch with its first rule: up from the innermost range of each rule, and partial overlaps."""
    rules: dict[int, int] = {}
    for rule, chain in enumerate(found.reach.chains):
        at = int(chain[launch])
        while at >= 0:
            rules.setdefault(int(found.path[at]), rule)
            at = int(found.reach.tree.parent[at])
    for which, range_, rule in zip(*found.reach.extra, strict=True):
        if which == launch:
            path = int(found.path[range_])
            rules[path] = min(int(rule), rules.get(path, int(rule)))
    return rules


def check(found: Attribution, launch_cnt: int) -> None:
    sets = path_sets(found)
    rows: dict[int, dict[int, int]] = {}
    for number, path, rule in zip(sets.number.tolist(), sets.path.tolist(), sets.rule.tolist(), strict=True):
        assert path not in rows.setdefault(number, {})
        rows[number][path] = rule
    for launch in range(launch_cnt):
        number = int(sets.of_launch[launch])
        assert rows.get(number, {}) == paths_of(found, launch)
    assert set(rows) == set(range(sets.cnt))


@settings(max_examples=500)
@given(st.lists(WALK, min_size=1, max_size=THREADS))
def test_annotations_and_operators_in_each_other(walks: list[list[tuple[int, int]]]) -> None:
    rows, launches = nested(walks)
    if rows and launches:
        check(attributed(rows, launches), len(launches))


@settings(max_examples=200)
@given(RANGES.filter(bool), LAUNCHES)
def test_ranges_that_overlap_anyhow(rows: list[tuple], launches: list[tuple]) -> None:
    check(attributed(rows, launches), len(launches))


def test_a_note_in_two_operators_does_not_lend_the_work_of_one_to_the_other() -> None:
    """Two operators with one annotation of the same name each (mini_swap, mini_over)."""
    rows = [(0, 0, 10, 7, 1, False), (0, 1, 8, 5, None, False), (0, 20, 10, 6, 1, False), (0, 21, 8, 5, None, False)]
    found = attributed(rows, [(0, 2, 1), (0, 22, 1)])
    assert len(set(path_sets(found).of_launch.tolist())) == 2
    check(found, 2)
