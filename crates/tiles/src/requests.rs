//! Requests worth a visit: the slowest of a run, and the slowest of each class.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_measure::class::Grouping;
use weir_timeline::{Detail, Joiner, Response, Unjoinable};

/// The slowest of the run that are kept.
const MOST: usize = 200;
/// Classes that are told apart, and the slowest of each that are kept.
const MOST_CLASSES: usize = 1000;
const MOST_OF_CLASS: usize = 5;
/// Steps of a request that are kept.
const MOST_STEPS: usize = 200;
/// Characters of a name that are kept.
const MOST_NAME: usize = 300;

/// A request that is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slow {
    /// Method and target.
    pub name: String,
    /// Its class: method and pattern of the path.
    pub class: String,
    /// Status code; 0 where only the server's sockets told of it.
    pub status: u16,
    /// Its intended time, nanoseconds from the begin of the run.
    pub from_ns: u64,
    /// Its response time, nanoseconds.
    pub response_ns: u64,
    /// The generator's number of the connection.
    pub connection: u64,
    /// Its steps, without gaps, as far as they were few enough to be kept.
    pub steps: Vec<SlowStep>,
}

/// A step of a request that is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowStep {
    /// The part's name.
    pub part: String,
    /// Its begin, nanoseconds from the begin of the run.
    pub from_ns: u64,
    /// Its length, nanoseconds.
    pub ns: u64,
    /// The task whose time it was, 0 for none.
    pub pid: u32,
    /// The task that it was spent on, 0 for none; see also `on`.
    pub on_pid: u32,
    /// The same where it is no task.
    pub on: String,
}

/// A class of requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Class {
    /// Requests of it.
    pub(crate) count: u64,
    /// The slowest, slowest first: begin and response time, nanoseconds.
    pub(crate) slowest: Vec<(u64, u64)>,
}

/// Keeps the slowest.
#[derive(Debug, Default)]
pub(crate) struct Slowest {
    grouping: Grouping,
    requests: Vec<Slow>,
    classes: BTreeMap<String, Class>,
    pub(crate) longest_ns: u64,
    pub(crate) count: u64,
}

impl Slowest {
    pub(crate) fn push(&mut self, joiner: &Joiner, response: &Response<'_>, origin_ns: u64) {
        if response.unjoinable == Some(Unjoinable::Edge) {
            return; // Its time is not known, only that it took at least so long.
        }
        let response_ns = response.time_ns();
        let from_ns = response.request.intended_ns.saturating_sub(origin_ns);
        self.count += 1;
        self.longest_ns = self.longest_ns.max(response_ns);
        let class = cut(&self.grouping.class(response.name));
        if self.classes.len() < MOST_CLASSES || self.classes.contains_key(&class) {
            let known = self.classes.entry(class.clone()).or_default();
            known.count += 1;
            let at = known.slowest.partition_point(|(_, other)| *other >= response_ns);
            if at < MOST_OF_CLASS {
                known.slowest.insert(at, (from_ns, response_ns));
                known.slowest.truncate(MOST_OF_CLASS);
            }
        }
        let at = self.requests.partition_point(|other| other.response_ns >= response_ns);
        if at < MOST {
            let request = Slow {
                name: cut(response.name),
                class,
                status: response.request.status,
                from_ns,
                response_ns,
                connection: response.request.connection,
                steps: response.steps.iter().take(MOST_STEPS).map(|step| slow_step(joiner, step, origin_ns)).collect(),
            };
            self.requests.insert(at, request);
            self.requests.truncate(MOST);
        }
    }

    pub(crate) fn finish(self) -> (Vec<Slow>, BTreeMap<String, Class>) {
        (self.requests, self.classes)
    }
}

fn slow_step(joiner: &Joiner, step: &weir_timeline::Step, origin_ns: u64) -> SlowStep {
    let (on_pid, on) = match step.detail {
        Detail::None => (0, String::new()),
        Detail::Task(pid) => (pid, String::new()),
        Detail::Peer(address) => (0, address.to_string()),
        Detail::Reader(_, task) | Detail::Sender(_, task) if task != 0 => (task, String::new()),
        Detail::Reader(client, _) | Detail::Sender(client, _) => {
            (0, format!("client {}", weir_wire::socket::client_words(client)))
        }
        Detail::Held(pid, by) => (pid, by.words().to_owned()),
        Detail::Way(address) => (0, weir_timeline::way_words(address)),
        Detail::Unconnected(address) => (0, weir_timeline::unconnected_words(address)),
        Detail::LateSyn(address) => (0, weir_timeline::late_syn_words(address)),
        Detail::FullBacklog(address) => (0, weir_timeline::full_backlog_words(address)),
        Detail::Handshake(task) => (task, weir_timeline::HANDSHAKE.to_owned()),
        Detail::Behind(part) => (0, weir_timeline::behind_words(part)),
        Detail::Named(number) | Detail::Lock(number, _) => (0, cut(joiner.text(number))),
        Detail::EndedConnection => (0, cut(weir_timeline::ENDED_CONNECTION)),
        Detail::HeldBack => (0, cut(weir_timeline::HELD_BACK)),
    };
    SlowStep {
        part: step.part.name().to_owned(),
        from_ns: step.from_ns.saturating_sub(origin_ns),
        ns: step.to_ns - step.from_ns,
        pid: step.pid,
        on_pid,
        on,
    }
}

fn cut(text: &str) -> String {
    text.chars().take(MOST_NAME).collect()
}
