// The flame graph of a page: slices as elements, so that they print, are read aloud and are found by the browser's search.
import {invertTree, layoutSlices, matchingTime, namesTo, unpackTree} from "./flame_tree.mjs";
import {sayCount, sayShare, sayTime, shortened} from "./units.mjs";

const ROW_HEIGHT = 20;
const LEAST_PIXELS = 0.6;
const LETTER = 6.6; // pixels, of the slices' letters
const KINDS = ["all", "range", "operator", "GPU work", "outside of all ranges", "smaller"];

export class Flame {
  constructor(place, data, read) {
    this.place = place;
    this.data = data;
    this.read = read;
    this.measure = data.measures[0];
    this.isInverted = false;
    this.words = "";
    this.build();
    this.choose(this.measure);
    new ResizeObserver(() => { if (this.place.clientWidth !== this.width) this.draw(); }).observe(place);
  }

  build() {
    const bar = document.createElement("div");
    bar.className = "controls";
    const group = document.createElement("span");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "What the widths are");
    this.buttons = this.data.measures.map((measure) => {
      const button = makeButton(measure.title, () => this.choose(measure));
      group.append(button);
      return button;
    });
    this.upside = makeButton("invert", () => { this.isInverted = !this.isInverted; this.choose(this.measure); });
    this.back = makeButton("show all", () => this.focusOn(0));
    const find = document.createElement("input");
    find.type = "search";
    find.placeholder = "find a range or kernel";
    find.setAttribute("aria-label", "Find in the flame graph");
    find.addEventListener("input", () => { this.words = find.value; this.mark(); });
    this.find = find;
    bar.append(group, this.upside, this.back, find);
    this.rows = document.createElement("div");
    this.rows.className = "flame";
    this.rows.setAttribute("role", "tree");
    this.rows.setAttribute("aria-label", "Flame graph; arrow keys move, Enter zooms, Escape goes back");
    this.rows.addEventListener("keydown", (event) => this.key(event));
    this.said = document.createElement("p");
    this.said.className = "said";
    this.said.setAttribute("aria-live", "polite");
    this.place.append(bar, this.rows, this.said);
  }

  choose(measure) {
    this.measure = measure;
    const nodes = unpackTree(this.data[measure.tree], measure.column);
    this.nodes = this.isInverted ? invertTree(nodes) : nodes;
    if (this.isInverted) this.nodes[0].total = nodes[0].total;
    this.buttons.forEach((button, n) => button.setAttribute("aria-pressed", String(this.data.measures[n] === measure)));
    this.upside.setAttribute("aria-pressed", String(this.isInverted));
    this.focus = 0;
    this.back.disabled = true;
    this.draw();
    this.tell(this.nodes[0]);
  }

  focusOn(id) {
    this.focus = id;
    this.back.disabled = id === 0;
    const hasFocus = this.rows.contains(document.activeElement);
    this.draw();
    if (hasFocus) this.current()?.focus({preventScroll: true});
    this.tell(this.nodes[id]);
    this.place.dispatchEvent(new CustomEvent("chosen", {bubbles: true, detail: namesTo(this.nodes, this.nodes[id])}));
  }

  // The node that these names lead to, or as far as they do.
  focusOnNames(names) {
    let node = this.nodes[0];
    for (const name of names) {
      const next = node.children.find((child) => child.name === name);
      if (!next) break;
      node = next;
    }
    if (node.id !== this.focus) this.focusOn(node.id);
  }

  draw() {
    this.width = this.place.clientWidth;
    const width = this.rows.clientWidth || 1000;
    const slices = layoutSlices(this.nodes, this.focus, LEAST_PIXELS / width);
    this.rows.replaceChildren();
    let deepest = 0;
    for (const slice of slices) {
      const element = document.createElement("div");
      element.className = `slice ${this.shade(slice.node)}${slice.above ? " above" : ""}${slice.width * width < 4 ? " thin" : ""}`;
      element.style.left = `${slice.from * 100}%`;
      element.style.width = `${slice.width * 100}%`;
      element.style.top = `${slice.depth * ROW_HEIGHT}px`;
      element.textContent = shortened(slice.node.name, Math.floor((slice.width * width - 6) / LETTER));
      element.setAttribute("role", "treeitem");
      element.setAttribute("aria-level", String(slice.depth + 1));
      element.setAttribute("aria-label", this.told(slice.node));
      element.tabIndex = -1;
      element.slice = slice;
      element.addEventListener("click", () => { if (slice.node.id >= 0) this.focusOn(slice.node.id); });
      element.addEventListener("mouseenter", () => this.tell(slice.node));
      element.addEventListener("focus", () => this.tell(slice.node));
      this.rows.append(element);
      deepest = Math.max(deepest, slice.depth);
    }
    this.rows.style.height = `${(deepest + 1) * ROW_HEIGHT}px`;
    const current = [...this.rows.children].find((element) => element.slice.node.id === this.focus);
    if (current) current.tabIndex = 0;
    this.mark();
  }

  // The slice that the tabulator reaches.
  current() {
    return [...this.rows.children].find((element) => element.tabIndex === 0);
  }

  shade(node) {
    if (node.kind === 3) return this.data.colours[node.group] ?? "k-other";
    return ["all", "range", "operator", "", "outside", "smaller"][node.kind];
  }

  told(node) {
    const whole = this.nodes[0].total;
    const calls = node.kind === 3 || node.kind === 0 || !node.cnt ? "" : `, ${sayCount(node.cnt)} times`;
    return `${node.name}: ${sayTime(node.total)}, ${sayShare(node.total / whole)} of ${this.measure.whole}`
      + (node.kind === 3 ? `, ${sayCount(node.cnt)} launches` : calls);
  }

  tell(node) {
    const names = node.id >= 0 ? namesTo(this.nodes, node) : [];
    const own = node.children.length && node.own ? `, of it ${sayTime(node.own)} of its own` : "";
    this.said.textContent = `${KINDS[node.kind]}: ${this.told(node)}${own}${names.length > 1 ? ` — in ${names.slice(0, -1).join(" / ")}` : ""}`;
  }

  mark() {
    const wanted = this.words.toLowerCase();
    for (const element of this.rows.children)
      element.classList.toggle("dim", wanted !== "" && !element.slice.node.name.toLowerCase().includes(wanted));
    if (!wanted) return;
    const found = matchingTime(this.nodes, wanted);
    this.said.textContent = `“${this.words}”: ${sayTime(found)}, ${sayShare(found / this.nodes[0].total)} of ${this.measure.whole}`;
  }

  key(event) {
    const current = document.activeElement?.slice;
    if (!current) return;
    const next = this.neighbour(current, event.key);
    if (event.key === "Enter" && current.node.id >= 0) this.focusOn(current.node.id);
    else if (event.key === "Escape") this.focusOn(0);
    else if (!next) return;
    event.preventDefault();
    (next ?? this.current())?.focus();
  }

  neighbour(current, key) {
    const all = [...this.rows.children];
    const row = (depth) => all.filter((e) => e.slice.depth === depth).sort((a, b) => a.slice.from - b.slice.from);
    const same = row(current.depth);
    const at = same.findIndex((element) => element.slice === current);
    if (key === "ArrowLeft") return same[at - 1];
    if (key === "ArrowRight") return same[at + 1];
    const middle = current.from + current.width / 2;
    if (key === "ArrowUp") return row(current.depth - 1).find((e) => e.slice.from <= middle && middle <= e.slice.from + e.slice.width);
    if (key === "ArrowDown") return row(current.depth + 1).find((e) => e.slice.from >= current.from && e.slice.from < current.from + current.width);
    return undefined;
  }
}

function makeButton(text, act) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.addEventListener("click", act);
  return button;
}
