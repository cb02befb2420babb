//! Questions that people ask, in SQL that SQLite, DuckDB and DataFusion answer alike.

use crate::error::{QueryError, nearest};

/// A saved question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    /// Its name.
    pub name: &'static str,
    /// What it asks, in words.
    pub asks: &'static str,
    /// It in SQL.
    pub sql: &'static str,
}

/// The question of a name.
///
/// # Errors
/// [`QueryError::NotSaved`].
pub fn saved(name: &str) -> Result<&'static Saved, QueryError> {
    SAVED.iter().find(|one| one.name == name).ok_or_else(|| QueryError::NotSaved {
        name: name.to_owned(),
        nearest: nearest(name, &SAVED.iter().map(|one| one.name).collect::<Vec<_>>()),
    })
}

macro_rules! questions {
    ($($name:literal: $asks:literal,)*) => {
        /// All saved questions.
        pub const SAVED: &[Saved] =
            &[$(Saved { name: $name, asks: $asks, sql: include_str!(concat!("saved/", $name, ".sql")) },)*];
    };
}

questions! {
    "slowest-requests": "Which requests were slowest, and which three things took most of their time?",
    "where-time-goes": "Which part of the response times is how large?",
    "why-slow": "What takes longer in the slowest hundredth of the requests than in the others?",
    "what-changed": "Which part of the response time differs between the first half of the run and the second?",
    "times-by-class": "How many requests has each class, and how long do they take: mean, median, p99, maximum?",
    "times-per-second": "How many requests were there in each second, and what were their p50 and p99?",
    "outcomes": "How did the requests of each class end?",
    "cpu-by-class": "Which class costs most CPU time at the server?",
    "culprits": "On whom or what did requests wait most?",
    "queueing-by-worker": "Behind which workers did requests queue, and for how long?",
    "servers-behind": "In which processes did requests spend their time, and with what?",
    "lateness": "How late was the load generator itself: how long after the intended time did it begin?",
    "not-joined": "How many requests could not be joined with the server's events, and why?",
    "lock-holders": "Who held locks that others waited for?",
    "locks": "Which locks were waited for longest?",
    "waits-by-thread": "Which thread of the server waited longest, and for what?",
    "longest-waits": "Which single waits of the server's threads were longest, and who ended them?",
    "waits-for-cpu": "Which threads waited for a CPU, how often, and how long at most?",
    "cpu-by-process": "Which processes used the CPUs, and how much of the run's time?",
    "cpu-use": "How busy was each CPU?",
    "wakers": "Which processes woke the server's threads?",
    "hot-functions": "Which functions ran most by samples of stacks?",
    "blocked-stacks": "In which functions were threads blocked?",
    "asked": "What did the server ask others, how often, and how long did the answers take?",
    "disk": "Who asked which device for what, and how long did it take?",
    "busiest-objects": "Which CPUs, disks, servers, locks and functions were busy longest, and which were waited for longest?",
    "who-asked-whom": "Which processes and clients asked which objects, how often, and how long did it take?",
    "own-work": "How long did the transactions and phases take that applications and servers told of?",
    "decisions": "What did the server's rules decide, and when?",
    "events-by-kind": "Which events are in the run, and how many of each?",
}
