//! The side of the host that is recorded: it begins and ends as it is told on standard input, and gives its run away.
//!
//! The end of standard input is an end, too: where the connection breaks, no recording goes on without a reader.

use crate::once::{Recorded, Step, recorded};
use crate::setup::Setup;
use anyhow::{Context, bail};
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;
use weir_terminal::stop::Stop;
use weir_trace::sent::{Frame, GREETING};

/// The line that begins the recording.
pub(crate) const BEGIN: &str = "begin";
/// A recording that is not begun in so long is none.
const PATIENCE: Duration = Duration::from_secs(300);

/// Records as another host says, and sends the run there; nothing of it stays here.
///
/// # Errors
/// Nothing can be recorded, or the other host is gone.
pub fn send(mut setup: Setup, disk_mib: u64, keep_addresses: bool, stop: &Stop) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("weir-run-").tempdir().context("a directory for the run")?;
    let directory = folder.path().join("run");
    setup.directory = Some(directory.clone());
    let begun = told(stop.clone());
    let mut out = io::stdout().lock();
    let done = recorded(&setup, None, (disk_mib, keep_addresses), stop, &mut |step| {
        match step {
            Step::Ready => {
                writeln!(out, "{GREETING}")?;
                Frame::Ready.write(&mut out)?;
                if begun.recv_timeout(PATIENCE).is_err() {
                    bail!("the recording was not begun: the host that asked for it is gone, or ended it");
                }
            }
            Step::Recording => Frame::Recording.write(&mut out)?,
        }
        Ok(())
    })?;
    let Recorded { cost, notes, .. } = done;
    notes.iter().for_each(|note| eprintln!("{note}"));
    give(&directory, &mut out).context("the run could not be sent")?;
    Frame::Done { events: cost.events, lost: cost.lost }.write(&mut out).context("the run could not be sent")
}

/// Listens on standard input: tells once when the recording begins, and asks for its end.
fn told(stop: Stop) -> Receiver<()> {
    let (begin, begun) = sync_channel(1);
    std::thread::spawn(move || {
        let mut lines = io::stdin().lock().lines();
        if lines.next().is_some_and(|line| line.is_ok_and(|line| line == BEGIN)) {
            let _has_gone = begin.send(());
            // Any other line is the end, and so is none.
            let _ = lines.next();
        }
        drop(begin);
        stop.ask();
    });
    begun
}

/// Sends the files of a run.
fn give(directory: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    for path in files(directory, Path::new(""))? {
        let file = File::open(directory.join(&path)).with_context(|| path.display().to_string())?;
        let bytes = file.metadata()?.len();
        Frame::File { path, bytes }.write(out)?;
        // As long as was said: a file that grows is cut there.
        let copied = io::copy(&mut io::Read::take(file, bytes), out)?;
        anyhow::ensure!(copied == bytes, "a file of the run became shorter while it was sent");
    }
    Ok(())
}

/// The files below a directory, by their paths from the run's.
fn files(run: &Path, below: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(run.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            found.extend(files(run, &path)?);
        } else {
            found.push(path);
        }
    }
    found.sort_unstable();
    Ok(found)
}
