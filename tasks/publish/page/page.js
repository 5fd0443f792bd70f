// Puts the table and its controls on the page, and opens everything for the printer.

/** As in page.css: what is long is closed here, so that the first sample is near. */
const narrow = matchMedia("(max-width: 44rem)").matches;
let choices = 0;

/** What each filter does to let all samples through. */
const resets = [];

/** `neutral` is the option that lets all samples through, if this is a filter. */
function choice(title, options, value, onchange, neutral) {
  const id = `choice-${++choices}`;
  const select = h("select", { id }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, visibleText(text))));
  select.addEventListener("change", () => {
    onchange(select.value);
    update(false);
  });
  if (neutral !== undefined) {
    resets.push(() => {
      select.value = neutral;
      onchange(neutral);
    });
  }
  return h("div", {}, h("label", { for: id }, title), select);
}

function searchField() {
  const input = h("input", { id: "search", type: "search", autocomplete: "off", spellcheck: "false" });
  let waiting = 0;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      state.query = input.value;
      update(false);
    }, 150);
  });
  resets.push(() => {
    clearTimeout(waiting);
    input.value = state.query = "";
  });
  const label = h("label", { for: "search" }, "Search in questions, references, answers and ids");
  return h("div", { class: "search" }, label, input);
}

function controls() {
  const sides = releases.map((release, place) => [String(place), release]);
  const fields = data.fields.filter((field) => samples.answers.some((answers) => field in answers.values));
  const parts = [];
  if (several) {
    parts.push(choice("Old release", sides, String(state.old), (value) => { state.old = Number(value); }));
    parts.push(choice("New release", sides, String(state.new), (value) => { state.new = Number(value); }));
  }
  parts.push(choice("Score", fields.map((field) => [field, field]), state.field, (value) => { state.field = value; }));
  const kinds = several
    ? [["all", "all samples"], ["changed", "changed"], ["worse", "worse"], ["better", "better"], ["same", "unchanged"], ["none", "without a score"]]
    : [["all", "all samples"], ["none", "without a score"]];
  if (anyDisputed) kinds.push(["disputed", "disputed by the offline judge"]);
  parts.push(choice("Show", kinds, state.show, (value) => { state.show = value; }, "all"));
  if (labelled) parts.push(choice("Human label", labelChoices(), "all", (value) => { state.label = value; }, "all"));
  for (const [name, column] of Object.entries(samples.slices)) parts.push(...sliceChoice(name, column));
  parts.push(h("div", { class: "sort-by" }, sortChoice()));
  const filters = h("details", { class: "filters", open: !narrow }, h("summary", {}, "Filters"), h("div", { class: "controls" }, parts));
  return h("div", { role: "search" }, searchField(), filters);
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
  return [choice(title, options, "", (value) => { state.slices[name] = value === "" ? null : values[Number(value)]; }, "")];
}

/** On narrow screens, where the heads of the columns are not shown. */
function sortChoice() {
  const ways = COLUMNS.flatMap((column) => [false, true].map((down) => [`${column.key} ${down ? 1 : 0}`, `${column.title()}, ${down ? "highest" : "lowest"} first`]));
  return choice("Sort", ways, `${state.sort} ${state.descending ? 1 : 0}`, (value) => {
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
  const sizes = choice("Rows", ["25", "50", "100", "250"].map((size) => [size, size]), String(state.size), (value) => { state.size = Number(value); });
  const exportButton = h("button", { type: "button", onclick: download }, "Export these rows as CSV");
  const table = h("table", { id: "rows", role: "table" }, h("thead", { role: "rowgroup" }, headRow), body);
  const box = document.getElementById("table");
  table.setAttribute("aria-labelledby", "samples-title");
  body.setAttribute("role", "rowgroup");
  const pager = h("div", { class: "pager" }, sizes, previous, pageText, next);
  box.append(controls(), h("div", { class: "bar" }, status, exportButton), table, h("div", { class: "bar" }, pager));
  box.hidden = false;
  document.getElementById("without-script").remove();
  update(false);
}

function chooseSliceField() {
  const select = document.getElementById("slice-field");
  if (!select) return;
  select.parentElement.hidden = false;
  select.addEventListener("change", () => {
    for (const box of document.querySelectorAll("[data-field]")) box.hidden = box.dataset.field !== select.value;
  });
}

/** Go where the address says: to a sample (#sample=ID), whatever the filters are, or to a section, which is opened. */
function follow() {
  const [, name] = /^#sample=(.*)$/s.exec(location.hash) || [];
  if (name === undefined) return openSection(location.hash);
  const id = decoded(name);
  const place = samples.ids.indexOf(id);
  if (!shown.some((row) => row.place === place)) {
    for (const reset of resets) reset();
    update(false);
  }
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
