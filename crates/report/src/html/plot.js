// A cursor in each plot that tells the values below it; the tables tell them without it.
(() => {
  "use strict";
  for (const plot of document.querySelectorAll(".lines[data-hints]")) {
    const hints = plot.dataset.hints.split("\n").filter(Boolean).map((line) => {
      const [place, text] = line.split("\t");
      return { place: Number(place), text };
    });
    if (hints.length === 0) continue;
    const told = plot.parentElement.querySelector(".told");
    const cursor = document.createElement("div");
    cursor.className = "cursor";
    cursor.hidden = true;
    plot.append(cursor);
    let at = -1;
    const tell = (index) => {
      at = Math.max(0, Math.min(hints.length - 1, index));
      cursor.hidden = false;
      cursor.style.left = `${hints[at].place * 100}%`;
      told.textContent = hints[at].text;
    };
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const place = (event.clientX - box.left) / box.width;
      let best = 0;
      hints.forEach((hint, index) => {
        if (Math.abs(hint.place - place) < Math.abs(hints[best].place - place)) best = index;
      });
      tell(best);
    });
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
      if (step) tell(at + step);
      else if (event.key === "Home") tell(0);
      else if (event.key === "End") tell(hints.length - 1);
      else return;
      event.preventDefault();
    });
  }
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
})();
