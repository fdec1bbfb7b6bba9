// The compare page: the reader picks entries and conditions, and the tests run here on the scores of each image.
import { pairedFigure } from "./paired.js";
import { FEWEST, groupsOf, headToHead, judged, numbersOf, pooled, tieGroups } from "./statistics.js";

const page = document.getElementById("compare");
const [which, find, boxes, counted, facets, result] = ["which", "find", "entries", "counted", "conditions", "result"].map((id) => document.getElementById(id));
const DRAWN = 6; // pairs
const vectors = new Map(), tables = new Map();
let choices = [], index = null, file = "", picked = new Set(), excluded = {}, turn = 0;

function element(name, facts = {}, ...children) {
  const node = Object.assign(document.createElement(name), facts);
  node.append(...children);
  return node;
}
const brief = (label) => index?.names[label] ?? label;
const p = (value) => (Number.isNaN(value) ? "not testable" : value < 1e-4 ? value.toExponential(1) : value.toFixed(4));
const both = (value) => (Number.isNaN(value) ? p(value) : `${p(value)} (${p(Math.min(value * index.pairs, 1))})`);
const fixed = (value, digits) => value.toFixed(digits).replace(/^-(?=[0.]*$)/, ""); // never "-0.00"
const around = ({ value, low, high }, digits) => fixed(value, digits) + (Number.isFinite(low) ? ` (${fixed(low, digits)} to ${fixed(high, digits)})` : "");

async function json(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return answer.json();
}

/** The scores of an entry, fetched once. */
async function vector(label) {
  const name = `${file.slice(0, file.lastIndexOf("/") + 1)}${index.files[index.entries.indexOf(label)]}`;
  if (!vectors.has(name)) vectors.set(name, fetch(name).then((a) => a.arrayBuffer()).then((b) => numbersOf(name, b)));
  return vectors.get(name);
}

/** Write the choice into the address. */
function remember() {
  const words = new URLSearchParams({ c: file });
  for (const label of picked) words.append("e", label);
  for (const [name, values] of Object.entries(excluded)) for (const value of values) words.append(`without.${name}`, value);
  const address = `#${words}`;
  if (address !== location.hash) history.pushState(null, "", address); // so that Back takes back a choice
}

/** A box to tick with its text; `change` is called with its new state. */
function check(text, checked, change) {
  const box = element("input", { type: "checkbox", checked });
  box.addEventListener("change", () => { change(box.checked); remember(); filter(); show(); });
  return element("label", {}, box, ` ${text}`);
}

/** The section with all measures of the picked entries, from their table; empty without one. */
async function sideBySide(labels) {
  const choice = choices.find((candidate) => candidate.file === file);
  if (!choice.table) return [];
  if (!tables.has(choice.table)) tables.set(choice.table, json(choice.table));
  const table = await tables.get(choice.table);
  const rows = labels.map((label) => table.rows.find((row) => row.label === label));
  if (rows.every((row) => !row)) return [];
  const text = (value, decimals) => {
    if (!value || value.value === null) return value?.missing || "–";
    return around(value, decimals);
  };
  const head = element("tr", {}, element("th", { scope: "col", textContent: "Measure" }), ...labels.map((label) => element("th", { scope: "col", textContent: brief(label) })));
  const body = table.columns.map((column) => element("tr", {},
    element("th", { scope: "row", textContent: column.label, title: column.description }),
    ...rows.map((row) => element("td", { textContent: row ? text(row.values[column.key], column.decimals) : "–" }))));
  const pane = element("div", { className: "scroll", tabIndex: 0 }, element("table", { className: "plain side" }, element("thead", {}, head), element("tbody", {}, ...body)));
  pane.setAttribute("role", "region");
  pane.setAttribute("aria-label", "Side by side");
  return [element("h2", { textContent: "Side by side" }), element("p", { className: "small", textContent: `${table.title}, all conditions.` }), pane];
}

/** Load a comparison by the address of its index, and show its entries and conditions. */
async function choose(name) {
  file = name;
  index = await json(name);
  picked = new Set([...picked].filter((label) => index.entries.includes(label)));
  if (picked.size < 2) for (const label of index.opened.length ? index.opened : listed().slice(0, 2)) picked.add(label);
  boxes.replaceChildren(...listed().map((label) => {
    const node = check(brief(label), picked.has(label), (on) => { if (on) picked.add(label); else picked.delete(label); });
    if (index.standing[label]) node.append(element("span", { className: "small", textContent: ` ${index.standing[label]}` }));
    node.title = label;
    return node;
  }));
  const values = {};
  for (const { facets: of } of index.conditions) for (const [k, v] of Object.entries(of)) (values[k] ??= new Set()).add(v);
  facets.replaceChildren();
  for (const [facet, ofFacet] of Object.entries(values)) {
    excluded[facet] ??= new Set();
    const row = element("div", { className: "facets", role: "group" });
    row.setAttribute("aria-label", facet);
    row.append(element("strong", { textContent: facet }));
    if (ofFacet.size === 1) row.append(brief([...ofFacet][0]));
    else for (const v of [...ofFacet].sort()) row.append(check(brief(v), !excluded[facet].has(v), (on) => { if (on) excluded[facet].delete(v); else excluded[facet].add(v); }));
    facets.append(row);
  }
  filter();
  await show();
}

/** All entries: first those that may win, then the others, each in the order of their means. */
function listed() {
  const all = index.groups.flat(), may = new Set(index.eligible);
  return [...all.filter((label) => may.has(label)), ...all.filter((label) => !may.has(label))];
}

/** Hide the entries that do not have the searched text; what is ticked stays in sight. */
function filter() {
  const words = find.value.toLowerCase();
  for (const label of boxes.children) label.hidden = !label.querySelector("input").checked && !`${label.title} ${label.textContent}`.toLowerCase().includes(words);
  const visible = [...boxes.children].filter((label) => !label.hidden).length;
  counted.textContent = `${visible === boxes.children.length ? "" : `${visible} of `}${several(boxes.children.length, "entry", "entries")}, ${picked.size} picked`;
}

/** What all entries have in common: each condition with a unit for which all have a score -> [unit, position of its scores] of these units. */
function shared(scores, conditions) {
  return new Map(conditions.flatMap((c) => {
    const at = index.unit_sets[index.conditions[c].units].map((unit, i) => [unit, index.starts[c] + i]);
    const common = at.filter(([, position]) => scores.every((vector) => Number.isFinite(vector[position])));
    return common.length ? [[c, common]] : [];
  }));
}

/** The mean score of an entry over what `shared` returns: of each unit the worst in a group of conditions, mean over groups, then over units. */
function mean(scores, common) {
  const sign = index.better === "higher" ? 1 : -1, total = new Map();
  for (const group of groupsOf(index, [...common.keys()])) {
    const worst = new Map();
    for (const c of group) for (const [unit, position] of common.get(c)) worst.set(unit, Math.min(worst.get(unit) ?? Infinity, sign * scores[position]));
    for (const [unit, gain] of worst) { const [sum, count] = total.get(unit) ?? [0, 0]; total.set(unit, [sum + sign * gain, count + 1]); }
  }
  return [...total.values()].reduce((all, [sum, count]) => all + sum / count, 0) / total.size;
}

/** The section on groups of entries that are not separated. `crossed[i][j]`: the pair of entries i and j, for i < j. */
function tied(labels, scores, crossed, conditions) {
  const common = shared(scores, conditions);
  const units = new Set([...common.values()].flat().map(([unit]) => unit)).size;
  const heading = element("h2", { textContent: "Tie groups" });
  if (!units) return [heading, element("p", { className: "note", textContent: `These entries have no ${index.unit} in common under any chosen condition, so they have no means that can be compared. Pick fewer.` })];
  const means = scores.map((vector) => mean(vector, common));
  const beats = (i, j) => { const pair = i < j ? crossed[i][j] : crossed[j][i]; return pair !== null && (i < j ? pair.judgement.verdict > 0 : pair.judgement.verdict < 0); };
  const sign = index.better === "higher" ? -1 : 1;
  const groups = tieGroups(labels.map((_, i) => i).sort((a, b) => sign * (means[a] - means[b])), beats);
  const item = (i) => { const node = element("span", { textContent: `${brief(labels[i])} (${fixed(means[i], index.decimals)})` }); node.dataset.mean = means[i]; node.dataset.label = labels[i]; return node; };
  return [
    heading,
    element("ol", { className: "groups" }, ...groups.map((g) => element("li", {}, ...g.flatMap((i, k) => (k ? [", ", item(i)] : [item(i)]))))),
    element("p", { className: "small", id: "basis", textContent: `Mean ${index.measure}, ${index.better} is better, over what all of them share: ${common.size} of ${several(conditions.length, "chosen condition")}, ${several(units, index.unit)}.${index.over.length ? ` Of each ${index.unit} the worst over ${index.over.join(", ")} counts.` : ""} Within a group, no entry is shown to be worse than the first.` }),
  ];
}

/** Compute the picked pairs under the chosen conditions, and write the result. */
async function show() {
  const mine = ++turn; // a later choice overtakes this one while scores are fetched
  const conditions = index.conditions.flatMap(({ facets: of }, i) => (Object.entries(of).every(([k, v]) => !excluded[k]?.has(v)) ? [i] : []));
  const labels = index.groups.flat().filter((label) => picked.has(label));
  if (labels.length < 2 || !conditions.length) {
    result.replaceChildren(element("p", { className: "note", textContent: labels.length < 2 ? "Pick at least two entries." : "Pick at least one condition." }));
    return;
  }
  const [beside, ...scores] = await Promise.all([sideBySide(labels), ...labels.map(vector)]);
  if (mine !== turn) return;
  const some = conditions.length < index.conditions.length;
  const crossed = labels.map((first, i) => labels.map((second, j) => {
    const pair = i < j ? headToHead(index, scores[i], scores[j], conditions, [first, second].some((label) => index.incomplete.includes(label))) : null;
    return pair && { ...pair, judgement: judged(index, first, second, pair.difference, some) };
  }));
  const pairs = crossed.flatMap((row, i) => row.flatMap((pair, j) => (pair ? [{ first: labels[i], second: labels[j], pair, of: [i, j] }] : [])));
  const figures = pairs.slice(0, DRAWN).map(({ first, second, pair, of: [i, j] }) => pairedFigure(index, brief(first), brief(second), pair, pooled(index, scores[i], scores[j], conditions, [first, second].some((label) => index.incomplete.includes(label)))));
  result.replaceChildren(
    element("h2", { textContent: `Paired differences, ${source()} by ${source()}` }),
    ...(index.proxies.length ? [element("p", { className: "note warn", textContent: `Proxies: ${index.proxies.join("; ")}; do not cite.` })] : []),
    ...figures,
    ...(pairs.length > DRAWN ? [element("p", { className: "small", textContent: `The first ${DRAWN} of ${pairs.length} pairs are drawn; the table below has all.` })] : []),
    ...tied(labels, scores, crossed, conditions),
    element("h2", { textContent: "Pair by pair" }),
    table(labels, crossed),
    element("p", { className: "small", textContent: `Release ${index.pool}: ${index.entries.length} entries, ${index.conditions.length} conditions. Whatever is picked here, the intervals of all pairs of entries cover at once with 95%, as on the page of the track; an entry is shown to be better where its interval is above 0.${narrower()} p is that of Wilcoxon's signed-rank test, one-sided, beside it corrected for ${several(index.pairs, "test")}: each entry against each other one.${byCluster()}` }),
    ...beside,
  );
}

const several = (n, what, more = `${what}s`) => `${n} ${n === 1 ? what : more}`;
const source = () => (index.clusters.length ? index.cluster_unit || "source" : index.unit);
/** Which intervals count before those of all pairs. */
const narrower = () => (index.stated ? ` While all conditions are picked, what the ranking has asked counts before that: whether an entry is better than ${index.stated.name}, by intervals that hold for all entries against it at once, and whether a winner is better than each other entry.` : "");
const byCluster = () => (index.clusters.length ? ` ${index.unit}s of one ${source()} are not independent: tests and intervals take each ${source()} as one, and need at least ${FEWEST} of them.`.replace(/ ./, (start) => start.toUpperCase()) : "");

/** The table of all pairs; `crossed` as in `tied`. */
function table(labels, crossed) {
  const heads = ["First", "Second", `${index.measure}: advantage of the first`, "Effect size", "p, first better (corrected)", "p, second better (corrected)", `n (${index.unit}s)`, "Ahead in conditions"];
  const body = element("tbody");
  for (let i = 0; i < labels.length; i++) for (let j = i + 1; j < labels.length; j++) {
    const pair = crossed[i][j];
    const cells = pair === null ? [`no ${index.unit} in common`, "", "", "", "", ""] : [
      around(pair.judgement.difference, index.decimals), pair.effect.toFixed(2), both(pair.better), both(pair.worse),
      pair.clusters === null ? String(pair.n) : `${pair.n} of ${pair.clusters} ${source()}${pair.clusters === 1 ? "" : "s"}`, `${pair.ahead} of ${pair.met}`];
    const row = element("tr", {}, element("th", { scope: "row", textContent: brief(labels[i]) }), ...[brief(labels[j]), ...cells].map((textContent) => element("td", { textContent })));
    if (pair !== null) row.dataset.raw = JSON.stringify(pair);
    row.dataset.pair = JSON.stringify([labels[i], labels[j]]);
    body.append(row);
  }
  const pane = element("div", { className: "scroll", tabIndex: 0 }, element("table", { className: "plain" }, element("thead", {}, element("tr", {}, ...heads.map((textContent) => element("th", { scope: "col", textContent })))), body));
  pane.setAttribute("role", "region");
  pane.setAttribute("aria-label", "Pair by pair");
  return pane;
}

/** Show what the address says; without it the first comparison. */
async function open() {
  const state = new URLSearchParams(location.hash.slice(1));
  const wanted = choices.find((choice) => choice.file === state.get("c")) ?? choices[0];
  if (!wanted) { result.append(element("p", { className: "note", textContent: "No track has scores to compare." })); return; }
  picked = new Set(state.getAll("e"));
  excluded = {};
  for (const [key, value] of state) if (key.startsWith("without.")) (excluded[key.slice(8)] ??= new Set()).add(value);
  which.value = wanted.file;
  await choose(wanted.file);
}

function failed(error) {
  page.hidden = false;
  page.replaceChildren(element("p", { className: "note", textContent: `The scores cannot be read (${error.message}). If you opened the site from a folder on disk, start “harness site serve” instead.` }));
}

try {
  choices = await json(page.dataset.index);
  for (const choice of choices) which.append(new Option(`${choice.track}: ${choice.title}`, choice.file));
  page.hidden = false;
  which.addEventListener("change", async () => { picked = new Set(); excluded = {}; await choose(which.value); remember(); });
  find.addEventListener("input", filter);
  addEventListener("hashchange", () => open().catch(failed));
  await open();
} catch (error) {
  failed(error);
}
