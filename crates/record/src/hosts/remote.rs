//! One other host: an ssh, what it says, and the run that comes from there.

use super::sender::BEGIN;
use anyhow::Context;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use weir_trace::sent::{self, Frame, FrameError};

/// Lines of what a host says on standard error that are kept: the last ones.
const MOST_LINES: usize = 20;
/// Beside the bound of the events a run holds its manifest and what it says of tasks, bytes.
const BESIDE_EVENTS: u64 = 256 << 20;
/// Files of a run.
const MOST_FILES: u64 = 100_000;
/// What a shell returns that does not find a program.
const NOT_FOUND: i32 = 127;

/// How a host is reached and what is asked of it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The host, as ssh takes it.
    pub host: String,
    /// Another configuration of ssh than its user's.
    pub ssh_config: Option<PathBuf>,
    /// The `weir` there.
    pub weir: String,
    /// The arguments of its `record`.
    pub arguments: Vec<String>,
    /// Where its run goes here.
    pub directory: PathBuf,
    /// Bound of the run's events there, MiB.
    pub disk_mib: u64,
}

/// What happens at a host.
#[derive(Debug)]
pub(super) enum Event {
    /// Its probes are loaded.
    Ready,
    /// It records.
    Recording,
    /// Its run is here.
    Done {
        /// Events that were recorded.
        events: u64,
        /// Events that were lost.
        lost: u64,
    },
    /// It gives no run.
    Failed(String),
}

/// A host that is asked.
#[derive(Debug)]
pub(super) struct Remote {
    ssh: Child,
    orders: Option<ChildStdin>,
    /// Bytes that have come.
    pub(super) came: Arc<AtomicU64>,
    said: Arc<Mutex<VecDeque<String>>>,
    listening: Option<JoinHandle<()>>,
}

impl Remote {
    /// Starts the ssh; what happens then is told by `tell` with the host's number.
    ///
    /// # Errors
    /// There is no ssh here.
    pub(super) fn start(asked: &Asked, number: usize, tell: SyncSender<(usize, Event)>) -> anyhow::Result<Self> {
        let mut command = Command::new("ssh");
        // No question is put to a user, and a host that is gone is noticed.
        command.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
        command.args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]);
        if let Some(file) = &asked.ssh_config {
            command.arg("-F").arg(file);
        }
        command.args(["--", &asked.host, &there(&asked.weir, &asked.arguments)]);
        // A group of its own: the terminal's Ctrl-C is for us, who still want the run.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut ssh = command.spawn().context("cannot start ssh; is openssh-client installed?")?;
        let orders = ssh.stdin.take();
        let (out, err) = (ssh.stdout.take().context("piped")?, ssh.stderr.take().context("piped")?);
        let said: Arc<Mutex<VecDeque<String>>> = Arc::default();
        let kept = Arc::clone(&said);
        let listening = std::thread::spawn(move || keep_last(err, &kept));
        let came: Arc<AtomicU64> = Arc::default();
        let mut from = BufReader::new(Counted { from: out, came: Arc::clone(&came) });
        let asked = asked.clone();
        std::thread::spawn(move || {
            let event = fetch(&mut from, &asked, |event| tell.send((number, event)).is_ok());
            // If there is no receiver any more, the recording was given up.
            let _given_up = tell.send((number, event));
        });
        Ok(Self { ssh, orders, came, said, listening: Some(listening) })
    }

    /// Has the recording begin.
    pub(super) fn begin(&mut self) {
        if let Some(orders) = &mut self.orders {
            // A host that is gone is told of by its standard output.
            let _is_gone = writeln!(orders, "{BEGIN}").and_then(|()| orders.flush());
        }
    }

    /// Has the recording end.
    pub(super) fn end(&mut self) {
        drop(self.orders.take());
    }

    /// Ends the ssh; what the host has said on standard error, and how the ssh ended where it had by itself.
    pub(super) fn close(mut self, is_done: bool) -> (Vec<String>, Option<i32>) {
        self.end();
        if !is_done {
            // What it says at its own end is the reason; without an end of its own there is none to come.
            for _ in 0..20 {
                if matches!(self.ssh.try_wait(), Ok(Some(_))) {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(25));
            }
            let _has_ended = self.ssh.kill();
        }
        let status = self.ssh.wait().ok().and_then(|status| status.code());
        if let Some(listening) = self.listening.take() {
            let _has_ended = listening.join();
        }
        (self.said.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect(), status)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _has_ended = self.ssh.kill();
        let _has_ended = self.ssh.wait();
    }
}

/// Why a host failed: what it said, or what its end means.
pub(super) fn reason(why: String, said: &[String], status: Option<i32>) -> String {
    match (said.last(), status) {
        (last, Some(NOT_FOUND)) => {
            let last = last.map_or("", String::as_str);
            format!("there is no weir in its PATH ({last}); install it there, or name it by --remote-weir PATH")
        }
        (Some(_), _) => said.join("; "),
        (None, _) => why,
    }
}

/// The command line for the other host's shell.
fn there(weir: &str, arguments: &[String]) -> String {
    let words = [weir, "record", "--send-run"].into_iter().chain(arguments.iter().map(String::as_str));
    format!("exec {}", words.map(quoted).collect::<Vec<_>>().join(" "))
}

/// A word that each shell takes as it is.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Keeps the last lines of what is said.
fn keep_last(from: impl Read, kept: &Mutex<VecDeque<String>>) {
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        match from.by_ref().take(4096).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MOST_LINES {
            kept.pop_front();
        }
        if !text.is_empty() {
            kept.push_back(text);
        }
    }
}

/// Takes in what a host says, until its run is here or will not come.
fn fetch(from: &mut impl BufRead, asked: &Asked, mut tell: impl FnMut(Event) -> bool) -> Event {
    // Beside its place until it is complete: what is there is a whole run.
    let mut partial = asked.directory.clone().into_os_string();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let event = taken(from, asked, &partial, &mut tell).unwrap_or_else(|error| Event::Failed(format!("{error:#}")));
    if partial.exists() && fs::remove_dir_all(&partial).is_err() {
        return Event::Failed(format!("{} cannot be removed", partial.display()));
    }
    event
}

fn taken(
    from: &mut impl BufRead,
    asked: &Asked,
    partial: &Path,
    tell: &mut impl FnMut(Event) -> bool,
) -> anyhow::Result<Event> {
    sent::greet(from)?;
    let (mut left, mut files) = ((asked.disk_mib << 20) + BESIDE_EVENTS, 0);
    loop {
        match sent::next(from)? {
            Frame::Ready if !tell(Event::Ready) => anyhow::bail!("the recording was given up"),
            Frame::Recording if !tell(Event::Recording) => anyhow::bail!("the recording was given up"),
            Frame::Ready | Frame::Recording => {}
            Frame::File { path, bytes } => {
                files += 1;
                anyhow::ensure!(
                    bytes <= left && files <= MOST_FILES,
                    "its run is larger than --disk allows; record for a shorter time, or raise --disk"
                );
                left -= bytes;
                let path = partial.join(path);
                fs::create_dir_all(path.parent().unwrap_or(partial))?;
                let mut file = File::create_new(&path).with_context(|| format!("cannot write {}", path.display()))?;
                let copied = io::copy(&mut from.take(bytes), &mut file)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                if copied < bytes {
                    return Err(FrameError::Ended.into());
                }
            }
            Frame::Done { events, lost } => {
                fs::rename(partial, &asked.directory)
                    .with_context(|| format!("cannot write {}", asked.directory.display()))?;
                return Ok(Event::Done { events, lost });
            }
        }
    }
}

/// A reader that counts what came.
struct Counted<R> {
    from: R,
    came: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.from.read(buffer)?;
        self.came.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(directory: PathBuf) -> Asked {
        let (weir, arguments) = ("weir".to_owned(), Vec::new());
        Asked { host: "web".to_owned(), ssh_config: None, weir, arguments, directory, disk_mib: 1 }
    }

    #[test]
    fn a_shell_takes_each_word_as_it_is() {
        let words = ["--comm=it's", "a b", "$HOME", "", "--port=80"].map(str::to_owned);
        let line = there("/opt/weir", &words).replacen("exec /opt/weir record --send-run", "printf '%s\\n'", 1);
        let output = Command::new("sh").arg("-c").arg(&line).output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().collect::<Vec<_>>(), words, "{line}");
    }

    #[test]
    fn a_run_is_whole_or_not_there() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let directory = folder.path().join("web");
        let whole = b"weir-run 1\nready\nrecording\nfile 2 manifest.jsonl\n{}file 3 segments/a\nabcdone 5 1\n";
        for cut in 0..whole.len() {
            let event = fetch(&mut &whole[..cut], &asked(directory.clone()), |_| true);
            assert!(matches!(event, Event::Failed(_)), "{cut}: {event:?}");
            assert_eq!(fs::read_dir(folder.path()).expect("a directory").count(), 0, "{cut}");
        }
        let mut told = 0;
        let event = fetch(&mut whole.as_slice(), &asked(directory.clone()), |_| {
            told += 1;
            true
        });
        assert!(matches!(event, Event::Done { events: 5, lost: 1 }), "{event:?}");
        assert_eq!((told, fs::read(directory.join("segments/a")).expect("a file")), (2, b"abc".to_vec()));
    }

    #[test]
    fn a_run_beyond_its_bound_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let said = format!("weir-run 1\nready\nfile {} a\n", u64::MAX);
        let event = fetch(&mut said.as_bytes(), &asked(folder.path().join("web")), |_| true);
        assert!(matches!(&event, Event::Failed(why) if why.contains("--disk")), "{event:?}");
    }
}
