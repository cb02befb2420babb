// Figures for people: three digits and a unit, as the commands print them.

function three(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

export function time(ns: number | null | undefined): string {
  if (ns === null || ns === undefined || !Number.isFinite(ns)) return "-";
  const size = Math.abs(ns);
  if (size < 999.5) return `${Math.round(ns) + 0}\u00a0ns`;
  if (size < 999.5e3) return `${three(ns / 1e3)}\u00a0us`;
  if (size < 999.5e6) return `${three(ns / 1e6)}\u00a0ms`;
  return `${three(ns / 1e9)}\u00a0s`;
}

export function count(number: number | null | undefined): string {
  if (number === null || number === undefined || !Number.isFinite(number)) return "-";
  return Math.round(number).toLocaleString("en-US");
}

export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return "-";
  if (share === 0) return "0\u00a0%";
  if (share > 0 && share < 0.0005) return "<0.1\u00a0%";
  return Math.abs(share) < 0.0995 ? `${(100 * share).toFixed(1)}\u00a0%` : `${(100 * share).toFixed(0)}\u00a0%`;
}

export function bytes(size: number | null | undefined): string {
  if (size === null || size === undefined) return "-";
  if (size < 999.5) return `${size}\u00a0B`;
  for (const [unit, name] of [[1e3, "kB"], [1e6, "MB"], [1e9, "GB"]] as const) {
    if (size < 999.5 * unit) return `${three(size / unit)}\u00a0${name}`;
  }
  return `${three(size / 1e12)}\u00a0TB`;
}

export function rate(per_s: number | null | undefined): string {
  if (per_s === null || per_s === undefined) return "-";
  return `${per_s < 99.95 ? three(per_s) : count(per_s)}\u00a0/s`;
}

export function date(unix_ns: string | null): string {
  if (!unix_ns) return "-";
  const ms = Number(BigInt(unix_ns) / 1_000_000n);
  const two = (number: number) => String(number).padStart(2, "0");
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function per_minute(value: number | null | undefined): string {
  if (value === null || value === undefined) return "-";
  return `${value === 0 ? "0" : value < 99.95 ? three(value) : count(value)}\u00a0/min`;
}

const two = (number: number, wide = 2) => String(number).padStart(wide, "0");

// A time of day as this browser's clock has it, with the day where that is another one.
export function moment(unix_ms: number, with_ms = true): string {
  const at = new Date(unix_ms);
  const day = at.toDateString() === new Date().toDateString() ? "" : `${two(at.getMonth() + 1)}-${two(at.getDate())} `;
  return `${day}${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}${with_ms ? `.${two(at.getMilliseconds(), 3)}` : ""}`;
}

export function counted(number: number, what: string): string {
  return `${count(number)} ${what}${number === 1 ? "" : "s"}`;
}
