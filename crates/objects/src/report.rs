//! What the fold found.

use crate::accounts::{BACKGROUND, Measure};
use crate::events::{ANY, ObjectId};
use crate::fold::{Counts, Framework, OF_PART};
use crate::pattern::Pattern;
use crate::table::Verb;
use crate::task::Team;
use crate::usage::Usage;
use serde::Serialize;
use std::collections::BTreeMap;

/// A run's objects and interactions.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// From the first to the last event, nanoseconds.
    pub measured_ns: u64,
    /// The interactions of the table, in its order.
    pub interactions: Vec<InteractionReport>,
    /// What each object did in all.
    pub objects: Vec<ObjectReport>,
    /// The classes of transactions; the first one is the background.
    pub classes: Vec<ClassReport>,
    /// Equations (1) and (2) for each requester and object.
    pub pairs: Vec<PairReport>,
    /// Servers by their name, with their wake-ups.
    pub teams: Vec<TeamReport>,
    /// What was seen that does not fit, and what was left out.
    pub counts: Counts,
    /// Transactions that ended because too many were under way.
    pub transactions_evicted: u64,
    /// Charges for transactions that were forgotten, which went to the background.
    pub charges_too_late: u64,
    /// Charges that have no part or object of their own for lack of room.
    pub charges_collapsed: u64,
}

/// An interaction, and how often each of its events was seen; none: it is not recorded.
#[derive(Debug, Clone, Serialize)]
pub struct InteractionReport {
    /// Its name in the table.
    pub name: String,
    /// Its column of Table 1.
    pub pattern: Pattern,
    /// Requests.
    pub requests: Option<u64>,
    /// Accepts.
    pub accepts: Option<u64>,
    /// Finishes.
    pub finishes: Option<u64>,
    /// Waits.
    pub waits: Option<u64>,
}

/// An object in an interaction.
#[derive(Debug, Clone, Serialize)]
pub struct ObjectReport {
    /// The interaction.
    pub interaction: String,
    /// Its class.
    pub class: String,
    /// Its name.
    pub name: String,
    /// Itself.
    #[serde(skip)]
    pub id: ObjectId,
    /// How often it was taken up.
    pub accepts: u64,
    /// Its busy time, nanoseconds; none if it is not recorded.
    pub used_ns: Option<u64>,
    /// The time that was waited for it, nanoseconds; none if it is not recorded.
    pub waited_ns: Option<u64>,
}

/// A class of transactions, or the background.
#[derive(Debug, Clone, Serialize)]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// Transactions that finished, and those whose finish was not seen.
    pub finished: u64,
    /// See `finished`.
    pub unfinished: u64,
    /// Sum of finish less request at the server, and the longest, nanoseconds.
    pub response_ns: u64,
    /// See `response_ns`.
    pub response_ns_max: u64,
    /// The same as clients saw it, and of how many transactions.
    pub client_response_ns: u64,
    /// See `client_response_ns`.
    pub client_told: u64,
    /// What objects did for it.
    pub uses: Vec<UseReport>,
    /// Its parts.
    pub parts: Vec<PartReport>,
}

/// What an object did for a part of a class.
#[derive(Debug, Clone, Serialize)]
pub struct UseReport {
    /// The part: sub-transactions from the transaction down.
    pub part: Vec<String>,
    /// The interaction.
    pub interaction: String,
    /// The object's class and name.
    pub class: String,
    /// See `class`.
    pub name: String,
    /// Uses.
    pub count: u64,
    /// Equation (1), nanoseconds; none if it is not recorded.
    pub used_ns: Option<u64>,
    /// Equation (2), nanoseconds; none if it is not recorded.
    pub waited_ns: Option<u64>,
}

/// A part of a class's transactions.
#[derive(Debug, Clone, Serialize)]
pub struct PartReport {
    /// Sub-transactions from the transaction down.
    pub part: Vec<String>,
    /// How often it was passed.
    pub passages: u64,
    /// Its wall time over its tasks, nanoseconds.
    pub elapsed_ns: u64,
}

/// A requester and an object.
#[derive(Debug, Clone, Serialize)]
pub struct PairReport {
    /// The interaction.
    pub interaction: String,
    /// The requester's class and name.
    pub requester: (String, String),
    /// The object's class and name.
    pub object: (String, String),
    /// The measures.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Servers of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TeamReport {
    /// Their name.
    pub name: String,
    /// Tasks that took up requests.
    pub tasks: u64,
    /// Requests that they took up.
    pub accepts: u64,
    /// Their wake-ups.
    pub wakeups: u64,
    /// The unnecessary ones between a finish and the next accept: semi-busy-waiting.
    pub semi_busy_waiting: u64,
}

impl Framework {
    /// Ends the fold.
    #[must_use]
    pub fn finish(mut self) -> Report {
        self.pause();
        self.accounts.close_all();
        self.balance();
        self.counts.left_out += self.ends.left_out + self.usages.left_out + self.paths.left_out;
        Report {
            measured_ns: self.now_ns - self.first_ns.unwrap_or(self.now_ns),
            interactions: self.interactions(),
            objects: self.objects(),
            classes: (0..self.accounts.classes.len()).filter_map(|index| self.class_report(index)).collect(),
            pairs: self.pairs(),
            teams: self.teams(),
            counts: self.counts,
            transactions_evicted: self.accounts.evicted,
            charges_too_late: self.accounts.too_late,
            charges_collapsed: self.accounts.collapsed,
        }
    }

    /// The invariant: what is charged for an object, over all transactions and the background, is its own busy time.
    fn balance(&mut self) {
        let mut charged: BTreeMap<(u16, ObjectId), u64> = BTreeMap::new();
        // A charge that found no room has no object of its own, only its class.
        let is_collapsed = self.accounts.collapsed > 0;
        let of = |object: ObjectId| if is_collapsed { ObjectId { number: ANY, ..object } } else { object };
        for class in &self.accounts.classes {
            for ((_, interaction, object, measure), sum) in &class.charges.sums {
                if *measure == Measure::Used && *interaction != OF_PART {
                    let own = charged.entry((*interaction, of(*object))).or_default();
                    *own = own.saturating_add(sum.ns);
                }
            }
        }
        let mut own: BTreeMap<(u16, ObjectId), u64> = BTreeMap::new();
        for ((interaction, object), usage) in &self.usages.objects {
            let sum = own.entry((*interaction, of(*object))).or_default();
            *sum = sum.saturating_add(usage.used_ns);
        }
        let keys: std::collections::BTreeSet<_> = own.keys().chain(charged.keys()).copied().collect();
        let value = |map: &BTreeMap<(u16, ObjectId), u64>, key| map.get(key).copied().unwrap_or(0);
        self.counts.unbalanced_ns =
            keys.iter().map(|key| value(&own, key).abs_diff(value(&charged, key))).fold(0, u64::saturating_add);
    }

    /// Whether the run could hold events of an interaction: any was seen, or its source was there and had none.
    fn is_recorded(&self, interaction: usize) -> bool {
        let source = self.table.interactions[interaction].source;
        self.verbs[interaction].iter().any(|count| *count > 0) || source != 0 && self.watched & source != 0
    }

    fn interactions(&self) -> Vec<InteractionReport> {
        let told = |index: usize, verb: usize, verbs: &[Verb]| {
            let is_told = self.is_recorded(index) && self.table.has(index as u16, verbs);
            is_told.then(|| self.verbs[index][verb])
        };
        let all = self.table.interactions.iter().enumerate();
        let report = |(index, one): (usize, &crate::table::Interaction)| InteractionReport {
            name: one.name.clone(),
            pattern: one.pattern,
            requests: told(index, 0, &[Verb::Request, Verb::Use, Verb::Next, Verb::Give, Verb::Arrive]),
            accepts: told(index, 1, &[Verb::Accept, Verb::Use, Verb::Next, Verb::Take]),
            finishes: told(index, 2, &[Verb::Finish, Verb::Use, Verb::Next, Verb::Give]),
            waits: told(index, 3, &[Verb::Wait]),
        };
        all.map(report).collect()
    }

    fn words(&self, interaction: u16, object: ObjectId) -> (String, String, String) {
        let class = self.table.classes[usize::from(object.class)].clone();
        let name = self.names.object(object, &class);
        (self.table.interactions[usize::from(interaction)].name.clone(), class, name)
    }

    /// An object's class and name, as it is called now.
    #[must_use]
    pub fn object_words(&self, object: ObjectId) -> (&str, String) {
        let class = self.table.classes.get(usize::from(object.class)).map_or("", String::as_str);
        (class, self.names.object(object, class))
    }

    /// Grows when any name changes: what [`Framework::object_words`] said before may then be said otherwise.
    #[must_use]
    pub fn names_told(&self) -> u64 {
        self.names.told()
    }

    /// Whether the time from accept to finish, and that from request to accept, can be told of an interaction.
    fn tells(&self, interaction: u16) -> (bool, bool) {
        let is_whole = self.table.has(interaction, &[Verb::Use]);
        let is_asked = self.table.has(interaction, &[Verb::Request, Verb::Arrive]);
        let waits = is_asked && self.table.accepts(interaction) && !is_whole;
        (self.table.finishes(interaction), waits)
    }

    fn objects(&self) -> Vec<ObjectReport> {
        let mut objects: Vec<_> =
            self.usages.objects.iter().filter(|(_, usage)| usage.accepts + usage.requests > 0).collect();
        objects.sort_by_key(|(key, usage)| (key.0, std::cmp::Reverse((usage.used_ns, usage.waited_ns)), key.1));
        let report = |(key, usage): (&(u16, ObjectId), &Usage)| {
            let (interaction, class, name) = self.words(key.0, key.1);
            let (used, waited) = self.tells(key.0);
            ObjectReport {
                interaction,
                class,
                name,
                id: key.1,
                accepts: usage.accepts,
                used_ns: used.then_some(usage.used_ns),
                waited_ns: waited.then_some(usage.waited_ns),
            }
        };
        objects.into_iter().map(report).collect()
    }

    fn class_report(&self, index: usize) -> Option<ClassReport> {
        let class = &self.accounts.classes[index];
        if index != BACKGROUND && class.finished + class.unfinished == 0 {
            return None;
        }
        let mut uses: BTreeMap<(u32, u16, ObjectId), (u64, u64, u64)> = BTreeMap::new();
        let mut parts: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for ((path, interaction, object, measure), sum) in &class.charges.sums {
            if *interaction == OF_PART {
                let part = parts.entry(*path).or_default();
                *part = (part.0 + sum.count, part.1.saturating_add(sum.ns));
                continue;
            }
            let own = uses.entry((*path, *interaction, *object)).or_default();
            if *measure == Measure::Used {
                (own.0, own.1) = (own.0 + sum.count, own.1.saturating_add(sum.ns));
            } else {
                own.2 = own.2.saturating_add(sum.ns);
            }
        }
        let use_report = |((path, interaction, object), (count, used_ns, waited_ns))| {
            let (used, waited) = self.tells(interaction);
            let (interaction, class, name) = self.words(interaction, object);
            let part = self.path_words(path);
            let (used_ns, waited_ns) = (used.then_some(used_ns), waited.then_some(waited_ns));
            UseReport { part, interaction, class, name, count, used_ns, waited_ns }
        };
        let part_report =
            |(path, (passages, elapsed_ns))| PartReport { part: self.path_words(path), passages, elapsed_ns };
        Some(ClassReport {
            name: class.name.clone(),
            finished: class.finished,
            unfinished: class.unfinished,
            response_ns: class.response_ns,
            response_ns_max: class.response_ns_max,
            client_response_ns: class.client_ns,
            client_told: class.client_told,
            uses: uses.into_iter().map(use_report).collect(),
            parts: parts.into_iter().map(part_report).collect(),
        })
    }

    fn pairs(&self) -> Vec<PairReport> {
        let mut pairs: Vec<_> = self.usages.pairs.iter().collect();
        pairs.sort_by_key(|(key, usage)| (key.0, std::cmp::Reverse(usage.used_ns.max(usage.waited_ns)), key.1, key.2));
        let report = |(key, usage): (&(u16, ObjectId, ObjectId), &Usage)| {
            let (interaction, class, name) = self.words(key.0, key.2);
            let (_, requester_class, requester) = self.words(key.0, key.1);
            PairReport { interaction, requester: (requester_class, requester), object: (class, name), usage: *usage }
        };
        pairs.into_iter().map(report).collect()
    }

    fn teams(&self) -> Vec<TeamReport> {
        let mut teams = self.teams.clone();
        for (pid, task) in self.tasks.iter().filter(|(_, task)| task.accepts > 0) {
            teams.entry(self.names.label(self.names.task_label(*pid))).or_default().add(task);
        }
        let report = |(name, team): (String, Team)| TeamReport {
            name,
            tasks: team.tasks,
            accepts: team.accepts,
            wakeups: team.woken,
            semi_busy_waiting: team.futile,
        };
        teams.into_iter().map(report).collect()
    }
}
