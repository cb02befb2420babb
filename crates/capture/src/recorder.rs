//! The collector: drains the rings, expands, names tasks, and writes a run.

use crate::boundary_source::BoundarySource;
use crate::error::CaptureError;
use crate::event_source::EventSource;
use crate::expand::Expander;
use crate::kind_set::KindSet;
use crate::living::Living;
use crate::probes::{Attached, Probes};
use crate::quota::Quotas;
use crate::redaction::Redaction;
use crate::ring::{RawEvent, Rings};
use crate::splices::Splices;
use crate::target::{Target, listening_ports, trees};
use crate::task_names::{forget, task_name, unnamed, whole_name};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_trace::{Cost, Limits, Run, Source, StreamWriter, WriteError};
use weir_wire::socket::OLDER;
use weir_wire::task::Switch;
use weir_wire::{Kind, Record, Slot, text_from_slots, text_slots};

/// Between two looks at the rings: a ring holds ten times as much of the busiest server.
const POLL: Duration = Duration::from_millis(20);
/// The same in a pause: how late its end may be heard of.
const PAUSED: Duration = Duration::from_millis(200);
/// Process numbers whose names are looked up; above, tasks stay without a name.
const MOST_PIDS: usize = 1 << 22;

/// Bytes of questions are never kept, whether or not a source reads them.
const RAW: [Kind; 2] = [Kind::AskedCall, Kind::AskedBytes];

/// Counters of a recording, readable while it runs.
#[derive(Debug, Default)]
pub struct Recording {
    /// Events written so far.
    pub events: AtomicU64,
    /// Events lost so far.
    pub lost: AtomicU64,
    /// Windows that have ended: stretches between two pauses.
    pub windows: AtomicU64,
    /// Bytes written by the end of the last window.
    pub bytes: AtomicU64,
    /// CPU time of the collector by the end of the last window, nanoseconds.
    pub cpu_ns: AtomicU64,
    stop: AtomicBool,
    pause: AtomicBool,
    attached: AtomicBool,
    /// Who the server is from the next window on.
    target: Mutex<Option<Target>>,
    /// What could not be looked at, a sentence each.
    unseen: Mutex<BTreeSet<String>>,
}

impl Recording {
    /// Asks for the probes to be detached, or attached again; within a poll it is so.
    pub fn pause(&self, pause: bool) {
        self.pause.store(pause, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.pause.load(Ordering::Acquire)
    }

    pub(crate) fn set_attached(&self, attached: bool) {
        self.attached.store(attached, Ordering::Release);
    }

    /// Names the server anew, for the time after a pause: it may have been restarted meanwhile.
    pub fn retarget(&self, target: Target) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = Some(target);
    }

    fn note_unseen(&self, sentences: Vec<String>) {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner).extend(sentences);
    }

    /// Whether the probes are attached: the server pays for them.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.attached.load(Ordering::Acquire)
    }
}

/// A recording that runs in a thread of its own.
#[derive(Debug)]
pub struct Recorder {
    thread: JoinHandle<Result<Cost, WriteError>>,
    shared: Arc<Recording>,
    run: Run,
    source: BoundarySource,
}

impl Recorder {
    /// Marks the target, attaches the probes, and begins to write to `run`.
    ///
    /// # Errors
    /// [`CaptureError`]; a run that cannot be written is told by [`Recorder::finish`].
    pub fn start(probes: Probes, target: &Target, run: &Run, limits: Limits) -> Result<Self, CaptureError> {
        Self::start_with(probes, Vec::new(), target, run, limits)
    }

    /// The same with further sources beside the spine; they are attached and detached after it.
    ///
    /// # Errors
    /// As [`Recorder::start`], and what a source says that cannot be attached.
    pub fn start_with(
        mut probes: Probes,
        mut sources: Vec<Box<dyn EventSource>>,
        target: &Target,
        run: &Run,
        limits: Limits,
    ) -> Result<Self, CaptureError> {
        sources.push(Box::new(Quotas::new(&target.pids)));
        if probes.source() == BoundarySource::SocketTracepoints
            && let Some(splices) = Splices::load(&probes)?
        {
            sources.push(Box::new(splices));
        }
        mark(&mut probes, target);
        let (rings, source) = (probes.rings()?, probes.source());
        let attached = probes.attach()?;
        for source in &mut sources {
            source.attach()?;
            tracing::debug!(source = source.name(), "source attached");
        }
        // A child that was born between the listing and its mark is found now that forks are followed.
        let pids: BTreeSet<u32> = trees(target.pids.iter().copied());
        for pid in &pids {
            probes.trace(*pid);
        }
        // A port that a starting server opened before the probes could see it.
        for port in listening_ports(&pids) {
            probes.watch_port(port);
        }
        let shared = Arc::new(Recording::default());
        shared.note_unseen(probes.census()?);
        tracing::debug!(sources = sources.len(), "all attached");
        let probes_keep = probes.keeps_addresses();
        let mut collector = Collector {
            window: 0,
            probes,
            streams: (0..rings.cpus()).map(|cpu| run.stream(Source::Kernel, cpu as u32, limits)).collect(),
            expanders: (0..rings.cpus()).map(|cpu| Expander::new(cpu as u32)).collect(),
            lost: vec![0; rings.cpus()],
            rings,
            sees: sources.iter().map(|source| source.sees()).collect(),
            rewrites: sources.iter().fold(KindSet::of(&RAW), |all, source| all.or(source.rewrites())),
            sources,
            named: vec![0; MOST_PIDS / 64],
            living: Living::default(),
            redaction: (!probes_keep).then(Redaction::new),
            groups: target.groups.clone(),
            removed: 0,
            events: Vec::new(),
            next_second_ns: 0,
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new()
            .name("weir-record".to_owned())
            .spawn(move || collector_main(&mut collector, attached))
            .map_err(|error| CaptureError::Refused { doing: "starting the collector", reason: error.to_string() })?;
        Ok(Self { thread, shared, run: run.clone(), source })
    }

    /// A recording by another thread than the collector of probes.
    pub(crate) fn of_thread(
        thread: JoinHandle<Result<Cost, WriteError>>,
        shared: Arc<Recording>,
        run: &Run,
        source: BoundarySource,
    ) -> Self {
        Self { thread, shared, run: run.clone(), source }
    }

    /// Its counters.
    #[must_use]
    pub fn recording(&self) -> &Recording {
        &self.shared
    }

    /// Whether the collector has ended by itself: the run could not be written on.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }

    /// The source that request boundaries come from.
    #[must_use]
    pub fn source(&self) -> BoundarySource {
        self.source
    }

    /// Detaches, writes what is left, and notes the end in the manifest.
    ///
    /// # Errors
    /// [`WriteError`]; what was recorded before stays readable.
    pub fn finish(self, notes: Vec<String>) -> Result<Cost, WriteError> {
        self.shared.stop.store(true, Ordering::Release);
        let cost = match self.thread.join() {
            Ok(outcome) => outcome?,
            // A panic of the collector is a defect of ours; its message is on stderr already.
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let unseen = std::mem::take(&mut *self.shared.unseen.lock().unwrap_or_else(PoisonError::into_inner));
        self.run.end(Source::Kernel, cost, notes.into_iter().chain(unseen).collect())?;
        Ok(cost)
    }
}

/// Marks who and what is the server.
fn mark(probes: &mut Probes, target: &Target) {
    for pid in &target.pids {
        probes.trace(*pid);
    }
    for port in &target.ports {
        probes.watch_port(*port);
    }
}

struct Collector {
    /// Windows begun so far.
    window: u64,
    probes: Probes,
    sources: Vec<Box<dyn EventSource>>,
    /// The kinds that each of them sees, and those that one of them rewrites.
    sees: Vec<KindSet>,
    rewrites: KindSet,
    rings: Rings,
    expanders: Vec<Expander>,
    streams: Vec<StreamWriter>,
    lost: Vec<u64>,
    /// A bit for each task whose name was written.
    named: Vec<u64>,
    living: Living,
    /// `None` if addresses of clients are kept.
    redaction: Option<Redaction>,
    /// Control groups whose processes are the server's.
    groups: BTreeSet<PathBuf>,
    /// Segments that the streams had removed when it was last told what lives.
    removed: u64,
    events: Vec<RawEvent>,
    next_second_ns: u64,
    shared: Arc<Recording>,
}

fn collector_main(collector: &mut Collector, attached: Attached) -> Result<Cost, WriteError> {
    let mut attached = Some(attached);
    collector.begin_window()?;
    // Short looks at the rings that must not come late. Refused to ordinary users: then they come when they come.
    // SAFETY: setpriority takes numbers; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -5) };
    loop {
        let stopping = collector.shared.stop.load(Ordering::Acquire);
        if stopping || collector.shared.pause.load(Ordering::Acquire) {
            if let Some(links) = attached.take() {
                collector.end_window()?;
                // Before the sources, which may look up names now: the server need not pay meanwhile.
                drop(links);
                tracing::debug!(stopping, "probes detached");
                collector.sources.iter_mut().for_each(|source| source.detach());
                // What they had still to tell, such as those names.
                collector.ask_sources(clock_ns(libc::CLOCK_MONOTONIC))?;
                collector.discard();
            }
        } else if attached.is_none() {
            // Probes that were attached once can be attached again, unless the system is out of memory: then the
            // pause lasts.
            attached = collector.attach_again();
            if attached.is_some() {
                collector.begin_window()?;
            }
        }
        collector.shared.attached.store(attached.is_some(), Ordering::Release);
        if attached.is_some() {
            collector.drain()?;
        }
        if stopping {
            break;
        }
        std::thread::sleep(if attached.is_some() { POLL } else { PAUSED });
    }
    let mut cost = Cost::default();
    for stream in collector.streams.drain(..) {
        let written = stream.finish()?;
        cost.events += written.records;
        cost.bytes += written.bytes;
        cost.lost += written.lost;
    }
    let of_sources = collector.sources.iter().map(|source| source.cpu_ns()).sum::<u64>();
    tracing::info!(events = cost.events, bytes = cost.bytes, lost = cost.lost, "recording ended");
    cost.cpu_seconds = (clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) + of_sources) as f64 / 1e9;
    Ok(cost)
}

impl Collector {
    /// Attaches the further sources again; false, and none of them, if one cannot be.
    fn attach_sources(&mut self) -> bool {
        let all = self.sources.iter_mut().all(|source| source.attach().is_ok());
        if !all {
            self.sources.iter_mut().for_each(|source| source.detach());
        }
        all
    }

    /// After a pause: attaches to the processes that are the server now, with the sockets that are open now.
    fn attach_again(&mut self) -> Option<Attached> {
        let target = self.shared.target.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(target) = &target {
            self.probes.forget_targets();
            self.groups.clone_from(&target.groups);
            mark(&mut self.probes, target);
            self.sources.iter_mut().for_each(|source| source.retarget(target));
        }
        let attached = self.probes.attach().ok().filter(|_| self.attach_sources())?;
        if let Some(target) = &target {
            // A child that was born between the listing and its mark is found now that forks are followed.
            let pids: BTreeSet<u32> = trees(target.pids.iter().copied());
            pids.iter().for_each(|pid| self.probes.trace(*pid));
        }
        // In the pause, connections came and went, and numbers of tasks were given to others.
        self.living = Living::default();
        self.redaction.iter_mut().for_each(Redaction::forget_sockets);
        self.named.fill(0);
        self.shared.note_unseen(self.probes.census().ok()?);
        Some(attached)
    }

    /// From now on everything is told: what is in the rings is the probes' attaching, and who is there.
    fn begin_window(&mut self) -> Result<(), WriteError> {
        let edge_ns = self.drain()?;
        self.window += 1;
        self.tell_window(edge_ns, 0)
    }

    /// Up to now everything is told; from now on the probes are detached one by one.
    fn end_window(&mut self) -> Result<(), WriteError> {
        // Some sources tell at a look what the one before has brought: it belongs into this window.
        self.drain()?;
        let edge_ns = self.drain()?;
        self.tell_window(edge_ns, 1)?;
        self.streams.iter_mut().try_for_each(StreamWriter::flush)?;
        self.shared.windows.store(self.window, Ordering::Release);
        let written: u64 = self.streams.iter().map(|stream| stream.written().bytes).sum();
        self.shared.bytes.store(written, Ordering::Release);
        self.shared.cpu_ns.store(clock_ns(libc::CLOCK_THREAD_CPUTIME_ID), Ordering::Release);
        Ok(())
    }

    fn tell_window(&mut self, edge_ns: u64, flags: u8) -> Result<(), WriteError> {
        let record = Record {
            time_ns: edge_ns,
            kind: Kind::Window as u16,
            flags,
            a: self.window,
            b: edge_ns,
            ..Record::default()
        };
        show(&mut self.sources, &self.sees, &record, &[]);
        self.streams.first_mut().map_or(Ok(()), |stream| stream.push(record, &[], None))
    }

    /// Passes over what the probes wrote while they were being detached.
    fn discard(&mut self) {
        let now_ns = clock_ns(libc::CLOCK_MONOTONIC);
        for cpu in 0..self.rings.cpus() {
            self.events.clear();
            self.rings.drain(cpu, now_ns, &mut self.events);
            self.lost[cpu] = self.rings.lost(cpu);
        }
        // A burst may have made it as large as a ring, and pauses are long.
        self.events = Vec::new();
        self.expanders = (0..self.rings.cpus()).map(|cpu| Expander::new(cpu as u32)).collect();
    }

    /// Takes what all CPUs have written up to now; returns when that is.
    fn drain(&mut self) -> Result<u64, WriteError> {
        let now_ns = clock_ns(libc::CLOCK_MONOTONIC);
        self.probes.look();
        for cpu in 0..self.rings.cpus() {
            let mut events = std::mem::take(&mut self.events);
            events.clear();
            self.rings.drain(cpu, now_ns, &mut events);
            let outcome = self.write(cpu, now_ns, &events);
            self.events = events;
            outcome?;
        }
        self.living.settle();
        let dropped = self.redaction.as_mut().map_or(0, Redaction::take_dropped);
        if let Some(stream) = self.streams.first_mut().filter(|_| dropped > 0) {
            stream.lose(dropped);
            self.shared.lost.fetch_add(dropped, Ordering::Relaxed);
        }
        self.ask_sources(now_ns)?;
        // After the events, which are all older: a stream's records stand in the order of time.
        if now_ns >= self.next_second_ns {
            self.next_second_ns = now_ns + 1_000_000_000;
            self.each_second(now_ns)?;
        }
        Ok(now_ns)
    }

    /// What the sources tell from user space goes to the first stream.
    fn ask_sources(&mut self, now_ns: u64) -> Result<(), WriteError> {
        let Some(stream) = self.streams.first_mut() else { return Ok(()) };
        let mut outcome = Ok(());
        for source in &mut self.sources {
            source.look(now_ns, &mut |record, slots| {
                if outcome.is_ok() {
                    // A stream's records stand in the order of time, and its events up to now are written.
                    outcome = stream.push(Record { time_ns: now_ns, slots: slots.len() as u8, ..record }, slots, None);
                }
            });
            source.look_named(now_ns, &mut |record, slots, (id, text)| {
                if outcome.is_ok() {
                    stream.define(id, text);
                    outcome = stream.push(Record { time_ns: now_ns, ..record }, slots, Some(id));
                }
            });
        }
        outcome
    }

    fn write(&mut self, cpu: usize, now_ns: u64, events: &[RawEvent]) -> Result<(), WriteError> {
        let stream = &mut self.streams[cpu];
        let lost = self.rings.lost(cpu);
        if lost > self.lost[cpu] {
            let fresh = lost - self.lost[cpu];
            self.lost[cpu] = lost;
            stream.lose(fresh);
            self.shared.lost.fetch_add(fresh, Ordering::Relaxed);
            let time_ns = events.first().map_or(now_ns, |event| event.time_ns);
            let record = Record { time_ns, kind: Kind::Lost as u16, lane: cpu as u32, a: fresh, ..Record::default() };
            stream.push(record, &[], None)?;
        }
        let (named, probes, living) = (&mut self.named, &self.probes, &mut self.living);
        let (sources, sees, rewrites) = (&mut self.sources, &self.sees, &self.rewrites);
        let (redaction, in_groups) = (&mut self.redaction, !self.groups.is_empty() || crate::containers::are_told());
        let mut outcome = Ok(());
        for event in events {
            self.expanders[cpu].expand(*event, &mut |record, slots| {
                if outcome.is_err() {
                    return;
                }
                let record = probes.translate(record);
                if rewrites.has(record.kind) && rewritten(sources, &record, stream, &mut outcome) {
                    return;
                }
                if record.kind == Kind::TaskName as u16 {
                    // By the number's next turn on a CPU it is named already.
                    unnamed(named, record.a as u32);
                    let (name, text) = whole_name(probes, record, &text_from_slots(slots), in_groups);
                    let slots = text_slots(&text);
                    show(sources, sees, &Record { slots: slots.len() as u8, ..name }, &slots);
                    outcome = stream.push(name, &slots, None);
                    return;
                }
                let mut keep = |record: Record, slots: &[Slot]| {
                    living.see(&record, slots);
                    show(sources, sees, &record, slots);
                    if outcome.is_ok() {
                        outcome = stream.push(record, slots, None);
                    }
                };
                match redaction.as_mut() {
                    Some(redaction) => redaction.pass(record, slots, |port| probes.is_watched(port), &mut keep),
                    None => keep(record, slots),
                }
                if let Some(switch) = Switch::read(&record)
                    && unnamed(named, switch.next)
                    && let Some((name, text)) = task_name(probes, switch.next, record.time_ns, cpu, in_groups)
                    && outcome.is_ok()
                {
                    let slots = text_slots(&text);
                    show(sources, sees, &Record { slots: slots.len() as u8, ..name }, &slots);
                    outcome = stream.push(name, &slots, None);
                }
                // A new program has a new name, and a number may have had another owner.
                if record.kind == Kind::Exec as u16 || record.kind == Kind::Exit as u16 {
                    forget(named, record.a as u32);
                }
            });
        }
        self.shared.events.fetch_add(events.len() as u64, Ordering::Relaxed);
        outcome
    }

    /// What lives is told again once segments are gone in which it may have been told; a reader that met it before
    /// takes it without harm.
    fn tell_again(&mut self, now_ns: u64) -> Result<(), WriteError> {
        let removed = self.streams.iter().map(|stream| stream.written().removed).sum();
        if removed == self.removed {
            return Ok(());
        }
        self.removed = removed;
        // Each task is named where it runs next.
        self.named.fill(0);
        let Some(stream) = self.streams.first_mut() else { return Ok(()) };
        for open in self.living.open() {
            let (record, slots) = open.write(now_ns, 0);
            stream.push(Record { flags: OLDER, ..record }, &slots, None)?;
        }
        for peer in self.living.peers() {
            stream.push(Record { time_ns: now_ns, ..peer }, &[], None)?;
        }
        Ok(())
    }

    /// Processes that have come to the server's control groups by another way than by a fork of its own.
    fn follow_groups(&mut self) {
        let pids: BTreeSet<u32> = self.groups.iter().flat_map(|group| crate::cgroup::processes(group)).collect();
        let fresh: BTreeSet<u32> = pids.into_iter().filter(|pid| !self.probes.is_traced(*pid)).collect();
        if fresh.is_empty() {
            return;
        }
        fresh.iter().for_each(|pid| self.probes.trace(*pid));
        listening_ports(&fresh).iter().for_each(|port| self.probes.watch_port(*port));
        // A container that starts later may have been given connections that are older.
        self.shared.note_unseen(self.probes.census_elsewhere(fresh));
    }

    /// A clock pair, each CPU's stolen time, what was told in segments that are gone, and everything to the disk.
    fn each_second(&mut self, now_ns: u64) -> Result<(), WriteError> {
        self.follow_groups();
        self.tell_again(now_ns)?;
        let pair = Record {
            time_ns: now_ns,
            kind: Kind::ClockPair as u16,
            a: clock_ns(libc::CLOCK_REALTIME),
            ..Record::default()
        };
        if let Some(stream) = self.streams.first_mut() {
            stream.push(pair, &[], None)?;
        }
        for (cpu, steal_ns) in steal_by_cpu() {
            if let Some(stream) = self.streams.get_mut(cpu) {
                let record = Record {
                    time_ns: now_ns,
                    kind: Kind::CpuSteal as u16,
                    lane: cpu as u32,
                    a: steal_ns,
                    ..Record::default()
                };
                stream.push(record, &[], None)?;
            }
        }
        // So a kill loses a second of the recording at most.
        self.streams.iter_mut().try_for_each(StreamWriter::flush)
    }
}

/// Shows a record to the sources that see its kind.
fn show(sources: &mut [Box<dyn EventSource>], sees: &[KindSet], record: &Record, slots: &[Slot]) {
    for (source, sees) in sources.iter_mut().zip(sees) {
        if sees.has(record.kind) {
            source.see(record, slots);
        }
    }
}

/// Whether a record was one that a source puts in other words; those are written.
fn rewritten(
    sources: &mut [Box<dyn EventSource>],
    record: &Record,
    stream: &mut StreamWriter,
    outcome: &mut Result<(), WriteError>,
) -> bool {
    let mut tell = |record: Record, (id, text): (u32, &str)| {
        if outcome.is_ok() {
            stream.define(id, text);
            *outcome = stream.push(record, &[], Some(id));
        }
    };
    let raw = RAW.iter().any(|kind| *kind as u16 == record.kind);
    sources.iter_mut().any(|source| source.rewrite(record, &mut tell)) || raw
}

/// Stolen time of each CPU since boot, from /proc/stat (proc(5): the eighth number, in clock ticks).
fn steal_by_cpu() -> Vec<(usize, u64)> {
    // SAFETY: sysconf reads a constant.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            // The first line, without a number, is the sum over all CPUs.
            let numbered = line.strip_prefix("cpu").filter(|rest| !rest.starts_with(' '))?;
            let mut fields = numbered.split_ascii_whitespace();
            let cpu = fields.next()?.parse().ok()?;
            let steal: u64 = fields.nth(7)?.parse().ok()?;
            Some((cpu, steal * (1_000_000_000 / ticks)))
        })
        .collect()
}

/// CLOCK_MONOTONIC.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours; the call writes it and nothing else.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
