//! Programs of Go: what a goroutine waits for without a socket, told by its runtime.
//!
//! Threads of Go's runtime take up any goroutine that is ready, so what a thread sleeps in says nothing of a request.
//! The places lie behind the check of the stack, where the arguments still stand in their registers: r14 holds the running
//! goroutine (Go's internal ABI, abi-internal.md), and a waiter (`sudog`) begins with its own. Each is on the way of those
//! that wait alone: a lock that is free, and a timer that sends to a channel, meet none.

use super::{Entry, Pack, Place, Reads};
use weir_wire::probe::{CARRIED, END, LOCK, SLEEP};

const RUNNING: Reads = Reads::Held("r14");

/// Locks of `sync`, with `--watch locks`.
pub(super) static LOCKS: Pack = Pack {
    name: "Go",
    programs: &["*"],
    dialect: None,
    entries: &[
        // Go 1.24 moved the mutex.
        Entry::mark(
            "mutex",
            LOCK | CARRIED,
            &[Place::Go("internal/sync.runtime_SemacquireMutex"), Place::Go("sync.runtime_SemacquireMutex")],
        )
        .reading(RUNNING)
        .optional(),
        Entry::mark("read", LOCK | CARRIED, &[Place::Go("sync.runtime_SemacquireRWMutexR")])
            .reading(RUNNING)
            .optional(),
        Entry::mark("write", LOCK | CARRIED, &[Place::Go("sync.runtime_SemacquireRWMutex")])
            .reading(RUNNING)
            .optional(),
        Entry::mark("given", LOCK | CARRIED | END, &[Place::Go("runtime.readyWithTime")])
            .reading(Reads::HeldAt("rax", 0))
            .optional(),
    ],
};

/// `time.Sleep`, with `--watch timers`.
pub(super) static SLEEPS: Pack = Pack {
    name: "Go",
    programs: &["*"],
    dialect: None,
    entries: &[
        Entry::mark("sleep", SLEEP | CARRIED, &[Place::Go("time.Sleep")]).reading(RUNNING).optional(),
        Entry::mark("awake", SLEEP | CARRIED | END, &[Place::Go("runtime.goroutineReady")])
            .reading(Reads::Held("rbx"))
            .optional(),
    ],
};
