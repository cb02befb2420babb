// The map of a cluster: its directors above, a box for each node below, and the ways between them.

import { clean, h, name, styled } from "./dom.ts";
import { bytes, count, percent, rate, time } from "./format.ts";
import type { ClusterMap, Member } from "./now.ts";
import { link } from "./place.ts";

const SVG = "http://www.w3.org/2000/svg";

function state_of(member: Member): HTMLElement {
  const away = member.state === "silent" || member.state === "unheard";
  const words = member.state === "silent" && member.silence_s !== null ? `silent for ${time(member.silence_s * 1e9)}` : member.state;
  return h("span", { class: `state ${member.state}${away ? " verdict longer" : ""}` }, words);
}

function fact(words: string, value: string | HTMLElement, title?: string): HTMLElement {
  return h("div", { title }, h("dt", {}, words), h("dd", {}, value));
}

function meter(share: number): HTMLElement {
  return h("span", { class: "meter" }, h("span", { class: "lane", "aria-hidden": "true" }, styled(h("span", {}), { "--from": "0", "--wide": String(Math.min(100, 100 * share)), "--colour": "var(--accent)" })), percent(share));
}

function facts(member: Member, told: ClusterMap): HTMLElement {
  const { reading } = member;
  const strain = reading?.strain;
  const files = told.atoms.by_node[member.name];
  const sites = Object.entries(member.sites).map(([site, version]) => `${site} ${version}`).join(", ");
  return h("dl", { class: "node" },
    fact("Requests", reading ? rate(reading.requests_per_s) : "-"),
    fact("CPU", reading ? meter(reading.cpu_share) : "-", "of the CPUs that the server may use"),
    fact("Connections", reading ? `${count(reading.open_connections)}, ${count(reading.sending_sessions)} sending` : "-"),
    fact("Out", reading ? `${bytes(reading.sent_bytes_per_s)}/s` : "-"),
    fact("Wait", strain ? `${strain.queue.toFixed(1)}, ${time(strain.wait_s * 1e9)} each` : "-", "requests that wait, and how long one waits in the mean"),
    fact("Fail", strain ? rate(strain.errors_per_s) : "-"),
    fact("Memory", strain ? percent(strain.mem_share) : "-", "of the machine's memory"),
    fact("Weight", member.weight === null ? "-" : `${count(member.weight)}, ${rate(member.packets_per_s)} packets`, "for new connections; only the director tells it"),
    fact("Files", files === undefined ? "-" : `${count(files)}${told.atoms.of === null ? "" : ` of ${count(told.atoms.of)}`}`, told.atoms.words),
    fact("Sites", sites === "" ? "-" : name(sites, 40)),
    fact("Reading", member.age_s === null ? "none" : `${time(member.age_s * 1e9)} old`));
}

function box(member: Member, told: ClusterMap, chosen: string): HTMLElement {
  const is_node = member.role === "node";
  const is_hot = told.hottest.node === member.name;
  const made = h("article", { class: `member ${is_node ? "of-node" : "of-director"} ${member.state}${is_hot ? " hot" : ""}${chosen === member.name ? " chosen-node" : ""}`, "data-member": member.name },
    h("h2", {}, h("a", { href: link("cluster", { node: member.name }), "data-key": `member ${member.name}`, title: "its events", "aria-current": chosen === member.name ? "true" : undefined }, h("bdi", {}, clean(member.name))),
      is_hot && h("span", { class: "badge" }, "hottest"), !is_node && h("span", { class: "soft" }, member.role), state_of(member)),
    is_node && facts(member, told));
  return made;
}

export class ClusterDrawing {
  readonly box = h("div", { class: "map", "data-flown": 0 });
  private readonly ways = document.createElementNS(SVG, "svg");
  private readonly watcher = new ResizeObserver(() => this.draw_ways());
  private readonly into = h("div", { class: "members" });

  constructor() {
    this.ways.setAttribute("class", "ways");
    this.ways.setAttribute("aria-hidden", "true");
    this.box.append(this.ways, this.into);
    this.watcher.observe(this.box);
  }

  renew(told: ClusterMap, chosen: string, swap: (into: HTMLElement, ...fresh: Node[]) => void): void {
    const boxes = (is_node: boolean) => told.top.members.filter((member) => (member.role === "node") === is_node).map((member) => box(member, told, chosen));
    swap(this.into, h("div", { class: "directors" }, boxes(false)), h("div", { class: "nodes" }, boxes(true)));
    this.draw_ways();
  }

  of(member: string): Element | null {
    return this.box.querySelector(`[data-member="${CSS.escape(member)}"]`);
  }

  end(): void {
    this.watcher.disconnect();
  }

  // From the first director to each node: broken where the node is not there.
  private draw_ways(): void {
    const [within, director] = [this.box.getBoundingClientRect(), this.box.querySelector(".of-director")?.getBoundingClientRect()];
    this.ways.setAttribute("viewBox", `0 0 ${Math.max(1, within.width)} ${Math.max(1, within.height)}`);
    const lines = [...this.box.querySelectorAll(".of-node")].map((node) => {
      const to = node.getBoundingClientRect();
      const line = document.createElementNS(SVG, "path");
      if (!director) return line;
      const [x, y, to_x, to_y] = [director.left + director.width / 2 - within.left, director.bottom - within.top, to.left + to.width / 2 - within.left, to.top - within.top];
      const half = y + (to_y - y) / 2;
      line.setAttribute("d", `M${x} ${y} C${x} ${half} ${to_x} ${half} ${to_x} ${to_y}`);
      line.setAttribute("class", node.classList.contains("silent") || node.classList.contains("unheard") ? "away" : "there");
      return line;
    });
    this.ways.replaceChildren(...lines);
  }
}
