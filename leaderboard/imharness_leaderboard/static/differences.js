// How far each entry of a comparison is ahead of each other one, for rankings of thousands of entries: what depends on one
// entry is computed once, each pair once, and work that takes long lets the page answer in between.
import { around, groupsOf } from "./statistics.js";

const SLICE = 40; // ms of work before the page may answer
const NONE = { value: NaN, low: NaN, high: NaN };

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

/** The differences of all pairs of entries of a comparison over some conditions, each computed when it is asked for first. */
export class Pairs {
  constructor(index, vectors, conditions) {
    Object.assign(this, { index, vectors, size: index.units.length, groups: groupsOf(index, conditions), worsts: new Map() });
    const n = index.entries.length, names = index.clusters, place = new Map();
    this.codes = Int32Array.from({ length: this.size }, (_, unit) => {
      const name = names.length ? names[unit] : unit;
      if (!place.has(name)) place.set(name, place.size);
      return place.get(name);
    });
    [this.sums, this.sizes] = [0, 1].map(() => new Float64Array(place.size)); // of the pair that is computed
    [this.values, this.halves] = [0, 1].map(() => new Float64Array(n * (n - 1) / 2));
    this.known = new Uint8Array(this.values.length);
  }

  /** Worst gain of each unit in each group of conditions, one group after the other; NaN where an entry has none. */
  worst(e) {
    if (!this.worsts.has(e)) {
      const found = new Float64Array(this.groups.length * this.size).fill(NaN), { index } = this, sign = index.better === "higher" ? 1 : -1;
      this.groups.forEach((group, g) => {
        for (const c of group) index.unit_sets[index.conditions[c].units].forEach((unit, i) => {
          const gain = sign * this.vectors[e][index.starts[c] + i], at = g * this.size + unit;
          if (Number.isFinite(gain) && !(gain >= found[at])) found[at] = gain;
        });
      });
      this.worsts.set(e, found);
    }
    return this.worsts.get(e);
  }

  /** Advantage of entry a over entry b with its simultaneous interval; NaN where they share no unit. */
  told(a, b, tail = this.index.tail) {
    if (tail !== this.index.tail) return this.compute(a, b, tail);
    const [i, j] = a < b ? [a, b] : [b, a], at = j * (j - 1) / 2 + i;
    if (!this.known[at]) {
      const found = this.compute(i, j, tail);
      this.values[at] = found.value;
      this.halves[at] = found.value - found.low;
      this.known[at] = 1;
    }
    const value = a < b ? this.values[at] : -this.values[at], half = this.halves[at];
    return { value, low: value - half, high: value + half };
  }

  /** Of each unit that both have, the mean over groups of the difference of their worst gains; and its interval. */
  compute(a, b, tail) {
    const own = this.worst(a), other = this.worst(b), { size, codes, index, sums, sizes } = this;
    sums.fill(0);
    sizes.fill(0);
    for (let unit = 0; unit < size; unit++) {
      let total = 0, count = 0;
      for (let at = unit; at < own.length; at += size) {
        const d = own[at] - other[at];
        if (d === d) { total += d; count++; } // NaN equals nothing
      }
      if (!count) continue;
      const weight = index.weights.length ? index.weights[unit] : 1;
      sums[codes[unit]] += weight * total / count;
      sizes[codes[unit]] += weight;
    }
    return sizes.some(Boolean) ? around(sums, sizes, { tail, reach: index.reach }) : NONE;
  }
}
