"""Which forward operator made each backward node: autograd's sequence numbers, and where they mislead."""

import numpy as np

from .intervals import NONE, Bools, Forest, Ints, take
from .ranges import Ranges


def forward_of(ranges: Ranges, forest: Forest) -> Ints:
    """For each backward node the forward operator with its sequence number in the same process, NONE without.

    Several operators may carry one number; the last to begin, before the backward node, is the one that made the node
    (https://github.com/pytorch/pytorch, torch/csrc/autograd/profiler_kineto.cpp, generateForwardBackwardLinks). Threads
    number on their own, and what the backward's thread recomputes has numbers of the forward's thread, too: operators
    inside a backward node are taken for nodes inside the same one alone (reentrant checkpointing).

    main thread       [mul 7]   [add 7]   [mm 8]             add is the last 7 that began before its node
    autograd's                                      [8     ]     [7 ]
      in node 8                                       [mm 7][7]      recomputed: its 7 is for nodes in node 8 alone
    """
    forward = np.full(len(ranges.start), NONE, dtype=np.int64)
    numbered = ranges.sequence >= 0
    nodes = np.flatnonzero(numbered & ranges.is_backward)
    operators = np.flatnonzero(numbered & ~ranges.is_backward)
    if not nodes.size or not operators.size:
        return forward
    outermost = _outermost(forest, numbered & ranges.is_backward)
    around = take(outermost, forest.parent[nodes])
    around[(around >= 0) & (take(ranges.sequence, around) == ranges.sequence[nodes])] = NONE  # the same node's own
    inside = outermost[operators]
    nested = around >= 0
    forward[nodes[nested]] = _last_before(ranges, nodes[nested], around[nested], operators, inside)
    left = nodes[forward[nodes] < 0]
    forward[left] = _last_before(ranges, left, np.full_like(left, NONE), operators, inside)
    return forward


def _outermost(forest: Forest, is_node: Bools) -> Ints:
    """The outermost backward node that each range lies in or is, NONE without."""
    found = np.full(len(is_node), NONE, dtype=np.int64)
    for level in range(int(forest.depth.max(initial=-1)) + 1):
        here = np.flatnonzero(forest.depth == level)
        above = take(found, forest.parent[here])
        found[here] = np.where(above >= 0, above, np.where(is_node[here], here, NONE))
    return found


def _last_before(ranges: Ranges, nodes: Ints, wanted: Ints, operators: Ints, inside: Ints) -> Ints:
    """For each node the last operator to begin before it with its process and number that lies inside `wanted`."""
    found = np.full(len(nodes), NONE, dtype=np.int64)
    if not nodes.size:
        return found
    processes = np.unique(ranges.process)
    width = int(ranges.sequence.max()) + 1

    def key(index: Ints, place: Ints) -> Ints:
        process = np.searchsorted(processes, ranges.process[index])
        return ((place + 1) * len(processes) + process) * width + ranges.sequence[index]

    operator_key = key(operators, inside)
    order = np.lexsort((ranges.start[operators], operator_key))
    operators, operator_key = operators[order], operator_key[order]
    node_key = key(nodes, wanted)
    first = np.searchsorted(operator_key, node_key, side="left")
    at = np.searchsorted(operator_key, node_key, side="right") - 1
    active = np.flatnonzero(at >= first)
    while active.size:
        late = (at[active] >= first[active]) & (ranges.start[operators[at[active]]] > ranges.start[nodes[active]])
        active = active[late]
        at[active] -= 1
    known = at >= first
    found[known] = operators[at[known]]
    return found
