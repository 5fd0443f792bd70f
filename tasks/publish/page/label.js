const KEYS = { r: "right", w: "wrong", c: "cannot tell" };
const at = (id) => document.getElementById(id);
const token = location.hash.slice(1);
let shown = null;
let verdicts = {};
let busy = false;

const named = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  element.textContent = text;
  Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
  return element;
};

// One request at a time: the next question is there only after the label is on disk.
const ask = async (action, more = {}, afterProblem = false) => {
  if (busy) return;
  busy = true;
  let refused = false;
  try {
    const reply = await fetch("/", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Answerkey-Token": token },
      body: JSON.stringify({ action, annotator: sessionStorage.getItem("annotator"), place: shown?.place ?? 0, ...more }),
    });
    at("problem").hidden = reply.ok && !afterProblem;
    refused = !reply.ok && action !== "state";
    if (reply.ok) show(await reply.json());
    else at("problem").textContent = await reply.text();
  } catch {
    at("problem").hidden = false;
    at("problem").textContent = "The server does not answer. Your last label may not be kept: start `answerkey label` again, and open the address that it prints.";
  } finally {
    busy = false;
  }
  // Others may have labelled the question meanwhile: show what is there now, and why.
  if (refused) await ask("state", {}, true);
};

const current = () => shown.answers.findIndex((answer) => !(answer.key in verdicts));

const call = (index, verdict) => {
  if (busy) return;
  verdicts[shown.answers[index].key] = verdict;
  mark();
  if (current() < 0) ask("label", { verdicts });
};

const mark = () => {
  const now = current();
  document.querySelectorAll(".answer").forEach((box, index) => {
    box.toggleAttribute("data-current", index === now);
    box.querySelectorAll("button").forEach((button) => {
      button.setAttribute("aria-pressed", String(verdicts[shown.answers[index].key] === button.dataset.verdict));
    });
  });
};

const box = (answer, index) => {
  const name = shown.answers.length > 1 ? `Answer ${"AB"[index]}` : "Answer";
  const element = named("div", "", { class: "answer", role: "group", "aria-label": name });
  const choices = named("div", "", { class: "choices" });
  Object.entries(KEYS).forEach(([key, verdict]) => {
    const button = named("button", "", { type: "button", "data-verdict": verdict, "aria-pressed": "false" });
    button.append(named("kbd", key.toUpperCase()), ` ${verdict}`);
    button.addEventListener("click", () => call(index, verdict));
    choices.append(button);
  });
  element.append(named("h3", name), named("p", answer.text, { dir: "auto", tabindex: "0" }));
  if (answer.labels.length) element.append(named("p", `Called: ${answer.labels.join(", ")}`, { class: "muted" }));
  element.append(choices);
  return element;
};

const signed = (number) => `${number < 0 ? "−" : "+"}${Math.abs(number).toFixed(3)}`;

// First what is on the screen and not sent yet, then what was kept last.
const undo = () => {
  if (!Object.keys(verdicts).length) return ask("undo");
  verdicts = {};
  return mark();
};

const show = (state) => {
  shown = state;
  verdicts = {};
  at("who").hidden = true;
  const asks = state.kind === "question";
  at("work").hidden = !asks;
  at("end").hidden = asks;
  at("progress").hidden = false;
  at("count").textContent =
    `${state.labelled} of ${state.until} questions labelled` +
    (state.kind === "decided" ? "" : " until the next analysis") + (state.agreement ? `; ${state.agreement}` : "");
  at("dataset").textContent = `: ${state.dataset}`;
  at("done").max = state.until;
  at("done").value = state.labelled;
  at("result").hidden = state.value === null;
  if (state.value !== null) {
    const more = state.more === null ? "" : `; if that is the true difference, about ${state.more} more questions decide`;
    at("estimate").textContent =
      `After ${state.analysed} questions: new − old ${signed(state.value)} (${signed(state.low)} to ${signed(state.high)})${more}.`;
  }
  if (asks) {
    at("question").textContent = state.question || "(no question)";
    at("settles").hidden = !state.settles;
    at("right-answers").hidden = !state.references.length;
    at("references").replaceChildren(...state.references.map((text) => named("li", text, { dir: "auto" })));
    at("answers").replaceChildren(...state.answers.map(box));
    mark();
    at("question").focus({ preventScroll: true });
    scrollTo(0, 0);
    return;
  }
  const over = state.kind !== "waiting";
  at("verdict").className = `verdict ${over ? state.outcome.toLowerCase() : "open"}`;
  at("outcome").textContent = over ? state.outcome : "Waiting";
  at("sentence").textContent = over ? state.sentence : "Nothing is left for you: other people have the remaining questions.";
  const few = state.more === null ? "More labels would not decide" : `About ${state.more} labelled questions more would be needed`;
  const notes = state.kind === "stopped" ? [`${few}: not worth it at this margin.`, ...state.notes] : state.notes;
  at("notes").replaceChildren(...(over ? notes : []).map((note) => named("li", note)));
  at("go-on").hidden = state.kind !== "stopped" || state.analysed >= state.most;
  at("announced").textContent = `${at("outcome").textContent}. ${at("sentence").textContent}`;
  if (!over) setTimeout(() => ask("state"), 2000);
};

at("who").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("annotator", at("name").value);
  ask("state");
});
at("undo").addEventListener("click", undo);
at("skip").addEventListener("click", () => ask("skip"));
at("go-on").addEventListener("click", () => ask("go on"));
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target.tagName === "INPUT") return;
  const key = event.key.toLowerCase();
  if (key === "h" && !at("progress").hidden) at("result").open = !at("result").open;
  if (at("work").hidden || busy) return;
  if (key in KEYS && current() >= 0) call(current(), KEYS[key]);
  if (key === "u") undo();
  if (key === "s") ask("skip");
});
if (sessionStorage.getItem("annotator")) ask("state");
else at("who").hidden = false;
