// Draws the sections of a page, and changes what of them is different: rows by their keys, in place.
import { element, fill, moment, read } from "./cells.js";

const MARKS = { Passed: "✓", Waits: "✗", WouldPass: "○", WouldWait: "!", Unknown: "?", Short: "✗" };
const DEEPEST = 6;
const MANY_COLUMNS = 10;

// Which parts are open stands in the address, beside what is asked for: who is sent it sees the same.
function openParts() {
  return new Set((new URLSearchParams(location.search).get("open") ?? "").split(" ").filter(Boolean));
}

function setOpen(id, isOpen) {
  const parts = openParts(), address = new URL(location.href);
  if (parts.has(id) === isOpen) return;
  if (isOpen) parts.add(id);
  else parts.delete(id);
  address.searchParams.delete("open");
  if (parts.size) address.searchParams.set("open", [...parts].join(" "));
  history.replaceState(history.state, "", address);
}

function heading(section) {
  return element("h2", { id: `h-${section.id}` }, section.title);
}

function note(section) {
  return section.note ? [element("p", { class: "note" }, section.note)] : [];
}

// A section that is drawn: what it is of, and how it takes rows that have changed.
class Drawn {
  constructor(section, ...children) {
    this.section = section;
    this.rows = new Map();
    this.root = element("section", { id: section.id, "aria-labelledby": `h-${section.id}` });
    this.root.append(...(section.title ? [heading(section)] : []), ...note(section), ...children);
  }

  apply(change) {
    for (const row of change.set) this.set(row);
    for (const key of change.gone ?? []) {
      this.rows.get(key)?.remove();
      this.rows.delete(key);
    }
    if (change.order) this.order(change.order);
  }

  order(keys) {
    let before = this.body.firstElementChild;
    for (const key of keys) {
      const row = this.rows.get(key);
      if (row === before) before = before.nextElementSibling;
      else this.body.insertBefore(row, before);
    }
  }
}

const narrow = matchMedia("(max-width: 600px)");
const middling = matchMedia("(max-width: 1000px)");

// Where a table has no room each of its rows is a card, in which what a column is called stands before what is in it.
function lay(table) {
  table.classList.toggle("cards", narrow.matches || (middling.matches && table.tHead.rows[0].cells.length >= MANY_COLUMNS));
}

for (const width of [narrow, middling]) width.addEventListener("change", () => document.querySelectorAll("table").forEach(lay));

function numeric(column) {
  return column.number ? { class: "number" } : {};
}

class Table extends Drawn {
  constructor(section) {
    super(section);
    const rows = section.rows ?? [];
    if (!rows.length) {
      this.root.append(element("p", { class: "empty" }, section.empty ?? ""));
      return;
    }
    this.columns = section.columns ?? [];
    const head = this.columns.map((column) => element("th", { scope: "col", role: "columnheader", ...numeric(column) }, column.title));
    this.body = element("tbody", { role: "rowgroup" });
    // What is a card stays a row to who listens: hence the roles.
    const table = element(
      "table",
      { role: "table" },
      element("caption", { class: "unseen" }, section.title),
      element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...head)),
      this.body,
    );
    lay(table);
    // What is wider than a narrow screen is scrolled, also by the keyboard.
    this.root.append(element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `${section.title}, may be scrolled` }, table));
    for (const row of rows) this.set(row);
  }

  set(row) {
    let drawn = this.rows.get(row.key);
    if (drawn === undefined) {
      drawn = element("tr", { role: "row" });
      drawn.append(...this.columns.map((column) => element("td", { role: "cell", "data-title": column.title, ...numeric(column) })));
      this.rows.set(row.key, drawn);
      this.body.append(drawn);
    }
    drawn.className = `depth-${Math.min(row.depth ?? 0, DEEPEST)}`;
    row.cells.forEach((cells, at) => fill(drawn.children[at], cells));
  }
}

class Facts extends Drawn {
  constructor(section) {
    super(section);
    this.body = element("dl");
    this.root.append(this.body);
    for (const row of section.rows ?? []) this.set(row);
  }

  set(row) {
    let drawn = this.rows.get(row.key);
    if (drawn === undefined) {
      drawn = element("div", {}, element("dt"), element("dd"));
      this.rows.set(row.key, drawn);
      this.body.append(drawn);
    }
    row.cells.forEach((cells, at) => fill(drawn.children[at], cells));
  }
}

class Gates extends Drawn {
  constructor(section) {
    super(section);
    this.body = element("ol", { class: "gates" });
    this.root.append(this.body);
    for (const row of section.rows ?? []) this.set(row);
  }

  set(row) {
    let drawn = this.rows.get(row.key);
    if (drawn === undefined) {
      drawn = element("li", {}, element("span", { class: "gate-mark", "aria-hidden": "true" }), element("span"), element("span"), element("span", { class: "gate-text" }));
      this.rows.set(row.key, drawn);
      this.body.append(drawn);
    }
    drawn.className = `gate-${row.mark}`;
    drawn.firstChild.textContent = MARKS[row.mark] ?? "";
    row.cells.forEach((cells, at) => fill(drawn.children[at + 1], cells));
  }
}

class Boxes extends Drawn {
  constructor(section) {
    super(section);
    this.body = element("div", { class: "boxes" });
    const rows = section.rows ?? [];
    this.root.append(rows.length ? this.body : element("p", { class: "empty" }, section.empty ?? ""));
    this.draw(rows);
  }

  draw(rows) {
    this.known = new Map(rows.map((row) => [row.key, row]));
    this.rows.clear();
    const within = [this.body];
    this.body.replaceChildren();
    for (const row of rows) {
      const depth = row.depth ?? 0;
      const inner = element("div", { class: "inner" });
      const box = element("div", { class: "box", role: "group" }, element("p"), element("div", { class: "squares", role: "img" }), inner);
      within.length = depth + 1;
      within[depth].append(box);
      within.push(inner);
      this.rows.set(row.key, box);
      this.set(row);
    }
  }

  set(row) {
    const box = this.rows.get(row.key);
    this.known.set(row.key, row);
    if (box === undefined) return;
    const [name, words, use] = row.cells;
    box.setAttribute("aria-label", name[0].text);
    fill(box.children[0], [...name, ...words, ...use]);
    squares(box.children[1], row.squares, words[0].text);
  }

  apply(change) {
    if (!change.order && !change.gone && change.set.every((row) => this.rows.has(row.key))) {
      for (const row of change.set) this.set(row);
      return;
    }
    for (const row of change.set) this.known.set(row.key, row);
    for (const key of change.gone ?? []) this.known.delete(key);
    this.draw((change.order ?? [...this.known.keys()]).map((key) => this.known.get(key)));
  }
}

// A square for each node; of those that are there already, what is different is changed.
function squares(place, nodes, words) {
  place.hidden = nodes === undefined;
  if (nodes === undefined) return;
  place.setAttribute("aria-label", words);
  while (place.children.length > nodes.names.length) place.lastChild.remove();
  nodes.names.forEach((name, at) => {
    const square = place.children[at] ?? place.appendChild(element("i"));
    const beside = nodes.notes?.[at] ? `; ${nodes.notes[at]}` : "";
    const title = `${name}: ${nodes.used[at]} of ${nodes.of[at]} used${beside}`;
    if (square.title === title) return;
    square.title = title;
    square.className = nodes.states[at];
    square.style.setProperty("--used", nodes.of[at] ? nodes.used[at] / nodes.of[at] : 0);
  });
}

class PlainText extends Drawn {
  constructor(section) {
    const text = element("pre", { tabindex: "0", role: "group", "aria-label": section.title }, section.text ?? "");
    const button = element("button", { type: "button" }, "Copy");
    const done = element("span", { role: "status" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text.textContent);
      done.textContent = " copied";
    });
    const details = element("details", openParts().has(section.id) ? { open: "" } : {}, element("summary", {}, "Show"), text);
    details.addEventListener("toggle", () => setOpen(section.id, details.open));
    super(section, details, button, done);
    this.text = text;
  }

  // New words in the same place: what is open stays open.
  replace(section) {
    this.section = section;
    this.text.textContent = section.text ?? "";
  }
}

// What would help is tried when somebody asks for it by the button, and never by an address alone: whoever is sent that
// reads what was found last.
class Trial extends Drawn {
  constructor(section) {
    const button = element("button", { type: "button" }, "Try what would help");
    const stop = element("button", { type: "button", hidden: "" }, "Stop");
    const found = element("div", { role: "status" });
    super(section, button, " ", stop, found);
    Object.assign(this, { button, stop, found, trying: null });
    button.addEventListener("click", () => {
      setOpen(section.id, true);
      this.tryIt();
    });
    stop.addEventListener("click", () => this.trying?.abort());
    if (openParts().has(section.id)) this.showKept();
  }

  say(text, tone = "") {
    this.found.replaceChildren(element("p", tone ? { class: tone } : {}, text));
  }

  show(news) {
    if (news.state === "waiting") this.say(`waiting for ${news.ahead} that ${news.ahead === 1 ? "is" : "are"} being tried before`);
    else if (news.state === "trying") this.say(`trying ... ${news.tried ?? 0} done`);
    else if (news.state === "over") this.say(news.problem, "bad");
    else if (news.document) {
      const made = (news.document.sections ?? []).map((section) => draw(section).root);
      this.found.replaceChildren(element("p", {}, `${news.document.summary}, `, moment(news)), ...made);
    }
  }

  async showKept() {
    try {
      const answer = await fetch(this.section.href, { headers: { Accept: "application/json" } });
      if (answer.ok && this.trying === null) this.show(read(await answer.text()));
    } catch {
      // The stream of the page says that there is no connection.
    }
  }

  async tryIt() {
    this.trying = new AbortController();
    this.button.disabled = true;
    this.stop.hidden = false;
    this.say("trying ...");
    try {
      const answer = await fetch(this.section.href, { method: "POST", signal: this.trying.signal });
      if (!answer.ok) {
        this.say(await answer.text(), "bad");
        return;
      }
      for await (const line of lines(answer.body)) this.show(read(line));
    } catch (error) {
      this.say(error.name === "AbortError" ? "stopped" : `there is no answer: ${error.message}`, error.name === "AbortError" ? "" : "bad");
    } finally {
      this.button.disabled = false;
      this.stop.hidden = true;
    }
  }
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
}

const KINDS = { table: Table, facts: Facts, gates: Gates, boxes: Boxes, text: PlainText, try: Trial };

export function draw(section) {
  return new KINDS[section.kind](section);
}
