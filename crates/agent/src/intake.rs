//! What the agent's own thread has: it looks after clients, pass by pass (`agent_loop.rs` is the thread).

use crate::agent_state::{AgentState, MOST_EXEMPLARS};
use crate::asker::{Asker, Order};
use crate::client::{COPIED_SLOTS, Client, Look};
use crate::directory::{Announcement, Directory};
use crate::folds::{Cells, LastMinute};
use crate::handover::{Handed, Handover};
use crate::host;
use crate::journal::{self, Journal, Left, Line, MOST_BYTES, Position};
use crate::keeper::Batch;
use crate::keeping::Keeping;
use crate::memory::{Memory, MemoryError};
use crate::pacing::{self, Held, Pace, Turns, next_wait};
use crate::protocol::Counts;
use crate::settings::Settings;
use crate::socket::Callers;
use crate::transaction::Transaction;
use crate::watch::{Watch, process_descriptor};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use weir_wire::Slot;

/// What the agent's thread is made of.
pub(crate) struct Parts {
    pub(crate) settings: Settings,
    pub(crate) directory: Directory,
    pub(crate) watch: Watch,
    pub(crate) listener: UnixListener,
    pub(crate) handover: Handover,
    pub(crate) to_do: Receiver<Order>,
    pub(crate) keeping: Option<Keeping>,
    pub(crate) journal: Option<Journal>,
    pub(crate) left: Left,
    pub(crate) last_batch: u64,
}

/// A memory that is not read, until it is tried again.
struct Retry {
    reason: String,
    again_ns: u64,
    delay_ns: u64,
}

/// The agent's own thread.
pub(crate) struct Intake {
    pub(crate) parts: Parts,
    pub(crate) state: AgentState,
    pub(crate) clients: BTreeMap<u32, Client>,
    by_announcement: HashMap<Announcement, u32>,
    refused: HashMap<Announcement, Retry>,
    held: Held,
    turns: Turns,
    pub(crate) ended: Vec<u32>,
    next_number: u32,
    copied: Vec<Slot>,
    pub(crate) callers: Callers,
    pub(crate) asker: Asker,
    pass: u64,
    noted_ns: u64,
    started_ns: u64,
    pub(crate) wait: Duration,
    pub(crate) minute: LastMinute,
    pub(crate) counts: Counts,
    batch: Cells,
    batch_number: u64,
    batch_counts: Counts,
    exemplars: Vec<Transaction>,
    batch_begun_ns: u64,
    journal_warning: Option<String>,
}

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// How full a lane may become before its client hears that it was read; figures are added up that often at least.
const MOST_UNPUBLISHED: f32 = 0.25;
const MOST_REFUSED: usize = 1000;
const MOST_MEMORIES: usize = 256;

impl Intake {
    pub(crate) fn new(parts: Parts, state: AgentState, asker: Asker) -> Self {
        let now_ns = host::now_ns();
        Self {
            wait: parts.settings.beat,
            parts,
            state,
            clients: BTreeMap::new(),
            by_announcement: HashMap::new(),
            refused: HashMap::new(),
            held: Held::default(),
            turns: Turns::default(),
            ended: Vec::new(),
            next_number: 0,
            copied: vec![Slot::default(); COPIED_SLOTS],
            callers: Callers::default(),
            asker,
            pass: 0,
            noted_ns: now_ns,
            started_ns: now_ns,
            minute: LastMinute::new(now_ns),
            counts: Counts::default(),
            batch: Cells::default(),
            batch_number: 0,
            batch_counts: Counts::default(),
            exemplars: Vec::new(),
            batch_begun_ns: now_ns,
            journal_warning: None,
        }
    }

    /// Takes over what a former agent left.
    pub(crate) fn take_over(&mut self) {
        let left = std::mem::take(&mut self.parts.left.batches);
        let last = left.last().map_or(0, |batch| batch.number).max(self.parts.last_batch);
        if let Some(keeping) = &self.parts.keeping {
            for batch in left {
                keeping.keep(batch);
            }
        }
        self.counts.batches_dropped += self.parts.left.given_up;
        self.begin_batch(last + 1, host::now_ns());
    }

    /// Looks at all announcements, and whether clients are still what they were.
    pub(crate) fn look_through(&mut self) {
        // Those that are not in use: their process runs another program.
        let gone = self.clients.iter_mut().filter_map(|(number, client)| (!client.is_in_use()).then_some(*number));
        self.ended.extend(gone);
        let (announcements, _) = self.parts.directory.announcements(self.parts.settings.most_processes * 2);
        for announcement in announcements {
            if !self.by_announcement.contains_key(&announcement) && !self.refused.contains_key(&announcement) {
                self.attach(announcement);
            }
        }
    }

    /// Takes the announcements that have come.
    pub(crate) fn take_announcements(&mut self) {
        let mut come = Vec::new();
        let whole = self.parts.watch.names(|name| come.extend(Announcement::of_name(name)));
        come.sort_unstable();
        come.dedup();
        for announcement in come {
            self.attach(announcement);
        }
        if !whole {
            self.look_through();
        }
    }

    pub(crate) fn try_refused_again(&mut self, now_ns: u64) {
        let due = self.refused.iter().filter(|refused| refused.1.again_ns <= now_ns);
        let due: Vec<Announcement> = due.map(|refused| *refused.0).collect();
        for announcement in due {
            self.attach(announcement);
        }
    }

    /// Opens an announced memory, if it can be trusted so far.
    fn attach(&mut self, announcement: Announcement) {
        if let Some(known) = self.by_announcement.get(&announcement).and_then(|number| self.clients.get(number)) {
            if known.memory.is_at(announcement) {
                return;
            }
            // The same numbers stand for another memory by now. The former one may still be in use by threads that
            // have it; if not, its client ends at the next round.
            self.by_announcement.remove(&announcement);
        }
        match self.open(announcement) {
            Ok(()) => {
                self.refused.remove(&announcement);
            }
            Err(MemoryError::Gone) => {
                self.refused.remove(&announcement);
                self.parts.directory.remove(announcement);
            }
            Err(error) => self.refuse(announcement, &error),
        }
    }

    fn refuse(&mut self, announcement: Announcement, error: &MemoryError) {
        let now_ns = host::now_ns();
        let delay_ns = self.refused.get(&announcement).map_or(SECOND_NS, |refused| refused.delay_ns * 2);
        let delay_ns = delay_ns.min(60 * SECOND_NS);
        if self.refused.len() < MOST_REFUSED || self.refused.contains_key(&announcement) {
            tracing::debug!(pid = announcement.pid, %error, "agent refuses a client");
            let retry = Retry { reason: error.to_string(), again_ns: now_ns + delay_ns, delay_ns };
            self.refused.insert(announcement, retry);
        }
    }

    /// Takes the memories that clients sent. The bound keeps a client that sends many from stalling the agent.
    pub(crate) fn take_memories(&mut self) {
        for handed in self.parts.handover.take(MOST_MEMORIES, host::now_ns()) {
            let announcement = handed.announcement;
            match self.take(handed) {
                Ok(()) => drop(self.refused.remove(&announcement)),
                Err(error) => self.refuse(announcement, &error),
            }
        }
    }

    fn take(&mut self, handed: Handed) -> Result<(), MemoryError> {
        let announcement = handed.announcement;
        self.has_room()?;
        let memory = Memory::handed(handed.file, announcement, handed.uid)?;
        // A number that was given again since is found at the next look through the directory.
        let process = process_descriptor(announcement.pid).ok();
        self.add(announcement, process, memory)
    }

    fn has_room(&self) -> Result<(), MemoryError> {
        let most = self.parts.settings.most_processes;
        if self.clients.len() < most {
            return Ok(());
        }
        Err(std::io::Error::other(format!("{most} processes are being read already")).into())
    }

    fn open(&mut self, announcement: Announcement) -> Result<(), MemoryError> {
        let owner = self.parts.directory.owner(announcement).ok_or(MemoryError::Gone)?;
        let process = process_descriptor(announcement.pid).map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => MemoryError::Gone,
            _ => MemoryError::Other(error),
        })?;
        self.has_room()?;
        let memory = Memory::open(announcement, owner)?;
        self.add(announcement, Some(process), memory)
    }

    /// From here on it is read.
    fn add(&mut self, announcement: Announcement, process: Option<OwnedFd>, memory: Memory) -> Result<(), MemoryError> {
        if let Some((number, _)) = self.clients.iter().find(|(_, client)| client.memory.inode == memory.inode) {
            self.by_announcement.insert(announcement, *number);
            return Ok(());
        }
        let number = self.next_number;
        self.next_number = self.next_number.wrapping_add(1);
        match &process {
            Some(process) => self.parts.watch.client(process.as_fd(), number)?,
            None => self.ended.push(number),
        }
        if let Some(outlet) = &mut self.state.outlet {
            outlet.knows(memory.token.0);
        }
        if let Some(waits) = &mut self.state.waits {
            waits.follow(announcement.pid);
        }
        let command = host::command_of(announcement.pid);
        tracing::info!(pid = announcement.pid, number, command, "agent reads a client");
        let client = Client::new(number, announcement, process, memory, command, &self.parts.left.positions);
        client.say_listening(host::now_ns());
        self.clients.insert(number, client);
        self.turns.add(number);
        self.by_announcement.insert(announcement, number);
        Ok(())
    }

    /// Before a question is answered: with very many clients, some were last looked at a second ago.
    pub(crate) fn catch_up(&mut self) {
        if pacing::are_many(self.clients.len()) {
            self.pass(host::now_ns(), self.pace().of_all());
        }
    }

    pub(crate) fn pace(&self) -> Pace {
        Pace::of(self.clients.len(), !self.state.subscribers.is_empty())
    }

    /// Looks at every client whose turn it is, and hands on what has come.
    pub(crate) fn pass(&mut self, now_ns: u64, pace: Pace) {
        self.pass += 1;
        if let Some(waits) = &mut self.state.waits {
            waits.look();
        }
        let limits = self.held.limits();
        let (mut fill, mut unpublished) = (0f32, 0f32);
        let Self { turns, clients, state, copied, held, pass: number, .. } = self;
        turns.take(pace, *number, clients, |client| {
            client.say_listening(now_ns);
            client.looked_in = *number;
            let look: Look = client.look(state, copied, limits);
            held.follow(client);
            fill = fill.max(look.fill);
            unpublished = unpublished.max(look.unpublished);
        });
        let ended: Vec<Client> =
            std::mem::take(&mut self.ended).iter().filter_map(|it| self.clients.remove(it)).collect();
        let ended: Vec<Client> = ended
            .into_iter()
            .map(|mut client| {
                client.end(&mut self.state, &mut self.copied, limits, host::now_ns());
                self.held.follow(&mut client);
                client
            })
            .collect();
        if self.state.misses_parents() {
            for client in self.clients.values_mut().filter(|client| client.looked_in != self.pass) {
                client.look(&mut self.state, &mut self.copied, limits);
            }
        }
        self.state.settle();
        for place in std::mem::take(&mut self.state.children) {
            if let Some(client) = self.clients.get_mut(&place.client) {
                client.child(place.handle);
            }
        }
        let is_time = now_ns.saturating_sub(self.noted_ns) >= pace.round_off_ns(self.parts.settings.beat);
        if is_time || unpublished > MOST_UNPUBLISHED || !ended.is_empty() {
            self.round_off(now_ns);
        }
        for client in ended {
            self.forget(&client);
        }
        self.wait = next_wait(self.wait, fill, self.parts.settings.beat);
    }

    /// Notes what some passes have brought, lets the clients know, and adds it to the figures.
    pub(crate) fn round_off(&mut self, now_ns: u64) {
        self.noted_ns = now_ns;
        self.note();
        self.clients.values_mut().for_each(Client::publish);
        self.hand_on(now_ns);
    }

    fn forget(&mut self, client: &Client) {
        let announcement = client.announcement;
        if self.by_announcement.get(&announcement) == Some(&client.number) {
            self.by_announcement.remove(&announcement);
        }
        self.by_announcement.retain(|_, number| *number != client.number);
        if process_descriptor(announcement.pid).is_err() {
            self.parts.directory.remove(announcement);
        }
    }

    /// Writes what some passes have brought into the journal, before the clients hear that it was read.
    fn note(&mut self) {
        let Some(journal) = &mut self.parts.journal else { return };
        let positions: Vec<Position> = self.clients.values().flat_map(Client::positions).collect();
        if positions.is_empty() && self.state.pass.is_empty() && self.state.counts == Counts::default() {
            return;
        }
        let classes = &self.state.classes;
        let folds = self.state.pass.folds(|class| classes.names(class));
        let exemplars = std::mem::take(&mut self.state.exemplars);
        let line = Line { folds, exemplars, counts: self.state.counts, positions };
        self.journal_warning = journal
            .write(&line)
            .err()
            .map(|error| format!("{}: a killed agent would lose figures: {error}", journal.folder().display()));
        self.state.exemplars = line.exemplars;
    }

    /// Adds that to the figures, and hands a whole batch to the keeper.
    fn hand_on(&mut self, now_ns: u64) {
        let state = &mut self.state;
        for (whose, cell) in state.pass.each() {
            let class = state.classes.get(whose.class);
            class.outcomes.merge(&cell.outcomes);
            class.durations.merge(&cell.durations);
            class.blocked_ns = class.blocked_ns.saturating_add(cell.blocked_ns);
        }
        self.minute.merge(&state.pass, now_ns);
        let counts = std::mem::take(&mut state.counts);
        self.counts.add(&counts);
        if self.parts.keeping.is_some() {
            self.batch.merge(&state.pass);
            self.batch_counts.add(&counts);
            self.exemplars.append(&mut state.exemplars);
        }
        state.exemplars.clear();
        state.pass.clear();
        let journal_full = self.parts.journal.as_ref().is_some_and(|journal| journal.bytes() >= MOST_BYTES);
        let batch_ns = self.parts.settings.batch.as_nanos() as u64;
        if journal_full || now_ns.saturating_sub(self.batch_begun_ns) >= batch_ns {
            self.close_batch(now_ns);
        }
    }

    pub(crate) fn close_batch(&mut self, now_ns: u64) {
        if let Some(keeping) = &self.parts.keeping
            && (self.batch_counts != Counts::default() || !self.batch.is_empty() || !self.exemplars.is_empty())
        {
            let classes = &self.state.classes;
            let batch = Batch {
                number: self.batch_number,
                folds: self.batch.folds(|class| classes.names(class)),
                exemplars: std::mem::take(&mut self.exemplars),
                counts: std::mem::take(&mut self.batch_counts),
            };
            if let Some(given_up) = keeping.keep(batch) {
                self.counts.batches_dropped += 1;
                if let Some(journal) = &self.parts.journal {
                    journal::remove(journal.folder(), given_up);
                }
            }
            self.begin_batch(self.batch_number + 1, now_ns);
        } else {
            self.batch_begun_ns = now_ns;
            self.state.room_for_exemplars = MOST_EXEMPLARS;
        }
    }

    fn begin_batch(&mut self, number: u64, now_ns: u64) {
        self.batch.clear();
        self.batch_number = number;
        self.batch_begun_ns = now_ns;
        self.state.room_for_exemplars = MOST_EXEMPLARS;
        if let Some(journal) = &mut self.parts.journal
            && let Err(error) = journal.begin(number)
        {
            let folder = journal.folder().display();
            self.journal_warning = Some(format!("{folder}: a killed agent would lose figures: {error}"));
        }
    }

    /// Announcements that are not read, with the reason, by name.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (Announcement, &str)> {
        let mut refused: Vec<_> = self.refused.iter().map(|(at, refused)| (*at, refused.reason.as_str())).collect();
        refused.sort_unstable();
        refused.into_iter()
    }

    /// What does not work, in words.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let keeping = self.parts.keeping.as_ref().and_then(Keeping::error);
        let keeping = keeping.map(|error| format!("figures cannot be kept now: {error}"));
        let capture = self.state.waits.as_ref().and_then(|waits| waits.status().in_words());
        self.journal_warning.iter().cloned().chain(keeping).chain(capture).collect()
    }

    /// How long it has been listening, nanoseconds.
    pub(crate) fn up_ns(&self) -> u64 {
        host::now_ns().saturating_sub(self.started_ns)
    }

    /// The last pass over the clients; it writes no heartbeat.
    pub(crate) fn last_pass(&mut self) {
        let limits = self.held.limits();
        for client in self.clients.values_mut() {
            client.look(&mut self.state, &mut self.copied, limits);
        }
        self.state.settle();
        self.round_off(host::now_ns());
    }
}
