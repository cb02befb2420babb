// Requests of a running server as they are answered, with their steps.

import { follow, type Line, type Watched } from "../api.ts";
import { h, name } from "../dom.ts";
import { count, moment, time } from "../format.ts";
import { EVERY_MS, may_pass, note, same_server, server_of, title, why, type Note } from "../live.ts";
import { go } from "../place.ts";
import type { Asked, Key, Room } from "../room.ts";

// Requests that are shown, and that wait while the list pauses.
const MOST = 1000;

function steps(one: Watched): HTMLElement {
  return h("dl", { class: "steps" }, one.told.map(([category, lines]) => h("div", {}, h("dt", {}, category), h("dd", {}, lines.map((line) => h("div", {}, line))))));
}

function item(one: Watched): HTMLElement {
  const asked = one.method === "" ? "no request that can be read" : `${one.method} ${one.target}`;
  const kind = one.status >= 500 || one.status === 0 ? "verdict longer" : undefined;
  const made = h("details", {}, h("summary", {}, h("span", { class: "soft" }, moment(one.at_unix_us / 1000)), h("span", { class: kind }, one.status === 0 ? "no status" : String(one.status)), h("span", { class: "n" }, time(one.whole_us * 1e3)), name(asked, 120)));
  // Its steps are made when they are looked at.
  made.addEventListener("toggle", () => made.open && made.children.length === 1 && made.append(steps(one)));
  return h("li", {}, made);
}

// The list, the latest on top.
class Shown {
  readonly list = h("ol", { class: "watched", "aria-label": "Requests, the latest first" });
  readonly words = h("p", { class: "soft", "data-came": 0 });
  is_paused = false;
  private waiting: Watched[] = [];
  private is_asked = false;
  private readonly counts = { came: 0, cut: 0, left_out: 0, dropped: 0 };

  take(line: Line): void {
    if (line.type === "request") {
      this.counts.came += 1;
      this.waiting.push(line);
      if (this.waiting.length > MOST) {
        this.waiting.shift();
        this.counts.cut += 1;
      }
    } else if (line.type === "left" || line.type === "end") {
      Object.assign(this.counts, { left_out: line.left_out, dropped: line.dropped });
    }
    this.draw();
  }

  pause(): void {
    this.is_paused = !this.is_paused;
    this.draw();
  }

  // At most once a frame.
  private draw(): void {
    if (this.is_asked) return;
    this.is_asked = true;
    requestAnimationFrame(() => {
      this.is_asked = false;
      if (!this.is_paused) {
        this.list.prepend(...this.waiting.splice(0).reverse().map(item));
        while (this.list.children.length > MOST) {
          this.list.lastElementChild?.remove();
          this.counts.cut += 1;
        }
      }
      const { came, cut, left_out, dropped } = this.counts;
      this.words.textContent = `${this.is_paused ? `Paused, ${count(this.waiting.length)} wait. ` : ""}${count(came)} came, ${count(this.list.children.length)} are shown, ${count(cut)} older ones are no longer. ${count(left_out)} were left out as the budget of ${count(65_536)} bytes a second had no room, ${count(dropped)} were not looked at as too many came.`;
      this.words.dataset["came"] = String(came);
    });
  }

  move(by: number): void {
    const all = [...this.list.querySelectorAll<HTMLElement>("summary")];
    const at = all.findIndex((one) => one === document.activeElement);
    const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }
}

// Watches, and begins again after a while when the server or the console has gone.
async function watched(asked: Asked, told: Note, shown: Shown, given: { filter: string; show: string }): Promise<void> {
  while (!asked.signal.aborted) {
    try {
      let gone = "";
      await follow<Line>("watch", same_server(asked, given), asked.signal, (line) => {
        if (line.type === "begin") told.fine();
        else if (line.type === "gone") gone = line.why;
        else if (line.type === "end") gone = "the server ends";
        shown.take(line);
      });
      told.wrong(`${gone || "the stream broke off"}; asked again every two seconds`);
    } catch (error) {
      if (asked.signal.aborted) return;
      told.wrong(why(error));
      if (!may_pass(error)) return;
    }
    await new Promise((done) => setTimeout(done, EVERY_MS));
  }
}

function form(asked: Asked, given: { filter: string; show: string }, categories: string[]): HTMLFormElement {
  const chosen = given.show.split(",");
  const boxes = categories.map((one) => h("label", { class: "box" }, h("input", { type: "checkbox", name: "show", value: one, checked: chosen.includes(one) }), one));
  const made = h("form", { class: "filter", role: "search" },
    h("label", { class: "wide" }, "Words as for weir watch", h("input", { type: "search", name: "filter", value: given.filter, placeholder: "status=5xx path=/api/** duration>100ms", autocomplete: "off", spellcheck: "false" })),
    h("button", { type: "submit" }, "Watch"), h("fieldset", { class: "boxes" }, h("legend", {}, "What is told of each"), boxes));
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    const data = new FormData(made);
    go("watch", same_server(asked, { filter: String(data.get("filter") ?? "").trim(), show: data.getAll("show").join(",") }));
  });
  return made;
}

export const watch: Room = {
  name: "watch",
  title: "Watch",
  of_run: false,
  key: "W",
  async show(asked) {
    const { categories = [], usual_categories = [] } = server_of(asked.has, asked.place.given["server"]) ?? {};
    const given = { filter: asked.place.given["filter"] ?? "", show: asked.place.given["show"] || usual_categories.join(",") };
    const [told, shown, asks] = [note(), new Shown(), form(asked, given, categories)];
    const button = h("button", { type: "button", "aria-pressed": "false" }, "Pause (Space)");
    const pause = () => {
      shown.pause();
      button.setAttribute("aria-pressed", String(shown.is_paused));
      button.textContent = shown.is_paused ? "Go on (Space)" : "Pause (Space)";
    };
    button.addEventListener("click", pause);
    asked.into.append(title(asked, "Requests as they are answered"), h("section", { class: "card" }, asks), told.box,
      h("section", { class: "card" }, h("div", { class: "row" }, button, shown.words), shown.list), h("p", { class: "soft" }, "A request is shown when it is over. Credentials, cookies, queries and bodies are never shown."));
    shown.words.textContent = "Waiting for the first request.";
    void watched(asked, told, shown, given);
    const keys: Key[] = [
      { keys: [" "], words: "pause, or go on", act: pause },
      { keys: ["j", "ArrowDown"], words: "the request below", act: () => shown.move(1) },
      { keys: ["k", "ArrowUp"], words: "the request above", act: () => shown.move(-1) },
      { keys: ["Enter"], words: "unfold the steps of the request, or fold them", act: () => shown.move(1) },
      { keys: ["/"], words: "write the filter", act: () => asks.querySelector("input")?.focus() },
    ];
    return { keys };
  },
};
