// The token of a server's own console. It is kept for this tab, goes out in a header, and never stands in an address.

import { h } from "./dom.ts";

// The status page of the admin address keeps it by the same name.
const KEPT = "token";
let asking: Promise<boolean> | null = null;
let is_declined = false;

// Asks the user; whether there is another token now.
function asked(before: string | null): Promise<boolean> {
  const wrong = h("p", { class: "wrong", role: "alert" }, before === null ? "" : "That is not the token of this server.");
  const box = h("input", { type: "password", autocomplete: "off", spellcheck: "false", "aria-label": "Token", maxlength: 4096 });
  const form = h("form", { class: "row" }, box, h("button", { type: "submit" }, "Show"));
  const dialog = h("dialog", { "aria-labelledby": "token-title", class: "token" }, h("h2", { id: "token-title" }, "The server tells nothing without its token"),
    h("p", { class: "soft" }, "It stands in the file that the server was given (--admin-token). It is kept until this tab is closed."), wrong, form);
  return new Promise((done) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = box.value.trim();
      if (!/^[!-~]+$/.test(given)) return void (wrong.textContent = "A token consists of visible ASCII characters.");
      sessionStorage.setItem(KEPT, given);
      dialog.close("given");
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      is_declined = dialog.returnValue !== "given";
      done(!is_declined);
    });
    document.body.append(dialog);
    dialog.showModal();
    box.focus();
  });
}

// Fetches with the token, if one is kept, and asks for it where the server wants another.
export async function fetched(address: string, options: RequestInit): Promise<Response> {
  for (;;) {
    const token = sessionStorage.getItem(KEPT);
    const headers = new Headers(options.headers);
    if (token !== null) headers.set("Authorization", `Bearer ${token}`);
    const answer = await fetch(address, { ...options, headers });
    if (answer.status !== 401 || is_declined) return answer;
    // Another call may have asked meanwhile.
    if (sessionStorage.getItem(KEPT) !== token) continue;
    asking ??= asked(token).finally(() => (asking = null));
    if (!(await asking)) return answer;
  }
}
