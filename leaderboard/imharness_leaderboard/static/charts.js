// The drawings of a ranking that follow what a reader picks: the lane of each row, the axis above them, and protection
// against utility. The same forms are written by Python in interval_rows.py and pareto.py.
const SVG = "http://www.w3.org/2000/svg";
export const WIDTH = 320;

export function svg(name, facts, text = "") {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(facts)) node.setAttribute(key, value);
  node.textContent = text;
  return node;
}

/** A scale: `at` maps numbers to px, from `start` to `end` with some room at both ends, and `ticks` are round numbers on it. */
export function scaled(numbers, start, end, margin = 0.02) {
  const finite = numbers.filter(Number.isFinite);
  const least = finite.length ? Math.min(...finite) : 0, most = finite.length ? Math.max(...finite) : 1;
  const room = margin * (most - least) || margin * Math.max(Math.abs(most), 1), low = least - room, high = most + room;
  const at = (x) => start + (x - low) / (high - low) * (end - start);
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++) ticks.push(Number((i * step).toPrecision(10)));
  return { at, ticks };
}

/** The lines of the controls, which all lanes share. */
export function linesOf(at, controls) {
  return controls.map(({ value, plain }) => svg("line", { class: plain ? "plain" : "reference", x1: at(value), x2: at(value), y1: -40, y2: 68 }));
}

/** What a row shows in its lane: the interval, a hollow dot for the attacker who does not know the entry, and a dot. `at`: number -> px. */
export function lane(at, row) {
  const nodes = [], { worst, unaware } = row ?? {};
  if (worst && Number.isFinite(worst.low ?? NaN)) nodes.push(svg("line", { class: "whisker", x1: at(worst.low), x2: at(worst.high), y1: 14, y2: 14 }));
  if (unaware) nodes.push(svg("circle", { class: "hollow", cx: at(unaware.value), cy: 14, r: 4.5 }));
  if (worst) nodes.push(svg("circle", { class: "dot", cx: at(worst.value), cy: 14, r: 5 }));
  return nodes;
}

/** The head of the lanes: their numbers, and what the solid line of a control is. */
export function axis(scale, lines, baseline) {
  const plain = lines.find((line) => line.plain);
  const ticks = svg("g", { class: "ticks" });
  ticks.append(...scale.ticks.map((t) => svg("text", { x: scale.at(t), y: 28, "text-anchor": "middle" }, String(t))));
  return [ticks, ...(plain ? [svg("text", { class: "plain", x: Math.min(Math.max(scale.at(plain.value), 40), WIDTH - 40), y: 12, "text-anchor": "middle" }, baseline)] : [])];
}

/** The drawing of protection against utility. When a reader chooses settings, marks move up or down to the new protection; utility stays. */
export class Front {
  constructor(figure, lower) {
    this.drawn = figure.querySelector("svg.front");
    this.lower = lower;
    this.frame = this.drawn.dataset.frame.split(" ").map(Number);
    this.original = this.drawn.innerHTML;
    this.head = figure.querySelector("h3");
    this.summary = figure.querySelector("figcaption .all");
    this.title = this.head.textContent;
  }

  mark(label) { return [...this.drawn.querySelectorAll("[data-label]")].filter((one) => one.dataset.label === label); }

  /** Emphasise the marks of an entry, or stop. */
  light(label, on) { for (const one of this.mark(label)) one.classList.toggle("on", on); }

  reset() {
    this.drawn.innerHTML = this.original;
    this.head.textContent = this.title;
    this.summary.hidden = false;
  }

  /**
   * Show other numbers of protection. `rows`: label -> {value, low, high, text}; marks without a number vanish, and so does the
   * line of the front. `utility`: label -> the utility of an entry, for those that have no mark of their own.
   */
  show(rows, title, utility) {
    this.reset();
    this.head.textContent = title;
    this.summary.hidden = true;
    const [x, top, width, height] = this.frame, ends = [top + height, top];
    const scale = scaled([...rows.values()].flatMap(({ value, low, high }) => [value, low, high]), ...(this.lower ? ends.reverse() : ends), 0.08);
    this.drawn.querySelector(".joined")?.remove();
    this.drawn.querySelector(".levels").replaceChildren(...scale.ticks.flatMap((t) => [
      svg("line", { class: "grid", x1: x, x2: x + width, y1: scale.at(t), y2: scale.at(t) }),
      svg("text", { class: "tick", x: x - 6, y: scale.at(t) + 4, "text-anchor": "end" }, String(t)),
    ]));
    this.rest(rows, scale.at, utility);
    const moved = new Map();
    for (const one of this.drawn.querySelectorAll("[data-label]")) {
      const row = rows.get(one.dataset.label), bar = one.classList.contains("whisker");
      if (!row || (bar && !Number.isFinite(row.low ?? NaN))) { one.remove(); continue; }
      if (bar) { one.setAttribute("y1", scale.at(row.low)); one.setAttribute("y2", scale.at(row.high)); continue; }
      const key = one.tagName === "circle" ? "cy" : "y", before = Number(one.getAttribute(key)), after = scale.at(row.value) - (key === "y" ? 4.5 : 0);
      one.setAttribute(key, after);
      const name = one.querySelector("title").textContent.split(":")[0];
      one.querySelector("title").textContent = `${name}: ${row.text}`;
      moved.set(name, after - before);
    }
    this.labels(moved);
  }

  /** Draw the entries that have no mark of their own, as dots. */
  rest(rows, at, utility) {
    const drawn = this.drawn.querySelector(".rest"), [low, high, start, end] = this.drawn.dataset.across.split(" ").map(Number);
    if (!drawn) return;
    const marked = new Set([...this.drawn.querySelectorAll(".mark")].map((one) => one.dataset.label));
    const unmarked = [...rows].filter(([label]) => !marked.has(label) && Number.isFinite(utility(label)));
    drawn.setAttribute("d", unmarked.map(([label, { value }]) => `M${start + (utility(label) - low) / (high - low) * (end - start)} ${at(value)}h0`).join(""));
  }

  /** Labels go along with their marks; one that would cover another one, or leave the frame, is left out. */
  labels(moved) {
    const [, top, , height] = this.frame, taken = [];
    for (const text of this.drawn.querySelectorAll("text.label")) {
      const shift = moved.get(text.textContent), y = Number(text.getAttribute("y")) + (shift ?? 0), long = text.getComputedTextLength();
      const x = Number(text.getAttribute("x")) - { start: 0, middle: long / 2, end: long }[text.getAttribute("text-anchor")];
      const box = [x, y - 10, x + long, y + 3], free = taken.every(([a, b, c, d]) => box[2] < a || c < box[0] || box[3] < b || d < box[1]);
      if (shift === undefined || y < top + 10 || y > top + height || !free) { text.remove(); continue; }
      text.setAttribute("y", y);
      taken.push(box);
    }
  }
}
