import assert from "node:assert/strict";
import test from "node:test";
import {barsOf, bordersOf, sayDurations} from "../../reports/page/scripts/drawer.mjs";

test("bars stand side by side, as high as their share of the fullest, and none is too low to be seen", () => {
  const bars = barsOf([0, 1000, 500, 1], 100, 50);
  assert.deepEqual(bars.map(({x, width}) => [x, width]), [[0, 25], [25, 25], [50, 25], [75, 25]]);
  assert.deepEqual(bars.map(({height}) => height), [0, 50, 25, 1]);
});

test("bins are as wide as each other by their factor, from the shortest to the longest", () => {
  const kernel = {min: 1000, max: 16000, bins: [1, 2, 0, 4]};
  const borders = kernel.bins.map((_, n) => bordersOf(kernel, n).map(Math.round));
  assert.deepEqual(borders, [[1000, 2000], [2000, 4000], [4000, 8000], [8000, 16000]]);
});

test("durations are said, also where all are the same or the shortest is nothing", () => {
  assert.equal(sayDurations({min: 1000, max: 16000, cnt: 7, bins: [1, 2, 0, 4]}), "1.000 µs to 16.00 µs; most often 8.000 µs to 16.00 µs (4 of 7).");
  assert.equal(sayDurations({min: 2500, max: 2500, cnt: 3, bins: [3]}), "All 3 take 2.500 µs.");
  assert.deepEqual(bordersOf({min: 0, max: 4, bins: [1, 1]}, 1).map(Math.round), [2, 4]);
});
