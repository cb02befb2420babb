// Charts that are zoomed and moved. A chart's inner box grows, and its pane scrolls: everything in it is placed in
// per cent, so that nothing is drawn anew but the ticks. Without this a chart is simply whole.
(() => {
  "use strict";
  const MOST = 20000;
  const charts = [...document.querySelectorAll("[data-zoom]")].map((element) => {
    const pane = element.querySelector(".pane");
    return { element, pane, inner: pane.firstElementChild, name: element.dataset.zoom, ns: Number(element.dataset.ns), zoom: 1 };
  });
  let current = charts[0];
  const time = (ns) => {
    const [value, unit] = ns < 1e3 ? [ns, "ns"] : ns < 1e6 ? [ns / 1e3, "us"] : ns < 1e9 ? [ns / 1e6, "ms"] : [ns / 1e9, "s"];
    return `${Number(value.toPrecision(6))} ${unit}`;
  };
  const width = (chart) => chart.pane.clientWidth;
  const tell = (chart) => {
    const from = chart.pane.scrollLeft / (width(chart) * chart.zoom);
    const rough = (chart.ns / chart.zoom) * (110 / Math.max(110, width(chart)));
    const decade = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * decade).find((one) => one >= rough);
    const ticks = chart.inner.querySelector(".ticks");
    if (ticks) {
      const first = Math.max(0, Math.floor((from * chart.ns) / step) - 20);
      const last = Math.min(Math.floor(chart.ns / step), first + 40 + Math.ceil(chart.ns / chart.zoom / step));
      const made = [];
      for (let at = first; at <= last; at++) {
        // At the very end there is no room for it.
        if (at > 0 && ((chart.ns - at * step) / chart.ns) * chart.zoom * width(chart) < 56) continue;
        const tick = document.createElement("i");
        tick.style.left = `${(100 * at * step) / chart.ns}%`;
        tick.textContent = time(at * step);
        made.push(tick);
      }
      ticks.replaceChildren(...made);
    }
    chart.output.textContent = chart.zoom > 1.001 ? `${time(chart.ns / chart.zoom)} of ${time(chart.ns)}` : "";
    const state = chart.zoom > 1.001 ? `#chart=${chart.name}&zoom=${chart.zoom.toFixed(3)}&at=${from.toFixed(6)}` : "#";
    clearTimeout(tell.later);
    tell.later = setTimeout(() => history.replaceState(null, "", state), 60);
  };
  const zoom = (chart, factor, share = 0.5) => {
    const before = chart.zoom;
    chart.zoom = Math.min(MOST, Math.max(1, chart.zoom * factor));
    const at = chart.pane.scrollLeft + share * width(chart);
    chart.inner.style.width = `${100 * chart.zoom}%`;
    chart.pane.scrollLeft = (at * chart.zoom) / before - share * width(chart);
    tell(chart);
  };
  const show = (chart, by = "smooth") => {
    current = chart;
    for (let above = chart.element.closest("details"); above; above = above.parentElement.closest("details")) above.open = true;
    chart.element.scrollIntoView({ block: "nearest", behavior: by });
    chart.pane.focus({ preventScroll: true });
  };
  for (const chart of charts) {
    const bar = document.createElement("div");
    bar.className = "zoomers";
    chart.output = document.createElement("output");
    const button = (text, label, act) => {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = text;
      made.title = label;
      made.setAttribute("aria-label", label);
      made.addEventListener("click", () => {
        current = chart;
        act();
      });
      return made;
    };
    bar.append(
      chart.output,
      button("\u2212", "Zoom out (-)", () => zoom(chart, 0.5)),
      button("+", "Zoom in (+)", () => zoom(chart, 2)),
      button("all", "All of it (0)", () => zoom(chart, 0)),
    );
    chart.element.after(bar);
    chart.pane.addEventListener("focus", () => (current = chart));
    chart.pane.addEventListener("scroll", () => tell(chart), { passive: true });
    chart.pane.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      current = chart;
      zoom(chart, Math.exp(-event.deltaY / 200), (event.clientX - chart.pane.getBoundingClientRect().left) / width(chart));
    }, { passive: false });
    chart.pane.addEventListener("dblclick", (event) => {
      const box = event.target.closest(".f, .s");
      const share = box ? box.offsetWidth / chart.inner.offsetWidth : 0;
      if (share > 0 && share < 0.98 / chart.zoom) {
        // A box that is chosen fills the width.
        chart.zoom = Math.min(MOST, 0.94 / share);
        chart.inner.style.width = `${100 * chart.zoom}%`;
        chart.pane.scrollLeft = box.offsetLeft - 0.03 * width(chart);
        return tell(chart);
      }
      zoom(chart, 4, (event.clientX - chart.pane.getBoundingClientRect().left) / width(chart));
    });
    let held = null;
    chart.pane.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      held = { x: event.clientX, left: chart.pane.scrollLeft };
    });
    addEventListener("pointermove", (event) => {
      if (!held) return;
      chart.pane.classList.add("drag");
      chart.pane.scrollLeft = held.left - (event.clientX - held.x);
    });
    addEventListener("pointerup", () => {
      held = null;
      chart.pane.classList.remove("drag");
    });
  }
  const keys = document.getElementById("keys");
  const turn = (step) => charts.length && show(charts[(charts.indexOf(current) + step + charts.length) % charts.length]);
  const acts = {
    "+": () => zoom(current, 2), "=": () => zoom(current, 2), "-": () => zoom(current, 0.5), _: () => zoom(current, 0.5), 0: () => zoom(current, 0),
    n: () => turn(1), p: () => turn(-1),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || keys.open || event.target.closest("input")) return;
    if (event.key === "?") {
      event.preventDefault();
      return keys.showModal();
    }
    const act = acts[event.key];
    const arrow = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!current || !(act || (arrow && event.target === current.pane))) return;
    event.preventDefault();
    if (act) act();
    else current.pane.scrollLeft += arrow * (event.shiftKey ? 0.9 : 0.2) * width(current);
  });
  const of_address = () => {
    const told = new URLSearchParams(location.hash.slice(1));
    const chart = charts.find((one) => one.name === told.get("chart"));
    const [factor, at] = [Number(told.get("zoom")), Number(told.get("at"))];
    if (!chart || !(factor >= 1) || !(at >= 0)) return;
    show(chart, "instant");
    chart.zoom = Math.min(MOST, factor);
    chart.inner.style.width = `${100 * chart.zoom}%`;
    chart.pane.scrollLeft = at * width(chart) * chart.zoom;
    tell(chart);
  };
  addEventListener("hashchange", of_address);
  of_address();
})();
