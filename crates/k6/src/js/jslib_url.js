// What jslib's url gives: URL and URLSearchParams (https://url.spec.whatwg.org), by the host's own reader of addresses.
const host = globalThis.__weir;

const encoded = (text) => encodeURIComponent(text).replace(/%20/g, "+").replace(/[!'()~]/g, (sign) => "%" + sign.charCodeAt(0).toString(16).toUpperCase());
const decoded = (text) => {
  try {
    return decodeURIComponent(text.replace(/\+/g, " "));
  } catch (_) {
    return text;
  }
};

export class URLSearchParams {
  constructor(init) {
    this._list = [];
    this._changed = () => {};
    if (init === undefined || init === null) return;
    if (typeof init === "string") {
      for (const part of init.replace(/^\?/, "").split("&")) {
        if (part === "") continue;
        const at = part.indexOf("=");
        this._list.push(at < 0 ? [decoded(part), ""] : [decoded(part.slice(0, at)), decoded(part.slice(at + 1))]);
      }
    } else if (typeof init[Symbol.iterator] === "function") {
      for (const pair of init) {
        if (pair.length !== 2) throw new TypeError("Each query pair must be an iterable [name, value] tuple");
        this._list.push([String(pair[0]), String(pair[1])]);
      }
    } else for (const key of Object.keys(init)) this._list.push([key, String(init[key])]);
  }
  append(name, value) {
    this._list.push([String(name), String(value)]);
    this._changed();
  }
  delete(name) {
    this._list = this._list.filter(([key]) => key !== String(name));
    this._changed();
  }
  get(name) {
    const found = this._list.find(([key]) => key === String(name));
    return found === undefined ? null : found[1];
  }
  getAll(name) {
    return this._list.filter(([key]) => key === String(name)).map(([, value]) => value);
  }
  has(name) {
    return this._list.some(([key]) => key === String(name));
  }
  set(name, value) {
    const at = this._list.findIndex(([key]) => key === String(name));
    if (at < 0) this._list.push([String(name), String(value)]);
    else {
      this._list[at][1] = String(value);
      this._list = this._list.filter(([key], index) => index <= at || key !== String(name));
    }
    this._changed();
  }
  sort() {
    this._list.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this._changed();
  }
  forEach(call, self) {
    for (const [name, value] of this._list) call.call(self, value, name, this);
  }
  *entries() {
    for (const [name, value] of this._list) yield [name, value];
  }
  *keys() {
    for (const [name] of this._list) yield name;
  }
  *values() {
    for (const [, value] of this._list) yield value;
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  toString() {
    return this._list.map(([name, value]) => `${encoded(name)}=${encoded(value)}`).join("&");
  }
}

export class URL {
  constructor(address, base) {
    this._set(host.join(base === undefined ? String(address) : String(base), String(address)));
  }
  _set(href) {
    const found = /^([a-z][a-z0-9+.-]*:)(?:\/\/(?:([^/?#@:]*)(?::([^/?#@]*))?@)?(\[[^\]]*\]|[^/?#:]*)(?::([0-9]*))?)?([^?#]*)(\?[^#]*)?(#.*)?$/i.exec(href);
    if (found === null) throw new TypeError(`Invalid URL: ${href}`);
    const [, protocol, username = "", password = "", hostname = "", port = "", pathname, search = "", hash = ""] = found;
    this._p = { protocol, username, password, hostname, port, pathname: pathname || (hostname ? "/" : ""), search: search === "?" ? "" : search, hash: hash === "#" ? "" : hash };
    this._watch();
  }
  _watch() {
    this.searchParams = new URLSearchParams(this._p.search);
    this.searchParams._changed = () => {
      const text = this.searchParams.toString();
      this._p.search = text === "" ? "" : `?${text}`;
    };
  }
  get protocol() { return this._p.protocol; }
  set protocol(value) { this._p.protocol = String(value).replace(/:*$/, ":"); }
  get username() { return this._p.username; }
  set username(value) { this._p.username = encodeURIComponent(value); }
  get password() { return this._p.password; }
  set password(value) { this._p.password = encodeURIComponent(value); }
  get hostname() { return this._p.hostname; }
  set hostname(value) { this._p.hostname = String(value); }
  get port() { return this._p.port; }
  set port(value) { this._p.port = String(value); }
  get host() { return this._p.hostname + (this._p.port === "" ? "" : `:${this._p.port}`); }
  set host(value) { [this._p.hostname, this._p.port = ""] = String(value).split(":"); }
  get origin() { return `${this._p.protocol}//${this.host}`; }
  get pathname() { return this._p.pathname; }
  set pathname(value) { this._p.pathname = encodeURI(String(value).replace(/^\/?/, "/")); }
  get search() { return this._p.search; }
  set search(value) {
    const text = String(value);
    this._p.search = text === "" || text === "?" ? "" : text.replace(/^\??/, "?");
    this._watch();
  }
  get hash() { return this._p.hash; }
  set hash(value) { this._p.hash = value === "" ? "" : String(value).replace(/^#?/, "#"); }
  get href() {
    const { protocol, username, password, pathname, search, hash } = this._p;
    const user = username === "" ? "" : `${username}${password === "" ? "" : `:${password}`}@`;
    return `${protocol}//${user}${this.host}${pathname}${search}${hash}`;
  }
  set href(value) { this._set(host.join(String(value), String(value))); }
  toString() { return this.href; }
  toJSON() { return this.href; }
}

export default { URL, URLSearchParams };
