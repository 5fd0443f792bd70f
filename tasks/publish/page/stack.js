// Tables for narrow screens.

/** On narrow screens rows become blocks: each cell says what it is, and the table is still one to screen readers. */
function labelCells() {
  for (const table of document.querySelectorAll("table[data-stack]")) {
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    table.classList.add("stack");
    table.setAttribute("role", "table");
    for (const part of [table.tHead, ...table.tBodies]) part.setAttribute("role", "rowgroup");
    for (const row of table.rows) {
      row.setAttribute("role", "row");
      [...row.cells].forEach((cell, place) => {
        cell.setAttribute("role", cell.scope === "col" ? "columnheader" : cell.scope === "row" ? "rowheader" : "cell");
        if (cell.tagName === "TD") cell.dataset.label = heads[place];
      });
    }
  }
}

labelCells();
