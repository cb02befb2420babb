//! wrk's report.

use super::distribution::Distribution;
use super::script::Summary;
use super::tally::Tally;
use super::units;

/// The percentiles that `--latency` shows.
const PERCENTILES: [f64; 4] = [50.0, 75.0, 90.0, 99.0];

/// What is said before the run.
pub(super) fn heading(duration_s: u64, url: &str, threads: u32, connections: u32) -> String {
    let time = units::seconds(duration_s);
    format!("Running {time} test @ {url}\n  {threads} threads and {connections} connections\n")
}

/// The report of a run; with percentiles, if they are wanted.
pub(super) fn report(summary: &Summary, latency: &Distribution, rates: &Distribution, percentiles: bool) -> String {
    let mut text = format!("  Thread Stats{:>6}{:>11}{:>8}{:>12}\n", "Avg", "Stdev", "Max", "+/- Stdev");
    text.push_str(&line("Latency", latency, units::microseconds));
    text.push_str(&line("Req/Sec", rates, units::count));
    if percentiles {
        text.push_str("  Latency Distribution\n");
        for percent in PERCENTILES {
            let value = units::microseconds(latency.percentile(percent) as f64);
            text.push_str(&format!("{percent:7.0}%{}\n", padded(&value, 10)));
        }
    }
    let Summary { duration_us, requests, bytes, errors } = summary;
    let time = units::microseconds(*duration_us as f64);
    text.push_str(&format!("  {requests} requests in {time}, {}B read\n", units::bytes(*bytes as f64)));
    let [connect, read, write, status, timeout] = errors.map(|(_, count)| count);
    if connect + read + write + timeout > 0 {
        text.push_str(&format!("  Socket errors: connect {connect}, read {read}, write {write}, timeout {timeout}\n"));
    }
    if status > 0 {
        text.push_str(&format!("  Non-2xx or 3xx responses: {status}\n"));
    }
    let seconds = *duration_us as f64 / 1e6;
    text.push_str(&format!("Requests/sec: {:9.2}\n", *requests as f64 / seconds));
    text.push_str(&format!("Transfer/sec: {:>10}B\n", units::bytes(*bytes as f64 / seconds)));
    text
}

/// What scripts took, which no latency holds; nothing where none was called.
pub(super) fn of_scripts(tally: &Tally, duration_us: u64, threads: u32) -> Option<String> {
    if tally.calls == 0 {
        return None;
    }
    let time = |ns: u64| units::microseconds(ns as f64 / 1000.0);
    let share = tally.script_ns as f64 / (duration_us as f64 * 1000.0 * f64::from(threads)) * 100.0;
    let each = time(tally.script_ns / tally.complete.max(1));
    let mut text = format!(
        "scripts took {} in {} calls, {each} a response and {share:.1} % of the threads' time; none of it is in a \
         latency, of which {} each were taken out",
        time(tally.script_ns),
        tally.calls,
        time(tally.taken_out_ns / tally.complete.max(1)),
    );
    if tally.cut_bodies > 0 {
        text.push_str(&format!("; response() got {} bodies cut at 8 MiB", tally.cut_bodies));
    }
    Some(text)
}

/// A line of figures.
fn line(name: &str, of: &Distribution, written: impl Fn(f64) -> String) -> String {
    let figures = [(of.mean(), 8), (of.stdev(), 10), (of.max() as f64, 9)];
    let columns: String = figures.iter().map(|(number, width)| padded(&written(*number), *width)).collect();
    format!("    {name:<10}{columns}{:8.2}%\n", of.within_stdev_percent())
}

/// A number with its unit in a column: the digits stand below each other, as the unit has room for two letters.
fn padded(text: &str, width: usize) -> String {
    let letters = text.bytes().rev().take(2).filter(u8::is_ascii_alphabetic).count();
    let (before, behind) = (width - (2 - letters), 2 - letters);
    format!("{text:>before$}{:behind$}", "")
}

#[cfg(test)]
mod tests {
    use super::super::distribution::Counted;
    use super::*;

    fn of(values: &[(u64, u64)]) -> Distribution {
        let mut counted = Counted::default();
        values.iter().for_each(|(value, count)| (0..*count).for_each(|_| counted.record(*value)));
        Distribution::of(&counted)
    }

    #[test]
    fn the_lines_are_those_of_wrk() {
        let errors = [("connect", 1), ("read", 0), ("write", 0), ("status", 2), ("timeout", 3)];
        let summary = Summary { duration_us: 2_001_000, requests: 1000, bytes: 250_000, errors };
        let text = report(&summary, &of(&[(500, 60), (700, 30), (12_000, 10)]), &of(&[(499, 10), (501, 10)]), true);
        let expected = "  Thread Stats   Avg      Stdev     Max   +/- Stdev\
                        \n    Latency     1.71ms    3.45ms  12.00ms   90.00%\
                        \n    Req/Sec   500.00      1.03   501.00    100.00%\
                        \n  Latency Distribution\
                        \n     50%  500.00us\
                        \n     75%  700.00us\
                        \n     90%   12.00ms\
                        \n     99%   12.00ms\
                        \n  1000 requests in 2.00s, 244.14KB read\
                        \n  Socket errors: connect 1, read 0, write 0, timeout 3\
                        \n  Non-2xx or 3xx responses: 2\
                        \nRequests/sec:    499.75\
                        \nTransfer/sec:    122.01KB\n";
        assert_eq!(text, expected);
        assert_eq!(heading(90, "http://h/", 2, 10), "Running 2m test @ http://h/\n  2 threads and 10 connections\n");
    }
}
