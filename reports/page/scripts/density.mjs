// How much of each pixel's time a lane was busy, by kind. Nothing here knows a browser.

// The first stretch that ends behind a time; ends never fall.
export function firstEndingAfter(ends, time) {
  let low = 0, high = ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

// For each kind a row of `width` shares from 0 to 1: how much of each pixel's time work of this kind took.
export function coverage(lane, kindOf, kindCnt, from, to, width) {
  const shares = new Float32Array(kindCnt * width);
  const scale = width / (to - from);
  const {starts, ends, names, levels} = lane;
  for (let n = firstEndingAfter(ends, from); n < starts.length && starts[n] < to; n++) {
    const left = Math.max(0, (starts[n] - from) * scale);
    const right = Math.min(width, (ends[n] - from) * scale);
    const row = kindOf[names[n]] * width;
    const level = levels ? levels[n] : 1;
    let pixel = Math.floor(left);
    const last = Math.min(width - 1, Math.floor(right));
    if (pixel >= last) {
      if (pixel < width) shares[row + pixel] += (right - left) * level;
      continue;
    }
    shares[row + pixel] += (pixel + 1 - left) * level;
    for (pixel += 1; pixel < last; pixel++) shares[row + pixel] += level;
    shares[row + last] += (right - last) * level;
  }
  return shares;
}

// The stretch at a time, or the nearest one within `slack`; -1 without.
export function stretchAt(lane, time, slack) {
  const {starts, ends} = lane;
  const n = firstEndingAfter(ends, time);
  if (n < starts.length && starts[n] <= time) return n;
  const behind = n < starts.length ? starts[n] - time : Infinity;
  const before = n > 0 ? time - ends[n - 1] : Infinity;
  if (Math.min(behind, before) > slack) return -1;
  return behind < before ? n : n - 1;
}

// Busy time of a lane between two times.
export function busyTime(lane, from, to) {
  let sum = 0;
  for (let n = firstEndingAfter(lane.ends, from); n < lane.starts.length && lane.starts[n] < to; n++)
    sum += (Math.min(lane.ends[n], to) - Math.max(lane.starts[n], from)) * (lane.levels ? lane.levels[n] : 1);
  return sum;
}

// How many stretches of lanes have a name that is wanted: in all, and between two times.
export function countWanted(lanes, wanted, {from, to}) {
  let all = 0, inside = 0;
  for (const {names, starts, ends} of lanes) {
    for (let n = 0; n < names.length; n++) {
      if (!wanted[names[n]]) continue;
      all += 1;
      inside += starts[n] < to && ends[n] > from;
    }
  }
  return {all, inside};
}

// What takes the most time of a lane between two times: [label, time], the longest first; names that share a label are one.
export function mostOf(lane, labelOf, from, to, cnt) {
  const found = new Map();
  for (let n = firstEndingAfter(lane.ends, from); n < lane.starts.length && lane.starts[n] < to; n++) {
    const length = (Math.min(lane.ends[n], to) - Math.max(lane.starts[n], from)) * (lane.levels ? lane.levels[n] : 1);
    const label = labelOf(lane.names[n]);
    found.set(label, (found.get(label) ?? 0) + length);
  }
  return [...found].sort((a, b) => b[1] - a[1]).slice(0, cnt);
}

// The share of a view in which a lane was busy, of what lies in `whole` alone; and what that is.
export function busyWithin(lane, view, whole) {
  const from = Math.max(view.from, whole.from), to = Math.min(view.to, whole.to);
  return {share: to > from ? busyTime(lane, from, to) / (to - from) : 0, from, to};
}
