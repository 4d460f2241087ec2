// What is looked at, in the part of the address behind #, so that a link opens the page as it was left.

const TEXTS = ["kernel", "step", "rank", "find"];

// The state as text: only what differs from a page that was just opened.
export function stateText(state) {
  const words = new URLSearchParams();
  if (state.time) words.set("time", `${Math.round(state.time.from)}..${Math.round(state.time.to)}`);
  if (state.range?.length) words.set("range", JSON.stringify(state.range));
  for (const name of TEXTS) if (state[name]) words.set(name, state[name]);
  return words.toString();
}

// The state in the part of an address from # on. Null for the name of a section, and for what is not written as addresses are.
export function stateOf(hash) {
  let text;
  try {
    text = decodeURIComponent(hash.slice(1));
  } catch (error) {
    if (error instanceof URIError) return null; // as #50%: the page is as if it had none
    throw error;
  }
  return readState(text);
}

// The state that a text says; what is damaged in it is left out. Null for the name of a section.
export function readState(text) {
  if (!text.includes("=")) return null;
  const words = new URLSearchParams(text);
  const state = {};
  const time = /^(-?\d+)\.\.(-?\d+)$/.exec(words.get("time") ?? "");
  if (time && Number(time[1]) < Number(time[2])) state.time = {from: Number(time[1]), to: Number(time[2])};
  try {
    const range = JSON.parse(words.get("range") ?? "null");
    if (Array.isArray(range) && range.every((name) => typeof name === "string")) state.range = range;
  } catch { /* not a list of names */ }
  for (const name of TEXTS) if (words.get(name)) state[name] = words.get(name);
  return state;
}
