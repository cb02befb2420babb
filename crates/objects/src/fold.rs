//! The fold: records in the order of time, what objects did for whom out.

use crate::accounts::{Accounts, Key, Measure, Naming, Sum, Transaction};
use crate::clients::Clients;
use crate::ends::{Ends, Question};
use crate::events::{ANY, Event, ObjectId, Rules};
use crate::field::Context;
use crate::names::Names;
use crate::occurrence::{Occurrence, Occurrences};
use crate::paths::{Label, PathId, Paths, ROOT};
use crate::pattern::Pattern;
use crate::table::{By, TASK, Table, Verb};
use crate::task::{Base, Held, MOST_CALLS, MOST_HELD, Owner, Place, Task, Team};
use crate::usage::Usages;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use weir_wire::{Record, Slot};

/// Tasks that are followed, requests that are pending, uses and jobs that are under way.
const MOST_TASKS: usize = 1 << 16;
const MOST_ASKED: usize = 1 << 17;
const MOST_JOBS: usize = 1 << 16;
/// Tasks that have ended and are kept, as a disk may still be at what they asked for.
const MOST_ENDED: usize = 1 << 12;
/// Tasks that are at a job at a time.
const MOST_AT_JOB: usize = 64;
/// Charges of a tail that are kept until it is known whose work it was.
const MOST_TAIL: usize = 4096;
/// Names of tasks that are gone.
const MOST_TEAMS: usize = 4096;
/// CPUs that are told apart.
const MOST_CPUS: usize = 8192;
/// Stands in charges for the time of a part itself.
pub(crate) const OF_PART: u16 = u16::MAX;
const NO_OBJECT: ObjectId = ObjectId { class: TASK, number: ANY };

/// What was asked for, and by whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) at_ns: u64,
    pub(crate) requester: ObjectId,
    object: ObjectId,
    pub(crate) place: Place,
}

impl Asked {
    pub(crate) fn new(at_ns: u64, requester: ObjectId, object: ObjectId, place: Place) -> Self {
        Self { at_ns, requester, object, place }
    }
}

impl Job {
    /// The part of the transaction that it is.
    pub(crate) fn place(&self) -> Place {
        Place { owner: self.owner, path: self.path, alone: self.path }
    }
}

/// What an object that is not its requester does, from its accept to its finish.
#[derive(Debug, Clone, Copy)]
struct Open {
    asked_ns: Option<u64>,
    accepted_ns: u64,
    requester: ObjectId,
    object: ObjectId,
    place: Place,
}

/// What a task does for a requester.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) tasks: Vec<u32>,
    pub(crate) owner: Owner,
    pub(crate) path: PathId,
    pub(crate) requester: ObjectId,
    pub(crate) object: ObjectId,
    pub(crate) requested_ns: u64,
    /// Whether the request was seen.
    asked_ns: Option<u64>,
    accepted_ns: u64,
    /// The last finish so far.
    pub(crate) finished_ns: Option<u64>,
    pub(crate) tail: Option<u64>,
    /// A transaction begins with it.
    pub(crate) begins: Option<u64>,
}

/// What tasks did after a job's last finish so far.
#[derive(Debug)]
struct Tail {
    owner: Owner,
    tasks: Vec<u32>,
    charges: FxHashMap<(PathId, Key), Sum>,
}

/// What was seen that does not fit, and what was left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Records.
    pub records: u64,
    /// Records of kinds that no rule is about.
    pub without_rule: u64,
    /// Events that their sources lost.
    pub lost: u64,
    /// Accepts whose request was not seen: before the recording, or lost.
    pub accepts_unasked: u64,
    /// Finishes whose accept was not seen.
    pub finishes_unaccepted: u64,
    /// Uses whose finish was not seen; they are left out everywhere.
    pub uses_unfinished: u64,
    /// Uses that began so long before they were told that it is forgotten for whom: they went to the background.
    pub uses_forgotten: u64,
    /// What clients told of requests that were not found at the server.
    pub names_unmatched: u64,
    /// Tasks, requests, jobs and ends of connections beyond the bounds.
    pub left_out: u64,
    /// The time by which the sum of charges and the object's own time differ, nanoseconds: 0 unless this program is
    /// wrong.
    pub unbalanced_ns: u64,
}

/// The framework over a run, event by event.
#[derive(Debug)]
pub struct Framework {
    pub(crate) table: Table,
    rules: Rules,
    /// Of each interaction: whether it is recorded when its objects are done.
    finishes: Vec<bool>,
    /// Of each interaction: whether it is recorded when its objects begin.
    accepts: Vec<bool>,
    pub(crate) names: Names,
    pub(crate) paths: Paths,
    running: Vec<u32>,
    pub(crate) tasks: FxHashMap<u32, Task>,
    /// Tasks that have ended, in the order of their ends.
    ended: VecDeque<u32>,
    pub(crate) asked: FxHashMap<(u16, ObjectId), Asked>,
    open: FxHashMap<(u16, ObjectId), Open>,
    pub(crate) jobs: FxHashMap<(u16, u64), Job>,
    tails: FxHashMap<u64, Tail>,
    pub(crate) ends: Ends,
    pub(crate) clients: Clients,
    pub(crate) accounts: Accounts,
    pub(crate) usages: Usages,
    pub(crate) verbs: Vec<[u64; 4]>,
    pub(crate) counts: Counts,
    pub(crate) watched: u64,
    /// Those of tasks that are gone.
    pub(crate) teams: BTreeMap<String, Team>,
    pub(crate) occurrences: Occurrences,
    events: Vec<Event>,
    next: u64,
    pub(crate) now_ns: u64,
    pub(crate) first_ns: Option<u64>,
}

impl Framework {
    /// An empty fold by a table.
    #[must_use]
    pub fn new(table: Table) -> Self {
        let (rules, verbs) = (Rules::new(&table), vec![[0; 4]; table.interactions.len()]);
        let accepts = (0..table.interactions.len() as u16).map(|one| table.accepts(one)).collect();
        let finishes = (0..table.interactions.len() as u16).map(|one| table.finishes(one)).collect();
        Self {
            table,
            rules,
            finishes,
            accepts,
            names: Names::default(),
            paths: Paths::default(),
            running: Vec::new(),
            tasks: FxHashMap::default(),
            ended: VecDeque::new(),
            asked: FxHashMap::default(),
            open: FxHashMap::default(),
            jobs: FxHashMap::default(),
            tails: FxHashMap::default(),
            ends: Ends::default(),
            clients: Clients::default(),
            accounts: Accounts::default(),
            usages: Usages::default(),
            verbs,
            counts: Counts::default(),
            watched: 0,
            teams: BTreeMap::new(),
            occurrences: Occurrences::NotKept,
            events: Vec::new(),
            next: 1,
            now_ns: 0,
            first_ns: None,
        }
    }

    /// The same, which also keeps each interaction by itself until [`Framework::take_occurrences`].
    #[must_use]
    pub fn with_occurrences(table: Table) -> Self {
        Self { occurrences: Occurrences::Kept(Vec::new()), ..Self::new(table) }
    }

    /// Puts the interactions that came to their end since the last call into an empty list, in the order of their ends.
    /// After [`Framework::pause`] these are all.
    pub fn take_occurrences(&mut self, into: &mut Vec<Occurrence>) {
        into.clear();
        if let Occurrences::Kept(kept) = &mut self.occurrences {
            std::mem::swap(kept, into);
        }
    }

    /// Takes a record; its times must not run back. `text` is the text of the dictionary that it refers to.
    pub fn push(&mut self, record: &Record, payload: &[Slot], text: Option<&str>) {
        self.counts.records += 1;
        self.now_ns = self.now_ns.max(record.time_ns);
        let knows = self.learn(record, payload, text);
        if !self.rules.know(record.kind) {
            self.counts.without_rule += u64::from(!knows);
            return;
        }
        // Names may be told with a time of their own, before all events.
        self.first_ns.get_or_insert(record.time_ns);
        let running = self.running.get(record.lane as usize).copied().unwrap_or(0);
        let (text, roles) = text.map_or((0, 0), |text| self.names.point(text));
        let context = Context { running, text: u64::from(text), roles };
        let mut events = std::mem::take(&mut self.events);
        self.rules.apply(record, payload, &context, &mut |event| events.push(event));
        for event in events.drain(..) {
            self.take(event);
        }
        self.events = events;
        self.learn_after(record);
    }

    /// A CPU has another task.
    pub(crate) fn runs(&mut self, lane: u32, pid: u32) {
        let lane = lane as usize;
        if lane >= MOST_CPUS {
            self.counts.left_out += 1;
            return;
        }
        if self.running.len() <= lane {
            self.running.resize(lane + 1, 0);
        }
        self.running[lane] = pid;
    }

    fn take(&mut self, event: Event) {
        let event = Event { at_ns: event.at_ns.clamp(event.began_ns, self.now_ns.max(event.began_ns)), ..event };
        let counted: &[usize] = match event.verb {
            Verb::Wait => &[3],
            Verb::Use => &[0, 1, 2],
            _ => &[],
        };
        counted.iter().for_each(|verb| self.verbs[usize::from(event.interaction)][*verb] += 1);
        match event.verb {
            Verb::Request => self.request(event),
            Verb::Accept => self.accept(event),
            Verb::Finish => self.finish_one(event),
            Verb::Next => self.next_call(event),
            Verb::Use => self.use_whole(event),
            Verb::Wait => {}
            Verb::Arrive => self.arrive(event),
            Verb::Take => self.take_data(event),
            Verb::Give => self.give_data(event),
        }
    }

    pub(crate) fn pattern(&self, interaction: u16) -> Pattern {
        self.table.interactions[usize::from(interaction)].pattern
    }

    fn key(&self, event: &Event) -> (u16, ObjectId) {
        let by = self.table.interactions[usize::from(event.interaction)].by;
        (event.interaction, if by == By::Object { event.object } else { event.requester })
    }

    fn request(&mut self, event: Event) {
        let key = self.key(&event);
        let pid = task_of(event.requester);
        let has_it = |task: &Task| task.held.iter().any(|held| held.interaction == event.interaction);
        // What asks for a CPU that it has is woken too early or too late, and asks for nothing.
        if self.pattern(event.interaction) == Pattern::Cpu
            && pid.and_then(|pid| self.tasks.get(&pid)).is_some_and(has_it)
        {
            return;
        }
        if !self.accepts[usize::from(event.interaction)] {
            return self.ask_only(event);
        }
        if self.asked.contains_key(&key) {
            return;
        }
        if self.asked.len() >= MOST_ASKED {
            self.counts.left_out += 1;
            return;
        }
        if event.wakes
            && let Some(task) = pid.and_then(|pid| self.task(pid, event.at_ns))
        {
            task.woken += 1;
            task.wakes.woken();
        }
        self.verbs[usize::from(event.interaction)][0] += 1;
        let place = self.request_place(event.requester);
        if event.object.number != ANY {
            let object = self.usages.known(event.interaction, event.object);
            self.usages.of(event.interaction, event.requester, object).requests += 1;
        }
        let asked = Asked { at_ns: event.at_ns, requester: event.requester, object: event.object, place };
        self.asked.insert(key, asked);
    }

    /// A request whose acceptance is not recorded: it is counted, and nothing waits for it here.
    fn ask_only(&mut self, event: Event) {
        self.verbs[usize::from(event.interaction)][0] += 1;
        let object = self.usages.known(event.interaction, event.object);
        self.usages.of(event.interaction, event.requester, object).requests += 1;
        self.usages.own(event.interaction, object).requests += 1;
        let times = [Some(event.at_ns), None, None];
        self.occurrences.tell(event.interaction, (event.requester, object), times);
    }

    fn accept(&mut self, event: Event) {
        let key = self.key(&event);
        let asked = self.asked.remove(&key);
        if event.asked && asked.is_none() {
            return;
        }
        self.verbs[usize::from(event.interaction)][1] += 1;
        self.counts.accepts_unasked += u64::from(asked.is_none());
        let pattern = self.pattern(event.interaction);
        let told =
            if event.object.number == ANY { asked.map_or(event.object, |asked| asked.object) } else { event.object };
        let object = self.usages.known(event.interaction, told);
        let requester = asked.map_or(event.requester, |asked| asked.requester);
        let usage = self.usages.of(event.interaction, requester, object);
        usage.accepts += 1;
        if let Some(asked) = asked {
            let waited_ns = event.at_ns.saturating_sub(asked.at_ns);
            usage.waited_ns = usage.waited_ns.saturating_add(waited_ns);
            usage.requests += u64::from(asked.object.number == ANY);
            let own = self.usages.own(event.interaction, object);
            own.waited_ns = own.waited_ns.saturating_add(waited_ns);
            // The requester's own pause is of what it does now; what another object has asked for, of that.
            let place = task_of(requester).filter(|_| pattern.is_used_by_requester());
            let place = place.map_or(asked.place, |pid| self.place(pid, event.at_ns));
            self.charge(place, event.interaction, object, Measure::Waited, Sum { ns: waited_ns, count: 1 });
        }
        self.usages.own(event.interaction, object).accepts += 1;
        self.begin_use(&event, pattern, requester, object, asked);
    }

    fn begin_use(
        &mut self,
        event: &Event,
        pattern: Pattern,
        requester: ObjectId,
        object: ObjectId,
        asked: Option<Asked>,
    ) {
        let is_begun = self.finishes[usize::from(event.interaction)]
            && if let (true, Some(pid)) = (pattern.is_used_by_requester(), task_of(requester)) {
                self.hold(event, (pid, pattern), object, asked)
            } else if let (true, Some(pid)) = (pattern.carries(), task_of(object)) {
                let from_outside = requester.class != TASK;
                let begins = from_outside || asked.is_some_and(|asked| asked.place.owner != Owner::Background);
                let key = (event.interaction, self.key(event).1.number);
                begins && self.begin_job(key, pid, requester, asked, event.at_ns, None)
            } else {
                self.open_use(event, requester, object, asked)
            };
        // What is not followed up to its finish has come as far as it will be seen.
        if !is_begun {
            let times = [asked.map(|asked| asked.at_ns), Some(event.at_ns), None];
            self.occurrences.tell(event.interaction, (requester, object), times);
        }
    }

    /// A task uses an object itself. Returns whether it is followed.
    fn hold(&mut self, event: &Event, (pid, pattern): (u32, Pattern), object: ObjectId, asked: Option<Asked>) -> bool {
        if pattern == Pattern::Call {
            self.call(pid, event.interaction, object, event.at_ns);
        }
        let Some(task) = self.task(pid, event.at_ns) else { return false };
        // A CPU is one at a time, and so is a lock for which the finish of the one before was not seen.
        let is_over = |held: &mut Held| held.interaction == event.interaction && pattern != Pattern::Call;
        let over: Vec<Held> = task.held.extract_if(.., is_over).collect();
        let has_room = task.held.len() < MOST_HELD;
        if has_room {
            task.held.push(Held::new(event.interaction, object, asked.map(|asked| asked.at_ns), event.at_ns));
        }
        over.into_iter().for_each(|held| self.unfinished(pid, &held));
        has_room
    }

    /// The finish of what a task used was not seen.
    fn unfinished(&mut self, pid: u32, held: &Held) {
        self.counts.uses_unfinished += 1;
        let requester = ObjectId { class: TASK, number: u64::from(pid) };
        self.occurrences.tell(
            held.interaction,
            (requester, held.object),
            [held.asked_ns, Some(held.accepted_ns), None],
        );
    }

    /// An object that is not its requester begins. Returns whether it is followed.
    fn open_use(&mut self, event: &Event, requester: ObjectId, object: ObjectId, asked: Option<Asked>) -> bool {
        if self.open.len() >= MOST_ASKED {
            self.counts.left_out += 1;
            return false;
        }
        let place = asked.map_or_else(|| self.request_place(requester), |asked| asked.place);
        let asked_ns = asked.map(|asked| asked.at_ns);
        let open = Open { asked_ns, accepted_ns: event.at_ns, requester, object, place };
        if let Some(before) = self.open.insert(self.key(event), open) {
            self.left_open(event.interaction, &before);
        }
        true
    }

    /// The finish of what an object did was not seen.
    fn left_open(&mut self, interaction: u16, open: &Open) {
        self.counts.uses_unfinished += 1;
        let times = [open.asked_ns, Some(open.accepted_ns), None];
        self.occurrences.tell(interaction, (open.requester, open.object), times);
    }

    fn finish_one(&mut self, event: Event) {
        let pattern = self.pattern(event.interaction);
        let is_call = pattern == Pattern::Call;
        let done = if let (true, Some(pid)) = (pattern.is_used_by_requester(), task_of(event.requester)) {
            let object = (event.object.number != ANY && is_call).then_some(event.object);
            self.release(pid, event.interaction, object, event.at_ns)
        } else if pattern.carries() {
            let key = (event.interaction, self.key(&event).1.number);
            match self.jobs.get_mut(&key) {
                Some(job) => {
                    job.finished_ns = Some(event.at_ns);
                    self.end_job(key, event.at_ns);
                    true
                }
                // What is no task carries nothing of the transaction's, and ends by itself.
                None => self.close(self.key(&event), event.at_ns),
            }
        } else {
            self.close(self.key(&event), event.at_ns)
        };
        self.verbs[usize::from(event.interaction)][2] += u64::from(done);
        let is_cued = pattern == Pattern::TimerCued || pattern == Pattern::ForkJoin;
        self.counts.finishes_unaccepted += u64::from(!done && !is_cued && !event.asked);
    }

    fn close(&mut self, key: (u16, ObjectId), at_ns: u64) -> bool {
        let Some(Open { asked_ns, accepted_ns, requester, object, place }) = self.open.remove(&key) else {
            return false;
        };
        let used_ns = at_ns.saturating_sub(accepted_ns);
        self.usages.finish(key.0, requester, object, used_ns);
        self.charge(place, key.0, object, Measure::Used, Sum { ns: used_ns, count: 1 });
        self.occurrences.tell(key.0, (requester, object), [asked_ns, Some(accepted_ns), Some(at_ns)]);
        true
    }

    fn use_whole(&mut self, event: Event) {
        let object = self.usages.known(event.interaction, event.object);
        let used_ns = event.at_ns.saturating_sub(event.began_ns);
        let usage = self.usages.of(event.interaction, event.requester, object);
        (usage.requests, usage.accepts) = (usage.requests + 1, usage.accepts + 1);
        self.usages.own(event.interaction, object).accepts += 1;
        self.usages.finish(event.interaction, event.requester, object, used_ns);
        let times = [None, Some(event.began_ns), Some(event.at_ns)];
        self.occurrences.tell(event.interaction, (event.requester, object), times);
        let place = match task_of(event.requester).and_then(|pid| self.tasks.get(&pid)) {
            Some(task) => task.at(event.began_ns).unwrap_or_else(|| {
                self.counts.uses_forgotten += 1;
                Place { owner: Owner::Background, path: ROOT, alone: ROOT }
            }),
            None => self.request_place(event.requester),
        };
        self.charge(place, event.interaction, object, Measure::Used, Sum { ns: used_ns, count: 1 });
    }

    /// A call begins: what the task does is of this part from now on.
    fn call(&mut self, pid: u32, interaction: u16, object: ObjectId, at_ns: u64) {
        if let Some(task) = self.task(pid, at_ns).filter(|task| task.calls.len() < MOST_CALLS) {
            task.calls.push((interaction, object));
            let place = self.go(pid, None, at_ns);
            self.charge(place, OF_PART, NO_OBJECT, Measure::Used, Sum { ns: 0, count: 1 });
        } else {
            self.counts.left_out += 1;
        }
    }

    fn next_call(&mut self, event: Event) {
        if let Some(pid) = task_of(event.requester) {
            let done = self.release(pid, event.interaction, None, event.at_ns);
            self.verbs[usize::from(event.interaction)][2] += u64::from(done);
        }
        self.verbs[usize::from(event.interaction)][0] += 1;
        let object = self.usages.known(event.interaction, event.object);
        self.usages.of(event.interaction, event.requester, object).requests += 1;
        // The accept of a phase is its request: it waits for nothing.
        self.verbs[usize::from(event.interaction)][1] += 1;
        self.usages.of(event.interaction, event.requester, object).accepts += 1;
        self.usages.own(event.interaction, object).accepts += 1;
        self.begin_use(&event, Pattern::Call, event.requester, object, None);
    }

    /// A task is done with what it uses; of calls with this one and those within it.
    fn release(&mut self, pid: u32, interaction: u16, object: Option<ObjectId>, at_ns: u64) -> bool {
        let Some(task) = self.tasks.get_mut(&pid) else { return false };
        let is_it = |held: &Held| held.interaction == interaction && object.is_none_or(|object| held.object == object);
        let Some(index) = task.held.iter().rposition(is_it) else { return false };
        let mut held = task.held.remove(index);
        held.cut(task.place, at_ns);
        if self.pattern(interaction) == Pattern::Call {
            self.return_from(pid, (interaction, held.object), at_ns);
        }
        let used_ns = at_ns.saturating_sub(held.accepted_ns);
        let requester = ObjectId { class: TASK, number: u64::from(pid) };
        self.usages.finish(interaction, requester, held.object, used_ns);
        let times = [held.asked_ns, Some(held.accepted_ns), Some(at_ns)];
        self.occurrences.tell(interaction, (requester, held.object), times);
        let mut count = 1;
        for (place, ns) in held.slices {
            self.charge(place, interaction, held.object, Measure::Used, Sum { ns, count });
            count = 0;
        }
        true
    }

    fn return_from(&mut self, pid: u32, call: (u16, ObjectId), at_ns: u64) {
        let Some(task) = self.tasks.get_mut(&pid) else { return };
        if let Some(index) = task.calls.iter().rposition(|own| *own == call) {
            let within: Vec<(u16, ObjectId)> = task.calls.drain(index..).skip(1).collect();
            // Calls within it whose return was not seen.
            let is_within = |held: &mut Held| within.contains(&(held.interaction, held.object));
            let over: Vec<Held> = task.held.extract_if(.., is_within).collect();
            over.into_iter().for_each(|held| self.unfinished(pid, &held));
            self.go(pid, None, at_ns);
        }
    }

    /// A task, followed from now on if there is room.
    pub(crate) fn task(&mut self, pid: u32, at_ns: u64) -> Option<&mut Task> {
        if pid == 0 {
            return None;
        }
        if !self.tasks.contains_key(&pid) {
            if self.tasks.len() >= MOST_TASKS {
                let ended: Vec<u32> = self.tasks.iter().filter(|(_, task)| task.ended).map(|(pid, _)| *pid).collect();
                ended.into_iter().for_each(|pid| self.retire(pid));
            }
            if self.tasks.len() >= MOST_TASKS {
                self.counts.left_out += 1;
                return None;
            }
            let path = self.alone(pid);
            let place = Place { owner: Owner::Background, path, alone: path };
            self.tasks.insert(pid, Task::new(place, at_ns));
        }
        self.tasks.get_mut(&pid)
    }

    /// A task ends: of those that have ended the oldest is forgotten where there are many.
    pub(crate) fn ends(&mut self, pid: u32) {
        let Some(task) = self.tasks.get_mut(&pid).filter(|task| !task.ended) else { return };
        task.ended = true;
        self.ended.push_back(pid);
        if self.ended.len() > MOST_ENDED
            && let Some(oldest) = self.ended.pop_front()
            && self.tasks.get(&oldest).is_some_and(|task| task.ended)
        {
            self.retire(oldest);
        }
    }

    /// A task is gone; what it did for its team stays.
    pub(crate) fn retire(&mut self, pid: u32) {
        let Some(task) = self.tasks.remove(&pid) else { return };
        task.held.iter().for_each(|held| self.unfinished(pid, held));
        for interaction in 0..self.table.interactions.len() as u16 {
            self.asked.remove(&(interaction, ObjectId { class: TASK, number: u64::from(pid) }));
        }
        if task.accepts > 0 {
            let label = self.names.task_label(pid);
            let name = self.names.label(label);
            if self.teams.len() < MOST_TEAMS || self.teams.contains_key(&name) {
                self.teams.entry(name).or_default().add(&task);
            } else {
                self.counts.left_out += 1;
            }
        }
    }

    /// The part of the background that a task's own work is.
    fn alone(&mut self, pid: u32) -> PathId {
        let label = self.names.task_label(pid);
        self.paths.child(ROOT, label)
    }

    fn place(&mut self, pid: u32, at_ns: u64) -> Place {
        let root = Place { owner: Owner::Background, path: ROOT, alone: ROOT };
        self.task(pid, at_ns).map_or(root, |task| task.place)
    }

    /// For whom something is asked: what a job asks for is its work, also after an answer that may be its last.
    pub(crate) fn request_place(&mut self, requester: ObjectId) -> Place {
        let now_ns = self.now_ns;
        let Some(pid) = task_of(requester) else {
            let path = self.paths.child(ROOT, Label::Called(requester.class, ANY));
            return Place { owner: Owner::Background, path, alone: path };
        };
        let place = self.place(pid, now_ns);
        match place.owner {
            Owner::Tail(tail) => self.tails.get(&tail).map_or(place, |of| place.settled(tail, of.owner)),
            _ => place,
        }
    }

    /// A task works there from now on: at a job, on its own, or as before but with other calls. Returns the place.
    pub(crate) fn go(&mut self, pid: u32, base: Option<Base>, at_ns: u64) -> Place {
        let mut alone = self.alone(pid);
        let root = Place { owner: Owner::Background, path: alone, alone };
        let Some(task) = self.task(pid, at_ns) else { return root };
        task.base = base.unwrap_or(task.base);
        let (base, calls) = (task.base, task.calls.clone());
        let job = match base {
            Base::Job(key, number) => self.jobs.get(&key).filter(|job| job.number == number),
            Base::Own => None,
        };
        let (owner, mut path) =
            job.map_or((Owner::Background, alone), |job| (job.tail.map_or(job.owner, Owner::Tail), job.path));
        for (_, object) in calls {
            let label = Label::Called(object.class, object.number);
            (path, alone) = (self.paths.child(path, label), self.paths.child(alone, label));
        }
        if let Owner::Tail(tail) = owner
            && let Some(tail) = self.tails.get_mut(&tail)
            && !tail.tasks.contains(&pid)
        {
            tail.tasks.push(pid);
        }
        let place = Place { owner, path, alone };
        let Some(task) = self.tasks.get_mut(&pid) else { return root };
        let before = task.place;
        if place != before {
            let ns = task.go(place, at_ns);
            self.charge_part(before, ns);
        }
        place
    }

    /// The time of a part itself; that of the background as a whole is no measure of anything.
    fn charge_part(&mut self, place: Place, ns: u64) {
        if place.owner != Owner::Background || self.paths.parent(place.path) != ROOT {
            self.charge(place, OF_PART, NO_OBJECT, Measure::Elapsed, Sum { ns, count: 0 });
        }
    }

    pub(crate) fn charge(&mut self, place: Place, interaction: u16, object: ObjectId, measure: Measure, sum: Sum) {
        let key = (place.path, interaction, object, measure);
        match place.owner {
            Owner::Background => self.accounts.charge_background(key, sum),
            Owner::Transaction(number) => self.accounts.charge(number, key, sum),
            Owner::Tail(number) => match self.tails.get_mut(&number) {
                Some(tail) if tail.charges.len() < MOST_TAIL => {
                    let own = tail.charges.entry((place.alone, key)).or_default();
                    (own.ns, own.count) = (own.ns.saturating_add(sum.ns), own.count + sum.count);
                }
                _ => self.accounts.charge_background((place.alone, interaction, object, measure), sum),
            },
        }
    }

    /// A task takes up a job: the transaction's if it is asked from outside, else its requester's. Returns whether the
    /// job is followed.
    pub(crate) fn begin_job(
        &mut self,
        key: (u16, u64),
        pid: u32,
        requester: ObjectId,
        asked: Option<Asked>,
        at_ns: u64,
        entry: Option<Transaction>,
    ) -> bool {
        if self.jobs.len() >= MOST_JOBS {
            self.counts.left_out += 1;
            return false;
        }
        if self.jobs.contains_key(&key) {
            self.end_job(key, at_ns);
        }
        let label = self.names.task_label(pid);
        let requested_ns = asked.map_or(at_ns, |asked| asked.at_ns);
        let outside = requester.class != TASK;
        let begins = outside.then(|| {
            let class = || format!("{}: {}", self.table.interactions[usize::from(key.0)].name, self.names.label(label));
            let alone = |class| Transaction {
                requested_ns,
                finished_ns: None,
                over: false,
                class,
                named: Naming::Alone,
                turn: (u64::from(key.0) << 32 | 1 << 63, key.1),
                charges: Default::default(),
            };
            let entry = entry.unwrap_or_else(|| alone(class()));
            self.accounts.begin(entry)
        });
        let (owner, parent) = match (begins, asked) {
            (Some(number), _) => (Owner::Transaction(number), ROOT),
            (None, Some(asked)) => (asked.place.owner, asked.place.path),
            (None, None) => (Owner::Background, self.alone(pid)),
        };
        let path = self.paths.child(parent, label);
        let object = self.usages.known(key.0, ObjectId { class: TASK, number: u64::from(pid) });
        let number = self.next;
        self.next += 1;
        let job = Job {
            number,
            tasks: Vec::new(),
            owner,
            path,
            requester,
            object,
            requested_ns,
            asked_ns: asked.map(|asked| asked.at_ns),
            accepted_ns: at_ns,
            finished_ns: None,
            tail: None,
            begins,
        };
        self.jobs.insert(key, job);
        self.charge(Place { owner, path, alone: path }, OF_PART, NO_OBJECT, Measure::Used, Sum { ns: 0, count: 1 });
        self.touch(key, pid, at_ns);
        if let Some(task) = self.tasks.get_mut(&pid) {
            let futile = task.wakes.accepted();
            (task.futile, task.accepts) = (task.futile + futile, task.accepts + 1);
        }
        true
    }

    /// A task works at a job.
    pub(crate) fn touch(&mut self, key: (u16, u64), pid: u32, at_ns: u64) {
        let Some(job) = self.jobs.get_mut(&key) else { return };
        let base = Base::Job(key, job.number);
        if !job.tasks.contains(&pid) {
            if job.tasks.len() >= MOST_AT_JOB {
                job.tasks.retain(|pid| self.tasks.get(pid).is_some_and(|task| task.base == base));
                self.counts.left_out += u64::from(job.tasks.len() >= MOST_AT_JOB);
            }
            job.tasks.truncate(MOST_AT_JOB - 1);
            job.tasks.push(pid);
        }
        self.go(pid, Some(base), at_ns);
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.wakes.touched();
        }
    }

    /// A job gives an answer, which may be its last.
    pub(crate) fn answer(&mut self, key: (u16, u64), pid: u32, at_ns: u64) {
        let Some(job) = self.jobs.get_mut(&key) else { return };
        job.finished_ns = Some(at_ns);
        let (owner, before) = (job.owner, job.tail.take());
        if let Some(before) = before {
            self.settle(before, owner, at_ns);
        }
        self.touch(key, pid, at_ns);
        let tail = self.next;
        self.next += 1;
        if let Some(job) = self.jobs.get_mut(&key) {
            job.tail = Some(tail);
        }
        self.tails.insert(tail, Tail { owner, tasks: Vec::new(), charges: FxHashMap::default() });
        // Other tasks may be at the same job.
        let tasks = self.jobs.get(&key).map_or_else(Vec::new, |job| job.tasks.clone());
        for pid in tasks {
            self.go(pid, None, at_ns);
        }
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.wakes.finished();
        }
    }

    /// It is known whose work a tail was.
    fn settle(&mut self, number: u64, owner: Owner, at_ns: u64) {
        let Some(tail) = self.tails.remove(&number) else { return };
        for ((alone, key), sum) in tail.charges {
            // What a part of no transaction lasted is no measure of anything.
            if owner == Owner::Background && key.1 == OF_PART {
                continue;
            }
            let place = Place { owner: Owner::Tail(number), path: key.0, alone }.settled(number, owner);
            self.charge(place, key.1, key.2, key.3, sum);
        }
        for pid in tail.tasks {
            if let Some(task) = self.tasks.get_mut(&pid) {
                task.settle(number, owner);
            }
            self.go(pid, None, at_ns);
        }
    }

    /// A job is over: its last finish was the finish.
    pub(crate) fn end_job(&mut self, key: (u16, u64), at_ns: u64) {
        let Some(job) = self.jobs.remove(&key) else { return };
        let times = [job.asked_ns, Some(job.accepted_ns), job.finished_ns];
        self.occurrences.tell(key.0, (job.requester, job.object), times);
        if let Some(finished_ns) = job.finished_ns {
            let used_ns = finished_ns.saturating_sub(job.accepted_ns);
            self.usages.finish(key.0, job.requester, job.object, used_ns);
            let responded_ns = finished_ns.saturating_sub(job.requested_ns);
            let usage = self.usages.of(key.0, job.requester, job.object);
            usage.responded_ns = usage.responded_ns.saturating_add(responded_ns);
            let place = Place { owner: job.owner, path: job.path, alone: job.path };
            self.charge(place, key.0, job.object, Measure::Used, Sum { ns: used_ns, count: 1 });
        } else {
            self.counts.uses_unfinished += 1;
        }
        if let Some(tail) = job.tail {
            self.settle(tail, Owner::Background, at_ns);
        }
        for pid in job.tasks {
            let is_at_it = self.tasks.get(&pid).is_some_and(|task| task.base == Base::Job(key, job.number));
            if is_at_it {
                self.go(pid, Some(Base::Own), at_ns);
            }
        }
        if let Some(number) = job.begins {
            self.accounts.finish(number, job.finished_ns);
        }
    }

    /// The job of a question, if it is still under way.
    pub(crate) fn base_of(&self, question: &Question) -> Base {
        let job = question.job.map(|(interaction, key, number)| ((interaction, key), number));
        let under_way = job.filter(|(key, number)| self.jobs.get(key).is_some_and(|job| job.number == *number));
        under_way.map_or(Base::Own, |(key, number)| Base::Job(key, number))
    }

    /// The recording pauses or ends: what is under way is not known any more.
    pub fn pause(&mut self) {
        let at_ns = self.now_ns;
        let mut keys: Vec<(u16, u64)> = self.jobs.keys().copied().collect();
        keys.sort_unstable();
        keys.into_iter().for_each(|key| self.end_job(key, at_ns));
        let mut pids: Vec<u32> = self.tasks.keys().copied().collect();
        pids.sort_unstable();
        for pid in pids {
            let Some(task) = self.tasks.get_mut(&pid) else { continue };
            let held = std::mem::take(&mut task.held);
            task.calls.clear();
            task.wakes = Default::default();
            let (place, ns) = (task.place, at_ns.saturating_sub(task.since_ns));
            task.since_ns = at_ns;
            held.iter().for_each(|held| self.unfinished(pid, held));
            self.charge_part(place, ns);
            self.go(pid, Some(Base::Own), at_ns);
        }
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_unstable_by_key(|(key, open)| (open.accepted_ns, *key));
        open.iter().for_each(|((interaction, _), open)| self.left_open(*interaction, open));
        let mut asked: Vec<_> = self.asked.drain().collect();
        asked.sort_unstable_by_key(|(key, asked)| (asked.at_ns, *key));
        for ((interaction, _), asked) in asked {
            self.occurrences.tell(interaction, (asked.requester, asked.object), [Some(asked.at_ns), None, None]);
        }
        self.running.clear();
    }
}

/// The number of a task, if the object is one.
pub(crate) fn task_of(object: ObjectId) -> Option<u32> {
    let pid = u32::try_from(object.number).ok()?;
    (object.class == TASK && pid != 0).then_some(pid)
}
