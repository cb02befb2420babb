//! Connections in the making towards what the server asks: for whose request, and by which task.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Connections in the making that are remembered; beyond, for whose requests they were is forgotten.
const MOST_BEGUN: usize = 1 << 16;
/// Those of one task; of a task that makes more, the oldest go without a name.
const MOST_OF_A_TASK: usize = 256;

/// A connection that a task begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) socket: u32,
    /// The client's connection for whose request it is made; 0 where unknown.
    pub(crate) owner: u32,
    from_ns: u64,
    /// When it was made or given up; the largest time until then.
    to_ns: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// By socket, until it is used or closed: for whose request, and the task.
    begun: FxHashMap<u32, (u32, u32)>,
    of_tasks: FxHashMap<u32, VecDeque<Attempt>>,
}

impl Attempts {
    /// A task begins to connect a socket, for the request of this client's connection.
    pub(crate) fn begin(&mut self, pid: u32, at_ns: u64, socket: u32, owner: u32) {
        if self.begun.len() >= MOST_BEGUN {
            self.begun.clear();
            self.of_tasks.clear();
        }
        self.begun.insert(socket, (owner, pid));
        let own = self.of_tasks.entry(pid).or_default();
        own.push_back(Attempt { socket, owner, from_ns: at_ns, to_ns: u64::MAX });
        if own.len() > MOST_OF_A_TASK {
            own.pop_front();
        }
    }

    /// The connection is made, or was given up for good.
    pub(crate) fn end(&mut self, at_ns: u64, socket: u32, made: bool) {
        let Some((_, pid)) = self.begun.get(&socket).copied() else { return };
        if !made {
            self.begun.remove(&socket);
        }
        let own = self.of_tasks.get_mut(&pid).into_iter().flatten();
        own.filter(|one| one.socket == socket && one.to_ns == u64::MAX).for_each(|one| one.to_ns = at_ns);
    }

    /// The socket is used for the first time: for whose request it was connected.
    pub(crate) fn take_owner(&mut self, socket: u32) -> Option<u32> {
        self.begun.remove(&socket).map(|(owner, _)| owner)
    }

    /// The connections that a task was making at a time, the latest first.
    pub(crate) fn at(&self, pid: u32, at_ns: u64) -> impl Iterator<Item = &Attempt> {
        let own = self.of_tasks.get(&pid).map(|own| own.iter().rev());
        own.into_iter().flatten().filter(move |one| (one.from_ns..one.to_ns).contains(&at_ns))
    }

    /// Forgets those that were over before a time.
    pub(crate) fn trim(&mut self, before_ns: u64) {
        self.of_tasks.retain(|_, own| {
            own.retain(|one| one.to_ns >= before_ns);
            !own.is_empty()
        });
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        self.begun.len() + self.of_tasks.values().map(VecDeque::len).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_in_the_making_from_its_begin_to_its_end() {
        let mut attempts = Attempts::default();
        attempts.begin(7, 100, 1, 50);
        attempts.begin(7, 200, 2, 51);
        attempts.end(300, 1, false);
        attempts.end(400, 2, true);
        let at =
            |attempts: &Attempts, at_ns| attempts.at(7, at_ns).map(|one| (one.socket, one.owner)).collect::<Vec<_>>();
        assert_eq!(at(&attempts, 99), []);
        assert_eq!(at(&attempts, 250), [(2, 51), (1, 50)]);
        assert_eq!(at(&attempts, 300), [(2, 51)]);
        assert_eq!(at(&attempts, 400), []);
        // An attempt that was given up has no owner to take; one that was made gives its owner once.
        assert_eq!([attempts.take_owner(1), attempts.take_owner(2), attempts.take_owner(2)], [None, Some(51), None]);
        attempts.trim(350);
        assert_eq!(at(&attempts, 399), [(2, 51)]);
        attempts.trim(500);
        assert_eq!(attempts.held(), 0);
    }

    #[test]
    fn attempts_are_bounded() {
        let mut attempts = Attempts::default();
        for socket in 0..3 * MOST_BEGUN as u32 {
            attempts.begin(socket % 3, 1, socket, 0);
        }
        assert!(attempts.held() <= MOST_BEGUN + 3 * MOST_OF_A_TASK);
    }
}
