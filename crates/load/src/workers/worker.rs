//! A worker: what it does on what it is told.

use crate::counts::OwnSlice;
use crate::run::Made;
use crate::workers::bounds::{FILES_BYTES_MAX, ORPHANED_NS, PROTOCOL};
use crate::workers::error::PartError;
use crate::workers::frame::{FilePiece, FromWorker, Hello, Job, ToWorker};
use std::collections::VecDeque;
use std::sync::Arc;

/// How far a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was heard.
    Greeting,
    /// It waits for files and its job.
    Greeted,
    /// It reads its job.
    Preparing,
    /// It waits for the start.
    Ready,
    Running,
    /// It has said all, or was given up.
    Over,
}

/// What is to be done.
#[derive(Debug)]
pub enum Act {
    /// Say this.
    Send(FromWorker),
    /// Keep this piece of a file.
    Keep(Arc<FilePiece>),
    /// Prepare this job, and tell [`Worker::prepared`].
    Prepare(Box<Job>),
    /// Run what was prepared, and tell [`Worker::made`].
    Run {
        /// By CLOCK_MONOTONIC, nanoseconds.
        at_ns: u64,
    },
    /// End the load.
    StopLoad,
    /// End the connection.
    End {
        /// Why, where it is not because all is done.
        why: Option<&'static str>,
    },
}

/// The state machine of a worker.
#[derive(Debug)]
pub struct Worker {
    version: String,
    state: State,
    heard_ns: u64,
    kept_bytes: usize,
    acts: VecDeque<Act>,
}

impl Worker {
    /// One whose program has this version, at a time of CLOCK_MONOTONIC.
    #[must_use]
    pub fn new(version: &str, now_ns: u64) -> Self {
        Self {
            version: version.to_owned(),
            state: State::Greeting,
            heard_ns: now_ns,
            kept_bytes: 0,
            acts: VecDeque::new(),
        }
    }

    /// What is to be done next.
    pub fn next_act(&mut self) -> Option<Act> {
        self.acts.pop_front()
    }

    /// Whether it was told or has told all.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Takes what the orchestrator says.
    pub fn take(&mut self, message: ToWorker, now_ns: u64) {
        self.heard_ns = now_ns;
        match (self.state, message) {
            // The orchestrator judges both versions, and says so to its user.
            (State::Greeting, ToWorker::Hello(_)) => {
                self.send(FromWorker::Hello(Hello { protocol: PROTOCOL, version: self.version.clone() }));
                self.state = State::Greeted;
            }
            (State::Over, ToWorker::End) => self.act(Act::End { why: None }),
            (_, ToWorker::End) => self.give_up("the orchestrator gave the run up"),
            (State::Greeting, _) => self.give_up("the orchestrator did not say its version first"),
            (_, ToWorker::Ping { number }) => self.send(FromWorker::Pong { number, now_ns }),
            (State::Greeted, ToWorker::File(piece)) => self.keep(piece),
            (State::Greeted, ToWorker::Job(job)) => {
                self.state = State::Preparing;
                self.act(Act::Prepare(job));
            }
            (State::Ready, ToWorker::Start { at_ns }) if at_ns <= now_ns => {
                let late_ms = (now_ns - at_ns) / 1_000_000;
                self.refuse(format!(
                    "the word to begin came {late_ms} ms after the start; is the way there congested?"
                ));
            }
            (State::Ready, ToWorker::Start { at_ns }) => {
                self.state = State::Running;
                self.act(Act::Run { at_ns });
            }
            (State::Running, ToWorker::Stop) => self.act(Act::StopLoad),
            (_, ToWorker::Stop) => {}
            _ => self.give_up("the orchestrator said what does not belong there"),
        }
    }

    /// The job is prepared, or cannot be.
    pub fn prepared(&mut self, result: Result<(), PartError>) {
        match (self.state, result) {
            (State::Preparing, Ok(())) => {
                self.state = State::Ready;
                self.send(FromWorker::Ready);
            }
            (State::Preparing, Err(error)) => self.refuse(error.to_string()),
            _ => {}
        }
    }

    /// A loop handed out what it did in an interval.
    pub fn slice(&mut self, slice: OwnSlice) {
        if self.state == State::Running {
            self.send(FromWorker::Slice(Box::new(slice)));
        }
    }

    /// The counters, from time to time.
    pub fn progress(&mut self, counters: [u64; 5]) {
        if self.state == State::Running {
            self.send(FromWorker::Progress(counters));
        }
    }

    /// The next piece of the record of its requests, which goes out before the part itself.
    pub fn record(&mut self, piece: FilePiece) {
        if self.state == State::Running {
            self.send(FromWorker::Record(Box::new(piece)));
        }
    }

    /// There is no record, or no whole one; the part goes out all the same.
    pub fn unrecorded(&mut self, why: String) {
        if self.state == State::Running {
            self.send(FromWorker::Unrecorded { why });
        }
    }

    /// The run is over, or could not be made.
    pub fn made(&mut self, result: Result<Made, PartError>) {
        if self.state != State::Running {
            return;
        }
        self.state = State::Over;
        self.send(match result {
            Ok(made) => FromWorker::Made(Box::new(made)),
            Err(error) => FromWorker::Failed { why: error.to_string() },
        });
    }

    /// Time passes: without a word of the orchestrator the load ends.
    pub fn tick(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.heard_ns) > ORPHANED_NS && self.state != State::Over {
            self.give_up("the orchestrator said nothing for 5 s");
        }
    }

    /// The connection ended.
    pub fn gone(&mut self) {
        match self.state {
            State::Over => self.act(Act::End { why: None }),
            _ => self.give_up("the connection to the orchestrator ended"),
        }
    }

    /// The connection brings what is no message.
    pub fn misled(&mut self, why: &'static str) {
        self.give_up(why);
    }

    fn keep(&mut self, piece: Arc<FilePiece>) {
        self.kept_bytes += piece.bytes.len();
        if self.kept_bytes > FILES_BYTES_MAX {
            self.refuse(format!("the files of the run are larger than {} MiB together", FILES_BYTES_MAX >> 20));
        } else {
            self.act(Act::Keep(piece));
        }
    }

    fn refuse(&mut self, why: String) {
        self.state = State::Over;
        self.send(FromWorker::Refused { why });
    }

    fn give_up(&mut self, why: &'static str) {
        if self.state == State::Running {
            self.act(Act::StopLoad);
        }
        self.state = State::Over;
        self.act(Act::End { why: Some(why) });
    }

    fn send(&mut self, message: FromWorker) {
        self.act(Act::Send(message));
    }

    fn act(&mut self, act: Act) {
        self.acts.push_back(act);
    }
}
