import assert from "node:assert/strict";
import test from "node:test";
import {invertTree, layoutSlices, matchingTime, namesTo, unpackTree} from "../../reports/page/scripts/flame_tree.mjs";

// all(0) > step(10) > [forward(0) > [a(30), b(20)], b(35), tiny(5)]
const PACKED = {
  names: ["all", "step", "forward", "a", "b", "tiny"], parent: [-1, 0, 1, 2, 2, 1, 1], name: [0, 1, 2, 3, 4, 4, 5],
  kind: [0, 1, 1, 3, 3, 3, 3], cnt: [0, 0, 0, 3, 2, 1, 1], class: ["", "", "", "norm", "matmul", "matmul", "other"],
  own: [[0], [10], [0], [30], [20], [35], [5]],
};

test("totals are own times and those below", () => {
  const nodes = unpackTree(PACKED, 0);
  assert.deepEqual(nodes.map((node) => node.total), [100, 100, 50, 30, 20, 35, 5]);
  assert.deepEqual(nodes[1].children.map((node) => node.name), ["forward", "b", "tiny"]);
});

test("children lie inside their parent, side by side, and their widths are their shares", () => {
  const slices = layoutSlices(unpackTree(PACKED, 0), 0, 0);
  const by = (name) => slices.filter(({node}) => node.name === name);
  assert.equal(by("step")[0].width, 1);
  assert.equal(by("forward")[0].width, 0.5);
  assert.deepEqual(by("b").map(({from, width}) => [from, width]).sort(), [[0.3, 0.2], [0.5, 0.35]]);
  for (const {depth, from, width} of slices) {
    const beside = slices.filter((other) => other.depth === depth && other.from > from);
    assert.ok(beside.every((other) => other.from >= from + width - 1e-12));
  }
});

test("what is too narrow lies together, and nothing is lost", () => {
  const slices = layoutSlices(unpackTree(PACKED, 0), 0, 0.25);
  const below = slices.filter(({depth}) => depth === 2);
  assert.deepEqual(below.map(({node, width}) => [node.name, width]).sort(), [["b", 0.35], ["forward", 0.5]]);
  const merged = layoutSlices(unpackTree(PACKED, 0), 2, 0.7).filter(({node}) => node.kind === 5);
  assert.deepEqual(merged.map(({node, width}) => [node.name, width]), [["2 smaller", 1]]);
});

test("a zoom shows the node over all its width, and where it is", () => {
  const slices = layoutSlices(unpackTree(PACKED, 0), 2, 0);
  assert.deepEqual(slices.map(({node, width}) => [node.name, width]),
    [["all", 1], ["step", 1], ["forward", 1], ["b", 0.4], ["a", 0.6]]);
  assert.deepEqual(slices.filter(({above}) => above).length, 2);
});

test("turned over, a range has its own time alone", () => {
  const nodes = unpackTree(PACKED, 0), inside = [0, 0, 1, 1, 1, 0, 0];
  const turned = invertTree(nodes, inside);
  assert.deepEqual([turned[0].total, turned[0].children.map((node) => [node.name, node.total])], [50, [["a", 30], ["b", 20]]]);
  assert.deepEqual(invertTree(nodes)[0].total, 100);
});

test("turned over, a name's time is that of all its places", () => {
  const turned = invertTree(unpackTree(PACKED, 0));
  const top = turned[0].children.map((node) => [node.name, node.total]);
  assert.deepEqual(top, [["b", 55], ["a", 30], ["step", 10], ["tiny", 5]]);
  const callers = turned[0].children[0].children.map((node) => [node.name, node.total]);
  assert.deepEqual(callers, [["step", 35], ["forward", 20]]);
  assert.equal(top.reduce((sum, [, total]) => sum + total, 0), 100);
});

test("what is found counts once, where it nests in itself, too", () => {
  const nodes = unpackTree(PACKED, 0);
  assert.equal(matchingTime(nodes, "B"), 55);
  assert.equal(matchingTime(nodes, "f"), 50);
  assert.equal(matchingTime(nodes, "t"), 100); // step, and not tiny in it again
  assert.equal(matchingTime(nodes, "none"), 0);
  assert.deepEqual(namesTo(nodes, nodes[3]), ["step", "forward", "a"]);
});
