const host = globalThis.__weir;

class Metric {
  constructor(kind, name, isTime) {
    this.name = String(name);
    this.id = host.metric(kind, this.name, !!isTime);
  }
  add(value, tags) {
    return host.add(this.id, Number(value), tags);
  }
}
export class Counter extends Metric {
  constructor(name, isTime) {
    super("counter", name, isTime);
  }
}
export class Gauge extends Metric {
  constructor(name, isTime) {
    super("gauge", name, isTime);
  }
}
export class Rate extends Metric {
  constructor(name, isTime) {
    super("rate", name, isTime);
  }
}
export class Trend extends Metric {
  constructor(name, isTime) {
    super("trend", name, isTime);
  }
}
for (const kind of [Counter, Gauge, Rate, Trend]) Object.defineProperty(kind.prototype, "id", { writable: true });

export default { Counter, Gauge, Rate, Trend };
