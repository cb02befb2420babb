// globalThis.crypto.
const host = globalThis.__weir;

const random = (size) => new Uint8Array(host.randomBytes(size));
export default {
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
