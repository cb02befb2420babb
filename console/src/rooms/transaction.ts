// A business transaction with its relatives across processes and hosts, as nested bars.

import { get } from "../api.ts";
import { h, name, styled, type Child } from "../dom.ts";
import { count, counted, moment, time } from "../format.ts";
import type { Tree, TreeLine } from "../now.ts";
import { link } from "../place.ts";
import type { Room } from "../room.ts";
import { move, table } from "../table.ts";
import { full_name } from "./transactions.ts";

// Levels that are drawn one below the other; deeper ones stand as the last of these.
const MOST_DEEP = 16;

// From where to where the bars of each line's tree go: a line without a level begins one.
function spans(lines: TreeLine[]): [number, number][] {
  const all: [number, number][] = [];
  let own: [number, number] = [0, 1];
  for (const line of lines) {
    if (line.depth === 0) own = [line.offset_ns, line.offset_ns + 1];
    own[0] = Math.min(own[0], line.offset_ns);
    own[1] = Math.max(own[1], line.offset_ns + line.duration_ns);
    all.push(own);
  }
  return all;
}

function bar(line: TreeLine, [from, to]: [number, number]): HTMLElement {
  const wide = Math.max(1, to - from);
  return h("div", { class: "lane", "aria-hidden": "true" }, styled(h("span", { class: line.is_failure ? "hatched" : undefined }), { "--colour": line.is_failure ? "var(--strong)" : "var(--accent)", "--from": String((100 * (line.offset_ns - from)) / wide), "--wide": String((100 * line.duration_ns) / wide) }));
}

function row(line: TreeLine, span: [number, number], wanted: string, with_host: boolean): Child[] {
  const part = (ns: number) => (ns === 0 ? "-" : time(ns));
  const is_it = line.id === wanted || line.id.endsWith(`-${wanted}`);
  const head = styled(h("div", { class: "branch" },
    h("a", { href: link("transactions", { application: line.application, transaction: line.name }), title: "the last ones of this name", "data-key": line.id }, full_name(line)),
    line.is_failure && h("span", { class: "verdict longer" }, ` ${line.status}`), !line.is_failure && line.status !== "good" && ` ${line.status}`, is_it && h("span", { class: "badge" }, "this one"),
    h("div", { class: "soft" }, name(line.command, 40), `[${line.pid}]`, with_host && [" at ", name(line.host, 60)], line.user !== null && [" for ", name(line.user, 40)], line.one_in > 1 && `, one of ${count(line.one_in)}`),
    line.unknown_parent !== null && h("div", { class: "soft" }, "its parent ", h("code", {}, line.unknown_parent), " is not known"),
    line.told.length > 0 && h("ul", { class: "said" }, line.told.map((words) => h("li", {}, name(words, 300))))), { "--depth": String(Math.min(MOST_DEEP, line.depth)) });
  return [head, bar(line, span), time(line.offset_ns), time(line.duration_ns), part(line.own_ns), part(line.children_ns), part(line.blocked_ns), part(line.queued_ns)];
}

export const transaction: Room = {
  name: "transaction",
  title: "Transaction",
  of_run: false,
  under: "transactions",
  of: (has) => has.agent?.directory,
  async show(asked) {
    const { id } = asked.place.given;
    if (!id) throw new Error("No transaction is chosen: the room Transactions lists those that were kept.");
    const told = await get<Tree>("transaction", { id }, asked.signal);
    const at = spans(told.lines);
    const first = told.lines[0];
    const hosts = told.hosts.length > 1;
    const processes = told.processes === 1 ? "1 process" : `${count(told.processes)} processes`;
    asked.into.append(
      h("div", { class: "title" }, h("p", { class: "soft" }, h("a", { href: link("transactions") }, "Business transactions"), " \u00b7 trace ", h("code", {}, told.trace)), h("h1", { class: "long" }, first ? full_name(first) : "Transaction"),
        h("p", {}, first ? `${time(first.duration_ns)}, ${first.status}, from ${moment(first.begin_unix_us / 1000)} \u00b7 ` : "", `${counted(told.transactions, "transaction")} in ${processes} on `, told.hosts.flatMap((host, index) => [index > 0 && ", ", name(host, 60)]))),
      h("section", { class: "card tree" },
        table("The tree", [{ name: "Transaction" }, { name: "When" }, { name: "At", number: true }, { name: "Took", number: true }, { name: "Self", number: true }, { name: "Children", number: true }, { name: "Blocked", number: true }, { name: "Queued", number: true }], told.lines.map((line, index) => row(line, at[index] ?? [0, 1], id, hosts))),
        told.missing > 0 && h("p", {}, `${counted(told.missing, "more transaction")} of this trace found no room.`),
        h("p", { class: "soft" }, "Took is self, children, blocked and queued together. At counts from the begin of the first one of its tree.")),
    );
    return {
      keys: [
        { keys: ["j", "ArrowDown"], words: "the next transaction", act: () => move(asked.into, 1) },
        { keys: ["k", "ArrowUp"], words: "the transaction before", act: () => move(asked.into, -1) },
      ],
    };
  },
};
