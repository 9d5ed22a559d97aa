// Follows a page: its address says which, a stream of events says all that is on it.
import { element, patterns, read } from "./cells.js";
import { draw } from "./sections.js";

const page = document.getElementById("page");
const link = document.getElementById("link");
const said = document.getElementById("said");
const SAID_EVERY = 10_000;
const HIDDEN_FOR = 30_000;
const SLOWEST = 15_000;

document.body.append(patterns());
for (const one of document.querySelectorAll("nav a")) {
  if (new URL(one.href).pathname === location.pathname) one.setAttribute("aria-current", "page");
}

let head = {};
let drawn = new Map();
const top_ = element("div");
const body = element("div");

function drawHead(document_) {
  head = { ...head, ...document_ };
  document.title = `${head.title} - Tutti`;
  const problems = (head.problems ?? []).map((text) => element("li", {}, text));
  const active = document.activeElement?.name && top_.contains(document.activeElement);
  const parts = [element("h1", {}, head.title), element("p", { class: "summary" }, head.summary ?? "")];
  if (problems.length) parts.push(element("ul", { class: "problems", "aria-label": "What is missing" }, ...problems));
  if ((head.filters ?? []).length && !active) parts.push(filters(head.filters));
  else if (active) parts.push(top_.querySelector("form"));
  top_.replaceChildren(...parts);
  speak(head.summary ?? "");
}

function filters(fields) {
  const form = element("form", { class: "filters", method: "get", role: "search" });
  for (const field of fields) {
    const id = `f-${field.name}`;
    let input = element("input", { id, name: field.name, value: field.value, type: "search", maxlength: "253" });
    if (field.choices?.length) {
      input = element("select", { id, name: field.name });
      for (const [value, title] of field.choices) {
        input.append(element("option", { value, ...(value === field.value ? { selected: "" } : {}) }, title));
      }
    }
    form.append(element("span", { class: "field" }, element("label", { for: id }, field.title), input));
  }
  form.append(element("button", {}, "Show"));
  // What is not asked for need not stand in the address.
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
  });
  return form;
}

let spoken = "", next = 0, waiting = 0;

// One sentence at a time, and seldom: who listens must not be drowned.
function speak(text) {
  if (text === spoken) return;
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    spoken = text;
    next = Date.now() + SAID_EVERY;
    said.textContent = text;
  }, Math.max(0, next - Date.now()));
}

function whole(document_) {
  head = { filters: [], problems: [], summary: "" };
  if (!page.contains(body)) page.replaceChildren(top_, body);
  drawHead(document_);
  drawn = new Map((document_.sections ?? []).map((section) => [section.id, draw(section)]));
  body.replaceChildren(...[...drawn.values()].map((one) => one.root));
  page.dataset.generation = document_.generation;
  performance.mark("drawn");  // what `python -m bench.paint` reads
}

function change(message) {
  if (message.head) drawHead(message.head);
  for (const section of message.sections ?? []) {
    const before = drawn.get(section.id);
    if (before?.replace && before.section.kind === section.kind) {
      before.replace(section);
      continue;
    }
    const made = draw(section);
    before?.root.replaceWith(made.root);
    drawn.set(section.id, made);
  }
  for (const [id, rows] of Object.entries(message.rows ?? {})) drawn.get(id)?.apply(rows);
  if (message.order) {
    drawn = new Map(message.order.map((id) => [id, drawn.get(id)]));
    body.replaceChildren(...[...drawn.values()].map((one) => one.root));
  }
}

function tell(state, text) {
  if (link.textContent === text) return;
  link.dataset.state = state;
  link.textContent = text;
}

let source = null, wait = 500, again = 0;

function open() {
  clearTimeout(again);
  source?.close();
  const address = encodeURIComponent(location.pathname + location.search);
  source = new EventSource(`/stream?page=${address}`);
  source.addEventListener("full", (event) => {
    wait = 500;
    tell("live", "live");
    whole(read(event.data));
    page.dataset.generation = event.lastEventId;
  });
  source.addEventListener("change", (event) => {
    change(read(event.data));
    page.dataset.generation = event.lastEventId;
  });
  source.addEventListener("over", () => location.reload());
  source.addEventListener("error", () => {
    tell("lost", "the connection is lost, and is tried again");
    source.close();
    again = setTimeout(retry, wait);
    wait = Math.min(SLOWEST, wait * 2);
  });
}

// A stream that is refused does not say why; a page that is asked for does.
async function retry() {
  try {
    const answer = await fetch(location.href, { redirect: "manual", cache: "no-store" });
    if (answer.type === "opaqueredirect") {
      location.reload();
      return;
    }
    if (answer.status === 401 || answer.status === 403) {
      tell("over", (await answer.text()).trim());
      again = setTimeout(retry, SLOWEST);
      return;
    }
  } catch {
    again = setTimeout(retry, wait);
    wait = Math.min(SLOWEST, wait * 2);
    return;
  }
  open();
}

// Browsers open six connections to a host: a page that nobody sees gives its own back.
let hidden = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hidden);
  if (document.hidden) {
    hidden = setTimeout(() => {
      clearTimeout(again);
      source?.close();
      tell("rests", "not followed while nobody looks");
    }, HIDDEN_FOR);
  } else if (source === null || source.readyState === EventSource.CLOSED) open();
});
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", (event) => event.persisted && open());

if (location.protocol === "https:") document.getElementById("leave").hidden = false;
open();
