//! Who pays: what objects did for each class of transactions, and for none.

use crate::events::{ANY, ObjectId};
use crate::paths::{PathId, ROOT};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};

/// Transactions that are under way, and those that have ended and may still be charged for something.
const MOST_LIVE: usize = 1 << 16;
const MOST_ENDED: usize = 1 << 16;
/// Classes of transactions; what comes after is one class together.
const MOST_CLASSES: usize = 200;
/// Different charges of a class; what comes after is charged to the class without its part and object.
const MOST_CHARGES: usize = 1 << 16;
/// The class of what is for no transaction.
pub(crate) const BACKGROUND: usize = 0;
/// The class of those that find no class of their own.
const FURTHER: usize = 1;

/// The measure that a charge is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Measure {
    /// Equation (1): from accept to finish.
    Used,
    /// Equation (2): from request to accept.
    Waited,
    /// The wall time of a part of a transaction, over its tasks.
    Elapsed,
}

/// What is charged for: the part of the transaction, the interaction, the object, the measure.
pub(crate) type Key = (PathId, u16, ObjectId, Measure);

/// A sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) ns: u64,
    pub(crate) count: u64,
}

/// Charges by their keys, within a bound.
#[derive(Debug, Clone, Default)]
pub(crate) struct Charges {
    pub(crate) sums: FxHashMap<Key, Sum>,
}

impl Charges {
    /// Returns whether the charge found room under its own key.
    pub(crate) fn add(&mut self, key: Key, sum: Sum) -> bool {
        let has_room = self.sums.len() < MOST_CHARGES || self.sums.contains_key(&key);
        let (_, interaction, object, measure) = key;
        let further = (ROOT, interaction, ObjectId { class: object.class, number: ANY }, measure);
        let own = self.sums.entry(if has_room { key } else { further }).or_default();
        own.ns = own.ns.saturating_add(sum.ns);
        own.count += sum.count;
        has_room
    }
}

/// A class of transactions, and the background.
#[derive(Debug, Default)]
pub(crate) struct ClassSums {
    pub(crate) name: String,
    /// Those that ended, and those whose end was not seen.
    pub(crate) finished: u64,
    pub(crate) unfinished: u64,
    /// Finish less request, at the server, of those that ended.
    pub(crate) response_ns: u64,
    pub(crate) response_ns_max: u64,
    /// The same as the client saw it, and of how many.
    pub(crate) client_ns: u64,
    pub(crate) client_told: u64,
    pub(crate) charges: Charges,
}

/// A transaction that is under way.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) requested_ns: u64,
    pub(crate) finished_ns: Option<u64>,
    pub(crate) over: bool,
    /// Its class, if no client is to name it.
    pub(crate) class: String,
    pub(crate) named: Naming,
    /// The end of the connection, and the place of the request in its stream.
    pub(crate) turn: (u64, u64),
    pub(crate) charges: Charges,
}

/// Whether a client tells what a transaction is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Naming {
    /// No client does.
    Alone,
    /// It will, once it has the response.
    Awaited,
    /// It did; its response time, nanoseconds.
    Named(u64),
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Accounts {
    live: BTreeMap<u64, Transaction>,
    by_turn: FxHashMap<(u64, u64), u64>,
    ended: FxHashMap<u64, usize>,
    ended_order: VecDeque<u64>,
    pub(crate) classes: Vec<ClassSums>,
    numbers: FxHashMap<String, usize>,
    next: u64,
    /// Charges for transactions that are forgotten: they went to the background.
    pub(crate) too_late: u64,
    /// Transactions that were ended because too many were under way.
    pub(crate) evicted: u64,
    /// Charges that went to a class without their part and object.
    pub(crate) collapsed: u64,
}

impl Default for Accounts {
    fn default() -> Self {
        let class = |name: &str| ClassSums { name: name.to_owned(), ..ClassSums::default() };
        Self {
            live: BTreeMap::new(),
            by_turn: FxHashMap::default(),
            ended: FxHashMap::default(),
            ended_order: VecDeque::new(),
            classes: vec![class("background"), class("further classes")],
            numbers: FxHashMap::default(),
            next: 1,
            too_late: 0,
            evicted: 0,
            collapsed: 0,
        }
    }
}

impl Accounts {
    pub(crate) fn begin(&mut self, transaction: Transaction) -> u64 {
        if self.live.len() >= MOST_LIVE
            && let Some(first) = self.live.keys().next().copied()
        {
            self.evicted += 1;
            self.close(first);
        }
        let number = self.next;
        self.next += 1;
        self.by_turn.insert(transaction.turn, number);
        self.live.insert(number, transaction);
        number
    }

    /// The last finish of a transaction was at this time, or was not seen.
    pub(crate) fn finish(&mut self, number: u64, at_ns: Option<u64>) {
        let Some(transaction) = self.live.get_mut(&number) else { return };
        (transaction.finished_ns, transaction.over) = (at_ns, true);
        if transaction.named != Naming::Awaited {
            self.close(number);
        }
    }

    /// A client tells what the transaction of a turn is called. Returns whether there is one.
    pub(crate) fn name(&mut self, turn: (u64, u64), class: &str, response_ns: u64) -> bool {
        let Some(number) = self.by_turn.get(&turn).copied() else { return false };
        let Some(transaction) = self.live.get_mut(&number) else { return false };
        transaction.named = Naming::Named(response_ns);
        class.clone_into(&mut transaction.class);
        if transaction.over {
            self.close(number);
        }
        true
    }

    /// All that is under way ends.
    pub(crate) fn close_all(&mut self) {
        while let Some(first) = self.live.keys().next().copied() {
            self.close(first);
        }
    }

    fn close(&mut self, number: u64) {
        let Some(transaction) = self.live.remove(&number) else { return };
        if self.by_turn.get(&transaction.turn) == Some(&number) {
            self.by_turn.remove(&transaction.turn);
        }
        let index = self.class(&transaction.class);
        let class = &mut self.classes[index];
        match transaction.finished_ns {
            Some(finished_ns) => {
                let response_ns = finished_ns.saturating_sub(transaction.requested_ns);
                class.finished += 1;
                class.response_ns = class.response_ns.saturating_add(response_ns);
                class.response_ns_max = class.response_ns_max.max(response_ns);
            }
            None => class.unfinished += 1,
        }
        if let Naming::Named(response_ns) = transaction.named {
            class.client_ns = class.client_ns.saturating_add(response_ns);
            class.client_told += 1;
        }
        for (key, sum) in transaction.charges.sums {
            self.collapsed += u64::from(!class.charges.add(key, sum));
        }
        self.ended.insert(number, index);
        self.ended_order.push_back(number);
        if self.ended_order.len() > MOST_ENDED
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }

    fn class(&mut self, name: &str) -> usize {
        if let Some(index) = self.numbers.get(name) {
            return *index;
        }
        if self.classes.len() >= MOST_CLASSES {
            return FURTHER;
        }
        self.classes.push(ClassSums { name: name.to_owned(), ..ClassSums::default() });
        self.numbers.insert(name.to_owned(), self.classes.len() - 1);
        self.classes.len() - 1
    }

    /// Charges a transaction, also one that has ended: what it asked for is completed asynchronously (step 10).
    pub(crate) fn charge(&mut self, number: u64, key: Key, sum: Sum) {
        let kept = if let Some(transaction) = self.live.get_mut(&number) {
            transaction.charges.add(key, sum)
        } else if let Some(class) = self.ended.get(&number) {
            self.classes[*class].charges.add(key, sum)
        } else {
            self.too_late += 1;
            return self.charge_background((ROOT, key.1, key.2, key.3), sum);
        };
        self.collapsed += u64::from(!kept);
    }

    /// Charges what is for no transaction.
    pub(crate) fn charge_background(&mut self, key: Key, sum: Sum) {
        self.collapsed += u64::from(!self.classes[BACKGROUND].charges.add(key, sum));
    }
}
