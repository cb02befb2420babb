const host = globalThis.__weir;

const isBytes = (value) => value instanceof ArrayBuffer || ArrayBuffer.isView(value);

class FileData {
  constructor(data, filename, contentType) {
    this.data = data;
    this.filename = filename === undefined ? `${Date.now()}${Math.floor(Math.random() * 1e6)}` : String(filename);
    this.content_type = contentType === undefined ? "application/octet-stream" : String(contentType);
  }
}
export const file = (data, filename, contentType) => new FileData(data, filename, contentType);

const escaped = (text) =>
  encodeURIComponent(text).replace(/%20/g, "+").replace(/[!'()*]/g, (sign) => "%" + sign.charCodeAt(0).toString(16).toUpperCase());

const valueText = (value) => (value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));

function form(fields) {
  const parts = [];
  for (const key of Object.keys(fields).sort()) {
    const value = fields[key];
    const values = Array.isArray(value) ? value : [value];
    for (const one of values) parts.push(`${escaped(key)}=${escaped(valueText(one))}`);
  }
  return parts.join("&");
}

function multipart(fields) {
  const boundary = host.boundary();
  const quoted = (text) => String(text).replace(/\\/g, "\\\\").replace(/"/g, '\\"');
  const parts = [];
  for (const key of Object.keys(fields)) {
    const values = Array.isArray(fields[key]) ? fields[key] : [fields[key]];
    for (const value of values) {
      let head = `--${boundary}\r\nContent-Disposition: form-data; name="${quoted(key)}"`;
      if (value instanceof FileData)
        head += `; filename="${quoted(value.filename)}"\r\nContent-Type: ${value.content_type}`;
      parts.push(host.bytes(`${head}\r\n\r\n`));
      parts.push(host.bytes(value instanceof FileData ? value.data : valueText(value)));
      parts.push(host.bytes("\r\n"));
    }
  }
  parts.push(host.bytes(`--${boundary}--\r\n`));
  return [host.joined(parts), `multipart/form-data; boundary=${boundary}`];
}

// The body as it goes out, and its type if it has one by itself.
function bodyOf(body) {
  if (body === undefined || body === null) return [undefined, undefined];
  if (typeof body === "string") return [body, undefined];
  if (isBytes(body)) return [body, undefined];
  if (body instanceof FileData) return [body.data, undefined];
  if (typeof body === "object") {
    const isMultipart = Object.values(body).some(
      (value) => value instanceof FileData || (Array.isArray(value) && value.some((one) => one instanceof FileData)));
    return isMultipart ? multipart(body) : [form(body), "application/x-www-form-urlencoded"];
  }
  return [String(body), undefined];
}

const PARAMS = new Set(["headers", "cookies", "tags", "timeout", "redirects", "auth", "responseType", "responseCallback", "compression", "jar", "throw"]);

function optionsOf(params, kind, options) {
  for (const key of Object.keys(params)) {
    const value = params[key];
    if (value === undefined || value === null) {
      if (key === "responseCallback" && value === null) options.expected = null;
      continue;
    }
    switch (key) {
      case "headers":
        options.headers = [];
        for (const name of Object.keys(value)) options.headers.push(name, String(value[name]));
        break;
      case "cookies":
        options.cookies = [];
        for (const name of Object.keys(value)) {
          const cookie = value[name];
          const isObject = cookie !== null && typeof cookie === "object";
          options.cookies.push(name, String(isObject ? cookie.value : cookie), isObject && cookie.replace ? "1" : "");
        }
        break;
      case "tags":
        options.tags = [];
        for (const name of Object.keys(value)) options.tags.push(name, String(value[name]));
        break;
      case "timeout":
        options.timeout = typeof value === "number" ? value : host.duration(String(value));
        break;
      case "redirects":
        options.redirects = Math.max(0, Number(value));
        break;
      case "auth":
        options.auth = String(value);
        break;
      case "responseType":
        options.responseType = String(value);
        break;
      case "responseCallback":
        if (!(value instanceof Expected)) throw new TypeError("responseCallback takes what http.expectedStatuses gives, or null");
        options.expected = value.ranges;
        break;
      case "compression":
        options.compression = String(value);
        break;
      case "jar":
        if (!(value instanceof CookieJar)) throw new TypeError("jar takes an http.CookieJar");
        options.jar = value.id;
        break;
      case "throw":
        options.throws = !!value;
        break;
      default:
        // k6 passes parameters over that it does not know.
        if (!PARAMS.has(key)) host.once(`http: a parameter ${key} is not known and has no effect`);
    }
  }
  if (kind !== undefined) (options.headers ??= []).unshift("\u0000type", kind);
}

let callback;

// A request as the host takes it: [method, url, name, body, options].
function prepared(method, url, body, params) {
  let name;
  if (typeof url !== "string") {
    if (url instanceof TaggedUrl) {
      name = url.name;
      url = url.url;
    } else url = String(url);
  }
  const [content, kind] = bodyOf(body);
  let options;
  if (params !== undefined && params !== null) {
    options = {};
    if (callback !== undefined) options.expected = callback;
    optionsOf(params, kind, options);
  } else if (kind !== undefined || callback !== undefined) {
    options = {};
    if (callback !== undefined) options.expected = callback;
    if (kind !== undefined) options.headers = ["\u0000type", kind];
  }
  return [method, url, name, content, options];
}

// The host gives it status, body, url, error and error_code.
export class Response {
  get headers() {
    const fields = {};
    for (const line of host.responseHead(this).split("\n")) {
      const at = line.indexOf(":");
      if (at <= 0) continue;
      const name = canonical(line.slice(0, at));
      const value = line.slice(at + 1).trim();
      fields[name] = name in fields ? `${fields[name]}, ${value}` : value;
    }
    Object.defineProperty(this, "headers", { value: fields, enumerable: true, writable: true });
    return fields;
  }
  get timings() {
    const [blocked, looking_up, connecting, tls_handshaking, sending, waiting, receiving] = host.responseFacts(this).slice(0, 7);
    const times = { duration: sending + waiting + receiving, blocked, looking_up, connecting, tls_handshaking, sending, waiting, receiving };
    Object.defineProperty(this, "timings", { value: times, enumerable: true, writable: true });
    return times;
  }
  get cookies() {
    const made = host.responseCookies(host.responseHead(this));
    Object.defineProperty(this, "cookies", { value: made, enumerable: true, writable: true });
    return made;
  }
  get status_text() {
    return host.responseFacts(this)[7];
  }
  get proto() {
    return host.responseFacts(this)[8];
  }
  get remote_ip() {
    return host.responseFacts(this)[9];
  }
  get remote_port() {
    return host.responseFacts(this)[10];
  }
  get request() {
    const [method, url, head, body] = host.responseFacts(this)[11];
    const headers = {};
    const cookies = {};
    for (const line of head.split("\n")) {
      const at = line.indexOf(":");
      if (at <= 0) continue;
      const name = canonical(line.slice(0, at));
      (headers[name] ??= []).push(line.slice(at + 1).trim());
    }
    for (const line of headers.Cookie ?? [])
      for (const pair of line.split("; ")) {
        const at = pair.indexOf("=");
        (cookies[pair.slice(0, at)] ??= []).push({ name: pair.slice(0, at), value: pair.slice(at + 1), replace: false });
      }
    return { method, url, headers, cookies, body: body ?? "" };
  }
  get tls_version() {
    return host.responseFacts(this)[12] ?? "";
  }
  get tls_cipher_suite() {
    return host.responseFacts(this)[13] ?? "";
  }
  get ocsp() {
    return { produced_at: 0, this_update: 0, next_update: 0, revoked_at: 0, revocation_reason: "", status: "" };
  }
  toJSON() {
    const { remote_ip, remote_port, url, status, status_text, proto, headers, cookies, body, timings, tls_version, tls_cipher_suite, ocsp, error, error_code, request } = this;
    return { remote_ip, remote_port, url, status, status_text, proto, headers, cookies, body, timings, tls_version, tls_cipher_suite, ocsp, error, error_code, request };
  }
  json(selector) {
    if (this.body === null || this.body === undefined)
      throw new Error("the body is null so we can't transform it to JSON - this likely was because of a request error getting the response");
    const text = typeof this.body === "string" ? this.body : host.text(this.body);
    let parsed;
    try {
      parsed = JSON.parse(text);
    } catch (error) {
      throw new Error(`cannot parse json due to an error: ${error.message}`);
    }
    return selector === undefined ? parsed : picked(parsed, String(selector));
  }
  html(selector) {
    if (this.body === null || this.body === undefined)
      throw new Error("the body is null so we can't transform it to HTML - this likely was because of a request error getting the response");
    const html = host.module("k6/html");
    const document = html.parseHTML(typeof this.body === "string" ? this.body : host.text(this.body), this.url);
    return selector === undefined ? document : document.find(selector);
  }
  submitForm(given) {
    const { formSelector = "form", submitSelector = '[type="submit"]', fields = {}, params } = given ?? {};
    const found = this.html(formSelector);
    if (found.size() === 0) throw new Error(`no form found for selector '${formSelector}' in response '${this.url}'`);
    const values = found.serializeObject();
    const button = found.find(submitSelector);
    const name = button.attr("name");
    if (name) values[name] = button.val();
    Object.assign(values, fields);
    const method = (found.attr("method") ?? "GET").toUpperCase();
    const action = found.attr("action");
    let target = action === undefined || action === "" ? this.url : host.join(this.url, action);
    if (method === "GET") {
      const query = form(values);
      target = target.split("#")[0].split("?")[0] + (query === "" ? "" : `?${query}`);
      return request("GET", target, null, params);
    }
    return request(method, target, values, params);
  }
  clickLink(given) {
    const { selector = "a[href]", params } = given ?? {};
    const found = this.html(selector);
    if (found.size() === 0) throw new Error(`no element found for selector '${selector}' in response '${this.url}'`);
    const href = found.attr("href");
    if (href === undefined) throw new Error(`no valid href attribute value found on element '${selector}' in response '${this.url}'`);
    return request("GET", host.join(this.url, href), null, params);
  }
}

// Names of fields as k6 spells them.
function canonical(name) {
  return name.trim().toLowerCase().replace(/(^|-)[a-z]/g, (start) => start.toUpperCase());
}

// A path into a value: keys and places between dots, `#` for all elements or their number.
function picked(value, path) {
  const keys = [];
  let key = "";
  for (let at = 0; at < path.length; at++) {
    if (path[at] === "\\" && at + 1 < path.length) key += path[++at];
    else if (path[at] === ".") {
      keys.push(key);
      key = "";
    } else key += path[at];
  }
  keys.push(key);
  const walk = (from, rest) => {
    if (rest.length === 0) return from;
    const [first, ...others] = rest;
    if (first === "#" && Array.isArray(from)) {
      if (others.length === 0) return from.length;
      return from.map((one) => walk(one, others)).filter((one) => one !== undefined);
    }
    if (/[*?()|@]/.test(first)) throw new Error(`json: the selector ${path} holds ${first}, which is not supported: use names, places and #`);
    if (from === null || typeof from !== "object" || !(first in from)) return undefined;
    return walk(from[first], others);
  };
  return walk(value, keys);
}

const prototype = Response.prototype;
host.responses(prototype);

export function request(method, url, body, params) {
  return host.request(prototype, ...prepared(String(method).toUpperCase(), url, body, params));
}
export const get = (url, params) => (params === undefined && typeof url === "string" && callback === undefined
  ? host.request(prototype, "GET", url)
  : request("GET", url, undefined, params));
export const head = (url, params) => request("HEAD", url, undefined, params);
export const post = (url, body, params) => request("POST", url, body, params);
export const put = (url, body, params) => request("PUT", url, body, params);
export const patch = (url, body, params) => request("PATCH", url, body, params);
export const del = (url, body, params) => request("DELETE", url, body, params);
export const options = (url, body, params) => request("OPTIONS", url, body, params);
export async function asyncRequest(method, url, body, params) {
  return host.later(prototype, prepared(String(method).toUpperCase(), url, body, params));
}

function batched(one) {
  if (typeof one === "string" || one instanceof TaggedUrl) return prepared("GET", one);
  if (Array.isArray(one)) {
    const [method, url, body, params] = one;
    return prepared(String(method).toUpperCase(), url, body, params);
  }
  if (one !== null && typeof one === "object") return prepared(String(one.method ?? "GET").toUpperCase(), one.url, one.body, one.params);
  throw new TypeError(`invalid http.batch() argument: ${one}`);
}

export function batch(requests) {
  if (requests === null || typeof requests !== "object") throw new TypeError("http.batch() takes an array or an object of requests");
  const keys = Object.keys(requests);
  const asked = keys.map((key) => batched(requests[key]));
  const answers = host.batch(prototype, asked);
  for (const answer of answers) if (answer instanceof Error) throw answer;
  if (Array.isArray(requests)) return answers;
  const named = {};
  keys.forEach((key, index) => (named[key] = answers[index]));
  return named;
}

class TaggedUrl {
  constructor(url, name) {
    this.url = url;
    this.name = name;
  }
  toString() {
    return this.url;
  }
}
export function url(parts, ...values) {
  let address = parts[0];
  let name = parts[0];
  values.forEach((value, index) => {
    address += value + parts[index + 1];
    name += "${}" + parts[index + 1];
  });
  return new TaggedUrl(address, name);
}

class Expected {
  constructor(ranges) {
    this.ranges = ranges;
  }
}
export function expectedStatuses(...statuses) {
  const ranges = [];
  if (statuses.length === 0) throw new TypeError("no arguments for expectedStatuses");
  for (const status of statuses) {
    if (Number.isInteger(status)) ranges.push(status, status);
    else if (status !== null && typeof status === "object" && Number.isInteger(status.min) && Number.isInteger(status.max))
      ranges.push(status.min, status.max);
    else throw new TypeError("expectedStatuses takes statuses, and objects with whole numbers min and max");
  }
  return new Expected(ranges);
}
export function setResponseCallback(made) {
  if (made === null) callback = null;
  else if (made instanceof Expected) callback = made.ranges;
  else throw new TypeError("setResponseCallback takes what http.expectedStatuses gives, or null");
}

export class CookieJar {
  constructor(id) {
    Object.defineProperty(this, "id", { value: id ?? host.jarNew() });
  }
  cookiesForURL(address) {
    return host.jarGet(this.id, String(address));
  }
  set(address, name, value, options) {
    const { domain, path, expires, max_age, secure, http_only } = options ?? {};
    let line = `${name}=${value}`;
    if (domain) line += `; Domain=${domain}`;
    if (path) line += `; Path=${path}`;
    if (expires) line += `; Expires=${expires}`;
    if (max_age) line += `; Max-Age=${max_age}`;
    if (secure) line += "; Secure";
    if (http_only) line += "; HttpOnly";
    return host.jarSet(this.id, String(address), line);
  }
  clear(address) {
    host.jarClear(this.id, String(address), "");
  }
  delete(address, name) {
    host.jarClear(this.id, String(address), String(name));
  }
}
const jarOfUser = new CookieJar(0);
export const cookieJar = () => jarOfUser;

export const SSL_3_0 = "ssl3.0", TLS_1_0 = "tls1.0", TLS_1_1 = "tls1.1", TLS_1_2 = "tls1.2", TLS_1_3 = "tls1.3";
export const OCSP_STATUS_GOOD = "good", OCSP_STATUS_REVOKED = "revoked", OCSP_STATUS_SERVER_FAILED = "server_failed", OCSP_STATUS_UNKNOWN = "unknown";


export default {
  get, head, post, put, patch, del, options, request, asyncRequest, batch, url, file, expectedStatuses, setResponseCallback,
  CookieJar, cookieJar, Response, SSL_3_0, TLS_1_0, TLS_1_1, TLS_1_2, TLS_1_3,
  OCSP_STATUS_GOOD, OCSP_STATUS_REVOKED, OCSP_STATUS_SERVER_FAILED, OCSP_STATUS_UNKNOWN,
};
