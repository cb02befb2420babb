// Tiles of the run: which ones a window needs, fetching them, and walking along their lanes.

export const BUCKETS = 1024;
// The number of a task of which nothing is known.
export const UNKNOWN = 0xffffffff;
const MOST_KEPT = 400;
const MOST_AT_ONCE = 4;

export class Tiles {
  // `address` names a tile by its level and number, `prepare` makes its lanes ready to be found.
  constructor(whole, changed, address = (name) => `tile/${name}`, prepare = lanes_by_number) {
    this.whole = whole;
    this.changed = changed;
    this.address = address;
    this.prepare = prepare;
    this.kept = new Map();
    this.wanted = [];
    this.under_way = 0;
    this.failed = "";
  }

  bucket_ns(level) {
    return level >= 0 ? this.whole.bucket_ns * 4 ** level : this.whole.bucket_ns / 4 ** -level;
  }

  tile_ns(level) {
    return this.bucket_ns(level) * BUCKETS;
  }

  // The level whose buckets are as wide as a pixel, or finer.
  level_for(ns_per_pixel) {
    const level = Math.floor(Math.log(ns_per_pixel / this.whole.bucket_ns) / Math.log(4));
    const finest = -Math.floor(Math.log(this.whole.bucket_ns) / Math.log(4));
    return Math.max(finest, Math.min(this.whole.tiles.length - 1, level));
  }

  // The best tiles at hand for a window, each with the stretch that it stands for; better ones are asked for.
  in_window(from, to, ns_per_pixel) {
    const level = this.level_for(ns_per_pixel);
    const width = this.tile_ns(level);
    const last = Math.ceil(this.whole.duration_ns / width) - 1;
    const found = [];
    this.wanted = [];
    for (let index = Math.max(0, Math.floor(from / width)); index <= Math.min(last, Math.floor(to / width)); index++) {
      const tile = this.best(level, index);
      if (tile) found.push({ tile, from: index * width, to: (index + 1) * width });
    }
    this.next();
    return found;
  }

  best(level, index) {
    for (let up = level, at = index; up < this.whole.tiles.length; up++, at = Math.floor(at / 4)) {
      const tile = this.kept.get(`${up}/${at}`);
      if (tile) {
        if (up !== level && !tile.exact) this.wanted.push([level, index]);
        this.kept.delete(`${up}/${at}`);
        this.kept.set(`${up}/${at}`, tile);
        return tile;
      }
    }
    this.wanted.push([level, index]);
    return null;
  }

  // All are asked for anew: they are of something else now. What is under way still goes to those of before.
  forget() {
    this.kept = new Map();
    this.wanted = [];
  }

  next() {
    while (this.under_way < MOST_AT_ONCE && this.wanted.length > 0) {
      const [level, index] = this.wanted.shift();
      const name = `${level}/${index}`;
      if (this.kept.has(name)) continue;
      this.kept.set(name, null);
      this.under_way++;
      const kept = this.kept;
      fetch(this.address(name))
        .then((answer) => (answer.ok ? answer.json() : answer.text().then((text) => Promise.reject(new Error(text)))))
        .then((tile) => {
          tile.from = index * this.tile_ns(level);
          tile.to = tile.from + this.tile_ns(level);
          this.prepare(tile);
          kept.set(name, tile);
          this.failed = "";
          while (this.kept.size > MOST_KEPT) this.kept.delete(this.kept.keys().next().value);
        })
        .catch((error) => {
          this.failed = String(error.message).trim();
          setTimeout(() => kept.get(name) === null && kept.delete(name), 2000);
        })
        .finally(() => {
          this.under_way--;
          this.changed();
        });
    }
  }
}

const by_number = (lanes) => new Map(lanes.map((lane) => [lane[0], lane]));

function lanes_by_number(tile) {
  for (const name of ["cpus", "tasks", "locks"]) tile[name] = by_number(tile[name]);
}

// The same for tiles of objects.
export function lanes_of_objects(tile) {
  for (const name of ["busy", "asks"]) tile[name] = by_number(tile[name]);
}

// Hands each stretch of a lane in buckets to take(from, to, shares), shares being [key, share of 255, ...].
export function walk(lane, bucket_ns, tile_from, from, to, take) {
  let state = lane[1];
  let at = 0;
  for (let place = 2; place < lane.length; ) {
    const bucket = lane[place];
    const count = lane[place + 2];
    if (bucket > at) stretch(at, bucket, state);
    const begin = tile_from + bucket * bucket_ns;
    if (begin < to && begin + bucket_ns > from) take(begin, begin + bucket_ns, lane, place + 3, count);
    state = lane[place + 1];
    at = bucket + 1;
    place += 3 + 2 * count;
  }
  stretch(at, BUCKETS, state);

  function stretch(first, behind, key) {
    const begin = Math.max(from, tile_from + first * bucket_ns);
    const end = Math.min(to, tile_from + behind * bucket_ns);
    if (end > begin) take(begin, end, [key, 255], 0, 1);
  }
}
