// Tables of a page: sorted by a click on a heading, filtered by what is typed.

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

const SUMS = ["name", "operations", "time (ms)", "mean (ms)"], MOST = 100;

// A table of what was added up in the place of a section's table; null for the table itself.
export function showSums(table, sums) {
  const details = table.closest("details");
  details.querySelector(".sums")?.remove();
  details.classList.toggle("added", sums !== null);
  const summary = details.querySelector("summary");
  summary.dataset.said ??= summary.textContent;
  summary.textContent = sums ? `Table (${Math.min(sums.length, MOST)} of ${sums.length} names that are chosen)` : summary.dataset.said;
  if (!sums) return;
  const made = table.ownerDocument.createElement("div");
  made.className = "scroll sums";
  made.tabIndex = 0;
  const rows = table.ownerDocument.createElement("table");
  const head = rows.createTHead().insertRow();
  for (const title of SUMS) head.append(Object.assign(table.ownerDocument.createElement("th"), {scope: "col", textContent: title}));
  const body = rows.createTBody();
  for (const {label, cnt, time} of sums.slice(0, MOST)) {
    const row = body.insertRow();
    [label, cnt.toLocaleString("en"), milliseconds(time), milliseconds(time / cnt)].forEach((text, n) => {
      const cell = row.insertCell();
      cell.textContent = text;
      if (n) cell.className = "number";
    });
  }
  made.append(rows);
  details.append(made);
}

function milliseconds(time) {
  return (time / 1e6).toLocaleString("en", {minimumFractionDigits: 3, maximumFractionDigits: 3});
}
