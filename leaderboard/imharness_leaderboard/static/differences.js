// How far each entry of a comparison is ahead of each other one, for rankings of thousands of entries: what depends on one
// entry is computed once, each pair once, and work that takes long lets the page answer in between.
import { around, groupsOf, resolution, shownAlone, within } from "./statistics.js";

const SLICE = 40; // ms of work before the page may answer
const NONE = { value: NaN, half: NaN, low: NaN, high: NaN };

/** Return a function to wait for between parts of long work; it throws `Stopped` once `wanted` says no. */
export function slices(wanted = () => true) {
  let start = performance.now();
  return async () => {
    if (performance.now() - start < SLICE) return;
    await new Promise((done) => { setTimeout(done); });
    start = performance.now();
    if (!wanted()) throw new Stopped();
  };
}

export class Stopped extends Error {}

/** The differences of all pairs of entries of a comparison over some conditions; each is computed when it is first asked for. */
export class Pairs {
  constructor(index, vectors, conditions) {
    Object.assign(this, { index, vectors, size: index.units.length, groups: groupsOf(index, conditions), worsts: new Map(), resolutions: new Map() });
    const n = index.entries.length, names = index.clusters, positions = new Map();
    this.codes = Int32Array.from({ length: this.size }, (_, unit) => {
      const name = names.length ? names[unit] : unit;
      if (!positions.has(name)) positions.set(name, positions.size);
      return positions.get(name);
    });
    [this.sums, this.sizes] = [0, 1].map(() => new Float64Array(positions.size)); // by cluster, of the pair that `gather` saw last
    [this.values, this.halves] = [0, 1].map(() => new Float64Array(n * (n - 1) / 2)); // mean and half width of the interval of each pair
    this.computed = new Uint8Array(this.values.length);
  }

  /**
   * The worst score of entry e on each unit, higher is better: for all units in the first group of conditions, then in the next
   * group, and so on. NaN where it has none.
   */
  worst(e) {
    if (!this.worsts.has(e)) {
      const gains = new Float64Array(this.groups.length * this.size).fill(NaN), { index } = this, sign = index.better === "higher" ? 1 : -1;
      this.groups.forEach((group, g) => {
        for (const c of group) index.unit_sets[index.conditions[c].units].forEach((unit, i) => {
          const gain = sign * this.vectors[e][index.starts[c] + i], at = g * this.size + unit;
          if (Number.isFinite(gain) && !(gain >= gains[at])) gains[at] = gain;
        });
      });
      this.worsts.set(e, gains);
    }
    return this.worsts.get(e);
  }

  /** The advantage of entry a over entry b with its interval; NaN where they share no unit. Intervals at the default level hold for all pairs at once, and are kept. */
  interval(a, b, alpha = this.index.pairwise_alpha) {
    if (alpha !== this.index.pairwise_alpha) return this.compute(a, b, alpha);
    const [i, j] = a < b ? [a, b] : [b, a], at = j * (j - 1) / 2 + i;
    if (!this.computed[at]) {
      const result = this.compute(i, j, alpha);
      this.values[at] = result.value;
      this.halves[at] = result.half;
      this.computed[at] = 1;
    }
    return within(a < b ? this.values[at] : -this.values[at], this.halves[at], this.index.limit);
  }

  /** The advantage of entry a over entry b with an interval of two-sided level alpha, computed anew. */
  compute(a, b, alpha) {
    return this.gather(a, b) ? around(this.sums, this.sizes, { alpha, value_range: this.index.value_range, limit: this.index.limit, nearest: this.nearest(a, b) }) : NONE;
  }

  /** Is entry a shown to be better than entry b, if no other pair is tested? See imharness.statistics.against_one. */
  alone(a, b) { return this.gather(a, b) && shownAlone(this.sums, this.sizes, this.index.value_range, this.nearest(a, b)); }

  /** How near two differences of two entries are that rounding may part. */
  nearest(...pair) {
    for (const e of pair) if (!this.resolutions.has(e)) {
      let largest = 0;
      for (const score of this.vectors[e]) if (Number.isFinite(score)) largest = Math.max(largest, Math.abs(score));
      this.resolutions.set(e, resolution(this.vectors[e].constructor, largest));
    }
    return Math.max(...pair.map((e) => this.resolutions.get(e)));
  }

  /**
   * Fill `sums` and `sizes`, by cluster, with the weighted advantages of entry a over entry b and with the weights, and return
   * whether the two share a unit. The advantage on a unit is the mean over groups of the difference of their worst scores.
   */
  gather(a, b) {
    const first = this.worst(a), other = this.worst(b), { size, codes, index, sums, sizes } = this;
    sums.fill(0);
    sizes.fill(0);
    for (let unit = 0; unit < size; unit++) {
      let total = 0, count = 0;
      for (let at = unit; at < first.length; at += size) {
        const difference = first[at] - other[at];
        if (!Number.isNaN(difference)) { total += difference; count++; }
      }
      if (!count) continue;
      const weight = index.weights.length ? index.weights[unit] : 1;
      sums[codes[unit]] += weight * total / count;
      sizes[codes[unit]] += weight;
    }
    return sizes.some(Boolean);
  }
}
