// What is known of the kernel that is chosen, beside the pictures: names, durations, and who launched it.
import {sayCount, sayMany, sayShare, sayTime} from "./units.mjs";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 240, HEIGHT = 64;

// Of each bin where its bar lies and how high it is; a bin that holds any is seen.
export function barsOf(bins, width, height) {
  const most = Math.max(...bins, 1), each = width / bins.length;
  return bins.map((cnt, n) => ({x: n * each, width: each, height: cnt ? Math.max(1, height * cnt / most) : 0, cnt}));
}

// The borders of a bin: equal steps of the logarithm from the shortest to the longest.
export function bordersOf(kernel, n) {
  const {min, max, bins} = kernel, least = Math.max(min, 1);
  const at = (share) => least * (Math.max(max, 1) / least) ** share;
  return [at(n / bins.length), at((n + 1) / bins.length)];
}

// What the histogram shows, for who does not see it.
export function sayDurations(kernel) {
  const {bins, min, max} = kernel;
  if (kernel.cnt === 1) return `It takes ${sayTime(min)}.`;
  if (bins.length === 1) return `All ${sayCount(kernel.cnt)} take ${sayTime(min)}.`;
  const fullest = bins.indexOf(Math.max(...bins));
  const [from, to] = bordersOf(kernel, fullest);
  return `${sayTime(min)} to ${sayTime(max)}; most often ${sayTime(from)} to ${sayTime(to)} (${sayCount(bins[fullest])} of ${sayCount(kernel.cnt)}).`;
}

export class Drawer {
  // pick: chooses a range.
  constructor(document, pick) {
    Object.assign(this, {document, pick});
    const data = document.getElementById("kernels-data");
    this.kernels = data ? JSON.parse(data.textContent) : {};
    this.element = document.createElement("aside");
    this.element.className = "drawer controls";
    this.element.setAttribute("aria-label", "The kernel that is chosen");
    this.element.hidden = true;
    document.body.append(this.element);
  }

  // Shows a kernel, or nothing where none is chosen or nothing is known of it. Once closed it stays so until another is.
  show(name) {
    const known = name !== undefined && Object.hasOwn(this.kernels, name);
    if (name !== this.shown) this.isClosed = false;
    this.element.hidden = !known || this.isClosed;
    if (!known || name === this.shown) { this.shown = name; return; }
    this.shown = name;
    const kernel = this.kernels[name];
    const {ranges, operators} = kernel;
    this.element.replaceChildren(
      this.head(name),
      this.made("p", `${kernel.class}: ${sayMany(kernel.cnt, "execution")}, ${sayTime(kernel.ns)}, ${sayShare(kernel.share)} of all kernel time.`),
      this.made("p", `Mean ${sayTime(kernel.mean)}, median ${sayTime(kernel.median)}.`),
      this.histogram(kernel),
      ...this.listed("Ranges with most of its time", ranges.map(([path, cnt, ns]) => [this.rangeButton(path), this.counted(kernel, cnt, ns)])),
      ...this.listed("Operators and shapes with most of its time", operators.map(([operator, shapes, cnt, ns]) =>
        [this.made("code", `${operator} ${shapes}`.trim()), this.counted(kernel, cnt, ns)])),
      this.made("p", kernel.full, "whole"),
    );
    this.element.scrollTop = 0;
  }

  counted(kernel, cnt, ns) { return ` ${sayMany(cnt, "execution")}, ${sayTime(ns)}, ${sayShare(ns / kernel.ns)}`; }

  head(name) {
    const head = this.made("p", "", "head");
    const close = this.made("button", "✕");
    close.type = "button";
    close.setAttribute("aria-label", "close what is known of the kernel");
    close.addEventListener("click", () => {
      this.isClosed = true;
      this.element.hidden = true;
      this.document.querySelector(".selection button")?.focus(); // which takes the choice back
    });
    head.append(this.made("b", name), close);
    return head;
  }

  rangeButton(path) {
    if (path === null) return this.made("span", "(outside of ranges)");
    const button = this.made("button", path, "pick");
    button.type = "button";
    button.addEventListener("click", () => this.pick(path));
    return button;
  }

  listed(title, items) {
    if (!items.length) return [];
    const list = this.document.createElement("ul");
    for (const parts of items) {
      const item = this.document.createElement("li");
      item.append(...parts);
      list.append(item);
    }
    return [this.made("h3", title), list];
  }

  histogram(kernel) {
    const figure = this.document.createElement("figure");
    const picture = this.document.createElementNS(SVG, "svg");
    const said = sayDurations(kernel);
    const told = {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `Durations: ${said}`};
    for (const [name, value] of Object.entries(told)) picture.setAttribute(name, value);
    barsOf(kernel.bins, WIDTH, HEIGHT).forEach((bar, n) => {
      if (!bar.cnt) return;
      const [from, to] = bordersOf(kernel, n);
      const shape = this.document.createElementNS(SVG, "rect");
      const title = this.document.createElementNS(SVG, "title");
      title.textContent = `${sayTime(from)} to ${sayTime(to)}: ${sayCount(bar.cnt)}`;
      const box = {x: bar.x, y: HEIGHT - bar.height, width: Math.max(1, bar.width - 1), height: bar.height};
      for (const [name, value] of Object.entries(box)) shape.setAttribute(name, value);
      shape.append(title);
      picture.append(shape);
    });
    figure.append(picture, this.made("figcaption", said, "faint"));
    return figure;
  }

  made(kind, text, style = "") {
    const element = this.document.createElement(kind);
    element.textContent = text;
    if (style) element.className = style;
    return element;
  }
}
