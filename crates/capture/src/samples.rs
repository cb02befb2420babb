//! Sampled stacks of the server's tasks, on the CPUs and off them.
//!
//! A clock interrupts each CPU; of a task of the server the program in the kernel (`bpf/samples.bpf.c`) tells the
//! kernel's frames and copies the user's stack, which is walked in user space by the program's own unwind tables: most
//! servers are compiled without frame pointers.
//! As often an iterator lists the tasks that have blocked since; their stacks stand still and are read where they are.
//! A stack is told as a node of a tree of frames, each frame as an offset in a file or in the kernel; what they are
//! called is looked up when the sampling ends, and each minute, so that a run can be read on another machine.

mod channel;
mod memory;
mod objects;
mod php;
mod programs;
mod sampler;
mod space;
mod symbols;
mod tree;
mod workshop;

use crate::error::CaptureError;
use crate::event_source::EventSource;
use crate::kind_set::KindSet;
use crate::probes::Probes;
use channel::{Inbox, Told};
use programs::Programs;
use sampler::Sampler;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_wire::{Kind, Record, Slot};
use workshop::Workshop;

/// What a thread gives back: the sampler, what is left to be told, and the CPU time that it took, nanoseconds.
type Turn = (Sampler, Vec<Told>, u64);

/// Records on their way to the collector: of two CPUs they fill it in half a minute without anybody looking.
const CHANNEL: usize = 1 << 14;

/// The samples a second of each CPU unless the user says: not a multiple of the kernel's own ticks.
pub const USUAL_HZ: u32 = 99;
/// The most that may be asked for.
pub const MOST_HZ: u32 = 997;

/// The sampler of stacks.
#[derive(Debug)]
pub struct Samples {
    idle: Option<Sampler>,
    running: Option<(JoinHandle<Turn>, Arc<AtomicBool>)>,
    channel: Receiver<Told>,
    inbox: Arc<Inbox>,
    /// What the thread left to be told when it ended.
    left: Vec<Told>,
    cpu_ns: u64,
}

impl Samples {
    /// Loads the programs; `hz` samples a second of each CPU, at most [`MOST_HZ`].
    ///
    /// # Errors
    /// [`CaptureError`] says what is missing and the remedy.
    pub fn load(probes: &Probes, hz: u32) -> Result<Self, CaptureError> {
        let programs = Programs::load(probes)?;
        let (sender, channel) = sync_channel(CHANNEL);
        let period = Duration::from_nanos(1_000_000_000 / u64::from(hz.clamp(1, MOST_HZ)));
        let workshop = Workshop::new(period.as_nanos() as u64, sender);
        Ok(Self {
            idle: Some(Sampler { programs, workshop, period }),
            running: None,
            channel,
            inbox: Arc::default(),
            left: Vec::new(),
            cpu_ns: 0,
        })
    }
}

/// What stacks will lack of these processes, and what remains, in words for the user; `None` where all can be had.
#[must_use]
pub fn missing_of_stacks(pids: &BTreeSet<u32>) -> Option<String> {
    let those = |which: fn(u32) -> bool| pids.iter().filter(|pid| which(**pid)).count();
    let (closed, sealed) = (those(memory::is_closed), those(memory::is_sealed));
    let (count, what) = match (closed, sealed) {
        (0, 0) => return None,
        (0, sealed) => (sealed, "will lack the program's functions where a task is blocked, and functions of PHP"),
        (closed, _) => (closed, "will hold the kernel's functions alone, none of the program and none of PHP"),
    };
    Some(format!(
        "stacks of {count} of the server's {} processes {what}: {}; parts, causes and who waited for whom are not touched by it",
        pids.len(),
        memory::WHY_NOT
    ))
}

impl EventSource for Samples {
    fn name(&self) -> &'static str {
        "stacks"
    }

    fn attach(&mut self) -> Result<(), CaptureError> {
        let Some(sampler) = self.idle.take() else { return Ok(()) };
        let attached = sampler
            .programs
            .attach_look()
            .and_then(|look| Ok((look, sampler.programs.attach_clocks(sampler.period.as_nanos() as u64)?)));
        let (look, clocks) = match attached {
            Ok(both) => both,
            Err(error) => {
                self.idle = Some(sampler);
                return Err(error);
            }
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (stopping, inbox) = (Arc::clone(&stop), Arc::clone(&self.inbox));
        let thread = std::thread::Builder::new().name("weir-stacks".to_owned()).spawn(move || {
            let mut sampler = sampler;
            let left = sampler.run(clocks, &look, &stopping, &inbox);
            (sampler, left, crate::recorder::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID))
        });
        let thread = thread
            .map_err(|error| CaptureError::Refused { doing: "starting the sampler", reason: error.to_string() })?;
        self.running = Some((thread, stop));
        Ok(())
    }

    fn detach(&mut self) {
        let Some((thread, stop)) = self.running.take() else { return };
        stop.store(true, Ordering::Release);
        match thread.join() {
            Ok((sampler, left, cpu_ns)) => {
                self.cpu_ns += cpu_ns;
                self.left.extend(left);
                self.idle = Some(sampler);
            }
            // A panic of the sampler is a defect of ours; its message is on stderr already.
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn sees(&self) -> KindSet {
        KindSet::of(&[Kind::Exec, Kind::Exit])
    }

    fn see(&mut self, record: &Record, _: &[Slot]) {
        if record.kind == Kind::Exec as u16 || record.kind == Kind::Exit as u16 {
            self.inbox.put(record.a as u32);
        }
    }

    fn cpu_ns(&self) -> u64 {
        self.cpu_ns
    }

    fn look(&mut self, _: u64, tell: &mut dyn FnMut(Record, &[Slot])) {
        for (record, slots) in self.channel.try_iter().take(CHANNEL).chain(self.left.drain(..)) {
            tell(record, &slots);
        }
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        if let Some((_, stop)) = &self.running {
            stop.store(true, Ordering::Release);
        }
    }
}
