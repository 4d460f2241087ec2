// Numbers as people read them.

const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

// A time in the unit in which it has one to three digits before the point.
export function sayTime(ns) {
  const size = Math.abs(ns);
  const [factor, unit] = TIMES.find(([least]) => size >= least) ?? TIMES[3];
  const value = ns / factor;
  const digits = unit === "ns" ? 0 : Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 10 ? 2 : 3;
  return `${value.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits})} ${unit}`;
}

// A time in milliseconds as the cells of tables have it (cells.py): three decimals, of a smaller one two digits.
export function sayMilliseconds(ns) {
  const value = ns / 1e6, size = Math.abs(value);
  const digits = size > 0 && size < 0.0995 ? Math.min(9, Math.max(3, 1 - Math.floor(Math.log10(size)))) : 3;
  return value.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

// As tables and cards have them: one amount of memory is one number all over the page.
const SIZES = [[2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];

// Bytes with three or four digits that say something; of a smaller number all.
export function sayBytes(bytes) {
  const [factor, unit] = SIZES.find(([least]) => Math.abs(bytes) >= least) ?? SIZES[2];
  const value = bytes / factor;
  const digits = factor === 1 ? 0 : Math.abs(value) >= 100 ? 1 : 2;
  return `${value.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits})} ${unit}`;
}

// About `cnt` round amounts from 0 to a number of bytes, with their names.
export function byteTicks(most, cnt) {
  const [factor, unit] = SIZES.find(([least]) => most >= 2 * least) ?? SIZES[2];
  return niceTicks(0, most / factor, cnt).map((tick) => [tick * factor, `${tick.toLocaleString("en")} ${unit}`]);
}

export function sayShare(fraction) {
  return `${(fraction * 100).toLocaleString("en", {maximumFractionDigits: fraction < 0.001 ? 3 : 1})} %`;
}

// How a value changed: +25 %, new or gone.
export function sayChange(before, after) {
  if (!before || !after) return before ? "gone" : after ? "new" : "±0 %";
  const change = Math.round((after / before - 1) * 1000) / 10;
  return `${change < 0 ? "-" : change > 0 ? "+" : "±"}${Math.abs(change).toLocaleString("en", {maximumFractionDigits: Math.abs(change) < 10 ? 1 : 0})} %`;
}

// The same as one of seven shades: less or more by under 5 %, 15 %, 50 % or by more.
export function changeLevel(before, after) {
  if (before === after) return "same";
  const size = before && after ? Math.abs(Math.log(after / before)) : Infinity;
  const level = [0.05, 0.15, 0.5].findIndex((share) => size < Math.log(1 + share));
  return level === 0 ? "same" : `${after > before ? "more" : "less"} by-${level < 0 ? 3 : level}`;
}

export function sayCount(number) {
  return number.toLocaleString("en");
}

// How many of a thing: 1 launch, 2 launches.
export function sayMany(number, one, many = `${one}s`) {
  return `${sayCount(number)} ${number === 1 ? one : many}`;
}

// Places for about `cnt` ticks between two times: multiples of 1, 2 or 5 of a power of ten.
export function niceTicks(low, high, cnt) {
  const span = high - low;
  if (!(span > 0)) return [];
  const rough = span / Math.max(1, cnt);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const ticks = [];
  for (let number = Math.ceil(low / step); number * step <= high; number++) ticks.push(number * step + 0); // no -0
  return ticks;
}

// A name as a line of text has room for it.
export function sayName(name) {
  return shortened(name, 300);
}

const PLAIN = /^[\x20-\x7e]*$/, SPLIT = new Map(); // of other names the characters: pictures ask at each move
const SEGMENTER = globalThis.Intl?.Segmenter && new Intl.Segmenter();

// The characters of a name as people see them, as an array or a string: an emoji is one, of however many code points.
function charactersOf(name) {
  if (PLAIN.test(name)) return name;
  if (!SPLIT.has(name)) SPLIT.set(name, SEGMENTER ? Array.from(SEGMENTER.segment(name), ({segment}) => segment) : Array.from(name));
  return SPLIT.get(name);
}

// Characters of a name from one place to another, as text.
export function charactersAt(name, from, to) {
  const found = charactersOf(name).slice(from, to);
  return typeof found === "string" ? found : found.join("");
}

// A name with its middle left out, so that it has no more characters than `length`.
export function shortened(name, length) {
  if (name.length <= length) return name;
  const {length: whole} = charactersOf(name), half = (length - 1) / 2;
  if (whole <= length) return name;
  if (length < 4) return "";
  return `${charactersAt(name, 0, Math.ceil(half))}…${charactersAt(name, whole - Math.floor(half))}`;
}

// A name with as much of its middle left out as it takes to be no wider than `width`; widthOf measures.
export function fitted(name, width, widthOf) {
  let length = Math.min(charactersOf(name).length, Math.ceil(width)), said = shortened(name, length); // no letter is under a pixel
  for (let size = widthOf(said); said && size > width; size = widthOf(said)) {
    length = Math.min(length - 1, Math.floor(length * width / size));
    said = shortened(name, length);
  }
  return said;
}

// Whether dark letters read better on a colour like #8fa8c8.
export function isLight(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
  return 0.2126 * red ** 2.2 + 0.7152 * green ** 2.2 + 0.0722 * blue ** 2.2 > 0.18;
}
