import assert from "node:assert/strict";
import test from "node:test";
import {unpackBlocks, unpackSteps} from "../../reports/page/scripts/packed.mjs";
import {blockAt, bordersOf, columnsOf, lastUpTo, stepsOf, totalsOf, widest} from "../../reports/page/scripts/stacking.mjs";

const NOTHING = {places: [0], values: [0]};
const same = (bytes) => bytes;
const blocksOf = (...rows) => ({starts: rows.map(([start]) => start), ends: rows.map(([, end]) => end), sizes: rows.map(([, , size]) => size)});

// Steps at every place at which anything changes, by places instead of columns.
function polygons(blocks, base = 0) {
  const {places} = totalsOf(blocks, base, NOTHING);
  const behind = (column) => (column < places.length ? places[column] : Infinity);
  return stepsOf(blocks, base, places, Int32Array.from(places.keys()), same).map((steps) => {
    const found = [];
    for (let at = 0; at < steps.length; at += 4) found.push([behind(steps[at]), behind(steps[at + 1]), steps[at + 2], steps[at + 3]]);
    return found;
  });
}

// Pseudo-random blocks in order of their begins, some of them there from the start, some never freed.
function some(cnt, seed) {
  let state = seed;
  const random = () => { state = (state * 16807) % 2147483647; return state / 2147483647; };
  const rows = Array.from({length: cnt}, () => [random() < 0.1 ? 0 : Math.floor(random() * 300), Math.ceil(random() ** 3 * 90), 1 + Math.floor(random() * 50)]);
  rows.sort(([a], [b]) => a - b);
  return blocksOf(...rows.map(([start, length, size]) => [start, random() < 0.1 ? Infinity : start + length, size]));
}

test("a block lies on those before it and drops when one of them is freed", () => {
  const [a, b, c] = polygons(blocksOf([0, 5, 10], [1, 9, 4], [2, Infinity, 1]), 100);
  assert.deepEqual(a, [[0, 5, 100, 110]]);
  assert.deepEqual(b, [[1, 5, 110, 114], [5, 9, 100, 104]]);
  assert.deepEqual(c, [[2, 5, 114, 115], [5, 9, 104, 105], [9, Infinity, 100, 101]]);
});

test("what is freed as another is allocated makes place for it", () => {
  assert.deepEqual(polygons(blocksOf([0, 3, 7], [3, 6, 7])), [[[0, 3, 0, 7]], [[3, 6, 0, 7]]]);
});

test("at every moment blocks lie end to end, and their top is the sum of what is live", () => {
  for (const seed of [1, 2, 3, 4, 5]) {
    const blocks = some(200, seed), base = seed * 10, found = polygons(blocks, base);
    for (let place = 0; place < 400; place++) {
      let top = base; // the definition: a loop over all blocks
      found.forEach((steps, n) => {
        const mine = steps.filter(([from, to]) => from <= place && place < to);
        const isLive = blocks.starts[n] <= place && place < blocks.ends[n];
        assert.deepEqual(mine.map(([, , low, high]) => [low, high]), isLive ? [[top, top + blocks.sizes[n]]] : []);
        if (isLive) top += blocks.sizes[n];
      });
      const totals = totalsOf(blocks, base, NOTHING);
      assert.equal(totals.shown[lastUpTo(totals.places, place)], top);
      const last = found.findLastIndex((steps) => steps.some(([from, to]) => from <= place && place < to));
      if (top > base) assert.equal(blockAt(blocks, base, place, top - 0.5), last);
      assert.equal(blockAt(blocks, base, place, top), blocks.sizes.length);
      assert.equal(blockAt(blocks, base, place, base - 1), -1);
    }
  }
});

test("the rest lies on the blocks", () => {
  const blocks = blocksOf([0, 10, 5], [4, 8, 3]), rest = {places: [0, 6], values: [2, 1]};
  assert.deepEqual([...totalsOf(blocks, 1, rest).totals], [8, 11, 10, 7, 2]); // at 0, 4, 6, 8, 10
});

test("of a rest that is the most of each stretch no more is drawn than all was at most, and no less than the blocks", () => {
  const blocks = blocksOf([0, 10, 5], [4, 8, 3]), rest = {places: [0, 6], values: [4, 1]};
  const tops = {places: [0, 5], values: [11, 8]};
  assert.deepEqual([...totalsOf(blocks, 1, rest).totals], [10, 13, 10, 7, 2]); // at 0, 4, 6, 8, 10; then at 5, too
  assert.deepEqual([...totalsOf(blocks, 1, rest, tops).totals], [10, 11, 9, 9, 7, 2]);
});

test("a column shows the moment at which most is live in it, the first and the last moment too", () => {
  const totals = totalsOf(blocksOf([0, Infinity, 1], [31, 32, 50], [40, Infinity, 2]), 0, NOTHING);
  assert.deepEqual([...totals.places], [0, 31, 32, 40]);
  assert.deepEqual([...columnsOf(totals, 0, 40, 4)], [0, 0, 0, 1]);
  assert.deepEqual([...columnsOf(totals, 32, 40, 2)], [2, 3]);
  assert.deepEqual([...columnsOf(totals, 33, 39, 2)], [2, 2]);
  for (const seed of [6, 7]) {
    const many = totalsOf(some(300, seed), 0, NOTHING);
    const columns = columnsOf(many, 20, 220, 37); // the last one has its end, too
    columns.forEach((moment, column) => {
      const [low, high] = [20 + 200 * column / 37, column < 36 ? 20 + 200 * (column + 1) / 37 : 221];
      const seen = many.totals.filter((_, n) => n === lastUpTo(many.places, low) || (many.places[n] > low && many.places[n] < high));
      assert.equal(many.totals[moment], Math.max(...seen), `column ${column}`);
    });
  }
});

test("edges on whole pixels leave no gap and are the total, within half a pixel", () => {
  const blocks = some(250, 11), {places, shown} = totalsOf(blocks, 3, NOTHING);
  const edge = (bytes) => Math.round(bytes / 9), columns = columnsOf({places, shown, totals: shown}, 0, 300, 64);
  const steps = stepsOf(blocks, 3, places, columns, edge);
  for (let column = 0; column < 64; column++) {
    let at = edge(3);
    for (const mine of steps) {
      for (let n = 0; n < mine.length; n += 4) {
        if (mine[n] > column || column >= mine[n + 1]) continue;
        assert.equal(mine[n + 2], at);
        assert.ok(mine[n + 3] > at);
        at = mine[n + 3];
      }
    }
    assert.equal(at, edge(shown[columns[column]]));
  }
});

test("kinds that lie on each other have a border where both are high enough", () => {
  const blocks = blocksOf([0, 9, 10], [0, 9, 1], [0, 5, 10], [0, 5, 20]), places = [0, 5, 9];
  const borders = bordersOf(blocks, [0, 1, 2, 2], 0, places, Int32Array.from([0, 0, 1, 2]), same, 1);
  assert.deepEqual(borders, [0, 2, 10, 0, 2, 11, 2, 3, 10]);
  assert.deepEqual(bordersOf(blocks, [0, 1, 2, 2], 0, places, Int32Array.from([0]), same, 2), [0, 1, 11]); // over what is thin
  assert.deepEqual(bordersOf(blocks, [0, 1, 0, 0], 0, places, Int32Array.from([0]), same, 2), []);
});

test("the widest step is where a name has most room", () => {
  assert.deepEqual(widest([0, 2, 5, 9, 2, 7, 4, 8, 9, 10, 0, 4]), [2, 7, 4, 8]);
  assert.equal(widest([]), null);
});

test("blocks and lines come out as they went in", () => {
  // begins 0, 0, 7; ends 9, never, 7; sizes 300, 1, 2; 0, 1, 0
  const found = unpackBlocks(Uint8Array.from([0, 0, 7, 10, 0, 1, 0xac, 2, 1, 2, 0, 1, 0]), 3);
  assert.deepEqual([[...found.starts], [...found.ends], [...found.sizes], [...found.abouts]], [[0, 0, 7], [9, Infinity, 7], [300, 1, 2], [0, 1, 0]]);
  const line = unpackSteps(Uint8Array.from([0, 4, 1, 20, 5, 1]), 3);
  assert.deepEqual([[...line.places], [...line.values]], [[0, 4, 5], [10, 7, 6]]);
});
