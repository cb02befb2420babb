//! The options of `weir plan`.

use anyhow::{Context, bail};
use std::path::PathBuf;
use std::time::Duration;
use weir_measure::objective::Objective;
use weir_plan::{Cluster, Discipline, Dispatch, Kind, NODES_MAX, Policy, QUEUE_MAX, Within};
use weir_terminal::units;

/// From this many requests on, one seed is the default: each seed takes 16 bytes of memory a request, and chance
/// matters little.
const REQUESTS_OF_ONE_SEED: u64 = 20_000_000;
/// Seeds where no option says how many.
const SEEDS: u64 = 3;
/// Policies that are compared on several nodes where no option names some.
const POLICIES: [&str; 12] = [
    "full",
    "top=12%",
    "top=5%",
    "top=1%",
    "hot-node",
    "partition",
    "partition-random",
    "by-type",
    "lard",
    "lard-r",
    "hash",
    "hash-bounded",
];

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("times").args(["service", "measured"]).required(true))]
#[command(group = clap::ArgGroup::new("asked").args(["slo", "nodes"]).required(true).multiple(true))]
pub(super) struct Options {
    /// Access logs of the site; compressed ones by gzip, too
    #[arg(value_name = "LOG", required = true)]
    pub(super) logs: Vec<PathBuf>,

    /// Objective of the response times, such as 'p95<200ms'
    #[arg(long, value_name = "OBJECTIVE")]
    pub(super) slo: Option<Objective>,
    /// Number of nodes; with --slo the most nodes to try [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    pub(super) nodes: Option<u32>,
    /// Evaluate this policy on --nodes nodes: full, partition, hot-node, replicas=K, top=SHARE%, top=SHARE%xCOPIES,
    /// by-type, lard, lard-r, hash, hash-bounded=C; may be repeated
    #[arg(long, value_name = "POLICY", requires = "nodes")]
    pub(super) policy: Vec<Policy>,
    /// Growth of the requests a second, such as 10x
    #[arg(long, value_name = "FACTOR", default_value = "1x", value_parser = factor)]
    pub(super) growth: f64,
    /// Use only the stretch of this length that has the most requests
    #[arg(long, value_name = "TIME", value_parser = stretch)]
    pub(super) busiest: Option<Duration>,

    /// Time that an idle node takes for a request
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Service times")]
    pub(super) service: Option<Duration>,
    /// Rate at which it sends the bytes, which take time in addition, such as 100MB/s
    #[arg(long, value_name = "RATE", value_parser = units::rate, requires = "service", conflicts_with = "measured", help_heading = "Service times")]
    pub(super) bandwidth: Option<f64>,
    /// In place of --service for one kind of object (html, image, text, document, archive, media, program, other); may be repeated
    #[arg(long, value_name = "KIND=TIME", value_parser = of_kind, help_heading = "Service times")]
    pub(super) service_of: Vec<(Kind, Duration)>,
    /// Take service times from a report of weir load -c 1 --json or weir explain --json; several reports, of small and
    /// large responses, show what a byte takes
    #[arg(long, value_name = "FILE", help_heading = "Service times")]
    pub(super) measured: Vec<PathBuf>,
    /// Coefficient of variation of the times of equal requests: 0 for none, 1 as of exponentially distributed ones
    #[arg(long, value_name = "CV", default_value_t = 0.0, value_parser = variation, help_heading = "Service times")]
    pub(super) variation: f64,

    /// Workers, or CPUs, of each node
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Nodes")]
    pub(super) workers: u32,
    /// Serve all requests of a node at once, as event loops do, instead of one after the other by each worker
    #[arg(long, help_heading = "Nodes")]
    pub(super) shared: bool,
    /// The most requests in a node at a time, waiting or in service; others are rejected
    #[arg(long, value_name = "N", default_value_t = QUEUE_MAX, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Nodes")]
    pub(super) queue: u32,
    /// Which of several nodes that have an object serves it
    #[arg(long, value_name = "HOW", default_value = "least-active", help_heading = "Nodes")]
    pub(super) dispatch: DispatchChoice,

    /// When within its second a request arrived, for logs of whole seconds
    #[arg(long, value_name = "HOW", default_value = "random", help_heading = "Chance")]
    pub(super) within_second: WithinChoice,
    /// How many times to repeat everything with other random numbers [default: 3; 1 from 20 million requests on]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100), help_heading = "Chance")]
    pub(super) seeds: Option<u64>,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Chance")]
    pub(super) seed: u64,

    /// Write which object belongs on which nodes: path, bytes, requests and nodes, separated by tabs
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) placement: Option<PathBuf>,
    /// Write an HTML page with charts
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) html: Option<PathBuf>,
    /// Print JSON, with every plan that was tried
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

/// [`Dispatch`] by its names.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum DispatchChoice {
    /// The node with the fewest requests
    LeastActive,
    /// Each node in turn
    RoundRobin,
    /// A random node
    Random,
}

/// [`Within`] by its names.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum WithinChoice {
    /// At random, as independent users send
    Random,
    /// Evenly, as weir load --replay sends
    Even,
}

impl Options {
    pub(super) fn cluster(&self) -> Cluster {
        Cluster {
            servers: self.workers,
            discipline: if self.shared { Discipline::Shared } else { Discipline::Fifo },
            queue_max: self.queue,
            dispatch: match self.dispatch {
                DispatchChoice::LeastActive => Dispatch::LeastActive,
                DispatchChoice::RoundRobin => Dispatch::RoundRobin,
                DispatchChoice::Random => Dispatch::Random,
            },
            ..Cluster::new(self.nodes.unwrap_or(1))
        }
    }

    pub(super) fn within(&self) -> Within {
        match self.within_second {
            WithinChoice::Random => Within::Random,
            WithinChoice::Even => Within::Even,
        }
    }

    pub(super) fn policies(&self) -> Vec<Policy> {
        if self.policy.is_empty() {
            // A test reads them.
            return POLICIES.iter().filter_map(|text| text.parse().ok()).collect();
        }
        self.policy.clone()
    }

    pub(super) fn seeds_for(&self, requests: u64, warnings: &mut Vec<String>) -> u64 {
        if self.seeds.is_none() && requests >= REQUESTS_OF_ONE_SEED {
            warnings.push("one seed only, as the log is long (--seeds): the figures have no range".to_owned());
            return 1;
        }
        self.seeds.unwrap_or(SEEDS)
    }

    /// The objective in one form of writing.
    pub(super) fn slo_text(&self) -> String {
        match self.slo {
            Some(Objective::Latency { share, limit_ns }) => {
                let percent = format!("{:.3}", share * 100.0);
                let percent = percent.trim_end_matches('0').trim_end_matches('.');
                format!("p{percent}<{}", weir_report::nanoseconds(limit_ns as f64).replace(' ', ""))
            }
            _ => String::new(),
        }
    }
}

fn factor(text: &str) -> anyhow::Result<f64> {
    let number = text.strip_suffix('x').unwrap_or(text).parse().ok();
    let number = number.filter(|number: &f64| (0.001..=1000.0).contains(number));
    number.with_context(|| format!("{text:?} is no factor from 0.001x to 1000x; write 10x or 1.5x"))
}

/// A stretch of a log, which counts whole seconds.
fn stretch(text: &str) -> anyhow::Result<Duration> {
    let stretch = units::duration(text)?;
    if stretch.as_secs() == 0 || stretch.subsec_nanos() > 0 {
        bail!("{text:?} is no number of whole seconds; a stretch is 1s or longer");
    }
    Ok(stretch)
}

fn variation(text: &str) -> anyhow::Result<f64> {
    let number = text.parse().ok().filter(|number: &f64| (0.0..=10.0).contains(number));
    number.with_context(|| format!("{text:?} is no coefficient of variation from 0 to 10"))
}

fn of_kind(text: &str) -> anyhow::Result<(Kind, Duration)> {
    let (kind, time) = text.split_once('=').context("write KIND=TIME, such as program=20ms")?;
    let names = || Kind::ALL.map(Kind::name).join(", ");
    let kind = Kind::named(kind).with_context(|| format!("{kind:?} is no kind of object; there are {}", names()))?;
    Ok((kind, units::duration(time)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read() {
        assert!(POLICIES.iter().all(|text| text.parse::<Policy>().is_ok()));
        assert_eq!((factor("10x").ok(), factor("1.5").ok()), (Some(10.0), Some(1.5)));
        assert!(["", "x", "0", "-1x", "1e9x", "NaN"].iter().all(|text| factor(text).is_err()));
        assert_eq!(of_kind("image=2ms").ok(), Some((Kind::Image, Duration::from_millis(2))));
        assert!(of_kind("picture=2ms").is_err_and(|said| said.to_string().contains("html, image")));
        assert!(stretch("90s").is_ok() && stretch("500ms").is_err() && stretch("1500ms").is_err());
        assert!(variation("1.5").is_ok() && variation("-1").is_err());
    }
}
