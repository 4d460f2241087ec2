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
}
