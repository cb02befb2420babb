//! The agent's own thread: looks after clients, pass by pass, and answers.

use crate::agent::{Asker, Settings};
use crate::answers;
use crate::client::{COPIED_SLOTS, Client, Look};
use crate::directory::{Announcement, Directory};
use crate::folds::{Cells, LastMinute};
use crate::handover::{Handed, Handover};
use crate::host;
use crate::journal::{self, Journal, Left, Line, MOST_BYTES, Position};
use crate::keeper::Batch;
use crate::keeping::Keeping;
use crate::memory::{Memory, RefusedMemory};
use crate::pacing::{self, Held, Pace, Turns, next_wait};
use crate::protocol::{AgentStatus, Answer, Ask, Counts, SOCKET_NAME};
use crate::socket::Callers;
use crate::subscription::Subscriber;
use crate::transaction::{Transaction, Wanted};
use crate::watch::{Event, Watch, process_descriptor};
use crate::world::{MOST_EXEMPLARS, World};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;
use weir_wire::Slot;
use weir_wire::arm::HANDOVER_NAME;

/// What the agent's thread is asked to do.
pub(crate) enum Order {
    Ask(Ask, Sender<Answer>),
    Find(Wanted, usize, Sender<Vec<Transaction>>),
    Subscribe(Subscriber),
    End,
}

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
struct Refusal {
    reason: String,
    again_ns: u64,
    delay_ns: u64,
}

/// The agent's own thread.
pub(crate) struct Intake {
    pub(crate) parts: Parts,
    pub(crate) world: World,
    pub(crate) clients: BTreeMap<u32, Client>,
    by_announcement: HashMap<Announcement, u32>,
    refused: HashMap<Announcement, Refusal>,
    held: Held,
    turns: Turns,
    ended: Vec<u32>,
    next_number: u32,
    copied: Vec<Slot>,
    callers: Callers,
    asker: Asker,
    pass: u64,
    noted_ns: u64,
    started_ns: u64,
    wait: Duration,
    pub(crate) minute: LastMinute,
    pub(crate) counts: Counts,
    batch: Cells,
    batch_number: u64,
    batch_counts: Counts,
    exemplars: Vec<Transaction>,
    batch_begun_ns: u64,
    journal_warning: Option<String>,
}

const SECOND_NS: u64 = 1_000_000_000;
/// How often the directory is looked through, and clients are held against it.
const ROUND_NS: u64 = 10 * SECOND_NS;
/// How full a lane may become before its client hears that it was read; figures are added up that often at least.
const MOST_UNPUBLISHED: f32 = 0.25;
const MOST_REFUSED: usize = 1000;
const MOST_MEMORIES: usize = 256;

impl Intake {
    pub(crate) fn new(parts: Parts, world: World, asker: Asker) -> Self {
        let now_ns = host::now_ns();
        Self {
            wait: parts.settings.beat,
            parts,
            world,
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

    /// Until it is told to end.
    pub(crate) fn run(mut self) -> AgentStatus {
        self.take_over();
        self.look_through();
        let (mut next_pass_ns, mut next_round_ns, mut next_second_ns) = (0, host::now_ns() + ROUND_NS, 0);
        loop {
            // Before the pass, so that a new subscriber gets all that comes after it asked.
            while let Ok(order) = self.parts.to_do.try_recv() {
                match order {
                    // The caller may have gone: then the answer is dropped.
                    Order::Ask(ask, answer) => {
                        if matches!(ask, Ask::List | Ask::Top { .. }) {
                            self.catch_up();
                        }
                        drop(answer.send(answers::answer(&mut self, &ask)));
                    }
                    Order::Find(wanted, most, answer) => {
                        self.catch_up();
                        drop(answer.send(self.world.find(wanted, most)));
                    }
                    Order::Subscribe(subscriber) => self.world.subscribers.push(subscriber),
                    Order::End => return self.end(),
                }
            }
            let now_ns = host::now_ns();
            if now_ns >= next_pass_ns {
                if self.parts.handover.is_waiting() {
                    self.take_memories();
                }
                self.pass(now_ns, self.pace());
                next_pass_ns = now_ns + self.wait.as_nanos() as u64;
            }
            if now_ns >= next_second_ns {
                self.world.unix_offset_ns = host::unix_offset_ns();
                self.try_refused_again(now_ns);
                next_second_ns = now_ns + SECOND_NS;
            }
            if now_ns >= next_round_ns {
                self.look_through();
                next_round_ns = now_ns + ROUND_NS;
            }
            let rest = Duration::from_nanos(next_pass_ns.saturating_sub(host::now_ns()));
            for event in self.parts.watch.wait(rest) {
                match event {
                    Event::Woken => {}
                    Event::Directory => self.take_announcements(),
                    Event::Caller => self.callers.accept(&self.parts.listener, &self.asker),
                    Event::Memory => self.take_memories(),
                    Event::Ended(number) => self.ended.push(number),
                }
            }
        }
    }

    /// Takes over what a former agent left.
    fn take_over(&mut self) {
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
    fn look_through(&mut self) {
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
    fn take_announcements(&mut self) {
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

    fn try_refused_again(&mut self, now_ns: u64) {
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
            Err(RefusedMemory::Gone) => {
                self.refused.remove(&announcement);
                self.parts.directory.remove(announcement);
            }
            Err(error) => self.refuse(announcement, &error),
        }
    }

    fn refuse(&mut self, announcement: Announcement, error: &RefusedMemory) {
        let now_ns = host::now_ns();
        let delay_ns = self.refused.get(&announcement).map_or(SECOND_NS, |refused| refused.delay_ns * 2);
        let delay_ns = delay_ns.min(60 * SECOND_NS);
        if self.refused.len() < MOST_REFUSED || self.refused.contains_key(&announcement) {
            tracing::debug!(pid = announcement.pid, %error, "agent refuses a client");
            let refusal = Refusal { reason: error.to_string(), again_ns: now_ns + delay_ns, delay_ns };
            self.refused.insert(announcement, refusal);
        }
    }

    /// Takes the memories that clients sent. The bound keeps a client that sends many from stalling the agent.
    fn take_memories(&mut self) {
        for handed in self.parts.handover.take(MOST_MEMORIES, host::now_ns()) {
            let announcement = handed.announcement;
            match self.take(handed) {
                Ok(()) => drop(self.refused.remove(&announcement)),
                Err(error) => self.refuse(announcement, &error),
            }
        }
    }

    fn take(&mut self, handed: Handed) -> Result<(), RefusedMemory> {
        let announcement = handed.announcement;
        self.has_room()?;
        let memory = Memory::handed(handed.file, announcement, handed.uid)?;
        // A number that was given again since is found at the next look through the directory.
        let process = process_descriptor(announcement.pid).ok();
        self.add(announcement, process, memory)
    }

    fn has_room(&self) -> Result<(), RefusedMemory> {
        let most = self.parts.settings.most_processes;
        if self.clients.len() < most {
            return Ok(());
        }
        Err(std::io::Error::other(format!("{most} processes are being read already")).into())
    }

    fn open(&mut self, announcement: Announcement) -> Result<(), RefusedMemory> {
        let owner = self.parts.directory.owner(announcement).ok_or(RefusedMemory::Gone)?;
        let process = process_descriptor(announcement.pid).map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => RefusedMemory::Gone,
            _ => RefusedMemory::Other(error),
        })?;
        self.has_room()?;
        let memory = Memory::open(announcement, owner)?;
        self.add(announcement, Some(process), memory)
    }

    /// From here on it is read.
    fn add(
        &mut self,
        announcement: Announcement,
        process: Option<OwnedFd>,
        memory: Memory,
    ) -> Result<(), RefusedMemory> {
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
        if let Some(outlet) = &mut self.world.outlet {
            outlet.knows(memory.token.0);
        }
        if let Some(waits) = &mut self.world.waits {
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
    fn catch_up(&mut self) {
        if pacing::are_many(self.clients.len()) {
            self.pass(host::now_ns(), self.pace().of_all());
        }
    }

    fn pace(&self) -> Pace {
        Pace::of(self.clients.len(), !self.world.subscribers.is_empty())
    }

    /// Looks at every client whose turn it is, and hands on what has come.
    fn pass(&mut self, now_ns: u64, pace: Pace) {
        self.pass += 1;
        if let Some(waits) = &mut self.world.waits {
            waits.look();
        }
        let limits = self.held.limits();
        let (mut fill, mut unpublished) = (0f32, 0f32);
        let Self { turns, clients, world, copied, held, pass: number, .. } = self;
        turns.take(pace, *number, clients, |client| {
            client.say_listening(now_ns);
            client.looked_in = *number;
            let look: Look = client.look(world, copied, limits);
            held.follow(client);
            fill = fill.max(look.fill);
            unpublished = unpublished.max(look.unpublished);
        });
        let ended: Vec<Client> =
            std::mem::take(&mut self.ended).iter().filter_map(|it| self.clients.remove(it)).collect();
        let ended: Vec<Client> = ended
            .into_iter()
            .map(|mut client| {
                client.end(&mut self.world, &mut self.copied, limits, host::now_ns());
                self.held.follow(&mut client);
                client
            })
            .collect();
        if self.world.misses_parents() {
            for client in self.clients.values_mut().filter(|client| client.looked_in != self.pass) {
                client.look(&mut self.world, &mut self.copied, limits);
            }
        }
        self.world.settle();
        for place in std::mem::take(&mut self.world.children) {
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
        if positions.is_empty() && self.world.pass.is_empty() && self.world.counts == Counts::default() {
            return;
        }
        let classes = &self.world.classes;
        let folds = self.world.pass.folds(|class| classes.names(class));
        let exemplars = std::mem::take(&mut self.world.exemplars);
        let line = Line { folds, exemplars, counts: self.world.counts, positions };
        self.journal_warning = journal
            .write(&line)
            .err()
            .map(|error| format!("{}: a killed agent would lose figures: {error}", journal.folder().display()));
        self.world.exemplars = line.exemplars;
    }

    /// Adds that to the figures, and hands a whole batch to the keeper.
    fn hand_on(&mut self, now_ns: u64) {
        let world = &mut self.world;
        for (whose, cell) in world.pass.each() {
            let class = world.classes.get(whose.class);
            class.outcomes.merge(&cell.outcomes);
            class.durations.merge(&cell.durations);
            class.blocked_ns = class.blocked_ns.saturating_add(cell.blocked_ns);
        }
        self.minute.merge(&world.pass, now_ns);
        let counts = std::mem::take(&mut world.counts);
        self.counts.add(&counts);
        if self.parts.keeping.is_some() {
            self.batch.merge(&world.pass);
            self.batch_counts.add(&counts);
            self.exemplars.append(&mut world.exemplars);
        }
        world.exemplars.clear();
        world.pass.clear();
        let journal_full = self.parts.journal.as_ref().is_some_and(|journal| journal.bytes() >= MOST_BYTES);
        let batch_ns = self.parts.settings.batch.as_nanos() as u64;
        if journal_full || now_ns.saturating_sub(self.batch_begun_ns) >= batch_ns {
            self.close_batch(now_ns);
        }
    }

    fn close_batch(&mut self, now_ns: u64) {
        if let Some(keeping) = &self.parts.keeping
            && (self.batch_counts != Counts::default() || !self.batch.is_empty() || !self.exemplars.is_empty())
        {
            let classes = &self.world.classes;
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
            self.world.room_for_exemplars = MOST_EXEMPLARS;
        }
    }

    fn begin_batch(&mut self, number: u64, now_ns: u64) {
        self.batch.clear();
        self.batch_number = number;
        self.batch_begun_ns = now_ns;
        self.world.room_for_exemplars = MOST_EXEMPLARS;
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
        let capture = self.world.waits.as_ref().and_then(|waits| waits.status().in_words());
        self.journal_warning.iter().cloned().chain(keeping).chain(capture).collect()
    }

    /// How long it has been listening, nanoseconds.
    pub(crate) fn up_ns(&self) -> u64 {
        host::now_ns().saturating_sub(self.started_ns)
    }

    /// Ends in order.
    fn end(mut self) -> AgentStatus {
        for client in self.clients.values() {
            client.say_listening(0);
        }
        // What was written before they knew of it: two passes, as a process with several lanes needs them.
        for _ in 0..2 {
            self.last_pass();
        }
        self.close_batch(host::now_ns());
        self.callers.hang_up();
        let status = answers::status(&self);
        if let Some(keeping) = &mut self.parts.keeping {
            keeping.end();
        }
        for name in [SOCKET_NAME, HANDOVER_NAME] {
            let _ = fs::remove_file(self.parts.directory.entry(name));
        }
        status
    }

    /// The last pass over the clients; it writes no heartbeat.
    fn last_pass(&mut self) {
        let limits = self.held.limits();
        for client in self.clients.values_mut() {
            client.look(&mut self.world, &mut self.copied, limits);
        }
        self.world.settle();
        self.round_off(host::now_ns());
    }
}
