// The rows of a ranking. The first rows are in the page. Of a long ranking, an index of all rows is fetched when a reader first
// sorts, filters or turns a page. Further rows are fetched when they are first shown, from the pages that readers without
// scripts see.
export const PAGE = 50; // rows
export const brief = (label) => label.replaceAll("harness/", "");

async function fetched(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  return answer;
}

/** Make the addresses in a fetched part of a page absolute; those within a drawing stay. */
export function withAbsoluteAddresses(fragment, address) {
  for (const key of ["href", "src"]) {
    for (const one of fragment.querySelectorAll(`[${key}]`)) {
      const relative = one.getAttribute(key);
      if (!relative.startsWith("#")) one.setAttribute(key, new URL(relative, address).href);
    }
  }
  return fragment;
}

/** The number in an element's data-v; NaN where it has none. */
function numberIn(row, selector) {
  const { v } = row.querySelector(selector).dataset;
  return v === undefined ? NaN : Number(v);
}

/**
 * The entries of a ranking, in its order. Of each: label, group, near, worst, utility and words, as the index has them;
 * `firstGroup`, the group under all settings; `order`; `text`, which the filter searches; and `row`, its element, or null while
 * it is not in the page. An entry in the page has also what its row was under all settings: `cells` with their `html`, `notes`
 * and `reason`; and `more`, the row of its details once it was opened.
 */
export class Rows {
  /** `onRow` is called with each entry whose row came into the page. */
  constructor(body, facts, root, onRow) {
    Object.assign(this, { facts, root, onRow, knowsAll: !facts.rows, all: [], byLabel: new Map(), pages: [], count: facts.count });
    for (const row of body.querySelectorAll("tr.entry")) {
      const entry = this.add({
        label: row.dataset.label,
        group: row.dataset.group,
        near: row.classList.contains("near"),
        worst: numberIn(row, ".value"),
        utility: numberIn(row, ".utility .number"),
        words: row.querySelector(".notes").textContent,
      });
      this.attach(entry, row);
    }
  }

  add(facts) {
    const entry = { ...facts, order: this.all.length, firstGroup: facts.group, row: null, more: null };
    entry.text = `${this.name(entry.label)} ${entry.label} ${entry.words}`.toLowerCase();
    this.all.push(entry);
    this.byLabel.set(entry.label, entry);
    return entry;
  }

  name(label) { return this.facts.names[label] ?? brief(label); }

  attach(entry, row) {
    entry.row = row;
    entry.cells = [...row.cells].filter((cell) => cell.tagName === "TD");
    entry.html = entry.cells.map((cell) => cell.innerHTML);
    entry.notes = row.querySelector(".notes").innerHTML;
    entry.reason = row.querySelector(".reason").textContent;
    this.onRow(entry);
  }

  get inPage() { return this.all.filter(({ row }) => row); }

  /** Fetch the index, unless every entry is known already. */
  async fetchIndex() {
    if (this.knowsAll) return;
    this.request ??= fetched(this.root + this.facts.rows).then((answer) => answer.json());
    let index;
    try { index = await this.request; } catch (error) { this.request = null; throw error; }
    if (this.knowsAll) return; // another call waited for the same index
    const groups = this.facts.groups.map(([name]) => name);
    Object.assign(this.facts, { names: {}, places: {}, silent: index.silent });
    index.labels.forEach((label, i) => {
      this.facts.names[label] = index.names[i];
      this.facts.places[label] = {
        control: index.control[i],
        able: Boolean(index.able[i]),
        flagged: Boolean(index.flagged[i]),
        complete: Boolean(index.complete[i]),
        reason: index.reason[i],
      };
      if (this.byLabel.has(label)) return;
      this.add({
        label,
        group: groups[index.groups[i]],
        near: Boolean(index.near[i]),
        worst: index.worst[i] ?? NaN,
        utility: index.utility[i] ?? NaN,
        words: index.words[i],
      });
    });
    this.pages = index.pages;
    this.knowsAll = true;
  }

  /** Fetch the rows of some entries that are not in the page yet. */
  async fetchRows(entries) {
    const numbers = new Set(entries.filter(({ row }) => !row).map(({ order }) => Math.floor(order / PAGE)));
    await Promise.all([...numbers].map(async (number) => {
      const answer = await fetched(this.root + this.pages[number]);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const body = withAbsoluteAddresses(page.querySelector("table.ranking").tBodies[0], answer.url);
      for (const row of body.querySelectorAll("tr.entry")) {
        const entry = this.byLabel.get(row.dataset.label);
        if (entry && !entry.row) this.attach(entry, document.adoptNode(row));
      }
    }));
  }
}
