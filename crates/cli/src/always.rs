//! `weir record --always`: short windows with pauses between them, for as long as the server runs and longer.

use crate::always_figures::Telling;
use crate::webhook::Webhook;
use anyhow::{Context, bail};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use weir_capture::Ladder;
use weir_explain::spans::Origin;
use weir_explain::{Slo, View};
use weir_measure::burn::BurnRule;
use weir_record::Named;
use weir_record::always::{Alerts, FigureSink, Forever, Outlets};
use weir_terminal::stop::Stop;

/// How long one attempt to deliver an alert may take.
const WEBHOOK_PATIENCE: Duration = Duration::from_secs(10);
/// Where runs go that were given no directory.
const DIRECTORY: &str = "weir-runs/always";

/// Options of a recording that goes on for ever.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "For ever")]
#[command(group(clap::ArgGroup::new("joined").args(["slo", "prometheus_listen"]).multiple(true)))]
pub(crate) struct AlwaysArgs {
    /// Record in short windows with pauses between them, until stopped; --run names the directory of the hourly runs
    #[arg(long, conflicts_with_all = ["duration", "command"])]
    pub(crate) always: bool,

    /// Length of a window [default: 250ms, with --slo five times its limit if that is longer]
    #[arg(long, value_name = "TIME", requires = "always", value_parser = weir_terminal::units::duration)]
    window: Option<Duration>,

    /// Disk space, MB an hour
    #[arg(long, value_name = "MB", requires = "always", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    disk_per_hour: u64,

    /// CPU time that observing may cost, in percent of the server's
    #[arg(long, value_name = "PERCENT", requires = "always", default_value_t = 1.0, value_parser = percent)]
    cpu_share: f64,

    /// How long to keep runs: 12h, 7d
    #[arg(long, value_name = "TIME", requires = "always", default_value = "7d", value_parser = weir_terminal::units::duration)]
    keep: Duration,

    /// Objective of the server: 'p99<200ms'; may be repeated
    #[arg(long, value_name = "OBJECTIVE", requires = "always", value_parser = weir_explain::slo)]
    slo: Vec<Slo>,

    /// When to alert: LONG/SHORT/RATE, where both windows burn the error budget at RATE or faster [default: 1h/5m/14.4,
    /// 6h/30m/6 and 3d/6h/1]
    #[arg(long, value_name = "RULE", requires = "slo", value_parser = rule)]
    burn: Vec<BurnRule>,

    /// Post alerts as JSON to this address, http or https
    #[arg(long, value_name = "URL", requires = "slo")]
    webhook: Option<String>,

    /// Serve figures to Prometheus at this address: response times by class, parts, culprits; to scrapers that ask for
    /// OpenMetrics with a request for each bucket (exemplars)
    #[arg(long, value_name = "ADDR", requires = "always")]
    prometheus_listen: Option<SocketAddr>,

    /// Hand the requests that these figures name on as spans, to this receiver (OTLP over HTTP, JSON)
    #[arg(long, value_name = "URL", requires = "prometheus_listen")]
    otlp: Option<String>,

    /// A port that speaks TLS, beside 443 and 8443
    #[arg(long, value_name = "N", requires = "joined")]
    tls_port: Vec<u16>,
}

fn percent(text: &str) -> anyhow::Result<f64> {
    let number = text.trim_end_matches('%').parse::<f64>().ok().filter(|number| (0.01..=100.0).contains(number));
    number.context("a percentage from 0.01 to 100")
}

fn rule(text: &str) -> anyhow::Result<BurnRule> {
    let parts: Vec<&str> = text.split('/').collect();
    let [long, short, rate] = parts[..] else { bail!("a rule is LONG/SHORT/RATE, such as 1h/5m/14.4") };
    let seconds = |text: &str| weir_terminal::units::duration(text).map(|time| time.as_secs().max(1));
    let rate = rate.parse::<f64>().ok().filter(|rate| *rate > 0.0).context("the rate is a number above 0")?;
    Ok(BurnRule { long_s: seconds(long)?, short_s: seconds(short)?, rate })
}

impl AlwaysArgs {
    fn view(&self) -> View {
        View {
            server_side: true,
            tls_ports: self.tls_port.clone(),
            objectives: self.slo.iter().map(|slo| (slo.text.clone(), slo.objective)).collect(),
            ..View::default()
        }
    }

    /// What tells the figures, if that is asked for.
    fn telling(&self, named: &Named, directory: &Path) -> anyhow::Result<Option<Telling>> {
        let Some(address) = self.prometheus_listen else { return Ok(None) };
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let origin = Origin {
            service: named.words(),
            host: host.trim().to_owned(),
            run: directory.display().to_string(),
            sample: "the slowest request of each class and bucket of a window".to_owned(),
            version: weir_terminal::VERSION.to_owned(),
            server_side: true,
        };
        Telling::start(address, self.otlp.as_deref(), origin).map(Some)
    }

    /// A window must be longer than what is asked for may take, or no request of it could be judged.
    fn window(&self) -> Duration {
        let limits = self.slo.iter().filter_map(|slo| match slo.objective {
            weir_measure::objective::Objective::Latency { limit_ns, .. } => Some(5 * limit_ns),
            weir_measure::objective::Objective::Errors { .. } => None,
        });
        let least = Duration::from_nanos(limits.max().unwrap_or(0)).max(Duration::from_millis(250));
        self.window.unwrap_or(least)
    }
}

/// What `weir record` says of it with other options.
pub(crate) struct Call {
    /// Where the runs go.
    pub(crate) run: Option<PathBuf>,
    pub(crate) keep_addresses: bool,
    pub(crate) named: Named,
    pub(crate) ladder: Ladder,
}

impl Alerts for Webhook {
    fn send(&self, alert: serde_json::Value) {
        Self::send(self, alert);
    }

    fn finish(self: Box<Self>) -> Option<String> {
        Self::finish(*self)
    }
}

/// Runs the command.
pub(crate) fn run(always: &AlwaysArgs, call: Call) -> anyhow::Result<ExitCode> {
    if let Some(refusal) = weir_explain::refusal(&always.slo) {
        eprintln!("weir record: {refusal}");
        return Ok(ExitCode::from(2));
    }
    let stop = Stop::on_signals()?;
    let webhook =
        always.webhook.as_deref().map(|url| Webhook::start("weir record", url, WEBHOOK_PATIENCE)).transpose()?;
    let directory = call.run.unwrap_or_else(|| DIRECTORY.into());
    let telling = always.telling(&call.named, &directory)?;
    let forever = Forever {
        directory,
        named: call.named,
        ladder: call.ladder,
        keep_addresses: call.keep_addresses,
        window: always.window(),
        disk_mb_per_hour: always.disk_per_hour,
        cpu_share: always.cpu_share / 100.0,
        keep: always.keep,
        view: always.view(),
        rules: always.burn.clone(),
    };
    let outlets = Outlets {
        alerts: webhook.map(|webhook| Box::new(webhook) as Box<dyn Alerts>),
        figures: telling.map(|telling| Box::new(telling) as Box<dyn FigureSink>),
    };
    let windows = weir_record::always::record(&forever, outlets, &stop)?;
    let plural = if windows == 1 { "" } else { "s" };
    eprintln!(
        "recorded {0} window{plural} in {1}\nread them: weir explain {1}/TIME",
        windows,
        forever.directory.display()
    );
    Ok(ExitCode::SUCCESS)
}
