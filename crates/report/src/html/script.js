// Hints that follow the pointer, and parts that stand out everywhere when one of them is chosen.
// The page is complete without it: drawings carry titles, and tables say what drawings show.
(() => {
  "use strict";
  const hint = document.createElement("div");
  hint.id = "hint";
  hint.hidden = true;
  hint.setAttribute("aria-hidden", "true");
  document.body.append(hint);
  for (const title of document.querySelectorAll(".bar g > title")) {
    const segment = title.parentNode;
    segment.dataset.hint = title.textContent;
    title.remove();
  }
  for (const box of document.querySelectorAll(".inner > [title]")) {
    box.dataset.hint = box.title;
    box.removeAttribute("title");
  }
  const place = (event) => {
    const x = Math.min(event.clientX + 12, innerWidth - hint.offsetWidth - 8);
    const below = event.clientY + 18;
    const y = below + hint.offsetHeight > innerHeight ? event.clientY - hint.offsetHeight - 10 : below;
    hint.style.left = `${Math.max(8, x)}px`;
    hint.style.top = `${y}px`;
  };
  document.addEventListener("pointermove", (event) => {
    const segment = event.target.closest?.("[data-hint]");
    hint.hidden = !segment;
    if (segment) {
      hint.textContent = segment.dataset.hint;
      place(event);
    }
  });

  let chosen = null;
  const choose = (part) => {
    chosen = part === chosen ? null : part;
    document.body.classList.toggle("focus", chosen !== null);
    for (const element of document.querySelectorAll("[data-part]")) {
      element.classList.toggle("on", element.dataset.part === chosen);
    }
    for (const key of document.querySelectorAll(".legend li")) {
      key.setAttribute("aria-pressed", String(key.dataset.part === chosen));
    }
  };
  for (const key of document.querySelectorAll(".legend li")) {
    key.tabIndex = 0;
    key.setAttribute("role", "button");
    key.setAttribute("aria-pressed", "false");
    key.title = "Show this part alone";
    key.style.cursor = "pointer";
    key.addEventListener("click", () => choose(key.dataset.part));
    key.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        choose(key.dataset.part);
      }
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && chosen !== null) choose(chosen);
  });
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("section > details")) details.open = true;
  });
})();
