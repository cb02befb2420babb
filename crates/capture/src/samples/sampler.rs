//! The thread that takes samples: it drains the ring, looks at who is blocked, and has stacks made of it.

use super::channel::{Inbox, Told};
use super::programs::{Blocked, Clock, Programs};
use super::workshop::Workshop;
use libbpf_rs::{Iter, Link, RingBufferBuilder};
use std::cell::RefCell;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A look at the blocked tasks may take this share of the time between two of them, else they come less often.
const LOOK_SHARE: u32 = 20;
/// Beyond, the time between two looks is a stall of the machine's, for which no sample should stand.
const LONGEST: Duration = Duration::from_secs(1);
/// A thread that sleeps for as long as the time between two looks wakes so much before or after it.
const EARLY: Duration = Duration::from_millis(1);
/// Everything is told anew so often, for a run that removes its oldest segments.
const GENERATION: Duration = Duration::from_secs(60);

/// The sampler, between its turns in a thread of its own.
#[derive(Debug)]
pub(super) struct Sampler {
    pub(super) programs: Programs,
    pub(super) workshop: Workshop,
    pub(super) period: Duration,
}

impl Sampler {
    /// Takes samples until it is asked to stop; what then is left to be told is returned.
    pub(super) fn run(&mut self, clocks: Vec<Clock>, look: &Link, stop: &AtomicBool, inbox: &Inbox) -> Vec<Told> {
        let (programs, period) = (&self.programs, self.period);
        let workshop = RefCell::new(&mut self.workshop);
        let mut builder = RingBufferBuilder::new();
        let take = |bytes: &[u8]| {
            workshop.borrow_mut().take(programs, bytes);
            0
        };
        let ring = match builder.add(programs.ring(), take).map(|_| ()).and_then(|()| builder.build()) {
            Ok(ring) => ring,
            Err(error) => return vec![weir_wire::stack::note(0, &format!("no stacks: {error}"), 0)],
        };
        let drain = || {
            // It fails only where a callback does, and ours does not.
            let _ = ring.consume();
            workshop.borrow_mut().settle();
        };
        // Short looks that must not come late. Refused to ordinary users: then they come when they come.
        // SAFETY: setpriority takes numbers; 0 is the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -5) };
        let (mut generation, mut last_look, mut pause) = (Instant::now(), Instant::now(), period);
        while !stop.load(Ordering::Acquire) {
            std::thread::sleep(period);
            for tgid in inbox.take() {
                workshop.borrow_mut().forget(programs, tgid);
            }
            drain();
            let since = last_look.elapsed();
            if since >= pause {
                last_look = Instant::now();
                let took = look_at_blocked(programs, &mut workshop.borrow_mut(), look, since.min(LONGEST));
                pause = period.max(took * LOOK_SHARE).saturating_sub(EARLY);
            }
            if generation.elapsed() >= GENERATION || workshop.borrow().is_full() {
                generation = Instant::now();
                workshop.borrow_mut().begin_anew();
            }
        }
        drop(clocks);
        drain();
        let mut workshop = workshop.borrow_mut();
        let mut left = workshop.end_generation();
        left.extend(workshop.losses(programs.counters()));
        left
    }
}

/// Asks the kernel for the tasks that have blocked since the last look, `since` ago, and takes their stacks; gives the
/// time that the asking took, which grows with the number of tasks of the machine.
fn look_at_blocked(programs: &Programs, workshop: &mut Workshop, look: &Link, since: Duration) -> Duration {
    let (mut bytes, begin) = (Vec::new(), Instant::now());
    // If the system has no memory for it, this look sees no task.
    let seen = Iter::new(look).is_ok_and(|mut tasks| tasks.read_to_end(&mut bytes).is_ok());
    let took = begin.elapsed();
    if seen {
        for blocked in bytes.chunks_exact(Blocked::BYTES).filter_map(Blocked::read) {
            workshop.blocked(programs, &blocked, since.as_nanos() as u64);
        }
    }
    took
}
