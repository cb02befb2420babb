//! The agent: its settings, its thread, and how it is asked.

use crate::agent_state::AgentState;
pub use crate::asker::Asker;
use crate::asker::Order;
use crate::directory::{Directory, DirectoryError};
use crate::handover::Handover;
use crate::host;
use crate::intake::{self, Intake};
use crate::journal::{Journal, Left};
use crate::keeper::{KeepError, Keeper};
use crate::keeping::Keeping;
use crate::outlet::Outlet;
use crate::protocol::{AgentStatus, Answer, Ask, Filter};
pub use crate::settings::Settings;
use crate::socket::{SocketError, listen};
use crate::subscription::Subscription;
use crate::switches::Rules;
use crate::waits::Waits;
use crate::watch::Watch;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

/// The agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The ARM directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The socket cannot be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// What was kept cannot be read.
    #[error("what is kept cannot be read: {0}")]
    Keeper(#[from] KeepError),
    /// The folder for what is to outlive the agent cannot be used.
    #[error("{0}: cannot be used for what is to outlive the agent: {1}")]
    State(PathBuf, #[source] io::Error),
    /// The kernel refuses something.
    #[error("the agent cannot start: {0}")]
    Other(#[from] io::Error),
}

/// A running agent; dropping it ends it in order.
pub struct Agent {
    asker: Asker,
    thread: Option<JoinHandle<AgentStatus>>,
    warnings: Vec<String>,
}

impl Agent {
    /// Starts it, as [`Agent::start_with`], without a source of what threads wait for.
    ///
    /// # Errors
    /// As there.
    pub fn start(
        settings: Settings,
        keeper: Option<Box<dyn Keeper>>,
        outlet: Option<Box<dyn Outlet>>,
    ) -> Result<Self, StartError> {
        Self::start_with(settings, keeper, outlet, None)
    }

    /// Starts it: from here on, clients see that an agent listens.
    ///
    /// Raises this process's soft limit of open files to the hard one.
    ///
    /// # Errors
    /// When another agent listens in the directory, or something that it needs cannot be had.
    pub fn start_with(
        settings: Settings,
        keeper: Option<Box<dyn Keeper>>,
        outlet: Option<Box<dyn Outlet>>,
        waits: Option<Box<dyn Waits>>,
    ) -> Result<Self, StartError> {
        let mut warnings = Vec::new();
        if let Err(error) = host::allow_many_files() {
            warnings.push(format!("the limit of open files stays: {error}"));
        }
        let directory = Directory::open(&settings.directory)?;
        let watch = Watch::new(&directory.entry("."))?;
        let listener = listen(&directory, settings.socket_mode)?;
        watch.callers(std::os::fd::AsFd::as_fd(&listener))?;
        let handover = Handover::listen(&directory)?;
        watch.memories(handover.descriptor())?;

        let (rules, warning) = Rules::read(settings.state.as_deref());
        warnings.extend(warning);
        let (mut keeping, mut journal, mut left, mut last_batch) = (None, None, Left::default(), 0);
        if let Some(mut keeper) = keeper {
            last_batch = keeper.last_batch()?;
            if let Some(folder) = &settings.state {
                let opened = Journal::open(folder, last_batch);
                let (opened, found) = opened.map_err(|error| StartError::State(folder.clone(), error))?;
                (journal, left) = (Some(opened), found);
            }
            keeping = Some(Keeping::start(keeper, settings.state.clone())?);
        }
        let mut state = AgentState::new(settings.host.clone(), host::unix_offset_ns(), rules, settings.slow_ns);
        state.outlet = outlet;
        state.waits = waits;

        let (orders, to_do) = channel();
        let kept = keeping.as_ref().map(Keeping::asker);
        let asker = Asker { orders, waker: watch.waker(), kept };
        let parts =
            intake::Parts { settings, directory, watch, listener, handover, to_do, keeping, journal, left, last_batch };
        let intake = Intake::new(parts, state, asker.clone());
        let thread = std::thread::Builder::new().name("arm-intake".to_owned()).spawn(move || intake.run())?;
        Ok(Self { asker, thread: Some(thread), warnings })
    }

    /// What did not work at the start, in words; the agent runs all the same.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Asks it, as over its socket. [`Ask::Tail`] is [`Agent::subscribe`] here.
    #[must_use]
    pub fn ask(&self, ask: Ask) -> Answer {
        self.asker.ask(ask)
    }

    /// Something with which other threads ask it.
    #[must_use]
    pub fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// Follows its transactions. At most `most` wait for a slow subscriber; the rest are counted as missed. `None` =
    /// the agent has ended.
    #[must_use]
    pub fn subscribe(&self, filter: Filter, most: usize) -> Option<Subscription> {
        self.asker.subscribe(filter, most)
    }

    /// Whether it has ended by itself, which it does only by a fault of its own.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it: clients see that no agent listens, and the keeper gets the figures. Returns the last status.
    #[must_use]
    pub fn stop(mut self) -> AgentStatus {
        self.end().unwrap_or_default()
    }

    fn end(&mut self) -> Option<AgentStatus> {
        let thread = self.thread.take()?;
        self.asker.order(Order::End);
        thread.join().ok()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.end();
    }
}
