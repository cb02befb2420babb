// What every script has without importing it. Evaluated once for each user, before the script.
(function (host) {
  // Functions of the host that are not made yet are made when they are first asked for.
  const { need } = host;
  Object.setPrototypeOf(host, new Proxy({}, { get: (_, name) => (typeof name === "string" ? need(name) : undefined) }));

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

  // Few scripts need it.
  Object.defineProperty(globalThis, "crypto", {
    configurable: true,
    enumerable: true,
    get: () => host.module("weir:webcrypto").default,
    set: (value) => Object.defineProperty(globalThis, "crypto", { value, writable: true, configurable: true, enumerable: true }),
  });

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
  // What the module of sockets gives the loop, once that is loaded.
  host.sockets = undefined;
  host.reset = () => {
    if (timers.length > 0) timers = [];
    if (waiting.length > 0) waiting = [];
    if (host.sockets !== undefined) host.sockets.reset();
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
    const { sockets } = host;
    if (sockets !== undefined && sockets.tell()) return true;
    const areOpen = sockets !== undefined && sockets.areOpen();
    if (timers.length === 0) {
      if (areOpen) sockets.wait(-1);
      return areOpen;
    }
    let next = timers[0];
    for (const timer of timers) if (timer.at < next.at) next = timer;
    const wait = next.at - host.now();
    // Events come in between timers, even where these are due one after the other.
    if (areOpen) {
      if (sockets.wait(Math.max(0, wait)) && wait > 0) return true;
    } else if (wait > 0) host.sleep(wait / 1000);
    if (next.every > 0) next.at = host.now() + next.every;
    else drop(next.id);
    next.call(...next.values);
    return true;
  };
})(globalThis.__weir);
