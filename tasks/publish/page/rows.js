// Which rows the table shows, in which order, and the same as CSV.

const releases = samples.answers.map((answers) => answers.release);
const several = releases.length > 1;
const labelled = samples.answers.some((answers) => answers.correct.some((label) => label !== null));
const absent = samples.answers.map((answers) => new Set(answers.absent));
const LABELS = { true: "right", false: "wrong", null: "–" };

const state = {
  old: data.old, new: data.new, field: data.primary, query: "", show: "all", label: "all", slices: {},
  sort: several ? "change" : "new", descending: false, page: 0, size: 25,
};

function valueOf(release, field, place) {
  const column = samples.answers[release].values[field];
  return column === undefined || column[place] === undefined ? null : column[place];
}

/** Rows of the two chosen releases with both scores of the chosen field and their difference. */
function allRows() {
  const rows = [];
  for (let place = 0; place < samples.ids.length; place++) {
    if (absent[state.old].has(place) && absent[state.new].has(place)) continue;
    const old = valueOf(state.old, state.field, place);
    const now = valueOf(state.new, state.field, place);
    // Scores come with four digits: what is left of a difference below that is rounding.
    const change = old === null || now === null ? null : Math.round((now - old) * 1e4) / 1e4;
    rows.push({ place, old, new: now, change });
  }
  return rows;
}

/** Whether the offline judge disagrees with a judge's verdict on an answer to a question. */
function disputed(release, place) {
  const { unscored } = samples.answers[release];
  return slotsOf(release, place).some((slot) =>
    Object.values(unscored).some((found) => slot in found && found[slot][1].startsWith("disputed:")),
  );
}

const anyDisputed = releases.some((_, release) => samples.ids.some((_, place) => disputed(release, place)));

const SHOWN = {
  all: () => true,
  // A score that is there on one side only has changed too, by an unknown amount.
  changed: (row) => (row.change === null ? row.old !== row.new : row.change !== 0),
  worse: (row) => row.change !== null && row.change < 0,
  better: (row) => row.change !== null && row.change > 0,
  same: (row) => row.change === 0,
  none: (row) => row.old === null || row.new === null,
  disputed: (row) => disputed(state.old, row.place) || disputed(state.new, row.place),
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
  const key = `${state.old} ${state.new} ${place}`;
  let found = haystacks.get(key);
  if (found === undefined) {
    const texts = [samples.ids[place], samples.questions[place], ...samples.references[place]];
    texts.push(...textsOf(state.old, place), ...textsOf(state.new, place));
    found = texts.filter((text) => text).join("\n").toLowerCase();
    haystacks.set(key, found);
  }
  return found;
}

function chosenRows() {
  const words = state.query.toLowerCase().split(/\s+/).filter((word) => word);
  const wanted = Object.entries(state.slices).filter(([, value]) => value !== null);
  const rows = allRows().filter(
    (row) =>
      SHOWN[state.show](row) &&
      (state.label === "all" || labelsOf(row.place) === state.label) &&
      wanted.every(([name, value]) => samples.slices[name][row.place] === value) &&
      (words.length === 0 || words.every((word) => haystack(row.place).includes(word))),
  );
  return sorted(rows);
}

function sortKey(row) {
  if (state.sort === "id") return samples.ids[row.place];
  if (state.sort === "question") return samples.questions[row.place];
  if (state.sort === "label") return labelsOf(row.place);
  return row[state.sort];
}

/** By the chosen column; rows without a value come last whichever way, and equal ones keep their order. */
function sorted(rows) {
  const keyed = rows.map((row) => [sortKey(row), row]);
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  const way = state.descending ? -1 : 1;
  keyed.sort(([a, one], [b, other]) => {
    if (a === null || b === null) return (a === null) - (b === null) || one.place - other.place;
    return way * (typeof a === "number" ? a - b : compare(a, b)) || one.place - other.place;
  });
  return keyed.map(([, row]) => row);
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
  const sides = several && state.old !== state.new ? [state.old, state.new] : [state.new];
  const slices = Object.keys(samples.slices);
  const head = ["sample_id", "question", "references", ...slices];
  for (const side of sides) head.push(`${releases[side]}: answer`, `${releases[side]}: label`);
  for (const field of data.fields) for (const side of sides) head.push(`${releases[side]}: ${field}`);
  const lines = [head];
  for (const { place } of rows) {
    const line = [samples.ids[place], samples.questions[place], samples.references[place].join(" | ")];
    line.push(...slices.map((name) => samples.slices[name][place]));
    for (const side of sides) line.push(textsOf(side, place).join(" | "), labelOf(side, place).replace("–", ""));
    for (const field of data.fields) for (const side of sides) line.push(valueOf(side, field, place));
    lines.push(line);
  }
  return "\ufeff" + lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}
