//! Labels of those to blame: numbers for the folds, words for the reader.

use crate::join::Joiner;
use crate::step::{
    Detail, ENDED_CONNECTION, HANDSHAKE, HELD_BACK, behind_words, full_backlog_words, late_syn_words,
    unconnected_words, way_words,
};
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use weir_wire::socket::client_words;
use weir_wire::task::number_on_its_host;

/// Labels that are told apart; later ones get the number 0.
const MOST_LABELS: usize = 4096;

/// All labels so far; 0 is the empty label, which names no task.
#[derive(Debug)]
pub struct Labels {
    texts: Vec<String>,
    by_text: HashMap<String, u32>,
    by_detail: FxHashMap<Detail, u32>,
}

impl Default for Labels {
    fn default() -> Self {
        Self::new()
    }
}

impl Labels {
    /// No labels yet but the empty one.
    #[must_use]
    pub fn new() -> Self {
        Self { texts: vec![String::new()], by_text: HashMap::new(), by_detail: FxHashMap::default() }
    }

    /// The number of a culprit's label, by its name at a time.
    pub fn of(&mut self, joiner: &Joiner, detail: Detail, at_ns: u64) -> u32 {
        if detail == Detail::None {
            return 0;
        }
        let renamed = task_of(detail).is_some_and(|pid| joiner.is_renamed(pid));
        if !renamed && let Some(label) = self.by_detail.get(&detail) {
            return *label;
        }
        let text = culprit(joiner, detail, at_ns);
        let number = match self.by_text.get(&text) {
            Some(number) => *number,
            None if self.texts.len() >= MOST_LABELS => return 0,
            None => {
                let number = self.texts.len() as u32;
                self.texts.push(text.clone());
                self.by_text.insert(text, number);
                number
            }
        };
        // A task may get its name later: only a name that is known is kept for it.
        let named = task_of(detail).is_none_or(|pid| joiner.task_name(pid).is_some());
        if named && !renamed {
            self.by_detail.insert(detail, number);
        }
        number
    }

    /// The labels by their numbers.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        &self.texts
    }
}

/// The task that a detail names, if it names one.
fn task_of(detail: Detail) -> Option<u32> {
    match detail {
        Detail::Task(pid)
        | Detail::Reader(_, pid)
        | Detail::Sender(_, pid)
        | Detail::Held(pid, _)
        | Detail::Handshake(pid)
            if pid != 0 =>
        {
            Some(pid)
        }
        _ => None,
    }
}

/// Who is to blame, in a word: of the server's own, all processes of a name together, however many come and go.
fn culprit(joiner: &Joiner, detail: Detail, at_ns: u64) -> String {
    let own = |pid| joiner.task_name_at(pid, at_ns).filter(|name| name.traced);
    let words = match detail {
        Detail::Task(pid) => own(pid).map(|name| name.name.clone()),
        Detail::Held(pid, by) => own(pid).map(|name| format!("{}, {}", name.name, by.words())),
        Detail::Handshake(pid) => own(pid).map(|name| format!("{HANDSHAKE} {}", name.name)),
        _ => None,
    };
    words.unwrap_or_else(|| label(joiner, detail, at_ns))
}

/// Who or what it is, a process with its number and its name at a time.
#[must_use]
pub fn label(joiner: &Joiner, detail: Detail, at_ns: u64) -> String {
    match detail {
        Detail::None => String::new(),
        Detail::Peer(address) => address.to_string(),
        Detail::Way(address) => way_words(address),
        Detail::Unconnected(address) => unconnected_words(address),
        Detail::LateSyn(address) => late_syn_words(address),
        Detail::FullBacklog(address) => full_backlog_words(address),
        Detail::Handshake(task) => format!("{HANDSHAKE} {}", label(joiner, Detail::Task(task), at_ns)),
        Detail::Behind(part) => behind_words(part),
        Detail::Named(number) | Detail::Lock(number, _) => joiner.text(number).to_owned(),
        Detail::Reader(client, 0) => format!("a client that reads slowly: {}", client_words(client)),
        Detail::Reader(_, task) => format!("a client that reads slowly: {}", label(joiner, Detail::Task(task), at_ns)),
        Detail::Sender(client, 0) => format!("a client that sends slowly: {}", client_words(client)),
        Detail::Sender(_, task) => format!("a client that sends slowly: {}", label(joiner, Detail::Task(task), at_ns)),
        Detail::HeldBack => HELD_BACK.to_owned(),
        Detail::EndedConnection => ENDED_CONNECTION.to_owned(),
        Detail::Held(task, by) => format!("{}, {}", label(joiner, Detail::Task(task), at_ns), by.words()),
        Detail::Task(pid) => match joiner.task_name_at(pid, at_ns) {
            Some(name) => format!("{} ({})", name.name, number_on_its_host(name.tgid)),
            None => format!("task {}", number_on_its_host(pid)),
        },
    }
}
