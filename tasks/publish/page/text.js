// Text from the data set is only ever put into text nodes: no markup is made from it.

const data = JSON.parse(document.getElementById("data-json").textContent);
const samples = data.samples;
const STEERING = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|[\u{e0000}-\u{e007f}]/gu;
const NAMES = {
  "\u061c": "ALM", "\u200e": "LRM", "\u200f": "RLM", "\u202a": "LRE", "\u202b": "RLE", "\u202c": "PDF",
  "\u202d": "LRO", "\u202e": "RLO", "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI",
};
const SHORT = 1200;

/** An element with attributes, properties that start with "on", and children: nodes or text. */
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function hiddenName(character) {
  return NAMES[character] || "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
}

/** Text nodes, with a visible mark in place of each character that steers or hides text. */
function visible(text) {
  const nodes = [];
  let from = 0;
  for (const found of text.matchAll(STEERING)) {
    if (found.index > from) nodes.push(text.slice(from, found.index));
    nodes.push(h("span", { class: "mark" }, hiddenName(found[0])));
    from = found.index + found[0].length;
  }
  if (from < text.length) nodes.push(text.slice(from));
  return nodes;
}

/** The same without elements, for options and labels of controls. */
function visibleText(text) {
  return text.replace(STEERING, (character) => `[${hiddenName(character)}]`);
}

function isolated(text) {
  return h("bdi", { dir: "auto" }, visible(text));
}

const MOST_WORD_PAIRS = 4_000_000;
const MOST_CHARACTERS = 200_000;
const LEAST_IN_COMMON = 0.2;
/** Browsers of before 2024 may have none, and mark no differences. */
let segmenter;

/** The words and signs of a text with their places, in all scripts. */
function wordsOf(text) {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: "word" });
  return [...segmenter.segment(text)].filter(({ segment }) => segment.trim());
}

/**
 * Where two texts differ: of each the [start, end] of what is not in the longest common sequence of words. Null where
 * the texts are too long to compare, or have so little in common that nearly all would be marked, or the browser knows no
 * words.
 */
function differences(old, now) {
  if (!Intl.Segmenter || old.length + now.length > MOST_CHARACTERS) return null;
  let [a, b] = [wordsOf(old), wordsOf(now)];
  const longest = Math.max(a.length, b.length);
  const same = (i, j) => a[i].segment === b[j].segment;
  let start = 0;
  while (start < a.length && start < b.length && same(start, start)) start++;
  let end = 0;
  while (end < Math.min(a.length, b.length) - start && same(a.length - 1 - end, b.length - 1 - end)) end++;
  [a, b] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  if ((a.length + 1) * (b.length + 1) > MOST_WORD_PAIRS) return null;
  const [lostPlaces, newPlaces] = unmatched(a, b, same);
  if (longest - Math.max(lostPlaces.length, newPlaces.length) < LEAST_IN_COMMON * longest) return null;
  return [ranges(a, lostPlaces), ranges(b, newPlaces)];
}

/** Places in two lists of words that their longest common sequence leaves out. */
function unmatched(a, b, same) {
  const width = b.length + 1;
  const common = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const next = (i + 1) * width + j;
      common[i * width + j] = same(i, j) ? common[next + 1] + 1 : Math.max(common[next], common[i * width + j + 1]);
    }
  }
  const [lost, found] = [[], []];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && same(i, j)) [i, j] = [i + 1, j + 1];
    else if (j === b.length || (i < a.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) lost.push(i++);
    else found.push(j++);
  }
  return [lost, found];
}

/** Words at `places` as ranges of characters; words that follow each other are one. */
function ranges(words, places) {
  const found = [];
  let before = -2;
  for (const place of places) {
    const end = words[place].index + words[place].segment.length;
    if (place === before + 1) found[found.length - 1][1] = end;
    else found.push([words[place].index, end]);
    before = place;
  }
  return found;
}

/** As `visible`, with the ranges of `marks` in elements of their kind. */
function marked(text, marks) {
  const nodes = [];
  let from = 0;
  for (const [start, end] of marks ? marks.ranges : []) {
    if (start >= text.length) break;
    nodes.push(...visible(text.slice(from, start)), h(marks.tag, {}, visible(text.slice(start, end))));
    from = end;
  }
  return [...nodes, ...visible(text.slice(from))];
}

/** A long text, shortened until its button is pressed. `whole` is its length before the page cut it. */
function longText(text, whole, marks) {
  const box = h("p", { class: "text", dir: "auto" });
  const show = (short) => box.replaceChildren(...(short ? [...marked(cutAt(text, SHORT), marks), " …"] : marked(text, marks)));
  const parts = [box];
  if (text.length > SHORT * 1.25) {
    show(true);
    const button = h("button", { type: "button", "aria-expanded": "false" }, `Show all ${count(text.length)} characters`);
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "true";
      show(open);
      button.setAttribute("aria-expanded", String(!open));
      button.textContent = open ? `Show all ${count(text.length)} characters` : "Show less";
    });
    parts.push(button);
  } else {
    show(false);
  }
  if (whole) parts.push(h("p", { class: "muted" }, `Cut for this page: the answer has ${count(whole)} characters.`));
  return parts;
}

/** Never between the two halves of a character. */
function cutAt(text, length) {
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}

function count(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

function number(value) {
  return value === null || value === undefined ? "–" : value.toFixed(3).replace("-", "\u2212");
}

function signed(value) {
  if (value === null) return "–";
  // Scores have four digits here: a difference that is not 0 never reads as 0.
  const size = [3, 4].map((places) => Math.abs(value).toFixed(places)).find(Number);
  return size ? (value > 0 ? "+" : "\u2212") + size : "0.000";
}
