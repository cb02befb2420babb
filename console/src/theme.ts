// Dark or light: as the browser has it, or as it was chosen, which the browser keeps.

const KEY = "weir-console-theme";
const ORDER = ["auto", "dark", "light"];

export function theme(): string {
  // A browser may be told to keep nothing.
  try {
    return localStorage.getItem(KEY) ?? "auto";
  } catch {
    return "auto";
  }
}

export function next_theme(): string {
  return ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length] ?? "auto";
}

export function choose_theme(chosen: string): void {
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // It holds for this page then.
  }
  const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset["dark"] = String(dark);
}
