// The table of samples: controls, rows, pages. Only the rows of one page are in the document.

let shown = [];
const heading = document.getElementById("samples-title");
const headingOfChanges = heading.textContent;
const body = h("tbody");
const headRow = h("tr", { role: "row" });
const status = h("p", { role: "status", "aria-live": "polite" });
const previous = h("button", { type: "button", onclick: () => turn(-1) }, "Previous");
const next = h("button", { type: "button", onclick: () => turn(1) }, "Next");
const pageText = h("span");

const COLUMNS = [
  { key: "id", title: () => "Sample", name: "c-id" },
  { key: "question", title: () => "Question", name: "" },
  ...(several ? [{ key: "old", title: () => releases[state.old], name: "c-n", number: true }] : []),
  { key: "new", title: () => (several ? releases[state.new] : state.field), name: "c-n", number: true },
  ...(several ? [{ key: "change", title: () => "Change", name: "c-n", number: true }] : []),
  ...(labelled ? [{ key: "label", title: () => "Human label", name: "c-label" }] : []),
];

function update(keepPage) {
  shown = chosenRows();
  if (!keepPage) state.page = 0;
  draw();
}

function draw() {
  const pages = Math.max(1, Math.ceil(shown.length / state.size));
  state.page = Math.min(state.page, pages - 1);
  const rows = shown.slice(state.page * state.size, (state.page + 1) * state.size);
  drawHead();
  heading.textContent = ["changed", "worse", "better"].includes(state.show) ? headingOfChanges : "The answers";
  const empty = h("tr", {}, h("td", { colspan: COLUMNS.length + 1, class: "muted" }, "No sample fits these filters."));
  body.replaceChildren(...(rows.length ? rows.map(rowElement) : [empty]));
  status.textContent = `${count(shown.length)} of ${count(samples.ids.length)} samples`;
  pageText.textContent = `Page ${count(state.page + 1)} of ${count(pages)}`;
  previous.disabled = state.page === 0;
  next.disabled = state.page >= pages - 1;
}

function turn(by) {
  state.page += by;
  draw();
  document.getElementById("rows").scrollIntoView({ block: "start" });
}

function drawHead() {
  const way = state.descending ? "descending" : "ascending";
  const cells = COLUMNS.map((column) => {
    const button = h("button", { type: "button", "data-key": column.key }, isolated(column.title()));
    button.addEventListener("click", () => sortBy(column));
    const sort = state.sort === column.key ? way : "none";
    const looks = `${column.name} ${column.number ? "n" : ""}`.trim();
    return h("th", { scope: "col", role: "columnheader", "aria-sort": sort, class: looks || null }, button);
  });
  const open = h("th", { scope: "col", role: "columnheader", class: "c-open" }, h("span", { hidden: true }, "Details"));
  const focused = headRow.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  headRow.replaceChildren(open, ...cells);
  if (focused) headRow.querySelector(`[data-key="${focused}"]`).focus();
}

function sortBy(column) {
  state.descending = state.sort === column.key ? !state.descending : false;
  state.sort = column.key;
  update(false);
}

function rowElement(row) {
  const { place } = row;
  const id = `detail-${place}`;
  const about = `Details of ${visibleText(samples.ids[place])}`;
  const toggle = h("button", { type: "button", class: "toggle", "aria-expanded": "false", "aria-label": about });
  const cells = COLUMNS.map((column) => cellElement(column, row));
  const element = h("tr", { class: "row", role: "row", "data-place": place }, h("td", { role: "cell", class: "open" }, toggle), cells);
  const flip = () => {
    const open = toggle.getAttribute("aria-expanded") === "true";
    toggle.setAttribute("aria-expanded", String(!open));
    element.classList.toggle("open", !open);
    if (open) return element.nextElementSibling.remove();
    toggle.setAttribute("aria-controls", id);
    const under = h("td", { colspan: COLUMNS.length + 1, role: "cell", class: "detail", id }, detail(place));
    element.after(h("tr", { class: "detail-row", role: "row" }, under));
  };
  element.addEventListener("click", (event) => {
    // A click that selects text, or that meant a control, opens nothing.
    const meant = event.target.closest("button");
    if (meant ? meant === toggle : getSelection().isCollapsed) flip();
  });
  toggle.addEventListener("keydown", (event) => moveFocus(event, toggle));
  return element;
}

function moveFocus(event, toggle) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const all = [...body.querySelectorAll(".toggle")];
  const other = all[all.indexOf(toggle) + step];
  if (other) other.focus();
  event.preventDefault();
}

function cellElement(column, row) {
  const { key } = column;
  const label = visibleText(column.title());
  if (key === "id") return h("td", { role: "cell", class: "id" }, isolated(samples.ids[row.place]));
  if (key === "question") {
    const text = samples.questions[row.place] || "–";
    const question = h("span", { class: "clamp", dir: "auto" }, visible(cutAt(text, 300)));
    return h("td", { role: "cell", class: "question" }, question, textLines(row.place));
  }
  if (key === "label") return h("td", { role: "cell", "data-label": label }, labelsOf(row.place));
  if (key === "change") {
    const way = row.change > 0 ? "up" : row.change < 0 ? "down" : "";
    const arrow = way ? h("span", { class: "arrow", "aria-hidden": "true" }, way === "up" ? "▲ " : "▼ ") : null;
    return h("td", { role: "cell", class: `n change ${way}`, "data-label": label }, arrow, signed(row.change));
  }
  const side = key === "old" ? state.old : state.new;
  return h("td", { role: "cell", class: "n", "data-label": label }, scoreText(side, row[key], row.place));
}

/** The beginning of the first reference and of each answer, a line each. */
function textLines(place) {
  const [reference, ...others] = samples.references[place];
  const more = others.length ? ` (and ${others.length} more)` : "";
  const lines = [["reference", reference === undefined ? null : reference, "no reference", more]];
  const sides = several && state.old !== state.new ? [["old", state.old], ["new", state.new]] : [["answer", state.new]];
  for (const [name, side] of sides) {
    const [first, ...further] = slotsOf(side, place).map((slot) => samples.answers[side].texts[slot]);
    const after = further.length ? ` (and ${further.length} more)` : "";
    lines.push([name, first, absent[side].has(place) ? "not there" : "no answer", after]);
  }
  return lines.map(([name, text, none, after]) => {
    const begin = text ? [visible(cutAt(text.trimStart(), 200)), after].flat() : none;
    return h("span", { class: "line" }, h("span", {}, name), h("span", { dir: "auto" }, begin));
  });
}

function scoreText(side, value, place) {
  if (value !== null) return number(value);
  if (absent[side].has(place)) return "not there";
  const why = (samples.answers[side].unscored[state.field.split(".")[0]] || {})[place];
  return why ? why[0] : "–";
}
