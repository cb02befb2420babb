//! Optional sources beside the spine: disk, locks, interrupts, timers; all the time, or in windows.

use crate::error::CaptureError;
use crate::event_source::EventSource;
use crate::kind_set::KindSet;
use crate::names::Names;
use crate::probes::Probes;
use crate::programs::{Programs, RunTime};
use crate::symbols::Symbols;
use crate::{disk, interrupts, locks, timers};
use libbpf_rs::libbpf_sys;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;
use weir_wire::watched::NAMED_FILE;
use weir_wire::{Kind, Record, Slot};

/// An optional source of the kernel's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Watched {
    /// Which file a task waits for, and requests to block devices.
    Disk = 1,
    /// Which lock a task waits for, and who has it.
    Locks = 2,
    /// What interrupts take of the time on the CPU.
    Interrupts = 4,
    /// Which wake-ups come from a timer.
    Timers = 8,
}

/// A word of a list names no optional source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is no source; there are {} and all", Watched::ALL.map(Watched::name).join(", "))]
pub struct UnknownWatched {
    /// The word.
    pub word: String,
}

impl Watched {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Disk, Self::Locks, Self::Interrupts, Self::Timers];

    /// Its name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Locks => "locks",
            Self::Interrupts => "interrupts",
            Self::Timers => "timers",
        }
    }

    /// The sources of a list such as `disk,locks`, or `all`.
    ///
    /// # Errors
    /// [`UnknownWatched`] with the first word that is no source's name.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, UnknownWatched> {
        if list == "all" {
            return Ok(Self::ALL.to_vec());
        }
        let named = |word: &str| {
            let known = Self::ALL.into_iter().find(|source| source.name() == word);
            known.ok_or_else(|| UnknownWatched { word: word.to_owned() })
        };
        let mut sources = list.split(',').map(named).collect::<Result<Vec<_>, _>>()?;
        sources.sort_unstable();
        sources.dedup();
        Ok(sources)
    }

    fn of_kind(kind: u16) -> Option<Self> {
        Some(match Kind::from_code(kind)? {
            Kind::DiskRequest | Kind::FileWait => Self::Disk,
            Kind::LockWait | Kind::LockEnd => Self::Locks,
            Kind::Interrupt => Self::Interrupts,
            Kind::TimerWakeup => Self::Timers,
            _ => return None,
        })
    }
}

/// On for a while, again and again; both are kept to about 20 ms, the collector's beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// How long the sources are attached.
    pub on: Duration,
    /// From the beginning of one window to that of the next.
    pub every: Duration,
}

/// The kernel measures its programs so long, once a second: measuring costs about as much again as a short program.
const MEASURED_NS: u64 = 50_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// The optional sources of a recording, as one.
#[derive(Debug)]
pub struct Watch {
    parts: Vec<Part>,
    windows: Option<Windows>,
    names: Names,
    /// When they were attached; none while they are not.
    attached_ns: Option<u64>,
    /// They are to be attached, though a window may be over just now.
    wanted: bool,
    next_window_ns: u64,
    /// What was last said of them to the reader, and when.
    told: Option<(bool, u64)>,
    measuring: Option<Measuring>,
    next_measure_ns: u64,
}

#[derive(Debug)]
struct Part {
    source: Watched,
    programs: Programs,
    events: u64,
    attached_ns: u64,
    measured_ns: u64,
    taken: RunTime,
    /// What the kernel had counted when this measurement began.
    base: RunTime,
}

#[derive(Debug)]
struct Measuring {
    since_ns: u64,
    /// The kernel measures for as long as this is open.
    _asked: OwnedFd,
}

impl Watch {
    /// Loads these sources; nothing if there are none.
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if the kernel does not take a source's programs.
    pub fn load(
        probes: &Probes,
        sources: &[Watched],
        windows: Option<Windows>,
    ) -> Result<Option<Box<dyn EventSource>>, CaptureError> {
        if sources.is_empty() {
            return Ok(None);
        }
        let symbols = if sources.contains(&Watched::Locks) { Symbols::of_kernel() } else { Symbols::default() };
        let mut parts = Vec::new();
        for source in sources {
            let programs = match source {
                Watched::Disk => disk::load(probes)?,
                Watched::Locks => locks::load(probes, &symbols)?,
                Watched::Interrupts => interrupts::load(probes)?,
                Watched::Timers => timers::load(probes)?,
            };
            let (taken, base) = (RunTime::default(), RunTime::default());
            parts.push(Part { source: *source, programs, events: 0, attached_ns: 0, measured_ns: 0, taken, base });
        }
        let watch = Self {
            parts,
            windows,
            names: Names::new(symbols),
            attached_ns: None,
            wanted: false,
            next_window_ns: 0,
            told: None,
            measuring: None,
            next_measure_ns: 0,
        };
        Ok(Some(Box::new(watch)))
    }

    fn attach_at(&mut self, now_ns: u64) -> Result<(), CaptureError> {
        for part in &mut self.parts {
            part.programs.attach()?;
        }
        self.attached_ns = Some(now_ns);
        Ok(())
    }

    fn detach_at(&mut self, now_ns: u64) {
        self.end_measuring(now_ns);
        for part in &mut self.parts {
            part.programs.detach();
            part.attached_ns += self.attached_ns.map_or(0, |since| now_ns.saturating_sub(since));
        }
        self.attached_ns = None;
    }

    fn begin_measuring(&mut self, now_ns: u64) {
        // SAFETY: the call takes a number and gives a descriptor, or a negative number.
        let asked = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        self.next_measure_ns = now_ns + SECOND_NS;
        // Refused (CAP_SYS_ADMIN), the share stays unknown.
        if asked < 0 {
            return;
        }
        for part in &mut self.parts {
            part.base = part.programs.run_time();
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        let asked = unsafe { OwnedFd::from_raw_fd(asked) };
        self.measuring = Some(Measuring { since_ns: now_ns, _asked: asked });
    }

    fn end_measuring(&mut self, now_ns: u64) {
        let Some(measuring) = self.measuring.take() else { return };
        for part in &mut self.parts {
            let now = part.programs.run_time();
            part.measured_ns += now_ns.saturating_sub(measuring.since_ns);
            part.taken.cpu_ns += now.cpu_ns.saturating_sub(part.base.cpu_ns);
            part.taken.runs += now.runs.saturating_sub(part.base.runs);
        }
    }

    /// Opens and closes windows, and the measurements within them.
    fn turn(&mut self, now_ns: u64) {
        if let Some(windows) = self.windows.filter(|_| self.wanted) {
            match self.attached_ns {
                Some(since) if now_ns.saturating_sub(since) >= windows.on.as_nanos() as u64 => self.detach_at(now_ns),
                // Programs that were attached once can be attached again, unless the system is out of memory: then
                // this window is missed.
                None if now_ns >= self.next_window_ns => {
                    self.next_window_ns = now_ns + windows.every.as_nanos() as u64;
                    if self.attach_at(now_ns).is_err() {
                        self.detach_at(now_ns);
                    }
                }
                _ => {}
            }
        }
        let over = |measuring: &Measuring| now_ns.saturating_sub(measuring.since_ns) >= MEASURED_NS;
        if self.measuring.as_ref().is_some_and(over) {
            self.end_measuring(now_ns);
        }
        if self.attached_ns.is_some() && self.measuring.is_none() && now_ns >= self.next_measure_ns {
            self.begin_measuring(now_ns);
        }
    }

    /// What they have cost so far.
    fn costs(&self, now_ns: u64) -> impl Iterator<Item = (Record, [Slot; 1])> {
        self.parts.iter().map(move |part| {
            let attached_ns = part.attached_ns + self.attached_ns.map_or(0, |since| now_ns.saturating_sub(since));
            let record = Record {
                kind: Kind::SourceCost as u16,
                flags: part.source as u8,
                a: part.events,
                b: attached_ns,
                ..Record::default()
            };
            (record, [[part.measured_ns, part.taken.cpu_ns, part.taken.runs, 0]])
        })
    }
}

impl EventSource for Watch {
    fn name(&self) -> &'static str {
        "watch"
    }

    fn attach(&mut self) -> Result<(), CaptureError> {
        let now_ns = crate::recorder::monotonic_ns();
        self.wanted = true;
        self.next_window_ns = self.windows.map_or(0, |windows| now_ns + windows.every.as_nanos() as u64);
        self.attach_at(now_ns)
    }

    fn detach(&mut self) {
        self.wanted = false;
        self.detach_at(crate::recorder::monotonic_ns());
    }

    fn sees(&self) -> KindSet {
        KindSet::of_those(|kind| kind == Kind::Named as u16 || Watched::of_kind(kind).is_some())
    }

    fn see(&mut self, record: &Record, _: &[Slot]) {
        if record.kind == Kind::Named as u16 && record.flags == NAMED_FILE {
            // Either of two sources may tell a file, and the event does not say which; the first source bears the cost.
            if let Some(part) = self.parts.first_mut() {
                part.events += 1;
            }
            self.names.see(record);
        } else if let Some(source) = Watched::of_kind(record.kind)
            && let Some(part) = self.parts.iter_mut().find(|part| part.source == source)
        {
            part.events += 1;
            self.names.see(record);
        }
    }

    fn look(&mut self, now_ns: u64, tell: &mut dyn FnMut(Record, &[Slot])) {
        self.names.look(now_ns, tell);
        // What was attached in between is vouched for from this look on: before, some of it may be missing.
        let attached = self.attached_ns.is_some_and(|since| since < now_ns);
        let due = self.told.is_none_or(|(was, at_ns)| was != attached || now_ns >= at_ns + SECOND_NS);
        if due {
            self.told = Some((attached, now_ns));
            let all = self.parts.iter().fold(0, |all, part| all | part.source as u64);
            let sources = if attached { all } else { 0 };
            tell(Record { kind: Kind::Watched as u16, a: sources, ..Record::default() }, &[]);
            self.costs(now_ns).for_each(|(record, slots)| tell(record, &slots));
        }
        let was = self.attached_ns;
        self.turn(now_ns);
        if was.is_some() && self.attached_ns.is_none() {
            // From this moment on nothing is told.
            self.told = Some((false, now_ns));
            tell(Record { kind: Kind::Watched as u16, ..Record::default() }, &[]);
            self.costs(now_ns).for_each(|(record, slots)| tell(record, &slots));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_unknown_words_named() {
        assert_eq!(Watched::parse_list("all"), Ok(Watched::ALL.to_vec()));
        assert_eq!(Watched::parse_list("locks,disk,locks"), Ok(vec![Watched::Disk, Watched::Locks]));
        assert_eq!(Watched::parse_list("disk,dsik"), Err(UnknownWatched { word: "dsik".to_owned() }));
        assert_eq!(Watched::parse_list(""), Err(UnknownWatched { word: String::new() }));
    }
}
