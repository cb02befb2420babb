//! A foreign trace as a run: a lane for each CPU, as a recording has them.

use crate::{
    Counts, Disk, Event, Format, ReadError, Task, What, read_ftrace_text, read_perf_data, read_trace_dat, sniff,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;
use weir_trace::{Cost, Entry, Host, Limits, Run, Source, StreamWriter, WriteError};
use weir_wire::task::{NO_SYSCALL, Switch};
use weir_wire::{Kind, Record, text_slots};

/// CPUs that have a lane of their own; what is said of others is counted.
const CPUS_MAX: u32 = 8192;
/// Tasks whose names are remembered, and requests to disks that are under way.
const TASKS_MAX: usize = 1 << 22;
const REQUESTS_MAX: usize = 1 << 16;
/// Bytes of a file that tell its format.
const HEAD_BYTES: u64 = 64 << 10;

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
    #[error("it is none of perf.data, trace.dat and the text of ftrace, trace-cmd report or perf script")]
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

/// Reads a trace into a run; `command` is the command line as the run keeps it, `version` weir's.
///
/// # Errors
/// [`ImportError`]; of a trace that is cut the run has what came before.
pub fn import(file: &Path, directory: &Path, version: &str, command: Vec<String>) -> Result<Imported, ImportError> {
    let mut input = File::open(file)?;
    let mut head = Vec::new();
    Read::by_ref(&mut input).take(HEAD_BYTES).read_to_end(&mut head)?;
    let format = sniff(&head).ok_or(ImportError::Format)?;
    input.rewind()?;
    let run = Run::create(directory)?;
    let mut writing = Writing::new(&run);
    let take = |event: Event<'_>| writing.take(&event);
    let read = match format {
        Format::PerfData => read_perf_data(input, take),
        Format::TraceDat => read_trace_dat(input, take),
        Format::FtraceText => read_ftrace_text(BufReader::with_capacity(1 << 20, input), take),
    };
    let (cost, not_kept) = writing.finish()?;
    let counts = match read {
        Ok(counts) => counts,
        Err(error) => return Err(ImportError::Read { error, records: cost.events }),
    };
    if cost.events == 0 {
        return Err(ImportError::Empty);
    }
    note(&run, &counts, format, version, command, cost)?;
    Ok(Imported { format, records: cost.events, counts, not_kept })
}

fn note(
    run: &Run,
    counts: &Counts,
    format: Format,
    version: &str,
    command: Vec<String>,
    cost: Cost,
) -> Result<(), WriteError> {
    let host = Host {
        name: counts.host.clone().unwrap_or_default(),
        machine_id: String::new(),
        boot_id: String::new(),
        kernel: String::new(),
        cpus: counts.cpus,
    };
    run.note(&Entry::Source {
        source: Source::Kernel.name().to_owned(),
        pid: std::process::id(),
        version: version.to_owned(),
        command,
        host,
        monotonic_ns: 0,
        realtime_ns: 0,
        rung: None,
        seed: None,
    })?;
    let clock = counts.clock.as_deref().unwrap_or("a clock that it does not name");
    run.end(Source::Kernel, cost, vec![format!("imported from {}, by {clock}", format.name())])
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
    run: &'a Run,
    streams: Vec<StreamWriter>,
    names: FxHashMap<u32, Known>,
    disks: FxHashMap<(u32, u64), Begun>,
    not_kept: BTreeMap<&'static str, u64>,
    failed: Option<WriteError>,
}

impl<'a> Writing<'a> {
    fn new(run: &'a Run) -> Self {
        let (names, disks) = (FxHashMap::default(), FxHashMap::default());
        Self { run, streams: Vec::new(), names, disks, not_kept: BTreeMap::new(), failed: None }
    }

    fn skip(&mut self, what: &'static str) {
        *self.not_kept.entry(what).or_default() += 1;
    }

    /// The stream of a CPU; of events whose CPU is not told the first.
    fn stream(&mut self, cpu: u32) -> Option<&mut StreamWriter> {
        if cpu >= CPUS_MAX {
            self.skip("events of CPUs beyond the bound");
            return None;
        }
        while self.streams.len() <= cpu as usize {
            self.streams.push(self.run.stream(Source::Kernel, self.streams.len() as u32, Limits::default()));
        }
        self.streams.get_mut(cpu as usize)
    }

    fn push(&mut self, record: Record, payload: &[weir_wire::Slot]) {
        if let Some(stream) = self.stream(record.lane)
            && let Err(error) = stream.push(record, payload, None)
        {
            self.failed.get_or_insert(error);
        }
    }

    fn take(&mut self, event: &Event<'_>) {
        if self.failed.is_some() {
            return;
        }
        let (at_ns, lane) = (event.at_ns, event.cpu.unwrap_or(0));
        let record =
            |kind: Kind, a: u64, b: u64| Record { time_ns: at_ns, kind: kind as u16, lane, a, b, ..Record::default() };
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let running = event.task.unwrap_or(0);
        match event.what {
            What::Switch { from, state, to } => {
                self.name(event, from, event.process.filter(|_| event.task == Some(from.number)));
                self.name(event, to, None);
                let (prev, next) = (from.number, to.number);
                let switch = Switch { prev, next, prev_state: state, syscall: NO_SYSCALL, descriptor: 0 };
                self.push(switch.write(at_ns, lane), &[]);
            }
            What::Waking(woken) => {
                self.name(event, woken, None);
                self.push(record(Kind::Waking, pair(running, woken.number), 0), &[]);
            }
            What::Fork { parent, child, process } => {
                self.name(event, child, process);
                self.push(record(Kind::Fork, pair(parent, child.number), u64::from(process.unwrap_or(0))), &[]);
            }
            What::Exec => self.push(record(Kind::Exec, u64::from(running), 0), &[]),
            What::Exit => self.push(record(Kind::Exit, u64::from(running), 0), &[]),
            What::Named { task, process } => self.name(event, task, process),
            What::DiskBegins(disk) => self.begin(event, disk),
            What::DiskEnds(disk) => self.end(event, disk),
            What::Lost(events) => {
                if let Some(stream) = self.stream(lane) {
                    stream.lose(events);
                }
            }
            What::CallBegins(_) | What::CallEnds { .. } => self.skip("system calls"),
            What::Other(_) => self.skip("events that no rule maps"),
        }
    }

    /// Tells a task's name, if it is another one than before.
    fn name(&mut self, event: &Event<'_>, task: Task<'_>, process: Option<u32>) {
        if task.number == 0 {
            return;
        }
        let known = self.names.get(&task.number);
        if known.is_some_and(|known| *known.name == *task.name && (process.is_none() || known.process == process)) {
            return;
        }
        let process = process.or_else(|| known.and_then(|known| known.process));
        if known.is_none() && self.names.len() >= TASKS_MAX {
            return self.skip("names of tasks beyond the bound");
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
        self.push(record, &payload);
    }

    fn begin(&mut self, event: &Event<'_>, disk: Disk) {
        if self.disks.len() >= REQUESTS_MAX {
            return self.skip("requests to disks beyond the bound");
        }
        let begun = Begun { at_ns: event.at_ns, task: event.task.unwrap_or(0) };
        self.disks.insert((disk.device, disk.sector), begun);
    }

    fn end(&mut self, event: &Event<'_>, disk: Disk) {
        let Some(begun) = self.disks.remove(&(disk.device, disk.sector)) else {
            return self.skip("ends of requests to disks whose begin is not there");
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
        self.push(record, &[]);
    }

    fn finish(self) -> Result<(Cost, BTreeMap<&'static str, u64>), WriteError> {
        let mut cost = Cost::default();
        let mut not_kept = self.not_kept;
        for stream in self.streams {
            let written = stream.finish()?;
            cost.events += written.records;
            cost.bytes += written.bytes;
            cost.lost += written.lost;
        }
        if !self.disks.is_empty() {
            not_kept.insert("requests to disks whose end is not there", self.disks.len() as u64);
        }
        self.failed.map_or(Ok((cost, not_kept)), Err)
    }
}
