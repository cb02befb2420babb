//! The figures of a run for Prometheus, in the text exposition format 0.0.4: in a file, or over HTTP while it runs.

use super::remote_write::RemoteWrite;
use crate::metrics_endpoint;
use anyhow::Context;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_endpoint::Endpoint;
use weir_exposition::{Families, Kind};
use weir_load::{Control, Counts, Histogram, LoadReport};
use weir_terminal::whole_file::write_whole;
use weir_wire::client::Outcome;

/// How often the figures are brought up to date.
const EVERY: Duration = Duration::from_secs(1);
/// The latency histogram's upper bounds, in microseconds: three for each decade.
const BOUNDS_US: [u64; 18] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000, 10_000_000, 20_000_000, 50_000_000,
];

/// Tells a run's figures to Prometheus.
#[derive(Debug)]
pub(crate) struct Exporter {
    file: Option<PathBuf>,
    /// What is answered over HTTP, and who answers.
    answer: Option<(Endpoint, Arc<Mutex<String>>)>,
    /// What sends them to a server of Prometheus; none once it has ended.
    push: RefCell<Option<RemoteWrite>>,
    url: String,
    next: Cell<Duration>,
    complained: Cell<bool>,
}

impl Exporter {
    /// An exporter to a file, to scrapers that ask at an address, and to a server that takes remote writes; `None` if
    /// none of them is wanted.
    pub(super) fn new(
        file: Option<PathBuf>,
        listen: Option<SocketAddr>,
        push: Option<&str>,
        url: &str,
    ) -> anyhow::Result<Option<Self>> {
        if file.is_none() && listen.is_none() && push.is_none() {
            return Ok(None);
        }
        let push = RefCell::new(push.map(RemoteWrite::start).transpose()?);
        let answer = listen.map(answering).transpose()?;
        let url = weir_terminal::privacy::without_query(url);
        Ok(Some(Self { file, answer, push, url: url.clone(), next: Cell::default(), complained: Cell::default() }))
    }

    /// Brings the figures up to date, if it is time.
    pub(super) fn tick(&self, control: &Control, elapsed: Duration) {
        if elapsed < self.next.get() {
            return;
        }
        self.next.set(elapsed + EVERY);
        let connections = control.connections();
        let text = control.look(|series| exposition(&self.url, &series.counts(), series.whole(), connections));
        if let Some(push) = &*self.push.borrow() {
            push.send(&text);
        }
        // A write that fails now may succeed later; at the end it is an error.
        if let Err(error) = self.tell(text)
            && !self.complained.replace(true)
        {
            eprintln!("weir load: {error:#}");
        }
    }

    /// Tells the figures of the whole run.
    pub(super) fn finish(&self, report: &LoadReport) -> anyhow::Result<()> {
        let text = exposition(&self.url, &report.series.counts(), &report.latency, 0);
        let pushed = self.push.take().map_or(Ok(()), |push| push.finish(&text));
        self.tell(text).and(pushed)
    }

    fn tell(&self, text: String) -> anyhow::Result<()> {
        if let Some(file) = &self.file {
            write_whole(file, &text).with_context(|| format!("--prometheus: cannot write {}", file.display()))?;
        }
        if let Some((_, answer)) = &self.answer {
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = text;
        }
        Ok(())
    }
}

/// Answers requests at an address with the newest figures.
fn answering(address: SocketAddr) -> anyhow::Result<(Endpoint, Arc<Mutex<String>>)> {
    let answer = Arc::new(Mutex::new(String::new()));
    let shared = Arc::clone(&answer);
    let figures = move || shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let endpoint = metrics_endpoint::answering(address, figures).context("--prometheus-listen")?;
    Ok((endpoint, answer))
}

/// The text itself.
fn exposition(url: &str, counts: &Counts, latency: &Histogram, connections: u64) -> String {
    use Kind::{Counter, Gauge};
    let labels = [("url", url)];
    let mut out = Families::new();
    let one = |out: &mut Families, name: &str, kind: Kind, help: &str, value: u64| {
        let name = format!("weir_load_{name}");
        out.begin(&name, kind, help);
        out.sample(&name, &labels, value);
    };
    one(&mut out, "requests_total", Counter, "Whole responses with any status.", counts.requests);
    one(
        &mut out,
        "successes_total",
        Counter,
        "Whole responses with a status that is expected, which failed no check.",
        counts.successes(),
    );
    one(
        &mut out,
        "unexpected_total",
        Counter,
        "Whole responses with another status, or that failed a check.",
        counts.unexpected,
    );
    let name = "weir_load_errors_total";
    out.begin(name, Counter, "Failed requests by kind.");
    for outcome in Outcome::ALL.into_iter().filter(|outcome| outcome.is_error()) {
        out.sample(name, &[("url", url), ("kind", outcome.name())], counts.errors[outcome as usize]);
    }
    one(&mut out, "stopped_total", Counter, "Requests whose users clicked stop.", counts.stopped());
    one(&mut out, "dropped_total", Counter, "Arrivals that found the generator's queue full.", counts.dropped);
    one(&mut out, "received_bytes_total", Counter, "Bytes received, heads and bodies.", counts.bytes);
    one(&mut out, "late_total", Counter, "Arrivals issued over 1 ms after their time.", counts.late);
    one(&mut out, "connections", Gauge, "Connections that are open.", connections);
    let help = "From the intended time of a request to the last byte of its response, of successes.";
    let name = "weir_load_latency_seconds";
    out.begin(name, Kind::Histogram, help);
    let bounds = BOUNDS_US.iter().zip(below(latency)).map(|(bound, below)| (*bound as f64 / 1e6, below));
    let (count, sum_s) = (latency.len(), latency.mean() * latency.len() as f64 / 1e9);
    out.histogram(name, &labels, bounds.chain([(f64::INFINITY, count)]), sum_s);
    out.into_text()
}

/// How many latencies do not exceed each bound.
fn below(latency: &Histogram) -> [u64; BOUNDS_US.len()] {
    let mut counts = [0; BOUNDS_US.len()];
    for value in latency.iter_recorded() {
        let first =
            BOUNDS_US.partition_point(|bound| bound * 1_000 < latency.median_equivalent(value.value_iterated_to()));
        for count in &mut counts[first..] {
            *count += value.count_at_value();
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let mut latency = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("valid bounds");
        for value in [150_000, 1_500_000, 1_500_000, 70_000_000_000] {
            latency.record(value).expect("within the bounds");
        }
        let mut errors = [0; Outcome::ALL.len()];
        errors[Outcome::TimedOut as usize] = 3;
        let counts = Counts { requests: 6, unexpected: 2, errors, bytes: 99, ..Counts::default() };
        let text = exposition("http://h/a\"b\\c", &counts, &latency, 7);
        let mut announced = String::new();
        for line in text.lines() {
            match line.strip_prefix("# ") {
                Some(comment) => announced = comment.split(' ').nth(1).expect("a name").to_owned(),
                None => {
                    let (sample, value) = line.rsplit_once(' ').expect("a value");
                    assert!(sample.starts_with(&announced), "{line} after {announced}");
                    assert!(sample.contains("url=\"http://h/a\\\"b\\\\c\"") && sample.ends_with('}'), "{line}");
                    assert!(value.parse::<f64>().is_ok(), "{line}");
                }
            }
        }
        let value = |wanted: &str| {
            let line = text.lines().find(|line| !line.starts_with('#') && line.contains(wanted)).expect(wanted);
            line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).expect(wanted)
        };
        assert_eq!((value("requests_total"), value("kind=\"timeout\""), value("kind=\"reset\"")), (6.0, 3.0, 0.0));
        assert_eq!((value("successes_total"), value("unexpected_total")), (4.0, 2.0));
        assert_eq!((value("le=\"0.0001\""), value("le=\"0.0002\""), value("le=\"0.002\"")), (0.0, 1.0, 3.0));
        assert_eq!((value("le=\"50\""), value("le=\"+Inf\""), value("seconds_count")), (3.0, 4.0, 4.0));
        assert!((value("seconds_sum") - 70.003_15).abs() < 0.1);
    }
}
