// The timeline of a page: lanes of ranges over lanes of streams on a canvas. A pixel column is filled as high as the share
// of its time that was busy, so the area that is filled is the time that was busy, at every zoom.
import {busyTime, busyWithin, countWanted, coverage, mostOf, stretchAt} from "./density.mjs";
import {inflate, unpackLane} from "./packed.mjs";
import {pathOf} from "./selection.mjs";
import {isLight, sayCount, sayName, sayShare, sayTime} from "./units.mjs";
import {AXIS_HEIGHT, Zoomed} from "./zoomed.mjs";

const STREAM_HEIGHT = 34, RANGE_HEIGHT = 16, TITLE_HEIGHT = 15, MINIMAP_HEIGHT = 18, GAP = 3;
const LEAST_SPAN = 100; // ns

export class Timeline extends Zoomed {
  constructor(place, data) {
    super(place, data, LEAST_SPAN);
    this.words = "";
    this.isChosen = null; // of each name, where something is chosen; the rest is grey
    this.build(`${data.summary} Keys: W and S zoom, A and D move, Home shows all, / finds.`);
    this.ready = Promise.all(data.lanes.map(async (lane) => ({...lane, ...unpackLane(await inflate(lane.data), lane)})))
      .then((lanes) => { this.lanes = lanes; this.layout(); this.isReady = true; this.draw(); this.told(null); });
  }

  build(label) {
    super.build(label);
    this.find = document.createElement("input");
    this.find.type = "search";
    this.find.placeholder = "find a kernel or range ( / )";
    this.find.setAttribute("aria-label", "Find in the timeline");
    this.find.addEventListener("input", () => {
      this.lookFor(this.find.value);
      this.place.dispatchEvent(new CustomEvent("sought", {bubbles: true, detail: this.words}));
    });
    this.bar.append(this.find);
  }

  // The stream that says most: the one with the most work; on a CPU the ranges that say more than one of all.
  chosenLane() {
    const streams = this.lanes.filter((lane) => !lane.is_range);
    if (!streams.length) return this.lanes[1] ?? this.lanes[0];
    const busy = streams.map((lane) => busyTime(lane, 0, this.data.span));
    return streams[busy.indexOf(Math.max(...busy))];
  }

  layout() {
    this.main = this.chosenLane();
    let top = AXIS_HEIGHT, said = null;
    for (const lane of this.lanes) {
      const heading = lane.is_range ? lane.title : "";
      lane.has_title = !lane.is_range || heading !== said;
      said = heading;
      if (lane.has_title) top += TITLE_HEIGHT;
      lane.top = top;
      lane.height = lane.is_range ? RANGE_HEIGHT : STREAM_HEIGHT;
      top += lane.height + (lane.is_range ? 1 : GAP);
    }
    this.height = top + GAP + MINIMAP_HEIGHT;
  }

  colours() {
    const colours = super.colours();
    return {...colours, kinds: [...this.data.kinds.map((kind) => colours.of(`k-${kind}`)), colours.line]};
  }

  draw() {
    const pen = this.cleared();
    const colours = this.colours();
    this.axis(pen, colours, sayTime);
    const wanted = this.wanted();
    for (const lane of this.lanes) this.lane(pen, colours, lane, wanted);
    this.minimap(pen, colours);
    this.dragged(pen, colours);
  }

  lane(pen, colours, lane, wanted) {
    const {from, to} = this.view;
    if (lane.has_title) {
      pen.fillStyle = colours.faint;
      const title = lane.is_range ? lane.title : `${lane.title}: ${this.busySaid(lane)}`;
      pen.fillText(this.fitted(pen, title, this.width), 0, lane.top - TITLE_HEIGHT / 2);
    }
    pen.fillStyle = colours.card;
    pen.fillRect(0, lane.top, this.width, lane.height);
    const pixels = Math.round(this.width * this.scale);
    const cnt = this.data.kinds.length + 1; // and what is not chosen
    const kindOf = this.data.names.map((name, n) => (this.isChosen && !this.isChosen[n] ? cnt - 1 : name[1]));
    const shares = coverage(lane, kindOf, cnt, from, to, pixels);
    for (let pixel = 0; pixel < pixels; pixel++) {
      let bottom = lane.top + lane.height;
      for (let kind = 0; kind < cnt; kind++) {
        const height = shares[kind * pixels + pixel] * lane.height;
        if (!height) continue;
        pen.fillStyle = colours.kinds[kind];
        pen.fillRect(pixel / this.scale, bottom - height, 1 / this.scale, height);
        bottom -= height;
      }
    }
    this.labels(pen, colours, lane, wanted);
  }

  // A number is of all work, though a picture has what is chosen in colour.
  withRest() {
    return this.isChosen ? ", with what is not chosen" : "";
  }

  // How much of what is shown a stream was busy, between the first GPU work and the last: where more is shown, of what.
  busySaid(lane) {
    const {share, from, to} = busyWithin(lane, this.view, {from: this.data.zero, to: this.data.work_end});
    const isPart = to > from && (from > this.view.from || to < this.view.to);
    return `busy ${sayShare(share)}${isPart ? ` of ${sayTime(from - this.data.zero)} to ${sayTime(to - this.data.zero)}` : ""}${this.withRest()}`;
  }

  // Names where they fit; of what is looked for an outline.
  labels(pen, colours, lane, wanted) {
    const {from, to} = this.view;
    const scale = this.width / (to - from);
    let drawn = 0;
    for (let n = 0; n < lane.starts.length && drawn < 400; n++) {
      const left = Math.max(0, (lane.starts[n] - from) * scale), right = Math.min(this.width, (lane.ends[n] - from) * scale);
      if (right < 0 || left > this.width) continue;
      if (wanted && wanted[lane.names[n]] && right > 0) {
        pen.fillStyle = colours.ink;
        pen.fillRect(left, lane.top - 2, Math.max(right - left, 1), 2);
      }
      if (right - left < 30 || (lane.levels && lane.levels[n] < 0.5)) continue;
      if (this.isChosen && !this.isChosen[lane.names[n]]) continue;
      const [name, kind] = this.data.names[lane.names[n]];
      pen.fillStyle = isLight(colours.kinds[kind]) ? "#000000" : "#ffffff";
      pen.fillText(this.fitted(pen, name, right - left - 6), left + 3, lane.top + lane.height / 2);
      drawn += 1;
    }
  }

  minimap(pen, colours) {
    const top = this.height - MINIMAP_HEIGHT;
    pen.fillStyle = colours.card;
    pen.fillRect(0, top, this.width, MINIMAP_HEIGHT);
    const pixels = Math.round(this.width);
    const shares = coverage(this.main, new Uint8Array(this.data.names.length), 1, 0, this.data.span, pixels);
    pen.fillStyle = colours.faint;
    for (let n = 0; n < pixels; n++) pen.fillRect(n, top + MINIMAP_HEIGHT * (1 - shares[n]), 1, MINIMAP_HEIGHT * shares[n]);
    pen.strokeStyle = colours.mark;
    pen.lineWidth = 2;
    const left = this.view.from / this.data.span * this.width, right = this.view.to / this.data.span * this.width;
    pen.strokeRect(left + 1, top + 1, Math.max(2, right - left - 2), MINIMAP_HEIGHT - 2);
  }

  // Marks what has these words in its name or path.
  lookFor(words) {
    if (words.toLowerCase() === this.words) return;
    if (this.find.value !== words) this.find.value = words;
    this.words = words.toLowerCase();
    if (!this.lanes) return;
    this.draw();
    this.told(null);
  }

  // Of each name whether it has the words, where some are looked for.
  wanted() {
    return this.words && this.data.names.map((name) => `${name[0]} ${name[2]}`.toLowerCase().includes(this.words));
  }

  // What was found, for who sees no outline.
  found() {
    const wanted = this.wanted();
    if (!wanted) return "";
    const {all, inside} = countWanted(this.lanes, wanted, this.view);
    const said = all ? `${sayCount(all)} found, ${sayCount(inside)} of them in what is shown` : "nothing has it in its name or path";
    return `“${this.find.value}”: ${said}. `;
  }

  // The view of a choice: its time, or all.
  follow(time) {
    const wanted = time ?? this.whole;
    if (Math.round(wanted.from) !== Math.round(this.view.from) || Math.round(wanted.to) !== Math.round(this.view.to)) this.show(wanted);
  }

  choose(isChosen) {
    if (isChosen === this.isChosen) return;
    this.isChosen = isChosen;
    if (!this.lanes) return;
    this.draw();
    this.told(null);
  }

  // A click: what is under it is what all pictures are about. Of cells none has one name alone.
  pick(event) {
    const lane = this.lanes?.find((found) => event.offsetY >= found.top && event.offsetY < found.top + found.height);
    if (!lane || lane.levels) return;
    const pixel = (this.view.to - this.view.from) / this.width;
    const n = stretchAt(lane, this.view.from + event.offsetX * pixel, 3 * pixel);
    if (n < 0) return;
    const [name, , above] = this.data.names[lane.names[n]];
    const detail = lane.is_range ? {name: "range", value: pathOf(above, name)} : {name: "kernel", value: name};
    this.place.dispatchEvent(new CustomEvent("picked", {bubbles: true, detail}));
  }

  seen() {
    const isWhole = this.view.to - this.view.from === this.data.span && !this.data.is_window; // a window is a choice, too
    this.place.dispatchEvent(new CustomEvent("seen", {bubbles: true, detail: isWhole ? null : {...this.view}}));
  }

  keys() {
    return {...super.keys(), ArrowLeft: () => this.pan(-0.25), ArrowRight: () => this.pan(0.25)};
  }

  rangeAt(y) {
    return y > this.height - MINIMAP_HEIGHT ? this.whole : this.view;
  }

  // What is under the pointer, or what takes the most time of what is shown.
  told(event) {
    const {from, to} = this.view;
    const lane = event && this.lanes?.find((found) => event.offsetY >= found.top && event.offsetY < found.top + found.height);
    if (lane) {
      const pixel = (to - from) / this.width;
      const n = stretchAt(lane, from + event.offsetX * pixel, 3 * pixel);
      this.said.textContent = n < 0 ? `${lane.title}: nothing here` : this.toldOf(lane, n);
      return;
    }
    if (event) return;
    const stream = this.main;
    if (stream.is_range) {
      this.said.textContent = `${this.found()}${sayTime(from - this.data.zero)} to ${sayTime(to - this.data.zero)}; point at a range to see its name and time`;
      return;
    }
    const most = mostOf(stream, (name) => this.data.names[name][0], from, to, 3).map(([name, time]) => `${sayName(name)} ${sayTime(time)}`);
    this.said.textContent = `${this.found()}${sayTime(from - this.data.zero)} to ${sayTime(to - this.data.zero)}: ${stream.title} ${this.busySaid(stream)}; `
      + `most of it ${most.join(", ") || "nothing"}`;
  }

  toldOf(lane, n) {
    const [name, , path, full] = this.data.names[lane.names[n]];
    const about = lane.levels
      ? `mostly ${sayName(name)}; busy ${sayShare(lane.levels[n])} of ${sayTime(lane.ends[n] - lane.starts[n])}`
      : `${sayName(name)}, ${sayTime(lane.lengths[n])}`;
    return `${about} at ${sayTime(lane.begins[n] - this.data.zero)}${path ? ` — in ${sayName(path)}` : ""}${full && full !== name ? ` — ${full}` : ""}`;
  }
}
