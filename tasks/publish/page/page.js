// Puts the table and its controls on the page, and opens everything for the printer.

/** As in page.css: what is long is closed here, so that the first sample is near. */
const narrow = matchMedia("(max-width: 44rem)").matches;
let choices = 0;

/** Has each control show what the state says. */
const syncs = [];

/** What somebody has chosen: the table follows it, and so does the address. */
function act() {
  setState({});
  remember();
}

/** `options` are a function where they depend on the state. */
function choice(title, options, get, set) {
  const id = `choice-${++choices}`;
  const select = h("select", { id });
  const fill = (all) => select.replaceChildren(...all.map(([key, text]) => h("option", { value: key }, visibleText(text))));
  select.addEventListener("change", () => {
    set(select.value);
    act();
  });
  if (Array.isArray(options)) fill(options);
  syncs.push(() => {
    if (!Array.isArray(options)) fill(options());
    select.value = get();
  });
  return h("div", {}, h("label", { for: id }, title), select);
}

function searchField() {
  const input = h("input", { id: "search", type: "search", autocomplete: "off", spellcheck: "false" });
  let waiting = 0;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      state.query = input.value;
      act();
    }, 150);
  });
  syncs.push(() => {
    clearTimeout(waiting);
    input.value = state.query;
  });
  const label = h("label", { for: "search" }, "Search in questions, references, answers and ids");
  return h("div", { class: "search" }, label, input);
}

function controls() {
  const names = releases.map((release, place) => [String(place), release]);
  const fields = data.fields.filter((field) => samples.answers.some((answers) => field in answers.values));
  const parts = [];
  if (several) {
    parts.push(choice("Old release", names, () => String(state.old), (value) => { state.old = Number(value); }));
    parts.push(choice("New release", names, () => String(state.new), (value) => { state.new = Number(value); }));
  }
  if (releases.length > 2) {
    const ways = [["two", "these two"], ["all", `all ${releases.length}, in columns`]];
    parts.push(choice("Releases", ways, () => (state.matrix ? "all" : "two"), (value) => { showMatrix(value === "all"); }));
  }
  parts.push(choice("Score", fields.map((field) => [field, field]), () => state.field, (value) => { state.field = value; }));
  if (labelled) parts.push(choice("Human label", labelChoices(), () => state.label, (value) => { state.label = value; }));
  for (const [name, column] of Object.entries(samples.slices)) parts.push(...sliceChoice(name, column));
  parts.push(h("div", { class: "sort-by" }, sortChoice()));
  const filters = h("details", { class: "filters", open: !narrow }, h("summary", {}, "Filters"), h("div", { class: "controls" }, parts));
  return h("div", { role: "search" }, searchField(), filters, tally);
}

function showMatrix(matrix) {
  state.matrix = matrix;
  if (matrix && ["worse", "better"].includes(state.show)) state.show = "changed";
  state.sort = "change";
  state.descending = matrix;
}

const tally = h("div", { class: "tally", role: "group", "aria-label": "Show" });

/** How many of the rows are of each kind, in words. */
function kindsOf(rows) {
  const names = { all: "all" };
  if (state.matrix) Object.assign(names, { changed: "differ", same: "alike" });
  else if (several) Object.assign(names, { changed: "changed", worse: "got worse", better: "better", same: "unchanged" });
  names.none = "without a score";
  return Object.entries(names).map(([kind, name]) => [kind, name, rows.filter(SHOWN[kind]).length]);
}

let kinds = [];

function drawTally(rows) {
  kinds = kindsOf(rows);
  const focused = tally.contains(document.activeElement) ? document.activeElement.dataset.kind : null;
  const kept = kinds.filter(([kind, , n]) => n || kind !== "none" || kind === state.show);
  tally.replaceChildren(...kept.map(([kind, name, n]) => {
    const button = h("button", { type: "button", class: kind, "data-kind": kind, "aria-pressed": String(kind === state.show) }, kind === "all" ? `all ${count(n)}` : `${count(n)} ${name}`);
    button.addEventListener("click", () => {
      state.show = kind;
      act();
    });
    return button;
  }));
  if (focused) tally.querySelector(`[data-kind="${focused}"]`)?.focus();
}

/** Beside the decision: what became of the samples, as links to them. */
function drawSummary() {
  const box = document.getElementById("changes");
  const moves = kinds.filter(([kind]) => ["worse", "better", "same"].includes(kind));
  // Two releases that answered no common sample have no changes to count.
  if (!several || !box || !moves.some(([, , n]) => n)) return;
  const links = moves.map(([kind, name, n]) => h("a", { class: kind, href: `#show=${kind}` }, `${count(n)} ${name}`));
  box.replaceChildren(...links, h("span", { class: "muted" }, ` by ${state.field}, `, isolated(releases[state.old]), " → ", isolated(releases[state.new])));
  box.hidden = false;
}

function labelChoices() {
  const words = ["right", "wrong", "–"];
  const pairs = words.flatMap((old) => words.map((now) => `${old} → ${now}`));
  const all = several ? [...pairs.slice(0, -1), "–"] : words;
  return [["all", "any"], ...all.map((text) => [text, text.replaceAll("–", "no label")])];
}

/** Columns with very many values are left to the search. */
function sliceChoice(name, column) {
  const values = [...new Set(column.filter((value) => value !== null))].sort();
  if (values.length < 2 || values.length > 200) return [];
  const options = [["", "any"], ...values.map((value, place) => [String(place), value])];
  const title = visibleText(name);
  const get = () => (name in state.slices ? String(values.indexOf(state.slices[name])) : "");
  return [choice(title, options, get, (value) => {
    if (value === "") delete state.slices[name];
    else state.slices[name] = values[Number(value)];
  })];
}

/** On narrow screens, where the heads of the columns are not shown. */
function sortChoice() {
  const ways = () => columns().flatMap((column) => [false, true].map((down) => [`${column.key} ${down ? 1 : 0}`, `${column.title}, ${down ? "highest" : "lowest"} first`]));
  return choice("Sort", ways, () => `${state.sort} ${state.descending ? 1 : 0}`, (value) => {
    const [key, down] = value.split(" ");
    state.sort = key;
    state.descending = down === "1";
  });
}

function download() {
  const url = URL.createObjectURL(new Blob([csv(shown)], { type: "text/csv;charset=utf-8" }));
  const link = h("a", { href: url, download: `${data.dataset}-samples.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function build() {
  begin();
  started = { ...state };
  beginning = Object.fromEntries(Object.entries(ADDRESS).map(([name, [get]]) => [name, get()]));
  const sizes = choice("Rows", ["25", "50", "100", "250"].map((size) => [size, size]), () => String(state.size), (value) => { state.size = Number(value); });
  const exportButton = h("button", { type: "button", onclick: download }, "Export these rows as CSV");
  const table = h("table", { id: "rows", role: "table" }, h("thead", { role: "rowgroup" }, headRow), body);
  const box = document.getElementById("table");
  table.setAttribute("aria-labelledby", "samples-title");
  body.setAttribute("role", "rowgroup");
  const pager = h("div", { class: "pager" }, sizes, previous, pageText, next);
  const wide = h("div", { class: "wide-rows", role: "region", tabindex: 0, "aria-label": "Samples" }, table);
  box.append(controls(), h("div", { class: "bar" }, status, exportButton), wide, h("div", { class: "bar" }, pager));
  box.hidden = false;
  document.getElementById("without-script").remove();
  setState({});
  drawSummary();
}

/** The state with which the page begins, and what the address would say of it. */
let started;
let beginning;

function setState(wanted) {
  Object.assign(state, wanted);
  for (const sync of syncs) sync();
  update();
}

/** What the address says of the state: name, value, and how it is read; what is as at the beginning is left out. */
const ADDRESS = {
  q: [() => state.query, (text) => ({ query: text })],
  show: [() => state.show, (text) => (text in SHOWN ? { show: text } : {})],
  label: [() => state.label, (text) => (labelChoices().some(([key]) => key === text) ? { label: text } : {})],
  score: [() => state.field, (text) => (data.fields.includes(text) ? { field: text } : {})],
  old: [() => releases[state.old], (text) => (releases.includes(text) ? { old: releases.indexOf(text) } : {})],
  new: [() => releases[state.new], (text) => (releases.includes(text) ? { new: releases.indexOf(text) } : {})],
  releases: [() => (state.matrix ? "all" : "two"), (text) => ({ matrix: text === "all" && releases.length > 2 })],
  sort: [() => `${state.descending ? "-" : ""}${state.sort}`, (text) => sortFrom(text)],
};

function sortFrom(text) {
  const [, down, sort] = /^(-?)(.*)$/s.exec(text);
  return columns().some(({ key }) => key === sort) ? { sort, descending: down === "-" } : {};
}

/** Write the state into the address, so that what is seen can be passed on and reloaded. */
function remember() {
  const asked = new URLSearchParams();
  for (const [name, [get]] of Object.entries(ADDRESS)) if (get() !== beginning[name]) asked.set(name, get());
  for (const [name, value] of Object.entries(state.slices)) asked.set(`slice.${name}`, value);
  try {
    history.replaceState(null, "", String(asked) ? `#${asked}` : `${location.pathname}${location.search}`);
  } catch {
    // A page within another document may have no address of its own.
  }
}

/** The state that an address asks for. */
function stateFrom(asked) {
  Object.assign(state, started, { slices: {} });
  for (const [name, [, read]] of Object.entries(ADDRESS)) if (asked.has(name)) Object.assign(state, read(asked.get(name)));
  for (const [name, column] of Object.entries(samples.slices)) {
    const value = asked.get(`slice.${name}`);
    if (value !== null && column.includes(value)) state.slices[name] = value;
  }
  setState({});
}

function chooseSliceField() {
  const select = document.getElementById("slice-field");
  if (!select) return;
  select.parentElement.hidden = false;
  select.addEventListener("change", () => {
    for (const box of document.querySelectorAll("[data-field]")) box.hidden = box.dataset.field !== select.value;
  });
}

/** Go where the address says: to a sample (#sample=ID), whatever the filters are, to filters, or to a section. */
function follow() {
  const [, name] = /^#sample=(.*)$/s.exec(location.hash) || [];
  if (name === undefined) {
    if (!location.hash.includes("=")) return openSection(location.hash);
    stateFrom(new URLSearchParams(location.hash.slice(1)));
    return heading.scrollIntoView();
  }
  const id = decoded(name);
  const place = samples.ids.indexOf(id);
  if (!shown.some((row) => row.place === place)) setState({ query: "", show: "all", label: "all", slices: {} });
  const at = shown.findIndex((row) => row.place === place);
  if (at < 0) {
    status.textContent = `Sample ${visibleText(id)} is not on this page`;
    return heading.scrollIntoView();
  }
  const row = () => body.querySelector(`[data-place="${place}"]`);
  if (!row()) {
    state.page = Math.floor(at / state.size);
    draw();
  }
  const toggle = row().querySelector(".toggle");
  if (toggle.getAttribute("aria-expanded") === "false") toggle.click();
  toggle.focus({ preventScroll: true });
  row().scrollIntoView();
}

function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function openSection(hash) {
  const section = hash && document.getElementById(decoded(hash.slice(1)));
  const folded = section && section.querySelector(":scope > .folded");
  if (!folded || folded.open) return;
  folded.open = true;
  section.scrollIntoView();
}

const closed = [];
addEventListener("beforeprint", () => {
  const found = [...document.querySelectorAll("details:not([open])")];
  for (const one of found) one.open = true;
  closed.push(...found);
});
addEventListener("afterprint", () => {
  for (const one of closed.splice(0)) one.open = false;
});

if (narrow) for (const one of document.querySelectorAll(".comparison[open]")) one.open = false;
build();
chooseSliceField();
for (const link of document.querySelectorAll("nav a")) link.addEventListener("click", () => openSection(link.hash));
addEventListener("hashchange", follow);
follow();
