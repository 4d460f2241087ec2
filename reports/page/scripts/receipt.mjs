// The receipt as a picture of 1200 by 630 pixels, the size that is shown where people post links.
import {charactersAt, isLight, sayShare} from "./units.mjs";

const WIDTH = 1200, HEIGHT = 630, MARGIN = 50, BAR_TOP = 185, BAR_HEIGHT = 90;
const COLUMNS = 3, ROWS = 2, LEAST_SHARE = 0.005; // of the legend
// Of each kind of waiting which pixels of a tile are drawn: as page.css has them.
const HATCHES = {
  "idle": (x, y) => (x + y) % 12 < 4,
  "idle other": (x, y) => (x - y + 12) % 6 < 1,
  "idle rank": (x, y) => y % 6 < 1,
  "idle unknown": (x, y) => x % 12 < 1 && y % 4 < 2,
  "idle between": (x, y) => (x % 6 - 2.5) ** 2 + (y % 6 - 2.5) ** 2 < 2.5,
};

// Where the parts lie: each with its left edge and its width, all together as wide as the bar.
export function barParts(parts, left, width) {
  const whole = parts.reduce((sum, [, share]) => sum + share, 0);
  let at = left;
  return parts.map(([name, share, kind]) => {
    const part = {name, share, kind, left: at, width: whole ? share / whole * width : 0};
    at += part.width;
    return part;
  });
}

// The parts that a legend names, the largest first.
export function legendOf(parts) {
  return parts.filter(({share}) => share >= LEAST_SHARE).sort((a, b) => b.share - a.share).slice(0, COLUMNS * ROWS);
}

// A text in as many lines as it needs, at most `most`, of which the last is cut where it is too wide; widthOf measures.
export function linesOf(text, widthOf, widest, most) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (!lines.at(-1) || widthOf(longer) <= widest || lines.length === most) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.map((line) => cut(line, widthOf, widest));
}

function cut(text, widthOf, widest) {
  let said = text;
  while (said.length > 4 && widthOf(said) > widest) said = `${charactersAt(said.replace(/…$/, ""), 0, -1).trimEnd()}…`;
  return said;
}

function write(pen, text, x, y, {size, colour, weight = 400, widest = WIDTH - 2 * MARGIN, most = 1}) {
  pen.fillStyle = colour;
  pen.font = `${weight} ${size}px system-ui, sans-serif`;
  linesOf(text, (said) => pen.measureText(said).width, widest, most)
    .forEach((line, n) => pen.fillText(line, x, y + n * size * 1.15));
}

// What a part is filled with: the colour of its kind, or the hatch that tells the page's kinds of waiting apart.
function filling(pen, kind, colour) {
  if (!kind.startsWith("idle")) return colour(`k-${kind}`);
  const tile = pen.canvas.ownerDocument.createElement("canvas"), size = tile.width = tile.height = 12;
  const drawn = tile.getContext("2d");
  drawn.fillStyle = colour("card");
  drawn.fillRect(0, 0, size, size);
  drawn.fillStyle = colour(kind === "idle" ? "line" : "faint");
  const isOn = HATCHES[kind];
  for (let x = 0; x < size; x++) for (let y = 0; y < size; y++) if (isOn(x, y)) drawn.fillRect(x, y, 1, 1);
  return pen.createPattern(tile, "repeat");
}

function drawBar(pen, parts, colour) {
  for (const part of parts) {
    const isIdle = part.kind.startsWith("idle"), ground = isIdle ? colour("card") : colour(`k-${part.kind}`);
    pen.fillStyle = filling(pen, part.kind, colour);
    pen.fillRect(part.left, BAR_TOP, part.width, BAR_HEIGHT);
    if (part.width <= 90) continue;
    if (isIdle) { // letters are not read on a hatch
      pen.fillStyle = ground;
      pen.font = "600 28px system-ui, sans-serif";
      pen.fillRect(part.left + 4, BAR_TOP + 26, pen.measureText(sayShare(part.share)).width + 16, 40);
    }
    write(pen, sayShare(part.share), part.left + 12, BAR_TOP + 56,
      {size: 28, colour: isIdle ? colour("ink") : isLight(ground) ? "#000" : "#fff", weight: 600, widest: part.width - 14});
  }
  legendOf(parts).forEach((part, n) => {
    const x = MARGIN + n % COLUMNS * 370, y = BAR_TOP + BAR_HEIGHT + 40 + Math.floor(n / COLUMNS) * 36;
    pen.fillStyle = filling(pen, part.kind, colour);
    pen.fillRect(x, y - 18, 22, 22);
    pen.strokeStyle = colour("faint");
    pen.strokeRect(x + 0.5, y - 17.5, 21, 21);
    write(pen, `${sayShare(part.share)} ${part.name}`, x + 30, y, {size: 21, colour: colour("ink"), widest: 334});
  });
}

export function drawReceipt(canvas, data, colour) {
  canvas.width = WIDTH;
  canvas.height = HEIGHT;
  const pen = canvas.getContext("2d"), faint = colour("faint"), ink = colour("ink");
  pen.fillStyle = colour("paper");
  pen.fillRect(0, 0, WIDTH, HEIGHT);
  write(pen, data.title, MARGIN, 62, {size: 28, colour: faint});
  data.verdict.slice(0, 1).forEach((line) => write(pen, line[0].toUpperCase() + line.slice(1), MARGIN, 112, {size: 36, colour: ink, weight: 700, most: 2}));
  drawBar(pen, barParts(data.parts, MARGIN, WIDTH - 2 * MARGIN), colour);
  data.cards.forEach(([what, value], n) => {
    write(pen, what, MARGIN + n * 275, 420, {size: 22, colour: faint, widest: 265});
    write(pen, value, MARGIN + n * 275, 462, {size: 34, colour: ink, weight: 700, widest: 265});
  });
  if (data.best) write(pen, `first: ${data.best}`, MARGIN, 525, {size: 26, colour: ink, weight: 600});
  write(pen, "lorabench", MARGIN, 595, {size: 22, colour: faint});
}

export function activateReceipt(document) {
  const button = document.getElementById("copy-receipt");
  if (!button) return;
  const data = JSON.parse(document.getElementById("receipt-data").textContent);
  const style = getComputedStyle(document.documentElement);
  button.addEventListener("click", () => {
    const canvas = document.createElement("canvas");
    drawReceipt(canvas, data, (name) => style.getPropertyValue(`--${name}`).trim());
    canvas.toBlob((blob) => copied(blob).then((said) => { button.textContent = said; }), "image/png");
  });
}

// To the clipboard, or where a browser does not let a page do so, as a file.
async function copied(blob) {
  try {
    await navigator.clipboard.write([new ClipboardItem({"image/png": blob})]);
    return "copied";
  } catch {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = "receipt.png";
    link.click();
    return "saved as receipt.png";
  }
}
