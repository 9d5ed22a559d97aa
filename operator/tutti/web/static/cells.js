// Draws cells. Whatever a user has named something arrives as text and is put in as text: nothing here makes markup.

const SVG = "http://www.w3.org/2000/svg";

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// What has no shape of its own, or turns the order in which others are read, as it is written in code.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

function visible(text) {
  return text.replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// Reads what a page is told: nothing in it can pretend to be something else.
export function read(message) {
  return JSON.parse(message, (_, value) => (typeof value === "string" ? visible(value) : value));
}

// Only paths of these pages: an address that leads elsewhere is no link.
function isOurs(href) {
  return href.startsWith("/") && !href.startsWith("//") && !href.startsWith("/\\");
}

const MINUTE = 60, HOUR = 3600, DAY = 86400;

// As `ago` of the terminal views has it.
function inUnits(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 2 * MINUTE) return `${whole}s`;
  if (whole < 3 * HOUR) return `${Math.floor(whole / MINUTE)}m`;
  if (whole < 2 * DAY) return `${Math.floor(whole / HOUR)}h`;
  return `${Math.floor(whole / DAY)}d`;
}

function tell(time) {
  const past = Date.now() / 1000 - Number(time.dataset.at);
  const said = past >= 0 ? `${inUnits(past)} ago` : `in ${inUnits(-past)}`;
  if (time.textContent !== said) time.textContent = said;
}

setInterval(() => document.querySelectorAll("time[data-at]").forEach(tell), 5000);

export function moment(cell) {
  const date = new Date(cell.at * 1000);
  const made = element("time", { datetime: date.toISOString(), title: date.toLocaleString(), "data-at": cell.at });
  tell(made);
  return made;
}

function bar(cell) {
  const named = cell.text ? { role: "img", "aria-label": cell.text } : { "aria-hidden": "true" };
  const made = shape("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", ...named });
  if (cell.text) {
    const title = shape("title", {});
    title.textContent = cell.text;
    made.append(title);
  }
  made.append(shape("rect", { class: "whole", width: 100, height: 10 }));
  let x = 0;
  for (const part of cell.bar) {
    const width = Math.min(Math.max(part.share, 1), 100 - x);
    made.append(shape("rect", { class: part.kind, x, width, height: 10 }));
    if (part.kind === "borrowed" || part.kind === "lent" || part.kind === "over") {
      // A pattern beside the colour: nothing is said by colour alone.
      made.append(shape("rect", { class: `over-${part.kind}`, x, width, height: 10, fill: `url(#${part.kind}-lines)` }));
    }
    x += width;
  }
  if (cell.mark !== undefined) made.append(shape("rect", { class: "mark", x: Math.max(0, cell.mark - 0.5), width: 1, height: 10 }));
  return made;
}

const DOTS = 16;
// Of members that have a node, have succeeded, have failed, wait, and are not there.
const MEMBERS = [["●", "good"], ["✓", "quiet"], ["✗", "bad"], ["○", "waits"], ["·", "quiet"]];
const LONGEST_WORD = 24;
const PROSE = 48;

function dots(cell) {
  const scale = Math.max(1, Math.ceil(cell.dots.reduce((sum, count) => sum + count) / DOTS));
  const made = element("span", { class: "dots", role: "img", "aria-label": cell.text, title: cell.text });
  MEMBERS.forEach(([mark, tone], at) => made.append(element("span", { class: tone }, mark.repeat(Math.ceil(cell.dots[at] / scale)))));
  return made;
}

function one(cell) {
  if (cell.bar !== undefined) return bar(cell);
  if (cell.dots !== undefined) return dots(cell);
  if (cell.at !== undefined) return cell.text ? element("span", {}, `${cell.text} `, moment(cell)) : moment(cell);
  const text = cell.text ?? "";
  if (!text) return document.createTextNode("");
  // A short word is not broken in two, however narrow its column; a long one may be.
  const word = text.length <= LONGEST_WORD && !/\s/.test(text) ? "word" : "";
  const named = [cell.tone, word || (text.length > PROSE ? "prose" : "phrase")].filter(Boolean).join(" ");
  const styled = named ? { class: named } : {};
  if (cell.href && isOurs(cell.href)) return element("a", { href: cell.href, ...styled }, text);
  return named ? element("span", styled, text) : document.createTextNode(text);
}

// Fills a place with cells, unless they are there already; who has the focus in it keeps it.
export function fill(place, cells) {
  const said = JSON.stringify(cells);
  if (place.dataset.said === said) return;
  const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  place.dataset.said = said;
  place.replaceChildren(...cells.flatMap((cell, at) => (at ? [" ", one(cell)] : [one(cell)])));
  if (focused !== null) {
    [...place.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  }
}

// The patterns of bars, once for the whole page.
export function patterns() {
  const made = shape("svg", { class: "unseen", "aria-hidden": "true" });
  const defs = shape("defs", {});
  for (const [name, turn] of [["borrowed", 45], ["lent", -45], ["over", 90]]) {
    const pattern = shape("pattern", {
      id: `${name}-lines`, width: 3, height: 3, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${turn})`,
    });
    pattern.append(shape("rect", { width: 1, height: 3, class: "lines" }));
    defs.append(pattern);
  }
  made.append(defs);
  return made;
}
