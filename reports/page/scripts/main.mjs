// What happens when a page is opened: pictures are drawn where they are seen, and all of them before it is printed.
import {Blocks} from "./blocks.mjs";
import {drawChart, figureOf} from "./charts.mjs";
import {Flame} from "./flame.mjs";
import {Link} from "./link.mjs";
import {activateReceipt} from "./receipt.mjs";
import {stateOf, stateText} from "./state.mjs";
import {activateTables} from "./tables.mjs";
import {Timeline} from "./timeline.mjs";

const drawn = new Map(); // of each place the promise of its picture

function drawPicture(place) {
  if (!drawn.has(place)) drawn.set(place, makePicture(place));
  return drawn.get(place);
}

async function makePicture(place) {
  if (["flame", "change"].includes(place.dataset.kind)) place.picture = new Flame(place, figureOf(place));
  else if (["timeline", "blocks"].includes(place.dataset.kind)) {
    const picture = new (place.dataset.kind === "timeline" ? Timeline : Blocks)(place, figureOf(place));
    await picture.ready;
    place.picture = picture;
  } else await drawChart(place, place.shown);
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
  // a browser may find no idle time at all, so it is waited for no longer than this
  drawPicture(next).then(() => (window.requestIdleCallback ? requestIdleCallback(drawRest, {timeout: 500}) : setTimeout(drawRest)));
}
addEventListener("load", () => setTimeout(drawRest, 200));

function redraw() {
  for (const place of drawn.keys()) {
    if (place.picture) place.picture.draw();
    else if (place.dataset.drawn) drawChart(place, place.shown);
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

// Whether a key is of something that takes text, or of the browser.
function isTyped({target, ctrlKey, metaKey, altKey}) {
  return ctrlKey || metaKey || altKey || ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName);
}

// The state is in the address: a link to the page opens it as it was left.
const state = stateOf(location.hash) ?? {};
const link = new Link(document, state, drawPicture, () => {
  const text = stateText(state);
  if (text || stateOf(location.hash)) // the name of a section stays
    history.replaceState(null, "", text ? `#${encodeURIComponent(text)}` : location.pathname + location.search);
});
document.addEventListener("seen", ({detail}) => link.change({time: detail ?? undefined}));
document.addEventListener("stretch", ({detail}) => link.stretch(detail));
document.addEventListener("chosen", ({detail}) => link.change(detail));
document.addEventListener("picked", ({detail}) => link.pick(detail));
document.addEventListener("sought", ({detail}) => link.remember(state.find = detail));
document.addEventListener("measured", () => link.apply());
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && timeline && !isTyped(event)) {
    event.preventDefault();
    drawPicture(timeline).then(() => timeline.picture.find.focus());
  }
  if (event.key !== "Escape" || event.target.value) return;
  for (const place of places) if (["flame", "change"].includes(place.dataset.kind)) place.picture?.focusOn(0);
  link.clear();
});
const timeline = places.find((place) => place.dataset.kind === "timeline");
function follow() {
  link.open();
  if (timeline) drawPicture(timeline).then(() => { timeline.picture.lookFor(state.find ?? ""); link.apply(); });
}
if (Object.keys(state).length || timeline?.dataset.window) follow();
// An address that is typed or clicked in a page that is open; the name of a section leaves the choice, also in the address.
addEventListener("hashchange", () => {
  const wanted = stateOf(location.hash);
  if (!wanted) { link.remember(); return; }
  for (const name of Object.keys(state)) delete state[name];
  Object.assign(state, wanted);
  follow();
});
activateReceipt(document);
activateTables(document);
