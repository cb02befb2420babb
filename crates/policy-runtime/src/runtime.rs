//! A policy runtime from outside: made with a policy, asked by the server, started beside it, and told of other rules.

use crate::adviser::Shared;
use crate::controller::Controller;
use crate::environment::Environment;
use crate::metrics;
use crate::monitor::Monitor;
use crate::persister_pipe::{PersisterEnds, PersisterPipe};
use crate::rulebook::Rulebook;
use crate::server_actions::ServerActions;
use crate::started::Started;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thiserror::Error;
use weir_adapt::forecast::Method;
use weir_adapt::{Engine, Policy};
use weir_server::{Adviser, Counters, Insight, Teller};

/// Messages for the controller that wait; a policy that comes while so many do replaces the last one.
const MAIL_MAX: usize = 4;

/// How rules are used.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The name that policies have for this node.
    pub here: String,
    /// From one look at the rules to the next; 10 ms at least.
    pub tick: Duration,
    /// How forecasts are made.
    pub method: Method,
    /// Whether what rules are told is written down.
    pub is_recorded: bool,
    /// From one judgement of what the requests are, a crowd or an attack, to the next.
    pub judge_every: Duration,
    /// Whether the server can have more loops, which stand for the nodes of pools.
    pub has_reserve: bool,
}

/// Why a policy cannot be used at one node.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SetupError {
    /// A rule serves sessions at other nodes.
    #[error("{file}:{line}: {}; {}", self.what(), self.remedy())]
    Elsewhere {
        /// The policy's file.
        file: String,
        /// The rule's line.
        line: usize,
        /// The rule's name.
        rule: String,
        /// This node.
        here: String,
    },
    /// A rule asks for more copies or nodes.
    #[error("{file}:{line}: {}; {}", self.what(), self.remedy())]
    NoReserve {
        /// The policy's file.
        file: String,
        /// The rule's line.
        line: usize,
        /// The rule's name.
        rule: String,
    },
}

impl SetupError {
    /// The line of the rule, from 1.
    pub fn line(&self) -> usize {
        let (Self::Elsewhere { line, .. } | Self::NoReserve { line, .. }) = self;
        *line
    }

    /// What is wrong with it.
    pub fn what(&self) -> String {
        match self {
            Self::Elsewhere { rule, here, .. } => {
                format!("rule `{rule}` serves sessions at other nodes than `{here}`, and there is one node")
            }
            Self::NoReserve { rule, .. } => {
                format!("rule `{rule}` asks for more copies or nodes, and this server has no loops in reserve")
            }
        }
    }

    /// What would be right.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Elsewhere { .. } => "use variants of this one (`use`, `next`), or leave the rule away",
            Self::NoReserve { .. } => {
                "give it some (--reserve-loops, or reserve_loops in its configuration), or leave the rule away"
            }
        }
    }
}

/// Rules and what they are told, for a server.
#[derive(Debug)]
pub struct PolicyRuntime {
    shared: Arc<Shared>,
    board: Arc<Board>,
    setup: Setup,
}

/// The controller's thread.
#[derive(Debug)]
pub struct Running {
    board: Arc<Board>,
    setup: Setup,
    thread: Option<JoinHandle<()>>,
}

/// A controller that is not started yet.
pub struct Ready {
    controller: Controller,
    board: Arc<Board>,
    setup: Setup,
}

/// What the controller shows, and what it is told.
#[derive(Debug, Default)]
pub(crate) struct Board {
    mail: Mutex<VecDeque<Mail>>,
    came: Condvar,
    /// The environment in JSON, and in the text format of Prometheus.
    shown: Mutex<(String, String)>,
}

/// What the controller is told.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Another policy holds.
    Policy(Box<Engine>),
    /// Another policy does not, and why.
    Refused(String),
    /// It is time for a tick.
    Tick,
    /// It is over.
    Stop,
}

impl Setup {
    pub(crate) fn tick_ms(&self) -> u64 {
        u64::try_from(self.tick.as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// The rules as they are used here.
    ///
    /// # Errors
    /// The first rule that one node cannot carry out.
    pub fn engine(&self, policy: Policy) -> Result<Engine, SetupError> {
        if let Some(weir_adapt::Elsewhere { rule, line }) = policy.elsewhere(&self.here).into_iter().next() {
            let (file, here) = (policy.file().to_owned(), self.here.clone());
            return Err(SetupError::Elsewhere { file, line, rule, here });
        }
        if let Some(weir_adapt::Elsewhere { rule, line }) = policy.asks_for_nodes().into_iter().next()
            && !self.has_reserve
        {
            return Err(SetupError::NoReserve { file: policy.file().to_owned(), line, rule });
        }
        Ok(Engine::new(policy, &self.here, self.method))
    }
}

impl PolicyRuntime {
    /// With these rules.
    ///
    /// # Errors
    /// They cannot be carried out at one node.
    pub fn new(policy: Policy, setup: Setup) -> Result<Self, SetupError> {
        let engine = setup.engine(policy)?;
        let started = Started::now();
        let rules = Rulebook::new(engine, &setup.here, 1, setup.tick_ms(), started.unix_ms, setup.is_recorded);
        Ok(Self { shared: Arc::new(Shared::new(rules, started)), board: Arc::default(), setup })
    }

    /// The adviser that the server's loops ask.
    pub fn adviser(&self) -> Arc<dyn Adviser> {
        Arc::clone(&self.shared) as Arc<dyn Adviser>
    }

    /// Tells of the rules on the server's own status pages and metrics.
    pub fn teller(&self) -> Arc<dyn Teller> {
        Arc::clone(&self.board) as Arc<dyn Teller>
    }

    /// Opens what the controller needs, before the server gives up its rights. `hands` carry orders out, where there is a
    /// reserve; `persister` holds the ends of the pipes to the persister process; `notice` is told of alerts and of what cannot
    /// be kept.
    pub fn ready(
        &self,
        counters: Counters,
        actions: Option<Box<dyn ServerActions>>,
        persister: Option<PersisterEnds>,
        notice: fn(&str),
    ) -> Ready {
        let parts = (Monitor::open(counters), actions, PersisterPipe::new(persister));
        let (shared, board) = (Arc::clone(&self.shared), Arc::clone(&self.board));
        let controller = Controller::new(shared, board, parts, self.setup.clone(), notice);
        Ready { controller, board: Arc::clone(&self.board), setup: self.setup.clone() }
    }
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ready").field("setup", &self.setup).finish_non_exhaustive()
    }
}

impl Ready {
    /// With what the server knows of its clients' links and of its content, for people who look.
    #[must_use]
    pub fn with_insight(mut self, insight: Insight) -> Self {
        self.controller.insight = Some(insight);
        self
    }

    /// Starts the thread: from one that is confined as the server is, so that this one is, too.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(self) -> io::Result<Running> {
        let Self { mut controller, board, setup } = self;
        let thread = std::thread::Builder::new().name("weir-adapt".to_owned()).spawn(move || controller.run())?;
        Ok(Running { board, setup, thread: Some(thread) })
    }

    /// One tick in this thread, for a caller with a clock of its own.
    pub fn tick(&mut self) {
        self.controller.tick();
    }
}

impl Running {
    /// Other rules hold from the next tick on.
    ///
    /// # Errors
    /// They cannot be carried out here; those before stay.
    pub fn replace(&self, policy: Policy) -> Result<(), SetupError> {
        let engine = self.setup.engine(policy)?;
        self.board.send(Mail::Policy(Box::new(engine)));
        Ok(())
    }

    /// Others were not taken up; it is shown, and those before stay.
    pub fn refused(&self, why: &str) {
        self.board.send(Mail::Refused(why.to_owned()));
    }

    /// Ends the thread after one more tick.
    pub fn stop(mut self) {
        self.board.send(Mail::Stop);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say, and its end is no reason for the server not to end.
            let _ = thread.join();
        }
    }
}

impl Board {
    fn send(&self, mail: Mail) {
        let mut waiting = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAIL_MAX {
            waiting.pop_back();
        }
        waiting.push_back(mail);
        self.came.notify_one();
    }

    /// The next message, or a tick when it is time.
    pub(crate) fn wait_until(&self, until: Instant) -> Mail {
        let mut waiting = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(mail) = waiting.pop_front() {
                return mail;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Mail::Tick;
            }
            (waiting, _) = self.came.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn show(&self, environment: &Environment) {
        let shown = (environment.json(), metrics::text(environment));
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }

    fn shown<R>(&self, look: impl FnOnce(&(String, String)) -> R) -> R {
        look(&self.shown.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Teller for Board {
    fn metrics(&self) -> String {
        self.shown(|(_, metrics)| metrics.clone())
    }

    fn json(&self, path: &str) -> Option<String> {
        let json = (path == "/environment.json").then(|| self.shown(|(json, _)| json.clone()))?;
        // Before the first tick there is nothing to tell.
        Some(if json.is_empty() { "null".to_owned() } else { json })
    }
}
