// What the modules of WebSockets share, and the loop of an iteration needs of them.
const host = globalThis.__weir;

// Sockets whose events the loop tells, and events that wait for their turn.
const attended = new Map();
let heard = [];

export const attend = (id, take) => attended.set(id, take);
export const forget = (id) => {
  attended.delete(id);
  heard = heard.filter((event) => event[0] !== id);
};

// The next event of one socket; undefined if there is none within a time in milliseconds, -1 = waits without end.
export function nextOf(id, milliseconds) {
  const until = host.now() + milliseconds;
  for (;;) {
    const at = heard.findIndex((event) => event[0] === id);
    if (at >= 0) return heard.splice(at, 1)[0];
    const left = milliseconds < 0 ? -1 : until - host.now();
    const events = milliseconds >= 0 && left <= 0 ? undefined : host.listen(left);
    if (events === undefined) return undefined;
    heard.push(...events);
  }
}

// Parameters of a socket as the host takes them.
export function optionsOf(params, isStrict) {
  if (params === undefined || params === null) return undefined;
  const options = {};
  const flat = (fields) => Object.keys(fields).flatMap((name) => [name, String(fields[name])]);
  for (const key of Object.keys(params)) {
    const value = params[key];
    if (key === "compression" && String(value ?? "").trim() !== "")
      throw new Error("compression: messages are not compressed (permessage-deflate); leave it out");
    if (value === undefined || value === null) continue;
    if (key === "headers") options.headers = flat(value);
    else if (key === "tags") options.tags = flat(value);
    else if (key === "jar") options.jar = value.id;
    else if (isStrict && key !== "compression") throw new Error(`unknown WebSocket's option ${key}`);
  }
  return options;
}

host.sockets = {
  reset() {
    heard = [];
    attended.clear();
  },
  // Tells an event that waits; false if there is none.
  tell() {
    if (heard.length === 0) return false;
    const event = heard.shift();
    const take = attended.get(event[0]);
    if (take) take(event);
    return true;
  },
  areOpen: () => attended.size > 0,
  // Waits for events as long as that; false if there are none.
  wait(milliseconds) {
    const events = host.listen(milliseconds);
    if (events !== undefined) heard = events;
    return events !== undefined;
  },
};
