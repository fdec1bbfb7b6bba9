// The ranking of a track: the reader picks attacker, attack, metric and data set, and the chart is computed again here.
// Rows are sorted, filtered, picked for Compare, opened, and shown in pages. The address keeps all of it. Rows that are not
// in the page yet count as much as those that are: rows.js brings them.
import { axis, Front, lane, linesOf, scaled, WIDTH } from "./charts.js";
import { conditionsOf, contest } from "./contest.js";
import { slices, Stopped } from "./differences.js";
import { brief, PAGE, Rows, settled } from "./rows.js";
import { numbersOf } from "./statistics.js";

const NAMED = 4; // entries in a sentence
const LANES = 24; // files fetched at once: browsers refuse thousands
const made = (name, facts, ...children) => { const one = Object.assign(document.createElement(name), facts); one.append(...children); return one; };

class Ranking {
  constructor(root) {
    this.root = root;
    this.facts = JSON.parse(root.dataset.contest);
    this.titles = new Map(this.facts.groups);
    this.prefix = root.dataset.prefix;
    this.table = root.querySelector("table.ranking");
    this.body = this.table.tBodies[0];
    this.verdict = root.querySelector(".verdict");
    this.axis = this.table.querySelector("svg.axis");
    this.lines = this.axis.querySelector("g.lane");
    this.heads = new Map([...this.table.querySelectorAll("[data-sort]")].map((head) => [head.dataset.sort, head]));
    this.groups = new Map([...this.body.querySelectorAll("tr.group")].map((row) => [row.dataset.group, row]));
    this.first = { said: this.verdict.textContent, axis: [...this.axis.children], lines: [...this.lines.children], best: this.groups.get("best")?.textContent };
    this.decimals = (this.table.querySelector(".value[data-v]")?.textContent.split(".")[1] ?? "").length;
    const figure = root.querySelector(".large-front");
    this.front = figure && new Front(figure, this.facts.better === "lower");
    this.page = 0;
    this.ticked = new Set();
    this.numbers = this.found = null;
    this.rows = new Rows(this.body, this.facts, root.dataset.root, (own) => this.enter(own));
    this.tools();
    addEventListener("popstate", () => { this.recall(); this.show(); });
    this.recall();
    this.show();
  }

  tools() {
    this.picksBy = [...this.root.querySelectorAll("[data-pick]")];
    for (const one of this.picksBy) one.addEventListener("change", () => { this.remember(true); this.show(); });
    this.filter = this.root.querySelector(".filter");
    this.filter.addEventListener("input", () => { this.page = 0; this.remember(); this.arrange(); });
    this.picked = this.root.querySelector(".picked");
    for (const [key, head] of this.heads) {
      const button = made("button", { type: "button" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => this.sort(key));
    }
    this.front?.drawn.addEventListener("pointerover", (event) => { if (event.target.dataset.label) this.light(event.target.dataset.label, true); });
    this.front?.drawn.addEventListener("pointerout", (event) => { if (event.target.dataset.label) this.light(event.target.dataset.label, false); });
    this.pages = this.root.querySelector(".pages");
    this.linked = [...this.pages.childNodes];
  }

  /** Give a row that is here its buttons, and the numbers of the present choice. */
  enter(own) {
    const { row, label } = own, link = row.querySelector("a.open");
    link.setAttribute("role", "button");
    link.setAttribute("aria-expanded", "false");
    link.addEventListener("click", (event) => { event.preventDefault(); this.open(own); });
    link.addEventListener("keydown", (event) => { if (event.key === " ") { event.preventDefault(); link.click(); } });
    if (this.root.dataset.index) {
      const box = made("input", { type: "checkbox", checked: this.ticked.has(label) });
      box.setAttribute("aria-label", `Compare ${this.name(label)}`);
      box.addEventListener("change", () => { this.tick(label, box.checked); });
      row.querySelector("th").prepend(box);
    }
    for (const [event, on] of [["pointerenter", true], ["focusin", true], ["pointerleave", false], ["focusout", false]]) row.addEventListener(event, () => this.light(label, on));
    if (this.found) this.dress(own);
  }

  name(label) { return this.facts.names[label] ?? brief(label); }

  light(label, on) {
    this.rows.by.get(label)?.row?.classList.toggle("on", on);
    this.front?.light(label, on);
  }

  tick(label, on) {
    if (on) this.ticked.add(label); else this.ticked.delete(label);
    const box = this.rows.by.get(label)?.row?.querySelector("input");
    if (box) box.checked = on;
    this.remember();
    this.chips();
  }

  picks() {
    const found = {};
    for (const one of this.picksBy) if (one.type !== "radio" || one.checked) found[one.dataset.pick] = one.value;
    return found;
  }

  chosen() { return this.root.dataset.index ? this.rows.all.filter(({ label }) => this.ticked.has(label)).map(({ label }) => label) : []; }

  /** Write the state into the address; what ranks anew is a step for the Back button. */
  remember(step = false) {
    const words = new URLSearchParams(location.search), put = (key, value) => { if (value) words.set(this.prefix + key, value); else words.delete(this.prefix + key); };
    for (const [key, value] of Object.entries(this.picks())) put(key, value);
    put("q", this.filter.value);
    put("sort", this.sorted ? `${this.sorted.key}${this.sorted.down ? "-" : ""}` : "");
    put("page", this.page ? String(this.page + 1) : "");
    words.delete(`${this.prefix}pick`);
    for (const label of this.rows.whole ? this.chosen() : this.ticked) words.append(`${this.prefix}pick`, label);
    history[step ? "pushState" : "replaceState"](null, "", `${location.pathname}${words.size ? `?${words}` : ""}${location.hash}`);
  }

  recall() {
    const words = new URLSearchParams(location.search), get = (key) => words.get(this.prefix + key) ?? "";
    for (const one of this.picksBy) {
      const wanted = get(one.dataset.pick);
      if (one.type === "radio") one.checked = one.value === wanted;
      else one.value = [...one.options].some((option) => option.value === wanted) ? wanted : "";
    }
    for (const key of new Set(this.picksBy.filter((one) => one.type === "radio").map((one) => one.name))) {
      const own = this.picksBy.filter((one) => one.name === key);
      if (!own.some((one) => one.checked)) own.find((one) => !one.value).checked = true;
    }
    this.filter.value = get("q");
    const sorted = get("sort"), key = sorted.replace(/-$/, "");
    this.sorted = this.heads.has(key) ? { key, down: sorted.endsWith("-") } : null;
    this.page = Math.max(0, (Number.parseInt(get("page"), 10) || 1) - 1);
    this.ticked = new Set(words.getAll(`${this.prefix}pick`));
    for (const { row, label } of this.rows.here) { const box = row.querySelector("input"); if (box) box.checked = this.ticked.has(label); }
  }

  sort(key) {
    const now = this.sorted?.key === key;
    this.sorted = now && this.sorted.down ? null : { key, down: now || (key === "utility" && this.heads.get(key).dataset.better !== "lower") };
    if (key === "rank") this.sorted = null;
    this.page = 0;
    this.remember();
    this.arrange();
  }

  /** Details are fetched when a row is opened first. */
  async open(own) {
    const link = own.row.querySelector("a.open");
    if (own.more) {
      own.more.hidden = !own.more.hidden;
      link.setAttribute("aria-expanded", String(!own.more.hidden));
      return;
    }
    own.more = made("tr", { className: "more-row", id: `more-${this.table.id}-${own.order}` }, made("td", { colSpan: 5, textContent: "Loading …" }));
    own.row.after(own.more);
    link.setAttribute("aria-expanded", "true");
    link.setAttribute("aria-controls", own.more.id);
    try {
      const answer = await fetch(link.href);
      if (!answer.ok) throw new Error(String(answer.status));
      const found = settled(new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".opened"), answer.url);
      for (const head of found.querySelectorAll("h2")) head.replaceWith(made("h3", {}, ...head.childNodes));
      own.more.cells[0].replaceChildren(found);
    } catch (error) {
      own.more.cells[0].replaceChildren(`The details cannot be read (${error.message}). `, made("a", { href: link.href, textContent: "Open their page" }), ".");
    }
  }

  async load() {
    this.loaded ??= (async () => {
      const get = async (name, as) => { const answer = await fetch(name); if (!answer.ok) throw new Error(`${name}: ${answer.status}`); return answer[as](); };
      return Promise.all([this.root.dataset.index, ...this.facts.yardsticks].map(async (address) => {
        const name = this.root.dataset.root + address, folder = name.slice(0, name.lastIndexOf("/") + 1);
        const index = await get(name, "json");
        const vectors = [], left = index.files.entries();
        const lane = async () => { for (const [i, file] of left) vectors[i] = numbersOf(file, await get(folder + file, "arrayBuffer")); };
        await Promise.all(Array.from({ length: LANES }, lane));
        return { index, vectors };
      }));
    })();
    return this.loaded;
  }

  async show() {
    const picks = this.picks(), mine = this.turn = (this.turn ?? 0) + 1;
    delete this.table.dataset.result;
    if (Object.values(picks).every((value) => !value)) return this.reset();
    this.verdict.textContent = "Ranking again …";
    try {
      const [[{ index, vectors }, ...others]] = await Promise.all([this.load(), this.rows.know()]);
      if (mine !== this.turn) return;
      this.index = index;
      const conditions = conditionsOf(index, this.facts, picks);
      const found = await contest(index, vectors, this.facts, conditions, others.map((own) => ({ ...own, conditions: conditionsOf(own.index, this.facts, picks) })), slices(() => mine === this.turn));
      if (mine !== this.turn) return;
      this.fill(found, picks);
      this.table.dataset.result = JSON.stringify(found);
    } catch (error) {
      if (error instanceof Stopped) return;
      this.reset();
      this.verdict.textContent = `The scores cannot be read (${error.message}). If you opened the site from a folder on disk, start “harness site serve” instead. What follows is the ranking under all settings.`;
    }
  }

  reset() {
    this.numbers = this.found = null;
    for (const own of this.rows.all) own.group = own.first;
    for (const own of this.rows.here) this.undress(own);
    this.axis.replaceChildren(...this.first.axis);
    this.lines.replaceChildren(...this.first.lines);
    this.verdict.textContent = this.first.said;
    if (this.first.best) this.groups.get("best").firstElementChild.textContent = this.first.best;
    this.front?.reset();
    this.arrange();
  }

  undress(own) {
    own.cells.forEach((cell, i) => { cell.innerHTML = own.as[i]; });
    own.row.querySelector(".notes").innerHTML = own.notes;
    own.row.className = `entry ${own.group}`;
  }

  groupOf(own, found) {
    const about = this.facts.places[own.label];
    if (about.control) return "control";
    if (!own.complete) return "incomplete";
    if (found.may.includes(own.label)) return "best";
    return own.able && !own.flagged ? "stands" : "ruled-out";
  }

  fill(found, picks) {
    const by = new Map(found.rows.map((own, i) => [own.label, { ...own, order: i }]));
    const lines = found.rows.filter((own) => own.control && own.worst).map((own) => ({ value: own.worst.value, plain: own.label === this.facts.undefended }));
    const scale = scaled(found.rows.flatMap(({ worst, unaware }) => [worst?.value, worst?.low ?? NaN, worst?.high ?? NaN, unaware?.value]), 8, WIDTH - 8);
    this.axis.replaceChildren(this.lines.parentElement, ...axis(scale, lines));
    this.lines.replaceChildren(...linesOf(scale.place, lines));
    Object.assign(this, { found, scale, numbers: by });
    for (const own of this.rows.all) own.group = by.has(own.label) ? this.groupOf(by.get(own.label), found) : "incomplete";
    for (const own of this.rows.here) this.dress(own);
    this.verdict.textContent = this.sentence(found, by, picks);
    this.groups.get("best")?.firstElementChild.replaceChildren(found.winner ? "Shown to be best" : this.titles.get("best"));
    this.front?.show(new Map(found.rows.filter(({ worst }) => worst).map(({ label, worst }) => [label, { ...worst, text: `${this.facts.measure} ${this.text(worst.value)}` }])), this.traded(found), (label) => this.rows.by.get(label)?.utility);
    this.arrange();
  }

  /** Write the numbers of the present choice into a row. */
  dress(one) {
    const own = this.numbers.get(one.label), at = (name) => one.row.querySelector(name);
    this.undress(one);
    at(".rank").replaceChildren(made("strong", { textContent: own?.rank ? own.rank.value : "–" }), " ", made("span", { className: "range", textContent: own?.rank && own.rank.low !== null ? `${own.rank.low}–${own.rank.high}` : "" }));
    at("svg.lane").replaceChildren(at("svg.lane > use"), ...lane(this.scale.place, own));
    at(".value").textContent = this.text(own?.worst?.value);
    at(".ends").textContent = own?.worst && own.worst.low !== null ? `${this.text(own.worst.low)}–${this.text(own.worst.high)}` : "";
    const [most] = Object.entries(own?.broken_by ?? {});
    at(".by").textContent = most ? `${this.facts.attackNames[most[0]] ?? brief(most[0])}, ${Math.round(100 * most[1])}%` : own ? "" : "not measured";
    at(".notes").replaceChildren(...this.notes(at(".notes"), own, this.found));
  }

  traded(found) {
    const useful = "those that are not shown to cost too much";
    if (found.winner) return `${this.name(found.winner)} protects best of ${useful}`;
    return found.may.length ? `${found.may.length} may be best of ${useful}` : "None is shown to protect and to stay useful";
  }

  text(number) { return Number.isFinite(number) ? number.toFixed(this.decimals).replace(/^-(?=[0.]*$)/, "") : "–"; }

  /** The remarks of a row under this choice; those that do not depend on it stay. */
  notes(cell, own, found) {
    const kept = [...cell.children].filter((badge) => !["first", "broken", "incomplete"].some((kind) => badge.classList.contains(kind)));
    const new_ = [];
    if (own && own.label === found.winner) new_.push(badge("first", "winner", "Shown to be better than each other entry that may win, and than every control"));
    if (own?.broken) new_.push(badge("broken", `broken by ${this.facts.attackNames[own.broken] ?? brief(own.broken)}`, "The worst attack is shown to leave less than half of what it seems to protect"));
    if (own && !own.complete) new_.push(badge("incomplete", "incomplete", "It lacks settings that others have, and cannot win"));
    return [...new_, ...kept].flatMap((one) => [one, " "]);
  }

  sentence(found, by, picks) {
    const chosen = Object.entries(picks).filter(([, v]) => v).map(([key, v]) => (key === "attacker" ? (v === "aware" ? "an attacker who knows the defense" : "an attacker who does not know the defense") : `${key} ${this.facts.attackNames[v] ?? brief(v)}`)).join(", ");
    if (!found.rows.some(({ worst }) => worst)) return `With ${chosen}: no such attack was run. Choose another one.`;
    if (!found.first) return `With ${chosen}: no entry may win, as each lacks an attack, is flagged, or does not pass a gate: there is no winner.`;
    const first = by.get(found.first), held = `${this.facts.measure} ${this.text(first.worst.value)}`;
    if (found.beaten) return `With ${chosen}: no entry that may be best is better than every control: ${this.name(found.rival)} is shown to be better than ${this.name(found.first)} (${held}).`;
    if (!found.proven.length) return `With ${chosen}: this data cannot tell ${this.name(found.first)} (${held}) from ${this.name(found.rival)}, a control.`;
    if (!found.winner) return `With ${chosen}: ${this.list(found.may)} may be best: this data does not tell which. ${found.controls ? `Better than every control: ${this.list(found.proven)}.` : "No control was measured here."}`;
    const rank = first.rank.low === null ? "" : `, rank ${first.rank.low}–${first.rank.high}`;
    return `With ${chosen}: ${this.name(found.first)} holds ${held}${rank}, and is shown to be better than each other entry that may win${found.controls ? ", and than every control" : "; no control was measured here"}.`;
  }

  /** The names of some entries, the first ones if they are many. */
  list(labels) {
    const named = labels.slice(0, labels.length > NAMED + 1 ? NAMED : labels.length).map((label) => this.name(label));
    return named.join(", ") + (named.length < labels.length ? ` and ${labels.length - named.length} more` : "");
  }

  /** Put the rows in order and show those of the page, when all that this takes is here. */
  arrange() {
    const turn = this.arranged = (this.arranged ?? 0) + 1;
    if (!this.needsAll() && this.shown().every(({ row }) => row)) { this.put(); return; }
    this.table.setAttribute("aria-busy", "true");
    const fetched = async () => { await this.rows.know(); await this.rows.take(this.shown()); };
    fetched().then(() => { if (turn === this.arranged) this.put(); }, (error) => { if (turn === this.arranged) this.missed(error); });
  }

  needsAll() { return !this.rows.whole && Boolean(this.page || this.sorted || this.numbers || this.filter.value || [...this.ticked].some((label) => !this.rows.by.has(label))); }

  /** All rows that the filter leaves, in order. */
  kept() {
    const order = (own) => this.numbers ? this.numbers.get(own.label)?.order ?? Infinity : own.order;
    const query = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean), names = [...this.titles.keys()];
    const kept = this.rows.all.filter(({ text }) => query.every((word) => text.includes(word)));
    const keys = { name: (own) => this.name(own.label).toLowerCase(), worst: (own) => (this.numbers ? this.numbers.get(own.label)?.worst?.value : own.worst), utility: (own) => own.utility };
    if (this.sorted) {
      const key = keys[this.sorted.key], way = this.sorted.down ? -1 : 1, none = (x) => x === null || x === undefined || Number.isNaN(x);
      return kept.sort((a, b) => { const [x, y] = [key(a), key(b)]; return none(x) - none(y) || (x < y ? -way : x > y ? way : order(a) - order(b)); });
    }
    return kept.sort((a, b) => names.indexOf(a.group) - names.indexOf(b.group) || order(a) - order(b));
  }

  /** The rows of the page. */
  shown() {
    const kept = this.kept();
    this.size = this.rows.whole ? kept.length : this.rows.count;
    this.page = Math.min(this.page, Math.max(0, Math.ceil(this.size / PAGE) - 1));
    return kept.slice(this.page * PAGE, (this.page + 1) * PAGE);
  }

  put() {
    const page = this.shown(), shown = new Set(page), others = new Set([...this.kept(), ...this.rows.all]);
    let group = "";
    for (const row of this.groups.values()) row.classList.add("away");
    for (const own of [...page, ...[...others].filter((one) => one.row && !shown.has(one))]) {
      own.row.classList.toggle("away", !shown.has(own));
      own.more?.classList.toggle("away", !shown.has(own));
      if (!this.sorted && shown.has(own) && own.group !== group) {
        group = own.group;
        this.body.append(this.head(group));
      }
      this.body.append(own.row, ...(own.more ? [own.more] : []));
    }
    for (const [key, head] of this.heads) {
      if (this.sorted?.key === key) head.setAttribute("aria-sort", this.sorted.down ? "descending" : "ascending"); else head.removeAttribute("aria-sort");
    }
    this.table.removeAttribute("aria-busy");
    this.paging(this.size);
    this.chips();
  }

  /** Say that rows cannot be fetched, with the links to the pages that show them. */
  missed(error) {
    this.page = 0;
    this.put();
    const said = made("span", { textContent: `The other rows cannot be read (${error.message}), so that only these ones can be sorted and filtered. If you opened the site from a folder on disk, start “harness site serve” instead, or go to their pages: ` });
    this.pages.hidden = false;
    this.pages.replaceChildren(said, ...this.linked);
  }

  head(group) {
    if (!this.groups.has(group)) {
      const cell = made("th", { colSpan: 5, scope: "rowgroup", textContent: this.titles.get(group) });
      this.groups.set(group, made("tr", { className: "group" }, cell));
      this.groups.get(group).dataset.group = group;
    }
    this.groups.get(group).classList.remove("away");
    return this.groups.get(group);
  }

  paging(count) {
    const last = Math.ceil(count / PAGE) - 1;
    this.pages.hidden = last < 1;
    if (last < 1) return;
    const button = (text, to) => {
      const one = made("button", { type: "button", textContent: text, disabled: to < 0 || to > last });
      one.addEventListener("click", () => { this.page = to; this.remember(true); this.arrange(); this.table.scrollIntoView(); });
      return one;
    };
    this.pages.replaceChildren(button("Previous", this.page - 1), `Rows ${this.page * PAGE + 1} to ${Math.min((this.page + 1) * PAGE, count)} of ${count.toLocaleString("en")}`, button("Next", this.page + 1));
  }

  /** The picked entries, each with a button that drops it, and the link that compares them under the same choice. */
  chips() {
    const labels = this.chosen();
    this.picked.replaceChildren(...labels.map((label) => {
      const drop = made("button", { type: "button", textContent: `${this.name(label)} ×` });
      drop.setAttribute("aria-label", `Do not compare ${this.name(label)}`);
      drop.addEventListener("click", () => this.tick(label, false));
      return drop;
    }), ...(labels.length > 1 ? [made("a", { className: "button", href: this.comparison(labels), textContent: `Compare ${labels.length}` })] : labels.length ? ["pick another one to compare"] : []));
  }

  comparison(labels) {
    const words = new URLSearchParams({ c: this.root.dataset.index }), values = {}, picks = this.picks();
    for (const label of labels) words.append("e", label);
    for (const { facets } of this.index?.conditions ?? []) for (const [key, value] of Object.entries(facets)) (values[key] ??= new Set()).add(value);
    for (const [key, pick] of Object.entries(picks)) {
      if (!pick) continue;
      const facet = key === "attacker" ? this.facts.attacker : key;
      const kept = (value) => (key === "attacker" ? (value !== this.facts.unaware) === (pick === "aware") : value === pick);
      for (const value of values[facet] ?? []) if (!kept(value)) words.append(`without.${facet}`, value);
    }
    return `${this.root.dataset.compare}#${words}`;
  }
}

function badge(kind, textContent, title) { return made("span", { className: `badge ${kind}`, textContent, title }); }

for (const root of document.querySelectorAll("div.contest")) new Ranking(root);
