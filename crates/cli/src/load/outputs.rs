//! Where else the figures of a load go: files, and scrapers that ask while it runs.

use super::gate::Gate;
use super::heading::Heading;
use super::prometheus::Exporter;
use super::stream::{POINTS_MAX, Stream};
use anyhow::Context;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use weir_load::{LoadReport, Options, Sampling, Series};
use weir_terminal::units::duration;
use weir_terminal::whole_file::{folder_of, replaced, write_whole};
use weir_wire::client::Outcome;

/// The options for outputs beside the report.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct OutputArgs {
    /// Interval of the time series: 100ms, 1s; beyond 512 points neighbours are merged [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Output")]
    interval: Option<Duration>,
    /// Write the time series as CSV
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    csv: Option<PathBuf>,
    /// Write an HTML page with plots, which loads nothing from other places
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
    /// Write the distribution of the latencies as HdrHistogram does (.hgrm, in milliseconds)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    hgrm: Option<PathBuf>,
    /// Write the latencies of each interval as a log of HdrHistogram (in nanoseconds)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    hdr_log: Option<PathBuf>,
    /// Write each interval when it is over as a line of JSON, to a file or to standard output (-); the report then goes
    /// to standard error
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    ndjson: Option<PathBuf>,
    /// Write the figures for Prometheus to this file each second (node_exporter's textfile collector)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    prometheus: Option<PathBuf>,
    /// Serve metrics to Prometheus at this address while the load runs: 127.0.0.1:9464
    #[arg(long, value_name = "ADDR", help_heading = "Output")]
    prometheus_listen: Option<SocketAddr>,
    /// Send the figures each second to a server of Prometheus that takes remote writes: http://HOST:9090/api/v1/write
    #[arg(long, value_name = "URL", help_heading = "Output")]
    prometheus_push: Option<String>,
}

impl OutputArgs {
    /// Sets the options of a load that these outputs need.
    pub(super) fn apply(&self, options: &mut Options) {
        if let Some(interval) = self.interval {
            options.sampling = Sampling { interval, ..options.sampling };
        }
        if self.ndjson.is_some() {
            options.sampling = Sampling { points_max: POINTS_MAX, ..options.sampling };
        }
    }

    /// The files that will be written when the run is over.
    fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let html = ("--html", self.html.as_deref());
        let hdr = [("--hgrm", self.hgrm.as_deref()), ("--hdr-log", self.hdr_log.as_deref())];
        [("--csv", self.csv.as_deref()), html, ("--prometheus", self.prometheus.as_deref())]
            .into_iter()
            .chain(hdr)
            .filter_map(|(name, file)| Some((name, file?)))
    }

    /// The CSV file, if one is wanted.
    pub(super) fn csv(&self) -> Option<&Path> {
        self.csv.as_deref()
    }

    /// The page, if one is wanted.
    pub(super) fn html(&self) -> Option<&Path> {
        self.html.as_deref()
    }

    /// Refuses files that cannot be written, before a long run rather than behind it.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.files().try_for_each(|(name, file)| check_file(name, file))
    }

    /// The exporter that gets the figures while the load runs.
    pub(super) fn exporter(&self, url: &str) -> anyhow::Result<Option<Exporter>> {
        Exporter::new(self.prometheus.clone(), self.prometheus_listen, self.prometheus_push.as_deref(), url)
    }

    /// What each interval is written to when it is over.
    pub(super) fn stream(&self) -> anyhow::Result<Option<Stream>> {
        self.ndjson.as_deref().map(Stream::new).transpose()
    }

    /// Whether standard output is the stream's.
    pub(super) fn streams_to_stdout(&self) -> bool {
        self.ndjson.as_deref() == Some(Path::new("-"))
    }

    /// Writes what is written when the run is over, each file whether or not the others could be; it ended at `ended`.
    pub(super) fn write(
        &self,
        report: &LoadReport,
        heading: &Heading,
        gate: &Gate,
        ended: SystemTime,
    ) -> [anyhow::Result<()>; 4] {
        [
            written("--csv", self.csv.as_deref(), || Ok(csv(&report.series))),
            written("--hgrm", self.hgrm.as_deref(), || Ok(super::hdr::hgrm(&report.latency))),
            written("--hdr-log", self.hdr_log.as_deref(), || super::hdr::log(report, ended)),
            written("--html", self.html.as_deref(), || {
                Ok(weir_report::load_html(&super::page::page(report, heading, gate)))
            }),
        ]
    }
}

/// Writes a file that the option `name` gives, if it does.
pub(super) fn written(
    name: &str,
    file: Option<&Path>,
    text: impl FnOnce() -> std::io::Result<String>,
) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    text().and_then(|text| write_whole(file, &text)).with_context(|| format!("{name}: cannot write {}", file.display()))
}

/// Refuses a file that cannot be written, which the option `name` gives.
pub(super) fn check_file(name: &str, file: &Path) -> anyhow::Result<()> {
    if file.is_dir() {
        anyhow::bail!("{name} {}: is a directory", file.display());
    }
    if replaced(file) {
        let folder = folder_of(file);
        tempfile::tempfile_in(folder)
            .with_context(|| format!("{name} {}: cannot write in {}", file.display(), folder.display()))?;
    }
    Ok(())
}

/// The time series: a line for each point, times of successes in milliseconds, empty where there was none.
fn csv(series: &Series) -> String {
    let kinds = || Outcome::ALL.into_iter().filter(|outcome| outcome.is_error());
    let mut text = String::from("start_s,length_s,requests,rate_per_s,errors,");
    text.extend(kinds().map(|outcome| format!("errors_{},", outcome.name())));
    text.push_str(
        "stopped,dropped,bytes,connections,generator_cpu_percent,min_ms,mean_ms,p50_ms,p75_ms,p90_ms,p95_ms,p99_ms,p99_9_ms,max_ms,successes,unexpected,success_percent,bytes_per_s\n",
    );
    for (begin_s, length_s, point) in series.timed() {
        let counts = &point.counts;
        text.push_str(&format!(
            "{begin_s:.3},{length_s:.6},{},{:.3},{},",
            counts.requests,
            counts.requests as f64 / length_s,
            counts.failures()
        ));
        text.extend(kinds().map(|outcome| format!("{},", counts.errors[outcome as usize])));
        let percent = point.strain.cpu_share * 100.0;
        text.push_str(&format!(
            "{},{},{},{},{percent:.1}",
            counts.stopped(),
            counts.dropped,
            counts.bytes,
            point.connections
        ));
        let latency = point.latency.histogram();
        match point.summary {
            Some(summary) => {
                let quantile = |quantile| latency.value_at_quantile(quantile).min(summary.max) as f64;
                let fields = [
                    summary.min as f64,
                    summary.mean,
                    summary.p50 as f64,
                    quantile(0.75),
                    summary.p90 as f64,
                    quantile(0.95),
                    summary.p99 as f64,
                    summary.p99_9 as f64,
                    summary.max as f64,
                ];
                text.extend(fields.map(|ns| format!(",{:.6}", ns / 1e6)));
            }
            None => text.push_str(",,,,,,,,,"),
        }
        let share = counts.success_rate().map_or(String::new(), |share| format!("{:.4}", share * 100.0));
        let bytes_per_s = counts.bytes as f64 / length_s;
        text.push_str(&format!(",{},{},{share},{bytes_per_s:.0}\n", counts.successes(), counts.unexpected));
    }
    text
}
