// Pointers over the lanes: one drags, two pinch, the wheel rolls or, with Ctrl, zooms.

import type { Box } from "../../crates/cli/src/view/draw.js";
import type { Lanes } from "./lanes.ts";

export interface Heard { hover: (box: Box | null, event: PointerEvent) => void; click: (box: Box) => void }

export function pointers(view: Lanes, heard: Heard): void {
  const { lanes, overview } = view;
  const down = new Map<number, [number, number]>();
  let dragged = 0;
  lanes.addEventListener("pointerdown", (event) => {
    lanes.setPointerCapture(event.pointerId);
    down.set(event.pointerId, [event.offsetX, event.offsetY]);
    dragged = 0;
  });
  lanes.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) return heard.hover(view.drawing.at(event.offsetX, event.offsetY), event);
    heard.hover(null, event);
    const [x, y] = [event.offsetX, event.offsetY];
    dragged += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const factor = Math.max(8, Math.abs(x - other[0])) / Math.max(8, Math.abs(before[0] - other[0]));
      view.zoom(Math.min(4, Math.max(0.25, factor)), view.ns_at((x + other[0]) / 2));
    } else {
      view.roll(before[1] - y);
      const by = (before[0] - x) / view.drawing.scale;
      view.move(view.from + by, view.to + by);
    }
    down.set(event.pointerId, [x, y]);
  });
  for (const end of ["pointerup", "pointercancel"] as const) lanes.addEventListener(end, (event) => down.delete(event.pointerId));
  lanes.addEventListener("pointerleave", (event) => heard.hover(null, event));
  lanes.addEventListener("click", (event) => {
    const box = view.drawing.at(event.offsetX, event.offsetY);
    if (dragged <= 4 && box) heard.click(box);
  });
  lanes.addEventListener("dblclick", (event) => view.zoom(4, view.ns_at(event.offsetX)));
  lanes.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) view.zoom(Math.exp(-event.deltaY / 200), view.ns_at(event.offsetX));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.pan((event.deltaX || event.deltaY) / 800);
    else view.roll(event.deltaY);
  }, { passive: false });
  const to = (event: PointerEvent) => {
    const at = (event.offsetX / overview.clientWidth) * view.whole.duration_ns;
    const span = view.to - view.from < view.whole.duration_ns ? view.to - view.from : view.whole.duration_ns / 10;
    view.move(at - span / 2, at + span / 2);
  };
  overview.addEventListener("pointerdown", (event) => {
    overview.setPointerCapture(event.pointerId);
    to(event);
  });
  overview.addEventListener("pointermove", (event) => event.buttons > 0 && to(event));
}
