import { forget, nextOf, optionsOf } from "weir:sockets";

const host = globalThis.__weir;

const GOING_AWAY = 1001;

class Socket {
  constructor() {
    // id; handlers by event; timers; pings that went out; whether it is over.
    Object.defineProperty(this, "_", { value: { id: undefined, handlers: {}, timers: [], pings: 0, isOver: false } });
  }
  on(event, call) {
    if (typeof call === "function") (this._.handlers[event] ??= []).push(call);
  }
  send(message) {
    if (!this._.isOver) host.socketSend(this._.id, String(message));
  }
  sendBinary(message) {
    if (message === undefined) throw new Error("missing argument, expected ArrayBuffer");
    if (!(message instanceof ArrayBuffer)) {
      const kind = message === null ? "null" : message?.constructor?.name ?? String(message);
      throw new Error(`expected ArrayBuffer as argument, received: ${kind}`);
    }
    if (!this._.isOver) host.socketSend(this._.id, message);
  }
  ping() {
    if (!this._.isOver) host.socketPing(this._.id, String(this._.pings++));
  }
  setTimeout(call, milliseconds) {
    this._later("setTimeout", call, milliseconds, false);
  }
  setInterval(call, milliseconds) {
    this._later("setInterval", call, milliseconds, true);
  }
  close(code) {
    this._end(code === undefined ? GOING_AWAY : Number(code));
  }
  _later(name, call, milliseconds, repeats) {
    const after = Number(milliseconds);
    if (!(after > 0)) throw new Error(`${name} requires a >0 timeout parameter, received ${after.toFixed(2)}`);
    this._.timers.push({ at: host.now() + after, every: repeats ? after : 0, call });
  }
  // The session ends once: its handlers are told the code.
  _end(code) {
    if (this._.isOver) return;
    this._.isOver = true;
    host.socketClose(this._.id, code, "");
    this._tell("close", code);
  }
  _tell(event, ...values) {
    for (const call of this._.handlers[event] ?? []) call(...values);
  }
  // Takes what happened; undefined if nothing did.
  _take([, kind, first, , wrong]) {
    if (kind === "message") this._tell(typeof first === "string" ? "message" : "binaryMessage", first);
    else if (kind === "ping" || kind === "pong") this._tell(kind);
    else if (kind === "close") {
      if (wrong !== undefined && wrong !== null) this._tell("error", failure(wrong));
      else if (first !== undefined && first !== null && first !== 1000 && first !== GOING_AWAY)
        this._tell("error", failure(`websocket: close ${first}`));
      this._end(first ?? (wrong ? 1006 : GOING_AWAY));
    }
  }
  // Runs a timer that is due; otherwise how long until the next one in milliseconds, -1 if there is none.
  _timer() {
    const { timers } = this._;
    if (timers.length === 0) return -1;
    let next = timers[0];
    for (const timer of timers) if (timer.at < next.at) next = timer;
    const now = host.now();
    if (next.at > now) return next.at - now;
    if (next.every > 0) next.at = now + next.every;
    else timers.splice(timers.indexOf(next), 1);
    next.call();
    return undefined;
  }
}

// As scripts have errors of k6: with a function that gives the words.
const failure = (words) => ({ error: () => words, toString: () => words });

const fieldsOf = (head) => {
  const fields = {};
  for (const line of (head ?? "").split("\n")) {
    const at = line.indexOf(":");
    if (at <= 0) continue;
    const name = line.slice(0, at).trim().toLowerCase().replace(/(^|-)[a-z]/g, (start) => start.toUpperCase());
    fields[name] = name in fields ? `${fields[name]}, ${line.slice(at + 1).trim()}` : line.slice(at + 1).trim();
  }
  return fields;
};

export function connect(url, ...rest) {
  if (rest.length < 1 || rest.length > 2) throw new Error("invalid number of arguments to ws.connect");
  const [params, call] = rest.length === 1 ? [undefined, rest[0]] : rest;
  if (typeof call !== "function") throw new Error("last argument to ws.connect must be a function");
  const socket = new Socket();
  const id = host.socketOpen(String(url), [], optionsOf(params, false), false);
  socket._.id = id;
  try {
    const [, kind, first, status, head, body] = nextOf(id, -1);
    const response = { url: String(url), status: status ?? 0, headers: fieldsOf(head), body: body ?? "", error: "" };
    if (kind !== "open") {
      if (host.throws()) throw new Error(first);
      response.url = "";
      if (status === undefined) response.error = first;
      return response;
    }
    call(socket);
    if (!socket._.isOver) socket._tell("open");
    while (!socket._.isOver) {
      const wait = socket._timer();
      if (wait === undefined || socket._.isOver) continue;
      const event = nextOf(id, wait);
      if (event !== undefined) socket._take(event);
    }
    return response;
  } finally {
    if (!socket._.isOver) {
      socket._.isOver = true;
      host.socketClose(id, GOING_AWAY, "");
    }
    forget(id);
  }
}

export default { connect };
