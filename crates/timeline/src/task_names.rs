//! The names of tasks, each by the time: a task may take another one while it is recorded.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Names that a task had before and that are remembered; of a task that takes more, the oldest go.
const MOST_FORMER: usize = 32;

/// What is known of a task by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskName {
    /// The name, at most 15 characters.
    pub name: String,
    /// Its thread group: the process.
    pub tgid: u32,
    /// Whether it belongs to the traced server.
    pub traced: bool,
    /// Whether threads of its process carry goroutines.
    pub carries: bool,
}

/// The names of one number.
#[derive(Debug)]
struct Known {
    now: TaskName,
    /// Names before, each with the time until which it held, the oldest first.
    former: VecDeque<(u64, TaskName)>,
    /// It has had another one, whether or not that is still remembered.
    renamed: bool,
}

/// All names.
#[derive(Debug, Default)]
pub(crate) struct TaskNames {
    by_pid: FxHashMap<u32, Known>,
}

impl TaskNames {
    /// A task has this name from a time on.
    ///
    /// Whose task was the server's stays so until its number is given again: a name that was looked up while the process
    /// ended does not know it any more.
    pub(crate) fn name(&mut self, pid: u32, name: TaskName, at_ns: u64) {
        let Some(known) = self.by_pid.get(&pid) else { return self.give(pid, name, at_ns) };
        let was_traced = known.now.traced && known.now.tgid == name.tgid;
        self.give(pid, TaskName { traced: name.traced || was_traced, ..name }, at_ns);
    }

    /// A task is made: it has its parent's name until it takes another, or ends too soon for its own to be looked up.
    pub(crate) fn inherit(&mut self, parent: u32, child: u32, process: Option<u32>, at_ns: u64) {
        match self.now(parent).cloned() {
            Some(known) => self.give(child, TaskName { tgid: process.unwrap_or(known.tgid), ..known }, at_ns),
            None => drop(self.by_pid.remove(&child)),
        }
    }

    fn give(&mut self, pid: u32, name: TaskName, at_ns: u64) {
        let Some(known) = self.by_pid.get_mut(&pid) else {
            self.by_pid.insert(pid, Known { now: name, former: VecDeque::new(), renamed: false });
            return;
        };
        let before = std::mem::replace(&mut known.now, name);
        if before.name != known.now.name || before.tgid != known.now.tgid {
            known.renamed = true;
            known.former.push_back((at_ns, before));
            if known.former.len() > MOST_FORMER {
                known.former.pop_front();
            }
        }
    }

    /// A task's last name.
    pub(crate) fn now(&self, pid: u32) -> Option<&TaskName> {
        self.by_pid.get(&pid).map(|known| &known.now)
    }

    /// A task's name at a time.
    pub(crate) fn at(&self, pid: u32, at_ns: u64) -> Option<&TaskName> {
        let known = self.by_pid.get(&pid)?;
        let former = known.former.iter().find(|(until_ns, _)| at_ns < *until_ns);
        Some(former.map_or(&known.now, |(_, name)| name))
    }

    /// Whether a number has had more than one name.
    pub(crate) fn is_renamed(&self, pid: u32) -> bool {
        self.by_pid.get(&pid).is_some_and(|known| known.renamed)
    }

    /// Forgets a task.
    pub(crate) fn remove(&mut self, pid: u32) {
        self.by_pid.remove(&pid);
    }

    /// Forgets the tasks that are not to be kept.
    pub(crate) fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        self.by_pid.retain(|pid, _| keep(*pid));
    }

    /// Forgets names that no task has had since a time.
    pub(crate) fn trim(&mut self, before_ns: u64) {
        for known in self.by_pid.values_mut().filter(|known| !known.former.is_empty()) {
            while known.former.front().is_some_and(|(until_ns, _)| *until_ns <= before_ns) {
                known.former.pop_front();
            }
        }
    }

    /// How many tasks have a name.
    pub(crate) fn len(&self) -> usize {
        self.by_pid.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, tgid: u32) -> TaskName {
        TaskName { name: name.to_owned(), tgid, traced: true, carries: false }
    }

    #[test]
    fn a_task_is_called_by_its_name_of_that_time() {
        let mut names = TaskNames::default();
        names.name(7, named("old-name", 7), 100);
        assert!(!names.is_renamed(7));
        names.name(7, named("batch-importer", 7), 200);
        names.name(7, named("batch-importer", 7), 250);
        names.name(7, named("idle", 7), 300);
        let at = |at_ns| names.at(7, at_ns).map(|known| known.name.as_str());
        assert_eq!(
            [at(50), at(199), at(200), at(299), at(300)],
            [Some("old-name"), Some("old-name"), Some("batch-importer"), Some("batch-importer"), Some("idle")]
        );
        assert_eq!((names.now(7), names.is_renamed(7)), (Some(&named("idle", 7)), true));
        names.trim(200);
        assert_eq!(names.at(7, 50).map(|known| known.name.as_str()), Some("batch-importer"));
        names.trim(u64::MAX);
        assert!(names.is_renamed(7), "what was kept under its first name stays doubtful");
    }

    #[test]
    fn a_numbers_next_owner_takes_nothing_back() {
        let mut names = TaskNames::default();
        names.name(3, named("parent", 3), 100);
        names.name(7, named("gone", 7), 100);
        names.inherit(3, 7, Some(7), 200);
        assert_eq!(names.at(7, 150), Some(&named("gone", 7)));
        assert_eq!(names.at(7, 200), Some(&named("parent", 7)));
        names.inherit(99, 7, None, 300);
        assert_eq!(names.now(7), None, "of its parent nothing is known");
    }

    #[test]
    fn names_are_bounded() {
        let mut names = TaskNames::default();
        for at_ns in 0..1000 {
            names.name(7, named(&format!("name-{at_ns}"), 7), at_ns);
        }
        assert!(names.by_pid[&7].former.len() <= MOST_FORMER);
        assert_eq!(names.at(7, 998).map(|known| known.name.as_str()), Some("name-998"));
    }
}
