// What every script has without importing it. Evaluated once for each user, before the script.
(function (host) {
  const shown = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return String(value);
    if (typeof value === "function") return "[object Function]";
    if (value !== null && typeof value === "object") {
      try {
        const text = JSON.stringify(value);
        return text === undefined ? String(value) : text;
      } catch (_) {
        return String(value);
      }
    }
    return String(value);
  };
  const writer = (level) => (...values) => host.log(level, values.map(shown).join(" "));
  globalThis.console = {
    log: writer("info"),
    info: writer("info"),
    debug: writer("debug"),
    warn: writer("warning"),
    error: writer("error"),
  };

  const random = (size) => new Uint8Array(host.randomBytes(size));
  globalThis.crypto = {
    getRandomValues(array) {
      const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
      if (bytes.length > 0) bytes.set(random(bytes.length));
      return array;
    },
    randomUUID() {
      const bytes = random(16);
      bytes[6] = (bytes[6] & 0x0f) | 0x40;
      bytes[8] = (bytes[8] & 0x3f) | 0x80;
      return host.digestAs(bytes, "hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
    },
    subtle: new Proxy({}, {
      get: (_, name) => async (algorithm, data) => {
        if (name !== "digest") throw new Error(`crypto.subtle.${String(name)} is not there: digest is, and k6/crypto`);
        const given = typeof algorithm === "string" ? algorithm : algorithm.name;
        return host.hash(String(given).toLowerCase().replace("-", ""), data);
      },
    }),
  };

  // Timers and requests without waiting: the loop of an iteration, which `turn` goes on with.
  let timers = [];
  let last = 0;
  let waiting = [];
  const add = (call, milliseconds, every, values) => {
    if (typeof call !== "function") throw new TypeError("setTimeout and setInterval need a function");
    const after = Math.max(every ? 1 : 0, Number(milliseconds) || 0);
    const timer = { id: ++last, at: host.now() + after, every: every ? after : 0, call, values };
    timers.push(timer);
    return timer.id;
  };
  const drop = (id) => {
    timers = timers.filter((timer) => timer.id !== id);
  };
  globalThis.setTimeout = (call, milliseconds, ...values) => add(call, milliseconds, false, values);
  globalThis.setInterval = (call, milliseconds, ...values) => add(call, milliseconds, true, values);
  globalThis.clearTimeout = drop;
  globalThis.clearInterval = drop;
  host.later = (prototype, request) =>
    new Promise((resolve, reject) => waiting.push({ prototype, request, resolve, reject }));
  host.reset = () => {
    if (timers.length > 0) timers = [];
    if (waiting.length > 0) waiting = [];
  };
  // Goes on by one step; false if nothing is left to do.
  host.turn = () => {
    if (waiting.length > 0) {
      const asked = waiting;
      waiting = [];
      const answers = host.batch(asked[0].prototype, asked.map((one) => one.request));
      answers.forEach((answer, index) => {
        if (answer instanceof Error) asked[index].reject(answer);
        else asked[index].resolve(answer);
      });
      return true;
    }
    if (timers.length === 0) return false;
    let next = timers[0];
    for (const timer of timers) if (timer.at < next.at) next = timer;
    const wait = next.at - host.now();
    if (wait > 0) host.sleep(wait / 1000);
    if (next.every > 0) next.at = host.now() + next.every;
    else drop(next.id);
    next.call(...next.values);
    return true;
  };
})(globalThis.__weir);
