//! httperf's report, by its formulas.

use super::watch::Counts;
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
    let (min, mean, max, sd, samples) = rates(counts, &counts.samples, elapsed_s);
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
    let footer = size(counts.footer_bytes, replies);
    let _ = writeln!(
        text,
        "Reply size [B]: header {head}.0 content {content}.0 footer {footer}.0 (total {}.0)",
        head + content + footer
    );
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
    let Counts { client_timeouts, socket_timeouts, refused, reset, no_descriptors, no_ports, other_errors, .. } =
        *counts;
    let total = client_timeouts + socket_timeouts + refused + reset + no_descriptors + no_ports + other_errors;
    let _ = writeln!(
        text,
        "Errors: total {total} client-timo {client_timeouts} socket-timo {socket_timeouts} connrefused {refused} connreset {reset}\n\
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

/// Minimum, mean, maximum and deviation of a rate over the whole samples, and how many there are.
fn rates(counts: &Counts, samples: &[u32], elapsed_s: f64) -> (f64, f64, f64, f64, usize) {
    let whole = counts.whole_samples((elapsed_s * 1e9) as u64);
    if whole == 0 {
        return (0.0, 0.0, 0.0, 0.0, 0);
    }
    let rates: Vec<f64> = (0..whole)
        .map(|sample| f64::from(samples.get(sample).copied().unwrap_or(0)) / counts.sample_s(sample))
        .collect();
    let mean = rates.iter().sum::<f64>() / whole as f64;
    let spread: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    let sd = if whole > 1 { (spread / (whole - 1) as f64).sqrt() } else { 0.0 };
    let (min, max) =
        rates.iter().fold((f64::INFINITY, 0.0), |(min, max): (f64, f64), rate| (min.min(*rate), max.max(*rate)));
    (min, mean, max, sd, whole)
}

/// The section of sessions.
pub(super) fn sessions(counts: &Counts, elapsed_s: f64) -> String {
    let sessions = &counts.sessions;
    let (min, _, max, sd, _) = rates(counts, &sessions.samples, elapsed_s);
    let per = |sum: f64, count: u64| if count > 0 { sum / count as f64 } else { 0.0 };
    let mean = if elapsed_s > 0.0 { sessions.completed as f64 / elapsed_s } else { 0.0 };
    let lengths: String = sessions.lengths.iter().map(|count| format!(" {count}")).collect();
    format!(
        "\nSession rate [sess/s]: min {min:.2} avg {mean:.2} max {max:.2} stddev {sd:.2} ({}/{})\n\
         Session: avg {:.2} connections/session\n\
         Session lifetime [s]: {:.1}\n\
         Session failtime [s]: {:.1}\n\
         Session length histogram:{}\n",
        sessions.completed,
        sessions.completed + sessions.failed,
        per(sessions.connections as f64, sessions.completed),
        per(sessions.lifetime_ns as f64 / 1e9, sessions.completed),
        per(sessions.failtime_ns as f64 / 1e9, sessions.failed),
        if lengths.is_empty() { " 0" } else { &lengths },
    )
}

/// How many connections lived how long (`-v -v`).
pub(super) fn lifetimes(counts: &Counts) -> String {
    let mut text = String::from("\nConnection lifetime histogram (time in ms):\n");
    let bins = &counts.bins;
    for (bin, count) in bins.iter().enumerate().filter(|(_, count)| **count > 0) {
        if bin > 0 && bins[bin - 1] == 0 {
            text.push_str("             :\n");
        }
        let _ = writeln!(text, "{:16.1} {count}", bin as f64 + 0.5);
    }
    text
}

/// The lines of a sample that is whole (`-v`, `--periodic-stats`).
pub(super) fn sample(counts: &Counts, sample: usize, with_sessions: bool) -> String {
    let rate = |samples: &[u32]| f64::from(samples.get(sample).copied().unwrap_or(0)) / counts.sample_s(sample);
    let mut text = format!("reply-rate = {:<8.1}\n", rate(&counts.samples));
    if with_sessions {
        let _ = writeln!(text, "session-rate = {:<8.1}", rate(&counts.sessions.samples));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::watch::{Shared, Watch};
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
            stream: 0,
        }
    }

    #[test]
    fn figures_follow_the_formulas() {
        let shared = Shared::default();
        let mut watch = Watch::new(&shared);
        watch.begins(0);
        for connection in 1..=4 {
            watch.opens(connection);
            watch.received(connection, b"HTTP/1.1 200 OK\r\n\r\nhello!");
            watch.closes(connection);
            watch.request(&call(connection, 2000 * connection, 10));
        }
        watch.opens(5);
        watch.closes(5);
        watch.request(&ClientRequest { outcome: Outcome::Refused, sent_ns: 0, first_byte_ns: 0, ..call(5, 9_990, 10) });
        drop(watch);
        let mut inner = shared.lock().expect("no panic before");
        inner.connection_failed(Outcome::Refused);
        for (failed, replies) in [(false, 4), (false, 4), (true, 1)] {
            inner.session_over(failed, replies, 2, 0);
        }
        let counts = &mut inner.counts;
        assert_eq!(counts.lifetimes, 4);
        // Times of 4, 6, 10 and 20 ms: mean 10, sum of squared deviations 152, median within the bin of 6 ms.
        (counts.lifetime_ns, counts.lifetime_s2) = (40_000_000, 552e-6);
        (counts.lifetime_min_ns, counts.lifetime_max_ns) = (4_000_000, 20_000_000);
        counts.bins.fill(0);
        [4, 6, 10, 20].iter().for_each(|ms| counts.bins[*ms] = 1);
        counts.connect_ns = 4_000_000;
        (counts.sessions.lifetime_ns, counts.sessions.failtime_ns) = (5_000_000_000, 500_000_000);
        counts.sessions.samples = vec![2];
        let text =
            report(counts, 10.0, Cpu { user_s: 1.0, system_s: 2.5 }) + &sessions(counts, 10.0) + &lifetimes(counts);
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
            "Session rate [sess/s]: min 0.00 avg 0.20 max 0.40 stddev 0.28 (2/3)",
            "Session: avg 2.00 connections/session",
            "Session lifetime [s]: 2.5",
            "Session failtime [s]: 0.5",
            "Session length histogram: 0 1 0 0 2",
            "             4.5 1",
            "            20.5 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
        }
        assert_eq!(sample(counts, 0, true), "reply-rate = 0.4     \nsession-rate = 0.4     \n");
    }
}
