//! Classes: a transaction of an application, in all processes and for all users. Their number has a bound.

use crate::protocol::Outcomes;
use crate::transaction::Status;
use std::collections::HashMap;
use std::sync::Arc;
use weir_measure::durations::Durations;

/// Classes that are told apart.
pub const MOST_CLASSES: usize = 4096;
/// The name of those beyond.
pub const OTHER_CLASSES: &str = "(others)";
/// Slow ones, and failed ones, that are kept whole of a class in a minute.
pub const EXEMPLARS_OF_A_MINUTE: usize = 3;

/// A transaction of an application, and what became of it since the agent's start.
#[derive(Debug)]
pub struct Class {
    /// The application's name.
    pub application: Arc<str>,
    /// The transaction's name.
    pub transaction: Arc<str>,
    /// How many ended how.
    pub outcomes: Outcomes,
    /// How long they took.
    pub durations: Durations,
    /// Of that, blocked, nanoseconds.
    pub blocked_ns: u64,
    minute: u64,
    /// The longest of this minute, ascending.
    slowest_ns: [u64; EXEMPLARS_OF_A_MINUTE],
    failed: usize,
}

impl Class {
    /// Whether a finished one is among the slowest of its minute so far, or among its first failed ones.
    pub fn is_exemplar(&mut self, minute: u64, duration_ns: u64, status: Status) -> bool {
        if minute > self.minute {
            (self.minute, self.slowest_ns, self.failed) = (minute, [0; EXEMPLARS_OF_A_MINUTE], 0);
        }
        let failed = status != Status::Good && self.failed < EXEMPLARS_OF_A_MINUTE;
        self.failed += usize::from(failed);
        let slow = duration_ns > self.slowest_ns[0];
        if slow {
            self.slowest_ns[0] = duration_ns;
            self.slowest_ns.sort_unstable();
        }
        failed || slow
    }
}

/// All classes; a number names each, 0 all those beyond the bound.
#[derive(Debug)]
pub struct Classes {
    classes: Vec<Class>,
    by_name: HashMap<(Arc<str>, Arc<str>), u32>,
}

impl Default for Classes {
    fn default() -> Self {
        let mut classes = Self { classes: Vec::new(), by_name: HashMap::new() };
        let other: Arc<str> = OTHER_CLASSES.into();
        classes.add(Arc::clone(&other), other);
        classes
    }
}

impl Classes {
    /// The number of a class; 0 = there are too many.
    pub fn number(&mut self, application: &Arc<str>, transaction: &Arc<str>) -> u32 {
        let name = (Arc::clone(application), Arc::clone(transaction));
        if let Some(&number) = self.by_name.get(&name) {
            return number;
        }
        if self.classes.len() >= MOST_CLASSES {
            return 0;
        }
        self.add(name.0, name.1)
    }

    fn add(&mut self, application: Arc<str>, transaction: Arc<str>) -> u32 {
        let number = self.classes.len() as u32;
        self.by_name.insert((Arc::clone(&application), Arc::clone(&transaction)), number);
        self.classes.push(Class {
            application,
            transaction,
            outcomes: Outcomes::default(),
            durations: Durations::default(),
            blocked_ns: 0,
            minute: 0,
            slowest_ns: [0; EXEMPLARS_OF_A_MINUTE],
            failed: 0,
        });
        number
    }

    /// The class of a number.
    pub fn get(&mut self, number: u32) -> &mut Class {
        let at = (number as usize).min(self.classes.len() - 1);
        &mut self.classes[at]
    }

    /// The names of a class: its application's, its transaction's.
    #[must_use]
    pub fn names(&self, number: u32) -> (String, String) {
        let class = self.classes.get(number as usize).or(self.classes.first());
        class.map(|class| (class.application.to_string(), class.transaction.to_string())).unwrap_or_default()
    }

    /// Every class with its number.
    pub fn each(&self) -> impl Iterator<Item = (u32, &Class)> {
        self.classes.iter().enumerate().map(|(at, class)| (at as u32, class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_beyond_the_bound_share_one_number() {
        let mut classes = Classes::default();
        let application: Arc<str> = "shop".into();
        for at in 0..MOST_CLASSES + 5 {
            let number = classes.number(&application, &format!("{at}").into());
            assert_eq!(number == 0, at + 1 >= MOST_CLASSES, "{at}");
        }
        assert_eq!(classes.number(&application, &"7".into()), 8);
        assert_eq!((classes.names(0).0.as_str(), classes.each().count()), (OTHER_CLASSES, MOST_CLASSES));
    }

    #[test]
    fn exemplars_are_the_slowest_so_far_and_the_first_failed_ones_of_each_minute() {
        let mut classes = Classes::default();
        let class = classes.get(0);
        let chosen = |class: &mut Class, minute, durations: &[u64], status| {
            durations.iter().map(|duration| class.is_exemplar(minute, *duration, status)).collect::<Vec<_>>()
        };
        let slow = chosen(class, 1, &[50, 10, 20, 5, 30, 5, 60, 15], Status::Good);
        assert_eq!(slow, [true, true, true, false, true, false, true, false]);
        assert_eq!(chosen(class, 1, &[1, 1, 1, 1], Status::Failed), [true, true, true, false]);
        assert_eq!(chosen(class, 2, &[5], Status::Good), [true], "another minute");
    }
}
