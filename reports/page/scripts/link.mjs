// One choice for all pictures and tables of a page: what is chosen filters what can be filtered, and each section says
// what it is filtered by and what not.
import {drawChart, figureOf, ofRows, withBars} from "./charts.mjs";
import {Drawer} from "./drawer.mjs";
import {namesTo, unpackTree} from "./flame_tree.mjs";
import {addUp, below, chosenIn, filtersOf, isPathIn, isRowChosen, isWithin, namesOfPath, nodeAt, pathOf, pathsOf, sumsByName, toldOf} from "./selection.mjs";
import {cellsOf, makePickable, saySummary, showSums} from "./tables.mjs";
import {sayCount, sayMany, sayTime} from "./units.mjs";

const NOTHING = [{id: 0, parent: -1, name: "", kind: 0, total: 0, own: 0, children: []}];
const PAUSE = 150; // ms without another change before pictures are added up anew

export class Link {
  // pictures: draws the picture of a place; remember: writes the choice into the address.
  constructor(document, state, drawPicture, remember) {
    Object.assign(this, {document, state, drawPicture, remember});
    const place = (kind) => document.querySelector(`[data-kind=${kind}]`);
    [this.timeline, this.flame, this.blocks] = [place("timeline"), place("flame"), place("blocks")];
    this.steps = document.querySelector("[data-figure=figure-steps]");
    this.sections = [...document.querySelectorAll("section[aria-labelledby]")].map((element) => new Part(element));
    this.isUsable = Boolean(this.timeline || this.flame);
    if (!this.isUsable) return;
    document.querySelectorAll("table").forEach(makePickable);
    if (state.range) state.range = namesTo(this.nodes, nodeAt(this.nodes, state.range));
    this.drawer = new Drawer(document, (value) => this.pick({name: "range", value}));
    this.bar = document.createElement("div");
    this.bar.className = "selection controls";
    this.bar.hidden = true; // as long as nothing is chosen
    this.bar.setAttribute("role", "region");
    this.bar.setAttribute("aria-label", "What is chosen");
    this.bar.setAttribute("aria-live", "polite");
    document.body.append(this.bar);
  }

  // What pictures are drawn from, read when it is first asked for.
  once(name, read) {
    const value = read();
    Object.defineProperty(this, name, {value});
    return value;
  }

  get data() { return this.once("data", () => this.timeline && (this.timeline.picture?.data ?? figureOf(this.timeline))); }

  get tree() { return this.once("tree", () => this.flame && (this.flame.picture?.data ?? figureOf(this.flame))); }

  get packed() { return this.tree?.work ?? this.tree?.wall; }

  get nodes() { return this.once("nodes", () => (this.packed ? unpackTree(this.packed, 0) : NOTHING)); }

  get paths() { return this.once("paths", () => pathsOf(this.nodes, this.packed?.path ?? {})); }

  get kernels() {
    return this.once("kernels", () => new Set(this.data?.names.filter((_, n) => this.data.ops.is_kernel[n]).map(([name]) => name)));
  }

  get zero() { return this.data?.zero ?? 0; }

  // Whether every operation is here with its times, so that a stretch of time can be added up.
  get hasOps() { return Boolean(this.data && this.tree?.work && !this.data.cell_ns && !this.data.left_out); }

  // Chooses: undefined leaves nothing chosen in a dimension. A step is the time that it took, too.
  change(choice) {
    Object.assign(this.state, choice);
    if ("step" in choice) {
      if (!("time" in choice)) this.state.time = this.timeOfStep(choice.step);
      this.stepTime = this.state.time;
    } else if ("time" in choice && this.state.step !== undefined && !isWithin(this.state.time, this.stepTime)) delete this.state.step;
    if (!this.state.time) this.state.time = this.window;
    for (const name of Object.keys(this.state)) if (this.state[name] === undefined || this.state[name] === null) delete this.state[name];
    if (!this.state.range?.length) delete this.state.range;
    this.apply();
  }

  // What the address says: a step alone is the time that it took.
  open() {
    const {step, time} = this.state;
    this.change(step === undefined ? {} : time ? {step, time} : {step});
  }

  // What was clicked, of a step with its time; the same again takes it back.
  pick({name, value, time}) {
    const wanted = name === "range" ? namesOfPath(this.nodes, this.paths, value) : String(value);
    if (!wanted.length) return;
    const isSame = JSON.stringify(this.state[name]) === JSON.stringify(wanted);
    const when = time && !isSame ? {time: this.shown(time)} : {};
    this.change({[name]: isSame ? undefined : wanted, ...when});
  }

  // A stretch of time of a picture that counts from the common zero, null for all.
  stretch(time) {
    this.change({time: time ? {from: Math.max(0, time.from + this.zero), to: time.to + this.zero} : undefined});
  }

  // The time of a page that has a window alone: there is no other.
  get window() { return this.timeline?.dataset.window ? {from: 0, to: this.data.span} : undefined; }

  clear() {
    if (!chosenIn(this.state).length) return;
    this.change({time: undefined, range: undefined, kernel: undefined, step: undefined, rank: undefined});
  }

  timeOfStep(step) {
    if (step === undefined || !this.steps) return undefined;
    const {keys} = figureOf(this.steps);
    const time = keys?.time[keys.step.findIndex((number) => String(number) === step)];
    return time && this.shown(time);
  }

  // What the timeline has of a time from the common zero on.
  shown([begin, end]) {
    const from = Math.max(0, begin + this.zero), to = end + this.zero;
    return {from, to: Math.max(Math.min(to, this.data?.span ?? to), Math.min(from + 1, to))};
  }

  // At once what a pointer waits for, the rest when nothing changes any more.
  apply() {
    if (!this.isUsable) return;
    this.timeline?.picture?.follow(this.state.time);
    this.tell();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.filter(), PAUSE);
  }

  async filter() {
    this.remember();
    const active = chosenIn(this.state).length > 0;
    if (active || this.wasActive) {
      for (const place of [this.timeline, this.flame, this.blocks]) if (place) await this.drawPicture(place);
      this.choose();
      for (const part of this.sections) part.filter(this);
    }
    this.wasActive = active;
    if (this.isLeft) this.before?.focus({preventScroll: true}); // what was chosen from is there again
    this.isLeft = false;
    this.tell();
    this.document.documentElement.dataset.filtered = JSON.stringify(chosenIn(this.state));
  }

  // Adds up what is chosen: the range's nodes and paths, times and counts by name, and the picture's parts of them.
  choose() {
    const {state} = this;
    const node = nodeAt(this.nodes, state.range);
    const inside = below(this.nodes, node);
    this.chosen = {node, inside, top: this.paths[node.id], paths: new Set(this.paths.filter((_, id) => inside[id]))};
    this.sums = this.added(inside);
    const isPart = state.kernel !== undefined || (state.time && this.hasOps);
    this.flame?.picture.filter(isPart && this.sums ? this.sums.byNode : null, state.range ?? []);
    const isOne = state.kernel !== undefined || state.range;
    this.timeline?.picture.choose(isOne ? Uint8Array.from(this.data.names, (_, n) => this.isNameChosen(n)) : null);
    const {chosen} = this;
    this.blocks?.picture.choose(state.range ? (path) => isPathIn(path, chosen) : null);
  }

  isNameChosen(n) {
    const [name, , path] = this.data.names[n];
    if (n >= this.data.ops.class.length) return Boolean(this.state.range) && isPathIn(pathOf(path, name), this.chosen);
    return (this.state.kernel === undefined || name === this.state.kernel) && (!this.state.range || this.chosen.inside[this.tree.places[n]] === 1);
  }

  // Rows of kernels and of classes, and values of the tree's nodes: of every operation, else of the tree's ends.
  added(inside) {
    if (!this.tree?.work) return null;
    const {kernel, time} = this.state;
    const isOf = (name) => kernel === undefined || name === kernel;
    const cnt = this.nodes.length, byNode = {times: new Float64Array(cnt), counts: new Float64Array(cnt)};
    const put = (id, name, sum, count) => {
      if (!isOf(name) || !inside[id]) return;
      byNode.times[id] += sum;
      byNode.counts[id] += count;
    };
    let times, counts, entries;
    if (this.hasOps) {
      const {ops, names, span, lanes} = {...this.data, lanes: this.timeline.picture.lanes};
      ({times, counts} = sumsByName(lanes.filter((lane) => !lane.is_range), ops.class.length, time?.from ?? 0, time?.to ?? span + 1));
      entries = ops.class.map((place, n) => ({node: this.tree.places[n], name: names[n][0], group: ops.classes[place]}));
    } else {
      entries = this.nodes.map((node) => ({node: node.id, name: node.name, group: node.group}));
      times = this.nodes.map(({kind, own}) => (kind === 3 ? own : 0));
      counts = this.nodes.map((node) => node.cnt);
    }
    entries.forEach(({node, name}, n) => put(node, name, times[n], counts[n]));
    const kept = (n) => inside[entries[n].node] && isOf(entries[n].name);
    const together = this.hasOps ? [] : this.nodes.filter(({id, kind}) => kind === 5 && inside[id]);
    return {
      byNode, left: together.reduce((sum, node) => sum + node.cnt, 0),
      kernel: addUp(times, counts, (n) => (kept(n) && this.kernels.has(entries[n].name) ? entries[n].name : null)),
      class: addUp(times, counts, (n) => (kept(n) ? entries[n].group : null)),
    };
  }

  // The bar that says what is chosen, with a button for each dimension and one for all.
  tell() {
    const active = chosenIn(this.state);
    this.drawer.show(this.state.kernel);
    const focused = this.bar.contains(this.document.activeElement) && this.document.activeElement.getAttribute("aria-label");
    if (this.bar.hidden) this.before = this.document.activeElement;
    this.bar.hidden = !active.length;
    this.bar.replaceChildren();
    this.isLeft ||= focused !== false && !active.length;
    if (!active.length) return;
    const button = (text, label, act) => {
      const made = this.document.createElement("button");
      made.type = "button";
      made.textContent = text;
      made.setAttribute("aria-label", label);
      made.addEventListener("click", act);
      this.bar.append(made);
    };
    this.bar.append("Only");
    for (const name of active) button(`${toldOf(this.state, name, this.zero)} ✕`, `no ${name}`, () => this.change({[name]: undefined}));
    button("clear (Esc)", "clear", () => this.clear());
    const said = this.document.createElement("span");
    said.className = "faint";
    said.textContent = `${this.counted()}Verdict, cards and what to do first are not of this choice.`;
    this.bar.append(said);
    if (focused !== false) ([...this.bar.children].find((made) => made.getAttribute("aria-label") === focused) ?? this.bar.querySelector("button")).focus();
  }

  // How much work is chosen. A page has the operations of one rank, and a step is known by its time alone.
  counted() {
    const {sums, state} = this, rank = this.data?.rank ?? null;
    if (state.rank !== undefined && state.rank !== String(rank)) return rank === null ? "" : `The operations in this page are of rank ${rank}. `;
    if (!sums || (state.time && !this.hasOps) || (state.step !== undefined && !state.time)) return "";
    const [cnt, time] = sums.class.reduce(([c, t], row) => [c + row.cnt, t + row.time], [0, 0]);
    return `${sayMany(cnt, "GPU operation")}, ${sayTime(time)}. `;
  }
}

// A section: its picture, its table, and the line that says what they are filtered by.
class Part {
  constructor(element) {
    this.element = element;
    this.place = element.querySelector("[data-figure]");
    this.table = element.querySelector("table");
    this.follows = (element.dataset.follows ?? "").split(" ").filter(Boolean);
    this.adds = element.dataset.addedUp;
    this.keys = this.table ? [...this.table.querySelectorAll("th[data-key]")].map((head) => head.dataset.key) : [];
  }

  // What of a choice a sum can be made of: a time only where every operation is here.
  known(link, names) {
    return link.hasOps || !(this.adds || this.place?.dataset.kind === "flame") ? names : names.filter((name) => name !== "time");
  }

  filter(link) {
    this.missing = this.unseen = "";
    const active = chosenIn(link.state);
    const picture = this.place && filtersOf(link.state, this.known(link, this.followed(link)));
    const table = this.table && filtersOf(link.state, this.adds ? this.known(link, this.follows) : this.dimensions());
    const parts = [];
    if (picture) parts.push(`The picture ${this.said(link, picture, this.drawn(link, picture))}${this.unseen}`);
    if (table) parts.push(`the table ${this.said(link, table, this.rows(link, table))}${this.missing}`);
    if (!this.note && active.length) {
      this.note = link.document.createElement("p");
      this.note.className = "note";
      const details = this.element.querySelector("details"); // below the picture, which stays where the pointer is
      if (details) details.before(this.note);
      else this.element.append(this.note);
    }
    if (!this.note) return;
    this.note.hidden = !active.length;
    this.note.textContent = `${parts.join("; ").replace(/^t/, "T")}.`;
  }

  // Of the flame graph only GPU time is added up anew.
  followed(link) {
    if (this.place?.dataset.kind === "flame") {
      const {hasRange, isGpuTime} = link.flame.picture;
      return this.follows.filter((name) => (name === "range" ? hasRange : isGpuTime));
    }
    const keys = !this.adds && this.place?.dataset.kind === "chart" && figureOf(this.place).keys;
    return keys ? this.follows.filter((name) => keys[name]?.some((value) => value !== null)) : this.follows;
  }

  dimensions() {
    return [...new Set(this.keys.map((key) => (key === "begin" || key === "length" ? "time" : key)))];
  }

  said(link, {by, not}, what) {
    const only = by.map((name) => toldOf(link.state, name, link.zero)).join(", ");
    if (!by.length) return "is of the whole recording";
    const isSum = this.adds || (this.place?.dataset.kind === "flame" && by.includes("kernel"));
    const left = isSum && link.sums?.left ? ` (without ${sayMany(link.sums.left, "operation")} that the flame graph has as smaller)` : "";
    return `${what} ${only}${left}`
      + `${not.length ? `, and is not filtered by ${not.join(" and ")}` : ""}`;
  }

  // Draws what is left of the picture; returns what it shows.
  drawn(link, {by}) {
    const {place} = this;
    if (place.dataset.kind === "blocks") {
      const time = by.includes("time") ? {from: link.state.time.from - link.zero, to: link.state.time.to - link.zero} : null;
      return place.picture.follow(time) ? "is of" : "has nothing of";
    }
    if (place.dataset.kind !== "chart") return "is of";
    const figure = figureOf(place);
    const shown = by.length ? this.left(link, figure, by) : null;
    const text = JSON.stringify(shown);
    if (text !== (this.text ?? "null")) {
      this.text = text;
      place.shown = shown;
      if (place.dataset.drawn) drawChart(place, shown);
    }
    return shown && shown.data[0]?.y?.length === 0 ? "has nothing of" : "is of";
  }

  left(link, figure, by) {
    if (this.adds) return link.sums ? ofRows(figure, link.sums[this.adds].slice(0, 15)) : null;
    if (!figure.keys) {
      const {from, to} = link.state.time;
      const range = [(from - link.zero) / 1e6, (to - link.zero) / 1e6];
      return {...figure, layout: {...figure.layout, xaxis: {...figure.layout.xaxis, range}}};
    }
    const every = figure.data[0].y.length;
    if (figure.row_cnt > every) this.unseen = ` (it has the first ${sayCount(every)} of ${sayCount(figure.row_cnt)} rows)`;
    const state = Object.fromEntries(by.map((name) => [name, link.state[name]]));
    const kept = figure.data[0].y.map((_, n) => n).filter((n) => isRowChosen(rowAt(figure.keys, n, link.zero), state, link.chosen));
    return withBars(figure, kept.slice(0, figure.most));
  }

  // Hides the rows that are not chosen; returns how many are left.
  rows(link, {by}) {
    if (this.adds) {
      showSums(this.table, by.length && link.sums ? link.sums[this.adds] : null, this.adds === "kernel");
      return "is added up of";
    }
    const every = cellsOf(this.table, link.zero);
    let cnt = 0;
    for (const [element, row] of every) {
      const isLeft = !by.length || isRowChosen(row, link.state, link.chosen);
      element.classList.toggle("unchosen", !isLeft);
      cnt += isLeft;
    }
    const {leftOut, view} = this.table.dataset;
    saySummary(this.table, by.length ? `Table (${sayCount(cnt)} of ${leftOut ? "the first " : ""}${sayMany(every.length, "row")})` : null);
    this.missing = by.length && leftOut
      ? ` (${sayMany(Number(leftOut), "more row")} not in this page may be of it, too: lorabench analyze INPUT --report ${view} has all)` : "";
    return `has ${sayCount(cnt)} of its ${leftOut ? "first " : ""}${sayMany(every.length, "row")}, those of`;
  }
}

function rowAt(keys, n, zero) {
  const row = {};
  for (const [name, values] of Object.entries(keys)) {
    if (name === "time") [row.begin, row.length] = [values[n][0] + zero, values[n][1] - values[n][0]];
    else row[name] = values[n] ?? "";
  }
  return row;
}
