// The receipt as a picture of 1200 by 630 pixels, the size that is shown where people post links.
import {isLight, sayShare} from "./units.mjs";

const WIDTH = 1200, HEIGHT = 630, MARGIN = 50;

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

function write(pen, text, x, y, size, colour, weight = 400, widest = WIDTH - 2 * MARGIN) {
  pen.fillStyle = colour;
  pen.font = `${weight} ${size}px system-ui, sans-serif`;
  let said = text;
  while (said.length > 4 && pen.measureText(said).width > widest) said = `${said.slice(0, -2).trimEnd()}…`;
  pen.fillText(said, x, y);
}

export function drawReceipt(canvas, data, colour) {
  canvas.width = WIDTH;
  canvas.height = HEIGHT;
  const pen = canvas.getContext("2d");
  pen.fillStyle = colour("paper");
  pen.fillRect(0, 0, WIDTH, HEIGHT);
  write(pen, data.title, MARGIN, 80, 34, colour("faint"));
  data.verdict.slice(0, 1).forEach((line) => write(pen, line, MARGIN, 140, 40, colour("ink"), 700));
  const parts = barParts(data.parts, MARGIN, WIDTH - 2 * MARGIN);
  for (const part of parts) {
    const ground = part.kind.startsWith("idle") ? colour("line") : colour(`k-${part.kind}`);
    pen.fillStyle = ground;
    pen.fillRect(part.left, 190, part.width, 90);
    if (part.width > 90) write(pen, sayShare(part.share), part.left + 12, 245, 30, isLight(ground) ? "#000" : "#fff", 600, part.width - 14);
  }
  parts.filter((part) => part.share >= 0.005).slice(0, 3).forEach((part, n) =>
    write(pen, `${part.name} ${sayShare(part.share)}`, MARGIN + n * 370, 325, 24, colour("faint"), 400, 360));
  data.cards.forEach(([what, value], n) => {
    write(pen, what, MARGIN + n * 275, 410, 22, colour("faint"), 400, 265);
    write(pen, value, MARGIN + n * 275, 455, 36, colour("ink"), 700, 265);
  });
  if (data.best) write(pen, `first: ${data.best}`, MARGIN, 530, 28, colour("ink"), 600);
  write(pen, "lorabench", MARGIN, 590, 22, colour("faint"));
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
