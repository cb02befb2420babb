// Several runs side by side, and by what they differ.

import { get, type Run, type Side } from "../api.ts";
import { h, name, short, tied } from "../dom.ts";
import { count, percent, rate, time } from "../format.ts";
import { bar, legend, swatch, words } from "../parts.ts";
import { go, link } from "../place.ts";
import { opened, type Asked, type Room } from "../room.ts";
import { table } from "../table.ts";

const MOST = 8;
const VERDICTS = { longer: "longer", shorter: "shorter", within_noise: "no difference beyond the noise", not_known: "cannot tell" };

function named(given: Record<string, string>): string[] {
  return Array.from({ length: MOST }, (_, index) => given[`run${index + 1}`]).filter((run): run is string => Boolean(run));
}

function numbered(runs: string[]): Record<string, string> {
  return Object.fromEntries(runs.map((run, index) => [`run${index + 1}`, run]));
}

async function choose(asked: Asked, chosen: string[]): Promise<HTMLElement> {
  const { runs } = await get<{ runs: Run[] }>("runs", {}, asked.signal);
  const select = h("select", { name: "more" }, h("option", { value: "" }, "choose a run"), runs.filter((run) => !run.refused && !chosen.includes(run.run)).map((run) => h("option", { value: run.run }, short(run.run, 60))));
  select.addEventListener("change", () => select.value && go("compare", numbered([...chosen, select.value])));
  const items = chosen.map((run, index) => h("li", {}, h("a", { href: link("compare", numbered(chosen.filter((other) => other !== run))), title: "take it away", "aria-label": `${short(run, 200)}: take it away` }, index === 0 ? "against " : "", short(run, 60), " \u00d7")));
  return h("section", { class: "card" }, h("ul", { class: "chips", "aria-label": "Runs that are compared" }, items), chosen.length < MOST && h("label", { class: "filter" }, chosen.length === 0 ? "The run to compare with" : "One more run", select));
}

function differences(side: Side): HTMLElement | null {
  const told = side.difference;
  if (!told) return null;
  const rows = told.parts.slice(0, 12).map((part) => [
    h("a", { href: link("requests", { run: side.run, part: part.part }), title: words(part.part) }, swatch(part.part), part.part), words(part.part), `${part.ns > 0 ? "+" : "\u2212"}${time(Math.abs(part.ns))}`, part.share === null ? "-" : percent(part.share), part.who ? name(part.who, 50) : "-"]);
  return h("section", { class: "card" }, h("h2", {}, name(side.run), ": ", h("span", { class: `verdict ${told.verdict}` }, VERDICTS[told.verdict])), h("p", { class: "lead" }, tied(`${told.text[0]?.toUpperCase() ?? ""}${told.text.slice(1)}.`)),
    table(`By which parts ${short(side.run)} differs`, [{ name: "Part" }, { name: "What it is" }, { name: "Mean differs by", number: true }, { name: "Of the difference", number: true }, { name: "Mostly" }], rows));
}

function beside(sides: Side[]): HTMLElement {
  const longest = Math.max(1, ...sides.map((side) => side.response_ns?.mean ?? 0));
  const to = (side: Side, given: Record<string, string | number | undefined> = {}) => link("requests", { run: side.run, ...given });
  const rows = sides.map((side) => [
    h("a", { href: link("answer", { run: side.run }) }, name(side.run, 50)), h("a", { href: to(side) }, count(side.requests)), rate(side.rate_per_s), h("a", { href: to(side, { max_ns: side.response_ns?.p50 }) }, time(side.response_ns?.p50)),
    h("a", { href: to(side, { min_ns: side.response_ns?.p99 }) }, time(side.response_ns?.p99)), time(side.response_ns?.mean), side.noise_floor === null ? "-" : `\u00b1${percent(side.noise_floor)}`, count(side.errors),
    bar({ parts: side.parts_ns, whole_ns: side.response_ns?.mean ?? 0, longest_ns: longest, label: `mean of ${short(side.run)}`, link: (part) => to(side, { part }) })]);
  const slowest = Math.max(1, ...sides.map((side) => Object.values(side.slow_parts_ns).reduce((sum, ns) => sum + ns, 0)));
  const slow = sides.map((side) => {
    const whole_ns = Object.values(side.slow_parts_ns).reduce((sum, ns) => sum + ns, 0);
    return h("div", { class: "labelled" }, h("span", {}, name(side.run, 24)), h("span", { class: "n" }, time(whole_ns)), bar({ parts: side.slow_parts_ns, whole_ns, longest_ns: slowest, label: `slowest 1 % of ${short(side.run)}`, link: (part) => to(side, { part, min_ns: side.response_ns?.p99 }) }));
  });
  return h("section", { class: "card" }, h("h2", {}, "Side by side"),
    table("Runs side by side", [{ name: "Run" }, { name: "Requests", number: true }, { name: "Rate", number: true }, { name: "Median", number: true }, { name: "p99", number: true }, { name: "Mean", number: true }, { name: "Noise", number: true }, { name: "Failed", number: true }, { name: "Parts of the mean" }], rows),
    h("h3", {}, "The slowest 1 %"), slow, legend(sides.flatMap((side) => [side.parts_ns, side.slow_parts_ns])));
}

export const compare: Room = {
  name: "compare",
  title: "Compare",
  of_run: false,
  async show(asked) {
    const chosen = named(asked.place.given);
    for (const run of chosen) await opened(asked, run, "answer");
    const choice = await choose(asked, chosen);
    asked.into.append(h("div", { class: "title" }, h("h1", {}, "Compare runs"), h("p", { class: "soft" }, "One run each shows what differs between these two; whether it would again, weir compare measures.")), choice);
    if (chosen.length >= 2) {
      const { runs } = await get<{ runs: Side[] }>("compare", numbered(chosen), asked.signal);
      asked.into.append(...runs.map(differences).filter((one) => one !== null), beside(runs));
    }
    return {
      keys: [
        { keys: ["x"], words: "compare the other way round", act: () => go("compare", numbered([...chosen].reverse())) },
        { keys: ["/"], words: "choose one more run", act: () => choice.querySelector("select")?.focus() },
      ],
    };
  },
};
