//! Words in memory by which the threads of a process lock each other out (futexes), and who has each.
//!
//! The kernel tells which thread waits for which word, and which other thread woke it there. A word is a lock's once a
//! thread has woken another one where it had waited itself: who hands work on never waits where its worker does.
//! A thread that waits with a time-out looks again when that is over, and may then get the lock without any wake-up,
//! as those do that want an interpreter's. That others come to wait for the word, and that it wakes one of them there
//! before it waits there again, shows that it has got it, unless it sleeps at another word meanwhile. Any other time-out
//! is a sleep.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Words that are told apart; of what comes beyond, a wait with a time-out is told as a sleep.
const MOST_WORDS: usize = 1 << 12;
/// What is kept of all words together; the oldest of the word at hand goes first.
const MOST_TURNS: usize = 1 << 18;
/// What is looked through for the one that has a lock.
const MOST_LOOKED: usize = 256;
/// Threads whose last turn is remembered however long ago it was.
const MOST_REMEMBERED: usize = 64;
/// Words that share this many low bits of their address are one: a condition variable has two that take turns, bytes.
const APART: u16 = 8;
/// Within so much of a time-out the one that had the lock comes for it again, or passes it on, nanoseconds.
const SOON_NS: u64 = 2_000_000;

/// A word: the process, and the word's address, cut to 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Word {
    process: u32,
    address: u16,
}

impl Word {
    pub(crate) fn new(process: u32, address: u16) -> Self {
        Self { process, address: address / APART }
    }
}

/// What a thread did at a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It began to wait.
    Waits,
    /// This thread ended its wait.
    WokenBy(u32),
    /// Its time was over.
    TimedOut,
}

/// When a thread did what.
#[derive(Debug, Clone, Copy)]
struct Told {
    at_ns: u64,
    pid: u32,
    turn: Turn,
}

/// The words that are locks'.
#[derive(Debug, Default)]
pub(crate) struct LockWords {
    words: FxHashMap<Word, VecDeque<Told>>,
    turns: usize,
}

impl LockWords {
    /// Whether none is known: then nothing needs to be told.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether a word is known to be a lock's.
    pub(crate) fn knows(&self, word: Word) -> bool {
        self.words.contains_key(&word)
    }

    /// A thread gave a lock back, and another one that waited for it was woken.
    pub(crate) fn passed(&mut self, word: Word, at_ns: u64, waker: u32, woken: u32) {
        if self.words.len() < MOST_WORDS {
            self.words.entry(word).or_default();
        }
        self.tell(word, Told { at_ns, pid: woken, turn: Turn::WokenBy(waker) });
    }

    /// A thread begins to wait for a word, which may be a lock's.
    pub(crate) fn waits(&mut self, word: Word, at_ns: u64, pid: u32) {
        self.tell(word, Told { at_ns, pid, turn: Turn::Waits });
    }

    /// The time of a thread's wait is over.
    pub(crate) fn timed_out(&mut self, word: Word, at_ns: u64, pid: u32) {
        self.tell(word, Told { at_ns, pid, turn: Turn::TimedOut });
    }

    fn tell(&mut self, word: Word, told: Told) {
        let Some(all) = self.words.get_mut(&word) else { return };
        if self.turns >= MOST_TURNS {
            self.turns -= usize::from(all.pop_front().is_some());
        }
        if self.turns < MOST_TURNS {
            // Two CPUs' clocks may differ by nanoseconds.
            let at_ns = all.back().map_or(told.at_ns, |last| told.at_ns.max(last.at_ns));
            all.push_back(Told { at_ns, ..told });
            self.turns += 1;
        }
    }

    /// When a thread gave a lock back that it got as the time of its wait for the word was over: others come to wait for
    /// it, and the thread wakes one of them there before it waits for it again. `None` where it got none.
    pub(crate) fn given_back_ns(&self, word: Word, pid: u32, at_ns: u64) -> Option<u64> {
        let all = self.words.get(&word)?;
        let first = all.partition_point(|told| told.at_ns < at_ns);
        let own_end = |told: &&Told| told.pid == pid && told.turn == Turn::TimedOut;
        let mut came: Vec<u32> = Vec::new();
        for told in all.range(first..).skip_while(own_end).take(MOST_LOOKED) {
            match told.turn {
                _ if told.pid == pid => return None,
                Turn::WokenBy(waker) if waker == pid && came.contains(&told.pid) => return Some(told.at_ns),
                Turn::Waits => came.push(told.pid),
                _ => {}
            }
        }
        None
    }

    /// Who had a lock when the time of a thread's wait for it was over; `None` where that is not sure.
    ///
    /// The last one that got it has it, and that one is the first to come for it again, or to pass it on.
    pub(crate) fn holder(&self, word: Word, pid: u32, at_ns: u64) -> Option<u32> {
        let all = self.words.get(&word)?;
        let first_after = all.partition_point(|told| told.at_ns <= at_ns);
        let mut seen: Vec<(u32, Turn)> = vec![(pid, Turn::Waits)];
        for told in all.range(..first_after).rev().take(MOST_LOOKED) {
            if !seen.iter().any(|(known, _)| *known == told.pid) {
                seen.push((told.pid, told.turn));
            }
        }
        let last = seen.iter().find(|(_, turn)| *turn != Turn::Waits).map(|(holder, _)| *holder);
        let waited = |pid: u32| seen.iter().any(|(known, turn)| *known == pid && *turn == Turn::Waits);
        let gave_back = |told: &Told| match told.turn {
            Turn::Waits => Some(told.pid).filter(|one| !waited(*one)),
            Turn::WokenBy(waker) => Some(waker).filter(|one| *one != pid),
            Turn::TimedOut => None,
        };
        let after = all.range(first_after..).take_while(|told| told.at_ns <= at_ns.saturating_add(SOON_NS));
        let next = after.take(MOST_LOOKED).find_map(gave_back);
        match (last, next) {
            (Some(last), Some(next)) => Some(last).filter(|last| *last == next),
            (last, next) => last.or(next),
        }
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        self.words.len() + self.turns
    }

    /// Forgets what lies before a time, but for the last that each thread did: a lock may be had for long.
    pub(crate) fn trim(&mut self, before_ns: u64) {
        for all in self.words.values_mut() {
            let old = all.partition_point(|told| told.at_ns < before_ns);
            let mut last: Vec<Told> = Vec::new();
            for told in all.drain(..old).rev() {
                if last.len() < MOST_REMEMBERED && !last.iter().any(|one| one.pid == told.pid) {
                    last.push(told);
                }
            }
            last.into_iter().for_each(|told| all.push_front(told));
        }
        self.turns = self.words.values().map(VecDeque::len).sum();
    }
}
