const host = globalThis.__weir;

export function b64encode(input, encoding) {
  return host.b64encode(input, encoding === undefined || encoding === null ? "std" : String(encoding));
}

export function b64decode(input, encoding, format) {
  const bytes = host.b64decode(String(input), encoding === undefined || encoding === null ? "std" : String(encoding));
  return format === "s" ? host.text(bytes) : bytes;
}

export default { b64encode, b64decode };
