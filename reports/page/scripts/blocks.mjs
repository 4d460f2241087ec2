// The memory of a device block by block on a canvas: each from its allocation to its free, on those that were there before it.
// Edges lie on whole pixels, so what is filled adds up to what is live, within a pixel.
import {inflate, unpackBlocks, unpackSteps} from "./packed.mjs";
import {blockAt, bordersOf, columnsOf, lastUpTo, stepsOf, totalsOf, widest} from "./stacking.mjs";
import {byteTicks, isLight, sayBytes, sayCount, sayMany, sayTime} from "./units.mjs";
import {AXIS_HEIGHT, Zoomed} from "./zoomed.mjs";

const BAND_HEIGHT = 15, FLAG_HEIGHT = 17;
const LEAST_SPAN = {ns: 100, events: 4};
const SHORT = {forward: "fwd", backward: "bwd", optimizer: "opt"}; // where there is no room for more

export class Blocks extends Zoomed {
  constructor(place, data) {
    super(place, data, data.is_timed ? LEAST_SPAN.ns : LEAST_SPAN.events);
    this.current = null; // the block that is told about
    this.isChosen = null; // of a path, where a range is chosen; the rest is grey
    this.followed = "null"; // the time that was chosen last
    this.isFollowing = false; // a choice that was made elsewhere
    this.build(`Blocks of the memory of ${data.device}, stacked over time; ${this.peakSaid()}. `
      + "Keys: arrows move between blocks, Enter chooses a block's range, W and S zoom, A and D move, Home shows all.");
    this.ready = this.unpack().then(() => { this.isReady = true; this.legend(); this.draw(); this.told(null); });
  }

  async unpack() {
    const {data} = this;
    this.blocks = unpackBlocks(await inflate(data.data), data.cnt);
    this.abouts = JSON.parse(new TextDecoder().decode(await inflate(data.abouts)));
    const line = async (packed) => packed && unpackSteps(await inflate(packed.data), packed.cnt);
    [this.rest, this.tops, this.held] = [await line(data.rest), await line(data.tops), await line(data.held)];
    this.totals = totalsOf(this.blocks, data.base, this.rest, this.tops);
    this.most = 1.03 * Math.max(data.peak[1], this.totals.totals.reduce((a, b) => Math.max(a, b), 0),
      this.held ? this.held.values.reduce((a, b) => Math.max(a, b), 0) : 0);
  }

  // What a block is: its category, its name, adapter, path and frames where they are known.
  aboutOf(n) {
    const [category, name, adapter, path, frames] = this.abouts.rows[this.blocks.abouts[n]];
    const text = (place) => (place < 0 ? "" : this.abouts.texts[place]);
    return {category, name: text(name), adapter: text(adapter), path: text(path), frames: text(frames)};
  }

  say(place) {
    return this.data.is_timed ? sayTime(place) : `event ${sayCount(place)}`;
  }

  sayAt(place) {
    return this.say(Math.round(place - this.data.zero));
  }

  peakSaid() {
    return `peak ${sayBytes(this.data.peak[1])} at ${this.sayAt(this.data.peak[0])}`;
  }

  legend() {
    const made = document.createElement("p");
    made.className = "legend";
    made.setAttribute("aria-label", "Colours");
    const used = new Set(this.abouts.rows.map(([category]) => category));
    const entry = (text, className, colour) => {
      const span = document.createElement("span"), mark = document.createElement("i");
      mark.className = className;
      mark.style.background = colour;
      span.append(mark, text);
      made.append(span);
    };
    this.data.categories.forEach(([name, colour], n) => { if (used.has(n)) entry(name.replaceAll("_", " "), "", colour); });
    if (this.data.base) entry("there before the recording, in no block that is known", "before", "");
    if (this.rest.values.some((value) => value > 0)) entry(this.restSaid(), "rest", "");
    if (this.held) entry("held by the allocator", "held", "");
    this.said.before(made);
  }

  restSaid() {
    const {smaller_cnt: cnt} = this.data;
    return cnt ? sayMany(cnt, "smaller block") : "in no block that is known";
  }

  draw() {
    this.left = 72; // of 100,000 MiB
    this.top = AXIS_HEIGHT + (this.data.bands.length ? BAND_HEIGHT : 0) + FLAG_HEIGHT;
    this.height = this.top + (this.place.clientWidth < 600 ? 260 : 360);
    const pen = this.cleared();
    const colours = {...this.colours(), categories: this.data.categories.map(([, colour]) => colour)};
    this.depth = Math.round((this.height - this.top) * this.scale); // in pixels of the screen, as all below
    const columnCnt = this.canvas.width - this.left * this.scale | 0;
    this.columns = columnsOf(this.totals, this.view.from, this.view.to, columnCnt);
    this.edge = (bytes) => Math.round(bytes / this.most * this.depth);
    this.steps = stepsOf(this.blocks, this.data.base, this.totals.places, this.columns, this.edge);
    this.axis(pen, colours, (place) => this.say(place));
    this.grid(pen, colours);
    this.bands(pen, colours);
    pen.save();
    pen.setTransform(1, 0, 0, 1, Math.round(this.left * this.scale), 0);
    this.fill(pen, colours);
    pen.restore();
    this.labels(pen);
    this.heldLine(pen, colours);
    this.flag(pen, colours);
    this.dragged(pen, colours);
    this.kept ??= document.createElement("canvas");
    [this.kept.width, this.kept.height] = [this.canvas.width, this.canvas.height];
    this.kept.getContext("2d").drawImage(this.canvas, 0, 0);
    this.mark();
  }

  grid(pen, colours) {
    pen.textBaseline = "middle";
    for (const [bytes, text] of byteTicks(this.most, (this.height - this.top) / 60)) {
      const y = this.height - bytes / this.most * (this.height - this.top);
      pen.fillStyle = colours.line;
      pen.fillRect(this.left, Math.round(y) - 1, this.width - this.left, 1);
      pen.fillStyle = colours.faint;
      pen.textAlign = "right";
      pen.fillText(text, this.left - 5, Math.min(y, this.height - 7));
      pen.textAlign = "left";
    }
  }

  // Phases of training above all, and lines down where they begin.
  bands(pen, colours) {
    for (const [phase, from, to] of this.data.bands) {
      if (to < this.view.from || from > this.view.to) continue;
      const left = Math.max(this.xOf(from), this.left), right = Math.min(this.xOf(to), this.width);
      const colour = colours.of(`k-${phase}`) || colours.line;
      pen.fillStyle = colour;
      pen.fillRect(left, AXIS_HEIGHT, Math.max(right - left, 1), BAND_HEIGHT - 2);
      pen.fillStyle = colours.paper;
      pen.fillRect(left, AXIS_HEIGHT, 1, BAND_HEIGHT - 2);
      pen.fillStyle = colours.line;
      if (from >= this.view.from) pen.fillRect(Math.round(left), this.top, 1, this.height - this.top);
      const name = [phase, SHORT[phase] ?? ""].find((text) => pen.measureText(text).width < right - left - 5) ?? "";
      pen.fillStyle = isLight(colour) ? "#000000" : "#ffffff";
      pen.fillText(name, left + 3, AXIS_HEIGHT + BAND_HEIGHT / 2 - 1);
    }
  }

  // What was there before, all blocks, and the band on top.
  fill(pen, colours) {
    const bottom = this.canvas.height, line = Math.max(1, Math.round(this.scale));
    const rectangle = (colour, from, to, low, high) => {
      pen.fillStyle = colour;
      pen.fillRect(from, bottom - high, to - from, high - low);
    };
    rectangle(hatched(pen, colours.card, colours.faint, line, line), 0, this.columns.length, 0, this.edge(this.data.base));
    this.steps.forEach((steps, n) => {
      const {category, path} = this.aboutOf(n);
      const colour = this.isChosen && !this.isChosen(path) ? colours.line : colours.categories[category];
      for (let at = 0; at < steps.length; at += 4) {
        const [from, to, low, high] = steps.slice(at, at + 4);
        rectangle(colour, from, to, low, high);
        if (high - low < 4 * line) continue; // an edge would be more than a fourth of it
        rectangle(colours.paper, from, to, low, low + line);
        if (at === 0 && from > 0 && to - from >= 4 * line) rectangle(colours.paper, from, from + line, low, high);
      }
    });
    const kinds = Array.from(this.blocks.abouts, (about) => this.abouts.rows[about][0]);
    const borders = bordersOf(this.blocks, kinds, this.data.base, this.totals.places, this.columns, this.edge, 4 * line);
    for (let at = 0; at < borders.length; at += 3)
      rectangle(colours.paper, borders[at], borders[at + 1], borders[at + 2], borders[at + 2] + line);
    const {shown, totals} = this.totals, over = hatched(pen, colours.card, colours.line, line, 2 * line);
    for (const [moment, from, to] of runs(this.columns)) {
      if (moment < 0) continue;
      const low = this.edge(shown[moment]), high = this.edge(totals[moment]);
      rectangle(over, from, to, low, high);
      rectangle(colours.faint, from, to, Math.max(0, high - line), high); // the upper edge, where it is on the paper
    }
  }

  // Names where they fit.
  labels(pen) {
    const write = (text, colour, [from, to, low, high]) => {
      const width = (to - from) / this.scale;
      if (width < 40 || (high - low) / this.scale < 13) return;
      pen.fillStyle = colour;
      pen.fillText(this.fitted(pen, text, width - 8), this.left + from / this.scale + 4,
        this.height - (low + high) / 2 / this.scale);
    };
    this.steps.forEach((steps, n) => {
      const step = widest(steps);
      if (!step) return;
      const {category, name, path} = this.aboutOf(n);
      if (this.isChosen && !this.isChosen(path)) return;
      const [title, colour] = this.data.categories[category];
      write(name || path.slice(path.lastIndexOf("/") + 1) || title.replaceAll("_", " "), isLight(colour) ? "#000000" : "#ffffff", step);
    });
  }

  heldLine(pen, colours) {
    if (!this.held) return;
    const {places, values} = this.held;
    const yOf = (bytes) => this.height - bytes / this.most * (this.height - this.top);
    const first = Math.max(0, lastUpTo(places, this.view.from));
    pen.beginPath();
    pen.moveTo(this.left, yOf(values[first]));
    for (let n = first + 1; n < places.length && places[n] <= this.view.to; n++) {
      pen.lineTo(this.xOf(places[n]), yOf(values[n - 1]));
      pen.lineTo(this.xOf(places[n]), yOf(values[n]));
    }
    const last = Math.max(first, lastUpTo(places, this.view.to));
    pen.lineTo(this.width, yOf(values[last]));
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 1.5;
    pen.setLineDash([6, 4]);
    pen.stroke();
    pen.setLineDash([]);
  }

  flag(pen, colours) {
    const [place, bytes] = this.data.peak;
    if (place < this.view.from || place > this.view.to) return;
    const x = Math.min(Math.round(this.xOf(place)), this.width - 1), y = this.height - bytes / this.most * (this.height - this.top);
    const text = this.peakSaid(), wide = pen.measureText(text).width + 8;
    pen.fillStyle = colours.ink;
    pen.fillRect(x, this.top - FLAG_HEIGHT + 2, 1, y - this.top + FLAG_HEIGHT - 2);
    pen.beginPath();
    pen.moveTo(x - 4, y - 7);
    pen.lineTo(x + 5, y - 7);
    pen.lineTo(x + 0.5, y);
    pen.fill();
    pen.fillText(text, x + wide < this.width ? x + 5 : Math.max(this.left, x - wide + 3), this.top - FLAG_HEIGHT / 2 + 1);
  }

  // An outline around the block that is told about.
  mark() {
    const pen = this.canvas.getContext("2d");
    pen.save();
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.kept, 0, 0);
    const steps = this.current === null ? [] : this.steps[this.current], line = Math.round(2 * this.scale);
    const [left, bottom] = [Math.round(this.left * this.scale), this.canvas.height];
    pen.fillStyle = this.colours().ink;
    for (let at = 0; at < steps.length; at += 4) {
      const [from, to, low, high] = steps.slice(at, at + 4);
      pen.fillRect(left + from, bottom - high - line, to - from, line);
      pen.fillRect(left + from, bottom - low, to - from, line);
      if (at === 0 || steps[at - 3] !== from) pen.fillRect(left + from - line, bottom - high - line, line, high - low + 2 * line);
      if (at + 4 === steps.length || steps[at + 4] !== to) pen.fillRect(left + to, bottom - high - line, line, high - low + 2 * line);
    }
    pen.restore();
  }

  // What lies under the pointer: a moment of the totals and a block, -1 below all blocks and as many as there are above them.
  under(event) {
    const column = Math.floor((event.offsetX - this.left) * this.scale);
    const moment = this.columns[Math.min(column, this.columns.length - 1)];
    if (column < 0 || event.offsetY < this.top || !(moment >= 0)) return null;
    const bytes = (this.height - event.offsetY) / (this.height - this.top) * this.most;
    return {moment, bytes, n: blockAt(this.blocks, this.data.base, this.totals.places[moment], bytes)};
  }

  bandUnder({offsetX, offsetY}) {
    if (offsetY < AXIS_HEIGHT || offsetY >= this.top - FLAG_HEIGHT) return undefined;
    return this.data.bands.find(([, from, to]) => this.xOf(from) <= offsetX && offsetX <= this.xOf(to) + 1);
  }

  told(event) {
    const band = event && this.bandUnder(event), found = event && this.under(event);
    if (band) this.said.textContent = `${band[0]}: memory was allocated or freed in it from ${this.sayAt(band[1])} to ${this.sayAt(band[2])}`;
    if (event && !found) return;
    const isBlock = found && found.n >= 0 && found.n < this.data.cnt;
    this.tell(isBlock ? found.n : null, found ? this.besides(found) : this.summary());
  }

  tell(n, otherwise) {
    this.said.textContent = n === null ? otherwise : this.toldOf(n);
    if (n === this.current) return;
    this.current = n;
    this.mark();
  }

  // What lies there that is none of the blocks.
  besides({moment, bytes, n}) {
    const {places, shown, totals} = this.totals;
    const live = `${sayBytes(totals[moment])} live at ${this.sayAt(places[moment])}`;
    if (n < 0) return `${sayBytes(this.data.base)} from before the recording, in no block that is known; ${live}`;
    if (bytes < totals[moment]) return `${this.restSaid()}, together ${sayBytes(totals[moment] - shown[moment])}; ${live}`;
    return live;
  }

  summary() {
    const {from, to} = this.view;
    const all = from === 0 && to === this.data.span ? "" : `${this.sayAt(from)} to ${this.sayAt(to)}. `;
    const said = this.peakSaid();
    return `${all}${said[0].toUpperCase()}${said.slice(1)}. Point at a block, or move between them with the arrow keys, to see what it is.`;
  }

  toldOf(n) {
    const {starts, ends, sizes} = this.blocks;
    const {category, name, adapter, path, frames} = this.aboutOf(n);
    const begin = n < this.data.before ? "there before the recording" : `from ${this.sayAt(starts[n])}`;
    const end = ends[n] === Infinity ? "not freed" : `to ${this.sayAt(ends[n])}`;
    const length = this.data.is_timed && n >= this.data.before && ends[n] < Infinity ? ` (${sayTime(ends[n] - starts[n])})` : "";
    return [`${sayBytes(sizes[n])} ${this.data.categories[category][0].replaceAll("_", " ")}, ${begin}, ${end}${length}`,
      name, adapter && `adapter ${adapter}`, path && `in ${path}`, frames && `by ${frames}`].filter(Boolean).join(" — ");
  }

  keys() {
    return {...super.keys(), ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), ArrowUp: () => this.climb(1),
      ArrowDown: () => this.climb(-1), Enter: () => this.choosePath(), " ": () => this.choosePath()};
  }

  // The block that was allocated before or behind the current one, of those that are seen.
  step(by) {
    let n = this.current ?? (by > 0 ? -1 : this.data.cnt);
    do n += by; while (n >= 0 && n < this.data.cnt && !this.steps[n].length);
    if (n >= 0 && n < this.data.cnt) this.tell(n);
  }

  // The block above or below the current one, where that is widest.
  climb(by) {
    const {starts, ends} = this.blocks;
    const step = this.current === null ? null : widest(this.steps[this.current]);
    if (!step) {
      this.step(1);
      return;
    }
    const place = this.totals.places[this.columns[(step[0] + step[1]) >> 1]];
    let n = this.current;
    do n += by; while (n >= 0 && n < this.data.cnt && !(starts[n] <= place && place < ends[n] && this.steps[n].length));
    if (n >= 0 && n < this.data.cnt) this.tell(n);
  }

  // A click chooses the range that allocated what is under it.
  pick(event) {
    this.told(event);
    this.choosePath();
  }

  choosePath() {
    const path = this.current === null ? "" : this.aboutOf(this.current).path;
    if (path) this.place.dispatchEvent(new CustomEvent("picked", {bubbles: true, detail: {name: "range", value: path}}));
  }

  // What belongs to a choice: isChosen says it of a path; null for all.
  choose(isChosen) {
    if (!isChosen && !this.isChosen) return;
    this.isChosen = isChosen;
    if (this.isReady) this.draw();
  }

  // Shows a time that was chosen, null for all; says whether there is anything of it.
  follow(time) {
    const text = JSON.stringify(time);
    const [from, to] = time ? [Math.max(0, time.from + this.data.zero), Math.min(this.data.span, time.to + this.data.zero)] : [0, this.data.span];
    this.isFollowing = true;
    if (text !== this.followed) this.show(from < to ? {from, to} : this.whole);
    this.isFollowing = false;
    this.followed = text;
    return from < to;
  }

  // Zooming chooses a time, as on the timeline, where that has the same clock.
  seen() {
    const follows = this.place.closest("section")?.dataset.follows ?? "";
    if (this.isFollowing || !follows.split(" ").includes("time")) return;
    const {from, to} = this.view, {zero, span} = this.data;
    const time = to - from === span ? null : {from: from - zero, to: to - zero};
    this.followed = JSON.stringify(time);
    this.place.dispatchEvent(new CustomEvent("stretch", {bubbles: true, detail: time}));
  }
}

// Where neighbours of a list are the same: [value, first, behind].
function runs(values) {
  const found = [];
  for (let from = 0, to; from < values.length; from = to) {
    for (to = from + 1; to < values.length && values[to] === values[from];) to += 1;
    found.push([values[from], from, to]);
  }
  return found;
}

// Diagonal lines, which belong to no category.
function hatched(pen, ground, lines, scale, width) {
  const tile = document.createElement("canvas"), size = 6 * scale;
  [tile.width, tile.height] = [size, size];
  const drawn = tile.getContext("2d");
  drawn.fillStyle = ground;
  drawn.fillRect(0, 0, size, size);
  drawn.fillStyle = lines;
  for (let y = 0; y < size; y++) for (let x = 0; x < width; x++) drawn.fillRect((x + y) % size, y, 1, 1);
  return pen.createPattern(tile, "repeat");
}
