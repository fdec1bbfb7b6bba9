// The ranking of a track: the reader picks attacker, attack, metric and data set, and the ranking is computed again here.
// A reader can also sort and filter rows, pick them for Compare, open them, and turn pages. The address has all these choices.
// All rows of the ranking take part, also those that are not in the page yet: rows.js fetches them.
import { axis, Front, lane, linesOf, scaled, WIDTH } from "./charts.js";
import { conditionsOf, contest } from "./contest.js";
import { slices, Stopped } from "./differences.js";
import { brief, PAGE, Rows, withAbsoluteAddresses } from "./rows.js";
import { numbersOf } from "./statistics.js";

const NAMED = 4; // entries in a sentence
const LANES = 24; // files fetched at once: browsers refuse thousands
const element = (name, facts, ...children) => { const one = Object.assign(document.createElement(name), facts); one.append(...children); return one; };

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
    this.columns = this.table.tHead.rows[0].cells.length;
    this.heads = new Map([...this.table.querySelectorAll("[data-sort]")].map((head) => [head.dataset.sort, head]));
    this.groups = new Map([...this.body.querySelectorAll("tr.group")].map((row) => [row.dataset.group, row]));
    this.first = { verdict: this.verdict.textContent, axis: [...this.axis.children], lines: [...this.lines.children] };
    this.decimals = (this.table.querySelector(".value[data-v]")?.textContent.split(".")[1] ?? "").length;
    const figure = root.querySelector(".large-front");
    this.front = figure && new Front(figure, this.facts.better === "lower");
    this.page = 0;
    this.ticked = new Set();
    this.numbers = this.result = null;
    this.rows = new Rows(this.body, this.facts, root.dataset.root, (entry) => this.enter(entry));
    this.tools();
    addEventListener("popstate", () => { this.recall(); this.show(); });
    this.recall();
    this.show();
  }

  /** Connect the controls around the table. */
  tools() {
    this.picksBy = [...this.root.querySelectorAll("[data-pick]")];
    for (const one of this.picksBy) one.addEventListener("change", () => { this.remember(true); this.show(); });
    this.filter = this.root.querySelector(".filter");
    this.filter.addEventListener("input", () => { this.page = 0; this.remember(); this.arrange(); });
    this.picked = this.root.querySelector(".picked");
    for (const [key, head] of this.heads) {
      const button = element("button", { type: "button" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => this.sort(key));
    }
    this.front?.drawn.addEventListener("pointerover", (event) => { if (event.target.dataset.label) this.light(event.target.dataset.label, true); });
    this.front?.drawn.addEventListener("pointerout", (event) => { if (event.target.dataset.label) this.light(event.target.dataset.label, false); });
    this.pages = this.root.querySelector(".pages");
    this.linked = [...this.pages.childNodes];
  }

  /** Give a row that came into the page its buttons, and the numbers of the present choice. */
  enter(entry) {
    const { row, label } = entry, link = row.querySelector("a.open");
    link.setAttribute("role", "button");
    link.setAttribute("aria-expanded", "false");
    link.addEventListener("click", (event) => { event.preventDefault(); this.open(entry); });
    link.addEventListener("keydown", (event) => { if (event.key === " ") { event.preventDefault(); link.click(); } });
    if (this.root.dataset.index) {
      const box = element("input", { type: "checkbox", checked: this.ticked.has(label) });
      box.setAttribute("aria-label", `Compare ${this.name(label)}`);
      box.addEventListener("change", () => { this.tick(label, box.checked); });
      row.querySelector("th").prepend(box);
    }
    for (const [event, on] of [["pointerenter", true], ["focusin", true], ["pointerleave", false], ["focusout", false]]) row.addEventListener(event, () => this.light(label, on));
    if (this.result) this.dress(entry);
  }

  name(label) { return this.facts.names[label] ?? brief(label); }

  light(label, on) {
    this.rows.byLabel.get(label)?.row?.classList.toggle("on", on);
    this.front?.light(label, on);
  }

  tick(label, on) {
    if (on) this.ticked.add(label); else this.ticked.delete(label);
    const box = this.rows.byLabel.get(label)?.row?.querySelector("input");
    if (box) box.checked = on;
    this.remember();
    this.chips();
  }

  /** The present choice: facet -> value, "" for all. */
  picks() {
    const picks = {};
    for (const one of this.picksBy) if (one.type !== "radio" || one.checked) picks[one.dataset.pick] = one.value;
    return picks;
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
    for (const label of this.rows.knowsAll ? this.chosen() : this.ticked) words.append(`${this.prefix}pick`, label);
    history[step ? "pushState" : "replaceState"](null, "", `${location.pathname}${words.size ? `?${words}` : ""}${location.hash}`);
  }

  /** Take the choices from the address. */
  recall() {
    const words = new URLSearchParams(location.search), get = (key) => words.get(this.prefix + key) ?? "";
    for (const one of this.picksBy) {
      const wanted = get(one.dataset.pick);
      if (one.type === "radio") one.checked = one.value === wanted;
      else one.value = [...one.options].some((option) => option.value === wanted) ? wanted : "";
    }
    for (const key of new Set(this.picksBy.filter((one) => one.type === "radio").map((one) => one.name))) {
      const boxes = this.picksBy.filter((one) => one.name === key);
      if (!boxes.some((one) => one.checked)) boxes.find((one) => !one.value).checked = true;
    }
    this.filter.value = get("q");
    const sorted = get("sort"), key = sorted.replace(/-$/, "");
    this.sorted = this.heads.has(key) ? { key, down: sorted.endsWith("-") } : null;
    this.page = Math.max(0, (Number.parseInt(get("page"), 10) || 1) - 1);
    this.ticked = new Set(words.getAll(`${this.prefix}pick`));
    for (const { row, label } of this.rows.inPage) { const box = row.querySelector("input"); if (box) box.checked = this.ticked.has(label); }
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
  async open(entry) {
    const link = entry.row.querySelector("a.open");
    if (entry.more) {
      entry.more.hidden = !entry.more.hidden;
      link.setAttribute("aria-expanded", String(!entry.more.hidden));
      return;
    }
    entry.more = element("tr", { className: "more-row", id: `more-${this.table.id}-${entry.order}` }, element("td", { colSpan: this.columns, textContent: "Loading …" }));
    entry.row.after(entry.more);
    link.setAttribute("aria-expanded", "true");
    link.setAttribute("aria-controls", entry.more.id);
    try {
      const answer = await fetch(link.href);
      if (!answer.ok) throw new Error(String(answer.status));
      const details = withAbsoluteAddresses(new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".opened"), answer.url);
      for (const head of details.querySelectorAll("h2")) head.replaceWith(element("h3", {}, ...head.childNodes));
      entry.more.cells[0].replaceChildren(details);
    } catch (error) {
      entry.more.cells[0].replaceChildren(`The details cannot be read (${error.message}). `, element("a", { href: link.href, textContent: "Open their page" }), ".");
    }
  }

  /** The scores of the ranking and of its secondary measures, {index, vectors} of each, fetched once. */
  async load() {
    this.loaded ??= (async () => {
      const get = async (name, as) => { const answer = await fetch(name); if (!answer.ok) throw new Error(`${name}: ${answer.status}`); return answer[as](); };
      return Promise.all([this.root.dataset.index, ...this.facts.secondary_measures].map(async (address) => {
        const name = this.root.dataset.root + address, folder = name.slice(0, name.lastIndexOf("/") + 1);
        const index = await get(name, "json");
        const vectors = [], waiting = index.files.entries();
        const lane = async () => { for (const [i, file] of waiting) vectors[i] = numbersOf(file, await get(folder + file, "arrayBuffer")); };
        await Promise.all(Array.from({ length: LANES }, lane));
        return { index, vectors };
      }));
    })();
    return this.loaded;
  }

  /** Rank under the present choice, or show the ranking under all settings without one. A later call overtakes this one. */
  async show() {
    const picks = this.picks(), mine = this.turn = (this.turn ?? 0) + 1;
    delete this.table.dataset.result;
    if (Object.values(picks).every((value) => !value)) return this.reset();
    this.verdict.textContent = "Ranking again …";
    try {
      const [[{ index, vectors }, ...others]] = await Promise.all([this.load(), this.rows.fetchIndex()]);
      if (mine !== this.turn) return;
      this.index = index;
      const conditions = conditionsOf(index, this.facts, picks);
      const result = await contest(index, vectors, this.facts, conditions, others.map((other) => ({ ...other, conditions: conditionsOf(other.index, this.facts, picks) })), slices(() => mine === this.turn));
      if (mine !== this.turn) return;
      this.fill(result, picks);
      this.table.dataset.result = JSON.stringify(result);
    } catch (error) {
      if (error instanceof Stopped) return;
      this.reset();
      this.verdict.textContent = `The scores cannot be read (${error.message}). If you opened the site from a folder on disk, start “harness site serve” instead. What follows is the ranking under all settings.`;
    }
  }

  /** Show the ranking under all settings, as the page was written. */
  reset() {
    this.numbers = this.result = null;
    for (const entry of this.rows.all) entry.group = entry.firstGroup;
    for (const entry of this.rows.inPage) this.undress(entry);
    this.axis.replaceChildren(...this.first.axis);
    this.lines.replaceChildren(...this.first.lines);
    this.verdict.textContent = this.first.verdict;
    this.front?.reset();
    this.arrange();
  }

  /** Write the numbers under all settings into a row. */
  undress(entry) {
    entry.cells.forEach((cell, i) => { cell.innerHTML = entry.html[i]; });
    entry.row.querySelector(".notes").innerHTML = entry.notes;
    entry.row.querySelector(".reason").textContent = entry.reason;
    entry.row.className = `entry ${entry.group}${(this.result ? this.near.has(entry.label) : entry.near) ? " near" : ""}`;
  }

  /** The group of each row, such that ranks run 1, 2, 3 down the page, as ranking_rows.groups_of has it. */
  grouped(result) {
    const ranked = result.rows.filter(({ rank }) => rank);
    const worse = ({ against }) => against !== null && against.low !== null && (this.facts.better === "lower" ? against.low > 0 : against.high < 0);
    const below = new Set(ranked.slice(ranked.findLastIndex((entry) => !worse(entry)) + 1).map(({ label }) => label));
    const group = (entry) => (entry.control ? "control" : !entry.rank ? "barred" : below.has(entry.label) ? "worse" : "eligible");
    return new Map(result.rows.map((entry) => [entry.label, group(entry)]));
  }

  /** Show the result of the contest under a choice. */
  fill(result, picks) {
    const by = new Map(result.rows.map((entry, i) => [entry.label, { ...entry, order: i }]));
    const lines = result.rows.filter((entry) => entry.control && entry.worst).map((entry) => ({ value: entry.worst.value, plain: entry.label === this.facts.baseline }));
    const scale = scaled(result.rows.flatMap(({ worst, unaware }) => [worst?.value, worst?.low ?? NaN, worst?.high ?? NaN, unaware?.value]), 8, WIDTH - 8);
    this.axis.replaceChildren(this.lines.parentElement, ...axis(scale, lines, this.facts.compared_with));
    this.lines.replaceChildren(...linesOf(scale.at, lines));
    Object.assign(this, { result, scale, numbers: by });
    const groups = this.grouped(result);
    this.near = new Set(result.first ? [result.first, ...result.near.filter((label) => by.get(label).rank)] : []);
    for (const entry of this.rows.all) entry.group = groups.get(entry.label) ?? "barred";
    for (const entry of this.rows.inPage) this.dress(entry);
    this.verdict.textContent = this.sentence(result, by, picks);
    this.front?.show(new Map(result.rows.filter(({ worst }) => worst).map(({ label, worst }) => [label, { ...worst, text: `${this.facts.measure} ${this.text(worst.value)}` }])), this.traded(result), (label) => this.rows.byLabel.get(label)?.utility);
    this.arrange();
  }

  /** Write the numbers of the present choice into a row. */
  dress(one) {
    const entry = this.numbers.get(one.label), at = (name) => one.row.querySelector(name);
    this.undress(one);
    at(".rank").replaceChildren(element("strong", { textContent: entry?.rank ? entry.rank.value : "" }), " ", element("span", { className: "range", textContent: entry?.rank && entry.rank.low !== null ? `${entry.rank.low}–${entry.rank.high}` : "" }));
    at("svg.lane").replaceChildren(at("svg.lane > use"), ...lane(this.scale.at, entry));
    at(".value").textContent = this.text(entry?.worst?.value);
    at(".worst .ends").textContent = entry?.worst && entry.worst.low !== null ? `${this.text(entry.worst.low)}–${this.text(entry.worst.high)}` : "";
    const gain = entry?.against, signed = (x) => this.text(x).replace("-", "−");
    at(".against .number").textContent = gain ? signed(gain.value) : "–";
    at(".against .number").className = "number"; // what the page says of all settings does not hold for some
    for (const cell of one.row.querySelectorAll(".further")) cell.textContent = "–";
    at(".against .ends").textContent = gain && gain.low !== null ? `${signed(gain.low)} to ${signed(gain.high)}` : "";
    at(".against .by").textContent = "";
    const [most] = Object.entries(entry?.broken_by ?? {});
    at(".worst .by").textContent = most ? this.worst(most[0], `${Math.round(100 * most[1])}%`) : entry ? "" : "not measured";
    if (one.group === "barred") at(".reason").textContent = [...(entry?.complete ? [] : ["lacks settings that others have"]), ...[this.facts.places[one.label].reason].filter(Boolean)].join(" and ");
    else if (one.group !== "control") at(".reason").textContent = "";
    at(".notes").replaceChildren(...this.notes(at(".notes"), entry));
  }

  worst(attack, share) { return attack === "none" ? `${share} survive` : `${this.facts.attackNames[attack] ?? brief(attack)}, ${share}`; }

  /** The title of the drawing of protection against utility. */
  traded(result) {
    const useful = "those that are not shown to cost too much";
    if (result.winner) return `${this.name(result.winner)} leads ${useful}`;
    return result.may.length ? `${result.may.length} may be best of ${useful}` : "None is shown to protect and to stay useful";
  }

  text(number) { return Number.isFinite(number) ? number.toFixed(this.decimals).replace(/^-(?=[0.]*$)/, "") : "–"; }

  /** The remarks of a row under this choice; those that do not depend on it stay. Who wins is asked under all settings only. */
  notes(cell, entry) {
    const lasting = [...cell.children].filter((badge) => !["first", "broken"].some((kind) => badge.classList.contains(kind)));
    const new_ = [];
    if (entry?.broken) new_.push(badge("broken", `broken by ${this.facts.attackNames[entry.broken] ?? brief(entry.broken)}`, "The worst attack is shown to leave less than half of what it seems to protect"));
    return [...new_, ...lasting].flatMap((one) => [one, " "]);
  }

  /** The verdict under a choice, in a sentence. `by`: label -> row of the result. */
  sentence(result, by, picks) {
    const chosen = Object.entries(picks).filter(([, v]) => v).map(([key, v]) => (key === "attacker" ? (v === "aware" ? "an attacker who knows the defense" : "an attacker who does not know the defense") : `${key} ${this.facts.attackNames[v] ?? brief(v)}`)).join(", ");
    if (!result.rows.some(({ worst }) => worst)) return `With ${chosen}: no such attack was run. Choose another one.`;
    if (!result.first) return `With ${chosen}: no entry may win, as each lacks an attack, is flagged, or does not pass a gate: there is no winner.`;
    const first = by.get(result.first), score = `${this.facts.measure} ${this.text(first.worst.value)}`;
    const lead = `With ${chosen}: ${this.name(result.first)}`;
    if (result.winner) return `${lead} leads with ${score}: it is shown to be better than each other entry that may win, and than every control.`;
    if (result.disagrees) return `${lead} leads with ${score}, but another measure shows ${this.name(result.disagrees.label)} to be better: measures disagree.`;
    if (!result.better) return `${lead} leads with ${score}; it is not shown to be better than ${this.name(this.facts.baseline)}.`;
    return `${lead} leads with ${score}; ${this.list(result.near)} ${result.near.length > 1 ? "are" : "is"} not separated from it.`;
  }

  /** The names of some entries, the first ones if they are many. */
  list(labels) {
    const named = labels.slice(0, labels.length > NAMED + 1 ? NAMED : labels.length).map((label) => this.name(label));
    return named.join(", ") + (named.length < labels.length ? ` and ${labels.length - named.length} more` : "");
  }

  /** Put the rows in order and show those of the page, when all that this takes is here. */
  arrange() {
    const turn = this.arranged = (this.arranged ?? 0) + 1;
    if (!this.needsAll() && this.visible().every(({ row }) => row)) { this.put(); return; }
    this.table.setAttribute("aria-busy", "true");
    const fetched = async () => { await this.rows.fetchIndex(); await this.rows.fetchRows(this.visible()); };
    fetched().then(() => { if (turn === this.arranged) this.put(); }, (error) => { if (turn === this.arranged) this.missed(error); });
  }

  /** Does the present state need rows or facts that only the index of all rows has? */
  needsAll() { return !this.rows.knowsAll && Boolean(this.page || this.sorted || this.numbers || this.filter.value || [...this.ticked].some((label) => !this.rows.byLabel.has(label))); }

  /** All rows that the filter leaves, in order. */
  matching() {
    const order = (entry) => this.numbers ? this.numbers.get(entry.label)?.order ?? Infinity : entry.order;
    const query = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean), names = [...this.titles.keys()];
    const rows = this.rows.all.filter(({ text }) => query.every((word) => text.includes(word)));
    const keys = { name: (entry) => this.name(entry.label).toLowerCase(), worst: (entry) => (this.numbers ? this.numbers.get(entry.label)?.worst?.value : entry.worst), utility: (entry) => entry.utility };
    if (this.sorted) {
      const key = keys[this.sorted.key], way = this.sorted.down ? -1 : 1, none = (x) => x === null || x === undefined || Number.isNaN(x);
      return rows.sort((a, b) => { const [x, y] = [key(a), key(b)]; return none(x) - none(y) || (x < y ? -way : x > y ? way : order(a) - order(b)); });
    }
    return rows.sort((a, b) => names.indexOf(a.group) - names.indexOf(b.group) || order(a) - order(b));
  }

  /** The rows of the page. */
  visible() {
    const rows = this.matching();
    this.size = this.rows.knowsAll ? rows.length : this.rows.count;
    this.page = Math.min(this.page, Math.max(0, Math.ceil(this.size / PAGE) - 1));
    return rows.slice(this.page * PAGE, (this.page + 1) * PAGE);
  }

  /** Put the rows of the page into the table, in order, with the heads of their groups. */
  put() {
    const page = this.visible(), visible = new Set(page), others = new Set([...this.matching(), ...this.rows.all]);
    let group = "";
    for (const row of this.groups.values()) row.classList.add("away");
    for (const entry of [...page, ...[...others].filter((one) => one.row && !visible.has(one))]) {
      entry.row.classList.toggle("away", !visible.has(entry));
      entry.more?.classList.toggle("away", !visible.has(entry));
      if (!this.sorted && visible.has(entry) && entry.group !== group) {
        group = entry.group;
        this.body.append(this.head(group));
      }
      this.body.append(entry.row, ...(entry.more ? [entry.more] : []));
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
    const message = element("span", { textContent: `The other rows cannot be read (${error.message}), so that only these ones can be sorted and filtered. If you opened the site from a folder on disk, start “harness site serve” instead, or go to their pages: ` });
    this.pages.hidden = false;
    this.pages.replaceChildren(message, ...this.linked);
  }

  /** The row that is the head of a group; it is made if the page has none. */
  head(group) {
    if (!this.groups.has(group)) {
      const cell = element("th", { colSpan: this.columns, scope: "rowgroup", textContent: this.titles.get(group) });
      this.groups.set(group, element("tr", { className: "group" }, cell));
      this.groups.get(group).dataset.group = group;
    }
    this.groups.get(group).classList.remove("away");
    return this.groups.get(group);
  }

  /** Write the buttons that turn pages. */
  paging(count) {
    const last = Math.ceil(count / PAGE) - 1;
    this.pages.hidden = last < 1;
    if (last < 1) return;
    const button = (text, to) => {
      const one = element("button", { type: "button", textContent: text, disabled: to < 0 || to > last });
      one.addEventListener("click", () => { this.page = to; this.remember(true); this.arrange(); this.table.scrollIntoView(); });
      return one;
    };
    this.pages.replaceChildren(button("Previous", this.page - 1), `Rows ${this.page * PAGE + 1} to ${Math.min((this.page + 1) * PAGE, count)} of ${count.toLocaleString("en")}`, button("Next", this.page + 1));
  }

  /** The picked entries, each with a button that drops it, and the link that compares them under the same choice. */
  chips() {
    const labels = this.chosen();
    this.picked.replaceChildren(...labels.map((label) => {
      const drop = element("button", { type: "button", textContent: `${this.name(label)} ×` });
      drop.setAttribute("aria-label", `Do not compare ${this.name(label)}`);
      drop.addEventListener("click", () => this.tick(label, false));
      return drop;
    }), ...(labels.length > 1 ? [element("a", { className: "button", href: this.comparison(labels), textContent: `Compare ${labels.length}` })] : labels.length ? ["pick another one to compare"] : []));
  }

  /** The address of the compare page with these entries under the present choice. */
  comparison(labels) {
    const words = new URLSearchParams({ c: this.root.dataset.index }), values = {}, picks = this.picks();
    for (const label of labels) words.append("e", label);
    for (const { facets } of this.index?.conditions ?? []) for (const [key, value] of Object.entries(facets)) (values[key] ??= new Set()).add(value);
    for (const [key, pick] of Object.entries(picks)) {
      if (!pick) continue;
      const facet = key === "attacker" ? this.facts.attacker : key;
      const picked = (value) => (key === "attacker" ? (value !== this.facts.unaware) === (pick === "aware") : value === pick);
      for (const value of values[facet] ?? []) if (!picked(value)) words.append(`without.${facet}`, value);
    }
    return `${this.root.dataset.compare}#${words}`;
  }
}

function badge(kind, textContent, title) { return element("span", { className: `badge ${kind}`, textContent, title }); }

for (const root of document.querySelectorAll("div.contest")) new Ranking(root);
