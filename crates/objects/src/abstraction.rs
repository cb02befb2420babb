//! Abstract events one by one, for sums that need no transactions.

use crate::events::{ObjectId, Rules};
use crate::field::Context;
use crate::table::{Table, Verb};
use weir_wire::{Record, Slot};

/// An abstract event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbstractEvent {
    /// When, nanoseconds.
    pub at_ns: u64,
    /// What.
    pub verb: Verb,
    /// Who asks.
    pub requester: ObjectId,
    /// Who or what is asked.
    pub object: ObjectId,
}

/// The rules of some interactions of a table.
#[derive(Debug)]
pub struct Abstraction {
    rules: Rules,
}

impl Abstraction {
    /// The rules of the interactions of these names; a name that the table does not have has none.
    ///
    /// Rules see a record alone: the fields `running`, `text` and `roles` are 0 for them.
    #[must_use]
    pub fn new(table: &Table, names: &[&str]) -> Self {
        let mut table = table.clone();
        let Table { interactions, rules, .. } = &mut table;
        rules.retain(|rule| names.contains(&interactions[usize::from(rule.interaction)].name.as_str()));
        Self { rules: Rules::new(&table) }
    }

    /// Hands every abstract event of a record to `take`, in the order of the table.
    #[inline]
    pub fn each(&self, record: &Record, payload: &[Slot], mut take: impl FnMut(AbstractEvent)) {
        self.rules.apply(record, payload, &Context::default(), &mut |event| {
            let crate::events::Event { at_ns, verb, requester, object, .. } = event;
            take(AbstractEvent { at_ns, verb, requester, object });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::task::{NO_SYSCALL, Switch};

    fn of_switch(prev: u32, next: u32, prev_state: u8) -> Vec<(Verb, Option<u64>)> {
        let switch = Switch { prev, next, prev_state, syscall: NO_SYSCALL, descriptor: 0 };
        let mut events = Vec::new();
        let abstraction = Abstraction::new(&Table::ours(), &["cpu"]);
        abstraction.each(&switch.write(100, 0), &[], |event| events.push((event.verb, event.requester.number())));
        events
    }

    #[test]
    fn a_switch_is_the_end_of_one_use_and_the_beginning_of_another() {
        assert_eq!(of_switch(7, 8, 1), [(Verb::Finish, Some(7)), (Verb::Accept, Some(8))]);
    }

    #[test]
    fn a_preempted_task_asks_again_at_once_and_the_idle_one_never_does() {
        assert_eq!(of_switch(7, 0, 0), [(Verb::Finish, Some(7)), (Verb::Request, Some(7))]);
    }

    #[test]
    fn other_interactions_and_names_that_are_none_have_no_rules() {
        let switch = Switch { prev: 7, next: 8, prev_state: 1, syscall: NO_SYSCALL, descriptor: 0 }.write(100, 0);
        let events = |names: &[&str]| {
            let mut count = 0;
            Abstraction::new(&Table::ours(), names).each(&switch, &[], |_| count += 1);
            count
        };
        // The futex's and the timer's rules tell of switches, too.
        assert_eq!((events(&["telepathy"]), events(&["disk"]), events(&["cpu", "futex"])), (0, 0, 3));
    }
}
