// Bars, lines and areas, drawn by plotly in the colours of the page.

const CONFIG = {displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "",
  modeBarButtonsToRemove: ["sendDataToCloud", "select2d", "lasso2d", "autoScale2d"]};

// A figure with the page's colours: ink for texts, paper for the hatches, which lie on colours.
export function inked(figure, ink, paper) {
  const layout = {...figure.layout, font: {...figure.layout.font, color: ink}};
  const data = figure.data.map((trace) => {
    const made = trace.x || !figure.x ? {...trace} : {...trace, x: figure.x};
    if (trace.marker?.pattern) made.marker = {...trace.marker, pattern: {...trace.marker.pattern, fgcolor: paper}};
    if (trace.fillpattern) made.fillpattern = {...trace.fillpattern, fgcolor: paper};
    return made;
  });
  return {data, layout};
}

export function drawChart(place) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim(), paper = style.getPropertyValue("--paper").trim();
  const figure = JSON.parse(document.getElementById(place.dataset.figure).textContent);
  const {data, layout} = inked(figure, ink, paper);
  return globalThis.Plotly.newPlot(place, data, layout, CONFIG);
}
