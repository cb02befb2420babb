// What jslib's k6-summary gives, by the host's own texts.
const host = globalThis.__weir;

export function textSummary(data, options) {
  return host.textSummary(JSON.stringify(data), JSON.stringify(options ?? {}));
}

const sign = (text) => String(text).replace(/[<>&"']/g, (one) => ({ "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;", "'": "&apos;" })[one]);

// Thresholds as test cases.
export function jUnit(data, options) {
  const name = (options && options.name) || "k6 thresholds";
  const cases = [];
  let failed = 0;
  for (const metric of Object.keys(data.metrics ?? {})) {
    for (const threshold of Object.keys(data.metrics[metric].thresholds ?? {})) {
      if (data.metrics[metric].thresholds[threshold].ok) cases.push(`<testcase name="${sign(metric)} - ${sign(threshold)}" />`);
      else {
        failed++;
        cases.push(`<testcase name="${sign(metric)} - ${sign(threshold)}"><failure message="failed" /></testcase>`);
      }
    }
  }
  return `<?xml version="1.0"?>\n<testsuites tests="${cases.length}" failures="${failed}">\n<testsuite name="${sign(name)}" tests="${cases.length}" failures="${failed}">${cases.join("\n")}\n</testsuite>\n</testsuites>`;
}

export function humanizeValue(value, metric, unit) {
  return host.humanize(Number(value), metric.type, metric.contains, unit ?? "");
}

export default { textSummary, jUnit, humanizeValue };
