// The same ranking as imharness.ranking.contest and imharness.statistics.ranks, on the settings that a reader chooses.
import { clustersGreater, FEWEST, hash, LEVEL, normalTail, percentile, RESAMPLES } from "./statistics.js";

/** Logarithm of the gamma function for x > 0 (Lanczos, g = 7, 9 terms), relative error about 1e-14. */
function logGamma(x) {
  const terms = [0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];
  let sum = terms[0];
  for (let i = 1; i < 9; i++) sum += terms[i] / (x - 1 + i);
  const t = x + 6.5;
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum);
}

/** Continued fraction of the incomplete beta function (Lentz). */
function fraction(x, a, b) {
  const tiny = 1e-300, guard = (v) => (Math.abs(v) < tiny ? tiny : v);
  let c = 1, d = 1 / guard(1 - (a + b) * x / (a + 1)), f = d;
  for (let m = 1; m < 2000; m++) {
    const even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / guard(1 + even * d); c = guard(1 + even / c); f *= d * c;
    const odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / guard(1 + odd * d); c = guard(1 + odd / c);
    f *= d * c;
    if (Math.abs(d * c - 1) < 1e-16) break;
  }
  return f;
}

/** Upper tail of Student's t with `freedom` degrees of freedom, t >= 0. */
export function studentTail(t, freedom) {
  const a = freedom / 2, b = 0.5, x = freedom / (freedom + t * t);
  if (t === 0) return 0.5;
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log(t * t / (freedom + t * t)));
  return x < (a + 1) / (a + b + 2) ? front * fraction(x, a, b) / a / 2 : (1 - front * fraction(1 - x, b, a) / b) / 2;
}

/** The t that cuts off a share of at most 1/2 above it. */
export function studentQuantile(share, freedom) {
  if (share >= 0.5) return 0;
  let low = 0, high = 1;
  while (studentTail(high, freedom) > share) { low = high; high *= 2; }
  for (let i = 0; i < 200 && high - low > 1e-15 * high; i++) {
    const middle = (low + high) / 2;
    if (studentTail(middle, freedom) > share) low = middle; else high = middle;
  }
  return (low + high) / 2;
}

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

/** Mean of the finite numbers with the interval of resampled units, or of clusters; null without any. */
export function meanValue(numbers, clusters, tails) {
  const kept = [...numbers.keys()].filter((u) => Number.isFinite(numbers[u]));
  if (!kept.length) return null;
  const { codes, size } = coded(kept.map((u) => (clusters ? clusters[u] : u)));
  const sums = new Float64Array(size), sizes = new Float64Array(size);
  let total = 0;
  kept.forEach((u, i) => { sums[codes[i]] += numbers[u]; sizes[codes[i]]++; total += numbers[u]; });
  const tail = clusters ? (size < FEWEST ? NaN : tails[size]) : (1 - LEVEL) / 2;
  const found = { value: total / kept.length, low: null, high: null, n: kept.length, clusters: clusters ? size : null };
  if (!Number.isFinite(tail)) return found;
  const estimates = Float64Array.from(drawn(size), (counts) => dot(counts, sums) / dot(counts, sizes)).sort();
  return { ...found, low: percentile(estimates, tail), high: percentile(estimates, 1 - tail) };
}

const totals = new WeakMap();
/** Sum of numbers in each resample of clusters, kept with the numbers; null where one is missing. */
function totalOf(numbers, codes, k) {
  if (!totals.has(numbers)) {
    const sums = new Float64Array(k);
    numbers.forEach((x, u) => { sums[codes[u]] += x; });
    totals.set(numbers, sums.some(Number.isNaN) ? null : Float64Array.from(drawn(k), (counts) => dot(counts, sums)));
  }
  return totals.get(numbers);
}

/** Rank of an entry among others: its place and interval, and what each other one is ahead, with simultaneous intervals. */
export function rankOf(own, others, clusters) {
  const { codes, size: k } = coded(clusters ?? own.keys());
  const parts = others.map((other) => {
    const sums = new Float64Array(k), sizes = new Float64Array(k);
    for (let u = 0; u < own.length; u++) {
      const d = other[u] - own[u];
      if (Number.isNaN(d)) continue;
      sums[codes[u]] += d;
      sizes[codes[u]]++;
    }
    return { sums, sizes, ahead: sums.reduce((a, b) => a + b, 0) / sizes.reduce((a, b) => a + b, 0) };
  });
  const ahead = parts.map((part) => part.ahead);
  const place = 1 + ahead.filter((a) => a > 0).length;
  const nothing = ahead.map(() => NaN);
  if (k < FEWEST || !parts.length) return { place, best: 1, worst: parts.length + 1, ahead, low: nothing, high: nothing };
  const mine = totalOf(own, codes, k), whole = mine && totalOf(own.map(() => 1), codes, k);
  const spreads = parts.map(({ sums, sizes, ahead: mean }, j) => {
    const other = mine && totalOf(others[j], codes, k);
    if (other) return mine.map((total, r) => (other[r] - total) / whole[r] - mean);
    return Float64Array.from(drawn(k), (counts) => dot(counts, sums) / dot(counts, sizes) - mean);
  });
  const errors = spreads.map((spread, j) => {
    if (Number.isNaN(ahead[j])) return 0;
    let sum = 0, count = 0;
    for (const s of spread) if (!Number.isNaN(s)) { sum += s * s; count++; }
    return Math.sqrt(sum / count);
  });
  const largest = new Float64Array(RESAMPLES);
  spreads.forEach((spread, j) => {
    if (!(errors[j] > 0)) return;
    for (let r = 0; r < RESAMPLES; r++) largest[r] = Math.max(largest[r], Math.abs(spread[r] / errors[j]));
  });
  const quantile = percentile(largest.sort(), LEVEL);
  const widened = Math.sqrt(k / (k - 1)) * studentQuantile(normalTail(quantile), k - 1);
  const low = ahead.map((a, j) => a - widened * errors[j]), high = ahead.map((a, j) => a + widened * errors[j]);
  return { place, best: 1 + low.filter((x) => x > 0).length, worst: 1 + parts.length - high.filter((x) => x < 0).length, ahead, low, high };
}

/** Positions of the conditions that a reader's choice leaves; `picks`: facet -> value, and attacker -> unaware or aware. */
export function conditionsOf(index, facts, picks) {
  return index.conditions.flatMap(({ facets }, c) => {
    const aware = facets[facts.attacker] !== facts.unaware;
    const kept = Object.entries(picks).every(([key, value]) => !value || (key === "attacker" ? aware === (value === "aware") : facets[key] === value));
    return kept ? [c] : [];
  });
}

/** The contest on some conditions; `vectors`: the scores of each entry of the index. */
export function contest(index, vectors, facts, conditions) {
  const sign = index.better === "higher" ? 1 : -1;
  const units = (c) => index.unit_sets[index.conditions[c].units];
  const score = (e, c, i) => vectors[e][index.starts[c] + i];
  const any = (e, c, known) => units(c).some((_, i) => known(score(e, c, i)));
  const present = index.entries.map((_, e) => e).filter((e) => conditions.some((c) => any(e, c, (s) => !Number.isNaN(s))));
  const settings = conditions.filter((c) => present.filter((e) => any(e, c, Number.isFinite)).length >= 0.5 * present.length);
  const names = [...new Set(settings.flatMap(units))].sort((a, b) => a - b);
  const place = new Map(names.map((unit, u) => [unit, u]));
  const at = new Map(settings.map((c) => [c, Int32Array.from(units(c), (unit) => place.get(unit))]));
  const clusters = index.clusters.length ? names.map((unit) => index.clusters[unit]) : null;
  const groups = new Map();
  for (const c of settings) {
    const key = JSON.stringify(Object.entries(index.conditions[c].facets).filter(([facet]) => !facts.over.includes(facet)));
    groups.set(key, [...(groups.get(key) ?? []), c]);
  }
  const gain = (e, c, i) => { const s = score(e, c, i); return Number.isFinite(s) ? sign * s : NaN; };

  /** Worst gain of each unit, mean over groups; `like`: only what this entry has counts; `decided`: how often each attack was the worst. */
  function worst(e, like = null, decided = null) {
    const total = new Float64Array(names.length), count = new Int32Array(names.length);
    for (const own of groups.values()) {
      const low = new Float64Array(names.length).fill(NaN), which = new Int32Array(names.length).fill(-1);
      for (const c of own) at.get(c).forEach((u, i) => {
        if (like !== null && Number.isNaN(gain(like, c, i))) return;
        const g = gain(e, c, i);
        if (Number.isNaN(g) || g >= low[u]) return;
        low[u] = g;
        which[u] = c;
      });
      low.forEach((g, u) => {
        if (Number.isNaN(g)) return;
        total[u] += g;
        count[u]++;
        if (decided) { const attack = index.conditions[which[u]].facets[facts.attack]; decided.set(attack, (decided.get(attack) ?? 0) + 1); }
      });
    }
    return total.map((sum, u) => (count[u] ? sum / count[u] : NaN));
  }

  function against(e, aware) {
    const total = new Float64Array(names.length), count = new Int32Array(names.length);
    for (const c of settings) {
      if ((index.conditions[c].facets[facts.attacker] !== facts.unaware) !== aware) continue;
      at.get(c).forEach((u, i) => { const s = score(e, c, i); if (Number.isFinite(s)) { total[u] += s; count[u]++; } });
    }
    return meanValue(total.map((sum, u) => (count[u] ? sum / count[u] : NaN)), clusters, index.tails);
  }

  const decisions = new Map(present.map((e) => [e, new Map()]));
  const own = new Map(present.map((e) => [e, worst(e, null, decisions.get(e))]));
  const coverage = new Map(present.map((e) => {
    let known = 0, all = 0;
    for (const c of settings) units(c).forEach((_, i) => { all++; known += Number.isFinite(score(e, c, i)); });
    return [e, all ? known / all : 0];
  }));
  const complete = present.filter((e) => coverage.get(e) === 1);
  const sampled = clusters ? new Set(clusters).size : names.length;
  const rows = present.map((e) => {
    const label = index.entries[e], about = facts.places[label], decided = decisions.get(e);
    const rivals = complete.filter((other) => other !== e);
    const all = [...decided.values()].reduce((a, b) => a + b, 0);
    const row = {
      label, coverage: 100 * coverage.get(e), complete: complete.includes(e), control: about.control, passes: about.passes, flagged: about.flagged,
      worst: meanValue(own.get(e).map((g) => sign * g), clusters, index.tails), unaware: against(e, false), aware: against(e, true),
      broken_by: Object.fromEntries([...decided].map(([name, n]) => [name, n / all]).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))),
      rank: null, behind: null,
    };
    if (own.get(e).every(Number.isNaN)) return row;
    const rank = rankOf(own.get(e), rivals.map((other) => (row.complete ? own.get(other) : worst(other, e))), clusters);
    const told = !clusters || sampled >= FEWEST;
    row.rank = { value: rank.place, low: told ? rank.best : null, high: told ? rank.worst : null };
    const gains = rank.ahead.map((a) => (Number.isNaN(a) ? -Infinity : a));
    const leader = gains.reduce((first, a, j) => (a > gains[first] ? j : first), 0);
    if (rivals.length && gains[leader] > 0) row.behind = { label: index.entries[rivals[leader]], value: rank.ahead[leader], low: finite(rank.low[leader]), high: finite(rank.high[leader]) };
    return row;
  });
  const number = (value) => value?.value ?? Infinity;
  const key = (row) => [!row.rank, number(row.rank), !row.worst, row.worst ? -sign * row.worst.value : 0, !row.complete, row.label];
  rows.sort((a, b) => { const [x, y] = [key(a), key(b)]; const i = x.findIndex((v, j) => v !== y[j]); return i < 0 ? 0 : x[i] < y[i] ? -1 : 1; });
  return { rows, ...winner(rows, (label) => own.get(index.entries.indexOf(label)), clusters, index), units: names.length, clusters: clusters && sampled };
}

const finite = (x) => (Number.isFinite(x) ? x : null);

/** Who wins, as the policy has it: `winner` is "" where no entry stands, or no test tells it from the control `rival`. */
function winner(rows, gains, clusters, index) {
  const stands = rows.filter((row) => row.complete && !row.control && row.passes && !row.flagged && row.rank);
  const controls = rows.filter((row) => row.complete && row.control && row.passes);
  const first = stands.reduce((best, row) => (!best || row.rank.value < best.rank.value || (row.rank.value === best.rank.value && row.label < best.label) ? row : best), null);
  if (!first) return { first: "", winner: "", rival: "", p: null };
  let largest = null;
  for (const control of [...controls].sort((a, b) => (a.label < b.label ? -1 : 1))) {
    const [a, b] = [gains(first.label), gains(control.label)];
    const known = [...a.keys()].filter((u) => !Number.isNaN(a[u] - b[u]));
    const names = clusters && known.map((u) => clusters[u]);
    const count = names ? new Set(names).size : known.length;
    const p = count < FEWEST ? NaN : clustersGreater(known.map((u) => Math.fround(a[u] - b[u])), names);
    const corrected = p * stands.length * controls.length;
    if (!(corrected < index.alpha)) return { first: first.label, winner: "", rival: control.label, p: finite(corrected) };
    largest = Math.max(largest ?? 0, corrected);
  }
  return { first: first.label, winner: first.label, rival: "", p: largest };
}
