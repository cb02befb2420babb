//! ApacheBench's report as text, line by line.

use super::arguments::Arguments;
use super::request::Target;
use super::samples::{Measure, Samples};
use super::times::{Apart, PERCENTAGES, Row, percentile, row, to_ms};
use super::watch::Counts;
use std::fmt::Write;

/// A run as its reports need it.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) target: &'a Target,
    pub(super) counts: &'a mut Counts,
    /// From the start to the end of the last request that counts, or to the end of the time limit.
    pub(super) elapsed_us: u64,
    /// Lines about the encryption, label and value.
    pub(super) tls: Vec<(&'static str, String)>,
}

/// What follows from the counts and the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    pub(super) requests_per_s: f64,
    pub(super) per_request_ms: f64,
    pub(super) across_all_ms: f64,
    pub(super) received_kib_per_s: f64,
    pub(super) sent_kib_per_s: f64,
    pub(super) total_kib_per_s: f64,
}

impl Found<'_> {
    pub(super) fn elapsed_s(&self) -> f64 {
        self.elapsed_us as f64 / 1e6
    }

    /// `None` if nothing was done or no time went by.
    pub(super) fn rates(&self) -> Option<Rates> {
        let (done, elapsed_s) = (self.counts.done as f64, self.elapsed_s());
        if self.counts.done == 0 || self.elapsed_us == 0 {
            return None;
        }
        let kib_per_s = |bytes: u64| bytes as f64 / 1024.0 / elapsed_s;
        Some(Rates {
            requests_per_s: done / elapsed_s,
            per_request_ms: f64::from(self.arguments.concurrency) * elapsed_s * 1000.0 / done,
            across_all_ms: elapsed_s * 1000.0 / done,
            received_kib_per_s: kib_per_s(self.counts.read_bytes),
            sent_kib_per_s: kib_per_s(self.counts.posted_bytes),
            total_kib_per_s: kib_per_s(self.counts.read_bytes + self.counts.posted_bytes),
        })
    }

    pub(super) fn document_length(&self) -> String {
        if self.arguments.variable_length {
            "Variable".to_owned()
        } else {
            format!("{} bytes", self.counts.document_bytes.unwrap_or(0))
        }
    }
}

/// The report.
pub(super) fn report(found: &mut Found<'_>) -> String {
    let mut text = String::from("\n\n");
    let mut line = |label: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<23} {value}", format!("{label}:"));
    };
    let counts = &found.counts;
    line("Server Software", &counts.server);
    line("Server Hostname", &found.target.host);
    line("Server Port", &found.target.port.to_string());
    for (label, value) in &found.tls {
        line(label, value);
    }
    text.push('\n');
    let _ = writeln!(text, "Document Path:          {}", found.target.path);
    let _ = writeln!(text, "Document Length:        {}\n", found.document_length());
    let _ = writeln!(text, "Concurrency Level:      {}", found.arguments.concurrency);
    let _ = writeln!(text, "Time taken for tests:   {:.3} seconds", found.elapsed_s());
    let _ = writeln!(text, "Complete requests:      {}", counts.done);
    let _ = writeln!(text, "Failed requests:        {}", counts.bad);
    if counts.bad > 0 {
        let _ = writeln!(
            text,
            "   (Connect: {}, Receive: {}, Length: {}, Exceptions: {})",
            counts.connect_errors, counts.receive_errors, counts.length_errors, counts.exceptions
        );
    }
    if counts.not_2xx > 0 {
        let _ = writeln!(text, "Non-2xx responses:      {}", counts.not_2xx);
    }
    if found.arguments.keep_alive {
        let _ = writeln!(text, "Keep-Alive requests:    {}", counts.kept_alive);
    }
    let _ = writeln!(text, "Total transferred:      {} bytes", counts.read_bytes);
    if found.arguments.body.is_some() {
        let _ = writeln!(text, "Total body sent:        {}", counts.posted_bytes);
    }
    let _ = writeln!(text, "HTML transferred:       {} bytes", counts.content_bytes);
    if let Some(rates) = found.rates() {
        let _ = writeln!(text, "Requests per second:    {:.2} [#/sec] (mean)", rates.requests_per_s);
        let _ = writeln!(text, "Time per request:       {:.3} [ms] (mean)", rates.per_request_ms);
        let across = rates.across_all_ms;
        let _ = writeln!(text, "Time per request:       {across:.3} [ms] (mean, across all concurrent requests)");
        let _ = writeln!(text, "Transfer rate:          {:.2} [Kbytes/sec] received", rates.received_kib_per_s);
        if found.arguments.body.is_some() {
            let _ = writeln!(text, "                        {:.2} kb/s sent", rates.sent_kib_per_s);
            let _ = writeln!(text, "                        {:.2} kb/s total", rates.total_kib_per_s);
        }
    }
    let arguments = found.arguments;
    if found.counts.samples.count() > 0 {
        times(&mut text, &mut found.counts.samples, arguments);
        percentages(&mut text, &mut found.counts.samples, arguments);
    }
    text
}

/// The table of connection times, and what it warns of.
fn times(text: &mut String, samples: &mut Samples, arguments: &Arguments) {
    let rows = Measure::ALL.map(|measure| row(samples, measure, arguments.strict));
    let labels = ["Connect:", "Processing:", "Waiting:", "Total:"];
    text.push_str("\nConnection Times (ms)\n");
    if !arguments.confidence {
        text.push_str("              min   avg   max\n");
        for (label, Row { min_ms, mean_ms, max_ms, .. }) in labels.iter().zip(rows) {
            let _ = writeln!(text, "{label:<11} {min_ms:5} {mean_ms:5}{max_ms:5}");
        }
        return;
    }
    text.push_str("              min  mean[+/-sd] median   max\n");
    for (label, Row { min_ms, mean_ms, sd_ms, median_ms, max_ms, .. }) in labels.iter().zip(rows) {
        let _ = writeln!(text, "{label:<11} {min_ms:5} {mean_ms:4} {sd_ms:5.1} {median_ms:6} {max_ms:7}");
    }
    let what = ["the initial connection time", "the processing time", "the waiting time", "the total time"];
    for (what, row) in what.iter().zip(rows) {
        let _ = match row.apart {
            Apart::Near => Ok(()),
            Apart::Far => writeln!(
                text,
                "WARNING: The median and mean for {what} are not within a normal deviation\n        \
                 These results are probably not that reliable."
            ),
            Apart::TooFar => writeln!(
                text,
                "ERROR: The median and mean for {what} are more than twice the standard\n       \
                 deviation apart. These results are NOT reliable."
            ),
        };
    }
}

fn percentages(text: &mut String, samples: &mut Samples, arguments: &Arguments) {
    if !arguments.percentiles || samples.count() < 2 {
        return;
    }
    samples.sort(Measure::Total);
    text.push_str("\nPercentage of the requests served within a certain time (ms)\n");
    for percent in PERCENTAGES {
        let ms = to_ms(f64::from(percentile(samples, percent, arguments.strict)));
        let _ = match percent {
            100 => writeln!(text, " 100%  {ms:5} (longest request)"),
            _ => writeln!(text, "  {percent}%  {ms:5}"),
        };
    }
}
