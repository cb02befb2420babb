// Where the time goes: the culprit first, then what is behind each figure.

import { get, Refused, type Explanation, type Slice } from "../api.ts";
import { course, type Chosen } from "../course.ts";
import { h, name, tied, type Child } from "../dom.ts";
import { bytes, count, moment, percent, rate, time } from "../format.ts";
import { bar, legend, ordered, swatch, words } from "../parts.ts";
import { go, link, replace, type Given } from "../place.ts";
import { opened, run_of, type Asked, type Room } from "../room.ts";
import { table } from "../table.ts";

type To = (given?: Given) => string;

// The largest cause in the words of the explanation, with its culprit.
function headline(told: Explanation): string {
  if (told.requests === 0) return "No request was answered";
  return told.causes[0]?.text ?? "No part of the response time stands out";
}

function figures(told: Explanation, to: To): HTMLElement {
  const response = told.response_ns;
  const errors = Object.values(told.errors).reduce((sum, one) => sum + one, 0);
  const all: [string, Child, string][] = [
    ["requests", h("a", { href: to() }, count(told.requests)), `${rate(told.rate_per_s)} for ${time(told.duration_s * 1e9)}`],
    ["median", h("a", { href: to({ max_ns: response?.p50, sort: "response" }) }, time(response?.p50)), "half are no slower"],
    ["p99", h("a", { href: to({ min_ns: response?.p99, sort: "response" }) }, time(response?.p99)), "1 of 100 is slower"],
    ["slowest", h("a", { href: to({ sort: "response" }) }, time(response?.max)), `mean ${time(response?.mean)}`],
    ["failed", h("a", { href: to({ sort: "status" }) }, count(errors)), `${bytes(told.bytes)} of responses`],
    ["noise", told.noise_floor === null ? "-" : `\u00b1${percent(told.noise_floor)}`, "of the mean, 95 % interval"],
  ];
  return h("dl", { class: "figures" }, all.map(([title, value, more]) => h("div", {}, h("dt", {}, title), h("dd", {}, value), h("dd", { class: "soft" }, more))));
}

function causes(title: string, told: { part: string; text: string; who: [string, number][] }[], to: To): HTMLElement | null {
  if (told.length === 0) return null;
  const item = (cause: { part: string; text: string; who: [string, number][] }) => h("li", {},
    h("a", { class: "cause", href: to({ part: cause.part }) }, swatch(cause.part), h("span", {}, tied(cause.text))),
    cause.who.length > 0 && h("ul", { class: "who", "aria-label": `behind ${cause.part}` }, cause.who.slice(0, 6).map(([who, share]) =>
      h("li", {}, h("a", { href: to({ part: cause.part, who }) }, name(who, 60), ` ${percent(share)}`)))));
  return h("section", { class: "card" }, h("h2", {}, title), h("ol", { class: "causes" }, told.map(item)));
}

function where(told: Explanation, to: To): HTMLElement {
  const longest = Math.max(told.median_response_ns, told.slow_response_ns, told.response_ns?.mean ?? 0);
  const rows: [string, typeof told.parts_ns, number][] = [["median", told.median_parts_ns, told.median_response_ns], ["mean", told.parts_ns, told.response_ns?.mean ?? 0], ["slowest 1 %", told.slow_parts_ns, told.slow_response_ns]];
  const bars = rows.map(([label, parts, whole_ns]) => h("div", { class: "labelled" }, h("span", {}, label), h("span", { class: "n" }, time(whole_ns)),
    bar({ parts, whole_ns, longest_ns: whole_ns, label, link: (part) => to({ part, min_ns: label === "slowest 1 %" ? told.response_ns?.p99 : undefined }) })));
  const mean = told.response_ns?.mean ?? 0;
  const parts = [...new Set([...ordered(told.parts_ns), ...ordered(told.slow_parts_ns)].map(([part]) => part))];
  const cells = parts.map((part) => [
    h("a", { href: to({ part }), title: words(part) }, swatch(part), part), words(part), time(told.median_parts_ns[part]), time(told.slow_parts_ns[part]), time(told.parts_ns[part]), percent((told.parts_ns[part] ?? 0) / mean)]);
  return h("section", { class: "card" }, h("h2", {}, "Where the time goes"),
    h("p", { class: "soft" }, `Each bar is a whole response, ${told.boundary}. The slowest take ${longest === told.slow_response_ns ? time(told.slow_response_ns) : time(longest)}.`),
    bars, legend([told.parts_ns, told.slow_parts_ns]),
    table("Parts of the response time", [{ name: "Part" }, { name: "What it is" }, { name: "Median", number: true }, { name: "Slowest 1 %", number: true }, { name: "Mean", number: true }, { name: "Share", number: true }], cells));
}

function counts(title: string, all: Record<string, number>, given: (key: string) => Given, to: To): HTMLElement | null {
  const entries = Object.entries(all);
  if (entries.length === 0) return null;
  return h("section", { class: "card" }, h("h2", {}, title), h("ul", { class: "counts" }, entries.map(([key, number]) => h("li", {}, h("a", { href: to(given(key)) }, name(key), ` ${count(number)}`)))));
}

function classes(told: Explanation, to: To): HTMLElement | null {
  if (told.transactions.length === 0) return null;
  const longest = Math.max(...told.transactions.map((one) => one.response_ns?.mean ?? 0), 1);
  const rows = told.transactions.slice(0, 100).map((one) => [
    h("a", { href: to({ class: one.name }) }, name(one.name, 60)), count(one.count), time(one.response_ns?.p50), time(one.response_ns?.p99), time(one.response_ns?.mean),
    bar({ parts: one.parts_ns, whole_ns: one.response_ns?.mean ?? 0, longest_ns: longest, label: `parts of ${one.name}` })]);
  return h("section", { class: "card" }, h("h2", {}, "Transactions"),
    table("Transactions", [{ name: "Class" }, { name: "Requests", number: true }, { name: "Median", number: true }, { name: "p99", number: true }, { name: "Mean", number: true }, { name: "Parts of the mean" }], rows),
    told.transactions.length > 100 && h("p", { class: "soft" }, `${count(told.transactions.length - 100)} more classes are not listed; the room SQL has them.`));
}

function whose(told: Explanation): HTMLElement | null {
  if (!told.percentiles?.length) return null;
  const rows = told.percentiles.map((one) => [`p${one.percentile}`, time(one.response_ns), percent(one.generator), percent(one.network), percent(one.server), percent(one.unattributed)]);
  return h("section", { class: "card" }, h("h2", {}, "Whose time it is"), table("Whose time it is", [{ name: "Around" }, { name: "Response", number: true }, { name: "Generator", number: true }, { name: "Network", number: true }, { name: "Server", number: true }, { name: "Not known", number: true }], rows));
}

function locks(told: Explanation, to: To): HTMLElement | null {
  if (!told.holders?.length) return null;
  const rows = told.holders.slice(0, 50).map((one) => [h("a", { href: to({ part: "wait_lock" }) }, name(one.lock, 60)), name(one.holder, 40), one.request ? h("a", { href: to({ class: one.request }) }, name(one.request, 50)) : "not known", time(one.mean_ns)]);
  return h("section", { class: "card" }, h("h2", {}, "Whose lock"), table("Whose lock", [{ name: "Lock" }, { name: "Held by" }, { name: "For the request" }, { name: "Of each response", number: true }], rows));
}

function decisions(told: Explanation, run: string, first_ns: number): HTMLElement | null {
  if (!told.decisions?.length) return null;
  const rows = told.decisions.slice(0, 200).map((one) => {
    const at = first_ns + one.at_s * 1e9;
    return [h("a", { href: link("chart", { run, from: Math.round(at - 5e8), to: Math.round(at + 5e8) }) }, time(one.at_s * 1e9)), one.text];
  });
  return h("section", { class: "card" }, h("h2", {}, "What the rules decided"), table("What the rules decided", [{ name: "At", number: true }, { name: "Decision" }], rows));
}

function queries(told: Explanation): HTMLElement | null {
  if (told.queries.length === 0) return null;
  const rows = told.queries.slice(0, 50).map((one) => [one.server, h("code", {}, name(one.text, 100)), count(one.count), time(one.mean_ns), time(one.max_ns)]);
  return h("section", { class: "card" }, h("h2", {}, "Queries"), table("Queries", [{ name: "Database" }, { name: "Statement" }, { name: "Times", number: true }, { name: "Mean", number: true }, { name: "Longest", number: true }], rows));
}

function listed(title: string, all: string[]): HTMLElement | null {
  return all.length === 0 ? null : h("section", { class: "card" }, h("h2", {}, title), h("ul", {}, all.map((text) => h("li", {}, text))));
}

export const answer: Room = {
  name: "answer",
  title: "Answer",
  of_run: true,
  async show(asked) {
    const run = run_of(asked.place);
    await opened(asked, run, "answer");
    const told = await get<Explanation>("answer", { run }, asked.signal);
    const to: To = (given = {}) => link("requests", { run, ...given });
    const over_time = h("section", { class: "card" }, h("h2", {}, "In the course of the run"));
    asked.into.append(
      h("div", { class: "title" }, h("p", { class: "soft" }, name(run), " \u00b7 ", told.host), h("h1", { class: "headline" }, tied(`${headline(told)}.`))),
      figures(told, to),
      ...[
        h("div", { class: "beside" }, causes("Largest causes", told.causes, to), causes("What the slowest 1 % wait for that the others do not", told.slow_causes, to)),
        told.requests > 0 && where(told, to), told.course ? over_time : null, classes(told, to), locks(told, to), whose(told), queries(told),
        counts("Status", told.status, (status) => ({ status }), to), counts("Errors", told.errors, (outcome) => ({ outcome }), to),
        listed("Before you trust it", told.warnings),
        h("p", { class: "soft" }, `${percent(told.joined_fraction)} of the requests are joined with the server's events; observing took ${count(told.observer_cost.events)} events and ${percent(told.observer_cost.cpu_share)} of a CPU, ${count(told.observer_cost.lost)} events were lost.${told.not_observed.length > 0 ? ` Not observed: ${told.not_observed.join(", ")}.` : ""}`),
      ].filter((one) => one !== null && one !== false),
    );
    const made = h("div", { class: "stack" });
    const chart = told.course ? course(over_time, told.course, over(run, told, made, asked)) : null;
    over_time.append(made);
    const rules = decisions(told, run, 0);
    if (rules) asked.into.append(decisions(told, run, (await first(run, asked.signal))?.first_at_ns ?? 0) ?? rules);
    return { keys: [{ keys: ["s"], words: "the slowest requests", act: () => (location.hash = to({ sort: "response" })) }], ...(chart ? { end: chart } : {}) };
  },
};

interface First { first_at_ns: number; first_unix_ms: number | null }

// When the first request was intended; the tables that tell it may still be made.
async function first(run: string, signal: AbortSignal): Promise<First | null> {
  return get<First>("begin", { run }, signal).catch(() => null);
}

async function awaited_first(run: string, signal: AbortSignal): Promise<First> {
  for (;;) {
    const told = await get<First>("begin", { run }, signal).catch((error: unknown) => {
      if (error instanceof Refused && error.status === 409) return null;
      throw error;
    });
    if (told) return told;
    await new Promise((done) => setTimeout(done, 250));
  }
}

// A time of the course: what it was made of, and what leads behind it. Its begin stands in the address.
function over(run: string, told: Explanation, into: HTMLElement, asked: Asked): Chosen {
  const slice_s = told.course!.slice_s;
  const given = Number(asked.place.given["at_s"] ?? NaN);
  const window_of = async (slice: Slice, given: Given = {}) => {
    asked.tell("The tables of the run are looked up.");
    const { first_at_ns } = await awaited_first(run, asked.signal);
    const begin = Math.round(first_at_ns + slice.at_s * 1e9);
    asked.tell("");
    return { run, from_ns: begin, to_ns: Math.round(begin + slice_s * 1e9), ...given };
  };
  const to = async (slice: Slice, given: Given = {}) => go("requests", await window_of(slice, given));
  const chart = async (slice: Slice) => {
    const { from_ns, to_ns } = await window_of(slice);
    go("chart", { run, from: from_ns, to: to_ns });
  };
  const failed = (error: unknown) => void (asked.signal.aborted || asked.tell(error instanceof Error ? error.message : String(error)));
  const button = (words: string, act: () => Promise<void>) => h("button", { type: "button", onclick: () => void act().catch(failed) }, words);
  return {
    at_s: Number.isFinite(given) ? given : null,
    to: (slice) => to(slice).catch(failed),
    told: (slice) => {
      replace({ at_s: slice.at_s });
      const at = h("h3", {}, `At ${time(slice.at_s * 1e9)}`);
      const whole_ns = told.response_ns?.mean ?? 0;
      // How long the bar is drawn: the parts are the whole of the mean.
      const mean_ns = Object.values(slice.parts_ns).reduce((sum, ns) => sum + ns, 0);
      const longest_ns = Math.max(whole_ns, mean_ns);
      const bars: [string, number, typeof slice.parts_ns][] = [["then", mean_ns, slice.parts_ns], ["whole run", whole_ns, told.parts_ns]];
      into.replaceChildren(at,
        h("p", {}, `${count(slice.answered)} answered within ${time(slice_s * 1e9)}, ${count(slice.errors)} errors; median ${time(slice.p50_ns)}, p99 ${time(slice.p99_ns)}. What the mean response was made of then, and in the whole run:`),
        ...bars.map(([label, ns, parts]) => h("div", { class: "labelled" }, h("span", {}, label), h("span", {}, ""), bar({ parts, whole_ns: ns, longest_ns, label }))),
        h("p", { class: "row" }, button("Its requests", () => to(slice)), button("Its slowest", () => to(slice, { sort: "response" })), button("Its time in the chart", () => chart(slice))));
      void first(run, asked.signal).then((begun) => {
        if (begun?.first_unix_ms && at.isConnected) at.append(`, ${moment(begun.first_unix_ms + slice.at_s * 1000, false)} by this browser's clock`);
      });
    },
  };
}
