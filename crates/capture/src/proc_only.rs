//! The source without any probe: what /proc tells of the server's tasks, looked at ten times a second.

use crate::boundary_source::BoundarySource;
use crate::error::CaptureError;
use crate::proc_task::look;
use crate::recorder::{Recorder, Recording, clock_ns};
use crate::target::{Target, trees};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weir_trace::{Cost, Limits, Run, Source, StreamWriter, WriteError};
use weir_wire::{Kind, Record, text_slots};

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(100);
/// Between two looks for new processes, nanoseconds.
const LISTING_NS: u64 = 1_000_000_000;
/// Tasks whose use of the CPUs is followed; more are counted as lost at each look.
const MOST_TASKS: usize = 2048;
/// Tasks of which a look also asks what they are doing, in turn.
const MOST_STATES: usize = 32;

impl Recorder {
    /// Begins to write to `run` what /proc tells of the target, without any probe and without privileges.
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if no thread can be started; a run that cannot be written is told by
    /// [`Recorder::finish`].
    pub fn sample(target: &Target, run: &Run, limits: Limits) -> Result<Self, CaptureError> {
        let shared = Arc::new(Recording::default());
        let sampler = Sampler {
            roots: target.pids.clone(),
            processes: target.pids.clone(),
            tasks: BTreeMap::new(),
            stream: run.stream(Source::Kernel, 0, limits),
            listed_ns: 0,
            turn: 0,
            lost: 0,
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new()
            .name("weir-record".to_owned())
            .spawn(move || sampler.run())
            .map_err(|error| CaptureError::Refused { doing: "starting the collector", reason: error.to_string() })?;
        Ok(Self::of_thread(thread, shared, run, BoundarySource::ProcOnly))
    }
}

struct Sampler {
    roots: BTreeSet<u32>,
    processes: BTreeSet<u32>,
    /// Each task with its process.
    tasks: BTreeMap<u32, u32>,
    stream: StreamWriter,
    listed_ns: u64,
    /// The task whose turn it is to tell what it is doing.
    turn: usize,
    lost: u64,
    shared: Arc<Recording>,
}

impl Sampler {
    fn run(mut self) -> Result<Cost, WriteError> {
        loop {
            let stopping = self.shared.is_stopping();
            let paused = self.shared.is_paused();
            self.shared.set_attached(!paused && !stopping);
            if !paused {
                self.look_at_all()?;
            }
            if stopping {
                break;
            }
            std::thread::sleep(PERIOD);
        }
        let written = self.stream.finish()?;
        let cpu_seconds = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) as f64 / 1e9;
        Ok(Cost { events: written.records, bytes: written.bytes, lost: written.lost + self.lost, cpu_seconds })
    }

    fn look_at_all(&mut self) -> Result<(), WriteError> {
        let now_ns = clock_ns(libc::CLOCK_MONOTONIC);
        if now_ns.saturating_sub(self.listed_ns) >= LISTING_NS {
            self.listed_ns = now_ns;
            self.processes = trees(self.roots.iter().copied());
            let realtime_ns = clock_ns(libc::CLOCK_REALTIME);
            self.push(Record { time_ns: now_ns, kind: Kind::ClockPair as u16, a: realtime_ns, ..Record::default() })?;
        }
        self.list_tasks(now_ns)?;
        let tasks: Vec<(u32, u32)> = self.tasks.iter().map(|(pid, tgid)| (*pid, *tgid)).collect();
        let (count, first) = (tasks.len(), self.turn);
        self.turn = (first + MOST_STATES) % count.max(1);
        for (index, (pid, tgid)) in tasks.into_iter().enumerate() {
            let also_state = (index + count - first % count) % count < MOST_STATES;
            match look(tgid, pid, also_state) {
                Some(usage) => {
                    // Each at its own time: a look at many tasks takes milliseconds.
                    let (record, slots) = usage.write(clock_ns(libc::CLOCK_MONOTONIC));
                    self.shared.events.fetch_add(1, Ordering::Relaxed);
                    self.stream.push(record, &slots, None)?;
                }
                None => drop(self.tasks.remove(&pid)),
            }
        }
        Ok(())
    }

    /// Threads that are new since the last look, by name.
    fn list_tasks(&mut self, now_ns: u64) -> Result<(), WriteError> {
        let mut too_many = 0;
        for tgid in self.processes.clone() {
            for entry in fs::read_dir(format!("/proc/{tgid}/task")).into_iter().flatten().flatten() {
                let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
                if self.tasks.contains_key(&pid) {
                    continue;
                }
                if self.tasks.len() >= MOST_TASKS {
                    too_many += 1;
                    continue;
                }
                self.tasks.insert(pid, tgid);
                let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
                let slots = text_slots(name.trim());
                let record = Record {
                    time_ns: now_ns,
                    kind: Kind::TaskName as u16,
                    flags: 1,
                    slots: slots.len() as u8,
                    a: u64::from(pid) | u64::from(tgid) << 32,
                    b: crate::target::start_ns(tgid).unwrap_or(0),
                    ..Record::default()
                };
                self.stream.push(record, &slots, None)?;
            }
        }
        if too_many > 0 {
            self.lost += too_many;
            self.shared.lost.fetch_add(too_many, Ordering::Relaxed);
        }
        Ok(())
    }

    fn push(&mut self, record: Record) -> Result<(), WriteError> {
        self.stream.push(record, &[], None)
    }
}
