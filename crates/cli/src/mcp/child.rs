//! A command of weir as a process of its own: a call can be cancelled, and what a command reports then is its own.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_mcp::{Done, Step};

/// The most bytes of a report that are read.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;
/// The most bytes of standard error that are kept.
const SAID_BYTES_MAX: u64 = 64 << 10;
/// How often a command is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long a command has to report after it was asked to stop.
const GRACE: Duration = Duration::from_secs(10);

/// Runs a command in a folder until it ends, or is stopped; `tell` hears of each second.
pub(crate) fn run(
    step: &Step,
    folder: &Path,
    cancelled: &AtomicBool,
    tell: &mut dyn FnMut(Duration),
) -> std::io::Result<Done> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(&step.words)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A terminal's Ctrl-C is for this server, which stops the command itself.
        .process_group(0)
        .spawn()?;
    let output = reading(child.stdout.take(), OUTPUT_BYTES_MAX, step.lines_max);
    let said = reading(child.stderr.take(), SAID_BYTES_MAX, None);
    let ended = waited(&mut child, step, cancelled, tell);
    let (output, said) = (output.join().unwrap_or_default(), said.join().unwrap_or_default());
    let (status, is_late) = ended?;
    Ok(Done { status, output, said: String::from_utf8_lossy(&said).into_owned(), is_late })
}

/// Reads what a command prints, up to a bound. What is behind it is read and dropped, except behind the last line that
/// is wanted: there the pipe is closed, and the command ends.
fn reading(from: Option<impl Read + Send + 'static>, bytes_max: u64, lines_max: Option<usize>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let Some(from) = from else { return kept };
        let mut from = BufReader::new(from);
        let mut left = lines_max;
        // A pipe that breaks has said what it has.
        while left != Some(0) && (kept.len() as u64) < bytes_max {
            let room = bytes_max - kept.len() as u64;
            match from.by_ref().take(room).read_until(b'\n', &mut kept) {
                Ok(0) | Err(_) => return kept,
                Ok(_) => left = left.map(|left| left - 1),
            }
        }
        if lines_max.is_none() {
            let _ = std::io::copy(&mut from, &mut std::io::sink());
        }
        kept
    })
}

/// Waits for a command's end; its exit status, and whether it was stopped for its time.
fn waited(
    child: &mut Child,
    step: &Step,
    cancelled: &AtomicBool,
    tell: &mut dyn FnMut(Duration),
) -> std::io::Result<(Option<i32>, bool)> {
    let begun = Instant::now();
    let limit = Duration::from_secs_f64(step.limit_s);
    let (mut told, mut asked): (u64, Option<Instant>) = (0, None);
    let mut is_late = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status.code(), is_late));
        }
        let elapsed = begun.elapsed();
        match asked {
            None if cancelled.load(Ordering::Relaxed) || elapsed > limit => {
                is_late = elapsed > limit;
                asked = Some(Instant::now());
                signal(child, libc::SIGINT);
            }
            Some(at) if at.elapsed() > GRACE => signal(child, libc::SIGKILL),
            _ => {}
        }
        if elapsed.as_secs() > told {
            told = elapsed.as_secs();
            tell(elapsed);
        }
        std::thread::sleep(LOOK);
    }
}

/// Signals a command and what it has started.
fn signal(child: &Child, signal: libc::c_int) {
    let Ok(group) = libc::pid_t::try_from(child.id()) else { return };
    // SAFETY: kill takes no memory of ours. The child has not been waited for, so that its number, which is that of its
    // group, belongs to no other.
    unsafe { libc::kill(-group, signal) };
}
