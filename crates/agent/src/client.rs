//! A client process: its memory, its lanes, its definitions, its transactions.

use crate::agent_state::AgentState;
use crate::definitions::{Definitions, Known, unknown_transaction};
use crate::directory::Announcement;
use crate::finished::Finished;
use crate::journal::Position;
use crate::lane::Lane;
use crate::lane_records;
use crate::memory::Memory;
use crate::pairing::{Limits, Pairing, Running, Tell, Whole, is_detail};
use crate::protocol::ProcessLine;
use crate::spans::Place;
use crate::switches;
use crate::transaction::{Process, Status, TransactionId};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use weir_measure::account::Reading;
use weir_wire::arm::{
    ARM_2, CORRELATED, DEFINITION_BYTES, Definition, HEAD_DEFAULT_SWITCH, HEAD_DEFINED_BYTES, HEAD_DEFINITIONS_DROPPED,
    HEAD_DEFINITIONS_DROPPED_TOLD, HEAD_HEARTBEAT, HEAD_LANELESS, HEAD_LANELESS_TOLD, HEAD_LANES_USED, Handle,
    Identity, LANE_DROPPED, LANE_DROPPED_TOLD, LANE_READ, LANE_SKIPPED, LANE_SKIPPED_TOLD, LANE_SLOTS, LANE_WRITTEN,
    LANES, MOST_DEFINITIONS, TRACE,
};
use weir_wire::{Kind, MAX_SLOTS, Slot};

/// Slots that are copied at a time: what the CPU's cache holds.
pub const COPIED_SLOTS: usize = 2048;
/// Slots behind a former agent's begin in which its details are looked for.
const FORMER_SLOTS: usize = 64;
/// What a lane gets between two looks at a slow client, 0 to 1.
const SLOW_FILL: f32 = 0.01;
/// What a slow client's lane may hold until it is looked at before its turn.
const FILLING_SLOTS: u64 = LANE_SLOTS as u64 / 16;
/// A writer may be so many slots ahead of what it has published.
const AHEAD_SLOTS: u64 = 1024;

/// What a look at a client has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// Something was there.
    pub busy: bool,
    /// How much of its fullest lane had come since the last look, 0 to 1.
    pub fill: f32,
    /// How full its fullest lane is as the client knows it, 0 to 1.
    pub unpublished: f32,
}

/// A client process.
#[derive(Debug)]
pub struct Client {
    /// Its number here.
    pub number: u32,
    /// Its announcement.
    pub announcement: Announcement,
    /// A descriptor of the process: readable once it has ended; `None` = it had when its memory came.
    pub process_descriptor: Option<OwnedFd>,
    /// Its memory.
    pub memory: Memory,
    /// Looks in a row that have found nothing.
    pub idle: u32,
    /// The last look found so little that the next one may come later.
    pub is_slow: bool,
    /// The pass in which it was last looked at.
    pub looked_in: u64,
    /// Running transactions and bytes of what is told of them, as they were last counted.
    pub held: (usize, usize),
    facts: Arc<Process>,
    lanes: Vec<Lane>,
    several: bool,
    definitions: Definitions,
    defined_bytes: usize,
    /// The class of each definition, by number.
    classes: Vec<u32>,
    pairing: Pairing,
    /// Laneless records, dropped definitions; and both as the next agent will find them.
    head_losses: (u64, u64),
    head_told: (u64, u64),
    records: u64,
    /// The same when it was last asked whether the memory is still in use.
    records_before: u64,
    lost: u64,
    skipped: u64,
}

impl Client {
    /// Of a memory that was just opened; `positions` are those of a former agent's journal.
    #[must_use]
    pub fn new(
        number: u32,
        announcement: Announcement,
        process_descriptor: Option<OwnedFd>,
        memory: Memory,
        command: String,
        positions: &[Position],
    ) -> Self {
        let facts = Arc::new(Process { pid: announcement.pid, uid: memory.uid, command });
        let mut head_told = (memory.head(HEAD_LANELESS_TOLD), memory.head(HEAD_DEFINITIONS_DROPPED_TOLD));
        let mut lanes = Vec::new();
        for position in positions.iter().filter(|position| position.is_of(&memory)) {
            if position.lane == Position::HEAD {
                head_told = (head_told.0.max(position.dropped), head_told.1.max(position.skipped));
            } else if (position.lane as usize) < LANES {
                let lane = position.lane as usize;
                while lanes.len() <= lane {
                    lanes.push(Lane::of(&memory, lanes.len()));
                }
                lanes[lane].after(&memory, lane, position);
            }
        }
        Self {
            number,
            announcement,
            process_descriptor,
            memory,
            idle: 0,
            is_slow: false,
            looked_in: 0,
            held: (0, 0),
            facts,
            lanes,
            several: false,
            definitions: Definitions::default(),
            defined_bytes: 0,
            classes: Vec::new(),
            pairing: Pairing::new(Limits { running: 0, attribute_bytes: 0 }),
            head_losses: head_told,
            head_told,
            records: 0,
            records_before: 0,
            lost: 0,
            skipped: 0,
        }
    }

    /// Whether its process still has this memory, rather than having become another program.
    ///
    /// Where something has come since the last question, it had: so that is not looked for, which takes system calls.
    pub fn is_in_use(&mut self) -> bool {
        let before = std::mem::replace(&mut self.records_before, self.records);
        before != self.records
            || self.memory.is_at(self.announcement)
            || self.memory.is_mapped_by(self.announcement.pid)
    }

    /// Writes the heartbeat: the agent listens at this time; 0 = it has stopped.
    pub fn say_listening(&self, now_ns: u64) {
        self.memory.set_head(HEAD_HEARTBEAT, now_ns);
    }

    /// Reads what has come.
    pub fn look(&mut self, state: &mut AgentState, copied: &mut [Slot], limits: Limits) -> Look {
        let used = self.lanes_used();
        while self.lanes.len() < used {
            self.lanes.push(Lane::of(&self.memory, self.lanes.len()));
        }
        let mut look = Look { busy: false, fill: 0.0, unpublished: 0.0 };
        let mut ends = [0; LANES];
        for (lane, end) in ends.iter_mut().enumerate().take(used) {
            *end = self.memory.position(lane, LANE_WRITTEN);
        }
        // Read after the positions: each record that these cover belongs to a lane and to definitions that are visible
        // now.
        self.several = self.lanes_used() > 1;
        self.define(state);
        self.count_losses(state);
        self.pairing.begin_pass(self.several, limits);
        for (lane, &end) in ends.iter().enumerate().take(used) {
            let there = end.wrapping_sub(self.lanes[lane].read);
            let unpublished = end.wrapping_sub(self.lanes[lane].published);
            look.unpublished = look.unpublished.max(unpublished as f32 / LANE_SLOTS as f32);
            self.lanes[lane].before = self.lanes[lane].read;
            if there == 0 {
                continue;
            }
            look.busy = true;
            if there > LANE_SLOTS as u64 {
                state.counts.damaged += 1;
                self.lanes[lane].read = end;
                continue;
            }
            look.fill = look.fill.max(there as f32 / LANE_SLOTS as f32);
            self.drain(lane, end, state, copied);
        }
        let (pairing, mut teller) = self.parts(state);
        pairing.end_pass(&mut teller);
        self.take_counts(state);
        look.busy |= self.is_unpublished() || self.pairing.is_waiting();
        self.idle = if look.busy { 0 } else { self.idle.saturating_add(1) };
        self.is_slow = look.fill < SLOW_FILL;
        look
    }

    /// Its process has ended: what is there is read, and what runs is unfinished.
    pub fn end(&mut self, state: &mut AgentState, copied: &mut [Slot], limits: Limits, now_ns: u64) {
        // The first look shows what was written up to the end; the second what had to wait for another lane.
        for _ in 0..2 {
            self.look(state, copied, limits);
        }
        let (pairing, mut teller) = self.parts(state);
        pairing.end(now_ns, &mut teller);
        self.take_counts(state);
        self.several = false;
    }

    /// Whether a lane has become fuller since the last look than it should before the next, or there is a new one.
    /// Only words of its head are looked at.
    #[must_use]
    pub fn is_filling(&self) -> bool {
        let much = |(number, lane): (usize, &Lane)| {
            self.memory.position(number, LANE_WRITTEN).wrapping_sub(lane.read) > FILLING_SLOTS
        };
        self.lanes_used() > self.lanes.len() || self.lanes.iter().enumerate().any(much)
    }

    /// Tells the client, and the next agent, how far it was read.
    pub fn publish(&mut self) {
        let several = self.several;
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            if lane.target(several) != lane.published {
                lane.published = lane.target(several);
                self.memory.set_position(number, LANE_READ, lane.published);
            }
            if lane.told != (lane.dropped, lane.skipped) {
                lane.told = (lane.dropped, lane.skipped);
                self.memory.set_position(number, LANE_DROPPED_TOLD, lane.dropped);
                self.memory.set_position(number, LANE_SKIPPED_TOLD, lane.skipped);
            }
        }
        if self.head_told != self.head_losses {
            self.head_told = self.head_losses;
            self.memory.set_head(HEAD_LANELESS_TOLD, self.head_told.0);
            self.memory.set_head(HEAD_DEFINITIONS_DROPPED_TOLD, self.head_told.1);
        }
    }

    /// What [`Client::publish`] will tell, to be noted before.
    pub fn positions(&self) -> impl Iterator<Item = Position> {
        let (inode, token) = (self.memory.inode, self.memory.token.0);
        let lanes = self.lanes.iter().enumerate().filter_map(move |(number, lane)| {
            let read = lane.target(self.several);
            let changed = read != lane.published || lane.told != (lane.dropped, lane.skipped);
            let (dropped, skipped) = (lane.dropped, lane.skipped);
            changed.then_some(Position { inode, token, lane: number as u32, read, dropped, skipped })
        });
        let head = (self.head_told != self.head_losses).then_some(Position {
            inode,
            token,
            lane: Position::HEAD,
            read: 0,
            dropped: self.head_losses.0,
            skipped: self.head_losses.1,
        });
        lanes.chain(head)
    }

    /// Sets the switches of all its transactions; returns how many changed.
    pub fn set_switches(&self, state: &AgentState) -> u32 {
        let mut changed = 0;
        for (number, known) in self.definitions.each() {
            if let Known::Transaction(described) = known {
                let switch = state.rules.of(&described.application.name, &described.name);
                changed += u32::from(self.memory.set_switch(number, switches::word(switch)));
            }
        }
        self.set_default_switch(state);
        changed
    }

    /// Its transactions.
    #[must_use]
    pub fn pairing(&self) -> &Pairing {
        &self.pairing
    }

    /// A child of one of its transactions has ended elsewhere.
    pub fn child(&mut self, handle: Handle) {
        self.pairing.child(handle);
    }

    /// The class of a definition.
    #[must_use]
    pub fn class(&self, number: usize) -> u32 {
        number.checked_sub(1).and_then(|at| self.classes.get(at)).copied().unwrap_or(0)
    }

    /// The classes that it has defined, each once for each definition.
    pub fn classes(&self) -> impl Iterator<Item = u32> {
        self.definitions
            .each()
            .filter(|(_, known)| matches!(known, Known::Transaction(_)))
            .map(|(at, _)| self.class(at))
    }

    /// As it is listed.
    #[must_use]
    pub fn line(&self) -> ProcessLine {
        let mut applications: Vec<String> = Vec::new();
        for (_, known) in self.definitions.each() {
            if let Known::Application(application) = known
                && applications.len() < 100
            {
                applications.push(application.name.to_string());
            }
        }
        applications.sort();
        applications.dedup();
        ProcessLine {
            pid: self.facts.pid,
            uid: self.facts.uid,
            command: self.facts.command.clone(),
            applications,
            definitions: self.definitions.count() as u32,
            lanes: self.lanes.len() as u32,
            running: self.pairing.running_count() as u32,
            records: self.records,
            lost: self.lost,
            skipped: self.skipped,
        }
    }

    fn lanes_used(&self) -> usize {
        (self.memory.head(HEAD_LANES_USED) as usize).min(LANES)
    }

    fn is_unpublished(&self) -> bool {
        self.lanes.iter().any(|lane| lane.read != lane.published)
    }

    fn drain(&mut self, lane: usize, end: u64, state: &mut AgentState, copied: &mut [Slot]) {
        while self.lanes[lane].read < end {
            let read = self.lanes[lane].read;
            let room = copied.len().min((end - read) as usize);
            let slots = &mut copied[..room];
            let taken = match self.memory.read_slots(lane, read, slots) {
                Ok(()) => {
                    let (pairing, mut teller) = self.parts(state);
                    lane_records::take(slots, |record, payload| pairing.take(lane as u8, &record, payload, &mut teller))
                }
                Err(_) => lane_records::Taken { slots: 0, damaged: true },
            };
            self.lanes[lane].read += taken.slots as u64;
            if taken.damaged || taken.slots == 0 {
                // An impossible record, or one that ends behind the written slots: the rest of the lane cannot be
                // decoded.
                state.counts.damaged += 1;
                self.lanes[lane].read = end;
            }
        }
    }

    /// Reads new definitions, and sets their switches at once.
    fn define(&mut self, state: &mut AgentState) {
        let whole = (self.memory.head(HEAD_DEFINED_BYTES) as usize).min(DEFINITION_BYTES);
        if whole <= self.defined_bytes {
            return;
        }
        let mut bytes = vec![0; whole - self.defined_bytes];
        let mut rest = match self.memory.read_definitions(self.defined_bytes, &mut bytes) {
            Ok(()) => &bytes[..],
            Err(_) => &[],
        };
        if self.defined_bytes == 0 {
            self.set_default_switch(state);
        }
        while let Some((definition, taken)) = Definition::read(rest) {
            rest = &rest[taken..];
            if self.definitions.count() + 1 >= MOST_DEFINITIONS {
                state.counts.definitions_dropped += 1;
                continue;
            }
            if !self.definitions.take(&definition, &mut state.kept) {
                state.counts.definitions_dropped += 1;
            }
            let number = self.definitions.count();
            let mut class = 0;
            if let Known::Transaction(described) = self.definitions.get(number) {
                class = state.classes.number(&described.application.name, &described.name);
                let switch = state.rules.of(&described.application.name, &described.name);
                self.memory.set_switch(number, switches::word(switch));
            }
            self.classes.push(class);
        }
        self.defined_bytes = whole;
        if !rest.is_empty() {
            // The rest has no readable head, so nothing behind it can be numbered.
            state.counts.damaged += 1;
            self.defined_bytes = DEFINITION_BYTES;
        }
    }

    fn set_default_switch(&self, state: &AgentState) {
        let word = u64::from(switches::word(state.rules.of_unknown()));
        if self.memory.head(HEAD_DEFAULT_SWITCH) != word {
            self.memory.set_head(HEAD_DEFAULT_SWITCH, word);
        }
        self.memory.set_switch(0, word as u32);
    }

    /// Counts what the client has lost or left out since it was last looked at.
    fn count_losses(&mut self, state: &mut AgentState) {
        // A counter that goes back is damaged: it begins anew.
        let more = |now: u64, before: &mut u64| now.saturating_sub(std::mem::replace(before, now));
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let dropped = more(self.memory.position(number, LANE_DROPPED), &mut lane.dropped);
            let skipped = more(self.memory.position(number, LANE_SKIPPED), &mut lane.skipped);
            state.counts.dropped = state.counts.dropped.saturating_add(dropped);
            state.counts.skipped = state.counts.skipped.saturating_add(skipped);
            self.lost = self.lost.saturating_add(dropped);
            self.skipped = self.skipped.saturating_add(skipped);
        }
        let laneless = more(self.memory.head(HEAD_LANELESS), &mut self.head_losses.0);
        let definitions = more(self.memory.head(HEAD_DEFINITIONS_DROPPED), &mut self.head_losses.1);
        state.counts.laneless = state.counts.laneless.saturating_add(laneless);
        state.counts.definitions_dropped = state.counts.definitions_dropped.saturating_add(definitions);
        self.lost = self.lost.saturating_add(laneless);
    }

    fn take_counts(&mut self, state: &mut AgentState) {
        let counts = std::mem::take(&mut self.pairing.counts);
        self.records = self.records.saturating_add(counts.records);
        state.counts.add(&counts);
    }

    /// The transactions, and what tells of them.
    fn parts<'a>(&'a mut self, state: &'a mut AgentState) -> (&'a mut Pairing, Teller<'a>) {
        let teller = Teller {
            state,
            client: self.number,
            facts: &self.facts,
            memory: &self.memory,
            lanes: &self.lanes,
            definitions: &self.definitions,
            classes: &self.classes,
        };
        (&mut self.pairing, teller)
    }
}

/// Makes finished transactions out of ended ones.
struct Teller<'a> {
    state: &'a mut AgentState,
    client: u32,
    facts: &'a Arc<Process>,
    memory: &'a Memory,
    lanes: &'a [Lane],
    definitions: &'a Definitions,
    classes: &'a [u32],
}

impl Tell for Teller<'_> {
    fn correlated(&mut self, running: &Running) {
        let span = self.memory.token.span(running.handle);
        self.state.spans.begin(span, Place { client: self.client, handle: running.handle });
    }

    fn ended(&mut self, running: Running, end_ns: u64, status: Status) -> Option<Handle> {
        let id = self.id(&running);
        if running.flags & CORRELATED != 0 {
            self.state.spans.end(id.span);
        }
        let instance = self.definitions.instance(usize::from(running.instance)).map(Arc::clone);
        let number = usize::from(running.transaction);
        let (described, class) = match self.definitions.transaction(number) {
            Some(described) => {
                (Arc::clone(described), number.checked_sub(1).and_then(|at| self.classes.get(at)).copied().unwrap_or(0))
            }
            None => {
                let described = Arc::new(unknown_transaction(instance.as_ref().map(|instance| &instance.application)));
                let class = self.state.classes.number(&described.application.name, &described.name);
                (described, class)
            }
        };
        let start_ns =
            if running.arrival_ns == 0 { running.start_ns } else { running.arrival_ns.min(running.start_ns) };
        // Threads read the clock by themselves: an end before the begin is a duration of nothing.
        let end_ns = end_ns.max(running.start_ns);
        let threads = self.state.threads(self.facts.pid, &running, end_ns);
        let own_user = running.notes.user().map(|user| self.state.users.of(&user));
        let user = own_user
            .or_else(|| instance.as_ref()?.user.clone())
            .or_else(|| described.application.user.clone())
            .filter(|user: &Arc<str>| !user.is_empty());
        let finished = Finished {
            process: Arc::clone(self.facts),
            class,
            one_in: running.one_in.max(1),
            id,
            parent: running.parent,
            parent_here: false,
            correlated: running.flags & CORRELATED != 0 || running.own.is_some(),
            traced: running.flags & TRACE != 0,
            reported: running.own.is_some(),
            standard: if running.flags & ARM_2 != 0 { 2 } else { described.standard },
            status,
            thread: running.thread,
            start_ns,
            duration_ns: end_ns - start_ns,
            queued_ns: running.start_ns - start_ns,
            blocked_ns: running.notes.as_read().map_or(0, |attributes| attributes.blocked(start_ns, end_ns).0),
            updates: running.updates,
            children: running.children,
            user,
            threads,
            notes: running.notes,
            described,
            instance,
        };
        let place = self.state.finished(finished)?;
        if place.client == self.client {
            return Some(place.handle);
        }
        self.state.children.push(place);
        None
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.state.recent.buffer()
    }

    fn gone(&mut self, running: &Running) {
        if running.flags & CORRELATED != 0 {
            self.state.spans.end(self.memory.token.span(running.handle));
        }
    }

    fn former(&mut self, handle: Handle) -> Vec<Whole> {
        let (number, slot) = (handle.lane() as usize, handle.slot());
        let Some(lane) = self.lanes.get(number).filter(|lane| slot < lane.former) else { return Vec::new() };
        let there = |written: u64| written.saturating_sub(slot);
        let written = self.memory.position(number, LANE_WRITTEN);
        let mut copied = [Slot::default(); FORMER_SLOTS];
        let length = (lane.former - slot).min(FORMER_SLOTS as u64) as usize;
        let read = self.memory.read_slots(number, slot, &mut copied[..length]);
        let after = self.memory.position(number, LANE_WRITTEN);
        // Slots are given again once they were read: those that may have been are not looked at.
        if read.is_err() || there(written.max(after)).saturating_add(AHEAD_SLOTS) > LANE_SLOTS as u64 {
            return Vec::new();
        }
        let mut found: Vec<Whole> = Vec::new();
        let mut ended = false;
        lane_records::take(&copied[..length], |record, payload| {
            let is_next = if found.is_empty() { record.kind == Kind::ArmStart as u16 } else { is_detail(&record) };
            ended |= !is_next || record.a != handle.0;
            if !ended {
                found.push((record, payload.to_vec()));
            }
        });
        found
    }

    fn read(&mut self, thread: u32, at_ns: u64) -> Option<Reading> {
        self.state.waits.as_mut()?.read(self.facts.pid, thread, at_ns)
    }

    fn unix_offset_ns(&self) -> i64 {
        self.state.unix_offset_ns
    }
}

impl Teller<'_> {
    /// A transaction's identity: its own, or from its handle; a child is of its parent's trace.
    fn id(&self, running: &Running) -> TransactionId {
        if let Some(own) = running.own.as_deref().filter(|own| own.span != 0) {
            return (*own).into();
        }
        let span = self.memory.token.span(running.handle);
        let trace = running.parent.map_or_else(|| self.memory.token.trace(span), |parent: Identity| parent.trace);
        TransactionId { trace, span }
    }
}

/// A record always fits into what is copied at a time.
const _: () = assert!(COPIED_SLOTS > MAX_SLOTS && FORMER_SLOTS > MAX_SLOTS);
