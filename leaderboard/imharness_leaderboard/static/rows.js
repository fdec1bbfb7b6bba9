// The rows of a ranking. Those of its first part stand in the page. Of a long ranking an index is fetched once, when it is
// sorted, filtered or paged first; its rows are taken, when they are shown first, from the pages that readers without scripts see.
export const PAGE = 50; // rows
export const brief = (label) => label.replaceAll("harness/", "");

const taken = async (address) => { const answer = await fetch(address); if (!answer.ok) throw new Error(`${address}: ${answer.status}`); return answer; };

/** Make the addresses in a fetched part of a page absolute; those within a drawing stay. */
export function settled(part, address) {
  for (const key of ["href", "src"]) for (const one of part.querySelectorAll(`[${key}]`)) {
    const own = one.getAttribute(key);
    if (!own.startsWith("#")) one.setAttribute(key, new URL(own, address).href);
  }
  return part;
}

export class Rows {
  /** `made` is called with each row that is there now: its facts, among them `row`, the element. */
  constructor(body, facts, root, made) {
    Object.assign(this, { facts, root, made, whole: !facts.rows, all: [], pages: [] });
    this.by = new Map();
    for (const row of body.querySelectorAll("tr.entry")) {
      const number = (name) => { const { v } = row.querySelector(name).dataset; return v === undefined ? NaN : Number(v); };
      this.bring(this.add({ label: row.dataset.label, group: row.dataset.group, worst: number(".value"), utility: number(".utility .number"), words: row.querySelector(".notes").textContent }), row);
    }
    this.count = facts.count;
  }

  add(facts) {
    const own = { ...facts, order: this.all.length, first: facts.group, row: null, more: null };
    own.text = `${this.name(own.label)} ${own.label} ${own.words}`.toLowerCase();
    this.all.push(own);
    this.by.set(own.label, own);
    return own;
  }

  name(label) { return this.facts.names[label] ?? brief(label); }

  bring(own, row) {
    own.row = row;
    own.cells = [...row.cells].filter((cell) => cell.tagName === "TD");
    own.as = own.cells.map((cell) => cell.innerHTML);
    own.notes = row.querySelector(".notes").innerHTML;
    this.made(own);
  }

  get here() { return this.all.filter(({ row }) => row); }

  /** Fetch the index, so that every row is known. */
  async know() {
    if (this.whole) return;
    this.asked ??= taken(this.root + this.facts.rows).then((answer) => answer.json());
    let index;
    try { index = await this.asked; } catch (error) { this.asked = null; throw error; }
    if (this.whole) return;
    const { labels } = index, of = (list, change = (x) => x) => Object.fromEntries(labels.map((label, i) => [label, change(list[i], i)]));
    Object.assign(this.facts, {
      names: of(index.names), silent: index.silent,
      places: of(index.control, (control, i) => ({ control, able: Boolean(index.able[i]), flagged: Boolean(index.flagged[i]), complete: Boolean(index.complete[i]) })),
    });
    const groups = this.facts.groups.map(([name]) => name);
    labels.forEach((label, i) => { if (!this.by.has(label)) this.add({ label, group: groups[index.groups[i]], worst: index.worst[i] ?? NaN, utility: index.utility[i] ?? NaN, words: index.words[i] }); });
    this.pages = index.pages;
    this.whole = true;
  }

  /** Fetch those of some rows that are not here yet. */
  async take(wanted) {
    const parts = new Set(wanted.filter(({ row }) => !row).map(({ order }) => Math.floor(order / PAGE)));
    await Promise.all([...parts].map(async (part) => {
      const answer = await taken(this.root + this.pages[part]);
      const body = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("table.ranking").tBodies[0];
      for (const row of settled(body, answer.url).querySelectorAll("tr.entry")) {
        const own = this.by.get(row.dataset.label);
        if (own && !own.row) this.bring(own, document.adoptNode(row));
      }
    }));
  }
}
