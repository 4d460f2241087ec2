// Tables of a page: sorted by a click on a heading, filtered by what is typed.
import {sayCount, sayMany, sayMilliseconds} from "./units.mjs";

export function compareCells(x, y) {
  return typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
}

function valueOf(cell) {
  return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
}

export function activateTables(document) {
  document.querySelectorAll("input[data-table]").forEach((input) => input.addEventListener("input", () =>
    filterTable(document.getElementById(input.dataset.table), input.value)));
  document.querySelectorAll("th button").forEach((button) => button.addEventListener("click", () => {
    const head = button.parentElement, body = head.closest("table").tBodies[0], index = head.cellIndex;
    const sign = head.getAttribute("aria-sort") === "descending" ? 1 : -1;
    for (const other of head.parentElement.cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    [...body.rows].sort((a, b) => sign * compareCells(valueOf(a.cells[index]), valueOf(b.cells[index])))
      .forEach((row) => body.append(row));
  }));
}

export function filterTable(table, words) {
  const wanted = words.toLowerCase();
  for (const row of table.tBodies[0].rows)
    row.hidden = !`${row.textContent} ${[...row.cells].map((cell) => cell.title).join(" ")}`.toLowerCase().includes(wanted);
  const scroll = table.parentElement;
  if (scroll.nextElementSibling?.className !== "none") {
    const said = table.ownerDocument.createElement("p");
    said.className = "none";
    said.setAttribute("aria-live", "polite");
    scroll.after(said);
  }
  const isEmpty = [...table.tBodies[0].rows].every((row) => row.hidden);
  scroll.nextElementSibling.textContent = isEmpty ? `No row has “${words}” in it.` : "";
}

// The rows of a table with what their cells choose: range, kernel, step, rank; begin and length as times from `zero` on.
export function cellsOf(table, zero) {
  const heads = [...table.querySelectorAll("th[data-key]")].map((head) => [head.dataset.key, head.cellIndex]);
  return [...table.tBodies[0].rows].map((element) => {
    const row = {};
    for (const [key, index] of heads) {
      const cell = element.cells[index];
      if (key === "begin") row.begin = Number(cell.dataset.value) * 1e6 + zero;
      else if (key === "length") row.length = Number(cell.dataset.value) * 1e6;
      else row[key] = wholeOf(cell);
    }
    return [element, row];
  });
}

function wholeOf(cell) {
  return "value" in cell.dataset ? String(Number(cell.dataset.value)) : cell.dataset.name || cell.title || cell.textContent;
}

// Cells that choose something are buttons, made when the table is seen.
export function makePickable(table) {
  const details = table.closest("details");
  const make = () => {
    if (table.dataset.pickable || !details?.open) return;
    table.dataset.pickable = "yes";
    for (const head of table.querySelectorAll("th[data-key]")) {
      if (["begin", "length"].includes(head.dataset.key)) continue;
      for (const row of cellsOf(table, 0)) pickable(row, head);
    }
  };
  details?.addEventListener("toggle", make);
  make();
}

function pickable([element, row], head) {
  const cell = element.cells[head.cellIndex], name = head.dataset.key;
  if (!cell.textContent) return;
  const time = name === "step" && "begin" in row ? [row.begin, row.begin + row.length] : undefined;
  const button = cell.ownerDocument.createElement("button");
  button.type = "button";
  button.className = "pick";
  button.textContent = cell.textContent;
  button.addEventListener("click", () =>
    button.dispatchEvent(new CustomEvent("picked", {bubbles: true, detail: {name, value: row[name], time}})));
  cell.replaceChildren(button);
}

// What the line above a table says of its rows; null for what it said at first.
export function saySummary(table, text) {
  const summary = table.closest("details").querySelector("summary");
  summary.dataset.said ??= summary.textContent;
  summary.textContent = text ?? summary.dataset.said;
}

const SUMS = ["name", "operations", "time (ms)", "mean (ms)"], MOST = 100;

// A table of what was added up in the place of a section's table; null for the table itself. Names may choose kernels.
export function showSums(table, sums, areKernels = false) {
  const details = table.closest("details"), focused = focusIn(details);
  details.querySelector(".sums")?.remove();
  details.classList.toggle("added", sums !== null);
  const many = sums && sayMany(sums.length, "name");
  saySummary(table, sums && `Table (${sums.length > MOST ? `the first ${MOST} of ${many}` : many} of what is chosen)`);
  if (sums) details.append(madeOf(table.ownerDocument, sums, areKernels));
  if (focused !== null) focusOn(details.querySelector(sums ? ".sums" : ".scroll"), focused);
}

// The name of the row that has the focus, "" where none has and the focus is in the tables; null where it is not.
function focusIn(details) {
  const element = details.ownerDocument.activeElement;
  if (!element?.closest(".scroll") || !details.contains(element)) return null;
  const cell = element.closest("td");
  return cell ? wholeOf(cell) : "";
}

// A table that is shown in the place of another one takes its focus: to the row of the same name, or as a whole.
function focusOn(scroll, name) {
  const cell = name && [...scroll.querySelectorAll("td")].find((found) => found.querySelector("button") && wholeOf(found) === name);
  (cell ? cell.querySelector("button") : scroll).focus({preventScroll: true});
}

function madeOf(document, sums, areKernels) {
  const made = document.createElement("div");
  made.className = "scroll sums";
  made.tabIndex = 0;
  const rows = document.createElement("table");
  const head = rows.createTHead().insertRow();
  for (const title of SUMS) head.append(Object.assign(document.createElement("th"), {scope: "col", textContent: title}));
  const body = rows.createTBody();
  for (const {label, cnt, time} of sums.slice(0, MOST)) {
    const row = body.insertRow();
    [label, sayCount(cnt), sayMilliseconds(time), sayMilliseconds(time / cnt)].forEach((text, n) => {
      const cell = row.insertCell();
      cell.textContent = text;
      if (n) cell.className = "number";
    });
    row.cells[0].dataset.name = label;
    if (areKernels) pickable([row, {kernel: label}], {cellIndex: 0, dataset: {key: "kernel"}});
  }
  made.append(rows);
  return made;
}
