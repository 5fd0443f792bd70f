// Which rows the table shows, in which order, and the same as CSV.

const releases = samples.answers.map((answers) => answers.release);
const several = releases.length > 1;
const labelled = samples.answers.some((answers) => answers.correct.some((label) => label !== null));
const absent = samples.answers.map((answers) => new Set(answers.absent));
const LABELS = { true: "right", false: "wrong", null: "–" };

const state = {
  old: data.old, new: data.new, field: data.primary, query: "", show: "all", label: "all", slices: {}, matrix: false,
  sort: several ? "change" : "0", descending: false, page: 0, size: 25,
};

/** The releases that the table has a column for. */
function sides() {
  if (state.matrix) return releases.map((_, release) => release);
  return several ? [state.old, state.new] : [state.new];
}

function valueOf(release, field, place) {
  const column = samples.answers[release].values[field];
  return column === undefined || column[place] === undefined ? null : column[place];
}

/**
 * Rows of the shown releases with their scores of the chosen field. `change` is new minus old; of all releases, how far
 * they are apart. `gain` is below 0 where the change is for the worse.
 */
function allRows() {
  const chosen = sides();
  const key = `${chosen} ${state.field}`;
  if (lastRows.key === key) return lastRows.rows;
  const rows = [];
  const columns = chosen.map((release) => samples.answers[release].values[state.field] || []);
  const way = data.lower.includes(state.field) ? -1 : 1;
  const gaps = chosen.every((release) => absent[release].size);
  for (let place = 0; place < samples.ids.length; place++) {
    if (gaps && chosen.every((release) => absent[release].has(place))) continue;
    const values = columns.map((column) => column[place] ?? null);
    const exact = state.matrix ? apart(values) : minus(values[values.length - 1], values[0]);
    // Scores come with four digits: what is left of a difference below that is rounding.
    const change = exact === null ? null : Math.round(exact * 1e4) / 1e4;
    rows.push({ place, values, change, gain: change === null ? null : way * change });
  }
  lastRows = { key, rows };
  return rows;
}

let lastRows = {};

function minus(now, old) {
  return now === null || old === null ? null : now - old;
}

function apart(values) {
  const scored = values.filter((value) => value !== null);
  return scored.length > 1 ? Math.max(...scored) - Math.min(...scored) : null;
}

const SHOWN = {
  all: () => true,
  // A score that is there on one side only has changed too, by an unknown amount.
  changed: (row) => (row.change === null ? row.values.some((value) => value !== row.values[0]) : row.change !== 0),
  worse: (row) => row.gain < 0,
  better: (row) => row.gain > 0,
  same: (row) => row.change === 0,
  none: (row) => row.values.includes(null),
};

/** The table begins with the worst change; if nothing got worse, with the best; if nothing changed, with all samples. */
function begin() {
  const rows = several ? allRows() : [];
  state.show = rows.some(SHOWN.changed) ? "changed" : "all";
  state.descending = several && !rows.some(SHOWN.worse);
}

/** Where the answers of a release to a question are: mostly one. */
function slotsOf(release, place) {
  return [place, ...(samples.answers[release].more[place] || [])];
}

function labelOf(release, place) {
  const labels = slotsOf(release, place).map((slot) => samples.answers[release].correct[slot]);
  const known = labels.filter((label) => label !== null);
  return known.length > 1 ? `${known.filter((label) => label).length} of ${known.length} right` : LABELS[known[0] ?? null];
}

function textsOf(release, place) {
  return slotsOf(release, place).map((slot) => samples.answers[release].texts[slot]).filter((text) => text !== null);
}

function labelsOf(place) {
  const [old, now] = [labelOf(state.old, place), labelOf(state.new, place)];
  return !several || (old === "–" && now === "–") ? now : `${old} → ${now}`;
}

const haystacks = new Map();

/** Everything of a sample that the search looks at, folded once. */
function haystack(place) {
  const key = `${sides()} ${place}`;
  let found = haystacks.get(key);
  if (found === undefined) {
    const texts = [samples.ids[place], samples.questions[place], ...samples.references[place]];
    texts.push(...sides().flatMap((release) => textsOf(release, place)));
    found = texts.filter((text) => text).join("\n").toLowerCase();
    haystacks.set(key, found);
  }
  return found;
}

/** The rows that all filters but `show` let through. */
function filteredRows() {
  const words = state.query.toLowerCase().split(/\s+/).filter((word) => word);
  const tests = words.map((word) => ({ place }) => haystack(place).includes(word));
  for (const [name, value] of Object.entries(state.slices)) tests.unshift(({ place }) => samples.slices[name][place] === value);
  if (state.label !== "all") tests.unshift(({ place }) => labelsOf(place) === state.label);
  return tests.reduce((rows, test) => rows.filter(test), allRows());
}

function byText(way) {
  const { compare } = new Intl.Collator("en", { numeric: true });
  return (one, other) => way * compare(one.key, other.key);
}

function sortKey(row) {
  if (state.sort === "id") return samples.ids[row.place];
  if (state.sort === "question") return samples.questions[row.place];
  if (state.sort === "label") return labelsOf(row.place);
  return state.sort === "change" ? row.change : row.values[Number(state.sort)];
}

/** By the chosen column; rows without a value come last whichever way, and equal ones keep their order. */
function sorted(rows) {
  const keyed = rows.map((row) => ({ key: sortKey(row), row }));
  const known = keyed.filter(({ key }) => key !== null);
  const way = state.descending ? -1 : 1;
  if (typeof known[0]?.key === "number") known.sort((one, other) => way * (one.key - other.key));
  else known.sort(byText(way));
  return [...known, ...keyed.filter(({ key }) => key === null)].map(({ row }) => row);
}

/** A text as a cell. A spreadsheet would run what begins like a formula, so such texts get an apostrophe. */
function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[\s\u0000]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/.test(value) ? `'${value}` : value;
  return /[",;\n\r\t']/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The rows as CSV with every score of both releases, as spreadsheets open it. */
function csv(rows) {
  const chosen = [...new Set(sides())];
  const slices = Object.keys(samples.slices);
  const head = ["sample_id", "question", "references", ...slices];
  for (const side of chosen) head.push(`${releases[side]}: answer`, `${releases[side]}: label`);
  for (const field of data.fields) for (const side of chosen) head.push(`${releases[side]}: ${field}`);
  const lines = [head];
  for (const { place } of rows) {
    const line = [samples.ids[place], samples.questions[place], samples.references[place].join(" | ")];
    line.push(...slices.map((name) => samples.slices[name][place]));
    for (const side of chosen) line.push(textsOf(side, place).join(" | "), labelOf(side, place).replace("–", ""));
    for (const field of data.fields) for (const side of chosen) line.push(valueOf(side, field, place));
    lines.push(line);
  }
  return "\ufeff" + lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}
