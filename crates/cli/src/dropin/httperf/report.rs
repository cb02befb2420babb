//! httperf's report, by its formulas.

use super::watch::{Counts, SAMPLE_NS};
use std::fmt::Write;

/// CPU time of the generator, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cpu {
    pub(super) user_s: f64,
    pub(super) system_s: f64,
}

/// The six sections.
pub(super) fn report(counts: &Counts, elapsed_s: f64, cpu: Cpu) -> String {
    let mut text = String::new();
    let per = |sum: f64, count: u64| if count > 0 { sum / count as f64 } else { 0.0 };
    let rate = |count: u64| if elapsed_s > 0.0 { count as f64 / elapsed_s } else { 0.0 };
    let Counts { connections, requests, replies, .. } = *counts;
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\nTotal: connections {connections} requests {requests} replies {replies} test-duration {elapsed_s:.3} s\n"
    );
    let _ = writeln!(
        text,
        "Connection rate: {:.1} conn/s ({:.1} ms/conn, <={} concurrent connections)",
        rate(connections),
        per(1e3 * elapsed_s, connections),
        counts.open_max
    );
    let lifetime = Lifetime::of(counts);
    let _ = writeln!(
        text,
        "Connection time [ms]: min {:.1} avg {:.1} max {:.1} median {:.1} stddev {:.1}",
        lifetime.min_ms, lifetime.mean_ms, lifetime.max_ms, lifetime.median_ms, lifetime.sd_ms
    );
    let ms = |ns: u128, count: u64| per(ns as f64 / 1e6, count);
    let _ = writeln!(text, "Connection time [ms]: connect {:.1}", ms(counts.connect_ns, counts.connected));
    let _ = writeln!(text, "Connection length [replies/conn]: {:.3}\n", per(replies as f64, counts.lifetimes));
    let _ = writeln!(text, "Request rate: {:.1} req/s ({:.1} ms/req)", rate(requests), per(1e3 * elapsed_s, requests));
    // Sizes are divided as whole numbers, as in the original.
    let size = |bytes: u64, count: u64| bytes.checked_div(count).unwrap_or(0);
    let _ = writeln!(text, "Request size [B]: {}.0\n", size(counts.sent_bytes, requests));
    let (min, mean, max, sd, samples) = reply_rate(counts, elapsed_s);
    let _ = writeln!(
        text,
        "Reply rate [replies/s]: min {min:.1} avg {mean:.1} max {max:.1} stddev {sd:.1} ({samples} samples)"
    );
    let _ = writeln!(
        text,
        "Reply time [ms]: response {:.1} transfer {:.1}",
        ms(counts.response_ns, counts.responses),
        ms(counts.transfer_ns, replies)
    );
    let (head, content) = (size(counts.head_bytes, replies), size(counts.content_bytes, replies));
    let _ =
        writeln!(text, "Reply size [B]: header {head}.0 content {content}.0 footer 0.0 (total {}.0)", head + content);
    let [_, s1, s2, s3, s4, s5] = counts.status;
    let _ = writeln!(text, "Reply status: 1xx={s1} 2xx={s2} 3xx={s3} 4xx={s4} 5xx={s5}\n");
    let share = |seconds: f64| if elapsed_s > 0.0 { 100.0 * seconds / elapsed_s } else { 0.0 };
    let Cpu { user_s, system_s } = cpu;
    let _ = writeln!(
        text,
        "CPU time [s]: user {user_s:.2} system {system_s:.2} (user {:.1}% system {:.1}% total {:.1}%)",
        share(user_s),
        share(system_s),
        share(user_s + system_s)
    );
    let bytes = counts.sent_bytes + counts.head_bytes + counts.content_bytes;
    let _ = writeln!(text, "Net I/O: {:.1} KB/s ({:.1}*10^6 bps)\n", rate(bytes) / 1024.0, 8e-6 * rate(bytes));
    let Counts { client_timeouts, refused, reset, no_descriptors, no_ports, other_errors, .. } = *counts;
    let total = client_timeouts + refused + reset + no_descriptors + no_ports + other_errors;
    let _ = writeln!(
        text,
        "Errors: total {total} client-timo {client_timeouts} socket-timo 0 connrefused {refused} connreset {reset}\n\
         Errors: fd-unavail {no_descriptors} addrunavail {no_ports} ftab-full 0 other {other_errors}"
    );
    text
}

/// The times of connections with one whole call or more.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Lifetime {
    min_ms: f64,
    mean_ms: f64,
    max_ms: f64,
    /// The middle of a bin of 1 ms.
    median_ms: f64,
    sd_ms: f64,
}

impl Lifetime {
    fn of(counts: &Counts) -> Self {
        if counts.lifetimes == 0 {
            return Self::default();
        }
        let count = counts.lifetimes as f64;
        let sum_s = counts.lifetime_ns as f64 / 1e9;
        let spread =
            if counts.lifetimes > 1 { (counts.lifetime_s2 - sum_s * sum_s / count) / (count - 1.0) } else { 0.0 };
        let mut below = 0;
        let median = counts.bins.iter().position(|bin| {
            below += u64::from(*bin);
            2 * below >= counts.lifetimes
        });
        Self {
            min_ms: counts.lifetime_min_ns as f64 / 1e6,
            mean_ms: 1e3 * sum_s / count,
            max_ms: counts.lifetime_max_ns as f64 / 1e6,
            median_ms: median.map_or(0.0, |bin| bin as f64 + 0.5),
            sd_ms: 1e3 * spread.max(0.0).sqrt(),
        }
    }
}

/// Minimum, mean, maximum and deviation of the whole samples of 5 s, and how many there are.
fn reply_rate(counts: &Counts, elapsed_s: f64) -> (f64, f64, f64, f64, usize) {
    let sample_s = SAMPLE_NS as f64 / 1e9;
    let whole = (elapsed_s / sample_s) as usize;
    if whole == 0 {
        return (0.0, 0.0, 0.0, 0.0, 0);
    }
    let rates: Vec<f64> =
        (0..whole).map(|sample| f64::from(counts.samples.get(sample).copied().unwrap_or(0)) / sample_s).collect();
    let mean = rates.iter().sum::<f64>() / whole as f64;
    let spread: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    let sd = if whole > 1 { (spread / (whole - 1) as f64).sqrt() } else { 0.0 };
    let (min, max) =
        rates.iter().fold((f64::INFINITY, 0.0), |(min, max): (f64, f64), rate| (min.min(*rate), max.max(*rate)));
    (min, mean, max, sd, whole)
}

#[cfg(test)]
mod tests {
    use super::super::watch::Watch;
    use super::*;
    use weir_load::{ClientRequest, Observer, Outcome};

    fn call(connection: u64, begin_ms: u64, length_ms: u64) -> ClientRequest {
        let ns = |ms: u64| ms * 1_000_000;
        ClientRequest {
            connection,
            intended_ns: ns(begin_ms),
            started_ns: ns(begin_ms),
            sent_ns: ns(begin_ms + 1),
            first_byte_ns: ns(begin_ms + length_ms - 1),
            done_ns: ns(begin_ms + length_ms),
            request_offset: 0,
            request_bytes: 79,
            response_offset: 0,
            response_bytes: 0,
            status: 200,
            name: 0,
            outcome: Outcome::Done,
            opened_connection: true,
            encrypted: false,
            retried: false,
            http_version: 1,
        }
    }

    #[test]
    fn figures_follow_the_formulas() {
        let (mut watch, shared) = Watch::new();
        watch.begins(0);
        // Times of 4, 6, 10 and 20 ms: mean 10, sum of squared deviations 152, median within the bin of 6 ms.
        for (connection, length_ms) in [(1, 4), (2, 6), (3, 10), (4, 20)] {
            watch.opens(connection);
            watch.received(connection, b"HTTP/1.1 200 OK\r\n\r\nhello!");
            watch.closes(connection);
            watch.request(&call(connection, 2000 * connection, length_ms));
        }
        watch.opens(5);
        watch.closes(5);
        watch.request(&ClientRequest { outcome: Outcome::Refused, sent_ns: 0, first_byte_ns: 0, ..call(5, 9_990, 10) });
        drop(watch);
        let counts = shared.lock().expect("no panic before");
        let text = report(&counts, 10.0, Cpu { user_s: 1.0, system_s: 2.5 });
        for line in [
            "Total: connections 5 requests 4 replies 4 test-duration 10.000 s",
            "Connection rate: 0.5 conn/s (2000.0 ms/conn, <=1 concurrent connections)",
            "Connection time [ms]: min 4.0 avg 10.0 max 20.0 median 6.5 stddev 7.1",
            "Connection time [ms]: connect 1.0",
            "Connection length [replies/conn]: 1.000",
            "Request rate: 0.4 req/s (2500.0 ms/req)",
            "Request size [B]: 79.0",
            "Reply rate [replies/s]: min 0.4 avg 0.4 max 0.4 stddev 0.0 (2 samples)",
            "Reply time [ms]: response 8.0 transfer 1.0",
            "Reply size [B]: header 19.0 content 6.0 footer 0.0 (total 25.0)",
            "Reply status: 1xx=0 2xx=4 3xx=0 4xx=0 5xx=0",
            "CPU time [s]: user 1.00 system 2.50 (user 10.0% system 25.0% total 35.0%)",
            "Net I/O: 0.0 KB/s (0.0*10^6 bps)",
            "Errors: total 1 client-timo 0 socket-timo 0 connrefused 1 connreset 0",
            "Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
        }
    }
}
