//! A foreign trace as a run: a lane for each CPU, as a recording has them.

use crate::connections::Connections;
use crate::event::shortened;
use crate::lanes::{CPUS_MAX, Lanes, Written};
use crate::requests::Requests;
use crate::samples::Samples;
use crate::source::{Input, read};
use crate::{Call, Counts, Disk, Event, Format, Mark, Options, ReadError, Stretch, Task, What, Within};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::Path;
use weir_trace::{Entry, Host, Run, Source, WriteError};
use weir_wire::probe::{BY_APPLICATION, END, PHASE, ProbePoint};
use weir_wire::task::{BY_INTERRUPT, CONTEXT_TOLD, IN_SOFT_INTERRUPT, NO_SYSCALL, Switch};
use weir_wire::{Kind, Record, text_slots};

/// Tasks whose names are remembered, and requests to disks that are under way.
const TASKS_MAX: usize = 1 << 20;
const REQUESTS_MAX: usize = 1 << 16;
/// Names of stretches whose texts are remembered; others' are made again each time.
const PHASES_MAX: usize = 1 << 15;

/// What came of a trace.
#[derive(Debug)]
pub struct Imported {
    /// Its format.
    pub format: Format,
    /// What it held.
    pub counts: Counts,
    /// Records that the run has of it.
    pub records: u64,
    /// Events that were understood and that a run has no place for, by what they are.
    pub not_kept: BTreeMap<&'static str, u64>,
}

/// Why there is no run of a trace, or not all of one.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be opened.
    #[error("{0}")]
    Open(#[from] std::io::Error),
    /// No format begins so.
    #[error(
        "it is none of the formats that are read: perf.data, trace.dat, the text of ftrace, trace-cmd report and perf \
         script, CTF, Perfetto's protobuf, Chrome's JSON, JFR, OTLP; of any other text name the form of its lines: --lines or --line-forms"
    )]
    Format,
    /// It holds no event.
    #[error("it holds no event")]
    Empty,
    /// It cannot be read to its end; the run has what came before.
    #[error("{error}; the run has the {records} records that came before")]
    Read {
        /// Why.
        error: ReadError,
        /// What is kept.
        records: u64,
    },
    /// The run cannot be written.
    #[error("{0}")]
    Write(#[from] WriteError),
}

/// How a run comes to be, as it is noted in it.
#[derive(Debug)]
pub struct Made<'a> {
    /// weir's version.
    pub version: &'a str,
    /// The command line.
    pub command: Vec<String>,
}

/// Reads a trace into a run.
///
/// # Errors
/// [`ImportError`]; of a trace that is cut the run has what came before.
pub fn import(file: &Path, directory: &Path, options: &Options, made: &Made<'_>) -> Result<Imported, ImportError> {
    let (input, format) = Input::open(file, options)?.ok_or(ImportError::Format)?;
    let run = Run::create(directory)?;
    let mut writing = Writing::new(&run, options.server.clone());
    let outcome = read(input, format, options, |event| writing.take(&event));
    let by_tasks = writing.requests.are_by_tasks();
    let by_calls = writing.connections.count() > 0 && !by_tasks;
    let arrivals = writing.connections.told();
    let written = writing.finish()?;
    let records = written.kernel.events + written.requests.map_or(0, |cost| cost.events);
    let rung = if by_calls { Some("system calls") } else { by_tasks.then_some("user probes") };
    let (counts, error) = match outcome {
        Ok(counts) => (counts, None),
        Err(error) => (Counts::default(), Some(error)),
    };
    note(&run, (&counts, format, rung, arrivals), made, &written)?;
    match error {
        Some(error) => Err(ImportError::Read { error, records }),
        None if records == 0 => Err(ImportError::Empty),
        None => Ok(Imported { format, counts, records, not_kept: written.not_kept }),
    }
}

fn note(
    run: &Run,
    (counts, format, rung, (found, missed)): (&Counts, Format, Option<&str>, (u64, u64)),
    made: &Made<'_>,
    written: &Written,
) -> Result<(), WriteError> {
    let host = Host {
        name: counts.host.clone().unwrap_or_default(),
        machine_id: String::new(),
        boot_id: String::new(),
        kernel: String::new(),
        cpus: counts.cpus,
    };
    let clock = counts.clock.as_deref().unwrap_or("a clock that it does not name");
    let mut notes = vec![format!("imported from {}, by {clock}", format.name())];
    if rung == Some("system calls") {
        notes.push(arrivals_in_words(found, missed));
    }
    let sources = [(Source::Kernel, Some(written.kernel)), (Source::Client, written.requests)];
    let (first_ns, last_ns) = written.span_ns;
    for (source, cost) in sources {
        let Some(cost) = cost else { continue };
        let rung = rung.filter(|_| source == Source::Kernel).map(str::to_owned);
        run.note(&Entry::Source {
            source: source.name().to_owned(),
            pid: std::process::id(),
            version: made.version.to_owned(),
            command: made.command.clone(),
            host: host.clone(),
            monotonic_ns: first_ns,
            realtime_ns: 0,
            rung,
            seed: None,
        })?;
        let notes = if source == Source::Kernel { notes.clone() } else { Vec::new() };
        run.end_at(source, cost, notes, (last_ns, 0))?;
    }
    Ok(())
}

/// How it is known when requests arrived.
fn arrivals_in_words(found: u64, missed: u64) -> String {
    const BY_CALLS: &str = "a request counts from the waking of the task that takes it, or from when it is taken";
    if found == 0 {
        return format!(
            "the trace tells no arrivals: {BY_CALLS}; clients' addresses are not in it, and 100::N stands for its connection N"
        );
    }
    let all = found + missed;
    let others = if missed == 0 { String::new() } else { format!("; of the others {BY_CALLS}") };
    format!("tcp:tcp_probe tells when data arrived of {found} of {all} times that data was taken{others}")
}

/// A task as it was named last.
struct Known {
    name: Box<str>,
    process: Option<u32>,
}

/// A request that a device has.
struct Begun {
    at_ns: u64,
    task: u32,
}

struct Writing<'a> {
    lanes: Lanes<'a>,
    names: FxHashMap<u32, Known>,
    disks: FxHashMap<(u32, u64), Begun>,
    connections: Connections,
    requests: Requests,
    samples: Samples,
    /// The texts that say a stretch's begin and its end, by its name.
    phases: FxHashMap<Box<str>, [u32; 2]>,
    /// The task that runs on each CPU, by its switches: not every source tells it at each event.
    running: Vec<u32>,
    /// An event was seen from whose time on all is told.
    has_begun: bool,
}

impl<'a> Writing<'a> {
    fn new(run: &'a Run, server: Option<String>) -> Self {
        Self {
            lanes: Lanes::new(run),
            names: FxHashMap::default(),
            disks: FxHashMap::default(),
            connections: Connections::new(server),
            requests: Requests::default(),
            samples: Samples::default(),
            phases: FxHashMap::default(),
            running: Vec::new(),
            has_begun: false,
        }
    }

    fn take(&mut self, event: &Event<'_>) {
        if self.lanes.has_failed() {
            return;
        }
        let by_switches = || event.cpu.and_then(|cpu| self.running.get(cpu as usize)).copied();
        let task = event.task.or_else(by_switches);
        let cpu = event.cpu.or_else(|| self.cpu_of(task?));
        let event = &Event { task, cpu, ..*event };
        if !self.has_begun && event.at_ns > 0 {
            self.has_begun = true;
            // From here on connections are seen from their beginning.
            self.lanes.push(Record { b: event.at_ns, ..record(Kind::Window, event) }, &[], None);
        }
        let running = event.task.unwrap_or(0);
        match event.what {
            What::Switch { from, state, to } => self.switch(event, (from, state, to)),
            What::Waking { task, within } => self.waking(event, task, within),
            What::Fork { parent, child, process } => {
                self.name(event, child, process);
                let (a, b) = (pair(parent, child.number), u64::from(process.unwrap_or(0)));
                self.lanes.push(Record { a, b, ..record(Kind::Fork, event) }, &[], None);
            }
            What::Exec => {
                self.lanes.push(Record { a: u64::from(running), ..record(Kind::Exec, event) }, &[], None);
            }
            What::Exit => {
                self.connections.ended(running);
                self.lanes.push(Record { a: u64::from(running), ..record(Kind::Exit, event) }, &[], None);
            }
            What::Named { task, process } => self.name(event, task, process),
            What::DiskBegins(disk) => self.begin(event, disk),
            What::DiskEnds(disk) => self.end(event, disk),
            What::Arrives { ends, bytes, socket } => {
                self.connections.arrives(event, ends, (bytes, socket), &mut self.lanes);
            }
            What::Ready { socket } => self.connections.ready(event, socket, &mut self.lanes),
            What::Takes(ends) => self.connections.takes(running, ends),
            What::Tcp { ends, is_over } => self.connections.tcp(ends, is_over),
            What::Lost(events) => self.lanes.lose(event, events),
            What::CallBegins(call) => self.connections.begins(event, running, call, &mut self.lanes),
            What::CallEnds { call, result } => self.call_ends(event, call, result),
            What::Mark(mark) => self.mark(event, mark),
            What::Request(request) => Requests::whole(event, request, &mut self.lanes),
            What::Stretch(stretch) => self.stretch(event, stretch),
            What::Sample { stack, weight_ns } => self.samples.push(event, (stack, weight_ns), &mut self.lanes),
            What::Other(_) => self.lanes.skip("events that no rule maps"),
        }
    }

    fn switch(&mut self, event: &Event<'_>, (from, state, to): (Task<'_>, u8, Task<'_>)) {
        self.requests.tasks_are_told(&mut self.lanes);
        self.runs(event.cpu.unwrap_or(0), to.number);
        self.name(event, from, event.process.filter(|_| event.task == Some(from.number)));
        self.name(event, to, None);
        // A task that would rather run on waits for nothing that its call is about.
        let blocked = if state == 0 { None } else { self.connections.blocked_in(from.number) };
        let (syscall, descriptor) = blocked.unwrap_or((NO_SYSCALL, 0));
        let switch = Switch { prev: from.number, next: to.number, prev_state: state, syscall, descriptor };
        self.lanes.push(switch.write(event.at_ns, event.cpu.unwrap_or(0)), &[], None);
    }

    /// Where a task runs.
    fn cpu_of(&self, task: u32) -> Option<u32> {
        self.running.iter().position(|running| *running == task).map(|cpu| cpu as u32)
    }

    fn runs(&mut self, cpu: u32, task: u32) {
        if cpu < CPUS_MAX {
            let needed = (cpu as usize + 1).max(self.running.len());
            self.running.resize(needed, 0);
            self.running[cpu as usize] = task;
        }
    }

    fn waking(&mut self, event: &Event<'_>, task: Task<'_>, within: Within) {
        self.requests.tasks_are_told(&mut self.lanes);
        self.name(event, task, None);
        self.connections.woken(task.number, event.at_ns);
        let running = event.task.unwrap_or(0);
        let flags = match within {
            Within::NotTold => 0,
            Within::Task => CONTEXT_TOLD,
            // What a task sends over the loopback arrives in a soft interrupt on top of its call.
            Within::SoftInterrupt if self.connections.is_sending(running) => CONTEXT_TOLD | IN_SOFT_INTERRUPT,
            Within::SoftInterrupt => CONTEXT_TOLD | IN_SOFT_INTERRUPT | BY_INTERRUPT,
            Within::Interrupt => CONTEXT_TOLD | BY_INTERRUPT,
        };
        let waking = Record { flags, a: pair(running, task.number), ..record(Kind::Waking, event) };
        self.lanes.push(waking, &[], None);
    }

    fn call_ends(&mut self, event: &Event<'_>, call: Call<'_>, result: i64) {
        let Some(task) = event.task else { return self.lanes.skip("ends of system calls of which task is not told") };
        let known = self.names.get(&task);
        let process = event.process.or(known.and_then(|known| known.process)).unwrap_or(task);
        let name = known.map_or("", |known| &*known.name);
        self.connections.ends(event, (task, process, name), (call, result), &mut self.lanes);
    }

    fn mark(&mut self, event: &Event<'_>, mark: Mark<'_>) {
        // Whose mark it is, its CPU tells.
        if event.cpu.is_none() && !self.running.is_empty() {
            return self.lanes.skip("marks of tasks that did not run then, by the switches");
        }
        self.requests.mark(event, mark, &mut self.connections, &mut self.lanes);
    }

    /// A stretch of a task's time is a phase of its work.
    fn stretch(&mut self, event: &Event<'_>, stretch: Stretch<'_>) {
        let Some(task) = event.task else { return self.lanes.skip("stretches of which task is not told") };
        let texts = self.phase(stretch.name);
        for (at_ns, text) in [stretch.begun_ns, event.at_ns].into_iter().zip(texts) {
            let (a, b) = (u64::from(task), u64::from(text));
            let hit = Record { time_ns: at_ns, flags: BY_APPLICATION, a, b, ..record(Kind::ProbeHit, event) };
            self.lanes.push(hit, &[], Some(text));
        }
    }

    /// The texts of a phase's begin and end.
    fn phase(&mut self, name: &str) -> [u32; 2] {
        if let Some(known) = self.phases.get(name) {
            return *known;
        }
        let texts = [PHASE, END].map(|roles| {
            let point = ProbePoint { server: "import".to_owned(), name: name.to_owned(), roles };
            self.lanes.text(&point.write())
        });
        if self.phases.len() < PHASES_MAX {
            self.phases.insert(shortened(name).into(), texts);
        }
        texts
    }

    /// Tells a task's name, if it is another one than before.
    fn name(&mut self, event: &Event<'_>, task: Task<'_>, process: Option<u32>) {
        if task.number == 0 {
            return;
        }
        let task = Task { name: shortened(task.name), ..task };
        let known = self.names.get(&task.number);
        if known.is_some_and(|known| *known.name == *task.name && (process.is_none() || known.process == process)) {
            return;
        }
        let process = process.or_else(|| known.and_then(|known| known.process));
        if known.is_none() && self.names.len() >= TASKS_MAX {
            return self.lanes.skip("names of tasks beyond the bound");
        }
        self.names.insert(task.number, Known { name: task.name.into(), process });
        // A task whose process is not told stands for itself.
        let of = process.unwrap_or(task.number);
        let payload = text_slots(task.name);
        let record = Record {
            time_ns: event.at_ns,
            kind: Kind::TaskName as u16,
            lane: event.cpu.unwrap_or(0),
            slots: payload.len() as u8,
            a: u64::from(task.number) | u64::from(of) << 32,
            ..Record::default()
        };
        self.lanes.push(record, &payload, None);
    }

    fn begin(&mut self, event: &Event<'_>, disk: Disk) {
        if self.disks.len() >= REQUESTS_MAX {
            return self.lanes.skip("requests to disks beyond the bound");
        }
        let begun = Begun { at_ns: event.at_ns, task: event.task.unwrap_or(0) };
        self.disks.insert((disk.device, disk.sector), begun);
    }

    fn end(&mut self, event: &Event<'_>, disk: Disk) {
        let Some(begun) = self.disks.remove(&(disk.device, disk.sector)) else {
            return self.lanes.skip("ends of requests to disks whose begin is not there");
        };
        const DURATION_BITS: u32 = 40;
        let took_ns = event.at_ns.saturating_sub(begun.at_ns).min((1 << DURATION_BITS) - 1);
        let record = Record {
            time_ns: event.at_ns,
            kind: Kind::DiskRequest as u16,
            flags: match disk.writes {
                Some(false) => 0,
                Some(true) => 1,
                None => 3,
            },
            lane: event.cpu.unwrap_or(0),
            a: u64::from(begun.task) | u64::from(disk.device) << 32,
            b: took_ns | u64::from(disk.sectors) << DURATION_BITS,
            ..Record::default()
        };
        self.lanes.push(record, &[], None);
    }

    fn finish(mut self) -> Result<Written, WriteError> {
        self.disks.iter().for_each(|_| self.lanes.skip("requests to disks whose end is not there"));
        self.requests.finish(&mut self.lanes);
        self.connections.finish(&mut self.lanes);
        self.lanes.finish()
    }
}

fn record(kind: Kind, event: &Event<'_>) -> Record {
    Record { time_ns: event.at_ns, kind: kind as u16, lane: event.cpu.unwrap_or(0), ..Record::default() }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}
