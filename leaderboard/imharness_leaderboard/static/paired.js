// The drawing of a pair on the compare page: how far the first entry is ahead of the second, a dot for each independent unit.
import { clusterMeans } from "./statistics.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 640, SIDE = 14, STEP = 7, RADIUS = 3.2; // px
const TALLEST = 14; // dots above each other

function svg(name, facts, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(facts)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const fixed = (value, digits) => value.toFixed(digits).replace(/^-(?=[0.]*$)/, ""); // never "-0.00"
const several = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

/** The independent units of a pair, from `pooled`: name and advantage of each; an advantage that may be 0 but for rounding is 0. */
function pointsOf(index, { values, names, units, nearest }) {
  const means = clusterMeans(values, names).map((value) => (Math.abs(value) > nearest ? value : 0));
  if (!names) return means.map((value, i) => ({ name: index.units[units[i]], value }));
  return [...new Set(names)].map((code, i) => ({ name: index.cluster_names[code], value: means[i] }));
}

/** Round numbers between two ends, at most seven of them. */
function ticks(low, high) {
  const raw = (high - low) / 6, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((x) => x * power).find((x) => x >= raw);
  const ticks = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) ticks.push(k * step);
  return { ticks, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

/** What is seen, in a sentence: on how many units the first is ahead, by how much, and whether that is shown. */
function sentence(index, first, second, { judgement: { verdict, difference: { value, low, high } } }, points, unit) {
  const ahead = points.filter((point) => point.value > 0).length, behind = points.filter((point) => point.value < 0).length;
  const mean = `${fixed(value, index.decimals)}${Number.isFinite(low) ? ` [${fixed(low, index.decimals)}, ${fixed(high, index.decimals)}]` : ""}`;
  const words = verdict > 0 ? `${first} is shown to be better than ${second}` : verdict < 0 ? `${second} is shown to be better than ${first}` : `${first} is not separated from ${second}`;
  return `${words}. ${first} is ahead on ${ahead} and behind on ${behind} of ${several(points.length, unit)}, by ${mean} on average.`;
}

/** A figure of a pair: a dot for each unit, the mean with its interval above them, the numbers as a file below. */
export function pairedFigure(index, first, second, pair, pooledPair) {
  const unit = index.clusters.length ? index.cluster_unit || "source" : index.unit;
  const points = pointsOf(index, pooledPair), { value, low, high } = pair.judgement.difference;
  const ends = [0, value, low, high, ...points.map((point) => point.value)].filter(Number.isFinite);
  const room = 0.04 * (Math.max(...ends) - Math.min(...ends)) || 0.5;
  const least = Math.min(...ends) - room, most = Math.max(...ends) + room;
  const x = (number) => SIDE + (number - least) / (most - least) * (WIDTH - 2 * SIDE);
  const stacks = new Map();
  const dots = [...points].sort((a, b) => a.value - b.value).map((point) => {
    const column = Math.round(x(point.value) / STEP), level = stacks.get(column) ?? 0;
    stacks.set(column, level + 1);
    return { ...point, column, level };
  });
  const tall = Math.max(1, ...stacks.values()), step = Math.min(STEP, STEP * TALLEST / tall), base = 44 + step * tall;
  const marks = ticks(least, most);
  const drawing = svg("svg", { class: "paired", viewBox: `0 0 ${WIDTH} ${base + 40}`, role: "img", "aria-label": sentence(index, first, second, pair, points, unit) },
    ...marks.ticks.flatMap((tick) => [
      svg("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 8, y2: base }),
      svg("text", { class: "tick", x: x(tick), y: base + 15, "text-anchor": "middle" }, fixed(tick, marks.digits)),
    ]),
    svg("line", { class: "zero", x1: x(0), x2: x(0), y1: 4, y2: base }),
    ...dots.map((point) => svg("circle", { class: point.value > 0 ? "ahead" : point.value < 0 ? "behind" : "even", cx: point.column * STEP, cy: base - step * (point.level + 0.5), r: RADIUS },
      svg("title", {}, `${point.name}: ${fixed(point.value, index.decimals)}`))),
    ...(Number.isFinite(low) ? [svg("line", { class: "whisker", x1: x(low), x2: x(high), y1: 18, y2: 18 })] : []),
    svg("circle", { class: "mean", cx: x(value), cy: 18, r: 5 }),
    svg("text", { class: "axis", x: SIDE, y: base + 33 }, `← ${second} better`),
    svg("text", { class: "axis", x: WIDTH - SIDE, y: base + 33, "text-anchor": "end" }, `${first} better →`),
  );
  const figure = Object.assign(document.createElement("figure"), { className: "pair" });
  const head = Object.assign(document.createElement("figcaption"), {});
  head.append(Object.assign(document.createElement("strong"), { textContent: sentence(index, first, second, pair, points, unit) }));
  const note = Object.assign(document.createElement("p"), { className: "small", textContent: `Each dot is a ${unit}: the advantage of the first in ${index.measure}. Above: the mean with its 95% interval, which holds ${pair.judgement.holds}. Source: ${index.pool}. ` });
  note.append(Object.assign(document.createElement("a"), { textContent: "Numbers (CSV)", download: "paired.csv", href: URL.createObjectURL(new Blob([table(index, first, second, points, unit)], { type: "text/csv" })) }));
  figure.append(head, drawing, note);
  return figure;
}

/** The numbers of a figure as CSV; a text that a spreadsheet would take for a formula gets a quote in front. */
function table(index, first, second, points, unit) {
  const cell = (text) => `"${(/^[=+@\t-]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
  const lines = points.map((point) => `${cell(String(point.name))},${point.value},${cell(index.proxies.join("; "))}`);
  return [[unit, `${index.measure}: advantage of ${first} over ${second}`, "proxies"].map(cell).join(","), ...lines].join("\n") + "\n";
}
