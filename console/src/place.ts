// The state of the page in its address: `#/ROOM?name=value`. Each is a link that can be sent.

export interface Place { room: string; given: Record<string, string> }

export function here(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { room: path || "runs", given: Object.fromEntries(new URLSearchParams(query)) };
}

export type Given = Record<string, string | number | undefined>;

export function link(room: string, given: Given = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) if (value !== undefined && value !== "") query.set(name, String(value));
  return `#/${room}${query.size > 0 ? `?${query}` : ""}`;
}

export function go(room: string, given: Given = {}): void {
  location.hash = link(room, given);
}

// The same room with other values, in the place of the entry of the history that is shown.
export function replace(given: Given): void {
  const place = here();
  history.replaceState(null, "", link(place.room, { ...place.given, ...given }));
}
