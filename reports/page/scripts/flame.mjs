// The flame graph of a page: slices as elements, so that they print, are read aloud and are found by the browser's search.
import {invertTree, layoutSlices, matchingTime, namesTo, unpackTree} from "./flame_tree.mjs";
import {below, nodeAt} from "./selection.mjs";
import {changeLevel, fitted, sayChange, sayMany, sayName, sayShare, sayTime} from "./units.mjs";

const ROW_HEIGHT = 20;
const LEAST_PIXELS = 0.6;
const KINDS = ["all: ", "range: ", "operator: ", "GPU work: ", "", ""]; // what is outside of ranges or smaller is named so
const COUNTED = [1, 2]; // ranges and operators: how often they were open

export class Flame {
  constructor(place, data) {
    this.place = place;
    this.data = data;
    this.chosen = null; // of a part of the work its values
    this.range = []; // the names of the range that is chosen
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
      const button = makeButton(measure.title, () => {
        this.choose(measure);
        this.place.dispatchEvent(new CustomEvent("measured", {bubbles: true}));
      });
      group.append(button);
      return button;
    });
    this.upside = makeButton("invert", () => { this.isInverted = !this.isInverted; this.choose(this.measure); });
    this.upside.hidden = Boolean(this.data.letters);
    this.back = makeButton("show all", () => this.pick(0));
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
    this.isPart = this.chosen !== null && this.isGpuTime;
    const nodes = unpackTree(this.data[measure.tree], measure.column, this.isPart ? this.chosen : null);
    if (this.data.letters) {
      const both = [0, 1].map((column) => unpackTree(this.data[measure.tree], column));
      for (const node of nodes) node.both = both.map((tree) => tree[node.id].total);
    }
    if (this.isPart) nodes[0].name = "GPU work that is chosen";
    const node = nodeAt(nodes, this.range);
    this.hasRange = namesTo(nodes, node).length === this.range.length; // not every tree has every range
    this.focus = this.hasRange && !this.isInverted ? node.id : 0;
    this.nodes = this.isInverted ? invertTree(nodes, this.hasRange ? below(nodes, node) : null) : nodes;
    this.buttons.forEach((button, n) => button.setAttribute("aria-pressed", String(this.data.measures[n] === measure)));
    this.upside.setAttribute("aria-pressed", String(this.isInverted));
    this.back.disabled = this.focus === 0;
    const hasFocus = this.rows.contains(document.activeElement);
    this.draw();
    if (hasFocus) this.current()?.focus({preventScroll: true});
    this.tell(this.nodes[this.focus]);
  }

  // What shares are of.
  get whole() {
    return this.isPart ? "what is chosen" : this.measure.whole;
  }

  get isGpuTime() {
    return this.measure.tree === "work" && this.measure.column === 0;
  }

  // Shows a part of the work and, of ranges, the one that is chosen; null for all work.
  filter(chosen, range) {
    if (chosen === this.chosen && JSON.stringify(range) === JSON.stringify(this.range)) return;
    this.range = range;
    this.chosen = chosen;
    this.choose(this.measure);
  }

  focusOn(id) {
    this.focus = id;
    this.back.disabled = id === 0;
    const hasFocus = this.rows.contains(document.activeElement);
    this.draw();
    if (hasFocus) this.current()?.focus({preventScroll: true});
    this.tell(this.nodes[id]);
  }

  // A click on a slice: it is what all pictures are about. Turned over the tree is about kernels, and is zoomed alone.
  pick(id) {
    const node = this.nodes[id];
    if (this.isInverted) {
      this.focusOn(id);
      return;
    }
    const names = namesTo(this.nodes, node);
    if (node.kind === 5) return;
    if (node.kind !== 3 || this.data.letters) {
      this.range = names;
      this.focusOn(id);
    }
    const detail = node.kind === 3 ? {range: names.slice(0, -1), kernel: node.name} : {range: names};
    this.place.dispatchEvent(new CustomEvent("chosen", {bubbles: true, detail}));
  }

  draw() {
    this.width = this.place.clientWidth;
    const width = this.rows.clientWidth || 1000;
    this.pen ??= document.createElement("canvas").getContext("2d"); // it measures
    this.pen.font = getComputedStyle(this.rows).font;
    const slices = layoutSlices(this.nodes, this.focus, LEAST_PIXELS / width);
    this.rows.replaceChildren();
    let deepest = 0;
    for (const slice of slices) {
      const element = document.createElement("div");
      const size = slice.width * width < 4 ? " thin" : slice.width * width < 16 ? " narrow" : "";
      element.className = `slice ${this.shade(slice.node)}${slice.above ? " above" : ""}${size}`;
      element.style.left = `${slice.from * 100}%`;
      element.style.width = `${slice.width * 100}%`;
      element.style.top = `${slice.depth * ROW_HEIGHT}px`;
      element.textContent = this.label(slice.node, slice.width * width - (slice.node.both ? 12 : 6));
      element.setAttribute("role", "treeitem");
      element.setAttribute("aria-level", String(slice.depth + 1));
      element.setAttribute("aria-label", this.told(slice.node));
      element.tabIndex = -1;
      element.slice = slice;
      element.addEventListener("click", () => { if (slice.node.id >= 0) this.pick(slice.node.id); });
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

  // The name as far as it fits; of a change the change at any rate, if there is room for that.
  label(node, width) {
    const widthOf = (text) => this.pen.measureText(text).width;
    if (!node.both) return fitted(node.name, width, widthOf);
    const change = sayChange(...node.both), name = fitted(node.name, width - widthOf(` ${change}`), widthOf);
    return name ? `${name} ${change}` : widthOf(change) <= width ? change : "";
  }

  shade(node) {
    if (node.both) return `change ${changeLevel(...node.both)}`;
    if (node.kind === 3) return this.data.colours[node.group] ?? "k-other";
    return ["all", "range", "operator", "", "outside", "smaller"][node.kind];
  }

  told(node) {
    if (node.both) {
      const [first, second] = this.data.letters.map((letter, n) => `${letter} ${sayTime(node.both[n])}`);
      return `${sayName(node.name)}: ${first}, ${second}, ${sayChange(...node.both)}`;
    }
    const whole = this.nodes[0].total;
    const many = !node.cnt ? "" : node.kind === 3 ? `, ${sayMany(node.cnt, "operation")}` : COUNTED.includes(node.kind) ? `, ${sayMany(node.cnt, "time")}` : "";
    return `${sayName(node.name)}: ${sayTime(node.total)}, ${sayShare(whole ? node.total / whole : 0)} of ${this.whole}${many}`;
  }

  tell(node) {
    const names = node.id >= 0 ? namesTo(this.nodes, node) : [];
    const own = node.children.length && node.own ? `, of it ${sayTime(node.own)} of its own` : "";
    this.said.textContent = `${KINDS[node.kind]}${this.told(node)}${own}${names.length > 1 ? ` — in ${sayName(names.slice(0, -1).join(" / "))}` : ""}`;
  }

  mark() {
    const wanted = this.words.toLowerCase();
    for (const element of this.rows.children)
      element.classList.toggle("dim", wanted !== "" && !element.slice.node.name.toLowerCase().includes(wanted));
    if (!wanted) return;
    const found = matchingTime(this.nodes, wanted);
    this.said.textContent = `“${this.words}”: ${sayTime(found)}, ${sayShare(found / this.nodes[0].total)} of ${this.whole}`;
  }

  key(event) {
    const current = document.activeElement?.slice;
    if (!current) return;
    const next = this.neighbour(current, event.key);
    if (event.key === "Enter" && current.node.id >= 0) this.pick(current.node.id);
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
