//! The orchestrator's threads: one reads and one writes each connection, and one moves the state machine.

use super::super::files::Files;
use super::super::usage::Usage;
use super::args::{Reached, WorkersArgs};
use super::child::{self, Running};
use super::place::Place;
use super::records::{Kept, Records};
use super::tls::Identity;
use super::words::words;
use anyhow::Context;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use weir_load::workers::{
    Asked, Decoder, FrameError, FromWorker, Orchestrator, Phase, ToWorker, check_split, encoded, greeting,
};
use weir_load::{Control, LoadReport, Options};

/// Messages of all workers that wait to be taken in.
const HEARD_MAX: usize = 4096;
/// Messages that are taken in before the clock is looked at again.
const HEARD_AT_ONCE: u32 = 32;
/// Messages to a worker that wait to be written: all pieces of files, and what follows.
const UNSENT_MAX: usize = 1024;
/// How often it is looked at the clock and the user's wish.
const LOOK: Duration = Duration::from_millis(10);

/// What is heard of a worker.
enum Heard {
    Message {
        message: Box<FromWorker>,
        at_ns: u64,
    },
    /// Nothing follows, and why.
    Gone(String),
}

/// Why a worker cannot be told something.
#[derive(Debug, thiserror::Error)]
enum UnsaidError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("it takes nothing in any more; is the way there congested?")]
    Congested,
}

/// A worker's connection.
struct Link {
    out: Option<SyncSender<Vec<u8>>>,
    running: Option<Arc<Running>>,
}

/// The nanoseconds of CLOCK_MONOTONIC.
pub(super) fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the result, and this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What a run by workers needs beside its options.
#[derive(Debug)]
pub(crate) struct Conducted {
    pub(super) args: WorkersArgs,
    pub(super) reached: Vec<Reached>,
    pub(super) identity: Option<Identity>,
    pub(super) asked: Asked,
    /// Where records of requests go, if they are wanted.
    pub(super) records: Option<Records>,
}

/// What workers made.
#[derive(Debug)]
pub(crate) struct ByWorkers {
    pub(crate) report: LoadReport,
    /// What came of their records.
    pub(crate) kept: Kept,
}

impl Conducted {
    /// What a run by these workers needs; none where there are no workers. `files` are those that the options named, `run`
    /// is where the records of their requests go.
    pub(crate) fn of(
        args: &WorkersArgs,
        options: &Options,
        files: &Files,
        run: Option<&Path>,
    ) -> Result<Option<Self>, Usage> {
        if !args.wanted() {
            return Ok(None);
        }
        args.check()?;
        let reached = args.reached();
        check_split(options, reached.len())?;
        let asked = Asked {
            names: reached.iter().map(|one| one.name.clone()).collect(),
            version: weir_terminal::VERSION.to_owned(),
            words: words()?,
            files: files.pieces()?,
            is_recorded: run.is_some(),
        };
        let identity = args.identity()?;
        let records = run.map(|directory| Records::create(directory, &reached)).transpose()?;
        Ok(Some(Self { identity, args: args.clone(), reached, asked, records }))
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.reached.len()
    }
}

/// Has the workers make a run, and reports what they did.
pub(crate) fn conduct(conducted: Conducted, options: Options, control: &Control) -> anyhow::Result<ByWorkers> {
    let Conducted { args, reached, identity, asked, mut records } = conducted;
    let mut orchestrator = Orchestrator::new(asked, &options, now_ns());
    let (tell, told) = sync_channel(HEARD_MAX);
    let mut links = Vec::new();
    for (number, one) in reached.iter().enumerate() {
        let link =
            linked(one, &args, identity.as_ref(), (number, &tell)).with_context(|| format!("worker {}", one.name))?;
        links.push(link);
    }
    drop(tell);
    while step(&mut orchestrator, &mut links, &told, (control, &mut records)) != Phase::Over {}
    // What was said last goes out; then the connections end, and with them the processes.
    links.iter_mut().for_each(|link| drop(link.out.take()));
    links.iter().filter_map(|link| link.running.as_ref()).for_each(|running| running.end());
    let report = orchestrator.report(options)?;
    let kept = records.map_or_else(Kept::default, |records| records.finish(&report));
    Ok(ByWorkers { report, kept })
}

/// Says what is to be said, and takes in what came meanwhile.
fn step(
    orchestrator: &mut Orchestrator,
    links: &mut [Link],
    told: &Receiver<(usize, Heard)>,
    (control, records): (&Control, &mut Option<Records>),
) -> Phase {
    while let Some((number, message)) = orchestrator.next_message() {
        if let Err(error) = links[number].say(&message) {
            orchestrator.gone(number, error.to_string(), now_ns(), control);
        }
    }
    let mut heard = match told.recv_timeout(LOOK) {
        Ok(heard) => Some(heard),
        Err(RecvTimeoutError::Timeout) => None,
        // No connection has anything more to say: what follows is the clock's.
        Err(RecvTimeoutError::Disconnected) => {
            std::thread::sleep(LOOK);
            None
        }
    };
    // What must be said does not wait until there is nothing more to hear.
    let mut room = HEARD_AT_ONCE;
    while let Some((number, of_worker)) = heard {
        match of_worker {
            Heard::Message { message, at_ns } => orchestrator.take(number, *message, at_ns, control),
            Heard::Gone(why) => orchestrator.gone(number, why, now_ns(), control),
        }
        while let Some((worker, recorded)) = orchestrator.next_record() {
            if let Some(records) = records {
                records.take(worker, recorded);
            }
        }
        room -= 1;
        heard = if room > 0 { told.try_recv().ok() } else { None };
    }
    if control.is_stopped() {
        orchestrator.stop(now_ns());
    }
    orchestrator.tick(now_ns(), control);
    orchestrator.phase()
}

impl Link {
    /// Has a message written.
    fn say(&mut self, message: &ToWorker) -> Result<(), UnsaidError> {
        let bytes = encoded(message)?;
        let Some(out) = &self.out else { return Ok(()) };
        match out.try_send(bytes) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err(UnsaidError::Congested),
            // Its reader says why.
            Err(TrySendError::Disconnected(_)) => {
                self.out = None;
                Ok(())
            }
        }
    }
}

/// Reaches a worker.
fn linked(
    one: &Reached,
    args: &WorkersArgs,
    identity: Option<&Identity>,
    (number, tell): (usize, &SyncSender<(usize, Heard)>),
) -> anyhow::Result<Link> {
    let started = match &one.place {
        Place::Local(_) => child::local()?,
        Place::Ssh(host) => child::by_ssh(host, args.remote_weir.as_deref(), args.ssh_config.as_deref())?,
        Place::Tls { host, port } => {
            let stream = identity.context("there is no certificate to show")?.connect(host, *port)?;
            let from = stream.try_clone()?;
            let why = || "its connection ended".to_owned();
            return Ok(Link { out: Some(threads(stream, from, (number, tell.clone()), why)), running: None });
        }
    };
    let running = Arc::clone(&started.running);
    let why = move || running.why();
    let out = threads(started.to, started.from, (number, tell.clone()), why);
    Ok(Link { out: Some(out), running: Some(started.running) })
}

/// Starts the two threads of a connection.
fn threads(
    mut to: impl Write + Send + 'static,
    from: impl Read + Send + 'static,
    (number, tell): (usize, SyncSender<(usize, Heard)>),
    why: impl FnOnce() -> String + Send + 'static,
) -> SyncSender<Vec<u8>> {
    let (out, unsent) = sync_channel::<Vec<u8>>(UNSENT_MAX);
    std::thread::spawn(move || {
        if to.write_all(greeting()).is_err() {
            return;
        }
        while let Ok(bytes) = unsent.recv() {
            // A worker that is gone is told of by its reader.
            if to.write_all(&bytes).and_then(|()| to.flush()).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || read(from, number, &tell, why));
    out
}

/// Reads messages until there are no more.
fn read(mut from: impl Read, number: usize, tell: &SyncSender<(usize, Heard)>, why: impl FnOnce() -> String) {
    let mut decoder = Decoder::<FromWorker>::default();
    let mut buffer = vec![0; 64 << 10];
    let gone = loop {
        let length = match from.read(&mut buffer) {
            Ok(0) | Err(_) => break why(),
            Ok(length) => length,
        };
        let at_ns = now_ns();
        decoder.push(&buffer[..length]);
        let misled = loop {
            match decoder.next_message() {
                Ok(Some(message)) => {
                    if tell.send((number, Heard::Message { message: Box::new(message), at_ns })).is_err() {
                        return;
                    }
                }
                Ok(None) => break None,
                Err(error) => break Some(error.to_string()),
            }
        };
        if let Some(error) = misled {
            break error;
        }
    };
    // If there is no receiver any more, the run is over.
    let _ = tell.send((number, Heard::Gone(gone)));
}
