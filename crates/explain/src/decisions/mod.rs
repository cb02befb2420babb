//! Decisions of a server's rules in runs whose recording could not see them: from what `weir serve --decisions` wrote
//! down, put on a run's time line as the server's probe would have told them.

mod known;
mod window;
mod written;

use anyhow::Context;
use known::Known;
use std::path::{Path, PathBuf};
use weir_adapt::log::ClockPair;
use weir_terminal::units::counted;
use weir_trace::{Cost, Limits, Run, RunReader, Source};
use weir_wire::probe::{ProbePoint, REMARK};
use weir_wire::{Kind, Record};
use window::Window;
use written::{Placed, Written};

/// The records' lane: far from those of CPUs, whose remarks are put together by it.
const LANE: u32 = u32::MAX - 1;
/// Ids of the stream's dictionary: that of the point, and behind it those of the texts.
const POINT: u32 = 1;

/// Whether decisions can be taken from a file: told before anything is recorded for them.
///
/// # Errors
/// They cannot.
pub fn check(log: &Path) -> anyhow::Result<()> {
    written::check(log).context(TAKES)
}

const TAKES: &str = "--decisions takes the file that `weir serve --decisions FILE` writes";

/// A run's time within a server's recording.
#[derive(Debug)]
pub struct Meanwhile {
    /// The files that tell of it, the oldest first.
    pub files: Vec<PathBuf>,
    window: Window,
}

impl Meanwhile {
    /// Of a run, by the recording that a server wrote meanwhile.
    ///
    /// # Errors
    /// The run or the recording cannot be read.
    pub fn of(run: &Path, log: &Path) -> anyhow::Result<Self> {
        check(log)?;
        let window = Window::of(&RunReader::open(run)?)?;
        Ok(Self { files: written::files(log, &window), window })
    }

    /// Whether a time of the recording is one of the run.
    pub fn holds(&self, clock: Option<&ClockPair>, at_ms: u64) -> bool {
        self.window.holds(self.window.place(clock, at_ms).0)
    }

    /// Whether the run was over by then.
    pub fn is_over(&self, clock: Option<&ClockPair>, at_ms: u64) -> bool {
        self.window.place(clock, at_ms).0 > self.window.to_ns
    }
}

/// Puts on a run's time line what a server decided meanwhile and the run has not got yet; what there is to say of it.
///
/// # Errors
/// The recording cannot be read, or the run cannot be written.
pub fn put(run: &Path, log: &Path) -> anyhow::Result<Vec<String>> {
    let reader = RunReader::open(run)?;
    let window = Window::of(&reader)?;
    let Written { decisions, left_out, span_ns, mut notes } = written::read(log, &window).context(TAKES)?;
    let found = decisions.len();
    let mut known = Known::of(&reader);
    let new: Vec<Placed> = decisions.into_iter().filter(|placed| !known.take(placed)).collect();
    let file = log.display();
    if left_out > 0 {
        notes.push(format!(
            "{} of {file} {} too many to be put into the run, which has those before",
            counted(left_out, "decision"),
            if left_out == 1 { "was" } else { "were" }
        ));
    }
    if !new.is_empty() {
        write(run, &new, &known, &notes).with_context(|| {
            format!(
                "decisions cannot be put into {}; copy it to where you may write, or leave --decisions out",
                run.display()
            )
        })?;
    }
    let outcome = match (new.len(), found) {
        (0, 0) => format!("no decision of {file} falls within the run: {}", why_none(&window, span_ns)),
        (0, 1) => format!("the run has the one decision of {file} already"),
        (0, found) => format!("the run has all {found} decisions of {file} already"),
        (new, found) => {
            let are = if new == 1 { "is" } else { "are" };
            let had = if new == found { String::new() } else { format!(", which had {} of them", found - new) };
            format!("{} of {file} {are} on the run's time line{had}", counted(new as u64, "decision"))
        }
    };
    notes.push(outcome);
    Ok(notes)
}

/// Why a run gets none.
fn why_none(window: &Window, span_ns: Option<(u64, u64)>) -> String {
    let seconds = |earlier_ns: u64, later_ns: u64| (later_ns - earlier_ns) as f64 / 1e9;
    match span_ns {
        None => "there is none in it".to_owned(),
        Some((_, last_ns)) if last_ns < window.from_ns => {
            format!("it ends {:.1} s before the run begins", seconds(last_ns, window.from_ns))
        }
        Some((first_ns, _)) if first_ns > window.to_ns => {
            format!("it begins {:.1} s after the run has ended", seconds(window.to_ns, first_ns))
        }
        Some(_) => "the rules decided nothing meanwhile".to_owned(),
    }
}

/// Writes them as a stream of their own.
fn write(run: &Path, new: &[Placed], known: &Known, notes: &[String]) -> anyhow::Result<()> {
    let run = Run::create(run)?;
    run.begin(Source::Decisions, weir_terminal::VERSION, weir_terminal::privacy::command_line(), None, None)?;
    let mut stream = run.stream(Source::Decisions, 0, Limits::default());
    let point = ProbePoint { server: "weir".to_owned(), name: "decision".to_owned(), roles: REMARK };
    stream.define(POINT, &point.write());
    for (id, placed) in (POINT + 1..).zip(new) {
        stream.define(id, &known.words(placed));
        for (kind, name) in [(Kind::ProbeHit, POINT), (Kind::ProbeText, id)] {
            let (time_ns, kind, b) = (placed.at_ns, kind as u16, u64::from(name));
            stream.push(Record { time_ns, kind, lane: LANE, b, ..Record::default() }, &[], Some(name))?;
        }
    }
    let written = stream.finish()?;
    let cost = Cost { events: written.records, bytes: written.bytes, lost: written.lost, ..Cost::default() };
    run.end(Source::Decisions, cost, notes.to_vec())?;
    Ok(())
}
