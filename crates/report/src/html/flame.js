// Search within one flame chart: what is found stands out, and its share of the time is told.
(() => {
  "use strict";
  for (const [index, flame] of [...document.querySelectorAll(".flame")].entries()) {
    const boxes = [...flame.querySelectorAll(".f")].map((box) => ({ box, name: (box.dataset.hint ?? box.title).toLowerCase() }));
    const find = document.createElement("label");
    find.className = "find";
    const input = document.createElement("input");
    input.type = "search";
    input.placeholder = "Functions of this chart";
    input.setAttribute("aria-label", `Search the functions of flame chart ${index + 1}`);
    const told = document.createElement("output");
    told.setAttribute("aria-live", "polite");
    find.append(input, told);
    flame.nextElementSibling.prepend(find);
    input.addEventListener("input", () => {
      const query = input.value.trim().toLowerCase();
      const found = boxes.filter(({ box, name }) => {
        // The figures behind the last colon are of no function's name.
        const is = query !== "" && name.slice(0, Math.max(0, name.lastIndexOf(":"))).includes(query);
        box.classList.toggle("found", is);
        return is;
      });
      flame.classList.toggle("finding", query !== "");
      // Each stretch of time counts once, however many of the functions on its stack are found.
      const spans = found.map(({ box }) => [parseFloat(box.style.left), parseFloat(box.style.left) + parseFloat(box.style.width)]).sort((a, b) => a[0] - b[0]);
      let [share, end] = [0, 0];
      for (const [from, to] of spans) {
        share += Math.max(0, to - Math.max(from, end));
        end = Math.max(end, to);
      }
      const names = found.filter(({ box }) => !box.classList.contains("f-in")).length;
      told.textContent = query === "" ? "" : `${names} box${names === 1 ? "" : "es"}, ${share.toFixed(share < 9.95 ? 1 : 0)} % of the time`;
    });
  }
})();
