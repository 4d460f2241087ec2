// What is chosen, and what of a page's data belongs to it. Nothing here knows a browser.
import {firstEndingAfter} from "./density.mjs";
import {namesTo} from "./flame_tree.mjs";
import {sayName, sayTime} from "./units.mjs";

export const DIMENSIONS = ["time", "range", "kernel", "step", "rank"];

// The dimensions in which something is chosen.
export function chosenIn(state) {
  return DIMENSIONS.filter((name) => (name === "range" ? state.range?.length : state[name] !== undefined && state[name] !== null));
}

// What is chosen in one of them, as people read it; `zero` is the time at which the axis of the timeline has 0.
export function toldOf(state, name, zero) {
  if (name === "time") return `${sayTime(state.time.from - zero)} to ${sayTime(state.time.to - zero)}`;
  if (name === "range") return `range ${sayName(state.range.join(" / "))}`;
  return `${name} ${sayName(String(state[name]))}`;
}

// The path of a range by its name and the path above it, which may both have a slash in them.
export function pathOf(above, name) {
  return above ? `${above}/${name}` : name;
}

// The paths of a tree's ranges: what the data says, else the name behind the path above it.
export function pathsOf(nodes, said) {
  const paths = [];
  for (const node of nodes) {
    const above = paths[node.parent] ?? "";
    paths.push(node.kind === 1 || node.kind === 2 ? said[node.id] ?? pathOf(above, node.name) : above);
  }
  return paths;
}

// The node that names from the outermost range down lead to, or as far as they do.
export function nodeAt(nodes, names) {
  let node = nodes[0];
  for (const name of names ?? []) {
    const next = node.children.find((child) => child.name === name);
    if (!next) break;
    node = next;
  }
  return node;
}

// Of each node whether it is a node or below it.
export function below(nodes, node) {
  const inside = new Uint8Array(nodes.length);
  const pending = [node];
  while (pending.length) {
    const at = pending.pop();
    inside[at.id] = 1;
    pending.push(...at.children);
  }
  return inside;
}

// The names that lead to a path, or to the nearest range above it that the tree has; empty where it has none.
export function namesOfPath(nodes, paths, path) {
  for (let wanted = path; wanted; wanted = wanted.slice(0, Math.max(0, wanted.lastIndexOf("/")))) {
    const node = nodes.find(({id, kind}) => (kind === 1 || kind === 2) && paths[id] === wanted);
    if (node) return namesTo(nodes, node);
  }
  return [];
}

// Whether a path is one of those that are chosen, or below the uppermost of them.
export function isPathIn(path, chosen) {
  return chosen.paths.has(path) || (chosen.top !== "" && path.startsWith(`${chosen.top}/`));
}

// For each name the time of its operations between two times and how many there are, those at the ends cut.
export function sumsByName(lanes, cnt, from, to) {
  const times = new Float64Array(cnt), counts = new Float64Array(cnt);
  for (const lane of lanes) {
    for (let n = firstEndingAfter(lane.ends, from); n < lane.begins.length && lane.begins[n] < to; n++) {
      const end = lane.begins[n] + lane.lengths[n];
      if (end <= from) continue;
      times[lane.names[n]] += Math.min(end, to) - Math.max(lane.begins[n], from);
      counts[lane.names[n]] += 1;
    }
  }
  return {times, counts};
}

// Rows of labels with their counts and times, the most time first; what has no label or no time is left out.
export function addUp(times, counts, labelOf) {
  const found = new Map();
  times.forEach((time, n) => {
    const label = time > 0 ? labelOf(n) : null;
    if (label === null) return;
    const row = found.get(label) ?? {label, cnt: 0, time: 0};
    row.cnt += counts[n];
    row.time += time;
    found.set(label, row);
  });
  return [...found.values()].sort((a, b) => b.time - a.time);
}

// Whether a row belongs to what is chosen. row: range, kernel, step and rank where it has them, begin and length as times.
export function isRowChosen(row, state, chosen) {
  if ("range" in row && state.range?.length && !isPathIn(row.range, chosen)) return false;
  for (const name of ["kernel", "step", "rank"])
    if (name in row && state[name] !== undefined && String(row[name]) !== String(state[name])) return false;
  if (!("begin" in row) || !state.time) return true;
  return row.begin < state.time.to && (row.length ? row.begin + row.length > state.time.from : row.begin >= state.time.from);
}

// Whether a time lies in another one, but for what rounding does; without one of them it does not.
export function isWithin(time, whole) {
  return Boolean(time && whole && time.from >= whole.from - 1 && time.to <= whole.to + 1);
}

// What filters a thing that knows some of the dimensions, and what does not.
export function filtersOf(state, known) {
  const active = chosenIn(state);
  // a chosen step is a time and a number: what knows the one is filtered by it
  const isKnown = (name) => known.includes(name) || (name === "step" && known.includes("time") && state.time)
    || (name === "time" && known.includes("step") && state.step !== undefined);
  return {by: active.filter(isKnown), not: active.filter((name) => !isKnown(name))};
}
