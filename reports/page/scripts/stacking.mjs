// Blocks of memory that lie on each other in the order of their allocation. Nothing here knows a browser.
//
//   place    0 1 2 3 4 5        places are times, or numbers of events
//   c            ▒▒▒▒▒▒▒        each block lies on those before it in the order that are live with it,
//   b          ░░░░░░░          and drops when one of those is freed
//   a        █████████
//
// blocks: starts (which rise), ends (behind; Infinity: never freed) and sizes, the lowest first. `base` is what lies below all.

// What is live from each place on at which anything changes: in blocks (`shown`), and in all (`totals`). The steps of `rest` lie
// on the blocks. Where they are the most of a stretch, `tops` has the most that all was in it.
export function totalsOf({starts, ends, sizes}, base, rest, tops = null) {
  const byEnd = [...ends.keys()].filter((n) => ends[n] < Infinity).sort((a, b) => ends[a] - ends[b]);
  const every = [...starts, ...byEnd.map((n) => ends[n]), ...rest.places, ...(tops?.places ?? [])];
  const places = [...new Set(Float64Array.from(every).sort())];
  const shown = new Float64Array(places.length), totals = new Float64Array(places.length);
  const [restAt, topAt] = [rest, tops].map((line) => line && reader(line));
  let sum = base, begun = 0, ended = 0;
  places.forEach((place, n) => {
    while (begun < starts.length && starts[begun] <= place) sum += sizes[begun++];
    while (ended < byEnd.length && ends[byEnd[ended]] <= place) sum -= sizes[byEnd[ended++]];
    shown[n] = sum;
    totals[n] = Math.max(sum, Math.min(sum + restAt(place), topAt ? topAt(place) : Infinity));
  });
  return {places: Float64Array.from(places), shown, totals};
}

// Reads a line of steps at places that rise.
function reader({places, values}) {
  let step = -1;
  return (place) => {
    while (step + 1 < places.length && places[step + 1] <= place) step += 1;
    return step < 0 ? 0 : values[step];
  };
}

// For each of `width` columns of a stretch the moment in it at which most is live, as a place in the totals; -1 before the first.
export function columnsOf({places, shown, totals}, from, to, width) {
  const columns = new Int32Array(width);
  const isMore = (n, other) => other < 0 || totals[n] > totals[other] || (totals[n] === totals[other] && shown[n] > shown[other]);
  let at = lastUpTo(places, from);
  for (let column = 0; column < width; column++) {
    const end = from + (to - from) * (column + 1) / width, isLast = column === width - 1;
    let most = at;
    while (at + 1 < places.length && (places[at + 1] < end || (isLast && places[at + 1] <= to))) {
      at += 1;
      if (isMore(at, most)) most = at;
    }
    columns[column] = most;
  }
  return columns;
}

// Where the last of numbers that rise is no more than this one; -1 without.
export function lastUpTo(numbers, most) {
  let low = 0, high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= most) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// Calls visit(live, column, place) for each column in which something changed: the blocks that are live then, the lowest first.
// columns: places in `places`, as columnsOf has them. A visit costs as much as there are blocks live.
function sweep({starts, ends}, places, columns, visit) {
  const live = [];
  let begun = 0, known = -1;
  columns.forEach((moment, column) => {
    if (moment === known) return;
    known = moment;
    const place = places[moment];
    while (begun < starts.length && starts[begun] <= place) live.push(begun++);
    let kept = 0;
    for (const n of live) if (ends[n] > place) live[kept++] = n;
    live.length = kept;
    visit(live, column);
  });
}

// The polygon of each block: [first column, column behind, lower edge, upper edge] for each of its steps, one after another.
// An edge is what `edge` makes of bytes; a step without height is left out.
export function stepsOf(blocks, base, places, columns, edge) {
  const {sizes} = blocks;
  const steps = Array.from(sizes, () => []);
  const since = new Int32Array(sizes.length).fill(-1), lows = new Float64Array(sizes.length), highs = new Float64Array(sizes.length);
  const seen = new Int32Array(sizes.length); // the last visit in which each was live
  const close = (n, column) => {
    if (since[n] >= 0) steps[n].push(since[n], column, lows[n], highs[n]);
    since[n] = -1;
  };
  let before = [], visit = 0;
  sweep(blocks, places, columns, (live, column) => {
    let sum = base, low = edge(base);
    visit += 1;
    for (const n of live) {
      seen[n] = visit;
      sum += sizes[n];
      const high = edge(sum);
      if (since[n] < 0 || lows[n] !== low || highs[n] !== high) {
        close(n, column);
        if (high > low) [since[n], lows[n], highs[n]] = [column, low, high];
      }
      low = high;
    }
    for (const n of before) if (seen[n] !== visit) close(n, column);
    before = live.slice();
  });
  before.forEach((n) => close(n, columns.length));
  return steps;
}

// Where blocks of one kind lie on those of another: [first column, column behind, edge], one after another. What is together
// less than `least` high has no border.
export function bordersOf(blocks, kinds, base, places, columns, edge, least) {
  const borders = [];
  let found = [], since = 0;
  const close = (column) => found.forEach((at) => borders.push(since, column, at));
  sweep(blocks, places, columns, (live, column) => {
    close(column);
    [found, since] = [[], column];
    let sum = base, low = edge(base), below = -1, kind = -1;
    const end = () => {
      const high = edge(sum);
      if (high - low >= least) {
        if (below >= 0 && below !== kind) found.push(low);
        below = kind;
      }
      low = high;
    };
    for (const n of live) {
      if (kinds[n] !== kind && kind >= 0) end();
      kind = kinds[n];
      sum += blocks.sizes[n];
    }
    end();
  });
  close(columns.length);
  return borders;
}

// The block in which so many bytes lie at a place; -1: below all blocks, one more than there are: above them.
export function blockAt({starts, ends, sizes}, base, place, bytes) {
  let sum = base;
  if (bytes < sum) return -1;
  for (let n = 0; n < sizes.length && starts[n] <= place; n++) {
    if (ends[n] <= place) continue;
    sum += sizes[n];
    if (bytes < sum) return n;
  }
  return sizes.length;
}

// The step of a polygon that is widest, or null: [first column, column behind, lower edge, upper edge].
export function widest(steps) {
  let best = -1;
  for (let at = 0; at < steps.length; at += 4)
    if (best < 0 || steps[at + 1] - steps[at] > steps[best + 1] - steps[best]) best = at;
  return best < 0 ? null : steps.slice(best, best + 4);
}
