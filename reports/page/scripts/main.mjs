// What happens when a page is opened: pictures are drawn where they are seen, and all of them before it is printed.
import {drawChart} from "./charts.mjs";
import {Flame} from "./flame.mjs";
import {activateReceipt} from "./receipt.mjs";
import {readState, stateText} from "./state.mjs";
import {activateTables} from "./tables.mjs";
import {Timeline} from "./timeline.mjs";

const drawn = new Map();

async function drawPicture(place) {
  if (drawn.has(place)) return;
  drawn.set(place, null);
  const data = () => JSON.parse(document.getElementById(place.dataset.figure).textContent);
  if (place.dataset.kind === "flame") drawn.set(place, new Flame(place, data()));
  else if (place.dataset.kind === "timeline") {
    const timeline = new Timeline(place, data());
    drawn.set(place, timeline);
    await timeline.ready;
  } else await drawChart(place);
  place.picture = drawn.get(place);
  place.dataset.drawn = "yes";
}

const places = [...document.querySelectorAll("[data-figure]")];
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) drawPicture(entry.target);
}, {rootMargin: "600px"});
places.forEach((place) => seen.observe(place));

// The rest while nothing else is to be done, so that print and search find everything.
function drawRest() {
  const next = places.find((place) => !drawn.has(place));
  if (!next) { document.documentElement.dataset.drawn = "all"; return; }
  drawPicture(next).then(() => (window.requestIdleCallback ?? setTimeout)(drawRest));
}
addEventListener("load", () => setTimeout(drawRest, 200));

function redraw() {
  for (const [place, picture] of drawn) {
    if (picture?.draw) picture.draw();
    else if (place.dataset.drawn) drawChart(place);
  }
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

// Paper is white, has no pointer and does not scroll.
let closed = [];
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printed");
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((details) => { details.open = true; });
  places.forEach(drawPicture);
  redraw();
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printed");
  closed.forEach((details) => { details.open = false; });
  redraw();
});

// The state is in the address: a link to the page opens it as it was left.
const state = readState(decodeURIComponent(location.hash.slice(1))) ?? {};
function remember(change) {
  Object.assign(state, change);
  history.replaceState(null, "", `#${encodeURIComponent(stateText(state))}`);
}
function restore() {
  const wanted = {...state};
  for (const place of places) {
    if (place.dataset.kind === "timeline" && wanted.time) drawPicture(place).then(() => place.picture.show(wanted.time));
    if (place.dataset.kind === "flame" && wanted.range) drawPicture(place).then(() => place.picture.focusOnNames(wanted.range));
  }
}
restore();
document.addEventListener("seen", ({detail}) => remember({time: detail}));
document.addEventListener("chosen", ({detail}) => {
  remember({range: detail});
  for (const place of places) if (place.dataset.kind === "timeline") place.picture?.lookFor(detail.at(-1) ?? "");
});
activateReceipt(document);
activateTables(document);
