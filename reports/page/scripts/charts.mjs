// Bars, lines and areas, drawn by plotly in the colours of the page.
import {shortened} from "./units.mjs";

// Without plotly's row of buttons: a drag zooms and a double click shows all without them, and they take a fifth of the
// time that a page's charts take.
const CONFIG = {displayModeBar: false, responsive: true, plotlyServerURL: ""};

// Idle time is no kind of work: paper with a hatch, as the receipt has it.
const IDLE = "idle", OF_IDLE = {[IDLE]: "card", hatch: "faint"};

function hatched(marker, colourOf) {
  return {...marker, pattern: {...marker.pattern, shape: "/", fgcolor: colourOf("hatch")}, line: {color: colourOf("hatch"), width: 1}};
}

// A figure with the page's colours: ink for texts, paper for the hatches, which lie on colours; colourOf of kinds of work.
export function inked(figure, ink, paper, colourOf = () => undefined) {
  const layout = {...figure.layout, font: {...figure.layout.font, color: ink}};
  const data = figure.data.map((trace) => {
    const made = trace.x || !figure.x ? {...trace} : {...trace, x: figure.x};
    if (trace.marker?.pattern) made.marker = {...trace.marker, pattern: {...trace.marker.pattern, fgcolor: paper}};
    if (trace.meta?.kind) made.marker = {...made.marker, color: colourOf(trace.meta.kind)};
    if (trace.meta?.kinds) made.marker = {...made.marker, color: trace.meta.kinds.map(colourOf)}; // of each bar
    if (trace.meta?.kind === IDLE) made.marker = hatched(made.marker, colourOf);
    if (trace.fillpattern) made.fillpattern = {...trace.fillpattern, fgcolor: paper};
    return made;
  });
  return {data, layout};
}

const BAR_HEIGHT = 26; // as figures.py has it
const LEAST_BARS = 4; // for which there is room: of fewer a part stays empty
// In the place of axes, which without bars have numbers of their own.
const NOTHING = {text: "nothing of what is chosen", showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5};

// The layout of a figure with so many bars in place of all that it draws otherwise, each about as high as before.
function sized(figure, cnt, yaxis) {
  const usual = Math.max(1, Math.min(figure.most ?? Infinity, figure.data[0].y.length)), least = Math.min(LEAST_BARS, usual);
  const height = figure.layout.height + BAR_HEIGHT * (Math.max(cnt, least) - usual);
  const range = cnt < least ? {autorange: false, range: [least - 0.5, -0.5]} : {};
  if (!cnt) {
    const hidden = {xaxis: {...figure.layout.xaxis, visible: false}, yaxis: {...yaxis, ...range, visible: false}};
    return {...figure.layout, ...hidden, height, annotations: [NOTHING]};
  }
  return {...figure.layout, height, yaxis: {...yaxis, ...range}};
}

// The bars at these places alone, in the order of the figure.
export function withBars(figure, kept) {
  const pick = (values) => kept.map((n) => values[n]);
  const names = kept.map((_, n) => String(n));
  const data = figure.data.map((trace) => ({...trace, y: names, x: pick(trace.x), customdata: pick(trace.customdata),
    ...(trace.base ? {base: pick(trace.base)} : {})}));
  const yaxis = {...figure.layout.yaxis, tickvals: names, ticktext: pick(figure.layout.yaxis.ticktext)};
  const keys = Object.fromEntries(Object.entries(figure.keys).map(([name, values]) => [name, pick(values)]));
  return {...figure, data, keys, layout: sized(figure, kept.length, yaxis)};
}

// A figure of one series with the bars of these rows, each with a label and a time.
export function ofRows(figure, rows) {
  const names = rows.map((_, n) => String(n)), labels = rows.map(({label}) => escaped(label));
  const trace = {...figure.data[0], y: names, x: rows.map(({time}) => time / 1e6), customdata: labels};
  const {kinds} = trace.meta ?? {}, before = figure.data[0].customdata;
  if (kinds) trace.meta = {kinds: labels.map((label) => kinds[before.indexOf(label)] ?? "other")};
  const ticktext = rows.map(({label}) => escaped(shortened(label, 44)));
  const yaxis = {...figure.layout.yaxis, tickvals: names, ticktext};
  return {...figure, data: [trace], keys: figure.keys && {kernel: rows.map(({label}) => label)}, layout: sized(figure, rows.length, yaxis)};
}

// Plotly reads a small markup in its texts.
function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("$", "&#36;");
}

export function figureOf(place) {
  return JSON.parse(document.getElementById(place.dataset.figure).textContent);
}

// What a click on a bar chooses: a kernel, a step or a rank, else a range; null where it says none.
export function pickOf(keys, n) {
  const name = ["kernel", "step", "rank", "range"].find((key) => keys[key] && keys[key][n] !== null);
  return name ? {name, value: keys[name][n], time: keys.time?.[n]} : null;
}

// Draws a place's figure, or what a choice leaves of it.
export async function drawChart(place, shown = null) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  let figure = shown ?? figureOf(place);
  if (!shown && figure.most) figure = withBars(figure, figure.data[0].y.map((_, n) => n).slice(0, figure.most));
  const {data, layout} = inked(figure, colour("ink"), colour("paper"), (kind) => colour(OF_IDLE[kind] ?? `k-${kind}`));
  place.shown = shown;
  await globalThis.Plotly.newPlot(place, data, layout, CONFIG);
  if (!figure.keys) return;
  place.removeAllListeners("plotly_click");
  place.on("plotly_click", ({points: [point]}) => {
    const detail = pickOf(figure.keys, Number(point.y));
    if (detail) place.dispatchEvent(new CustomEvent("picked", {bubbles: true, detail}));
  });
}
