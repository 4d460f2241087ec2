import assert from "node:assert/strict";
import test from "node:test";
import {inked} from "../../reports/page/scripts/charts.mjs";
import {compareCells} from "../../reports/page/scripts/tables.mjs";
import {byteTicks, changeLevel, fitted, isLight, niceTicks, sayBytes, sayChange, sayMany, sayMilliseconds, sayShare, sayTime, shortened}
  from "../../reports/page/scripts/units.mjs";

test("times have the unit in which they are short", () => {
  assert.deepEqual([0, 999, 1234, 45_600, 2_345_678, 7.2e10, -1500].map(sayTime),
    ["0 ns", "999 ns", "1.234 µs", "45.60 µs", "2.346 ms", "72.00 s", "-1.500 µs"]);
  assert.deepEqual([1, 0.0371, 0.00004].map(sayShare), ["100 %", "3.7 %", "0.004 %"]);
});

test("bytes have the unit in which they are short, and round ticks", () => {
  assert.deepEqual([0, 512, 2048, 150.26 * 2 ** 20, 7e9, -2048].map(sayBytes), ["0 B", "512 B", "2.00 KiB", "150.3 MiB", "6,675.7 MiB", "-2.00 KiB"]);
  assert.deepEqual(byteTicks(5000 * 2 ** 20, 3), [[0, "0 MiB"], [2000 * 2 ** 20, "2,000 MiB"], [4000 * 2 ** 20, "4,000 MiB"]]);
  assert.deepEqual(byteTicks(1.2 * 2 ** 20, 2).map(([, text]) => text), ["0 KiB", "1,000 KiB"]);
});

test("ticks are round and inside", () => {
  assert.deepEqual(niceTicks(-3, 21, 5), [0, 5, 10, 15, 20]);
  assert.deepEqual(niceTicks(5, 5, 5), []);
  assert.ok(Object.is(niceTicks(-5, 5, 2)[1], 0));
});

test("long names keep both ends", () => {
  assert.equal(shortened("elementwise", 11), "elementwise");
  assert.equal(shortened("elementwise_kernel", 7), "ele…nel");
  assert.equal(shortened("elementwise", 2), "");
});

test("no letter of a long name is cut in half", () => {
  const coder = "\u{1F469}\u200D\u{1F4BB}"; // one letter of three code points
  for (let length = 4; length < 20; length++) {
    const said = shortened(`a${coder.repeat(20)}b`, length);
    assert.ok(said.isWellFormed());
    assert.equal(said, `a${coder.repeat(Math.ceil((length - 1) / 2) - 1)}…${coder.repeat(Math.floor((length - 1) / 2) - 1)}b`);
  }
  assert.equal(shortened(coder.repeat(9), 9), coder.repeat(9));
  assert.equal(fitted("\u{1F600}".repeat(20), 9, (text) => [...text].length), `${"\u{1F600}".repeat(4)}…${"\u{1F600}".repeat(4)}`);
});

test("milliseconds have the digits that cells have", () => {
  assert.deepEqual([0, 480, 2_800, 99_000, 120_000, 1_234_567_890, 0.5].map(sayMilliseconds),
    ["0.000", "0.00048", "0.0028", "0.099", "0.120", "1,234.568", "0.00000050"]);
});

test("numbers sort as numbers and texts as texts", () => {
  assert.deepEqual([10, 9, 100].sort(compareCells), [9, 10, 100]);
  assert.deepEqual(["b", "a"].sort(compareCells), ["a", "b"]);
});

test("letters and hatches have the colours of the page", () => {
  const figure = {data: [{marker: {pattern: {shape: "/"}}}, {fillpattern: {shape: "x"}}, {}], layout: {font: {size: 12}}};
  const {data, layout} = inked(figure, "#eee", "#111");
  assert.deepEqual(layout.font, {size: 12, color: "#eee"});
  assert.deepEqual([data[0].marker.pattern.fgcolor, data[1].fillpattern.fgcolor, data[2]], ["#111", "#111", {}]);
  const shared = inked({data: [{y: [1]}, {x: [2], y: [3]}], layout: {}, x: [7]}, "#000", "#fff");
  assert.deepEqual(shared.data.map((trace) => trace.x), [[7], [2]]);
  assert.deepEqual(["#ffffff", "#f0e442", "#332288", "#000000"].map(isLight), [true, true, false, false]);
});

test("changes are said with their sign, and shaded by their size", () => {
  assert.deepEqual([[4, 5], [4, 1], [3, 3], [0, 2], [2, 0], [0, 0], [100, 102.34]].map(([a, b]) => sayChange(a, b)),
    ["+25 %", "-75 %", "±0 %", "new", "gone", "±0 %", "+2.3 %"]);
  assert.deepEqual([[4, 4], [100, 104], [100, 110], [100, 92], [100, 130], [1, 2], [2, 1], [0, 1], [1, 0]].map(([a, b]) => changeLevel(a, b)),
    ["same", "same", "more by-1", "less by-1", "more by-2", "more by-3", "less by-3", "more by-3", "less by-3"]);
});

test("a name is as long as there is room for it, whatever its letters", () => {
  const widthOf = (text) => [...text].reduce((sum, letter) => sum + (letter === "#" ? 9 : 3), 0);
  for (const [name, width] of [["####narrow####", 40], ["iiiiiiiiii", 30], ["iiiiiiiiiii", 30], ["#".repeat(1e5), 100], ["gemm", 2], ["gemm", -6]]) {
    const said = fitted(name, width, widthOf);
    assert.ok(widthOf(said) <= Math.max(0, width), name.slice(0, 20));
    assert.ok(said === name || said === "" || said.includes("…"));
  }
  assert.equal(fitted("iiiiiiiiii", 30, widthOf), "iiiiiiiiii");
});

test("one of a thing is not many", () => {
  assert.deepEqual([sayMany(1, "time"), sayMany(0, "time"), sayMany(1536, "operation"), sayMany(2, "launch", "launches")],
    ["1 time", "0 times", "1,536 operations", "2 launches"]);
});
