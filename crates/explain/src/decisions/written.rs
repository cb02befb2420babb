//! What a server wrote down of its decisions while a run was recorded.

use super::window::{Fit, Window};
use crate::readings::Lines;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use weir_adapt::Decision;
use weir_adapt::log::{self, ClockPair, Header, Recorded};

/// Decisions that are taken of a run's time, as many as a recording by probes takes; of more only their number is.
const DECISIONS_MAX: usize = 16_384;
/// Files before FILE (FILE.1 and so on) that are looked for.
const EARLIER_MAX: u32 = 16;
/// A server writes the decisions of a tick at its end, which may be after the run's end. We wait this long for them
const PATIENCE: Duration = Duration::from_secs(3);
/// if the file was last written within this time,
const IS_WRITTEN: Duration = Duration::from_secs(2);
/// look this often,
const LOOK: Duration = Duration::from_millis(20);
/// and read this many bytes at the file's end.
const END_BYTES: u64 = 64 << 10;
/// Tries to read a file that grows and ends in half a line.
const TRIES: u32 = 3;
const ONE_SECOND_NS: u64 = 1_000_000_000;

/// A decision on a run's time line.
#[derive(Debug)]
pub(super) struct Placed {
    /// When it was made, by the run's clock.
    pub(super) at_ns: u64,
    /// When it was carried out and told: at the end of that tick.
    pub(super) told_ns: u64,
    pub(super) decision: Decision,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// In the order of their times.
    pub(super) decisions: Vec<Placed>,
    pub(super) left_out: u64,
    /// The file's first and last time, by the run's clock.
    pub(super) span_ns: Option<(u64, u64)>,
    /// What is to be known of them, in words.
    pub(super) notes: Vec<String>,
}

/// Whether a file is a recording, by its first line.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    first_header(&mut Lines::open(path)?).map(drop)
}

fn first_header(lines: &mut Lines) -> anyhow::Result<Header> {
    match lines.next()? {
        Some(line) => log::parse_header(&line).map_err(|wrong| lines.wrong(&wrong)),
        None => Err(lines.wrong("the file has no whole line; give one to which a server has written its decisions")),
    }
}

/// Reads a recording, of several files those that the run needs.
pub(super) fn read(path: &Path, window: &Window) -> anyhow::Result<Written> {
    let paths = files(path, window);
    let mut reading = Reading { window, written: Written::default(), part: None, notes_of: Vec::new() };
    for path in &paths {
        reading.file(path)?;
    }
    let mut written = reading.written;
    written.decisions.sort_by_key(|placed| placed.at_ns);
    if let Some((_, last_ns)) = written.span_ns
        && window.holds(last_ns)
        && last_ns + ONE_SECOND_NS < window.to_ns
    {
        let seconds = (window.to_ns - last_ns) as f64 / 1e9;
        written.notes.push(format!(
            "{} ends {seconds:.1} s before the run does: what was decided after that is not in it",
            path.display()
        ));
    }
    Ok(written)
}

/// The files of a recording that a run's time needs, the oldest first, once a server that writes has come to its end.
pub(super) fn files(path: &Path, window: &Window) -> Vec<PathBuf> {
    await_end(path, window.end_unix_ms());
    let mut paths = vec![path.to_owned()];
    for number in 1..=EARLIER_MAX {
        let began_ns = paths.last().and_then(|path| began_ns(path, window));
        let earlier = numbered(path, number);
        // A file of this name that is no recording is passed over.
        if began_ns.is_none_or(|began_ns| began_ns <= window.from_ns) || check(&earlier).is_err() {
            break;
        }
        paths.push(earlier);
    }
    paths.reverse();
    paths
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The time of a file's first entry; `None` where it has none.
fn began_ns(path: &Path, window: &Window) -> Option<u64> {
    let mut lines = Lines::open(path).ok()?;
    let header = first_header(&mut lines).ok()?;
    let entry = log::parse_entry(&lines.next().ok()??).ok()?;
    Some(window.place(header.clock.as_ref(), entry.at_ms).0)
}

/// Waits until a server that writes has come to the run's end.
fn await_end(path: &Path, end_ms: u64) {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until && is_written(path) && last_ms(path).is_none_or(|last_ms| last_ms < end_ms) {
        std::thread::sleep(LOOK);
    }
}

fn is_written(path: &Path) -> bool {
    let modified = std::fs::metadata(path).and_then(|found| found.modified()).ok();
    modified.is_some_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age < IS_WRITTEN))
}

/// The time of the last whole line.
fn last_ms(path: &Path) -> Option<u64> {
    let mut file = File::open(path).ok()?;
    let begin = file.metadata().ok()?.len().saturating_sub(END_BYTES);
    file.seek(SeekFrom::Start(begin)).ok()?;
    let mut end = Vec::new();
    file.take(END_BYTES).read_to_end(&mut end).ok()?;
    // Behind the last end of a line stands one that is not whole yet, or nothing.
    let mut lines = end.rsplit(|byte| *byte == b'\n').skip(1);
    lines.find_map(|line| log::parse_entry(std::str::from_utf8(line).ok()?).ok()).map(|entry| entry.at_ms)
}

/// A reading on its way.
struct Reading<'w> {
    window: &'w Window,
    written: Written,
    part: Option<Part>,
    /// What was noted once.
    notes_of: Vec<Fit>,
}

/// What holds for the lines of a part.
struct Part {
    clock: Option<ClockPair>,
    /// Where it begins, for people.
    place: String,
    /// Its last tick.
    tick_ns: u64,
}

impl Reading<'_> {
    fn file(&mut self, path: &Path) -> anyhow::Result<()> {
        let (taken, left_out) = (self.written.decisions.len(), self.written.left_out);
        let (noted, doubted) = (self.written.notes.len(), self.notes_of.len());
        for last in (1..=TRIES).rev() {
            let bytes = |path: &Path| std::fs::metadata(path).map(|found| found.len()).ok();
            let before = bytes(path);
            let mut lines = Lines::open(path)?;
            let header = first_header(&mut lines)?;
            self.begin_part(header, &lines);
            while let Some(line) = lines.next()? {
                if line.trim().is_empty() {
                    continue;
                }
                if log::is_header(&line) {
                    let header = log::parse_header(&line).map_err(|wrong| lines.wrong(&wrong))?;
                    self.begin_part(header, &lines);
                    continue;
                }
                let entry = log::parse_entry(&line).map_err(|wrong| lines.wrong(&wrong))?;
                self.entry(entry.at_ms, entry.what);
            }
            if lines.is_cut && last > 1 && bytes(path) != before {
                // It was being written: what came meanwhile has the line's end.
                self.written.decisions.truncate(taken);
                self.written.left_out = left_out;
                self.written.notes.truncate(noted);
                self.notes_of.truncate(doubted);
                continue;
            }
            if lines.is_cut {
                let path = path.display();
                self.written.notes.push(format!(
                    "{path}: its last line was cut, as by a full disk or the end of the server, and not read; all others were"
                ));
            }
            break;
        }
        Ok(())
    }

    fn begin_part(&mut self, header: Header, lines: &Lines) {
        let place = format!("{}:{}", lines.path.display(), lines.number);
        self.part = Some(Part { clock: header.clock, place, tick_ns: 0 });
    }

    fn entry(&mut self, at_ms: u64, what: Recorded) {
        let Some(part) = &mut self.part else { return };
        let (at_ns, fit) = self.window.place(part.clock.as_ref(), at_ms);
        let (first_ns, last_ns) = self.written.span_ns.unwrap_or((at_ns, at_ns));
        self.written.span_ns = Some((first_ns.min(at_ns), last_ns.max(at_ns)));
        if let Recorded::Tick = what {
            part.tick_ns = at_ns;
        }
        if !self.window.holds(at_ns) {
            return;
        }
        match what {
            Recorded::Decided(_) if self.written.decisions.len() >= DECISIONS_MAX => self.written.left_out += 1,
            Recorded::Decided(decision) => {
                let told_ns = part.tick_ns.max(at_ns);
                self.written.decisions.push(Placed { at_ns, told_ns, decision: *decision });
                if !self.notes_of.contains(&fit) {
                    self.notes_of.push(fit);
                    self.written.notes.extend(doubt(fit, &part.place));
                }
            }
            Recorded::Lost { lines } => self.written.notes.push(format!(
                "{lines} lines of {} were lost when it was written: decisions may be missing",
                part.place.rsplit_once(':').map_or(&*part.place, |(path, _)| path)
            )),
            _ => {}
        }
    }
}

/// How much the times of a part are to be believed.
fn doubt(fit: Fit, place: &str) -> Option<String> {
    let why = match fit {
        Fit::Exact => return None,
        Fit::Untold => {
            "what begins here does not say how its times stand to the host's clock, as earlier versions of weir \
                        wrote it"
        }
        Fit::Elsewhere => "what begins here was written on another host, or after another start of it",
    };
    Some(format!(
        "{place}: {why}: decisions are placed by the time of day, and off by as much as the clocks differ or were set since"
    ))
}
