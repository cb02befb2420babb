import { attend, forget, optionsOf } from "weir:sockets";

const host = globalThis.__weir;

const [CONNECTING, OPEN, CLOSING, CLOSED] = [0, 1, 2, 3];
const KINDS = ["open", "message", "error", "close", "ping", "pong"];

const bytesOf = (value) => {
  if (value instanceof Blob) return value._bytes;
  return host.bytes(typeof value === "string" || value instanceof ArrayBuffer || ArrayBuffer.isView(value) ? value : String(value));
};

export class Blob {
  constructor(parts = [], options = {}) {
    if (parts === null || typeof parts !== "object") throw new TypeError("a Blob is made of an array of parts");
    Object.defineProperty(this, "_bytes", { value: host.joined([...parts].map(bytesOf)) });
    this.type = String(options?.type ?? "").toLowerCase();
  }
  get size() {
    return this._bytes.byteLength;
  }
  async arrayBuffer() {
    return this._bytes.slice(0);
  }
  async bytes() {
    return new Uint8Array(this._bytes.slice(0));
  }
  async text() {
    return host.text(this._bytes);
  }
  slice(from, to, type) {
    return new Blob([this._bytes.slice(from ?? 0, to ?? this.size)], { type: type ?? "" });
  }
}

export class WebSocket {
  constructor(url, protocols, params) {
    if (url === undefined || url === null) throw new Error("WebSocket requires a url");
    const address = String(url);
    if (address.includes("#")) throw new Error(`WebSocket requires no url fragment, but got "${address.split("#")[1]}"`);
    const offered = protocols === undefined || protocols === null ? [] : Array.isArray(protocols) ? protocols.map(String) : [String(protocols)];
    const state = { ready: CONNECTING, buffered: 0, binaryType: "blob", protocol: "", on: {}, listeners: {}, pings: 0, code: 0, reason: "" };
    Object.defineProperty(this, "_", { value: state });
    Object.defineProperty(this, "url", { value: address, enumerable: true });
    state.id = host.socketOpen(address, offered, optionsOf(params, true), true);
    attend(state.id, (event) => this._take(event));
  }
  get readyState() {
    return this._.ready;
  }
  get bufferedAmount() {
    return 0;
  }
  get extensions() {
    return [];
  }
  get protocol() {
    return this._.protocol;
  }
  get binaryType() {
    return this._.binaryType;
  }
  set binaryType(kind) {
    if (kind !== "blob" && kind !== "arraybuffer")
      throw new Error(`unknown binaryType ${kind}, the supported ones are "blob" and "arraybuffer"`);
    this._.binaryType = kind;
  }
  addEventListener(kind, call) {
    if (typeof call !== "function") throw new Error(`handler for event type "${kind}" isn't a callable function`);
    if (!KINDS.includes(kind)) return host.once(`can't add event handler: unknown event type ${kind}`);
    (this._.listeners[kind] ??= []).push(call);
  }
  send(message) {
    this._needOpen();
    const isBytes = message instanceof ArrayBuffer || ArrayBuffer.isView(message);
    if (typeof message !== "string" && !isBytes && !(message instanceof Blob))
      throw new Error(`unsupported send type ${message === null ? "null" : typeof message}`);
    host.socketSend(this._.id, message instanceof Blob ? message._bytes : message);
  }
  ping() {
    this._needOpen();
    host.socketPing(this._.id, String(this._.pings++));
  }
  close(code, reason) {
    if (this._.ready === CLOSING || this._.ready === CLOSED) return;
    const number = code === undefined ? 0 : Number(code);
    if (number !== 0 && number !== 1000 && !(number >= 3000 && number <= 4999))
      throw new Error(
        "InvalidAccessError: Failed to execute 'close' on 'WebSocket': The close code must be either 1000, or between 3000 and 4999. " +
          `${number} is neither`);
    const words = reason === undefined ? "" : String(reason);
    if (host.bytes(words).byteLength > 123)
      throw new Error("SyntaxError: Failed to execute 'close' on 'WebSocket': The message must not be greater than 123 bytes");
    this._.ready = CLOSING;
    this._.code = number || 1000;
    host.socketClose(this._.id, this._.code, words);
  }
  _needOpen() {
    if (this._.ready !== OPEN) throw new Error("InvalidStateError");
  }
  _tell(kind, more) {
    const event = { type: kind, target: this, timestamp: Date.now(), ...more };
    const own = this._.on[kind];
    if (own) own(event);
    for (const call of this._.listeners[kind] ?? []) call(event);
  }
  _over(wrong) {
    this._.ready = CLOSED;
    forget(this._.id);
    if (wrong !== undefined) this._tell("error", { error: wrong });
    this._tell("close", this._.code ? { code: this._.code, reason: this._.reason } : { reason: this._.reason });
  }
  _take([, kind, first, second, third]) {
    try {
      this._on(kind, first, second, third);
    } catch (error) {
      if (this._.ready !== CLOSED) {
        host.socketClose(this._.id, 1001, "");
        this._over(String(error));
      }
      throw error;
    }
  }
  _on(kind, first, second, third) {
    switch (kind) {
      case "open":
        this._.protocol = first;
        // One that was closed meanwhile stays so.
        if (this._.ready === CONNECTING) {
          this._.ready = OPEN;
          this._tell("open");
        }
        break;
      case "fail":
        this._over(first);
        break;
      case "message":
        if (this._.ready === OPEN) {
          const isBlob = typeof first !== "string" && this._.binaryType === "blob";
          this._tell("message", { data: isBlob ? new Blob([first]) : first, origin: this.url });
        }
        break;
      case "close":
        if (first !== undefined && first !== null) {
          this._.code = first;
          this._.reason = second;
        }
        this._over(third ?? (first === undefined || first === null || first === 1000 || first === 1001 ? undefined : `websocket: close ${first}`));
        break;
      default:
        this._tell(kind);
    }
  }
}
for (const kind of KINDS)
  Object.defineProperty(WebSocket.prototype, `on${kind}`, {
    get() {
      return this._.on[kind];
    },
    set(call) {
      if (call !== undefined && call !== null && typeof call !== "function") throw new Error(`a value for 'on${kind}' should be callable`);
      this._.on[kind] = call ?? undefined;
    },
  });

export default { WebSocket, Blob };
