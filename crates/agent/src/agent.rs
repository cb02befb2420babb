//! The agent: its settings, its thread, and how it is asked.

use crate::directory::{Directory, DirectoryError, usual};
use crate::handover::Handover;
use crate::intake::{Intake, Order};
use crate::journal::{Journal, Left};
use crate::keeper::{KeepError, Keeper};
use crate::keeping::{Keeping, KeptBy};
use crate::outlet::Outlet;
use crate::protocol::{AgentStatus, Answer, Ask, Filter};
use crate::socket::{SocketError, listen};
use crate::subscription::Subscription;
use crate::switches::Rules;
use crate::transaction::{Transaction, TransactionId, Wanted};
use crate::waits::Waits;
use crate::watch::{Waker, Watch};
use crate::world::World;
use crate::{host, intake};
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Transactions of a trace that are shown.
const MOST_SHOWN: usize = 1000;
/// How long an answer may take.
const MOST_WAIT: Duration = Duration::from_secs(10);

/// How the agent is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The ARM directory.
    pub directory: PathBuf,
    /// A folder for what is to outlive the agent beside the keeper's: switches, and figures that are not kept yet.
    /// `None` = nothing does.
    pub state: Option<PathBuf>,
    /// The host's name, as transactions tell it.
    pub host: String,
    /// From which duration on every transaction is kept whole, nanoseconds; each minute's slowest ones are anyway.
    pub slow_ns: u64,
    /// The mode of the socket: it says which users may ask.
    pub socket_mode: u32,
    /// How often clients are looked at where little comes; where much does, it is more often.
    pub beat: Duration,
    /// How often figures are handed to the keeper.
    pub batch: Duration,
    /// Client processes at a time.
    pub most_processes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            directory: usual(),
            state: None,
            host: host::name(),
            slow_ns: u64::MAX,
            socket_mode: 0o600,
            beat: Duration::from_millis(100),
            batch: Duration::from_secs(10),
            most_processes: 4096,
        }
    }
}

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

/// Asks the agent from any thread of its process.
#[derive(Clone)]
pub struct Asker {
    orders: Sender<Order>,
    waker: Waker,
    kept: Option<KeptBy>,
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
        let mut world = World::new(settings.host.clone(), host::unix_offset_ns(), rules, settings.slow_ns);
        world.outlet = outlet;
        world.waits = waits;

        let (orders, to_do) = channel();
        let kept = keeping.as_ref().map(Keeping::asker);
        let asker = Asker { orders, waker: watch.waker(), kept };
        let parts =
            intake::Parts { settings, directory, watch, listener, handover, to_do, keeping, journal, left, last_batch };
        let intake = Intake::new(parts, world, asker.clone());
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

impl Asker {
    /// Asks the agent.
    #[must_use]
    pub fn ask(&self, ask: Ask) -> Answer {
        match ask {
            Ask::Show { id } => match id.parse() {
                Ok(wanted) => self.show(wanted),
                Err(error) => Answer::Error { message: error.to_string() },
            },
            Ask::Tail(_) => Answer::Error { message: "subscribe to follow transactions in process".to_owned() },
            ask => self.ask_intake(|answer| Order::Ask(ask, answer)).unwrap_or_else(gone_answer),
        }
    }

    /// Follows the agent's transactions; `None` = it has ended.
    #[must_use]
    pub fn subscribe(&self, filter: Filter, most: usize) -> Option<Subscription> {
        let (subscriber, subscription) = Subscription::new(filter, most);
        self.order(Order::Subscribe(subscriber)).then_some(subscription)
    }

    /// All of a trace: what the agent still has, and what is kept.
    fn show(&self, wanted: Wanted) -> Answer {
        let mut found = match self.find(wanted) {
            Ok(found) => found,
            Err(answer) => return answer,
        };
        if let (Wanted::Span(_), Some(first)) = (wanted, found.first()) {
            found = match self.find(Wanted::Trace(first.id.trace)) {
                Ok(found) => found,
                Err(answer) => return answer,
            };
        }
        let mut known: HashSet<TransactionId> = HashSet::new();
        found.retain(|transaction| known.insert(transaction.id));
        found.sort_by_key(|transaction| (transaction.start_unix_ns, std::cmp::Reverse(transaction.duration_ns)));
        let missing = found.len().saturating_sub(MOST_SHOWN) as u32;
        found.truncate(MOST_SHOWN);
        Answer::Trace { transactions: found, missing }
    }

    fn find(&self, wanted: Wanted) -> Result<Vec<Transaction>, Answer> {
        let kept = self.kept.as_ref().and_then(|kept| kept.find(wanted, MOST_SHOWN));
        let recent = self.ask_intake(|answer| Order::Find(wanted, MOST_SHOWN, answer));
        let mut found = recent.ok_or_else(gone_answer)?;
        match kept.map(|kept| kept.recv_timeout(MOST_WAIT)) {
            Some(Ok(Ok(more))) => found.extend(more),
            Some(Ok(Err(error))) if found.is_empty() => {
                return Err(Answer::Error { message: format!("what is kept cannot be read: {error}") });
            }
            // What the agent has itself is shown all the same.
            _ => {}
        }
        Ok(found)
    }

    fn ask_intake<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Option<T> {
        let (answer, answered) = channel();
        self.order(order(answer)).then(|| answered.recv_timeout(MOST_WAIT).ok()).flatten()
    }

    fn order(&self, order: Order) -> bool {
        let sent = self.orders.send(order).is_ok();
        self.waker.wake();
        sent
    }
}

fn gone_answer() -> Answer {
    Answer::Error { message: "the agent has ended, or does not answer".to_owned() }
}
