// Business transactions of this host, live: which take the time, which fail, and the last ones that were kept whole.

import { get } from "../api.ts";
import { h, name, styled, type Child } from "../dom.ts";
import { count, counted, moment, percent, rate, time } from "../format.ts";
import { note, renewed, swap } from "../live.ts";
import type { Facts, Kept, Top, TopRow } from "../now.ts";
import { go, link } from "../place.ts";
import type { Room } from "../room.ts";
import { move, table, type Column } from "../table.ts";

const SECONDS = [10, 30, 60];
const SORTS: Record<string, string> = { time: "Share of time", rate: "Rate", p99: "p99", failed: "Failed" };
const MOST = 200;

type Given = Record<string, string>;

export function full_name(of: { application: string; name: string }): HTMLElement {
  return h("span", { class: "full-name" }, name(of.application, 60), " / ", name(of.name, 60));
}

function switched(to: TopRow["switch"]): string {
  return typeof to === "string" ? to : `1 in ${to.one_in}`;
}

function columns(given: Given): Column[] {
  const now = given["sort"] ?? "time";
  const by = (sort: string): Column => ({ name: SORTS[sort] ?? sort, number: sort !== "time", sort: { href: link("transactions", { ...given, sort }), state: sort === now ? "descending" : "none" } });
  return [{ name: "Transaction" }, by("time"), by("rate"), { name: "p50", number: true }, by("p99"), { name: "Longest", number: true }, by("failed"), { name: "Blocked", number: true }, { name: "Running", number: true }, { name: "Recorded" }];
}

function row(given: Given, one: TopRow, index: number): Child[] {
  const is_chosen = given["application"] === one.application && given["transaction"] === one.transaction;
  const chosen = h("a", { href: link("transactions", { ...given, application: one.application, transaction: one.transaction }), "data-key": `row ${index}`, title: "the last ones that were kept", "aria-current": is_chosen ? "true" : undefined }, full_name({ application: one.application, name: one.transaction }));
  const failed = one.failed === 0 ? "0" : h("a", { class: "verdict longer", href: link("transactions", { ...given, application: one.application, transaction: one.transaction, only: "failed" }), title: "the last ones that failed" }, `${count(one.failed)} (${percent(one.failed_share)})`);
  const bar = h("span", { class: "meter" }, h("span", { class: "lane", "aria-hidden": "true" }, styled(h("span", {}), { "--from": "0", "--wide": String(100 * one.time_share), "--colour": "var(--accent)" })), percent(one.time_share));
  return [chosen, bar, rate(one.rate_per_s), time(one.p50_ns), time(one.p99_ns), time(one.max_ns), failed, percent(one.blocked_share), count(one.running), switched(one.switch)];
}

function now_shown(now: Top, given: Given): HTMLElement[] {
  const words = `${rate(now.rate_per_s)} over ${count(now.seconds)} s, ${now.processes === 1 ? "1 process" : `${count(now.processes)} processes`} at ${now.host}${now.lost > 0 ? `; ${counted(now.lost, "record")} lost (weir arm overhead says where)` : ""}${now.more > 0 ? `; ${counted(now.more, "more row")} left out` : ""}`;
  const wrongs = [...now.warnings, ...now.not_read.map((one) => `Not read: ${one}`)];
  return [
    ...(wrongs.length > 0 ? [h("section", { class: "card wrong" }, h("ul", { class: "warnings" }, wrongs.slice(0, 20).map((one) => h("li", {}, one)), wrongs.length > 20 && h("li", {}, `and ${count(wrongs.length - 20)} more: weir arm list`)))] : []),
    h("section", { class: "card" }, now.rows.length === 0 ? h("p", {}, "No transaction has ended in this time; weir arm list shows what is known.") : table("Transactions", columns(given), now.rows.map((one, index) => row(given, one, index))), h("p", { class: "soft" }, words)),
  ];
}

function kept_row(one: Facts, index: number): Child[] {
  return [h("a", { href: link("transaction", { id: one.id }), "data-key": `kept ${index}`, title: `its tree: ${one.id}` }, h("code", {}, one.id.slice(-16))), full_name(one), time(one.duration_ns),
    h("span", { class: one.is_failure ? "verdict longer" : undefined }, one.status), one.user === null ? "" : name(one.user, 40), h("span", { class: "full-name" }, name(one.command, 40), `[${one.pid}] at `, name(one.host, 40)), moment(one.end_unix_us / 1000)];
}

function kept_shown(now: Kept, given: Given): HTMLElement[] {
  const { application, transaction, only } = given;
  const chip = (words: Child[], without: Given, label: string) => h("li", {}, h("a", { href: link("transactions", without), title: "take it away", "aria-label": `${label}: take it away` }, words, " \u00d7"));
  const base = Object.fromEntries(Object.entries(given).filter(([key]) => key !== "application" && key !== "transaction"));
  const chips = [
    application && chip([name(application, 40), transaction ? [" / ", name(transaction, 40)] : []].flat(), base, `${application} ${transaction ?? ""}`),
    only && chip(["failed ones"], Object.fromEntries(Object.entries(given).filter(([key]) => key !== "only")), "failed ones"),
  ].filter((one) => typeof one === "object");
  const more = now.transactions.length >= Number(given["most"] ?? 50) && given["most"] !== String(MOST) && h("a", { href: link("transactions", { ...given, most: MOST }) }, `up to ${count(MOST)}`);
  const failed = only ? null : h("a", { href: link("transactions", { ...given, only: "failed" }) }, "failed ones only");
  return [h("section", { class: "card" }, h("h2", {}, "The last ones kept whole"), chips.length > 0 && h("ul", { class: "chips", "aria-label": "The filter" }, chips),
    now.transactions.length === 0 ? h("p", {}, `None of the last ${count(now.looked_at)} that are kept is like this.`)
      : table("Kept transactions", [{ name: "Id" }, { name: "Transaction" }, { name: "Took", number: true }, { name: "Ended" }, { name: "User" }, { name: "Process" }, { name: "At" }], now.transactions.map(kept_row)),
    h("p", { class: "row" }, h("span", { class: "soft" }, "The agent keeps the slow and the failed ones with their relatives, some seconds after they ended."), failed, more))];
}

export const transactions: Room = {
  name: "transactions",
  title: "Transactions",
  of_run: false,
  key: "B",
  of: (has) => has.agent?.directory,
  async show(asked) {
    const given = Object.fromEntries(Object.entries(asked.place.given).filter(([key]) => ["seconds", "sort", "application", "transaction", "only", "most"].includes(key)));
    const { seconds = "10", sort, application, transaction, only, most } = given;
    const spans = h("ul", { class: "chips spans", "aria-label": "Over which time" }, SECONDS.map((one) => h("li", {}, h("a", { href: link("transactions", { ...given, seconds: one }), "aria-current": String(one) === seconds ? "true" : undefined }, `${one} s`))));
    const [told, told_kept, top, kept] = [note(), note(), h("div", { class: "stack" }), h("div", { class: "stack" })];
    asked.into.append(h("div", { class: "title" }, h("p", { class: "soft" }, h("bdi", {}, asked.has.agent?.directory ?? "")), h("h1", {}, "Business transactions")), spans, told.box, top, told_kept.box, kept);
    await Promise.all([
      renewed(asked, told, async () => swap(top, ...now_shown(await get<Top>("transactions", { seconds, sort }, asked.signal), given))),
      renewed(asked, told_kept, async () => swap(kept, ...kept_shown(await get<Kept>("kept", { application, transaction, only, most }, asked.signal), given))),
    ]);
    return {
      keys: [
        { keys: ["j", "ArrowDown"], words: "the next row", act: () => move(asked.into, 1) },
        { keys: ["k", "ArrowUp"], words: "the row before", act: () => move(asked.into, -1) },
        { keys: ["f"], words: "failed ones only, or all", act: () => go("transactions", { ...given, only: only ? undefined : "failed" }) },
        { keys: ["a"], words: "of all transactions", act: () => go("transactions", { seconds: given["seconds"], sort }) },
        { keys: ["s"], words: "sort by the next column", act: () => {
          const all = Object.keys(SORTS);
          go("transactions", { ...given, sort: all[(all.indexOf(sort ?? "time") + 1) % all.length] });
        } },
      ],
    };
  },
};
