"""The tree of a flame graph: what ranges own, each operation once, and the CPU's own time of each thread's ranges.

Rows of _page_flame and range_summary in; two trees as lists out, in which a node stands behind its parent. Sums of all
nodes' own values are the sums of the rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Key = tuple[Any, ...]
ROOT, ANNOTATION, OPERATOR, WORK, OUTSIDE, SMALLER = range(6)
_NODE_CNT = 3000  # of a tree: what is smaller is added up beside its siblings


@dataclass
class _Node:
    name: str
    kind: int
    parent: "_Node | None"
    values: list[int]  # its own: of each measure
    cnt: int = 0
    class_: str = ""
    children: dict[Key, "_Node"] = field(default_factory=dict)
    totals: list[int] = field(default_factory=list)
    path: str = ""  # of a range
    merged: "Sequence[_Node]" = ()  # the nodes that it stands for
    place: int = -1  # among the columns


class _Tree:
    """Nodes by keys under one root; `measure_cnt` values for each."""

    def __init__(self, name: str, measure_cnt: int, is_by_name: bool = False):
        self.measure_cnt, self.is_by_name = measure_cnt, is_by_name
        self.root = _Node(name, ROOT, None, [0] * measure_cnt)

    def under(self, parent: _Node, key: Key, name: str, kind: int) -> _Node:
        found = parent.children.get(key)
        if found is None:
            found = parent.children[key] = _Node(name, kind, parent, [0] * self.measure_cnt)
        return found

    def range_under(self, parent: _Node, path: Row) -> _Node:
        """The node of a range."""
        kind = ANNOTATION if path["kind"] == "annotation" else OPERATOR
        node = self.under(parent, (path["name" if self.is_by_name else "path_id"],), path["name"], kind)
        node.path = path["path"]
        return node

    def packed(self) -> Row:
        """The tree as columns: parent's place (-1 for the root), name, kind, number, class, own values; and the
        paths of those ranges whose place in the tree does not say it."""
        _add_up(self.root)
        least = _least(self.root)
        nodes: list[_Node] = []
        names: dict[str, int] = {}
        found: Row = {"parent": [], "name": [], "kind": [], "cnt": [], "class": [], "own": [], "path": {}}
        pending = [(self.root, -1)]
        while pending:
            node, parent = pending.pop()
            place = len(nodes)
            nodes.append(node)
            for one in (node, *node.merged):
                one.place = place
            if node.path != _joined(node):
                found["path"][place] = node.path
            found["parent"].append(parent)
            found["name"].append(names.setdefault(node.name, len(names)))
            found["kind"].append(node.kind)
            found["cnt"].append(node.cnt)
            found["class"].append(node.class_)
            found["own"].append(node.values)
            kept = [child for child in node.children.values() if _share(child, self.root) >= least]
            small = [child for child in node.children.values() if _share(child, self.root) < least]
            pending += [(child, place) for child in sorted(kept, key=lambda child: sum(child.totals))]
            if small:
                pending.append((_together(small, node), place))
        return found | {"names": list(names)}


def _joined(node: _Node) -> str:
    """The path that a range's place in the tree says."""
    if node.kind not in (ANNOTATION, OPERATOR):
        return ""
    return f"{node.parent.path}/{node.name}" if node.parent and node.parent.path else node.name


def _place_of(node: _Node) -> int:
    """Where a node is, or the one that stands for it."""
    at: _Node | None = node
    while at is not None and at.place < 0:
        at = at.parent
    return at.place if at is not None else 0


def _common(places: Sequence[int], parents: Sequence[int]) -> int:
    """The innermost node that all of these are in."""
    first, *rest = places
    for place in rest:
        above, at = set(), place
        while at >= 0:
            above.add(at)
            at = parents[at]
        while first not in above:
            first = parents[first]
    return first


def _add_up(root: _Node) -> None:
    order = [root]
    for node in order:
        order += node.children.values()
    for node in reversed(order):
        node.totals = [own + sum(c.totals[n] for c in node.children.values()) for n, own in enumerate(node.values)]


def _share(node: _Node, root: _Node) -> float:
    """The largest share of any measure that a node has."""
    return max((part / whole for part, whole in zip(node.totals, root.totals, strict=True) if whole), default=0)


def _least(root: _Node) -> float:
    """The share that a node must have so that no more than _NODE_CNT are drawn one by one."""
    shares = []
    pending = [root]
    while pending:
        node = pending.pop()
        shares.append(_share(node, root))
        pending += node.children.values()
    return sorted(shares, reverse=True)[_NODE_CNT] if len(shares) > _NODE_CNT else 0


def _together(nodes: Sequence[_Node], parent: _Node) -> _Node:
    totals = [sum(node.totals[n] for node in nodes) for n in range(len(parent.values))]
    return _Node(f"{len(nodes):,} smaller", SMALLER, parent, totals, sum(node.cnt for node in nodes), totals=totals,
                 merged=nodes)  # fmt: skip


def of_work(rows: Iterable[Row], paths: dict[int, Row], name: str) -> tuple[Row, dict[tuple[int, str], int]]:
    """GPU work by the range that owns it, with its kernels as leaves; values are GPU time and launching time.

    Roots of a thread that works for another one (autograd's) stand under the range in whose window they ran. Also: the
    place in the tree of the work of each owning path (-1 without) and name; of work that stands in several places that
    of the innermost range around them.
    """
    tree = _Tree(name, 2)
    leaves: dict[tuple[int, str], dict[int, _Node]] = {}
    for row in rows:
        node = _owner(tree, row, paths)
        leaf = tree.under(node, ("work", row["name"]), row["name"], WORK)
        leaf.values = [leaf.values[0] + row["gpu_op_ns"], leaf.values[1] + row["launch_ns"]]
        leaf.cnt += row["gpu_op_cnt"]
        leaf.class_ = row["class"]
        leaves.setdefault((-1 if row["path_id"] is None else row["path_id"], row["name"]), {})[id(leaf)] = leaf
    packed = tree.packed()
    places = {key: _common([_place_of(leaf) for leaf in found.values()], packed["parent"])
              for key, found in leaves.items()}  # fmt: skip
    return packed, places


def _owner(tree: _Tree, row: Row, paths: dict[int, Row]) -> _Node:
    """Where the work of a row of _page_flame stands."""
    node = tree.root
    for number, chain in enumerate((_chain(row["host_path_id"], paths), _chain(row["path_id"], paths))):
        for place, path in enumerate(chain):
            # a thread's own range of the same name says nothing that its host does not
            if number and not place and path["name"] == node.name:
                continue
            node = tree.range_under(node, path)
    return tree.under(node, ("outside",), "outside of all ranges", OUTSIDE) if node is tree.root else node


def of_wall(rows: Iterable[Row], paths: dict[int, Row], name: str) -> Row:
    """The CPU's time in ranges, each thread's on its own: rows have path_id, self_wall_ns and range_cnt."""
    tree = _Tree(name, 1)
    for row in rows:
        node = tree.root
        for path in _chain(row["path_id"], paths):
            node = tree.range_under(node, path)
        node.values = [node.values[0] + row["self_wall_ns"]]
        node.cnt += row["range_cnt"]
    return tree.packed()


def of_change(inputs: Sequence[tuple[Iterable[Row], dict[int, Row], float]], name: str) -> Row:
    """Recordings in one tree, ranges and kernels by their names: a value of each, times its factor.

    Rows are those of _page_flame, or of range_summary (path_id, self_wall_ns) where no recording has GPU work.
    """
    tree = _Tree(name, len(inputs), is_by_name=True)
    for number, (rows, paths, factor) in enumerate(inputs):
        for row in rows:
            if "self_wall_ns" in row:
                node, time = tree.root, row["self_wall_ns"]
                for path in _chain(row["path_id"], paths):
                    node = tree.range_under(node, path)
            else:
                node, time = (
                    tree.under(_owner(tree, row, paths), ("work", row["name"]), row["name"], WORK),
                    row["gpu_op_ns"],
                )
                node.class_ = row["class"]
            node.values = [own + (time * factor if place == number else 0) for place, own in enumerate(node.values)]
    return tree.packed()


def _chain(path_id: int | None, paths: dict[int, Row]) -> list[Row]:
    """A path's names from the outermost one down."""
    found: list[Row] = []
    while path_id is not None:
        path = paths[path_id]
        found.append(path)
        path_id = path["parent_path_id"]
    return found[::-1]
