"use strict";
// Makes the heads of tables buttons that sort: the best first, then reversed.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, heads, column));
    head.append(button);
  });
}

function sort(table, heads, column) {
  const head = heads[column];
  const opposite = { ascending: "descending", descending: "ascending" };
  const isText = head.dataset.first === "text";
  const order =
    opposite[head.getAttribute("aria-sort")] ??
    (isText ? "ascending" : head.dataset.first);
  heads.forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const value = (row) => row.cells[column].dataset.value;
  const compare = (a, b) =>
    isText
      ? sign * a.localeCompare(b, "en", { numeric: true })
      : compareNumbers(Number(a), Number(b), sign);
  const body = table.tBodies[0];
  // Sorting is stable: rows alike remain in the order they have.
  const rows = Array.from(body.rows);
  rows.sort((a, b) => compare(value(a), value(b)));
  body.append(...rows);
}

// Cells without a number come last in both directions.
function compareNumbers(a, b, sign) {
  if (Number.isNaN(a) || Number.isNaN(b)) {
    return Number.isNaN(a) - Number.isNaN(b);
  }
  return a === b ? 0 : sign * Math.sign(a - b);
}
