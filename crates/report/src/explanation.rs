//! What `weir explain` found: the shape of its JSON.

use crate::units::{count, percent, percent_of_all};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use weir_measure::part::Part;
use weir_measure::summary::Summary;

/// Everything that an explanation says. Times are nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    /// weir's version.
    pub version: String,
    /// What was loaded or recorded: a URL, or a run directory.
    pub subject: String,
    /// The run directory.
    pub run: String,
    /// From what to what a response's time counts, in words.
    pub boundary: String,
    /// The recorded host, its kernel and its CPUs, in a line.
    pub host: String,
    /// From the first intended time to the last end, seconds.
    pub duration_s: f64,
    /// Requests that were answered.
    pub requests: u64,
    /// Answered requests a second.
    pub rate_per_s: f64,
    /// Bytes of responses, heads and bodies.
    pub bytes: u64,
    /// Failed requests by kind.
    pub errors: BTreeMap<String, u64>,
    /// Answered requests by status code.
    pub status: BTreeMap<String, u64>,
    /// Arrivals that the generator's queue had no room for.
    pub dropped: u64,
    /// Answered requests that the client had sent before, on a kept-alive connection that ended without answering.
    pub retried: u64,
    /// Response times of all answered requests.
    #[serde(serialize_with = "summary")]
    pub response_ns: Option<Summary>,
    /// Share of the requests that were answered with a status below 400, 0 to 1; null where no status is known. Those
    /// that failed are among the requests.
    pub success_fraction: Option<f64>,
    /// Response times of those alone; null where no status is known, or none was.
    #[serde(serialize_with = "summary")]
    pub success_response_ns: Option<Summary>,
    /// Share of the answered requests that were joined with the server's side, 0 to 1.
    pub joined_fraction: f64,
    /// Those that were not, by reason.
    pub unjoinable: BTreeMap<String, u64>,
    /// What the server's sockets showed beside the responses, where these are told from the server's side: TLS
    /// handshakes, requests that an edge of the recording cut, and the like, by name.
    pub exchanges: BTreeMap<String, u64>,
    /// What stayed open and carried messages, by kind and name; it is in no figure of responses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub long_lived: Vec<LongLived>,
    /// What was asked of the server, and whether it was met.
    pub objectives: Vec<ObjectiveResult>,
    /// The rung of the ladder of sources.
    pub rung: String,
    /// Sum of the parts of each response over its time.
    pub sum_of_parts_over_response: Ratio,
    /// Half the 95 % interval of the mean response time as a share of it; null if the run was too short.
    pub noise_floor: Option<f64>,
    /// What observing cost.
    pub observer_cost: Observer,
    /// What the server's tasks had of the CPUs.
    pub server_cpu: ServerCpu,
    /// Mean parts over all responses.
    #[serde(serialize_with = "parts")]
    pub parts_ns: [f64; Part::COUNT],
    /// The same mean time, divided by where the request was: absent where none was joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages_ns: Option<Stages>,
    /// Mean parts of the middle tenth, around the median.
    #[serde(serialize_with = "parts")]
    pub median_parts_ns: [f64; Part::COUNT],
    /// Mean parts of the slowest 1 %.
    #[serde(serialize_with = "parts")]
    pub slow_parts_ns: [f64; Part::COUNT],
    /// Mean time of the middle tenth.
    pub median_response_ns: f64,
    /// Mean time of the slowest 1 %.
    pub slow_response_ns: f64,
    /// Whose time the responses around each percentile were; absent where no client has told its requests, or nothing of
    /// the server was recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<PercentileShares>,
    /// How `run` divides, as far as it was observed: `run_interrupt`, `run_user`, `run_kernel`, nanoseconds of each
    /// response; they are in `run`, not beside it.
    pub run_parts_ns: BTreeMap<String, f64>,
    /// Parts of the design that this recording does not observe.
    pub not_observed: Vec<String>,
    /// Why not, by the part's name.
    pub not_observed_why: BTreeMap<String, String>,
    /// The largest parts of the mean response, largest first, with the task or object to blame.
    pub causes: Vec<Cause>,
    /// What the slowest 1 % wait for that the others do not, largest first.
    pub slow_causes: Vec<SlowCause>,
    /// Transaction classes, most frequent first.
    pub transactions: Vec<Transaction>,
    /// Phases of the servers' own work, by their packs; in the order in which a response passes them.
    pub phases: Vec<Phase>,
    /// What the processes that took part had of the mean response, largest first.
    pub processes: Vec<ProcessShare>,
    /// Who waited for whom: the edges of the waiting graph, largest first.
    pub waiting: Vec<WaitingEdge>,
    /// Whose requests held the locks that responses waited for, largest first; absent where no holder is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holding>,
    /// Response times, their parts and errors in the course of the run; absent where no response was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub course: Option<Course>,
    /// Queries that responses waited for, largest share of the mean response first.
    pub queries: Vec<Query>,
    /// What the servers asked behind, as the wire told it, longest waits in all first; absent where nothing was told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Asked>,
    /// What the rules of `weir serve --policy` decided, in the order of time; absent where nothing was told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decided>,
    /// Sessions that moved between nodes of a cluster; absent where no events of one were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves: Option<Moves>,
    /// The hosts whose runs were explained together, that with the common clock first; absent for one run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostRun>,
    /// Sampled stacks by class and part, most samples first.
    pub stacks: Vec<Stack>,
    /// Wake-ups of tasks that were to accept or receive.
    pub wakeups: Wakeups,
    /// A few typical and a few of the slowest responses.
    pub examples: Vec<Example>,
    /// What a reader should know before trusting the figures.
    pub warnings: Vec<String>,
}

/// Whose time the responses around a percentile were. The shares are of 0 to 1 and add up to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PercentileShares {
    /// 50, 90, 99 or 99.9.
    pub percentile: f64,
    /// Mean time of these responses, nanoseconds.
    pub response_ns: f64,
    /// The share of the load generators: `generator` and `client_wakeup`.
    pub generator: f64,
    /// The share of the way between them: `connect`, `request_transit` and `response_transit`.
    pub network: f64,
    /// The share of the server, with all that it waited for.
    pub server: f64,
    /// What the recording cannot tell.
    pub unattributed: f64,
}

/// Where requests were, with all that they waited for there: means over the joined responses, nanoseconds. They add up
/// to the mean response of these.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stages {
    /// From the time that the schedule intended until a task of the server had read of it: connecting, transit, queues, and
    /// what that task waited for meanwhile, such as its CPU.
    pub until_pick_up: f64,
    /// Until the last send of the response: what a server can measure itself.
    pub at_server: f64,
    /// Until the client had it all: transit, and the client's own waiting for its CPU.
    pub until_client: f64,
}

/// A decision of a server's rules.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decided {
    /// When, in seconds from the first request's intended time.
    pub at_s: f64,
    /// The rule, for whom, what became of it, and the readings, in words.
    pub text: String,
}

/// Sessions that moved between nodes of a cluster while the run was recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moves {
    /// Requests that were under way when their session moved; one that moved twice counts once.
    pub requests: u64,
    /// Each move, in the order of time.
    pub moves: Vec<Moved>,
}

/// A session has moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moved {
    /// When it began to stand still, in seconds from the first request's intended time.
    pub at_s: f64,
    /// The node that had it.
    pub from: String,
    /// The node that has it now.
    pub to: String,
    /// Requests of this run that were under way.
    pub requests: u64,
    /// The name of one of them.
    pub request: Option<String>,
    /// How long it stood still; null where only the new node's events were given.
    pub stood_still_ns: Option<f64>,
    /// How long the whole move took.
    pub took_ns: Option<f64>,
    /// When the director let the new node go on, like `at_s`; null without the director's events.
    pub confirmed_s: Option<f64>,
    /// By how much these times may be wrong against those of the run; null where clocks were not compared.
    pub error_ns: Option<f64>,
}

/// A host whose run was explained together with those of others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostRun {
    /// As its tasks are called after it: the host's name, or its run's where two hosts have the same.
    pub name: String,
    /// The run's directory.
    pub run: String,
    /// What is to be added to the host's times for those of the first host, in the middle of the run, nanoseconds.
    pub clock_offset_ns: i64,
    /// By how much times of this host may be wrong against those of the first one, at most.
    pub clock_error_ns: f64,
    /// The same in the half of the time in which it is least.
    pub clock_typical_error_ns: f64,
    /// By how much the rates of the two clocks were taken to differ at most, parts per million.
    pub clock_rate_ppm: u64,
    /// Connections with the other hosts.
    pub connections: u64,
    /// Messages over these by which the clocks were compared.
    pub messages: u64,
    /// Those of them that arrived before they were sent, by the clocks as they were put together.
    pub contradicting: u64,
    /// By how much, at most.
    pub contradicting_ns_max: f64,
}

/// Minimum, mean and maximum of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The smallest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: f64,
}

/// What the server's tasks had of the CPUs while clients' requests were under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ServerCpu {
    /// CPUs in use on average: 1.0 is one CPU's whole time.
    pub utilisation: f64,
    /// CPU time for each answered request, nanoseconds; the probes' own time is in it.
    pub used_ns_per_request: f64,
    /// Time that the tasks could have run but another had the CPU, for each answered request, nanoseconds.
    pub waited_ns_per_request: f64,
    /// How often a task of the server got a CPU, for each answered request.
    pub switches_per_request: f64,
}

/// What observing cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Observer {
    /// Events that the kernel's probes wrote.
    pub events: u64,
    /// Bytes that reached the run directory.
    pub bytes: u64,
    /// Events lost.
    pub lost: u64,
    /// CPU seconds of the collector; the probes' own time is inside the observed tasks' `run`.
    pub cpu_seconds: f64,
    /// The collector's CPU time as a share of one CPU over the recording.
    pub cpu_share: f64,
    /// Events for each answered request.
    pub events_per_request: f64,
    /// What each optional source cost.
    pub sources: Vec<SourceCost>,
}

/// What an optional source of events cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourceCost {
    /// Its name, as `--watch` takes it.
    pub name: String,
    /// Events that it told.
    pub events: u64,
    /// Share of the recording in which it was attached, 0 to 1.
    pub attached_share: f64,
    /// CPUs that its programs took while they were attached, 0.01 being one hundredth of one CPU; null where the kernel
    /// would not measure it.
    pub cpu_share: Option<f64>,
}

/// A part of the mean response, with the task or object to blame.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cause {
    /// The part's name.
    pub part: String,
    /// Its mean, nanoseconds.
    pub mean_ns: f64,
    /// Its share of the mean response, 0 to 1.
    pub share: f64,
    /// Who or what, with the share of the part, largest first.
    pub who: Vec<(String, f64)>,
    /// Whose requests held these up, largest first: they had the lock, or kept the process. Empty where that is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<HeldBy>,
    /// For which classes of requests the server ran, with the share of the part, 0 to 1, largest first; of `run` alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<(String, f64)>,
    /// The whole in words with figures.
    pub text: String,
}

/// A class of requests that held others up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldBy {
    /// The class's name.
    pub class: String,
    /// The part in which its requests were most of that time.
    pub did: String,
    /// The share of the part that others waited in, 0 to 1.
    pub share: f64,
}

/// What the slowest 1 % wait for beyond the others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowCause {
    /// The part's name.
    pub part: String,
    /// Mean of the part among the slowest 1 % less its mean among the others, nanoseconds.
    pub excess_ns: f64,
    /// The excess as a share of the whole difference, 0 to 1.
    pub share: f64,
    /// Who or what, with the share of the part among the slowest, largest first.
    pub who: Vec<(String, f64)>,
    /// The whole in words with figures.
    pub text: String,
}

/// A class of transactions: method and path pattern.
#[derive(Debug, Clone, Serialize)]
pub struct Transaction {
    /// Its name.
    pub name: String,
    /// Answered requests of it.
    pub count: u64,
    /// Their response times.
    #[serde(serialize_with = "summary")]
    pub response_ns: Option<Summary>,
    /// Their mean parts.
    #[serde(serialize_with = "parts")]
    pub parts_ns: [f64; Part::COUNT],
    /// Mean parts of the slowest 1 % of them.
    #[serde(serialize_with = "parts")]
    pub slow_parts_ns: [f64; Part::COUNT],
}

/// An objective, and whether the run met it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObjectiveResult {
    /// As it was given: `p99<200ms`.
    pub text: String,
    /// Whether it was met; null where no request could be judged.
    pub met: Option<bool>,
    /// Requests that were watched for long enough to tell.
    pub requests: u64,
    /// Those that were too slow, or failed.
    pub bad: u64,
    /// Requests that an end of the recording cut too early to tell.
    pub unknown: u64,
    /// How many times as fast as allowed the allowance of bad requests was used up.
    pub burn_rate: f64,
}

/// A phase of a server's own work on a response.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phase {
    /// The server's name, such as `apache`.
    pub server: String,
    /// The phase's name.
    pub name: String,
    /// How often it was passed.
    pub count: u64,
    /// Its mean time, nanoseconds of each response of the run.
    pub mean_ns: f64,
    /// Mean of each part within it.
    #[serde(serialize_with = "parts")]
    pub parts_ns: [f64; Part::COUNT],
    /// Time that the server's tasks spent in it whether or not a response waited, nanoseconds of each response of the
    /// run; 0 where a task has many requests at a time.
    pub elapsed_ns: f64,
    /// What they did meanwhile; waiting for any descriptor is `wait_network`.
    #[serde(serialize_with = "parts")]
    pub elapsed_parts_ns: [f64; Part::COUNT],
}

/// What one process had of the mean response.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessShare {
    /// Its name, one for all workers of a server.
    pub name: String,
    /// Running for responses, nanoseconds of each response.
    pub run_ns: f64,
    /// Waiting with them, nanoseconds of each response.
    pub wait_ns: f64,
}

/// An edge of the waiting graph.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitingEdge {
    /// Who waited.
    pub from: String,
    /// For whom or what.
    pub to: String,
    /// The part that the wait is.
    pub part: String,
    /// How often.
    pub count: u64,
    /// Nanoseconds of each response.
    pub mean_ns: f64,
}

/// A lock that responses waited for while a task of one name had it, working on requests of one class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Holding {
    /// The lock, such as `flock of /var/lib/x.lock`.
    pub lock: String,
    /// The holder's name, one for all workers of a server; a database's with its statement.
    pub holder: String,
    /// The class of the request that the holder worked on; null where none is known: it may have had none.
    pub request: Option<String>,
    /// How long it was waited for, nanoseconds of each response.
    pub mean_ns: f64,
    /// What became of the holder's own request meanwhile, nanoseconds of each response that waited; all 0 without one.
    #[serde(serialize_with = "parts")]
    pub parts_ns: [f64; Part::COUNT],
}

/// The course of a run, in slices of equal width without gaps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Course {
    /// The width of a slice, seconds.
    pub slice_s: f64,
    /// The slices, in the order of time.
    pub slices: Vec<CourseSlice>,
}

/// What ended within a slice of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CourseSlice {
    /// Its begin, seconds since the first response's intended time; the first slice may begin before it.
    pub at_s: f64,
    /// Requests that were answered, errors among them.
    pub answered: u64,
    /// Requests that failed, and answers with a status of 400 or more.
    pub errors: u64,
    /// The median response time, nanoseconds; null where none was answered.
    pub p50_ns: Option<u64>,
    /// What 99 % of the response times are no longer than, nanoseconds; null where none was answered.
    pub p99_ns: Option<u64>,
    /// Mean parts of the responses.
    #[serde(serialize_with = "parts")]
    pub parts_ns: [f64; Part::COUNT],
}

/// A query that responses waited for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Query {
    /// The database's name.
    pub server: String,
    /// Its text, with `?` in the place of literals.
    pub text: String,
    /// How often it was run.
    pub count: u64,
    /// Its mean time, nanoseconds of each run.
    pub mean_ns: f64,
    /// Its longest time, nanoseconds.
    pub max_ns: u64,
}

/// A kind of question that the servers asked over sockets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Asked {
    /// Who was asked: an address, or a Unix socket.
    pub peer: String,
    /// The protocol, such as `postgresql`.
    pub protocol: String,
    /// What was asked, without values.
    pub question: String,
    /// How often.
    pub count: u64,
    /// How often for each response.
    pub per_response: f64,
    /// Its waits, added up, as a share of the responses' time; questions that were open at the same time count each, so
    /// that shares may add up to more than 1.
    pub share: f64,
    /// Its mean wait, from the question to the first bytes of its answer, nanoseconds.
    pub mean_ns: f64,
    /// Its longest wait, nanoseconds.
    pub max_ns: u64,
    /// Answers by the status or error that the protocol gives, where it gives one.
    pub status: BTreeMap<String, u64>,
    /// How many answers were errors.
    pub failed: u64,
    /// For how many no answer was seen.
    pub unanswered: u64,
}

impl Asked {
    /// How it ended, in a line: `200 × 31, 503 × 2`; what failed without a status is counted, too.
    #[must_use]
    pub fn outcomes(&self) -> String {
        let mut all: Vec<String> = self.status.iter().map(|(status, times)| format!("{status} × {times}")).collect();
        if self.unanswered > 0 {
            all.push(format!("not answered × {}", self.unanswered));
        }
        all.join(", ")
    }
}

/// A sampled stack.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stack {
    /// The transaction class, or `(no request)`.
    pub class: String,
    /// The part in which it was sampled.
    pub part: String,
    /// Functions, the root first.
    pub frames: Vec<String>,
    /// How often it was seen.
    pub samples: u64,
    /// The time that these stand for, nanoseconds.
    pub ns: u64,
}

/// Wake-ups of tasks that were to accept or receive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Wakeups {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Wake-ups of the server's idle tasks.
    pub wakeups: u64,
    /// Those after which a task found nothing and waited again: semi-busy-waiting.
    pub futile: u64,
    /// Events that must be missing from the recording, switches of such tasks or lost ones: without any, and unless a
    /// task was woken and slept again entirely unseen, the counts are exact.
    pub unseen: u64,
    /// Futile wake-ups for each accepted connection.
    pub futile_per_accepted: f64,
}

impl Wakeups {
    /// Requests for each accepted connection from which on connections say little of the work: they are kept alive.
    const KEPT_ALIVE: u64 = 4;

    /// Futile wake-ups, and for each of what: of accepted connections, or of requests where connections are kept alive
    /// and bear many of them each.
    pub(crate) fn futile_for_each(&self, requests: u64) -> (f64, &'static str) {
        if requests >= Self::KEPT_ALIVE.saturating_mul(self.accepted.max(1)) {
            (self.futile as f64 / requests as f64, "answered request")
        } else {
            (self.futile_per_accepted, "accepted connection")
        }
    }
}

/// One response, to be drawn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Example {
    /// `typical` or `slow`.
    pub sort: String,
    /// Method and target.
    pub name: String,
    /// Status code.
    pub status: u16,
    /// Its response time.
    pub response_ns: u64,
    /// When it was intended, since the first request of the run.
    pub at_ns: u64,
    /// Its steps, in their order, without gaps.
    pub steps: Vec<ExampleStep>,
    /// Who had the CPUs meanwhile, by CPU and time; idle times are left out.
    pub cpus: Vec<CpuSpell>,
    /// What those did who held locks while it waited for them; absent where no holder is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<HolderSpell>,
}

/// A stretch in which a task had a lock that a response waited for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HolderSpell {
    /// What the response waited for, as its steps name it.
    pub lock: String,
    /// The task that had it.
    pub task: String,
    /// What that task did: a part's name.
    pub part: String,
    /// Its begin, since the response's intended time.
    pub from_ns: u64,
    /// Its length.
    pub ns: u64,
}

/// A stretch in which a task had a CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuSpell {
    /// The CPU.
    pub cpu: u32,
    /// Its begin, since the response's intended time.
    pub from_ns: u64,
    /// Its length.
    pub ns: u64,
    /// The task.
    pub task: String,
}

/// A step of a response that is drawn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExampleStep {
    /// The part's name.
    pub part: String,
    /// Its begin, since the response's intended time.
    pub from_ns: u64,
    /// Its length.
    pub ns: u64,
    /// The task whose time it was, empty where it was none's.
    pub task: String,
    /// The task or object that it was spent on, empty for none.
    pub who: String,
}

impl SourceCost {
    /// What it cost, in words with figures.
    #[must_use]
    pub fn words(&self) -> String {
        let cpu = self.cpu_share.map_or_else(
            || "CPU time not measured (that needs CAP_SYS_ADMIN)".to_owned(),
            |share| format!("{} of a CPU while attached", percent(share)),
        );
        let attached = percent_of_all(self.attached_share);
        format!("{}: {} events, {cpu}, attached for {attached} of the recording", self.name, count(self.events))
    }
}

fn summary<S: Serializer>(summary: &Option<Summary>, serializer: S) -> Result<S::Ok, S::Error> {
    summary.map(|summary| summary.fields().into_iter().collect::<BTreeMap<_, _>>()).serialize(serializer)
}

fn parts<S: Serializer>(parts: &[f64; Part::COUNT], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(Part::ALL.iter().map(|part| (part.name(), parts[*part as usize])))
}

/// Responses of one name that stay open and carry messages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LongLived {
    /// `websocket`, `events` or `grpc`.
    pub kind: String,
    /// Method and path, or the port.
    pub name: String,
    /// How many there were.
    pub count: u64,
    /// Those of them that were open when the recording ended.
    pub still_open: u64,
    /// How long one was seen, mean, nanoseconds.
    pub lasted_ns: f64,
    /// What the server took.
    pub received: MessageFigures,
    /// What it gave.
    pub sent: MessageFigures,
    /// Messages of the server's that are known to answer one of the client's.
    pub answered: u64,
    /// From the arrival of that one to the send of the answer, mean, nanoseconds; null where none is known.
    pub answer_ns: Option<f64>,
}

impl LongLived {
    /// What it is, in words.
    pub(crate) fn words(&self) -> &'static str {
        match self.kind.as_str() {
            "websocket" => "WebSocket",
            "events" => "server-sent events",
            "grpc" => "gRPC stream",
            _ => "stays open",
        }
    }
}

/// Messages in one direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MessageFigures {
    /// How many.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The time between one and the next of a connection, mean, nanoseconds; null where no two followed each other.
    pub between_ns: Option<f64>,
    /// The longest of these times, nanoseconds.
    pub between_ns_max: u64,
}
