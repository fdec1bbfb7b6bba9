// Tables can be sorted, filtered by text and facet, copied and compared; columns and intervals can be shown or hidden.
// The address of the page keeps the view. A table with many rows keeps only the visible ones in the page.
const MANY = 200; // rows
const LATEX_COLUMNS = 8; // the most that fit on a page of a paper
const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
let waiting = 0;

function remember(key, value) {
  if (value) state.set(key, value); else state.delete(key);
  clearTimeout(waiting);
  waiting = setTimeout(() => history.replaceState(null, "", state.size ? `#${state}` : location.pathname + location.search), 150);
}

function element(name, facts = {}, ...children) {
  const node = Object.assign(document.createElement(name), facts);
  node.append(...children);
  return node;
}

class View {
  constructor(table) {
    this.table = table;
    this.name = table.dataset.table;
    this.body = table.tBodies[0];
    this.heads = [...table.tHead.rows[0].cells];
    this.rows = [...this.body.rows].map((row, order) => ({
      row, order, text: row.textContent.toLowerCase(), label: row.dataset.label ?? row.cells[0].textContent.trim(),
      facets: JSON.parse(row.dataset.facets ?? "{}"),
      keys: [...row.cells].map((cell) => "v" in cell.dataset ? Number(cell.dataset.v) : cell.classList.contains("none") ? null : cell.textContent.trim()),
    }));
    this.visible = this.rows;
    this.query = "";
    this.chosen = {};
    this.hidden = new Set();
    this.picked = new Set();
    this.sorted = null;
    this.heads.forEach((head, i) => {
      const button = element("button", { type: "button" });
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => this.sort(i, this.sorted?.i === i ? !this.sorted.down : head.dataset.better === "higher"));
    });
    this.bar = element("div", { className: "tools", role: "group" });
    this.bar.setAttribute("aria-label", `Tools of ${table.dataset.title}`);
    if (this.rows.length > 3) this.tools();
    this.pane = table.closest(".scroll");
    this.pane.before(this.bar);
    if (this.rows.length > MANY) this.window();
    this.restore();
    this.update();
  }

  key(name) { return `${this.name}.${name}`; }

  tools() {
    const title = this.table.dataset.title;
    this.search = element("input", { type: "search", placeholder: "Filter", autocomplete: "off" });
    this.search.setAttribute("aria-label", `Filter ${title}`);
    this.search.addEventListener("input", () => { this.query = this.search.value; remember(this.key("q"), this.query); this.update(); });
    this.bar.append(this.search);
    this.selects = {};
    const facets = {};
    for (const { facets: of } of this.rows) for (const [name, value] of Object.entries(of)) (facets[name] ??= new Set()).add(value);
    for (const [name, values] of Object.entries(facets)) {
      if (values.size < 2) continue;
      const select = element("select");
      select.setAttribute("aria-label", `${name}, ${title}`);
      const texts = this.texts(name);
      select.append(new Option(`any ${name}`, ""), ...[...values].sort().map((v) => new Option(texts.get(v) ?? v, v)));
      select.addEventListener("change", () => { this.chosen[name] = select.value; remember(this.key(`f.${name}`), select.value); this.update(); });
      this.selects[name] = select;
      this.bar.append(select);
    }
    const details = element("button", { type: "button", textContent: "Intervals" });
    details.setAttribute("aria-pressed", "false");
    details.addEventListener("click", () => this.intervals(!this.table.classList.contains("details")));
    this.details = details;
    this.bar.append(details, this.columns(), this.copying());
    if (this.table.dataset.vectors) this.comparing();
    this.count = element("span", { className: "count" });
    this.count.setAttribute("role", "status");
    this.bar.append(this.count);
  }

  /** For a facet: value -> the text that the table shows for it. */
  texts(name) {
    const at = Math.max(0, this.heads.findIndex((head) => head.dataset.facet === name));
    const text = (row) => (row.cells[at].querySelector("a") ?? row.cells[at]).textContent.trim();
    const named = at || this.heads[0].textContent.trim().toLowerCase() === name;
    return new Map(named ? this.rows.map(({ row, facets }) => [facets[name], text(row)]) : []);
  }

  columns() {
    const menu = element("div", { className: "menu" });
    this.boxes = this.heads.slice(1).map((head, i) => {
      const box = element("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => { this.column(i + 1, box.checked); this.rememberColumns(); });
      menu.append(element("label", {}, box, ` ${head.innerText.trim()}`));
      return box;
    });
    return element("details", {}, element("summary", { textContent: "Columns" }), menu);
  }

  /** Show or hide a column. */
  column(i, on) {
    if (on) this.hidden.delete(i); else this.hidden.add(i);
    this.boxes[i - 1].checked = on;
    this.heads[i].hidden = !on;
    for (const { row } of this.rows) row.cells[i].hidden = !on;
  }

  rememberColumns() { remember(this.key("hide"), [...this.hidden].sort((a, b) => a - b).join(".")); }

  /** Show or hide the intervals. */
  intervals(on) {
    this.table.classList.toggle("details", on);
    this.details.setAttribute("aria-pressed", String(on));
    remember(this.key("ci"), on ? "1" : "");
    if (this.pad) { this.height = 0; this.position(); }
  }

  copying() {
    const menu = element("div", { className: "menu" });
    for (const form of ["CSV", "Markdown", "LaTeX"]) {
      const button = element("button", { type: "button", textContent: form });
      button.addEventListener("click", async () => {
        try { await navigator.clipboard.writeText(this.text(form)); button.textContent = `${form} copied`; }
        catch { button.textContent = `${form}: the browser refused`; }
        setTimeout(() => { button.textContent = form; }, 1500);
      });
      menu.append(button, " ");
    }
    return element("details", {}, element("summary", { textContent: "Copy" }), menu);
  }

  /** The visible rows and columns as CSV, Markdown or LaTeX. */
  text(form) {
    const chosen = this.heads.map((_, i) => i).filter((i) => !this.hidden.has(i));
    const plain = (cell) => {
      const copy = cell.cloneNode(true);
      copy.querySelectorAll(".more, .unseen, input").forEach((unseen) => unseen.remove());
      return copy.textContent.trim().replace(/\s+/g, " ");
    };
    const proxies = this.table.dataset.proxies ?? "", any = this.rows.some(({ row }) => row.dataset.standing);
    const remarks = (row) => [...(any ? [row.dataset.standing ?? ""] : []), ...(proxies ? [proxies] : [])];
    const heads = [...(any ? ["Standing"] : []), ...(proxies ? ["Proxies, do not cite"] : [])];
    const lines = [[...chosen.map((i) => plain(this.heads[i])), ...heads], ...this.visible.map(({ row }) => [...chosen.map((i) => plain(row.cells[i])), ...remarks(row)])];
    if (form === "CSV") {
      const guard = (v) => (/^[=+@\t-]/.test(v) && Number.isNaN(Number(v)) ? `'${v}` : v);
      return lines.map((line) => line.map((v) => `"${guard(v).replaceAll('"', '""')}"`).join(",")).join("\n");
    }
    if (form === "Markdown") {
      const safe = lines.map((line) => `| ${line.map((v) => v.replace(/[\\|<>`*_[\]]/g, "\\$&")).join(" | ")} |`);
      return [safe[0], `|${chosen.map((i) => (i ? " ---: |" : " --- |")).join("")}${heads.map(() => " --- |").join("")}`, ...safe.slice(1)].join("\n");
    }
    return this.latex(chosen, plain);
  }

  /** A table of at most eight columns, the sorted one among them, with the intervals of its numbers. */
  latex(chosen, plain) {
    const first = this.sorted && chosen.includes(this.sorted.i) ? [0, this.sorted.i] : [0];
    const columns = [...new Set([...first, ...chosen])].slice(0, LATEX_COLUMNS).sort((a, b) => a - b);
    const marks = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "–": "--", "↑": "$\\uparrow$", "↓": "$\\downarrow$", "<": "\\textless{}", ">": "\\textgreater{}" };
    const tex = (v) => v.replace(/[\\~^–↑↓<>]|[&%$#_{}]/g, (c) => marks[c] ?? `\\${c}`);
    const interval = (cell) => {
      const [, low, high] = /^\s*(-?[\d.]+) – (-?[\d.]+)/.exec(cell.querySelector(".more")?.textContent ?? "") ?? [];
      return low && "v" in cell.dataset ? ` {\\scriptsize [${low}, ${high}]}` : "";
    };
    const notes = [...new Set(this.visible.map(({ row }) => row.dataset.standing).filter(Boolean))];
    const raised = (row) => { const at = notes.indexOf(row.dataset?.standing); return at < 0 ? "" : `\\textsuperscript{${at + 1}}`; };
    const line = (row, cells, more) => `${columns.map((i, first) => tex(plain(cells[i])) + more(cells[i]) + (first ? "" : raised(row))).join(" & ")} \\\\`;
    const { title, caption, table: name, proxies } = this.table.dataset;
    const omitted = chosen.length - columns.length;
    return [
      "% needs \\usepackage{booktabs}",
      ...(omitted ? [`% ${omitted} more columns were left out: choose others with "Columns" on the page`] : []),
      "\\begin{table}", "\\centering",
      `\\caption{${tex(`${title.replace(/\.$/, "")}. ${caption}`)} In brackets: 95\\% intervals.}`,
      `\\label{tab:${name.replace(/[^A-Za-z0-9]+/g, "-")}}`,
      `\\begin{tabular}{l${"r".repeat(columns.length - 1)}}`, "\\toprule",
      line({}, this.heads, () => ""), "\\midrule",
      ...this.visible.map(({ row }) => line(row, row.cells, interval)),
      "\\bottomrule", "\\end{tabular}",
      ...notes.map((text, i) => `\\par{\\footnotesize \\textsuperscript{${i + 1}} ${tex(text)}.}`),
      ...(proxies ? [`\\par{\\footnotesize Proxies, do not cite: ${tex(proxies)}.}`] : []),
      "\\end{table}",
    ].join("\n");
  }

  /** Give each row a box to tick, and the page a link that compares the ticked rows. */
  comparing() {
    const link = element("a", { textContent: "Compare", hidden: true });
    const show = () => {
      const words = new URLSearchParams({ c: this.table.dataset.vectors });
      for (const label of this.picked) words.append("e", label);
      link.href = `${this.table.dataset.compare}#${words}`;
      link.textContent = `Compare ${this.picked.size}`;
      link.hidden = this.picked.size < 2;
    };
    for (const { row, label } of this.rows) {
      const box = element("input", { type: "checkbox" });
      box.setAttribute("aria-label", `Compare ${label}`);
      box.addEventListener("change", () => { if (box.checked) this.picked.add(label); else this.picked.delete(label); show(); });
      row.cells[0].prepend(box, " ");
    }
    this.bar.append(link);
  }

  sort(i, down) {
    this.heads.forEach((head) => head.removeAttribute("aria-sort"));
    this.heads[i].setAttribute("aria-sort", down ? "descending" : "ascending");
    this.sorted = { i, down };
    remember(this.key("sort"), `${i}${down ? "d" : "a"}`);
    this.update();
  }

  /** Take the view from the address. */
  restore() {
    const get = (name) => state.get(this.key(name)) ?? "";
    if (this.search) {
      this.search.value = this.query = get("q");
      for (const [name, select] of Object.entries(this.selects)) {
        select.value = get(`f.${name}`);
        this.chosen[name] = select.value;
      }
      if (get("ci")) this.intervals(true);
      for (const i of get("hide").split(".").filter(Boolean).map(Number)) if (i > 0 && i < this.heads.length) this.column(i, false);
    }
    const sort = /^(\d+)([ad])$/.exec(get("sort"));
    if (sort && Number(sort[1]) < this.heads.length) this.sort(Number(sort[1]), sort[2] === "d");
    if ([...state.keys()].some((key) => key.startsWith(`${this.name}.`))) {
      for (let up = this.table.closest("details"); up; up = up.parentElement.closest("details")) up.open = true;
    }
  }

  /** Filter and sort the rows, and show them. */
  update() {
    const words = this.query.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = Object.entries(this.chosen).filter(([, value]) => value);
    const visible = this.rows.filter(({ text, facets }) =>
      words.every((word) => text.includes(word)) && wanted.every(([name, value]) => facets[name] === value));
    if (this.sorted) {
      const { i, down } = this.sorted;
      visible.sort((a, b) => {
        const [x, y] = [a.keys[i], b.keys[i]];
        if (x === null || y === null) return (x === null) - (y === null) || a.order - b.order;
        const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
        return (down ? -order : order) || a.order - b.order;
      });
    }
    this.visible = visible;
    if (this.count) this.count.textContent = visible.length === this.rows.length ? `${visible.length} rows` : `${visible.length} of ${this.rows.length} rows`;
    if (this.pad) { this.pane.scrollTop = 0; this.position(); } else this.body.replaceChildren(...visible.map(({ row }) => row));
  }

  /** Prepare a long table, of which only the rows in sight are in the page: two empty rows stand for the others. */
  window() {
    const pad = () => element("tr", { className: "pad" }, element("td", { colSpan: this.heads.length }));
    const widths = this.heads.map((head) => head.offsetWidth);
    this.heads.forEach((head, i) => { head.style.minWidth = `${widths[i]}px`; });
    this.pad = [pad(), pad()];
    this.pad.forEach((row) => row.setAttribute("aria-hidden", "true"));
    this.table.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.pane.addEventListener("scroll", () => { cancelAnimationFrame(this.frame); this.frame = requestAnimationFrame(() => this.position()); });
    addEventListener("beforeprint", () => this.body.replaceChildren(...this.visible.map(({ row }) => row)));
    addEventListener("afterprint", () => this.position());
  }

  /** Put the rows in sight into the page, and size the empty rows above and below. */
  position() {
    if (!this.height) {
      this.body.replaceChildren(...this.visible.slice(0, 1).map(({ row }) => row));
      this.height = this.visible.length ? this.visible[0].row.getBoundingClientRect().height || 34 : 34;
    }
    const first = Math.max(0, Math.floor(this.pane.scrollTop / this.height) - 20);
    const last = Math.min(this.visible.length, first + Math.ceil((this.pane.clientHeight || 800) / this.height) + 40);
    this.pad[0].cells[0].style.height = `${first * this.height}px`;
    this.pad[1].cells[0].style.height = `${(this.visible.length - last) * this.height}px`;
    this.body.replaceChildren(this.pad[0], ...this.visible.slice(first, last).map(({ row }) => row), this.pad[1]);
  }
}

for (const table of document.querySelectorAll("table[data-table]")) new View(table);
for (const menu of document.querySelectorAll(".tools details")) {
  menu.addEventListener("keydown", (event) => { if (event.key === "Escape") { menu.open = false; menu.firstElementChild.focus(); } });
  document.addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
}
if (location.hash && !location.hash.includes("=")) {
  const aim = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (aim?.tagName === "DETAILS") aim.open = true;
}
