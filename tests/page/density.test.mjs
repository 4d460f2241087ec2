import assert from "node:assert/strict";
import test from "node:test";
import {busyTime, busyWithin, countWanted, coverage, firstEndingAfter, mostOf, stretchAt} from "../../reports/page/scripts/density.mjs";
import {unpackColumns, unpackLane} from "../../reports/page/scripts/packed.mjs";

const lane = (...stretches) => ({
  starts: Float64Array.from(stretches, ([start]) => start), ends: Float64Array.from(stretches, ([, end]) => end),
  names: Float64Array.from(stretches, ([, , name]) => name ?? 0), levels: null,
});

// What a pixel covers, by the definition: a loop over all stretches.
const slowly = ({starts, ends}, from, to, width) => Array.from({length: width}, (_, pixel) => {
  const low = from + (to - from) * pixel / width, high = from + (to - from) * (pixel + 1) / width;
  let sum = 0;
  starts.forEach((start, n) => { sum += Math.max(0, Math.min(ends[n], high) - Math.max(start, low)); });
  return sum / (high - low);
});

test("a thousand short kernels are drawn as the time they took, not a pixel each", () => {
  const many = lane(...Array.from({length: 1000}, (_, n) => [n * 100, n * 100 + 3]));
  const shares = coverage(many, [0], 1, 0, 100_000, 50);
  assert.ok(shares.every((share) => Math.abs(share - 0.03) < 1e-6));
});

test("every pixel has the share of its time, at every zoom", () => {
  let seed = 7;
  const random = () => { seed = (seed * 16807) % 2147483647; return seed / 2147483647; };
  const stretches = [];
  for (let at = 0; stretches.length < 300;) {
    const start = at + random() * 40, end = start + random() ** 3 * 60;
    stretches.push([start, end]);
    at = end;
  }
  const some = lane(...stretches), last = stretches.at(-1)[1];
  for (const [from, to, width] of [[0, last, 97], [100, 130, 64], [last / 3, last / 2, 11], [0, last * 2, 1000]]) {
    const shares = coverage(some, [0], 1, from, to, width);
    slowly(some, from, to, width).forEach((share, pixel) => assert.ok(Math.abs(share - shares[pixel]) < 1e-5));
  }
});

test("kinds are counted apart and add up", () => {
  const two = lane([0, 4, 0], [4, 6, 1], [6, 7, 0]);
  const shares = coverage(two, [0, 1], 2, 0, 10, 2);
  assert.deepEqual([...shares].map((share) => Math.round(share * 100) / 100), [0.8, 0.2, 0.2, 0.2]);
});

test("the pointer finds what lies under it, or the nearest within its slack", () => {
  const some = lane([10, 20], [30, 31], [31, 50]);
  assert.deepEqual([15, 10, 30.5, 49].map((time) => stretchAt(some, time, 0)), [0, 0, 1, 2]);
  assert.deepEqual([stretchAt(some, 25, 1), stretchAt(some, 22, 3), stretchAt(some, 28, 3), stretchAt(some, 60, 20)], [-1, 0, 1, 2]);
  assert.equal(firstEndingAfter(some.ends, 20), 1);
});

test("sums of a stretch of time are cut at its ends", () => {
  const some = lane([0, 10, 0], [20, 30, 1], [30, 50, 0]);
  assert.equal(busyTime(some, 5, 35), 20);
  assert.deepEqual(mostOf(some, (name) => `n${name}`, 5, 35, 5), [["n0", 10], ["n1", 10]]);
});

test("columns come out as they went in", () => {
  const bytes = Uint8Array.from([5, 0xac, 2, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]);
  const [first, second] = unpackColumns(bytes, 2, 2);
  assert.deepEqual([...first, ...second], [5, 300, 0, 2 ** 53 - 1]);
});

test("of work that overlaps each moment counts once", () => {
  // begins 0, 5, 6 with lengths 10, 10, 2
  const bytes = Uint8Array.from([0, 5, 1, 10, 10, 2, 0, 0, 0]);
  const found = unpackLane(bytes, {cnt: 3, has_levels: false});
  assert.deepEqual([[...found.starts], [...found.ends], [...found.begins]], [[0, 10, 15], [10, 15, 15], [0, 5, 6]]);
  assert.equal(busyTime(found, 0, 100), 15);
});

test("what is looked for is counted, in all and in what is seen", () => {
  const lanes = [lane([0, 10, 0], [20, 30, 1]), lane([25, 40, 0])];
  assert.deepEqual(countWanted(lanes, [true, false], {from: 10, to: 30}), {all: 2, inside: 1});
});

test("the share of a lane says what it is of", () => {
  const some = lane([0, 80, 0]), work = {from: 0, to: 100};
  assert.deepEqual(busyWithin(some, {from: -40, to: 100}, work), {share: 0.8, from: 0, to: 100});
  assert.deepEqual(busyWithin(some, {from: 60, to: 90}, work), {share: 20 / 30, from: 60, to: 90});
  assert.equal(busyWithin(some, {from: -40, to: -10}, work).share, 0);
});
