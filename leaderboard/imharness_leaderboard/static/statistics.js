// The same statistics as in imharness.statistics.differences, .wilcoxon, .clusters, .nested and .head_to_head, for readers who test
// for themselves. What is resampled, the level of the intervals, comes with the scores.
export const RESAMPLES = 1000;
export const LEVEL = 0.95;
const EXACT_UP_TO = 50;
export const FEWEST = 5; // clusters
const FEWEST_FREE = 2; // more groups than strata

/** The numbers in a file of scores; its name says how many bits each has. */
export function numbersOf(name, content) { return name.endsWith(".f64") ? new Float64Array(content) : new Float32Array(content); }

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

/** The distance up to which two differences of stored scores may be equal: rounding to 32 or 64 bits separates them that far. */
export function resolution(type, largest) { return (type === Float32Array ? 1e-6 : 1e-14) * largest; }

/**
 * The differences that are not 0, by size, in groups of equal sizes: how many (`count`), how many of them are positive (`won`),
 * and their mean rank. Sizes that are at most `nearest` apart are equal, see `resolution`.
 */
function ranked(differences, nearest) {
  const order = [...differences].filter((d) => Math.abs(d) > nearest).sort((a, b) => Math.abs(a) - Math.abs(b));
  const groups = [];
  for (let i = 0; i < order.length;) {
    let j = i, won = 0;
    while (j < order.length && (j === i || Math.abs(order[j]) - Math.abs(order[j - 1]) <= nearest)) { won += order[j] > 0; j++; }
    groups.push({ count: j - i, won, rank: (i + 1 + j) / 2 });
    i = j;
  }
  return groups;
}

const rankSums = new Map();
/** Of n ranks without ties: for each w, the probability that those with a positive sign sum to w or more. */
function survival(n) {
  if (!rankSums.has(n)) {
    const ways = new Float64Array(n * (n + 1) / 2 + 1);
    ways[0] = 1;
    for (let rank = 1; rank <= n; rank++) for (let i = ways.length - 1; i >= rank; i--) ways[i] += ways[i - rank];
    let sum = 0;
    for (let i = ways.length - 1; i >= 0; i--) { sum += ways[i] / 2 ** n; ways[i] = Math.min(sum, 1); }
    rankSums.set(n, ways);
  }
  return rankSums.get(n);
}

/** One-sided Wilcoxon signed-rank test: are differences above zero? NaN when none differs from zero. */
export function wilcoxonGreater(differences, nearest = 0) {
  const groups = ranked(differences, nearest);
  const n = groups.reduce((sum, g) => sum + g.count, 0);
  if (n === 0) return NaN;
  const plus = groups.reduce((sum, g) => sum + g.won * g.rank, 0);
  const plain = groups.every((g) => g.count === 1);
  if (plain && n <= EXACT_UP_TO) return survival(n)[Math.round(plus)];
  if (!plain && n <= EXACT_UP_TO) {
    const ranks = groups.flatMap((g) => Array(g.count).fill(2 * g.rank)); // twice the ranks are whole numbers
    const ways = new Float64Array(ranks.reduce((all, rank) => all + rank, 0) + 1);
    ways[0] = 1;
    for (const rank of ranks) for (let w = ways.length - 1; w >= rank; w--) ways[w] += ways[w - rank];
    let reached = 0;
    for (let w = Math.round(2 * plus); w < ways.length; w++) reached += ways[w];
    return reached / 2 ** n;
  }
  const ties = groups.reduce((sum, g) => sum + g.count ** 3 - g.count, 0);
  const mean = n * (n + 1) / 4;
  const variance = n * (n + 1) * (2 * n + 1) / 24 - ties / 48;
  return normalTail((plus - mean) / Math.sqrt(variance));
}

/** The positions of the values of each cluster, in the order of first appearance; without names, each value is a cluster. */
function grouped(values, names) {
  const positions = new Map();
  values.forEach((value, i) => { const name = names ? names[i] : i; if (!positions.has(name)) positions.set(name, []); positions.get(name).push(i); });
  return [...positions.values()];
}

function sum(numbers) {
  let all = 0;
  for (let i = 0; i < numbers.length; i++) all += numbers[i];
  return all;
}
const mean = (numbers) => sum(numbers) / numbers.length;

/** Mean of each cluster. */
export function clusterMeans(values, names = null) { return grouped(values, names).map((members) => mean(members.map((i) => values[i]))); }

/** The test over the clusters' means; NaN with fewer than FEWEST clusters. */
export function clustersGreater(differences, names = null, nearest = 0) {
  const means = clusterMeans(differences, names);
  return names && means.length < FEWEST ? NaN : wilcoxonGreater(means, nearest);
}

/** Matched-pairs rank-biserial correlation; 0 when nothing differs. */
export function rankBiserial(differences, nearest = 0) {
  let signed = 0, total = 0;
  for (const { count, won, rank } of ranked(differences, nearest)) { signed += rank * (2 * won - count); total += rank * count; }
  return total ? signed / total : 0;
}

/** A hash of 32 bits of a whole number. */
export function hash(x) {
  x = Math.imul(x ^ x >>> 16, 0x7feb352d);
  x = Math.imul(x ^ x >>> 15, 0x846ca68b);
  return (x ^ x >>> 16) >>> 0;
}

/** The quantile of sorted numbers, linear between them. */
export function percentile(sorted, share) {
  const position = share * (sorted.length - 1), below = Math.floor(position);
  return sorted[below] + (position - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below]);
}

/** Weighted sums of the values of each cluster, in the order of first appearance, and the sums of their weights. */
function summed(values, names, weights) {
  const groups = grouped(values, names), weightOf = (i) => (weights ? weights[i] : 1);
  return [groups.map((members) => sum(members.map((i) => weightOf(i) * values[i]))), groups.map((members) => sum(members.map(weightOf)))];
}

/** What each cluster with a weight adds to the weighted mean: numbers of which it is the plain mean. */
function contributions(sums, sizes) {
  const whole = sum(sizes), all = sum(sums) / whole;
  let k = 0, next = 0;
  for (let i = 0; i < sizes.length; i++) if (sizes[i] > 0) k++;
  const terms = new Float64Array(k);
  for (let i = 0; i < sizes.length; i++) if (sizes[i] > 0) terms[next++] = all + (sums[i] - sizes[i] * all) * k / whole;
  return terms;
}

const quantiles = new Map();
/** The t that cuts off a share, as it is asked for again and again. */
function quantile(share, freedom) {
  const key = `${share} ${freedom}`;
  if (!quantiles.has(key)) quantiles.set(key, studentQuantile(share, freedom));
  return quantiles.get(key);
}

/** The interval value ± half, cut at ± `limit`, which the mean cannot exceed; null where it can be any number. */
export function within(value, half, limit) { return { value, half, low: Math.max(value - half, -(limit ?? Infinity)), high: Math.min(value + half, limit ?? Infinity) }; }

/** The mean of clusters, from sums and weights of each, with the interval of two-sided level alpha; ends are NaN with fewer than FEWEST clusters. Clusters that vary by at most `nearest` vary by rounding alone. */
export function around(sums, sizes, { alpha, value_range, limit, nearest = 0 }) {
  const terms = contributions(sums, sizes), k = terms.length, value = mean(terms);
  let farthest = 0, largest = 0, squares = 0;
  for (let i = 0; i < k; i++) {
    const off = terms[i] - value;
    farthest = Math.max(farthest, Math.abs(off));
    largest = Math.max(largest, Math.abs(terms[i]));
    squares += off * off;
  }
  const error = Math.sqrt(squares / (k * (k - 1)));
  const half = k < FEWEST ? NaN : farthest <= Math.max(1e-9 * largest, nearest) || error === 0 ? (1 - (alpha / 2) ** (1 / k)) * (value_range + Math.abs(value)) : quantile(alpha / 2, k - 1) * error;
  return { ...within(value, half, limit), clusters: k };
}

/** The mean of values with the interval of `around`. */
export function interval(values, names, weights, facts) { return around(...summed(values, names, weights), facts); }

/** A mean of one entry by itself with the interval of imharness.statistics.means: the farther end of t and of skewness-corrected t. */
export function meanAlone(values, names, weights, facts) {
  const plain = interval(values, names, weights, facts), terms = contributions(...summed(values, names, weights)), k = terms.length;
  if (k < FEWEST || !varies(terms, plain.value)) return plain;
  const reached = quantile(facts.alpha / 2, k - 1), end = skewedEnd(terms, plain.value);
  return { ...plain, low: Math.min(plain.low, end(reached)), high: Math.max(plain.high, end(-reached)) };
}

/**
 * The mean of units that are nested in groups, and groups in strata, with the interval of imharness.statistics.nested; ends are
 * NaN where there is none. `groups`, `strata`: those of each value. The error of the mean has a variance between groups
 * (`among`) and one within them (`inside`); where groups differ no more than units, both are estimated as one.
 */
export function nestedInterval(values, groups, strata) {
  const average = (units) => mean(units.map((i) => values[i])), all = grouped(values, strata), n = values.length, value = mean(values);
  const stratum = new Map(all.flatMap((units) => { const facts = { size: units.length, mean: average(units) }; return units.map((i) => [i, facts]); }));
  const nests = grouped(values, groups).map((units) => ({ units, size: units.length, mean: average(units), stratum: stratum.get(units[0]) }));
  const free = nests.length - all.length, most = n - all.length; // degrees of freedom between groups, and of all units
  const ends = (error, freedom) => { const half = studentQuantile((1 - LEVEL) / 2, freedom) * error; return { value, low: value - half, high: value + half }; };
  if (free < FEWEST_FREE) return { value, low: NaN, high: NaN };
  const between = sum(nests.map((nest) => nest.size * (nest.mean - nest.stratum.mean) ** 2));
  const within = sum(nests.map((nest) => sum(nest.units.map((i) => (values[i] - nest.mean) ** 2))));
  const among = between / free, inside = n > nests.length ? within / (n - nests.length) : 0;
  if (among <= inside || n === nests.length) return ends(Math.sqrt((between + within) / most / n), most);
  const typical = (n - sum(nests.map((nest) => nest.size ** 2 / nest.stratum.size))) / free, share = sum(nests.map((nest) => nest.size ** 2)) / n ** 2 / typical;
  const variances = [share * among, (1 / n - share) * inside], variance = sum(variances);
  const freedom = variance ** 2 / (variances[0] ** 2 / free + variances[1] ** 2 / (n - nests.length));
  return ends(Math.sqrt(Math.max(variance, 0)), Math.min(Math.max(freedom, free), most));
}

const momentOf = (terms, value, power) => mean(terms.map((x) => (x - value) ** power));
const varies = (terms, value, nearest = 0) => Math.max(...terms.map((x) => Math.abs(x - value))) > Math.max(1e-9 * Math.max(...terms.map(Math.abs)), nearest);

/** A function: t -> the end of Hall's interval of a mean, which corrects for skewness. `sure`: only skewness beyond its standard error counts. */
function skewedEnd(terms, value, sure = false) {
  const k = terms.length, spread = Math.sqrt(momentOf(terms, value, 2)), raw = momentOf(terms, value, 3) / spread ** 3;
  const skew = sure ? Math.sign(raw) * Math.max(0, Math.abs(raw) - Math.sqrt(6 * (k - 2) / ((k + 1) * (k + 3)))) : raw;
  return (bound) => {
    const wanted = bound / Math.sqrt(k) - skew / (6 * k);
    return value - (Math.abs(skew) < 1e-9 ? wanted : 3 / skew * (Math.cbrt(1 + skew * wanted) - 1)) * spread * Math.sqrt(k / (k - 1));
  };
}

/** Is a mean shown to be above 0 at the two-sided level of 5 %, if nothing else is tested? As in imharness.statistics.against_one. */
export function shownAlone(sums, sizes, value_range, nearest = 0) {
  const plain = around(sums, sizes, { alpha: 1 - LEVEL, value_range, nearest }), terms = contributions(sums, sizes);
  if (!(plain.low > 0)) return false;
  return !varies(terms, plain.value, nearest) || skewedEnd(terms, plain.value, true)(quantile((1 - LEVEL) / 2, terms.length - 1)) > 0;
}

/** Groups of conditions of which the worst one counts: those that differ in the facets `index.over` alone; without such facets, each condition is a group. */
export function groupsOf(index, conditions) {
  const groups = new Map();
  for (const c of conditions) {
    const facets = Object.entries(index.conditions[c].facets).filter(([facet]) => !index.over.includes(facet)).sort();
    const key = index.over.length ? JSON.stringify(facets) : c;
    groups.set(key, [...(groups.get(key) ?? []), c]);
  }
  return [...groups.values()];
}

/**
 * The advantage of the first entry over the second (`values`) on each unit that both have (`units`): the difference of their
 * worst scores in a group of conditions, mean over groups. `names`: the cluster of each unit, null without clusters.
 * `weights`: null where all units weigh the same. `ahead` of `met`: in how many of the conditions that both have the first one
 * is ahead. `nearest`: up to which distance two advantages may be equal. `alike`: whether only scores count that both have,
 * as where an entry is incomplete.
 */
export function pooled(index, first, second, conditions, alike = false) {
  const sign = index.better === "higher" ? 1 : -1, size = index.units.length;
  const total = new Float64Array(size), count = new Int32Array(size);
  const ofBoth = conditions.flatMap((c) => index.unit_sets[index.conditions[c].units].flatMap((_, i) => [first, second].map((vector) => Math.abs(vector[index.starts[c] + i]))));
  const nearest = resolution(first.constructor, ofBoth.reduce((most, size) => (Number.isFinite(size) ? Math.max(most, size) : most), 0));
  let ahead = 0, met = 0;
  for (const group of groupsOf(index, conditions)) {
    const worst = [first, second].map(() => new Float64Array(size).fill(NaN));
    for (const c of group) {
      let difference = 0, shared = 0;
      index.unit_sets[index.conditions[c].units].forEach((unit, i) => {
        const [a, b] = [first, second].map((vector) => sign * vector[index.starts[c] + i]), both = Number.isFinite(a) && Number.isFinite(b);
        if (both) { difference += a - b; shared++; }
        if (Number.isFinite(a) && (both || !alike) && !(a >= worst[0][unit])) worst[0][unit] = a; // also where none is there yet, NaN
        if (Number.isFinite(b) && (both || !alike) && !(b >= worst[1][unit])) worst[1][unit] = b;
      });
      met += shared > 0;
      ahead += difference > nearest * shared;
    }
    worst[0].forEach((a, unit) => { const d = a - worst[1][unit]; if (!Number.isNaN(d)) { total[unit] += d; count[unit]++; } });
  }
  const units = [...count.keys()].filter((unit) => count[unit]);
  return {
    values: units.map((unit) => total[unit] / count[unit]), units, ahead, met, nearest,
    names: index.clusters.length ? units.map((unit) => index.clusters[unit]) : null,
    weights: index.weights.length ? units.map((unit) => index.weights[unit]) : null,
  };
}

/** Two entries head to head: the simultaneous interval, raw p-values in both directions, and the effect size. */
export function headToHead(index, first, second, conditions, alike = false) {
  const { values, names, weights, ahead, met, nearest } = pooled(index, first, second, conditions, alike);
  if (!values.length) return null;
  return {
    n: values.length, clusters: names && new Set(names).size, ahead, met,
    better: clustersGreater(values, names, nearest), worse: clustersGreater(values.map((d) => -d), names, nearest),
    difference: interval(values, names, weights, { alpha: index.pairwise_alpha, value_range: index.value_range, limit: index.limit, nearest }), effect: rankBiserial(clusterMeans(values, names), nearest),
  };
}

const SIGNS = { better: 1, undecided: 0, worse: -1 };

/**
 * Which of two entries is better: 1 the first, -1 the second, 0 if that is not shown; by which interval of the difference,
 * and for whom that holds. What the ranking of this comparison says counts, as in imharness.compare; without it, or where
 * `some` conditions alone are chosen, the interval of all pairs.
 */
export function judged(index, first, second, difference, some = false) {
  const { low, high } = difference, ranking = some ? null : index.stated;
  const plainly = { verdict: low > 0 ? 1 : high < 0 ? -1 : 0, difference, holds: "for all pairs of entries at once" };
  if (!ranking) return plainly;
  for (const [entry, plain, sign] of [[first, second, 1], [second, first, -1]]) {
    const against = plain === ranking.baseline ? ranking.against[entry] : undefined;
    if (!against) continue;
    const ends = against.low === null ? {} : sign > 0 ? { low: against.low, high: against.high } : { low: -against.high, high: -against.low };
    return { verdict: sign * SIGNS[against.verdict], difference: { ...difference, ...ends }, holds: `for all entries against ${ranking.name} at once` };
  }
  const of = first === ranking.winner ? second : second === ranking.winner ? first : null;
  if (of === null || !ranking.rivals.includes(of)) return plainly;
  const ends = first === ranking.winner ? { low: Math.max(low, 0) } : { high: Math.min(high, 0) };
  return { verdict: first === ranking.winner ? 1 : -1, difference: { ...difference, ...ends }, holds: "for the winner against each other entry by itself" };
}

/** Groups of entries: the first one has the best entry and all that it does not beat; then the same of the rest. */
export function tieGroups(order, beats) {
  let rest = [...order];
  const groups = [];
  while (rest.length) {
    const group = rest.filter((entry) => entry === rest[0] || !beats(rest[0], entry));
    groups.push(group);
    rest = rest.filter((entry) => !group.includes(entry));
  }
  return groups;
}
