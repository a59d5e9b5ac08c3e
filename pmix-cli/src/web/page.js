"use strict";
// The page of `pmix web`. All text that comes from jobs is set as text, never as HTML.

const GROUPS = [
  ["starting", "starting"], ["running", "running"], ["connected", "connected"], ["done", "ended"], ["failed", "failed"],
  ["other", "other"],
];
const MAX_EVENTS = 200;
const KEY = "pmix-token";
const at = (id) => document.getElementById(id);

// the token comes behind the #, which browsers send to nobody, and does not stay in the address
if (location.hash.length > 1) {
  sessionStorage.setItem(KEY, location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
}
const token = sessionStorage.getItem(KEY);

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function swatch(group) {
  const made = element("i");
  made.style.background = `var(--${group})`;
  return made;
}

for (const [group, words] of GROUPS) {
  const item = element("li");
  item.append(swatch(group), words);
  at("legend").append(item);
}

function status(text, isBad) {
  at("live").textContent = text;
  at("live").className = isBad ? "bad" : "";
}

// [[value, count], ...] one after the other
function* spread(runs) {
  for (const [value, count] of runs) for (let i = 0; i < count; i++) yield value;
}

const cards = new Map();

class Job {
  constructor(name) {
    this.card = element("div", undefined, "job");
    this.counts = element("p", undefined, "counts");
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.where = element("p", "", "at");
    this.chosen = -1;
    this.card.append(element("h3", name), this.counts, this.canvas, this.where);
    this.canvas.addEventListener("mousemove", (event) => this.choose(this.rankAt(event.offsetX, event.offsetY)));
    this.canvas.addEventListener("mouseleave", () => this.choose(-1));
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      this.choose(Math.max(0, Math.min(this.ranks.length - 1, this.chosen + step)));
    });
  }

  show(job, states) {
    this.ranks = job.ranks.flatMap(([first, count]) => Array.from({ length: count }, (_, index) => first + index));
    this.nodes = [...spread(job.nodes)];
    this.states = [...spread(job.states)].map((index) => states[index]);
    const count = new Map();
    for (const { group } of this.states) count.set(group, (count.get(group) || 0) + 1);
    const nodes = new Set(this.nodes).size;
    this.counts.replaceChildren(`${this.ranks.length} ranks on ${nodes} ${nodes === 1 ? "node" : "nodes"}`);
    for (const [group, words] of GROUPS.filter(([group]) => count.has(group))) {
      const item = element("span");
      item.append(swatch(group), `${count.get(group)} ${words}`);
      this.counts.append(item);
    }
    this.canvas.setAttribute("aria-label", `Ranks by state: ${this.counts.textContent}`);
    this.draw();
    this.choose(this.chosen);
  }

  draw() {
    const width = this.canvas.clientWidth || this.card.clientWidth;
    const total = this.ranks.length;
    // as large as they fit in a part of the page
    this.size = [24, 18, 14, 11, 9, 7, 5, 4].find((size) => Math.ceil(total / Math.floor(width / size)) * size <= 320) || 3;
    this.columns = Math.max(1, Math.floor(width / this.size));
    const height = Math.ceil(total / this.columns) * this.size;
    const scale = window.devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    const style = getComputedStyle(document.documentElement);
    const colours = Object.fromEntries(GROUPS.map(([group]) => [group, style.getPropertyValue(`--${group}`)]));
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    const gap = this.size > 5 ? 2 : 1;
    this.states.forEach(({ group }, index) => {
      context.fillStyle = colours[group];
      const [x, y] = [index % this.columns, Math.floor(index / this.columns)];
      context.fillRect(x * this.size, y * this.size, this.size - gap, this.size - gap);
    });
  }

  rankAt(x, y) {
    const column = Math.floor(x / this.size);
    const index = Math.floor(y / this.size) * this.columns + column;
    return column < this.columns && index < this.ranks.length ? index : -1;
  }

  choose(index) {
    this.chosen = index < this.ranks.length ? index : -1;
    const known = this.chosen >= 0;
    this.where.textContent = known
      ? `rank ${this.ranks[this.chosen]} on ${this.nodes[this.chosen]}: ${this.states[this.chosen].name}` : "";
  }
}


function showState(state) {
  const begin = performance.now();
  at("server").textContent = `${state.server} on ${state.host}`;
  const names = new Set(state.jobs.map((job) => job.nspace));
  for (const [name, job] of cards) {
    if (!names.has(name)) {
      job.card.remove();
      cards.delete(name);
    }
  }
  at("jobs").querySelector(".none").hidden = state.jobs.length > 0;
  for (const job of state.jobs) {
    let card = cards.get(job.nspace);
    if (!card) {
      card = new Job(job.nspace);
      cards.set(job.nspace, card);
      at("jobs").append(card.card);
    }
    card.show(job, state.states);
  }
  status(state.problem || `${state.jobs.length} ${state.jobs.length === 1 ? "job" : "jobs"}`, Boolean(state.problem));
  document.documentElement.dataset.drawn = (performance.now() - begin).toFixed(1);
}

function showWaits(waits) {
  const items = waits.sentences.map((text) => element("li", text));
  if (waits.problem) items.push(element("li", waits.problem, "none"));
  at("waits").replaceChildren(...(items.length ? items : [element("li", "Nothing waits in PMIx; pmix stack shows where ranks are in MPI.", "none")]));
}

function showEvent(event) {
  const list = at("events");
  for (const none of list.querySelectorAll(".none")) none.remove();
  const item = element("li", undefined, event.missed ? "missed" : "");
  item.append(element("time", new Date(event.at).toLocaleTimeString()));
  item.append(event.missed ? `${event.missed} events are missing` : `${event.name} ${event.source || ""} ${event.info}`);
  list.prepend(item);
  while (list.children.length > MAX_EVENTS) list.lastChild.remove();
}

const SHOW = { state: showState, waits: showWaits, event: showEvent };

// One stream after the other: each begins with all there is.
async function follow() {
  for (;;) {
    let answer;
    try {
      answer = await fetch("events", { headers: { Authorization: `Bearer ${token}` }, cache: "no-store" });
    } catch {
      status("`pmix web` has ended, or cannot be reached", true);
    }
    if (answer && !answer.ok) {
      status((await answer.text()).trim(), true);
      if (answer.status === 401) return;
    }
    if (answer && answer.ok) {
      at("events").replaceChildren(element("li", "None so far.", "none"));
      try {
        await read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
        status("the stream has ended", true);
      } catch {
        status("the connection is lost", true);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

async function read(reader) {
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (held + value).split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      let kind = "";
      let data = "";
      for (const line of part.split("\n")) {
        if (line.startsWith("event: ")) kind = line.slice(7);
        if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (SHOW[kind]) SHOW[kind](JSON.parse(data));
    }
  }
}

const redraw = () => cards.forEach((job) => job.draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
window.addEventListener("resize", redraw);

if (token) follow();
else status("this address has no token: open the one that `pmix web` has printed", true);
