//! A policy runtime from outside: made with a policy, asked by the server, started beside it, and told of other rules.

use crate::adviser::Shared;
use crate::board::{Board, Mail};
use crate::controller::Controller;
use crate::monitor::Monitor;
use crate::persister_pipe::{PersisterEnds, PersisterPipe};
use crate::rulebook::Rulebook;
use crate::server_actions::ServerActions;
use crate::setup::{Setup, SetupError};
use crate::started::Started;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use weir_adapt::Policy;
use weir_server::{Adviser, Counters, Insight, Teller};

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

    /// Opens what the controller needs, before the server gives up its rights. `actions` carry orders out, where there is a
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
