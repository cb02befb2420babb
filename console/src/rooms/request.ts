// One request: its parts, its steps one after the other, and all that is known of it.

import { get, type Parts, type Single } from "../api.ts";
import { h, name, styled } from "../dom.ts";
import { count, percent, time } from "../format.ts";
import { bar, legend, swatch, words } from "../parts.ts";
import { go, link } from "../place.ts";
import { opened, run_of, type Room } from "../room.ts";
import { table } from "../table.ts";

const MOST_SHOWN = 400;

function number(value: string | number | null | undefined): number {
  return typeof value === "number" ? value : Number(value ?? 0);
}

export const request: Room = {
  name: "request",
  title: "Request",
  of_run: true,
  under: "requests",
  async show(asked) {
    const run = run_of(asked.place);
    const id = Number(asked.place.given["id"]);
    await opened(asked, run, "requests");
    const told = await get<Single>("request", { run, id }, asked.signal);
    const [begin, whole] = [number(told.request["at_ns"]), number(told.request["response_ns"])];
    const parts: Parts = {};
    for (const sum of told.sums) parts[sum.part] = (parts[sum.part] ?? 0) + sum.ns;
    const to = (given: Record<string, string | number | undefined>) => link("requests", { run, ...given });
    const line = (step: Single["steps"][number]) => [
      time(step.at_ns - begin), time(step.duration_ns), h("a", { href: to({ part: step.part }), title: words(step.part) }, swatch(step.part), step.part),
      h("div", { class: "lane", "aria-hidden": "true" }, styled(h("span", { class: step.part === "unattributed" ? "hatched" : undefined }), { "--colour": `var(--${step.part}, var(--edge))`, "--from": String((100 * (step.at_ns - begin)) / whole), "--wide": String((100 * step.duration_ns) / whole) })),
      step.process ? name(`${step.process} ${step.pid ?? ""}`, 40) : "-", step.culprit ? name(step.culprit, 60) : "-"];
    const shown = told.steps.slice(0, MOST_SHOWN);
    const sums = told.sums.slice(0, 50).map((sum) => [h("a", { href: to({ part: sum.part, who: sum.culprit ?? undefined }), title: words(sum.part) }, swatch(sum.part), sum.part), sum.culprit ? name(sum.culprit, 60) : "-", time(sum.ns), percent(sum.ns / whole), count(sum.steps)]);
    const facts = Object.entries(told.request).map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, value === null ? "not known" : key.endsWith("_ns") ? time(number(value)) : String(value))));
    const window_of = { run, from: Math.round(begin - 0.15 * whole), to: Math.round(begin + 1.15 * whole) };
    asked.into.append(
      h("div", { class: "title" }, h("p", { class: "soft" }, h("a", { href: to({}) }, name(run)), ` \u00b7 request ${id}`), h("h1", { class: "long" }, String(told.request["name"] ?? "")),
        h("p", {}, `${time(whole)}, `, told.request["status"] === null ? String(told.request["outcome"]) : `status ${told.request["status"]}`, " \u00b7 ", h("a", { href: link("chart", window_of) }, "in the time chart"), " \u00b7 ", h("a", { href: to({ class: String(told.request["class"] ?? "") }) }, "its class"))),
      told.steps.length === 0
        ? h("p", { class: "card" }, `Its time is not divided: ${told.request["unjoinable"] ?? "it is not joined with the server's events"}.`)
        : h("section", { class: "card" }, h("h2", {}, "Where its time went"), bar({ parts, whole_ns: whole, longest_ns: whole, label: "this request" }), legend([parts]),
            table("Sums", [{ name: "Part" }, { name: "Spent on" }, { name: "Time", number: true }, { name: "Share", number: true }, { name: "Steps", number: true }], sums)),
      ...(told.steps.length === 0 ? [] : [h("section", { class: "card" }, h("h2", {}, `${count(told.steps.length)}${told.steps_are_cut ? " and more" : ""} steps`),
        table("Steps", [{ name: "From", number: true }, { name: "Time", number: true }, { name: "Part" }, { name: "When" }, { name: "Task" }, { name: "Spent on" }], shown.map(line)),
        told.steps.length > MOST_SHOWN && h("p", { class: "soft" }, `${count(told.steps.length - MOST_SHOWN)} more steps are not listed; the table parts of the room SQL has them.`))]),
      h("section", { class: "card" }, h("h2", {}, "All that is known of it"), h("dl", { class: "facts" }, facts)),
    );
    return {
      keys: [
        { keys: ["n"], words: "the request that came next", act: () => go("request", { run, id: id + 1 }) },
        { keys: ["p"], words: "the request that came before", act: () => id > 1 && go("request", { run, id: id - 1 }) },
        { keys: ["w"], words: "its time in the chart", act: () => go("chart", window_of) },
      ],
    };
  },
};
