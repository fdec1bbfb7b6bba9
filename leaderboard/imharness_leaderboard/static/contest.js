// The same ranking as imharness.ranking.contest, on the settings that a reader chooses. Intervals of differences are those
// of the comparison: their level is frozen with the leaderboard.
import { Pairs, slices } from "./differences.js";
import { FEWEST, groupsOf, hash, LEVEL, meanAlone, nestedInterval, percentile, RESAMPLES } from "./statistics.js";

const draws = new Map();
/** Resamples of k clusters: for each, how often each cluster is drawn. */
function drawn(k) {
  if (!draws.has(k)) {
    const resamples = [];
    for (let r = 1; r <= RESAMPLES; r++) {
      const counts = new Uint16Array(k), row = hash(r);
      for (let i = 0; i < k; i++) counts[Math.floor(hash(row + i | 0) * k / 4294967296)]++;
      resamples.push(counts);
    }
    draws.set(k, resamples);
  }
  return draws.get(k);
}

/** Codes of names in the order of first appearance, and how many there are. */
function coded(names) {
  const positions = new Map();
  const codes = Int32Array.from(names, (name) => { if (!positions.has(name)) positions.set(name, positions.size); return positions.get(name); });
  return { codes, size: positions.size };
}

/** The sum of the products of two lists. */
const dot = (a, b) => { let sum = 0; for (let i = 0; i < a.length; i++) sum += a[i] * b[i]; return sum; };

/**
 * Weighted mean of the finite numbers with the interval of resampled units, or of clusters; null without any. `nested`: the
 * group and the stratum of each unit, whose interval is by their variances.
 */
export function meanValue(numbers, clusters, weights, alphas, nested) {
  const measured = [...numbers.keys()].filter((u) => Number.isFinite(numbers[u]));
  if (!measured.length) return null;
  if (nested) {
    const { value, low, high } = nestedInterval(measured.map((u) => numbers[u]), ...[0, 1].map((i) => measured.map((u) => nested[u][i])));
    return { value, ...(low < high ? { low, high } : { low: null, high: null }), n: measured.length, clusters: null };
  }
  const { codes, size } = coded(measured.map((u) => (clusters ? clusters[u] : u)));
  const sums = new Float64Array(size), sizes = new Float64Array(size);
  let total = 0, all = 0;
  measured.forEach((u, i) => {
    const weight = weights ? weights[u] : 1;
    sums[codes[i]] += weight * numbers[u]; sizes[codes[i]] += weight; total += weight * numbers[u]; all += weight;
  });
  const alpha = size < FEWEST ? NaN : (alphas[size] ?? (1 - LEVEL) / 2);
  const result = { value: total / all, low: null, high: null, n: measured.length, clusters: clusters ? size : null };
  if (!Number.isFinite(alpha)) return result;
  const estimates = Float64Array.from(drawn(size), (counts) => dot(counts, sums) / dot(counts, sizes)).sort();
  const low = percentile(estimates, alpha), high = percentile(estimates, 1 - alpha);
  return low < high ? { ...result, low, high } : result;
}

/**
 * Positions of the conditions that a reader's choice leaves; `picks`: facet -> value, and attacker -> unaware or aware. A
 * facet that has one value in the whole comparison, such as the metric of a secondary measure, is no choice.
 */
export function conditionsOf(index, facts, picks) {
  const alone = (key) => new Set(index.conditions.map(({ facets }) => facets[key])).size < 2;
  picks = Object.fromEntries(Object.entries(picks).filter(([key]) => key === "attacker" || !alone(key)));
  return index.conditions.flatMap(({ facets }, c) => {
    const aware = facets[facts.attacker] !== facts.unaware;
    const matches = Object.entries(picks).every(([key, value]) => !value || (key === "attacker" ? aware === (value === "aware") : facets[key] === value));
    return matches ? [c] : [];
  });
}

/**
 * The contest on some conditions. `vectors`: the scores of each entry of the index. `facts`: the rules, from ranking_script.py.
 * `others`: index, vectors and conditions of the secondary measures. Where one attack was chosen for each entry
 * (`facts.chosen`), the index has the numbers of that attack alone: nothing is known of attackers that do not know the entry,
 * nor of the attack that broke it. Thousands of entries take seconds: `breath` is awaited between parts of the work.
 *
 * Names: e is the position of an entry, c that of a condition, i that of a unit in the condition, and u its position among the
 * units of all settings (`names`).
 */
export async function contest(index, vectors, facts, conditions, others = [], breath = slices()) {
  const sign = index.better === "higher" ? 1 : -1;
  const units = (c) => index.unit_sets[index.conditions[c].units];
  const score = (e, c, i) => vectors[e][index.starts[c] + i];
  // where an entry met an attack that gave no number, such as one that did not converge: that does not make it incomplete
  const silent = index.entries.map((label) => new Set(facts.silent[label] ?? []));
  const met = (e, c, i) => Number.isFinite(score(e, c, i)) || silent[e].has(index.starts[c] + i);
  const any = (e, c, holds) => units(c).some((_, i) => holds(i));
  const present = index.entries.map((_, e) => e).filter((e) => conditions.some((c) => any(e, c, (i) => !Number.isNaN(score(e, c, i)) || met(e, c, i))));
  const ours = present.filter((e) => index.entries[e].split(" + ").every((id) => id.startsWith("harness/")));
  const metByMost = (entries, c) => entries.filter((e) => any(e, c, (i) => met(e, c, i))).length >= 0.5 * entries.length;
  const settings = conditions.filter((c) => metByMost(ours.length ? ours : present, c));
  const names = [...new Set(settings.flatMap(units))].sort((a, b) => a - b);
  const positions = new Map(names.map((unit, u) => [unit, u]));
  const at = new Map(settings.map((c) => [c, Int32Array.from(units(c), (unit) => positions.get(unit))]));
  const clusters = index.clusters.length ? names.map((unit) => index.clusters[unit]) : null;
  const groups = groupsOf(index, settings);

  /** The worst score of entry e on each unit, mean over groups of conditions. Counts in `decided` how often each attack was the worst. */
  function worst(e, decided) {
    const total = new Float64Array(names.length), count = new Int32Array(names.length);
    for (const group of groups) {
      const lowest = new Float64Array(names.length).fill(NaN), conditionOf = new Int32Array(names.length).fill(-1);
      for (const c of group) at.get(c).forEach((u, i) => {
        const gain = sign * score(e, c, i); // higher is better
        if (!Number.isFinite(gain) || gain >= lowest[u]) return;
        lowest[u] = gain;
        conditionOf[u] = c;
      });
      lowest.forEach((gain, u) => {
        if (Number.isNaN(gain)) return;
        total[u] += gain;
        count[u]++;
        const attack = index.conditions[conditionOf[u]].facets[facts.attack];
        decided.set(attack, (decided.get(attack) ?? 0) + 1);
      });
    }
    return total.map((sum, u) => (count[u] ? sign * sum / count[u] : NaN));
  }

  const isAware = (c) => index.conditions[c].facets[facts.attacker] !== facts.unaware;
  const kinds = [...new Set(settings.map(isAware))];

  /** The mean score of entry e on each unit against attackers who know it (`aware`) or do not, over the attacks that were run both ways. */
  function against(e, aware) {
    const total = new Float64Array(names.length), count = new Int32Array(names.length);
    for (const attack of new Set(settings.map((c) => facts.alike[c]))) {
      // by kind of attacker: the sum of the scores of each unit, and how many there are
      const byKind = new Map(kinds.map((kind) => [kind, { sums: new Float64Array(names.length), counts: new Int32Array(names.length) }]));
      for (const c of settings) if (facts.alike[c] === attack) {
        const { sums, counts } = byKind.get(isAware(c));
        at.get(c).forEach((u, i) => { const value = score(e, c, i); if (Number.isFinite(value)) { sums[u] += value; counts[u]++; } });
      }
      if (!byKind.has(aware)) continue;
      const { sums, counts } = byKind.get(aware);
      sums.forEach((sum, u) => { if (kinds.every((kind) => byKind.get(kind).counts[u])) { total[u] += sum / counts[u]; count[u]++; } });
    }
    return total.map((sum, u) => (count[u] ? sum / count[u] : NaN));
  }

  const decisions = new Map(present.map((e) => [e, new Map()])), worsts = new Map(), coverage = new Map();
  for (const e of present) {
    worsts.set(e, worst(e, decisions.get(e)));
    let measured = 0, all = 0;
    for (const c of settings) units(c).forEach((_, i) => { all++; measured += met(e, c, i); });
    coverage.set(e, all ? measured / all : 0);
    await breath();
  }
  const complete = present.filter((e) => coverage.get(e) === 1 && worsts.get(e).some(Number.isFinite) && (!facts.chosen || facts.places[index.entries[e]].complete));
  const pairs = new Pairs(index, vectors, settings);
  const plain = index.entries.indexOf(facts.undefended), weights = index.weights.length ? names.map((unit) => index.weights[unit]) : null;
  const undefended = complete.includes(plain) ? against(plain, false) : null;
  /** Is entry e shown to be better than no defense while attackers do not know it, and to keep less than half of that against the worst attack? */
  function broken(e) {
    if (!undefended) return false;
    const unaware = against(e, false);
    const seems = names.map((_, u) => sign * (unaware[u] - undefended[u]));
    const rest = seems.map((s, u) => sign * (worsts.get(e)[u] - worsts.get(plain)[u]) - 0.5 * s);
    const ends = (numbers) => {
      const measured = [...numbers.keys()].filter((u) => Number.isFinite(numbers[u])), of = (all) => all && measured.map((u) => all[u]);
      return measured.length ? meanAlone(of(numbers), of(clusters), of(weights), { alpha: facts.broken_alpha, value_range: index.value_range }) : { low: NaN, high: NaN };
    };
    return ends(seems).low > 0 && ends(rest).high < 0;
  }
  const nested = Object.keys(facts.nested).length ? names.map((unit) => facts.nested[index.units[unit]]) : null;
  const mean = (numbers) => meanValue(numbers, clusters, weights, index.alphas, nested);
  const eligible = (e) => { const about = facts.places[index.entries[e]]; return complete.includes(e) && !about.control && about.able && !about.flagged; };
  const sampled = clusters ? new Set(clusters).size : names.length;
  const rowOf = (e) => {
    const label = index.entries[e], about = facts.places[label], decided = decisions.get(e);
    const all = [...decided.values()].reduce((a, b) => a + b, 0);
    const row = {
      label, coverage: 100 * coverage.get(e), complete: complete.includes(e), control: about.control, able: about.able, flagged: about.flagged,
      worst: mean(worsts.get(e)),
      unaware: facts.chosen ? null : mean(against(e, false)),
      aware: facts.chosen ? null : mean(against(e, true)),
      broken: "",
      broken_by: facts.chosen ? {} : Object.fromEntries([...decided].map(([name, n]) => [name, n / all]).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))),
      rank: null, behind: null, against: null,
    };
    if (!row.complete) return row;
    const base = index.entries.indexOf(facts.baseline);
    if (!row.control && e !== base && complete.includes(base)) row.against = gainOver(pairs, e, base, facts, sign);
    if (!row.control && !facts.chosen && broken(e)) row.broken = Object.keys(row.broken_by)[0];
    if (!eligible(e)) return row;
    const rivals = complete.filter((other) => other !== e && eligible(other)), differences = rivals.map((other) => pairs.interval(other, e));
    const enough = complete.some((other) => other !== e && Number.isFinite(pairs.interval(other, e).low));
    row.rank = {
      value: 1 + differences.filter(({ value }) => value > 0).length,
      low: enough ? 1 + differences.filter(({ low }) => low > 0).length : null,
      high: enough ? 1 + rivals.length - differences.filter(({ high }) => high < 0).length : null,
    };
    const leader = differences.reduce((first, { value }, j) => (value > differences[first].value ? j : first), 0);
    if (rivals.length && differences[leader].value > 0) row.behind = { label: index.entries[rivals[leader]], value: differences[leader].value, low: finite(differences[leader].low), high: finite(differences[leader].high) };
    return row;
  };
  const rows = [];
  for (const e of present) { rows.push(rowOf(e)); await breath(); }
  const number = (value) => value?.value ?? Infinity;
  const group = (row) => (row.control ? 3 : !row.complete ? 2 : row.able && !row.flagged ? 0 : 1);
  // rows are sorted by these, the first that differs decides
  const key = (row) => [group(row), !row.rank, number(row.rank), !row.worst, row.worst ? -sign * row.worst.value : 0, row.label];
  rows.sort((a, b) => {
    const first = key(a), second = key(b), at = first.findIndex((value, j) => value !== second[j]);
    return at < 0 ? 0 : first[at] < second[at] ? -1 : 1;
  });
  const measures = [pairs, ...others.map((other) => new Pairs(other.index, other.vectors, other.conditions))];
  const outcome = await standing(rows, facts, measures, breath);
  if (outcome.winner) for (const row of rows) crowned(row, outcome.winner);
  return { rows, ...outcome, units: names.length, clusters: clusters && sampled };
}

/** Where there is a winner, make the intervals agree: it has rank 1, the others rank 2 or more, and they are behind it by 0 or more. */
function crowned(row, winner) {
  if (row.rank && row.rank.low !== null) Object.assign(row.rank, row.label === winner ? { low: 1, high: 1 } : { low: Math.max(row.rank.low, 2) });
  if (row.behind?.label === winner && row.behind.low !== null) row.behind.low = Math.max(row.behind.low, 0);
}

/** How much better an entry is than no defense, in the measure's direction; its ends are those of imharness.statistics.against_one. */
function gainOver(pairs, e, base, facts, sign) {
  const [lower, upper] = facts.against_alphas.map((alpha) => pairs.interval(e, base, 2 * alpha)), all = pairs.interval(e, base);
  const low = all.low > 0 ? Math.max(lower.low, 0) : lower.low, high = all.high < 0 ? Math.min(upper.high, 0) : upper.high;
  const ends = [sign * low, sign * high].sort((a, b) => a - b);
  return { value: sign * lower.value, low: finite(ends[0]), high: finite(ends[1]) };
}

const finite = (x) => (Number.isFinite(x) ? x : null);

/** Compares two entries by one measure, by their labels; NaN where the measure does not have one of them. */
class Judge {
  constructor(pairs) {
    this.pairs = pairs;
    this.at = new Map(pairs.index.entries.map((label, i) => [label, i]));
  }

  interval(a, b, alpha) {
    const [i, j] = [a, b].map((label) => this.at.get(label));
    return i === undefined || j === undefined ? { value: NaN, low: NaN, high: NaN } : this.pairs.interval(i, j, alpha);
  }

  alone(a, b) { return this.pairs.alone(this.at.get(a), this.at.get(b)); }
}

/**
 * Who may win, as in imharness.ranking.standing. `first`: the entry that is ahead. `winner`: the same if it wins, else "". `near`:
 * the entries and controls that the first is not shown to be better than. `disagrees`: a secondary measure by which another
 * entry is shown to be better than the first, and that entry. `better`: whether the first is shown to be better than no defense.
 * `may`: the entries that may be the best.
 */
async function standing(rows, facts, measures, breath) {
  const [main, ...further] = measures.map((pairs) => new Judge(pairs));
  const candidates = rows.filter((row) => row.complete && !row.control && row.able && !row.flagged).map(({ label }) => label);
  const behind = new Map();
  for (const label of candidates) { behind.set(label, candidates.filter((other) => other !== label && main.interval(other, label).value > 0).length); await breath(); }
  const first = candidates.reduce((best, label) => (best === "" || behind.get(label) < behind.get(best) || (behind.get(label) === behind.get(best) && label < best) ? label : best), "");
  if (!first) return { first, winner: "", near: [], disagrees: null, better: false, may: [] };
  const standsAgainst = (row) => (row.label in facts.matched ? facts.matched[row.label] === first && row.able : !facts.references.includes(row.label));
  const rivals = rows.filter((row) => row.complete && row.control && standsAgainst(row)).map(({ label }) => label);
  const others = candidates.filter((label) => label !== first);
  const near = [...others, ...rivals].filter((label) => !main.alone(first, label) && !(main.interval(first, label).low > 0));
  near.sort((a, b) => main.interval(first, a).value - main.interval(first, b).value);
  const [measure, other] = further.flatMap((judge, y) => [...others, facts.baseline].filter((label) => judge.interval(label, first).low > 0 && main.interval(first, label).value > 0).map((label) => [y + 1, label]))[0] ?? [0, ""];
  const one = Boolean(rivals.length || others.length) && !near.length && !measure;
  // Of two candidates Hsu's comparison is the easier one: whoever is not separated from the first stays in the set.
  const ahead = (a, b) => main.interval(a, b).low > 0 || (!near.includes(b) && main.interval(a, b, 2 * facts.best_alpha).low > 0);
  const may = [];
  for (const label of candidates) {
    const out = candidates.some((rival) => rival !== label && ahead(rival, label)) || main.interval(facts.baseline, label, 2 * facts.against_alphas[1]).low > 0 || main.interval(facts.baseline, label).low > 0;
    if (!out) may.push(label);
    await breath();
  }
  may.sort((a, b) => (b === first) - (a === first));
  return {
    first, winner: one ? first : "", near, disagrees: measure ? { measure, label: other } : null,
    better: one || [undefined, 2 * facts.against_alphas[0]].some((alpha) => main.interval(first, facts.baseline, alpha).low > 0), may: one ? [first] : may,
  };
}
