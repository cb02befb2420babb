const host = globalThis.__weir;

const frozen = (value) => {
  if (value !== null && typeof value === "object") Object.values(Object.freeze(value)).forEach(frozen);
  return value;
};

// Elements are kept once for all users and parsed when they are read.
export class SharedArray {
  constructor(name, make) {
    if (typeof name !== "string" || name === "") throw new TypeError("a SharedArray needs a name that is not empty");
    if (typeof make !== "function") throw new TypeError("a SharedArray needs a function that gives its array");
    if (!host.isInit()) throw new Error("a SharedArray can only be made in the init context");
    let length = host.sharedLength(name);
    if (length < 0) {
      const made = make();
      if (!Array.isArray(made)) throw new TypeError("the function of a SharedArray has to give an array");
      length = host.share(name, made.map((one) => JSON.stringify(one) ?? "null"));
    }
    const get = (index) => frozen(JSON.parse(host.sharedAt(name, index)));
    const refuse = () => {
      throw new TypeError("a SharedArray is read only");
    };
    return new Proxy([], {
      get(target, key, receiver) {
        if (key === "length") return length;
        if (typeof key === "string" && /^(0|[1-9][0-9]*)$/.test(key)) {
          const index = Number(key);
          return index < length ? get(index) : undefined;
        }
        return Reflect.get(target, key, receiver);
      },
      has(target, key) {
        if (typeof key === "string" && /^[0-9]+$/.test(key)) return Number(key) < length;
        return Reflect.has(target, key);
      },
      set: refuse,
      defineProperty: refuse,
      deleteProperty: refuse,
    });
  }
}

export default { SharedArray };
