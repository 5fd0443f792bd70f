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

/** A long text, shortened until its button is pressed. `whole` is its length before the page cut it. */
function longText(text, whole) {
  const box = h("p", { class: "text", dir: "auto" });
  const show = (short) => box.replaceChildren(...visible(short ? cutAt(text, SHORT) + " …" : text));
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
  return n.toLocaleString("en-US");
}

function number(value) {
  return value === null || value === undefined ? "–" : value.toFixed(3).replace("-", "\u2212");
}

function signed(value) {
  if (value === null) return "–";
  const size = Math.abs(value).toFixed(3);
  return (Number(size) === 0 ? "" : value > 0 ? "+" : "\u2212") + size;
}
