const host = globalThis.__weir;

const written = (bytes, format) => host.digestAs(bytes, format === undefined ? "binary" : String(format));

class Hasher {
  constructor(begin) {
    this.begin = begin;
    this.parts = [];
  }
  update(input) {
    this.parts.push(host.bytes(input));
  }
  digest(format) {
    return written(this.begin(host.joined(this.parts)), format);
  }
}
const hash = (name) => (input, format) => written(host.hash(name, host.bytes(input)), format);

export const md4 = hash("md4");
export const md5 = hash("md5");
export const sha1 = hash("sha1");
export const sha256 = hash("sha256");
export const sha384 = hash("sha384");
export const sha512 = hash("sha512");
export const sha512_224 = hash("sha512_224");
export const sha512_256 = hash("sha512_256");
export const ripemd160 = hash("ripemd160");
export const createHash = (name) => {
  host.hash(String(name), new ArrayBuffer(0));
  return new Hasher((bytes) => host.hash(String(name), bytes));
};
export const createHMAC = (name, key) => {
  const secret = host.bytes(key);
  host.hmac(String(name), secret, new ArrayBuffer(0));
  return new Hasher((bytes) => host.hmac(String(name), secret, bytes));
};
export const hmac = (name, key, input, format) =>
  written(host.hmac(String(name), host.bytes(key), host.bytes(input)), format);
export const randomBytes = (size) => host.randomBytes(Number(size));
export const hexEncode = (input) => host.digestAs(host.bytes(input), "hex");

export default {
  md4, md5, sha1, sha256, sha384, sha512, sha512_224, sha512_256, ripemd160,
  createHash, createHMAC, hmac, randomBytes, hexEncode,
};
