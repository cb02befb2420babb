const host = globalThis.__weir;

const ask = (name) => host.execution(name);
const fields = (of, names) => {
  const made = {};
  for (const name of names) Object.defineProperty(made, name, { enumerable: true, get: () => ask(`${of}.${name}`) });
  return made;
};
const tagged = (of) =>
  new Proxy({}, {
    get: (_, key) => (typeof key === "string" ? host.tagGet(of, key) : undefined),
    has: (_, key) => typeof key === "string" && host.tagGet(of, key) !== undefined,
    set: (_, key, value) => {
      if (value === null || (typeof value === "object"))
        throw new TypeError("only texts, numbers and booleans can be the value of a tag");
      host.tagSet(of, String(key), String(value));
      return true;
    },
    deleteProperty: (_, key) => (host.tagDelete(of, String(key)), true),
    ownKeys: () => host.tagKeys(of),
    getOwnPropertyDescriptor: (_, key) =>
      ({ enumerable: true, configurable: true, value: host.tagGet(of, String(key)) }),
  });

export const scenario = fields("scenario", ["name", "executor", "startTime", "progress", "iterationInInstance", "iterationInTest"]);
export const instance = fields("instance", ["iterationsInterrupted", "iterationsCompleted", "vusActive", "vusInitialized", "currentTestRunDuration"]);
export const vu = fields("vu", ["iterationInInstance", "iterationInScenario", "idInInstance", "idInTest"]);
const tags = tagged("tag");
const metadata = tagged("metadata");
vu.metrics = { tags, metadata };
vu.tags = tags;
export const test = {
  abort(reason) {
    host.abort(reason === undefined ? "" : String(reason));
  },
  fail(reason) {
    host.markFailed(reason === undefined ? "" : String(reason));
  },
  get options() {
    return JSON.parse(host.options());
  },
};

export default { scenario, instance, vu, test };
