// A picture on a canvas with time from left to right, of which a part is seen: by buttons, keys, the wheel, and dragging.
import {fitted, niceTicks} from "./units.mjs";

export const AXIS_HEIGHT = 20;

export class Zoomed {
  // least: the shortest stretch that can be seen; data.span is the longest, data.zero where the axis has its 0.
  constructor(place, data, least) {
    this.place = place;
    this.data = data;
    this.least = least;
    this.left = 0; // pixels left of where time begins
    this.whole = {from: 0, to: data.span};
    this.view = {...this.whole};
    this.isReady = false; // to be drawn
  }

  build(label) {
    this.bar = document.createElement("div");
    this.bar.className = "controls";
    for (const [text, act] of [["zoom in", () => this.zoom(0.5)], ["zoom out", () => this.zoom(2)],
      ["earlier", () => this.pan(-0.5)], ["later", () => this.pan(0.5)], ["show all", () => this.show(this.whole)]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.addEventListener("click", act);
      this.bar.append(button);
    }
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application"); // it takes keys, which its label says
    this.canvas.setAttribute("aria-label", label);
    this.said = document.createElement("p");
    this.said.className = "said";
    this.said.setAttribute("aria-live", "polite");
    this.place.append(this.bar, this.canvas, this.said);
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), {passive: false});
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("pointerdown", (event) => this.press(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", (event) => this.release(event));
    this.canvas.addEventListener("dblclick", () => this.show(this.whole));
    new ResizeObserver(() => { if (this.isReady && this.place.clientWidth !== this.drawnWidth) this.draw(); }).observe(this.place);
  }

  colours() {
    const style = getComputedStyle(this.place);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    return {of, ink: of("ink"), faint: of("faint"), line: of("line"), card: of("card"), mark: of("mark"), paper: of("paper")};
  }

  // An empty canvas as wide as the place, and the pen for it.
  cleared() {
    this.drawnWidth = this.place.clientWidth;
    const width = this.width = Math.max(200, this.place.clientWidth);
    const scale = this.scale = window.devicePixelRatio || 1;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(this.height * scale);
    const pen = this.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, this.height);
    pen.font = "11px system-ui, sans-serif";
    return pen;
  }

  // A name as far as it fits. Widths are measured once: pictures are drawn anew at each move.
  fitted(pen, name, width) {
    this.widths ??= new Map();
    return fitted(name, width, (text) => {
      if (!this.widths.has(text)) this.widths.set(text, pen.measureText(text).width);
      return this.widths.get(text);
    });
  }

  axis(pen, colours, say) {
    const {from, to} = this.view;
    pen.textBaseline = "middle";
    for (const tick of niceTicks(from - this.data.zero, to - this.data.zero, (this.width - this.left) / 110)) {
      const x = this.xOf(tick + this.data.zero);
      pen.fillStyle = colours.line;
      pen.fillRect(Math.round(x), AXIS_HEIGHT - 6, 1, 6);
      pen.fillStyle = colours.faint;
      const text = say(tick);
      pen.fillText(text, Math.min(Math.max(x - pen.measureText(text).width / 2, 0), this.width - 60), 8);
    }
  }

  // The stretch that is being dragged over.
  dragged(pen, colours) {
    if (!this.drag) return;
    const {from, to} = this.drag;
    pen.fillStyle = colours.mark;
    pen.globalAlpha = 0.2;
    pen.fillRect(Math.min(from, to), AXIS_HEIGHT, Math.abs(to - from), this.height);
    pen.globalAlpha = 1;
  }

  xOf(time) {
    return this.left + (time - this.view.from) / (this.view.to - this.view.from) * (this.width - this.left);
  }

  timeAt(x, range = this.view) {
    return range.from + (range.to - range.from) * (x - this.left) / (this.width - this.left);
  }

  show(view) {
    const span = Math.min(Math.max(view.to - view.from, this.least), this.data.span);
    const from = Math.min(Math.max(0, view.from), this.data.span - span);
    this.view = {from, to: from + span};
    if (!this.isReady) return;
    this.draw();
    this.told(null);
    this.seen();
  }

  // What others are to know of what is seen now.
  seen() {}

  zoom(factor, at = 0.5) {
    const {from, to} = this.view;
    const middle = from + (to - from) * at;
    this.show({from: middle - (middle - from) * factor, to: middle + (to - middle) * factor});
  }

  pan(share) {
    const by = (this.view.to - this.view.from) * share;
    this.show({from: this.view.from + by, to: this.view.to + by});
  }

  wheel(event) {
    if (document.activeElement !== this.canvas && !event.ctrlKey) return; // a page that scrolls goes on scrolling
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.min(1, Math.max(0, (event.offsetX - this.left) / (this.width - this.left))));
  }

  keys() {
    return {w: () => this.zoom(0.5), s: () => this.zoom(2), a: () => this.pan(-0.25), d: () => this.pan(0.25),
      "+": () => this.zoom(0.5), "-": () => this.zoom(2), Home: () => this.show(this.whole)};
  }

  key(event) {
    const act = this.keys()[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  // The stretch of time that is as wide as the picture at this height.
  rangeAt() {
    return this.view;
  }

  press(event) {
    if (event.pointerType === "touch") {
      if (this.isReady) this.told(event); // a finger scrolls
      return;
    }
    if (event.button !== 0) return;
    this.drag = {from: event.offsetX, to: event.offsetX, range: this.rangeAt(event.offsetY)};
  }

  move(event) {
    if (this.drag) {
      this.drag.to = event.offsetX;
      this.draw();
    } else this.told(event);
  }

  release(event) {
    const drag = this.drag;
    if (!drag) return;
    this.drag = null;
    this.canvas.focus();
    const [left, right] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    if (right - left > 4) this.show({from: this.timeAt(left, drag.range), to: this.timeAt(right, drag.range)});
    else {
      this.draw();
      this.told(event);
      this.pick(event);
    }
  }
}
