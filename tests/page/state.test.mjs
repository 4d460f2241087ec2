import assert from "node:assert/strict";
import test from "node:test";
import {barParts, legendOf, linesOf} from "../../reports/page/scripts/receipt.mjs";
import {readState, stateOf, stateText} from "../../reports/page/scripts/state.mjs";

test("a state comes back from the address", () => {
  for (const state of [{}, {time: {from: -5, to: 70}}, {range: ["run", "## a=b & c ##"], find: "é&x"},
    {kernel: "gemm<float, 2>", step: "0", rank: "7"}])
    assert.deepEqual(readState(stateText(state)) ?? {}, state);
});

test("names of sections are no state, and what is damaged is left out", () => {
  assert.equal(readState("kernels"), null);
  assert.deepEqual(readState("time=9..3&range=[1]&find="), {});
  assert.deepEqual(readState("time=a..b&range={"), {});
});

test("what is not written as an address is no state", () => {
  assert.deepEqual(stateOf("#step%3D2"), {step: "2"});
  for (const hash of ["", "#50%", "#%E0%A4%A", "#kernels"]) assert.equal(stateOf(hash), null);
});

test("parts of the receipt fill its bar", () => {
  const parts = barParts([["a", 0.6, "x"], ["b", 0.3, "y"], ["c", 0.1, "z"]], 50, 1000);
  assert.deepEqual(parts.map(({left, width}) => [Math.round(left), Math.round(width)]), [[50, 600], [650, 300], [950, 100]]);
  assert.deepEqual(barParts([], 0, 10), []);
});

test("the legend of the receipt names the largest parts, the largest first", () => {
  const parts = [0.07, 0.015, 0.371, 0.001, 0.535, 0.004].map((share, n) => ({name: `part ${n}`, share}));
  assert.deepEqual(legendOf(parts).map(({name}) => name), ["part 4", "part 2", "part 0", "part 1"]);
});

test("a verdict is broken into lines, and only what has no room in the last is cut", () => {
  const widthOf = (text) => text.length;
  assert.deepEqual(linesOf("the GPU waits for the CPU", widthOf, 13, 2), ["the GPU waits", "for the CPU"]);
  assert.deepEqual(linesOf("short", widthOf, 13, 2), ["short"]);
  assert.deepEqual(linesOf("a bb ccc dddd eeeee", widthOf, 8, 2), ["a bb ccc", "dddd ee…"]);
});
