const host = globalThis.__weir;

export function check(value, sets, tags) {
  if (sets === null || typeof sets !== "object") throw new TypeError("check needs an object of conditions");
  let all = true;
  for (const name of Object.keys(sets)) {
    let passed = sets[name];
    let thrown;
    if (typeof passed === "function") {
      try {
        passed = passed(value);
      } catch (error) {
        thrown = { error };
        passed = false;
      }
    }
    if (typeof passed === "object" && passed instanceof Promise) throw new TypeError(`check "${name}" gives a promise: await it before the check`);
    passed = !!passed;
    host.check(name, passed, tags);
    if (thrown) throw thrown.error;
    if (!passed) all = false;
  }
  return all;
}

export function group(name, call) {
  if (typeof call !== "function") throw new TypeError("group needs a function");
  if (call.constructor && call.constructor.name === "AsyncFunction")
    throw new TypeError("group does not support async functions: call them outside of a group");
  const before = host.groupBegin(String(name));
  const begun = host.now();
  try {
    return call();
  } finally {
    host.groupEnd(before, host.now() - begun);
  }
}

export function sleep(seconds) {
  host.sleep(Number(seconds) || 0);
}

export function fail(message) {
  throw new Error(message === undefined ? "" : String(message));
}

export function randomSeed(seed) {
  let state = BigInt.asUintN(64, BigInt(Math.trunc(Number(seed) || 0)));
  // splitmix64: the same seed gives the same numbers.
  Math.random = () => {
    state = BigInt.asUintN(64, state + 0x9e3779b97f4a7c15n);
    let mixed = state;
    mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 30n)) * 0xbf58476d1ce4e5b9n);
    mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
    mixed ^= mixed >> 31n;
    return Number(mixed >> 11n) / 9007199254740992;
  };
}

export default { check, group, sleep, fail, randomSeed };
