//! Why a run by workers cannot be made, or a worker's part of it.

use crate::LoadError;

/// Why a run by workers cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkersError {
    /// A worker could not prepare its part, so that nothing was begun.
    #[error("worker {name}: {why}; nothing was loaded")]
    NotReady {
        /// The worker's name.
        name: String,
        /// Why, with the remedy.
        why: String,
    },
    /// No worker reported its part.
    #[error("no worker reported what it did; {name}: {why}")]
    AllLost {
        /// The first worker's name.
        name: String,
        /// Why it was lost.
        why: String,
    },
    /// The user ended the run before it began.
    #[error("the run was ended before its workers were ready")]
    Ended,
    /// Too few connections to give each loop of each worker one.
    #[error(
        "{connections} connections cannot be shared by {loops} loops ({workers} workers of {threads} threads): give at least \
         -c {loops}"
    )]
    Connections {
        /// Connections that were asked for.
        connections: u32,
        /// Workers.
        workers: u64,
        /// Threads of each.
        threads: u32,
        /// Loops of all.
        loops: u64,
    },
    /// None, or too many workers.
    #[error("a run has between 1 and {most} workers, and {given} were named")]
    Count {
        /// Workers that were named.
        given: usize,
        /// The most.
        most: usize,
    },
    /// Options that several workers cannot share.
    #[error("{option} cannot be shared by workers: {why}")]
    Option {
        /// The option.
        option: &'static str,
        /// Why, with the remedy.
        why: &'static str,
    },
}

/// Why a worker does not make its part.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// It makes another orchestrator's run.
    #[error("it makes a run for another orchestrator; wait until that has ended")]
    Busy,
    /// The options of the job are wrong, or lead beyond its limits.
    #[error("{words}")]
    Options {
        /// What is wrong with which of them, with the remedy.
        words: String,
    },
    /// The load cannot be prepared or made.
    #[error(transparent)]
    Load(#[from] LoadError),
}
