// The rows of a ranking. Those of its first part stand in the page. Of a long ranking an index is fetched once, when it is
// sorted, filtered or paged first; its rows are taken, when they are shown first, from the pages that readers without scripts see.
export const PAGE = 50; // rows
export const brief = (label) => label.replaceAll("harness/", "");

const taken = async (address) => { const answer = await fetch(address); if (!answer.ok) throw new Error(`${address}: ${answer.status}`); return answer; };

/** Make the addresses in a fetched part of a page absolute; those within a drawing stay. */
export function settled(fragment, address) {
  for (const key of ["href", "src"]) for (const one of fragment.querySelectorAll(`[${key}]`)) {
    const relative = one.getAttribute(key);
    if (!relative.startsWith("#")) one.setAttribute(key, new URL(relative, address).href);
  }
  return fragment;
}

export class Rows {
  /** `entered` is called with each row that is there now: its facts, among them `row`, the element. */
  constructor(body, facts, root, entered) {
    Object.assign(this, { facts, root, entered, whole: !facts.rows, all: [], pages: [] });
    this.by = new Map();
    for (const row of body.querySelectorAll("tr.entry")) {
      const number = (name) => { const { v } = row.querySelector(name).dataset; return v === undefined ? NaN : Number(v); };
      this.bring(this.add({ label: row.dataset.label, group: row.dataset.group, near: row.classList.contains("near"), worst: number(".value"), utility: number(".utility .number"), words: row.querySelector(".notes").textContent }), row);
    }
    this.count = facts.count;
  }

  add(facts) {
    const entry = { ...facts, order: this.all.length, first: facts.group, row: null, more: null };
    entry.text = `${this.name(entry.label)} ${entry.label} ${entry.words}`.toLowerCase();
    this.all.push(entry);
    this.by.set(entry.label, entry);
    return entry;
  }

  name(label) { return this.facts.names[label] ?? brief(label); }

  bring(entry, row) {
    entry.row = row;
    entry.cells = [...row.cells].filter((cell) => cell.tagName === "TD");
    entry.as = entry.cells.map((cell) => cell.innerHTML);
    entry.notes = row.querySelector(".notes").innerHTML;
    entry.reason = row.querySelector(".reason").textContent;
    this.entered(entry);
  }

  get here() { return this.all.filter(({ row }) => row); }

  /** Fetch the index, so that every row is known. */
  async know() {
    if (this.whole) return;
    this.request ??= taken(this.root + this.facts.rows).then((answer) => answer.json());
    let index;
    try { index = await this.request; } catch (error) { this.request = null; throw error; }
    if (this.whole) return;
    const { labels } = index, of = (list, change = (x) => x) => Object.fromEntries(labels.map((label, i) => [label, change(list[i], i)]));
    Object.assign(this.facts, {
      names: of(index.names), silent: index.silent,
      places: of(index.control, (control, i) => ({ control, able: Boolean(index.able[i]), flagged: Boolean(index.flagged[i]), complete: Boolean(index.complete[i]), reason: index.reason[i] })),
    });
    const groups = this.facts.groups.map(([name]) => name);
    labels.forEach((label, i) => { if (!this.by.has(label)) this.add({ label, group: groups[index.groups[i]], near: Boolean(index.near[i]), worst: index.worst[i] ?? NaN, utility: index.utility[i] ?? NaN, words: index.words[i] }); });
    this.pages = index.pages;
    this.whole = true;
  }

  /** Fetch those of some rows that are not here yet. */
  async take(wanted) {
    const numbers = new Set(wanted.filter(({ row }) => !row).map(({ order }) => Math.floor(order / PAGE)));
    await Promise.all([...numbers].map(async (number) => {
      const answer = await taken(this.root + this.pages[number]);
      const body = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("table.ranking").tBodies[0];
      for (const row of settled(body, answer.url).querySelectorAll("tr.entry")) {
        const entry = this.by.get(row.dataset.label);
        if (entry && !entry.row) this.bring(entry, document.adoptNode(row));
      }
    }));
  }
}
