//! Abstract events: what the table makes of a record.

use crate::field::Context;
use crate::table::{Began, Class, Named, Rule, TASK, Table, Verb};
use weir_wire::socket::NO_POSITION;
use weir_wire::{Record, Slot};

/// The number of an object that is not told, or is any one of its class.
pub(crate) const ANY: u64 = u64::MAX;

/// An entity that asks or is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    pub(crate) class: Class,
    pub(crate) number: u64,
}

impl ObjectId {
    /// Its class, by its place among those of its table.
    #[must_use]
    pub fn class(self) -> u16 {
        self.class
    }

    /// Its number within its class in this run, such as that of a task; none where it is not told.
    #[must_use]
    pub fn number(self) -> Option<u64> {
        (self.number != ANY).then_some(self.number)
    }

    /// Whether it is a task, and not what such a one uses.
    #[must_use]
    pub fn is_task(self) -> bool {
        self.class == TASK && self.number != ANY
    }
}

/// An abstract event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at_ns: u64,
    /// For a use that is told at its end: when it began.
    pub(crate) began_ns: u64,
    pub(crate) verb: Verb,
    pub(crate) interaction: u16,
    pub(crate) requester: ObjectId,
    pub(crate) object: ObjectId,
    pub(crate) asked: bool,
    pub(crate) wakes: bool,
    /// For an end of a connection: the sequence number up to which data was taken, 0 if none is told.
    pub(crate) sequence: u32,
}

/// The rules by the kinds of their events.
#[derive(Debug)]
pub(crate) struct Rules {
    by_kind: Vec<Vec<Rule>>,
}

impl Rules {
    pub(crate) fn new(table: &Table) -> Self {
        let most = weir_wire::KINDS.iter().map(|spec| usize::from(spec.code)).max().unwrap_or(0);
        let mut by_kind = vec![Vec::new(); most + 1];
        for rule in &table.rules {
            by_kind[rule.kind as usize].push(rule.clone());
        }
        Self { by_kind }
    }

    /// Whether any rule is about this kind.
    pub(crate) fn know(&self, kind: u16) -> bool {
        self.by_kind.get(usize::from(kind)).is_some_and(|rules| !rules.is_empty())
    }

    /// Hands on what the record's rules make of it, in the order of the table.
    #[inline]
    pub(crate) fn apply(&self, record: &Record, payload: &[Slot], context: &Context, take: &mut impl FnMut(Event)) {
        let Some(rules) = self.by_kind.get(usize::from(record.kind)) else { return };
        for rule in rules {
            if rule.when.holds(record, payload, context) {
                take(event(rule, record, payload, context));
            }
        }
    }
}

fn event(rule: &Rule, record: &Record, payload: &[Slot], context: &Context) -> Event {
    let object = |named: Named| ObjectId {
        class: named.class,
        number: named.number.map_or(ANY, |field| field.value(record, payload, context)),
    };
    let (began_ns, at_ns) = match rule.began {
        None => (record.time_ns, record.time_ns),
        Some(Began::Before(took)) => {
            (record.time_ns.saturating_sub(took.value(record, payload, context)), record.time_ns)
        }
        Some(Began::Between(from, to)) => {
            let to = to.map_or(record.time_ns, |to| to.value(record, payload, context));
            (from.value(record, payload, context).min(to), to)
        }
    };
    Event {
        at_ns,
        began_ns,
        verb: rule.verb,
        interaction: rule.interaction,
        requester: object(rule.requester),
        object: object(rule.object),
        asked: rule.asked,
        wakes: rule.wakes,
        sequence: if record.flags & NO_POSITION == 0 { record.a_halves().1 } else { 0 },
    }
}
