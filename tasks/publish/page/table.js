// The table of samples: controls, rows, pages. Only the rows of one page are in the document.

/** Characters that two texts share at their beginning before a line starts where they part. */
const ALIKE = 24;

let shown = [];
const heading = document.getElementById("samples-title");
const body = h("tbody");
const headRow = h("tr", { role: "row" });
const status = h("p", { role: "status", "aria-live": "polite" });
const previous = h("button", { type: "button", onclick: () => turn(-1) }, "Previous");
const next = h("button", { type: "button", onclick: () => turn(1) }, "Next");
const pageText = h("span");

function columns() {
  const name = state.matrix ? "c-m" : "c-n";
  return [
    { key: "id", title: "Sample", name: "c-id" },
    { key: "question", title: "Question", name: state.matrix ? "c-q" : "" },
    ...sides().map((side, turn) => ({ key: String(turn), side, title: several ? releases[side] : state.field, name, number: true })),
    // Of numbers that are 0 or 1, all that differ are apart by 1.
    ...(several && !(state.matrix && isBinary()) ? [{ key: "change", title: state.matrix ? "Apart" : "Change", name, number: true }] : []),
    ...(labelled && !state.matrix ? [{ key: "label", title: "Human label", name: "c-label" }] : []),
  ];
}

function update() {
  const rows = filteredRows();
  drawTally(rows);
  shown = sorted(rows.filter(SHOWN[state.show]));
  state.page = 0;
  draw();
}

function draw() {
  const pages = Math.max(1, Math.ceil(shown.length / state.size));
  state.page = Math.min(state.page, pages - 1);
  const rows = shown.slice(state.page * state.size, (state.page + 1) * state.size);
  drawHead();
  const empty = h("tr", {}, h("td", { colspan: columns().length + 1, class: "muted" }, "No sample fits these filters."));
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
  const cells = columns().map((column) => {
    const button = h("button", { type: "button", "data-key": column.key }, isolated(column.title));
    button.addEventListener("click", () => sortBy(column));
    const sort = state.sort === column.key ? way : "none";
    const looks = `${column.name} ${column.number ? "n" : ""}`.trim();
    return h("th", { scope: "col", role: "columnheader", "aria-sort": sort, class: looks || null }, button);
  });
  const open = h("th", { scope: "col", role: "columnheader", class: "c-open" }, h("span", { class: "unseen" }, "Details"));
  const focused = headRow.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  headRow.replaceChildren(open, ...cells);
  if (focused) headRow.querySelector(`[data-key="${focused}"]`).focus();
}

function sortBy(column) {
  state.descending = state.sort === column.key ? !state.descending : false;
  state.sort = column.key;
  act();
}

function rowElement(row) {
  const { place } = row;
  const id = `detail-${place}`;
  const about = `Details of ${visibleText(samples.ids[place])}`;
  const toggle = h("button", { type: "button", class: "toggle", "aria-expanded": "false", "aria-label": about });
  const cells = columns().map((column) => cellElement(column, row));
  const element = h("tr", { class: "row", role: "row", "data-place": place }, h("td", { role: "cell", class: "open" }, toggle), cells);
  const flip = () => {
    const open = toggle.getAttribute("aria-expanded") === "true";
    toggle.setAttribute("aria-expanded", String(!open));
    element.classList.toggle("open", !open);
    if (open) return element.nextElementSibling.remove();
    toggle.setAttribute("aria-controls", id);
    const under = h("td", { colspan: columns().length + 1, role: "cell", class: "detail", id }, detail(place));
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
  const label = visibleText(column.title);
  if (key === "id") return h("td", { role: "cell", class: "id" }, isolated(samples.ids[row.place]));
  if (key === "question") {
    const text = samples.questions[row.place] || "–";
    const question = h("span", { class: "clamp", dir: "auto" }, visible(cutAt(text, 300)));
    return h("td", { role: "cell", class: "question" }, question, textLines(row));
  }
  if (key === "label") return h("td", { role: "cell", "data-label": label }, labelsOf(row.place));
  if (key === "change") {
    const way = state.matrix ? "" : row.gain > 0 ? "up" : row.gain < 0 ? "down" : "";
    const arrow = way ? h("span", { class: "arrow", "aria-hidden": "true" }, way === "up" ? "▲ " : "▼ ") : null;
    return h("td", { role: "cell", class: `n change ${way}`, "data-label": label }, arrow, changeText(row.change));
  }
  const value = row.values[Number(key)];
  // Seconds, dollars and tokens are not between 0 and 1.
  const shade = value === null || data.lower.includes(state.field) ? "" : value > 2 / 3 ? "high" : value < 1 / 3 ? "low" : "";
  return h("td", { role: "cell", class: state.matrix ? `n cell ${shade}` : "n", "data-label": label }, scoreText(column.side, value, row.place));
}

function isBinary() {
  return data.binary.includes(state.field);
}

/** Of a field that is 0 or 1 in words: its two scores stand beside it. */
function changeText(change) {
  if (state.matrix) return number(change);
  const words = { "-1": "worse", 0: "same", 1: "better" };
  return (isBinary() && words[change]) || signed(change);
}

/** Where two texts that begin alike for longer than some words part, less the last of these. */
function whereTheyPart(one, other) {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  if (at < ALIKE || one === other) return 0;
  const word = one.lastIndexOf(" ", at - 12) + 1;
  return word > at - ALIKE ? word : at;
}

/** The beginning of the first reference, of each answer, and of why a changed one has its score, a line each. */
function textLines({ place, change }) {
  const [reference, ...others] = samples.references[place];
  const more = others.length ? ` (and ${others.length} more)` : "";
  const lines = [["reference", reference === undefined ? null : reference, "no reference", more]];
  const chosen = state.matrix ? [] : [...new Set(sides())];
  const names = chosen.length > 1 ? ["old", "new"] : ["answer"];
  const firsts = chosen.map((side) => (samples.answers[side].texts[place] || "").trimStart());
  const from = firsts.length > 1 ? whereTheyPart(...firsts) : 0;
  for (const [turn, side] of chosen.entries()) {
    const further = slotsOf(side, place).length - 1;
    const after = further ? ` (and ${further} more)` : "";
    lines.push([names[turn], firsts[turn], absent[side].has(place) ? "not there" : "no answer", after, from]);
  }
  const why = change && chosen.length > 1 && (samples.answers[state.new].reasons[state.field.split(".")[0]] || {})[place];
  if (why) lines.push(["why", why, "", ""]);
  return lines.map(([name, text, none, after, start = 0]) => {
    const begin = text ? [start ? "… " : "", visible(cutAt(text.slice(start), 200)), after].flat() : none;
    return h("span", { class: "line" }, h("span", {}, name), h("span", { dir: "auto" }, begin));
  });
}

function scoreText(side, value, place) {
  if (value !== null) return isBinary() && Number.isInteger(value) ? String(value) : number(value);
  if (absent[side].has(place)) return "not there";
  const why = (samples.answers[side].unscored[state.field.split(".")[0]] || {})[place];
  return why ? why[0] : "–";
}
