//! What is known and what is being done, as one value: the console command, programs and Prometheus are told the same.

use crate::loop_stats::Dropped;
use crate::persister::Failing;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_adapt::{Counts, Decision};

/// The environment at a moment.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Environment {
    /// Milliseconds since 1970, UTC.
    pub at_unix_ms: u64,
    /// The node, by the name that the policy has for it.
    pub here: String,
    /// The server.
    pub server: ServerNow,
    /// The rules.
    pub policy: PolicyNow,
    /// Readings of the node, of the most asked atoms, and of the clients that ask for most, where rules read these.
    pub readings: Vec<ReadingNow>,
    /// What the node's requests waited for since the tick before, by part of a response; together they are its readings
    /// `wait` and `queue`.
    pub waits: Vec<WaitNow>,
    /// Forecasts of the node, of pools, and of the most asked atoms.
    pub forecasts: Vec<ForecastNow>,
    /// Rules that have fired and are not released.
    pub in_force: Vec<RuleInForce>,
    /// The latest decisions, the newest first.
    pub decisions: Vec<Decision>,
    /// Decisions so far, by rule and outcome.
    pub decided: BTreeMap<String, BTreeMap<String, u64>>,
    /// What the requests of late are: a crowd, an attack.
    pub crowd: CrowdNow,
    /// The most asked atoms of the last minutes.
    pub popular: Vec<PopularNow>,
    /// What is expected of clients' links.
    pub links: LinksNow,
    /// No count of `popular` is too high by more than this.
    pub popular_error_max: u64,
    /// Requests that were refused because rules said so.
    pub refused: u64,
    /// What the controller itself takes.
    pub work: Work,
    /// Readings that were passed over.
    pub passed_over: Counts,
    /// What there was no room for.
    pub dropped: AllDropped,
}

/// The server whose environment it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ServerNow {
    /// The number of its process.
    pub pid: u32,
    /// When that began, in ticks since the machine did (field 22 of /proc/PID/stat): no later process of the same number
    /// has the same.
    pub began_ticks: u64,
    /// It has ended, and this is its last word.
    pub has_ended: bool,
}

impl ServerNow {
    /// This process.
    pub(crate) fn own() -> Self {
        let pid = std::process::id();
        Self { pid, began_ticks: began_ticks(pid).unwrap_or(0), has_ended: false }
    }

    /// Whether it runs on this machine, as far as this process can see.
    pub fn is_running(&self) -> bool {
        !self.has_ended && began_ticks(self.pid) == Some(self.began_ticks)
    }
}

/// When a process began.
fn began_ticks(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    // One that has ended and was not waited for yet does nothing any more.
    (fields.first() != Some(&"Z")).then(|| fields.get(19)?.parse().ok()).flatten()
}

/// The policy at work.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PolicyNow {
    /// Its file.
    pub file: String,
    /// How many rules it has.
    pub rules: usize,
    /// The first of them: as many as are shown.
    pub names: Vec<RuleName>,
    /// When it was taken up, milliseconds since 1970.
    pub since_unix_ms: u64,
    /// Why another one was not; none if the last one was.
    pub refused: Option<String>,
}

/// A rule of the policy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RuleName {
    /// Its name.
    pub rule: String,
    /// Its line.
    pub line: usize,
}

/// A reading of the present.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadingNow {
    /// What is measured, by the word of the language.
    pub resource: String,
    /// The unit of the value.
    pub unit: String,
    /// The node's name, the atom's path, or `client` and the client's name.
    pub of: String,
    /// The value.
    pub value: f64,
    /// The value as people read it.
    pub shown: String,
}

/// What requests waited for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WaitNow {
    /// The part of a response, as reports name it.
    pub part: String,
    /// The same in words.
    pub words: String,
    /// The mean of each request, in seconds.
    pub wait_s: f64,
    /// How many waited on average.
    pub queue: f64,
    /// Both as people read them.
    pub shown: String,
}

/// A forecast of the present.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ForecastNow {
    /// The metric as the policy has it.
    pub metric: String,
    /// The atom, where it is of one.
    pub atom: Option<String>,
    /// What is forecast, in the unit of the resource; none where it is not known.
    pub value: Option<f64>,
    /// How well it fits the past: R2.
    pub fit: Option<f64>,
    /// The mean size of the errors of earlier ones, of all places.
    pub error: Option<f64>,
    /// How many of them were judged.
    pub judged: u64,
    /// All of it as people read it.
    pub shown: String,
    /// All methods beside each other, each second; none where there is no room for the comparison.
    #[serde(default)]
    pub methods: Vec<MethodNow>,
}

/// What a method forecasts, of those that are beside each other.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MethodNow {
    /// `least-squares`, `robust` or `seasonal`.
    pub method: String,
    /// The rules go by it.
    pub is_chosen: bool,
    /// What it forecasts, in the unit of the resource; none where too little is known for it.
    pub value: Option<f64>,
    /// How well it fits the past: R2.
    pub fit: Option<f64>,
    /// The mean size of its errors here.
    pub error: Option<f64>,
    /// How many of its forecasts were judged.
    pub judged: u64,
    /// All of it as people read it.
    pub shown: String,
}

/// A rule that is active.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RuleInForce {
    /// Its name.
    pub rule: String,
    /// Its line.
    pub line: usize,
    /// For whom.
    pub subject: String,
    /// Since when, milliseconds since 1970.
    pub since_unix_ms: u64,
    /// What its condition reads now, and what its `until` waits for, as people read it.
    pub readings: Vec<String>,
}

/// What the requests of the last interval were.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CrowdNow {
    /// `calm`, `flash_crowd`, `attack` or `unclear`; empty before the first interval is over.
    pub kind: String,
    /// The judgement with its signs, as people read it.
    pub shown: String,
    /// Requests of the interval.
    pub requests: u64,
    /// Different clients, within 3.3 % (standard error).
    pub clients: f64,
    /// Share of their networks that were seen before, 0 to 1.
    pub networks_known: f64,
    /// Share of the requests that ten atoms took, 0 to 1.
    pub few_files: f64,
}

/// An atom that is asked for most.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PopularNow {
    /// Its path.
    pub text: String,
    /// How often it was asked for of late: at most this often, and at least this less the error. Halved each minute.
    pub count: u64,
    /// See above.
    pub error: u64,
    /// Requests for it a second, in the last tick; none where it is not followed one by one.
    pub rate_per_s: Option<f64>,
    /// Bytes of its file; none before it is asked for while it is among these.
    pub bytes: Option<u64>,
    /// The SHA-256 of these bytes, once it is made: of files of at most 64 MiB.
    pub sha256: Option<String>,
}

/// What is expected of clients by what their links showed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinksNow {
    /// By their addresses.
    pub addresses: LinksOf,
    /// By their networks (IPv4 /24, IPv6 /48).
    pub networks: LinksOf,
}

/// What is expected of places of a kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinksOf {
    /// Places of which something is kept.
    pub kept: u64,
    /// Bandwidths that hold, bits a second.
    pub bandwidth_bps: Option<Shares>,
    /// Round trips that hold, seconds.
    pub rtt_s: Option<Shares>,
    /// The places of which something was learnt last, the latest first.
    pub freshest: Vec<LinkOf>,
}

/// What so many of hundred values are not above.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Ten.
    pub p10: f64,
    /// Fifty.
    pub p50: f64,
    /// Ninety.
    pub p90: f64,
}

/// What is expected of one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkOf {
    /// The network, or a name made up for an address; the address where the access log has whole ones.
    pub place: String,
    /// Bits a second.
    pub bandwidth_bps: Option<f64>,
    /// Seconds.
    pub rtt_s: Option<f64>,
    /// How long before this look something was learnt, milliseconds.
    pub age_ms: u64,
    /// All of it as people read it.
    pub shown: String,
}

/// What ticks take.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Work {
    /// Ticks so far.
    pub ticks: u64,
    /// From one to the next, milliseconds.
    pub tick_ms: u64,
    /// Microseconds in which the rules were looked at, the last time and at most.
    pub rules_us_last: u64,
    /// At most.
    pub rules_us_max: u64,
    /// Microseconds of the whole tick, the last time.
    pub all_us_last: u64,
    /// Atoms that are followed, and sessions.
    pub atoms: usize,
    /// Sessions that the rules know.
    pub sessions: usize,
    /// Clients that are followed one by one: none where no rule reads them.
    #[serde(default)]
    pub clients: usize,
    /// Loops that orders have asked for beside the usual ones.
    pub loops_more: u32,
    /// Forecasts for which there is no room to compare the methods.
    #[serde(default)]
    pub forecasts_alone: usize,
}

/// What there was no room for, everywhere.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AllDropped {
    /// In the loops' statistics.
    #[serde(rename = "books")]
    pub loop_stats: Dropped,
    /// Lines of the recording that are in no file.
    pub lines: u64,
    /// Looks, decisions and alerts for which there was no room on the way to the process that keeps and tells, or no
    /// such process any more.
    #[serde(rename = "errands")]
    pub persister_pipe: u64,
    /// Looks and decisions that the database did not take.
    pub records: u64,
    /// Alerts that were not delivered.
    pub alerts: u64,
    /// Decisions of one tick that were too many to be carried out.
    pub decisions: u64,
    /// Clients that asked for less than others and are not followed for their sake.
    pub evicted: u64,
    /// Whether the process that keeps and tells has ended.
    #[serde(rename = "clerk_gone")]
    pub persister_gone: bool,
    /// What cannot be kept or told at the moment, and why.
    pub failing: Vec<Failing>,
}

impl Environment {
    /// The JSON of it.
    pub fn json(&self) -> String {
        // Texts and numbers have a form; what is no number becomes null.
        serde_json::to_string(self).unwrap_or_default()
    }
}
