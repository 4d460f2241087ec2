import assert from "node:assert/strict";
import test from "node:test";
import {inked, ofRows, pickOf, withBars} from "../../reports/page/scripts/charts.mjs";
import {unpackTree} from "../../reports/page/scripts/flame_tree.mjs";
import {addUp, below, chosenIn, filtersOf, isPathIn, isRowChosen, isWithin, namesOfPath, nodeAt, pathOf, pathsOf, sumsByName, toldOf}
  from "../../reports/page/scripts/selection.mjs";

// run > (gemm, backward > autograd > add); the autograd thread's range has a path of its own
const PACKED = {parent: [-1, 0, 1, 1, 3, 4], name: [0, 1, 2, 3, 4, 5], kind: [0, 1, 3, 1, 2, 3], cnt: [0, 0, 4, 0, 0, 2],
  class: ["", "", "matmul", "", "", "elementwise"], own: [[0], [0], [40], [0], [0], [2]], path: {4: "autograd"},
  names: ["all", "run", "gemm", "backward", "autograd", "add"]};

test("a range is what lies below it, by the paths that its threads say", () => {
  const nodes = unpackTree(PACKED, 0), paths = pathsOf(nodes, PACKED.path);
  assert.deepEqual(paths, ["", "run", "run", "run/backward", "autograd", "autograd"]);
  const backward = nodeAt(nodes, ["run", "backward"]), inside = below(nodes, backward);
  assert.deepEqual([...inside], [0, 0, 0, 1, 1, 1]);
  const chosen = {top: "run/backward", paths: new Set(["run/backward", "autograd"])};
  assert.deepEqual(["run", "run/backward", "run/backward/x", "autograd", "run/backwards"].map((path) => isPathIn(path, chosen)),
    [false, true, true, true, false]);
  assert.deepEqual(namesOfPath(nodes, paths, "autograd/too small"), ["run", "backward", "autograd"]);
  assert.deepEqual(namesOfPath(nodes, paths, "elsewhere"), []);
  assert.equal(nodeAt(nodes, ["run", "gone", "backward"]).name, "run");
});

test("a path has the name with all of its slashes", () => {
  assert.deepEqual([pathOf("", "a/b"), pathOf("a/b", "c/d")], ["a/b", "a/b/c/d"]);
});

test("operations are cut where a time ends, and each counts its own length", () => {
  const lane = {begins: [0, 5, 30], lengths: [10, 2, 10], starts: [0, 10, 30], ends: [10, 10, 40], names: [0, 1, 0]};
  const {times, counts} = sumsByName([lane], 2, 6, 35);
  assert.deepEqual([[...times], [...counts]], [[9, 1], [2, 1]]);
  const whole = sumsByName([lane], 2, 0, 40);
  assert.deepEqual([...whole.times], [20, 2]);
  assert.deepEqual(addUp(times, counts, (n) => ["a", "b"][n]), [{label: "a", cnt: 2, time: 9}, {label: "b", cnt: 1, time: 1}]);
  assert.deepEqual(addUp(times, counts, (n) => (n ? null : "a")).length, 1);
});

test("rows stay that belong to all that is chosen", () => {
  const chosen = {top: "run", paths: new Set(["run"])}, state = {range: ["run"], time: {from: 10, to: 20}, step: "3"};
  const is = (row) => isRowChosen(row, state, chosen);
  assert.deepEqual([{range: "run/a"}, {range: "b"}, {step: 3}, {step: 30}, {kernel: "x"}].map(is), [true, false, true, false, true]);
  assert.deepEqual([[0, 10], [0, 11], [19, 5], [20, 5], [10, undefined], [9, undefined]].map(([begin, length]) => is({begin, length})),
    [false, true, true, false, true, false]);
});

test("what filters and what does not is said", () => {
  const state = {time: {from: 2e6, to: 3e6}, step: "3", kernel: "gemm"};
  assert.deepEqual(chosenIn({...state, range: [], rank: undefined}), ["time", "kernel", "step"]);
  assert.deepEqual(filtersOf(state, ["time"]), {by: ["time", "step"], not: ["kernel"]});
  assert.deepEqual(filtersOf(state, []), {by: [], not: ["time", "kernel", "step"]});
  assert.deepEqual(["time", "kernel"].map((name) => toldOf(state, name, 1e6)), ["1.000 ms to 2.000 ms", "kernel gemm"]);
});

test("bars of a choice keep what they are called", () => {
  const figure = {data: [{x: [3, 2, 1], y: ["0", "1", "2"], customdata: ["a", "b", "c"]}], keys: {range: ["r", null, "s"]},
    layout: {yaxis: {tickvals: ["0", "1", "2"], ticktext: ["A", "B", "C"]}}};
  const left = withBars(figure, [2, 0]);
  assert.deepEqual([left.data[0].x, left.data[0].y, left.layout.yaxis.ticktext, left.keys.range], [[1, 3], ["0", "1"], ["C", "A"], ["s", "r"]]);
  assert.deepEqual([pickOf(left.keys, 0).value, pickOf(figure.keys, 1)], ["s", null]);
  const made = ofRows(figure, [{label: "<b>&$", time: 5e6, cnt: 1}]);
  assert.deepEqual([made.data[0].x, made.data[0].customdata, made.keys.kernel], [[5], ["&lt;b&gt;&amp;&#36;"], ["<b>&$"]]);
});

test("a part of a time is within it, its neighbour is not", () => {
  const whole = {from: 10, to: 20};
  assert.deepEqual([whole, {from: 9.5, to: 20}, {from: 12, to: 13}, {from: 12, to: 22}, undefined].map((time) => isWithin(time, whole)),
    [true, true, true, false, false]);
  assert.equal(isWithin(whole, undefined), false);
});

test("what is of a kind has the colour of the page for it", () => {
  const marker = {color: "red", pattern: {shape: "/"}};
  const {data} = inked({data: [{x: [1], marker, meta: {kind: "forward"}}, {x: [1], marker}], layout: {font: {}}}, "ink", "paper", (kind) => `of ${kind}`);
  assert.deepEqual(data.map((trace) => trace.marker.color), ["of forward", "red"]);
  const idle = inked({data: [{marker, meta: {kind: "idle"}}], layout: {}}, "ink", "paper", (kind) => `of ${kind}`).data[0].marker;
  assert.deepEqual([idle.color, idle.pattern.fgcolor, idle.pattern.shape], ["of idle", "of hatch", "/"]);
  const bars = {data: [{x: [3, 2], y: ["0", "1"], customdata: ["copy", "matmul"], marker, meta: {kinds: ["copy", "matmul"]}}], layout: {yaxis: {}}};
  const colours = (figure) => inked(figure, "ink", "paper", (kind) => `of ${kind}`).data[0].marker.color;
  assert.deepEqual(colours(bars), ["of copy", "of matmul"]);
  assert.deepEqual(colours(ofRows(bars, [{label: "matmul", time: 5, cnt: 1}])), ["of matmul"]);
});
