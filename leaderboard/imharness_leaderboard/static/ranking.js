// The ranking of a track: the reader picks attacker, attack, metric and data set, and the table is computed again here.
// The address keeps the choice. A row opens; the link against the first entry carries the choice to the compare page.
import { conditionsOf, contest } from "./contest.js";
import { numbersOf } from "./statistics.js";

const SVG = "http://www.w3.org/2000/svg";
const brief = (label) => label.replaceAll("harness/", "");

class Ranking {
  constructor(root) {
    this.root = root;
    this.facts = JSON.parse(root.dataset.contest);
    this.prefix = root.dataset.prefix;
    this.table = root.querySelector("table.ranking");
    this.body = this.table.tBodies[0];
    this.verdict = root.querySelector(".verdict");
    this.rows = [...this.body.querySelectorAll("tr.entry")].map((row) => ({
      row, label: row.dataset.label, more: row.nextElementSibling?.classList.contains("more-row") ? row.nextElementSibling : null,
      cells: [...row.cells], made: [...row.cells].map((cell) => cell.innerHTML),
    }));
    this.said = this.verdict.textContent;
    this.decimals = (this.table.querySelector(".value[data-v]")?.textContent.split(".")[1] ?? "").length;
    this.selects = [...root.querySelectorAll("select[data-pick]")];
    for (const select of this.selects) select.addEventListener("change", () => { this.remember(); this.show(); });
    addEventListener("popstate", () => { this.recall(); this.show(); });
    this.table.addEventListener("click", (event) => {
      const link = event.target.closest("a.open");
      if (!link) return;
      event.preventDefault();
      this.open(link.dataset.opens);
    });
    this.openers();
    this.recall();
    this.show();
  }

  picks() { return Object.fromEntries(this.selects.map((s) => [s.dataset.pick, s.value])); }

  remember() {
    const words = new URLSearchParams(location.search);
    for (const [key, value] of Object.entries(this.picks())) if (value) words.set(this.prefix + key, value); else words.delete(this.prefix + key);
    history.pushState(null, "", `${location.pathname}${words.size ? `?${words}` : ""}${location.hash}`);
  }

  recall() {
    const words = new URLSearchParams(location.search);
    for (const select of this.selects) {
      const wanted = words.get(this.prefix + select.dataset.pick) ?? "";
      select.value = [...select.options].some((option) => option.value === wanted) ? wanted : "";
    }
  }

  openers() {
    for (const link of this.table.querySelectorAll("a.open")) {
      link.setAttribute("role", "button");
      link.setAttribute("aria-expanded", "false");
      link.setAttribute("aria-controls", link.dataset.opens);
      link.addEventListener("keydown", (event) => { if (event.key === " ") { event.preventDefault(); link.click(); } });
    }
    const aim = location.hash.slice(1);
    if (this.rows.some(({ more }) => more?.id === aim)) this.open(aim);
  }

  open(id) {
    const on = document.getElementById(id).classList.toggle("opened-row");
    this.table.querySelector(`a.open[data-opens="${CSS.escape(id)}"]`).setAttribute("aria-expanded", String(on));
  }

  async load() {
    this.loaded ??= (async () => {
      const get = async (name, as) => { const answer = await fetch(name); if (!answer.ok) throw new Error(`${name}: ${answer.status}`); return answer[as](); };
      return Promise.all([this.root.dataset.index, ...this.facts.yardsticks].map(async (address) => {
        const name = this.root.dataset.root + address, folder = name.slice(0, name.lastIndexOf("/") + 1);
        const index = await get(name, "json");
        const files = await Promise.all(index.files.map((file) => get(folder + file, "arrayBuffer")));
        return { index, vectors: files.map((file, i) => numbersOf(index.files[i], file)) };
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
      const [{ index, vectors }, ...others] = await this.load();
      if (mine !== this.turn) return;
      const conditions = conditionsOf(index, this.facts, picks);
      const found = contest(index, vectors, this.facts, conditions, others.map((own) => ({ ...own, conditions: conditionsOf(own.index, this.facts, picks) })));
      this.fill(index, found, picks);
      this.table.dataset.result = JSON.stringify(found);
    } catch (error) {
      this.reset();
      this.verdict.textContent = `The scores cannot be read (${error.message}). If you opened the site from a folder on disk, start “harness site serve” instead. What follows is the ranking under all settings.`;
    }
  }

  reset() {
    for (const { row, more, cells, made } of this.rows) {
      this.write(cells, made);
      row.classList.remove("absent");
      this.body.append(row, ...(more ? [more] : []));
    }
    this.verdict.textContent = this.said;
    this.versus(null, {});
  }

  /** Write cells again, but not the one with the link that opens the row: it may have the focus. */
  write(cells, made) { cells.forEach((cell, i) => { if (cell.tagName === "TD") cell.innerHTML = made[i]; }); }

  fill(index, found, picks) {
    const by = new Map(found.rows.map((own) => [own.label, own]));
    const scale = fitted(found.rows.flatMap(({ worst }) => (worst ? [worst.value, worst.low, worst.high] : [])), 4, 146);
    const rise = fitted(found.rows.flatMap(({ unaware, aware }) => [unaware?.value, aware?.value]), 22, 4);
    const order = [...found.rows.map(({ label }) => label), ...this.rows.map(({ label }) => label).filter((label) => !by.has(label))];
    for (const label of order) {
      const { row, more, cells, made } = this.rows.find((own) => own.label === label) ?? {};
      if (!row) continue;
      const own = by.get(label);
      this.write(cells, made);
      row.classList.toggle("absent", !own);
      const at = (name) => row.querySelector(name);
      at(".rank strong").textContent = own?.rank ? own.rank.value : "–";
      at(".rank .range").textContent = own?.rank ? (own.rank.low === null ? "" : `${own.rank.low}–${own.rank.high}`) : own?.control ? "control" : "not measured";
      at(".worst .dot").replaceChildren(line("rail", 4, 146, 8, 8), ...(own?.worst ? dotOf(scale, own.worst) : []));
      at(".worst .value").textContent = this.text(own?.worst?.value);
      at(".worst .ends").textContent = own?.worst && own.worst.low !== null ? `${this.text(own.worst.low)}–${this.text(own.worst.high)}` : "";
      at(".slope svg").replaceChildren(...slopeOf(rise, own?.unaware, own?.aware));
      at(".before-value").textContent = this.text(own?.unaware?.value);
      at(".after-value").textContent = this.text(own?.aware?.value);
      at(".strip svg").replaceChildren(...this.strip(own?.broken_by ?? {}));
      const [most] = Object.entries(own?.broken_by ?? {});
      at(".strip .number").textContent = most ? `${this.facts.attackNames[most[0]] ?? brief(most[0])} ${Math.round(100 * most[1])}` : "";
      at(".coverage").textContent = own ? own.coverage.toFixed(0) : "0";
      at(".notes").replaceChildren(...this.notes(at(".notes"), own, found));
      this.body.append(row, ...(more ? [more] : []));
    }
    this.verdict.textContent = this.sentence(found, by, picks);
    this.versus(index, picks, found.rows[0]?.label);
  }

  text(number) { return Number.isFinite(number) ? number.toFixed(this.decimals).replace(/^-(?=[0.]*$)/, "") : "–"; }

  strip(shares) {
    let x = 0;
    return this.facts.attacks.filter((name) => shares[name]).map((name) => {
      const width = 100 * shares[name], piece = svg("rect", { class: `k${Math.min(this.facts.attacks.indexOf(name), this.facts.colours)}`, x, width, height: 14 });
      piece.append(Object.assign(document.createElementNS(SVG, "title"), { textContent: `${brief(name)}: the worst for ${Math.round(width)}%` }));
      x += width;
      return piece;
    });
  }

  /** The remarks of a row under this choice; those that do not depend on it stay. */
  notes(cell, own, found) {
    const kept = [...cell.children].filter((badge) => !["first", "broken", "incomplete"].some((kind) => badge.classList.contains(kind)));
    const made = [];
    if (own && own.label === found.winner) made.push(badge("first", "winner", "Shown to be better than each other entry that may win, and than every control"));
    else if (own && found.may.includes(own.label)) made.push(badge("first", "may be best", "No entry that may win is shown to protect better"));
    const breaks = own?.broken;
    if (breaks) made.push(badge("broken", `broken by ${this.facts.attackNames[breaks] ?? brief(breaks)}`, "The worst attack is shown to leave less than half of what it seems to protect"));
    if (own && !own.complete) made.push(badge("incomplete", "incomplete", "It lacks settings that others have, and cannot win"));
    return [...made, ...kept].flatMap((one) => [one, " "]);
  }

  sentence(found, by, picks) {
    const chosen = Object.entries(picks).filter(([, v]) => v).map(([key, v]) => (key === "attacker" ? (v === "aware" ? "attackers that know the defense" : "attackers that do not know the defense") : `${key} ${brief(v)}`)).join(", ");
    const name = (label) => this.facts.names[label] ?? brief(label);
    if (!found.first) return `With ${chosen}: no entry may win, as each lacks an attack, is flagged, or does not pass a gate: there is no winner.`;
    const first = by.get(found.first), held = `${this.facts.measure} ${this.text(first.worst.value)}`;
    if (found.beaten) return `With ${chosen}: no entry that may be best is better than every control: ${name(found.rival)} is shown to be better than ${name(found.first)} (${held}).`;
    if (!found.proven.length) return `With ${chosen}: these data cannot tell ${name(found.first)} (${held}) from ${name(found.rival)}, a control.`;
    if (!found.winner) return `With ${chosen}: ${found.may.map(name).join(", ")} may be best: these data do not show which. ${found.controls ? `Better than every control: ${found.proven.map(name).join(", ")}.` : "No control was measured here."}`;
    const rank = first.rank.low === null ? "" : `, rank ${first.rank.low}–${first.rank.high}`;
    return `With ${chosen}: ${name(found.first)} holds ${held}${rank}, and is shown to be better than each other entry that may win${found.controls ? ", and than every control" : "; no control was measured here"}.`;
  }

  /** Point the links against the first entry to the same choice on the compare page. */
  versus(index, picks, first = this.rows[0]?.label) {
    for (const { row, label } of this.rows) {
      const link = row.querySelector("a.versus");
      if (!link) continue;
      link.dataset.made ??= link.getAttribute("href");
      if (!index) { link.setAttribute("href", link.dataset.made); link.hidden = false; continue; }
      link.hidden = label === first;
      const words = new URLSearchParams({ c: this.root.dataset.index });
      words.append("e", first);
      words.append("e", label);
      const values = {};
      for (const { facets } of index.conditions) for (const [key, value] of Object.entries(facets)) (values[key] ??= new Set()).add(value);
      for (const [key, pick] of Object.entries(picks)) {
        if (!pick) continue;
        const facet = key === "attacker" ? this.facts.attacker : key;
        const kept = (value) => (key === "attacker" ? (value !== this.facts.unaware) === (pick === "aware") : value === pick);
        for (const value of values[facet] ?? []) if (!kept(value)) words.append(`without.${facet}`, value);
      }
      link.setAttribute("href", `${this.root.dataset.compare}#${words}`);
    }
  }
}

function svg(name, facts) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(facts)) made.setAttribute(key, value);
  return made;
}
const line = (kind, x1, x2, y1, y2) => svg("line", { class: kind, x1, x2, y1, y2 });

/** Map numbers to px with some room beside them. */
function fitted(numbers, start, end) {
  const known = numbers.filter((x) => Number.isFinite(x));
  const low = Math.min(...known), high = Math.max(...known), room = 0.06 * (high - low) || 0.06;
  return (x) => start + (x - low + room) / (high - low + 2 * room) * (end - start);
}

function dotOf(scale, { value, low, high }) {
  const made = low === null ? [] : [line("whisker", scale(low), scale(high), 8, 8)];
  return [...made, svg("circle", { cx: scale(value), cy: 8, r: 4.5 })];
}

function slopeOf(rise, unaware, aware) {
  const made = unaware && aware ? [line("", 8, 58, rise(unaware.value), rise(aware.value))] : [];
  if (unaware) made.push(svg("circle", { class: "before", cx: 8, cy: rise(unaware.value), r: 3.5 }));
  if (aware) made.push(svg("circle", { class: "after", cx: 58, cy: rise(aware.value), r: 3.5 }));
  return made;
}

function badge(kind, textContent, title) {
  return Object.assign(document.createElement("span"), { className: `badge ${kind}`, textContent, title });
}

for (const root of document.querySelectorAll(".contest")) new Ranking(root);
