//! The director of a pair: it is active, or stands by with the same table and takes over.
//!
//! `weir_cluster`'s `Duty` decides; here are the lock in the directory, the service's addresses at the interface, and the
//! threads that carry it out. `pair_replica.rs` tells the other director the table, and takes in what that one tells.

use super::directory_place::DirectoryPlace;
use super::members::{DIRECTOR, FILE, MembersFile, Reached, STANDBY};
use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_cluster::{
    Control, Director, Duty, DutySettings, Heartbeats, LinkClient, Message, NodeName, NodeNumber, Noticed, Replicated,
    Seat, Wish,
};
use weir_directory::{Directory, DirectoryError, Epoch};
use weir_keeper::{Flow, ServiceAddress};

/// The lock of the active director in the directory.
pub(super) const LOCK: &str = "director";
/// It ends by itself after this: only where the other director has not heard the active one, and cannot take it over.
const LOCK_TTL: Duration = Duration::from_secs(3);
/// How often it is renewed, and asked for while it may be free.
const LOCK_PAUSE: Duration = Duration::from_millis(500);
/// For how long a free lock is left to the other director, which has begun the newest epoch and lives.
const LEFT_FREE: Duration = Duration::from_secs(3);
/// How long the directory may take for one answer here: a takeover waits for it.
const DIRECTORY_PATIENCE: Duration = Duration::from_secs(1);
/// How long a director listens before it begins without a lock, and the second one before it takes a free one.
const LISTEN: Duration = Duration::from_secs(1);
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// The addresses are announced again after these times, and then every so often: an announcement may be lost, and a frozen
/// machine may answer for them when it wakes up.
const ANNOUNCE_AGAIN: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(200), Duration::from_millis(750), Duration::from_secs(3)];
const ANNOUNCE_PAUSE: Duration = Duration::from_secs(10);
/// How long a node may take to tell what it has, and how soon it is asked again.
const SURVEY_PATIENCE: Duration = Duration::from_secs(2);
const SURVEY_PAUSE: Duration = Duration::from_millis(20);
/// How long a command waits until this director is active, and one that ends for the other one.
const COMMAND_PATIENCE: Duration = Duration::from_secs(5);
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(1);

/// Which director of the members this is.
pub(super) fn seat_of<'m>(members: &'m MembersFile, name: &NodeName) -> anyhow::Result<(Seat, &'m Reached)> {
    let first = &members.director;
    match &members.standby {
        _ if first.member.name == *name => Ok((Seat::First, first)),
        Some(second) if second.member.name == *name => Ok((Seat::Second, second)),
        second => {
            let known = second.as_ref().map_or_else(String::new, |second| format!(" or {}", second.member.name));
            bail!(
                "the director in {FILE} is {}{known}, and this one has joined as {name}; correct one of both",
                first.member.name
            )
        }
    }
}

/// The other director of a seat, with its number in heartbeats.
pub(super) fn other_of(members: &MembersFile, seat: Seat) -> Option<(NodeNumber, &Reached)> {
    let second = members.standby.as_ref()?;
    Some(if seat == Seat::First { (STANDBY, second) } else { (DIRECTOR, &members.director) })
}

/// The number of a seat in heartbeats.
pub(super) fn number_of(seat: Seat) -> NodeNumber {
    if seat == Seat::First { DIRECTOR } else { STANDBY }
}

/// Milliseconds since 1970.
pub(super) fn now_unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(now).unwrap_or(u64::MAX)
}

/// The service's addresses at an interface.
pub(super) fn addresses(interface: &str, members: &MembersFile) -> anyhow::Result<Vec<ServiceAddress>> {
    let ips: BTreeSet<IpAddr> = members.services.iter().map(std::net::SocketAddr::ip).collect();
    ips.into_iter().map(|ip| Ok(ServiceAddress::at(interface, ip)?)).collect()
}

/// Adds the addresses where they are missing, and tells the network.
pub(super) fn add(addresses: &[ServiceAddress]) {
    for address in addresses {
        match address.add().and_then(|added| address.announce().map(|()| added)) {
            Ok(true) => eprintln!("weir cluster director: {} is at this interface now", address.address()),
            Ok(false) => {}
            Err(error) => eprintln!("weir cluster director: {error}"),
        }
    }
}

/// What the threads of a director have in common.
pub(super) struct Pair {
    pub(super) seat: Seat,
    pub(super) name: NodeName,
    pub(super) other: Reached,
    pub(super) director: Arc<Director>,
    pub(super) replicated: Mutex<Replicated>,
    /// The epoch in which this director is active; 0 while it stands by.
    active: AtomicU64,
    /// The newest epoch that was heard or begun.
    newest: AtomicU64,
    pub(super) is_other_up: AtomicBool,
    /// The epoch from which the other director has resigned.
    pub(super) resigned: AtomicU64,
    /// A command wants this director to be active.
    is_wanted: AtomicBool,
    /// Whether it was active since its start.
    was_active: AtomicBool,
    nodes: Vec<NodeNumber>,
    addresses: Vec<ServiceAddress>,
    lock: Option<Lock>,
    pub(super) differing: Differing,
    /// The weights of nodes: this director's own while it is active, else those of the other one.
    pub(super) weights: Mutex<BTreeMap<NodeNumber, u16>>,
}

/// Tells the connections of the tables that are not where their hash says, or were steered.
pub(super) type Differing = Box<dyn Fn() -> Vec<(Flow, NodeNumber)> + Send + Sync>;

/// The lock in the directory.
struct Lock {
    directory: Box<dyn Directory>,
    /// Under which this director holds it.
    held: Mutex<Option<Epoch>>,
    /// It went to another holder.
    is_lost: AtomicBool,
    /// Since when it has been seen free.
    free_since: Mutex<Option<Instant>>,
}

impl Pair {
    /// Stands by.
    ///
    /// # Errors
    /// If the directory's settings or the interface cannot be used.
    pub(super) fn new(
        folder: &Path,
        members: &MembersFile,
        (seat, interface): (Seat, &str),
        (director, differing): (Arc<Director>, Differing),
    ) -> anyhow::Result<Option<Arc<Self>>> {
        let Some((_, other)) = other_of(members, seat) else { return Ok(None) };
        let open = |place: &DirectoryPlace| -> anyhow::Result<Lock> {
            let directory = place.open_within(folder, DIRECTORY_PATIENCE)?;
            Ok(Lock {
                directory,
                held: Mutex::default(),
                is_lost: AtomicBool::new(false),
                free_since: Mutex::default(),
            })
        };
        let own = if seat == Seat::First { &members.director } else { members.standby.as_ref().unwrap_or(other) };
        let this = Self {
            seat,
            name: own.member.name.clone(),
            other: other.clone(),
            director,
            // The filter may have been here before this process.
            replicated: Mutex::new(Replicated::new(differing())),
            active: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            is_other_up: AtomicBool::new(false),
            resigned: AtomicU64::new(0),
            is_wanted: AtomicBool::new(false),
            was_active: AtomicBool::new(false),
            nodes: members.nodes.keys().copied().collect(),
            addresses: addresses(interface, members)?,
            lock: members.directory.as_ref().map(open).transpose().context("the directory of the members")?,
            differing,
            weights: Mutex::default(),
        };
        Ok(Some(Arc::new(this)))
    }

    /// The epoch in which this director is active.
    pub(super) fn active(&self) -> Option<u64> {
        Some(self.active.load(Ordering::Acquire)).filter(|epoch| *epoch > 0)
    }

    /// The newest epoch, and the name of the director that has begun it; none where none has.
    pub(super) fn newest(&self) -> Option<(u64, &NodeName)> {
        let epoch = Some(self.newest.load(Ordering::Acquire)).filter(|epoch| *epoch > 0)?;
        Some((epoch, if Seat::of(epoch) == self.seat { &self.name } else { &self.other.member.name }))
    }

    /// Whether the directory's lock makes a director active, rather than a command.
    pub(super) fn has_lock(&self) -> bool {
        self.lock.is_some()
    }

    /// Starts the threads. Links to the nodes are made by `link_to`.
    pub(super) fn start(
        self: &Arc<Self>,
        members: &MembersFile,
        heartbeats: Arc<Heartbeats>,
        link_to: impl Fn(&Reached) -> LinkClient,
    ) -> anyhow::Result<()> {
        let nodes: Vec<(NodeNumber, Arc<LinkClient>)> =
            members.nodes.iter().map(|(number, (reached, _))| (*number, Arc::new(link_to(reached)))).collect();
        self.stand_by_at_interface();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let (duty, lock, announcing) = (Arc::clone(self), Arc::clone(self), Arc::clone(self));
        thread("weir-director-duty").spawn(move || duty.run(&heartbeats, &nodes))?;
        thread("weir-director-lock").spawn(move || lock.keep_lock())?;
        thread("weir-director-announce").spawn(move || announcing.keep_announced())?;
        Ok(())
    }

    /// Does what the state machine says, until the process ends.
    fn run(self: &Arc<Self>, heartbeats: &Heartbeats, nodes: &[(NodeNumber, Arc<LinkClient>)]) {
        let begun = Instant::now();
        let settings =
            DutySettings { seat: self.seat, has_lock: self.has_lock(), ask_pause: LOCK_PAUSE, listen: LISTEN };
        let mut duty = Duty::new(settings);
        loop {
            let newest = self.newest.fetch_max(heartbeats.epoch(), Ordering::AcqRel).max(heartbeats.epoch());
            let has_resigned = newest > 0 && self.resigned.load(Ordering::Acquire) == newest;
            let is_other_up = self.is_other_up.load(Ordering::Acquire);
            let wish = duty.look(Noticed { now: begun.elapsed(), is_other_up, has_resigned, newest });
            let is_wanted = duty.active().is_none() && self.is_wanted.load(Ordering::Acquire);
            let epoch = match wish {
                Wish::StandBy(epoch) => {
                    self.stand_by(epoch);
                    None
                }
                _ if is_wanted => Some(self.epoch_by_command(newest)),
                Wish::Begin => Some(self.seat.by_hand(newest, now_unix_ms())),
                Wish::Acquire => self.acquire(None),
                Wish::TakeOver(_) => self.acquire(Some(&self.other.member.name)),
                Wish::Rest => None,
            };
            if let Some(epoch) = epoch {
                duty.begun(epoch);
                self.begin(epoch, heartbeats, nodes);
            }
            if duty.active().is_some()
                && self.lock.as_ref().is_some_and(|lock| lock.is_lost.swap(false, Ordering::AcqRel))
            {
                duty.stood_by();
                self.stand_by(newest);
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    /// Begins an epoch: decisions first, then packets.
    fn begin(self: &Arc<Self>, epoch: u64, heartbeats: &Heartbeats, nodes: &[(NodeNumber, Arc<LinkClient>)]) {
        self.director.with(|control, _| {
            let draining: Vec<NodeNumber> = control.draining().iter().copied().collect();
            *control = Control::after_takeover(epoch, self.nodes.iter().copied(), &draining);
        });
        self.is_wanted.store(false, Ordering::Release);
        self.was_active.store(true, Ordering::Release);
        self.newest.fetch_max(epoch, Ordering::AcqRel);
        self.active.store(epoch, Ordering::Release);
        heartbeats.set_epoch(epoch);
        add(&self.addresses);
        let flows = lock(&self.replicated).flows();
        eprintln!(
            "weir cluster director: {} is active in epoch {epoch}, with {flows} connections of the other director's table",
            self.name
        );
        for (node, link) in nodes {
            let (this, node, link) = (Arc::clone(self), *node, Arc::clone(link));
            let survey = move || this.survey(epoch, node, &link);
            if let Err(error) = std::thread::Builder::new().name("weir-director-survey".to_owned()).spawn(survey) {
                eprintln!("weir cluster director: node {node} is not asked what it has: {error}");
            }
        }
    }

    /// Asks a node what it has, until it answers or the epoch is over.
    fn survey(&self, epoch: u64, node: NodeNumber, link: &LinkClient) {
        while self.active() == Some(epoch) {
            if let Ok(Message::Surveyed(told)) = link.ask(&Message::Survey { epoch }, SURVEY_PATIENCE) {
                let corrected =
                    self.director.with(
                        |control, table| {
                            if control.epoch() == epoch { control.surveyed(node, &told, table) } else { 0 }
                        },
                    );
                let (flows, left_out) = (told.flows.len(), told.left_out);
                eprintln!(
                    "weir cluster director: node {node} has {flows} connections, {corrected} of which went elsewhere by the \
                     table{}",
                    if left_out > 0 { format!("; {left_out} more did not fit") } else { String::new() }
                );
                return;
            }
            std::thread::sleep(SURVEY_PAUSE);
        }
    }

    fn stand_by(&self, newest: u64) {
        // What this director has had in its table is to be as the other one says, from its first word on.
        *lock(&self.replicated) = Replicated::new((self.differing)());
        self.active.store(0, Ordering::Release);
        let by = self.newest().map_or_else(String::new, |(_, name)| format!("; {name} has begun epoch {newest}"));
        eprintln!("weir cluster director: {} stands by{by}", self.name);
        self.stand_by_at_interface();
    }

    fn stand_by_at_interface(&self) {
        for address in &self.addresses {
            match address.remove() {
                Ok(true) => {
                    eprintln!("weir cluster director: {} is not at this interface any more", address.address());
                }
                Ok(false) => {}
                Err(error) => eprintln!("weir cluster director: {error}"),
            }
        }
    }

    /// Takes the lock if it is free, this director's own, or that of the one that is gone; the epoch that begins.
    fn acquire(&self, from: Option<&NodeName>) -> Option<u64> {
        match self.try_acquire(from) {
            Ok(epoch) => epoch,
            Err(error) => {
                tracing::warn!(%error, "the lock was not taken");
                None
            }
        }
    }

    fn try_acquire(&self, gone: Option<&NodeName>) -> Result<Option<u64>, DirectoryError> {
        let Some(own) = &self.lock else { return Ok(None) };
        let name = self.name.as_str();
        let holder = own.directory.holder(LOCK)?.into_value();
        let free_since = *lock(&own.free_since).get_or_insert_with(Instant::now);
        if holder.is_some() {
            *lock(&own.free_since) = None;
        }
        // A command may have made the other one active while the directory was away: it has the first word.
        let is_others = self.is_other_up.load(Ordering::Acquire)
            && self.newest().is_some_and(|(epoch, _)| Seat::of(epoch) != self.seat);
        let was_active = self.was_active.load(Ordering::Acquire);
        let taken = match holder {
            None if gone.is_none() && is_others && free_since.elapsed() < LEFT_FREE => None,
            None => own.directory.acquire(LOCK, name, LOCK_TTL)?,
            Some(holder) => {
                // This director alone listens at its address: a lock of its name is from before its start.
                let is_own = holder.holder == name && (gone.is_some() || !was_active);
                let is_gone = gone.is_some_and(|gone| holder.holder == gone.as_str());
                let may = is_own || is_gone;
                if may { own.directory.take_over(LOCK, name, LOCK_TTL, holder.epoch)? } else { None }
            }
        };
        let Some(taken) = taken else { return Ok(None) };
        *lock(&own.held) = Some(taken);
        own.is_lost.store(false, Ordering::Release);
        // Epochs that were begun by hand are above; a lock that was made anew may be below.
        let newest = self.newest.load(Ordering::Acquire);
        let epoch = self.seat.of_lock(taken.0);
        Ok(Some(if epoch > newest { epoch } else { self.seat.by_hand(newest, now_unix_ms()) }))
    }

    /// A command decides, also where the directory is away: the lock follows when that is back.
    fn epoch_by_command(&self, newest: u64) -> u64 {
        let other = self.other.member.name.clone();
        let taken = if self.has_lock() { self.acquire(Some(&other)) } else { None };
        if self.has_lock() && taken.is_none() {
            eprintln!("weir cluster director: the directory did not give the lock; it is begun without");
        }
        taken.unwrap_or_else(|| self.seat.by_hand(newest, now_unix_ms()))
    }

    /// Renews the lock while this director is active.
    fn keep_lock(&self) {
        let Some(own) = &self.lock else { return };
        loop {
            std::thread::sleep(LOCK_PAUSE);
            if self.active().is_none() {
                continue;
            }
            let held = *lock(&own.held);
            let renewed = match held {
                Some(epoch) => own.directory.renew(LOCK, epoch),
                None => Err(DirectoryError::LockLost { lock: LOCK.to_owned(), epoch: 0 }),
            };
            // While the directory is away no other director gets the lock, and this one goes on.
            if !matches!(renewed, Err(DirectoryError::LockLost { .. })) || *lock(&own.held) != held {
                continue;
            }
            // Its lease ended while the directory was away, or the other director has it.
            match own.directory.acquire(LOCK, self.name.as_str(), LOCK_TTL) {
                Ok(Some(epoch)) => *lock(&own.held) = Some(epoch),
                Ok(None) if held.is_some() => {
                    *lock(&own.held) = None;
                    own.is_lost.store(true, Ordering::Release);
                }
                Ok(None) | Err(_) => {}
            }
        }
    }

    fn keep_announced(&self) {
        let (mut of, mut times, mut due) = (None, 0, Instant::now());
        loop {
            std::thread::sleep(LOOK_PAUSE * 4);
            let active = self.active();
            if active != of {
                (of, times, due) = (active, 0, Instant::now() + ANNOUNCE_AGAIN[0]);
            }
            if active.is_none() || Instant::now() < due {
                continue;
            }
            // Also adds them again, where another program has removed them.
            add(&self.addresses);
            times += 1;
            due = Instant::now() + ANNOUNCE_AGAIN.get(times).copied().unwrap_or(ANNOUNCE_PAUSE);
        }
    }

    /// Makes this director the active one.
    ///
    /// # Errors
    /// If it is not within some seconds.
    pub(super) fn activate(&self) -> anyhow::Result<u64> {
        self.is_wanted.store(true, Ordering::Release);
        let deadline = Instant::now() + COMMAND_PATIENCE;
        while Instant::now() < deadline {
            if let Some(epoch) = self.active() {
                self.is_wanted.store(false, Ordering::Release);
                return Ok(epoch);
            }
            std::thread::sleep(LOOK_PAUSE);
        }
        bail!("the director is not active after {} s; see what it says", COMMAND_PATIENCE.as_secs())
    }

    /// This director ends: the other one takes over at once, if it is there. False if it did not.
    pub(super) fn hand_over(&self, link: &LinkClient) -> bool {
        let Some(epoch) = self.active() else { return true };
        if !self.is_other_up.load(Ordering::Acquire) {
            return false;
        }
        if let Some(own) = &self.lock {
            // One that stays is taken over.
            if let Some(held) = lock(&own.held).take() {
                let _ = own.directory.release(LOCK, held);
            }
        }
        if !matches!(link.ask(&Message::Resigned { epoch }, HAND_OVER_PATIENCE), Ok(Message::Noted)) {
            return false;
        }
        let deadline = Instant::now() + HAND_OVER_PATIENCE;
        while self.active().is_some() && Instant::now() < deadline {
            std::thread::sleep(LOOK_PAUSE);
        }
        let is_done = self.active().is_none();
        if is_done {
            // The thread that stands by may not have come to it, and this process ends now.
            self.stand_by_at_interface();
        }
        is_done
    }
}

/// What the locks guard is whole after each statement.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
