//! The kernel's thread that polls a ring of io_uring (SQPOLL): it does the calls of the server, which asks for them in
//! memory and is woken when one is done.
//!
//! It is a thread of the server's process and touches the sockets in its place. It runs without a pause, whether it has
//! anything to do or not, so that its running tells nothing: what a request waits for is told by the waits of the thread
//! that asks, and by what the poller touched before it ended them.

use crate::answers::{self, Ours};
use crate::known::Known;
use crate::tasks::{Touch, Verb};

/// The kernel's name for such a thread, before the number of the task that made the ring.
const NAME: &str = "iou-sqp-";
/// Its name for a thread that does what would block.
const WORKER: &str = "iou-wrk-";
/// Wake-ups that are looked through.
const MOST_WAKES: usize = 256;

/// What ended a wait for a ring's completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completed {
    /// An answer came over this socket.
    Answer(u32),
    /// More of the request came.
    Request,
    /// A piece of the response was given.
    Response,
    /// Something for another request.
    Others,
    /// This thread of the kernel's was given work at this time.
    Work(u32, u64),
    /// No call that is told: its time was over.
    Time,
}

/// Whether a task is such a thread.
pub(crate) fn is_poller(known: Known<'_>, pid: u32) -> bool {
    known.tasks.named(pid).is_some_and(|name| name.name.starts_with(NAME))
}

/// The thread that a poller woke last within a window, and until when that one was at work then; the window's end where
/// it still is.
pub(crate) fn asker(known: Known<'_>, poller: u32, window: (u64, u64)) -> Option<(u32, u64)> {
    let (from_ns, to_ns) = window;
    let wakes = known.tasks.wakes(poller, from_ns, to_ns).rev().take(MOST_WAKES);
    let mut woken =
        wakes.filter(|wake| answers::are_siblings(known, poller, wake.woken) && !is_worker(known, wake.woken));
    let wake = woken.next()?;
    let last = known.tasks.spells_back(wake.woken, wake.at_ns, to_ns).next();
    let until_ns = last.filter(|spell| answers::place_of(spell).is_some()).map_or(to_ns, |spell| spell.from_ns);
    Some((wake.woken, until_ns.max(wake.at_ns)))
}

/// What a poller had done when it ended a wait within a window.
pub(crate) fn completed(known: Known<'_>, ours: Ours, poller: u32, window: (u64, u64)) -> Completed {
    let (from_ns, to_ns) = window;
    let whole = |touch: &&Touch| touch.at_ns > from_ns;
    match known.tasks.touches(poller, from_ns, to_ns.saturating_add(1)).rev().find(whole) {
        Some(touch) if !ours.has(touch.owner) => return Completed::Others,
        Some(Touch { server_side: false, verb: Verb::Receive, socket, .. }) => return Completed::Answer(*socket),
        Some(Touch { server_side: true, verb: Verb::Receive, .. }) => return Completed::Request,
        Some(Touch { server_side: true, verb: Verb::Send, .. }) => return Completed::Response,
        // A question was sent.
        Some(_) | None => {}
    }
    let mut wakes = known.tasks.wakes(poller, from_ns, to_ns).rev().take(MOST_WAKES);
    let work = wakes.find(|wake| is_worker(known, wake.woken));
    work.map_or(Completed::Time, |wake| Completed::Work(wake.woken, wake.at_ns))
}

fn is_worker(known: Known<'_>, pid: u32) -> bool {
    known.tasks.named(pid).is_some_and(|name| name.name.starts_with(WORKER))
}
