// Search over everything with a name: tasks, functions, queries, classes, parts.
(() => {
  "use strict";
  const tools = document.createElement("form");
  tools.className = "tools";
  tools.setAttribute("role", "search");
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "Search tasks, functions, queries (/)";
  input.setAttribute("aria-label", "Search tasks, functions, queries");
  const count = document.createElement("output");
  count.setAttribute("aria-live", "polite");
  const help = document.createElement("button");
  help.type = "button";
  help.textContent = "?";
  help.title = "Keys (?)";
  help.setAttribute("aria-label", "Keys");
  help.addEventListener("click", () => document.getElementById("keys").showModal());
  tools.append(input, count, help);
  document.querySelector("main").prepend(tools);
  let hits = [];
  let at = -1;
  const clear = () => {
    for (const hit of hits) hit.classList.remove("hit", "at");
    hits = [];
    at = -1;
  };
  const words = (element) => element.dataset.hint ?? element.title ?? "";
  const search = () => {
    clear();
    const query = input.value.trim().toLowerCase();
    if (query) {
      const named = document.querySelectorAll("main .f, main .s, main td.name, main th.name, main .lane-name .name, main .causes li, main .chart-names span");
      hits = [...named].filter((one) => `${one.textContent} ${words(one)}`.toLowerCase().includes(query));
      for (const hit of hits) hit.classList.add("hit");
    }
    count.textContent = query ? `${hits.length} found` : "";
  };
  const next = (step) => {
    if (hits.length === 0) return;
    hits[at]?.classList.remove("at");
    at = (at + step + hits.length) % hits.length;
    const hit = hits[at];
    for (let above = hit.closest("details"); above; above = above.parentElement.closest("details")) above.open = true;
    const opener = hit.matches(".f-in") && hit.closest(".figure").querySelector(".opener input");
    if (opener) opener.checked = true;
    hit.classList.add("at");
    hit.scrollIntoView({ block: "center", inline: "center" });
    count.textContent = `${at + 1} of ${hits.length}`;
  };
  input.addEventListener("input", search);
  tools.addEventListener("submit", (event) => {
    event.preventDefault();
    next(1);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.shiftKey) {
      event.preventDefault();
      next(-1);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && event.target !== input && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
      input.select();
    } else if (event.key === "Escape" && (input.value || hits.length)) {
      input.value = "";
      search();
      input.blur();
    }
  });
})();
