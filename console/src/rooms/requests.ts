// Requests of a run: filtered, sorted, page by page.

import { get, type Choices, type Page, type Request } from "../api.ts";
import { h, name, short } from "../dom.ts";
import { count, time } from "../format.ts";
import { bar, words } from "../parts.ts";
import { go, link, type Given } from "../place.ts";
import { opened, run_of, type Room } from "../room.ts";
import { move, table, type Column } from "../table.ts";

const NAMES = ["class", "name", "status", "outcome", "part", "who", "client", "joined", "min_ns", "max_ns", "from_ns", "to_ns", "sort", "order", "offset", "limit"];

// What the filter leaves, in words, each with a link that takes it away.
function chips(run: string, given: Record<string, string>): HTMLElement | null {
  const titles: Record<string, (value: string) => string> = {
    class: (value) => `class ${value}`, name: (value) => `name has ${value}`, status: (value) => `status ${value}`, outcome: (value) => `ended as ${value}`,
    part: (value) => `time in ${value}: ${words(value)}`, who: (value) => `spent on ${value}`, client: (value) => `client ${value}`, joined: (value) => (value === "1" ? "joined" : "not joined"),
    min_ns: (value) => `at least ${time(Number(value))}`, max_ns: (value) => `at most ${time(Number(value))}`, from_ns: (value) => `ended after ${time(Number(value))}`, to_ns: (value) => `ended before ${time(Number(value))}`,
  };
  const set = Object.keys(titles).filter((key) => given[key]);
  if (set.length === 0) return null;
  const without = (key: string): Given => {
    const rest: Given = { ...given, run, [key]: undefined, offset: undefined };
    if (key === "part") Object.assign(rest, { who: undefined, sort: undefined });
    return rest;
  };
  return h("ul", { class: "chips", "aria-label": "The filter" }, set.map((key) => {
    const text = titles[key]!(given[key]!);
    return h("li", {}, h("a", { href: link("requests", without(key)), title: "take it away", "aria-label": `${short(text, 200)}: take it away` }, short(text, 60), " \u00d7"));
  }));
}

function choice(label: string, key: string, values: [string | number | null, number][], now: string | undefined): HTMLElement {
  const options = values.filter(([value]) => value !== null).map(([value, number]) => h("option", { value: String(value), selected: String(value) === now }, `${short(String(value), 60)} (${count(number)})`));
  return h("label", {}, label, h("select", { name: key }, h("option", { value: "" }, "all"), options));
}

function form(run: string, given: Record<string, string>, choices: Choices): HTMLFormElement {
  const ms = (key: string) => (given[key] ? String(Number(given[key]) / 1e6) : "");
  const made = h("form", { class: "filter", role: "search" },
    h("label", {}, "Name has", h("input", { name: "name", type: "search", value: given["name"] ?? "", autocomplete: "off", spellcheck: "false" })),
    choice("Class", "class", choices.class, given["class"]), choice("Status", "status", choices.status, given["status"]), choice("Outcome", "outcome", choices.outcome, given["outcome"]),
    h("label", {}, "At least, ms", h("input", { name: "min", inputmode: "decimal", value: ms("min_ns"), autocomplete: "off" })),
    h("label", {}, "At most, ms", h("input", { name: "max", inputmode: "decimal", value: ms("max_ns"), autocomplete: "off" })),
    h("button", { type: "submit" }, "Filter"));
  const submit = (event?: Event) => {
    event?.preventDefault();
    const data = new FormData(made);
    const text = (key: string) => String(data.get(key) ?? "");
    const ns = (key: string) => (text(key) === "" || !Number.isFinite(Number(text(key))) ? undefined : Math.round(Number(text(key)) * 1e6));
    go("requests", { ...given, run, name: text("name"), class: text("class"), status: text("status"), outcome: text("outcome"), min_ns: ns("min"), max_ns: ns("max"), offset: undefined });
  };
  made.addEventListener("submit", submit);
  made.addEventListener("change", (event) => event.target instanceof HTMLSelectElement && submit());
  return made;
}

function listed(run: string, given: Record<string, string>, page: Page): HTMLElement {
  const sort = given["sort"] ?? (given["part"] ? "part" : "response");
  const order = given["order"] ?? "desc";
  const column = (title: string, by: string, number = false): Column => ({
    name: title, number,
    sort: {
      href: link("requests", { ...given, run, sort: by, order: sort === by && order === "desc" ? "asc" : "desc", offset: undefined }),
      state: sort !== by ? "none" : order === "desc" ? "descending" : "ascending",
    },
  });
  const columns = [column("Request", "name"), column("Status", "status", true), column("Response", "response", true), ...(given["part"] ? [column(`In ${given["part"]}`, "part", true)] : []), { name: "Where its time went" }, column("Begin", "time", true)];
  const longest = Math.max(1, ...page.requests.map((one) => one.response_ns));
  const row = (one: Request) => [
    h("a", { href: link("request", { run, id: one.id }) }, name(one.name, 70)), one.outcome === "done" ? String(one.status ?? "-") : one.outcome, time(one.response_ns), ...(given["part"] ? [time(one.part_ns)] : []),
    one.joined ? bar({ parts: one.parts_ns, whole_ns: one.response_ns, longest_ns: longest, label: `request ${one.id}` }) : h("span", { class: "soft" }, one.unjoinable ?? "not joined"), time(one.at_ns)];
  return table("Requests", columns, page.requests.map(row));
}

export const requests: Room = {
  name: "requests",
  title: "Requests",
  of_run: true,
  async show(asked) {
    const run = run_of(asked.place);
    await opened(asked, run, "requests");
    const given = Object.fromEntries(Object.entries(asked.place.given).filter(([key]) => NAMES.includes(key)));
    const [page, choices] = await Promise.all([get<Page>("requests", { ...given, run }, asked.signal), get<Choices>("choices", { run }, asked.signal)]);
    const [first, last] = [page.offset + 1, page.offset + page.requests.length];
    const turn = (by: number) => {
      const offset = Math.max(0, page.offset + by * page.limit);
      if (by > 0 && last >= page.count) return asked.tell("This is the last page.");
      if (offset !== page.offset) go("requests", { ...given, run, offset });
    };
    const filter = form(run, given, choices);
    asked.into.append(
      h("div", { class: "title" }, h("p", { class: "soft" }, name(run)), h("h1", {}, `${count(page.count)}${page.count_is_cut ? " and more" : ""} requests`)),
      h("section", { class: "card" }, filter, chips(run, given)),
      page.requests.length === 0 ? h("p", { class: "card" }, "No request is like this. Take a part of the filter away.") : h("section", { class: "card" }, listed(run, given, page),
        h("p", { class: "row pages" }, h("button", { type: "button", onclick: () => turn(-1), disabled: page.offset === 0 }, "Before"), h("span", {}, `${count(first)} to ${count(last)}`), h("button", { type: "button", onclick: () => turn(1), disabled: last >= page.count }, "Next"))),
    );
    return {
      keys: [
        { keys: ["j", "ArrowDown"], words: "the next request", act: () => move(asked.into, 1) },
        { keys: ["k", "ArrowUp"], words: "the request before", act: () => move(asked.into, -1) },
        { keys: ["]"], words: "the next page", act: () => turn(1) },
        { keys: ["["], words: "the page before", act: () => turn(-1) },
        { keys: ["/"], words: "filter by name", act: () => filter.querySelector("input")?.focus() },
      ],
    };
  },
};
