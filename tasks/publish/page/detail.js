// What stands under a row: the whole texts, every score, and why.

function detail(place) {
  const chosen = [...new Set(sides())];
  const layout = ["one", "one", "two"][chosen.length] || "many";
  const turns = Array.from({ length: Math.max(...chosen.map((side) => slotsOf(side, place).length)) }, (_, turn) => turn);
  const differ = turns.map((turn) => (chosen.length === 2 ? differencesOf(chosen, place, turn) : []));
  return [
    h("p", { class: "link" }, h("a", { href: `#sample=${encodeURIComponent(samples.ids[place])}` }, "Link to this sample")),
    h("h3", {}, "Question"),
    ...(samples.questions[place] === null ? [h("p", { class: "muted" }, "none")] : longText(samples.questions[place])),
    ...texts(samples.references[place].length === 1 ? "Reference" : "References", samples.references[place]),
    ...texts("Facts of the data set", samples.facts[place]),
    ...texts("Answers known to be wrong", samples.incorrect_references[place]),
    ...tags(place),
    ...turns.flatMap((turn) => [
      h("div", { class: layout }, chosen.map((side, which) => h("div", {}, turned(side, place, turn, answer, differ[turn][which])))),
      h("div", { class: layout }, chosen.map((side) => h("div", {}, turned(side, place, turn, words)))),
      h("div", { class: layout }, chosen.map((side) => h("div", {}, turned(side, place, turn, context)))),
    ]),
    ...(data.judged.length === 0 ? [] : [h("div", { class: layout }, chosen.map((side) => h("div", {}, why(side, place))))]),
    h("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": `Scores of ${visibleText(samples.ids[place])}` }, scoreTable(chosen, place)),
  ];
}

/** A button that asks the server of the page what judges were asked and replied; a file says how to see that. */
function why(side, place) {
  if (absent[side].has(place)) return [];
  const [report, sample] = [data.reports[side], samples.ids[place]];
  const found = h("div", { "aria-live": "polite" });
  const command = ["answerkey", "show", sample, "--release", report].map(shellWord).join(" ");
  const elsewhere = h("p", { class: "muted" }, "This page is a file and does not have them. ", h("code", {}, visible(command)), " prints them, and pages that ", h("code", {}, "answerkey view"), " serves show them.");
  const button = h("button", { type: "button", onclick: async () => {
    try {
      const rows = await judged(report, sample);
      found.replaceChildren(...(rows ? rows.flatMap((row) => verdict(row, report)) : [elsewhere]));
      button.disabled = rows !== null;
    } catch (error) {
      found.replaceChildren(h("p", {}, isolated(error.message)));
    }
  } }, "Prompts, replies and cost of judges", several ? [" on ", isolated(releases[side])] : []);
  return [h("p", {}, button), found];
}

/** Null where no server of answerkey has the page. */
async function judged(report, sample) {
  if (!location.protocol.startsWith("http")) return null;
  const reply = await fetch(`../judged?${new URLSearchParams({ report, sample })}`);
  if (reply.status === 503) throw new Error(await reply.text());
  return reply.headers.get("Content-Type") === "application/json" ? reply.json() : null;
}

function shellWord(text) {
  return /^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** What one metric made of an answer, with one judge and prompt. */
function verdict(row, report) {
  const where = row.report === report ? "" : `, in ${row.report}`;
  const which = row.repeat > 1 ? `, answer ${row.repeat}` : "";
  const values = Object.entries(row.values).map(([name, value]) => `${name} ${number(value)}`).join(", ");
  const said = row.details.verdict ? `, verdict ${row.details.verdict}` : "";
  const rule = row.details.rule ? ` (rule: ${row.details.rule})` : "";
  return [
    h("h3", {}, isolated(`${row.metric}${which} by ${row.judge}${where}`)),
    h("p", {}, isolated(`${values || row.status}${said}: ${row.reason || ""}${rule}`)),
    row.details.votes ? votes(row.details.votes) : null,
    ...row.asked.flatMap(asked),
  ].filter(Boolean);
}

/** A request to a judge: its replies, and the prompt behind a summary. */
function asked({ system, user, order, calls }) {
  const prompt = system ? [...longText(system), ...longText(user)] : [h("p", { class: "muted" }, "It has changed since, or its rubric is not here.")];
  return [
    order ? h("p", {}, "Asked again with an order beside the texts (canary): ", isolated(order)) : null,
    ...calls.map((call) => h("div", { class: "reply" },
      longText(call.reply || `${call.code}: ${call.message}`), h("p", { class: "muted" }, isolated(about(call))))),
    h("details", {}, h("summary", {}, isolated(`Prompt ${calls[0].prompt}`)), prompt),
  ];
}

function about(call) {
  const cost = call.cost_usd === null ? "price unknown" : `$${call.cost_usd.toFixed(4)}`;
  const tokens = call.tokens_out === null ? [] : [`${count(call.tokens_in)} tokens in, ${count(call.tokens_out)} out`];
  return [call.judge, ...(call.model ? [`answered by ${call.model}`] : []), ...tokens, cost].join(", ");
}

function texts(title, list) {
  if (list.length === 0) return [];
  return [h("h3", {}, title), h("ul", {}, list.map((text) => h("li", {}, isolated(text))))];
}

function tags(place) {
  const found = Object.entries(samples.slices).filter(([, column]) => column[place] !== null);
  if (found.length === 0) return [];
  const parts = found.flatMap(([name, column], turn) => [turn ? ", " : "", isolated(`${name}: ${column[place]}`)]);
  return [h("h3", {}, "Slices"), h("p", {}, parts)];
}

/** What `show` says of one of the answers to a question; nothing where the release gave fewer. */
function turned(side, place, turn, show, marks) {
  const slots = slotsOf(side, place);
  const which = slots.length > 1 ? `${turn + 1} of ${slots.length} ` : "";
  return turn < slots.length ? show(side, slots[turn], which, marks) : [];
}

/** Of each of two answers, what the other one does not have; empty where there are no two, or too little in common. */
function differencesOf(pair, place, turn) {
  const [old, now] = pair.map((side) => samples.answers[side].texts[slotsOf(side, place)[turn]]);
  const found = old && now && old !== now ? differences(old, now) : null;
  return found ? [{ tag: "del", ranges: found[0] }, { tag: "ins", ranges: found[1] }] : [];
}

function answer(side, slot, which, marks) {
  const { texts: all, correct, cut, each } = samples.answers[side];
  const label = correct[slot] === null ? "" : `, ${LABELS[correct[slot]]} by the human label`;
  const score = which ? (each[state.field] || {})[slot] : undefined;
  const scored = score === undefined ? "" : `, ${state.field} ${score}`;
  const title = h("h3", {}, `Answer ${which}of `, h("strong", {}, isolated(releases[side])), label, scored);
  if (absent[side].has(slot)) return [title, h("p", { class: "muted" }, "not in this release")];
  if (all[slot] === null || all[slot] === "") return [title, h("p", { class: "muted" }, "no answer")];
  return [title, ...longText(all[slot], cut[slot], marks)];
}

/** The passages that an answer was to rest on, and the columns beside it that rubrics are about. */
function context(side, slot, which) {
  const { contexts, columns } = samples.answers[side];
  const titled = [["Context", contexts[slot] || []], ...Object.entries(columns[slot] || {})];
  return titled.flatMap(([name, passages]) => {
    if (passages.length === 0) return [];
    const title = h("h3", {}, isolated(name), ` ${which}of `, h("strong", {}, isolated(releases[side])));
    return [title, h("ol", { class: "context" }, passages.map((text) => h("li", {}, longText(text))))];
  });
}

function scoreTable(chosen, place) {
  const head = h("tr", {}, h("th", { scope: "col" }, "metric"));
  for (const side of chosen) head.append(h("th", { scope: "col", class: "n" }, isolated(releases[side])));
  const body = h("tbody");
  for (const field of data.fields) {
    const values = chosen.map((side) => valueOf(side, field, place));
    const status = chosen.map((side) => (samples.answers[side].unscored[field.split(".")[0]] || {})[place]);
    if (values.every((value) => value === null) && !status.some((one) => one)) continue;
    const cells = values.map((value, turn) =>
      h("td", { class: "n" }, value === null && status[turn] ? status[turn][0] : number(value)),
    );
    body.append(h("tr", {}, h("th", { scope: "row" }, field), cells));
  }
  return h("table", { class: "scores" }, h("thead", {}, head), body);
}

/** The metrics' own words about one answer: reasons, why there is no score, facts and votes. */
function words(side, slot) {
  const { unscored, reasons, evidence } = samples.answers[side];
  const parts = [];
  for (const metric of new Set(data.fields.map((field) => field.split(".")[0]))) {
    const failed = (unscored[metric] || {})[slot];
    const reason = (reasons[metric] || {})[slot];
    const found = (evidence[metric] || {})[slot] || {};
    if (!failed && !reason && Object.keys(found).length === 0) continue;
    parts.push(h("h3", {}, metric, several ? " on " : "", several ? h("strong", {}, isolated(releases[side])) : null));
    if (failed) parts.push(h("p", {}, `${failed[0]}${failed[1] ? ": " : ""}`, isolated(failed[1])));
    if (reason) parts.push(h("p", {}, isolated(reason), found.rule ? ` (rule: ${visibleText(found.rule)})` : ""));
    if (found.facts) parts.push(facts(found.facts));
    if (found.votes) parts.push(votes(found.votes));
  }
  return parts;
}

const FATES = ["contradicted", "missing", "matched", "extra"];

/** One line a fact: of a matched or contradicted pair the reference's, with the answer's under it. */
function facts(rows) {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const lines = rows.filter((row) => row.side === "reference" || row.status === "extra" || row.status === "contradicted");
  const answered = new Set(rows.filter((row) => row.side === "reference").map((row) => row.with));
  const kept = lines.filter((row) => row.side === "reference" || !answered.has(row.id));
  kept.sort((a, b) => FATES.indexOf(a.status) - FATES.indexOf(b.status));
  return h("ul", { class: "facts" }, kept.map((row) => {
    const other = byId.get(row.with);
    const under = other && other.fact !== row.fact ? h("span", { class: "with" }, row.side === "reference" ? "answer: " : "reference: ", isolated(other.fact)) : null;
    return h("li", {}, h("span", { class: `fact ${row.status}` }, row.status), h("span", {}, isolated(row.fact), under));
  }));
}

function votes(rows) {
  return h("ul", {}, rows.map((vote) =>
    h("li", {}, isolated(vote.judge), `: ${vote.vote === null ? "no vote" : number(vote.vote)}, `, isolated(vote.reason || "no reason")),
  ));
}
