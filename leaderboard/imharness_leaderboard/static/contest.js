// The same ranking as imharness.ranking.contest, on the settings that a reader chooses. Intervals of differences are those
// of the comparison: their tail is frozen with the board.
import { Pairs, slices } from "./differences.js";
import { FEWEST, groupsOf, hash, LEVEL, meanAlone, percentile, RESAMPLES } from "./statistics.js";

const draws = new Map();
/** How often each of k clusters is drawn in each resample. */
function drawn(k) {
  if (!draws.has(k)) {
    const found = [];
    for (let r = 1; r <= RESAMPLES; r++) {
      const counts = new Uint16Array(k), row = hash(r);
      for (let i = 0; i < k; i++) counts[Math.floor(hash(row + i | 0) * k / 4294967296)]++;
      found.push(counts);
    }
    draws.set(k, found);
  }
  return draws.get(k);
}

/** Codes of names in the order of first appearance, and how many there are. */
function coded(names) {
  const place = new Map();
  const codes = Int32Array.from(names, (name) => { if (!place.has(name)) place.set(name, place.size); return place.get(name); });
  return { codes, size: place.size };
}

const dot = (a, b) => { let sum = 0; for (let i = 0; i < a.length; i++) sum += a[i] * b[i]; return sum; };

/** Weighted mean of the finite numbers with the interval of resampled units, or of clusters; null without any. */
export function meanValue(numbers, clusters, weights, tails) {
  const kept = [...numbers.keys()].filter((u) => Number.isFinite(numbers[u]));
  if (!kept.length) return null;
  const { codes, size } = coded(kept.map((u) => (clusters ? clusters[u] : u)));
  const sums = new Float64Array(size), sizes = new Float64Array(size);
  let total = 0, all = 0;
  kept.forEach((u, i) => {
    const weight = weights ? weights[u] : 1;
    sums[codes[i]] += weight * numbers[u]; sizes[codes[i]] += weight; total += weight * numbers[u]; all += weight;
  });
  const tail = clusters ? (size < FEWEST ? NaN : tails[size]) : (1 - LEVEL) / 2;
  const found = { value: total / all, low: null, high: null, n: kept.length, clusters: clusters ? size : null };
  if (!Number.isFinite(tail)) return found;
  const estimates = Float64Array.from(drawn(size), (counts) => dot(counts, sums) / dot(counts, sizes)).sort();
  const low = percentile(estimates, tail), high = percentile(estimates, 1 - tail);
  return low < high ? { ...found, low, high } : found;
}

/**
 * Positions of the conditions that a reader's choice leaves; `picks`: facet -> value, and attacker -> unaware or aware. A
 * facet that has one value in the whole comparison, such as the metric of a yardstick, is no choice.
 */
export function conditionsOf(index, facts, picks) {
  const alone = (key) => new Set(index.conditions.map(({ facets }) => facets[key])).size < 2;
  picks = Object.fromEntries(Object.entries(picks).filter(([key]) => key === "attacker" || !alone(key)));
  return index.conditions.flatMap(({ facets }, c) => {
    const aware = facets[facts.attacker] !== facts.unaware;
    const kept = Object.entries(picks).every(([key, value]) => !value || (key === "attacker" ? aware === (value === "aware") : facets[key] === value));
    return kept ? [c] : [];
  });
}

/**
 * The contest on some conditions. Where one attack was chosen for each entry, the index has its numbers alone, and nothing is
 * known of attackers that do not know it, nor of the attack that broke it. `vectors`: the scores of each entry of the index. `others`: index, vectors and conditions
 * of the further yardsticks, in the order of `facts.control_tails`. Thousands of entries take seconds: `breath` is awaited
 * between parts of the work.
 */
export async function contest(index, vectors, facts, conditions, others = [], breath = slices()) {
  const sign = index.better === "higher" ? 1 : -1;
  const units = (c) => index.unit_sets[index.conditions[c].units];
  const score = (e, c, i) => vectors[e][index.starts[c] + i];
  const silent = index.entries.map((label) => new Set(facts.silent[label] ?? []));
  const met = (e, c, i) => Number.isFinite(score(e, c, i)) || silent[e].has(index.starts[c] + i);
  const any = (e, c, known) => units(c).some((_, i) => known(i));
  const present = index.entries.map((_, e) => e).filter((e) => conditions.some((c) => any(e, c, (i) => !Number.isNaN(score(e, c, i)) || met(e, c, i))));
  const ours = present.filter((e) => index.entries[e].split(" + ").every((part) => part.startsWith("harness/")));
  const most = (among, c) => among.filter((e) => any(e, c, (i) => met(e, c, i))).length >= 0.5 * among.length;
  const settings = conditions.filter((c) => most(ours.length ? ours : present, c));
  const names = [...new Set(settings.flatMap(units))].sort((a, b) => a - b);
  const place = new Map(names.map((unit, u) => [unit, u]));
  const at = new Map(settings.map((c) => [c, Int32Array.from(units(c), (unit) => place.get(unit))]));
  const clusters = index.clusters.length ? names.map((unit) => index.clusters[unit]) : null;
  const groups = groupsOf(index, settings);

  /** Worst score of each unit, mean over groups; `decided`: how often each attack was the worst. */
  function worst(e, decided) {
    const total = new Float64Array(names.length), count = new Int32Array(names.length);
    for (const own of groups) {
      const low = new Float64Array(names.length).fill(NaN), which = new Int32Array(names.length).fill(-1);
      for (const c of own) at.get(c).forEach((u, i) => {
        const g = sign * score(e, c, i);
        if (!Number.isFinite(g) || g >= low[u]) return;
        low[u] = g;
        which[u] = c;
      });
      low.forEach((g, u) => {
        if (Number.isNaN(g)) return;
        total[u] += g;
        count[u]++;
        const attack = index.conditions[which[u]].facets[facts.attack];
        decided.set(attack, (decided.get(attack) ?? 0) + 1);
      });
    }
    return total.map((sum, u) => (count[u] ? sign * sum / count[u] : NaN));
  }

  const isAware = (c) => index.conditions[c].facets[facts.attacker] !== facts.unaware;
  const kinds = [...new Set(settings.map(isAware))];

  /** Mean score of each unit under one kind of attacker, over the attacks that were run both ways. */
  function against(e, aware) {
    const total = new Float64Array(names.length), count = new Int32Array(names.length);
    for (const attack of new Set(settings.map((c) => facts.alike[c]))) {
      const sums = new Map(kinds.map((kind) => [kind, [new Float64Array(names.length), new Int32Array(names.length)]]));
      for (const c of settings) if (facts.alike[c] === attack) {
        const [sum, met] = sums.get(isAware(c));
        at.get(c).forEach((u, i) => { const s = score(e, c, i); if (Number.isFinite(s)) { sum[u] += s; met[u]++; } });
      }
      if (!sums.has(aware)) continue;
      const [sum, met] = sums.get(aware);
      sum.forEach((s, u) => { if (kinds.every((kind) => sums.get(kind)[1][u])) { total[u] += s / met[u]; count[u]++; } });
    }
    return total.map((sum, u) => (count[u] ? sum / count[u] : NaN));
  }

  const decisions = new Map(present.map((e) => [e, new Map()])), worsts = new Map(), coverage = new Map();
  for (const e of present) {
    worsts.set(e, worst(e, decisions.get(e)));
    let known = 0, all = 0;
    for (const c of settings) units(c).forEach((_, i) => { all++; known += met(e, c, i); });
    coverage.set(e, all ? known / all : 0);
    await breath();
  }
  const complete = present.filter((e) => coverage.get(e) === 1 && worsts.get(e).some(Number.isFinite) && (!facts.chosen || facts.places[index.entries[e]].complete));
  const pairs = new Pairs(index, vectors, settings);
  const plain = index.entries.indexOf(facts.undefended), weights = index.weights.length ? names.map((unit) => index.weights[unit]) : null;
  const bare = complete.includes(plain) ? against(plain, false) : null;
  /** Is an entry shown to seem better than no defense, and the worst attack to leave less than half of that? */
  function broken(e) {
    if (!bare) return false;
    const own = against(e, false);
    const seems = names.map((_, u) => sign * (own[u] - bare[u]));
    const rest = seems.map((s, u) => sign * (worsts.get(e)[u] - worsts.get(plain)[u]) - 0.5 * s);
    const shown = (numbers) => {
      const kept = [...numbers.keys()].filter((u) => Number.isFinite(numbers[u])), of = (all) => all && kept.map((u) => all[u]);
      return kept.length ? meanAlone(of(numbers), of(clusters), of(weights), { tail: facts.broken_tail, reach: index.reach }) : { low: NaN, high: NaN };
    };
    return shown(seems).low > 0 && shown(rest).high < 0;
  }
  const sampled = clusters ? new Set(clusters).size : names.length;
  const rowOf = (e) => {
    const label = index.entries[e], about = facts.places[label], decided = decisions.get(e);
    const all = [...decided.values()].reduce((a, b) => a + b, 0);
    const row = {
      label, coverage: 100 * coverage.get(e), complete: complete.includes(e), control: about.control, able: about.able, flagged: about.flagged,
      worst: meanValue(worsts.get(e), clusters, weights, index.tails),
      unaware: facts.chosen ? null : meanValue(against(e, false), clusters, weights, index.tails),
      aware: facts.chosen ? null : meanValue(against(e, true), clusters, weights, index.tails),
      broken: "",
      broken_by: facts.chosen ? {} : Object.fromEntries([...decided].map(([name, n]) => [name, n / all]).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))),
      rank: null, behind: null,
    };
    if (!row.complete) return row;
    if (!row.control && !facts.chosen && broken(e)) row.broken = Object.keys(row.broken_by)[0];
    const rivals = complete.filter((other) => other !== e && !facts.places[index.entries[other]].control), found = rivals.map((other) => pairs.told(other, e));
    const enough = complete.some((other) => other !== e && Number.isFinite(pairs.told(other, e).low));
    if (!row.control) row.rank = {
      value: 1 + found.filter(({ value }) => value > 0).length,
      low: enough ? 1 + found.filter(({ low }) => low > 0).length : null,
      high: enough ? 1 + rivals.length - found.filter(({ high }) => high < 0).length : null,
    };
    const leader = found.reduce((first, { value }, j) => (value > found[first].value ? j : first), 0);
    if (rivals.length && found[leader].value > 0) row.behind = { label: index.entries[rivals[leader]], value: found[leader].value, low: finite(found[leader].low), high: finite(found[leader].high) };
    return row;
  };
  const rows = [];
  for (const e of present) { rows.push(rowOf(e)); await breath(); }
  const number = (value) => value?.value ?? Infinity;
  const group = (row) => (row.control ? 3 : !row.complete ? 2 : row.able && !row.flagged ? 0 : 1);
  const key = (row) => [group(row), !row.rank, number(row.rank), !row.worst, row.worst ? -sign * row.worst.value : 0, row.label];
  rows.sort((a, b) => { const [x, y] = [key(a), key(b)]; const i = x.findIndex((v, j) => v !== y[j]); return i < 0 ? 0 : x[i] < y[i] ? -1 : 1; });
  const yardsticks = [pairs, ...others.map((own) => new Pairs(own.index, own.vectors, own.conditions))];
  const judges = yardsticks.map((own, y) => judge(own, facts.control_tails[y] ?? own.index.tail));
  return { rows, ...(await winner(rows, facts, judges, breath)), units: names.length, clusters: clusters && sampled };
}

const finite = (x) => (Number.isFinite(x) ? x : null);

/** One yardstick: how far an entry is ahead of another one, and whether it is shown to be better than it, or than a control. */
function judge(pairs, controlTail) {
  const at = new Map(pairs.index.entries.map((label, i) => [label, i]));
  const ahead = (a, b, tail) => {
    const [i, j] = [a, b].map(({ label }) => at.get(label));
    return i === undefined || j === undefined ? { value: NaN, low: NaN, high: NaN } : pairs.told(i, j, tail);
  };
  return {
    ahead: (a, b) => ahead(a, b).value,
    better: (a, b) => ahead(a, b).low > 0,
    beats: (a, control) => ahead(a, control, controlTail).low > 0,
  };
}

/**
 * Who may win, as the rules have it: `may` are the candidates that, by some yardstick, no candidate is shown to be better
 * than, the one ahead first; `winner` is "" where several are, or one is, by some yardstick, not shown to be better than
 * another candidate or than the control `rival`.
 */
async function winner(rows, facts, judges, breath) {
  const stands = rows.filter((row) => row.complete && !row.control && row.able && !row.flagged);
  const controls = rows.filter((row) => row.complete && row.control && !facts.references.includes(row.label));
  const behind = new Map();
  for (const row of stands) { behind.set(row, stands.filter((other) => other !== row && judges[0].ahead(other, row) > 0).length); await breath(); }
  const first = stands.reduce((best, row) => (!best || behind.get(row) < behind.get(best) || (behind.get(row) === behind.get(best) && row.label < best.label) ? row : best), null);
  const others = stands.filter((row) => row !== first);
  const worse = (row) => judges.every((own) => stands.some((other) => other !== row && own.better(other, row)));
  const may = first ? [first] : [];
  for (const row of others) { if (!worse(row)) may.push(row); await breath(); }
  const doubt = (row) => judges.flatMap((own) => controls.filter((control) => !own.beats(row, control)).map((control) => ({ own, control })))[0];
  const proven = may.filter((row) => !doubt(row)), doubted = first && doubt(first), rival = doubted?.control;
  const one = may.length === 1 && proven.length === 1 && others.every((row) => judges.every((own) => own.better(first, row)));
  return {
    first: first?.label ?? "", winner: one ? first.label : "", rival: rival?.label ?? "",
    beaten: !proven.length && Boolean(doubted?.own.better(rival, first)), controls: controls.length, may: may.map((row) => row.label), proven: proven.map((row) => row.label),
  };
}
