//! What a run is judged by: which responses are successes, objectives and checks.

use super::slo::{self, Slo};
use super::usage::Usage;
use anyhow::anyhow;
use std::str::FromStr;
use weir_load::{Check, Options, Point, Request, Scope, Statuses, StatusesError, Url};
use weir_measure::objective::{Judged, Objective};
use weir_measure::threshold::Threshold;

/// How many requests a refusal names.
const REQUESTS_TOLD: usize = 5;

/// The options by which a load is judged.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct JudgeArgs {
    /// An objective of the run, or of --find-max: 'p99<50ms', 'mean<20ms', 'max<1s', 'ttfb p95<20ms', 'errors<1%',
    /// 'rate>500/s', with --stream 'first-event p95<300ms' and 'between p99<50ms'; 'GET /cart: p95<200ms' for some
    /// requests, * for any characters; may be repeated. Errors, statuses that are no success, failed checks and dropped
    /// arrivals miss it [default of --find-max: p99<50ms]
    #[arg(long, value_name = "OBJECTIVE", conflicts_with = "make_fileset", help_heading = "Gate")]
    slo: Vec<Slo>,
    /// What each response must be to be a success: status=200, 'header content-type~json', 'body~REGEX',
    /// body=sha256:HEX, 'size<1MB', 'json .items[0].id', 'json .ok=true', schema=FILE; != and !~ for what it must not be;
    /// 'GET /cart: ' before it for some requests; may be repeated. None may fail, unless --slo 'errors<1%' says how many
    #[arg(long, value_name = "CHECK", conflicts_with = "make_fileset", help_heading = "Gate")]
    check: Vec<Check>,
    /// Statuses that are a success: 200-299,404 or 2xx,404 [default: 200-399]; of gRPC by their names: OK,NOT_FOUND
    /// [default: OK]
    #[arg(long, value_name = "STATUSES", conflicts_with = "make_fileset", help_heading = "Gate")]
    ok: Option<Successes>,
}

/// Statuses that are a success.
#[derive(Debug, Clone)]
enum Successes {
    Http(Statuses),
    Grpc(Statuses),
}

impl FromStr for Successes {
    type Err = StatusesError;

    fn from_str(text: &str) -> Result<Self, StatusesError> {
        // Names begin with a letter, numbers and classes with a digit.
        match text.trim_start().starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            true => Statuses::parse_grpc(text).map(Self::Grpc),
            false => text.parse().map(Self::Http),
        }
    }
}

impl JudgeArgs {
    /// Sets what is a success, and what is counted apart, in the options of a load, which ask already for what they ask.
    pub(super) fn apply(&self, options: &mut Options) -> Result<(), Usage> {
        match (&self.ok, &options.grpc) {
            (Some(Successes::Grpc(expected)), Some(_)) => options.expected.clone_from(expected),
            (Some(Successes::Http(given)), Some(_)) => {
                return Err(
                    anyhow!("--ok {given}: calls of gRPC end with statuses of their own: write OK,NOT_FOUND").into()
                );
            }
            (None, Some(_)) => {}
            (_, None) => options.expected = self.expected()?,
        }
        options.checks.clone_from(&self.check);
        options.scopes = self.scopes();
        for slo in self.slo.iter().filter(|slo| slo.is_of_streams()) {
            if options.streaming.is_none() && options.grpc.is_none() {
                return Err(anyhow!("--slo '{slo}': events are looked at with --stream only: add it").into());
            }
            if let Some(scope) = &slo.scope {
                return Err(anyhow!("--slo '{slo}': events are told of all requests: leave `{scope}: ` out").into());
            }
        }
        let of_slos = self.slo.iter().filter_map(|slo| Some(("--slo", slo.to_string(), slo.scope.as_ref()?)));
        let of_checks =
            self.check.iter().filter_map(|check| Some(("--check", check.text().to_owned(), check.scope()?)));
        for (option, text, scope) in of_slos.chain(of_checks) {
            if options.requests.mix.is_some() {
                return Err(
                    anyhow!("{option} '{text}': the files of --mix are not told apart: leave `{scope}: ` out").into()
                );
            }
            if !requests(options).any(|(url, request)| scope.contains(url, request)) {
                return Err(
                    anyhow!("{option} '{text}': no request of this run is {scope}; it asks {}", told(options)).into()
                );
            }
        }
        Ok(())
    }

    /// Which statuses of HTTP are a success.
    pub(super) fn expected(&self) -> Result<Statuses, Usage> {
        match &self.ok {
            None => Ok(Statuses::default()),
            Some(Successes::Http(expected)) => Ok(expected.clone()),
            Some(Successes::Grpc(given)) => {
                let names = given.grpc_names();
                Err(anyhow!("--ok {names}: these are statuses of gRPC (grpc://); of HTTP write 200-299,404").into())
            }
        }
    }

    /// The objectives.
    pub(super) fn slos(&self) -> &[Slo] {
        &self.slo
    }

    /// The requests that are counted apart, each once.
    pub(super) fn scopes(&self) -> Vec<Scope> {
        let mut scopes: Vec<Scope> = Vec::new();
        for scope in self.slo.iter().filter_map(|slo| slo.scope.as_ref()) {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        scopes
    }

    /// Whether an objective says how many of all requests may fail.
    pub(super) fn allows_errors(&self) -> Option<&Slo> {
        self.slo.iter().find(|slo| slo.scope.is_none() && matches!(slo.threshold, Threshold::Errors { .. }))
    }

    /// What a search for the highest rate holds, if that was said.
    pub(super) fn searched(&self) -> Result<Option<Objective>, Usage> {
        match self.slo.as_slice() {
            [] => Ok(None),
            [slo] => slo.searched().map(Some).ok_or_else(|| {
                Usage(anyhow!("--slo '{slo}': --find-max searches by a percentile or by errors, of all requests"))
            }),
            _ => Err(Usage(anyhow!("--find-max: it searches by one objective: give --slo once"))),
        }
    }
}

fn requests(options: &Options) -> impl Iterator<Item = (&Url, &Request)> {
    let one = options.requests.list.is_empty().then_some((&options.url, &options.request));
    options.requests.list.iter().map(|listed| (&listed.url, &listed.request)).chain(one)
}

/// What a run asks, in words.
fn told(options: &Options) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut more = false;
    for (url, request) in requests(options) {
        let name = format!("{} {}", request.method, url.target);
        if names.contains(&name) {
            continue;
        }
        if names.len() == REQUESTS_TOLD {
            more = true;
            break;
        }
        names.push(name);
    }
    format!("{}{}", names.join(", "), if more { " and others" } else { "" })
}

/// How many requests of a stretch of a run count, and how many of them missed an objective; arrivals that it dropped have.
pub(super) fn of_point(point: &Point, objective: Objective) -> Judged {
    let counts = &point.counts;
    let (stopped, slow) = match objective {
        Objective::Latency { limit_ns, .. } => (counts.stopped(), slo::too_slow(&point.latency.histogram(), limit_ns)),
        Objective::Errors { .. } => (0, 0),
    };
    let other = counts.unexpected + counts.failures() + counts.dropped + stopped;
    Judged { requests: counts.successes() + other, bad: slow + other, unknown: 0 }
}
