// Bars, lines and areas, drawn by plotly in the colours of the page.

const CONFIG = {displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "",
  modeBarButtonsToRemove: ["sendDataToCloud", "select2d", "lasso2d", "autoScale2d"]};

// A figure with the page's colours: ink for texts, paper for the hatches, which lie on colours.
export function inked(figure, ink, paper) {
  const layout = {...figure.layout, font: {...figure.layout.font, color: ink}};
  const data = figure.data.map((trace) => {
    const made = {...trace};
    if (trace.marker?.pattern) made.marker = {...trace.marker, pattern: {...trace.marker.pattern, fgcolor: paper}};
    if (trace.fillpattern) made.fillpattern = {...trace.fillpattern, fgcolor: paper};
    return made;
  });
  return {data, layout};
}

// Bands behind a picture: one for each stretch of a phase, named where it is wide enough.
export function phaseBands(phases, scale, ink) {
  const shades = new Map();
  return phases.map((phase) => {
    if (!shades.has(phase.phase)) shades.set(phase.phase, shades.size);
    return {type: "rect", xref: "x", yref: "paper", x0: phase.start_ns * scale, x1: phase.end_ns * scale, y0: 0, y1: 1,
      layer: "below", line: {width: 0}, fillcolor: ink, opacity: shades.get(phase.phase) % 2 ? 0.03 : 0.09};
  });
}

export function drawChart(place) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim(), paper = style.getPropertyValue("--paper").trim();
  const figure = JSON.parse(document.getElementById(place.dataset.figure).textContent);
  const {data, layout} = inked(figure, ink, paper);
  if (figure.phases?.length) layout.shapes = phaseBands(figure.phases, 1e-6, ink);
  return globalThis.Plotly.newPlot(place, data, layout, CONFIG);
}
