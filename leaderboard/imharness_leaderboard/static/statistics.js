// The same statistics as in imharness.statistics.wilcoxon, .clusters and .head_to_head, for readers who test for themselves.
export const RESAMPLES = 1000;
export const LEVEL = 0.95;
const EXACT_UP_TO = 50;
const PERMUTED_UP_TO = 13;
export const FEWEST = 5; // clusters

/** Upper tail of the normal distribution, relative error about 1e-14: a series below 3, a continued fraction above. */
export function normalTail(x) {
  if (x < 0) return 1 - normalTail(-x);
  const density = Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
  if (x < 3) {
    let term = x, sum = x;
    for (let k = 1; Math.abs(term) > 1e-18 * Math.abs(sum) && k < 200; k++) { term *= x * x / (2 * k + 1); sum += term; }
    return 0.5 - density * sum;
  }
  let fraction = 0;
  for (let k = 200; k > 0; k--) fraction = k / (x + fraction);
  return density / (x + fraction);
}

/** Magnitudes of the non-zero differences in order, as groups of ties: {count, won, rank}. */
function ranked(differences) {
  const order = [...differences].filter((d) => d !== 0).sort((a, b) => Math.abs(a) - Math.abs(b));
  const groups = [];
  for (let i = 0; i < order.length;) {
    let j = i, won = 0;
    while (j < order.length && Math.abs(order[j]) === Math.abs(order[i])) { won += order[j] > 0; j++; }
    groups.push({ count: j - i, won, rank: (i + 1 + j) / 2 });
    i = j;
  }
  return groups;
}

const tails = new Map();
function survival(n) {
  if (!tails.has(n)) {
    const ways = new Float64Array(n * (n + 1) / 2 + 1);
    ways[0] = 1;
    for (let rank = 1; rank <= n; rank++) for (let i = ways.length - 1; i >= rank; i--) ways[i] += ways[i - rank];
    let sum = 0;
    for (let i = ways.length - 1; i >= 0; i--) { sum += ways[i] / 2 ** n; ways[i] = Math.min(sum, 1); }
    tails.set(n, ways);
  }
  return tails.get(n);
}

/** One-sided Wilcoxon signed-rank test: are differences above zero? NaN when none differs from zero. */
export function wilcoxonGreater(differences) {
  const groups = ranked(differences);
  const n = groups.reduce((sum, g) => sum + g.count, 0);
  if (n === 0) return NaN;
  const plus = groups.reduce((sum, g) => sum + g.won * g.rank, 0);
  const plain = groups.every((g) => g.count === 1);
  if (plain && n <= EXACT_UP_TO) return survival(n)[Math.round(plus)];
  if (!plain && n <= PERMUTED_UP_TO) {
    const ranks = groups.flatMap((g) => Array(g.count).fill(g.rank));
    let reached = 0;
    for (let signs = 0; signs < 2 ** n; signs++) {
      let sum = 0;
      for (let i = 0; i < n; i++) if (signs >> i & 1) sum += ranks[i];
      reached += sum >= plus - 1e-9;
    }
    return reached / 2 ** n;
  }
  const ties = groups.reduce((sum, g) => sum + g.count ** 3 - g.count, 0);
  const mean = n * (n + 1) / 4;
  const variance = n * (n + 1) * (2 * n + 1) / 24 - ties / 48;
  return normalTail((plus - mean) / Math.sqrt(variance));
}

/** Mean (rounded to float32), sum and size of each cluster, in the order of first appearance; without names, of each value. */
function grouped(values, names) {
  if (!names) return { means: values, sums: values, sizes: values.map(() => 1) };
  const place = new Map(), sums = [], sizes = [];
  values.forEach((value, i) => {
    if (!place.has(names[i])) { place.set(names[i], sums.length); sums.push(0); sizes.push(0); }
    const k = place.get(names[i]);
    sums[k] += value;
    sizes[k]++;
  });
  return { means: sums.map((sum, k) => Math.fround(sum / sizes[k])), sums, sizes };
}

/** The test over the clusters' means; NaN with fewer than FEWEST clusters. */
export function clustersGreater(differences, names = null) {
  const { means } = grouped(differences, names);
  return names && means.length < FEWEST ? NaN : wilcoxonGreater(means);
}

/** Matched-pairs rank-biserial correlation; 0 when nothing differs. */
export function rankBiserial(differences) {
  let signed = 0, total = 0;
  for (const { count, won, rank } of ranked(differences)) { signed += rank * (2 * won - count); total += rank * count; }
  return total ? signed / total : 0;
}

export function hash(x) {
  x = Math.imul(x ^ x >>> 16, 0x7feb352d);
  x = Math.imul(x ^ x >>> 15, 0x846ca68b);
  return (x ^ x >>> 16) >>> 0;
}

export function percentile(sorted, share) {
  const place = share * (sorted.length - 1), below = Math.floor(place);
  return sorted[below] + (place - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below]);
}

/** Both ends are NaN where nothing is known of the share to cut off on each side. */
function interval(value, estimates, tail) {
  if (!Number.isFinite(tail)) return { value, low: NaN, high: NaN };
  const sorted = Float64Array.from(estimates).sort();
  return { value, low: percentile(sorted, tail), high: percentile(sorted, 1 - tail) };
}

/**
 * Mean difference and rank-biserial correlation, each with the interval of resampled units, or of clusters where
 * `names` says to which cluster each unit belongs; `tails`: the share to cut off on each side by number of clusters.
 */
export function effects(differences, names = null, tails = []) {
  const { means, sums, sizes } = grouped(differences, names);
  const n = means.length;
  const order = [...means.keys()].sort((a, b) => Math.abs(means[a]) - Math.abs(means[b]));
  const resampled = [], correlations = [];
  const counts = new Int32Array(n);
  for (let r = 1; r <= RESAMPLES; r++) {
    counts.fill(0);
    const row = hash(r);
    for (let i = 0; i < n; i++) counts[Math.floor(hash(row + i | 0) * n / 4294967296)]++;
    let sum = 0, units = 0, signed = 0, total = 0, seen = 0;
    for (let k = 0; k < n;) {
      const size = Math.abs(means[order[k]]);
      let count = 0, won = 0;
      for (; k < n && Math.abs(means[order[k]]) === size; k++) {
        const times = counts[order[k]];
        sum += times * sums[order[k]];
        units += times * sizes[order[k]];
        count += times;
        if (means[order[k]] > 0) won += times;
      }
      if (size === 0) continue;
      const rank = seen + (count + 1) / 2;
      signed += rank * (2 * won - count);
      total += rank * count;
      seen += count;
    }
    resampled.push(sum / units);
    correlations.push(total ? signed / total : 0);
  }
  const mean = differences.reduce((sum, d) => sum + d, 0) / differences.length;
  const tail = names ? tails[n] ?? NaN : (1 - LEVEL) / 2;
  return { difference: interval(mean, resampled, tail), effect: interval(rankBiserial(means), correlations, tail) };
}

/**
 * Advantage of one entry over another per unit, the mean over conditions, rounded to float32, for units that have one,
 * with the cluster of each (null without clusters); `parts`: the same of each condition, not rounded.
 */
export function pooled(index, first, second, conditions) {
  const sign = index.better === "higher" ? 1 : -1;
  const own = (units) => (index.clusters.length ? units.map((unit) => index.clusters[unit]) : null);
  const total = new Float64Array(index.units.length), count = new Int32Array(index.units.length);
  const parts = conditions.map((c) => {
    const start = index.starts[c], values = [], known = [];
    index.unit_sets[index.conditions[c].units].forEach((unit, i) => {
      const d = sign * (first[start + i] - second[start + i]);
      if (Number.isNaN(d)) return;
      values.push(d);
      known.push(unit);
      total[unit] += d;
      count[unit]++;
    });
    return { values, names: own(known) };
  });
  const units = [...count.keys()].filter((unit) => count[unit]);
  return { means: units.map((unit) => Math.fround(total[unit] / count[unit])), names: own(units), parts };
}

/** Two entries head to head: p-values in both directions, effect sizes, and conditions won, lost and tested. */
export function headToHead(index, first, second, conditions) {
  const { means, names, parts } = pooled(index, first, second, conditions);
  if (!means.length) return null;
  const turned = (values) => values.map((d) => -d);
  let wins = 0, losses = 0, tested = 0;
  for (const { values, names: own } of parts) {
    const up = clustersGreater(values, own);
    if (Number.isNaN(up)) continue;
    tested++;
    wins += up * index.tests < index.alpha;
    losses += clustersGreater(turned(values), own) * index.tests < index.alpha;
  }
  return {
    n: means.length, clusters: names && new Set(names).size,
    better: clustersGreater(means, names), worse: clustersGreater(turned(means), names), wins, losses, tested,
    ...effects(means, names, index.tails),
  };
}

/** Groups of entries: the first holds the best and all that it does not beat, then the same of the rest. */
export function tieGroups(order, beats) {
  let left = [...order];
  const groups = [];
  while (left.length) {
    const group = left.filter((entry) => entry === left[0] || !beats(left[0], entry));
    groups.push(group);
    left = left.filter((entry) => !group.includes(entry));
  }
  return groups;
}
