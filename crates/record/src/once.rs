//! Recordings with an end, without a load of ours.

use crate::child::Child;
use crate::kernel;
use crate::kernel::DISK_MIB;
use crate::setup::Setup;
use crate::target::{TARGET_ENDED, has_ended, must_listen};
use crate::transactions::ArmRecording;
use anyhow::bail;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_capture::{BoundarySource, Recorder, Target};
use weir_terminal::stop::Stop;
use weir_trace::{Cost, Run};

/// What was recorded.
#[derive(Debug)]
pub struct Recorded {
    /// The run.
    pub run: Run,
    /// What it cost.
    pub cost: Cost,
    /// What is worth noting about its end.
    pub notes: Vec<String>,
    /// The command ended by itself, and not with success.
    pub has_failed: bool,
}

/// Records until the time is over, its user says so, or the server ends; starts the server first if a command is given.
///
/// # Errors
/// The server cannot be found or started, or nothing can be recorded of it.
pub fn until_end(
    setup: &Setup,
    limit: Option<Duration>,
    disk_mib: u64,
    keep_addresses: bool,
    stop: &Stop,
) -> anyhow::Result<Recorded> {
    recorded(setup, limit, (disk_mib, keep_addresses), stop, &mut |_| Ok(()))
}

/// How far a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The probes are loaded, and nothing is recorded yet.
    Ready,
    /// Events are recorded.
    Recording,
}

/// Records as [`until_end`] does, and says how far it is; an error of `told` ends it.
pub(crate) fn recorded(
    setup: &Setup,
    limit: Option<Duration>,
    (disk_mib, keep_addresses): (u64, bool),
    stop: &Stop,
    told: &mut dyn FnMut(Step) -> anyhow::Result<()>,
) -> anyhow::Result<Recorded> {
    // The probes load before the command starts: if they are refused, no server was started in vain.
    let mut footing = setup.ladder.climb()?;
    setup.say_notes(&footing);
    if footing.source == BoundarySource::ClientOnly {
        bail!("nothing can be recorded on the rung {:?}", footing.source.name());
    }
    if let Some(probes) = footing.probes.as_mut().filter(|_| keep_addresses) {
        probes.keep_addresses();
    }
    let mut child = if setup.command.is_empty() { None } else { Some(Child::start(&setup.command)?) };
    let target = setup.target(child.as_ref(), "the command ended at once")?;
    if child.is_none() {
        must_listen(&target)?;
    }
    footing.settle(&target)?;
    let sources = setup.sources.load(footing.probes.as_mut(), &target, child.is_some())?;
    let transactions = setup.sources.subscribe()?;
    told(Step::Ready)?;
    // Not before: what is refused leaves no run behind.
    let run = Run::create(&setup.directory())?;
    let recorder = kernel::start(&run, &mut footing, sources, &target, disk_mib)?;
    let transactions = transactions.map(|told| told.record(&run)).transpose()?;
    told(Step::Recording)?;
    let Ending { notes, failed } = wait(limit, stop, &recorder, &target, child.as_mut());
    let cost = recorder.finish([footing.notes, notes.clone()].concat())?;
    transactions.map(ArmRecording::finish).transpose()?;
    if let Some(child) = child {
        child.end();
    }
    Ok(Recorded { run, cost, notes, has_failed: failed })
}

/// Records for a while what real clients ask of a server that runs already.
///
/// # Errors
/// The server cannot be found, or its requests cannot be followed.
pub fn while_clients_come(setup: &Setup, time: Duration, stop: &Stop) -> anyhow::Result<()> {
    let mut footing = kernel::with_probes(&setup.ladder)?;
    let target = setup.named.find()?;
    must_listen(&target)?;
    let sources = setup.sources.load(footing.probes.as_mut(), &target, false)?;
    let transactions = setup.sources.subscribe()?;
    let run = Run::create(&setup.directory())?;
    let recorder = kernel::start(&run, &mut footing, sources, &target, DISK_MIB)?;
    let mut notes = footing.notes;
    let transactions = transactions.map(|told| told.record(&run)).transpose()?;
    let (begin, mut line) = (Instant::now(), weir_terminal::progress::Line::new());
    while begin.elapsed() < time && !stop.asked() && !recorder.has_failed() {
        if has_ended(&target) {
            notes.push(TARGET_ENDED.to_owned());
            break;
        }
        line.show(|| format!("recording {:.0} of {:.0} s", begin.elapsed().as_secs_f64(), time.as_secs_f64()));
        std::thread::sleep(Duration::from_millis(20).min(time.saturating_sub(begin.elapsed())));
    }
    drop(line);
    recorder.finish(notes)?;
    transactions.map(ArmRecording::finish).transpose()?;
    Ok(())
}

/// How a recording came to its end.
#[derive(Default)]
struct Ending {
    /// What is worth noting about it.
    notes: Vec<String>,
    /// The command ended by itself, and not with success.
    failed: bool,
}

impl Ending {
    fn noted(note: String) -> Self {
        Self { notes: vec![note], failed: false }
    }
}

/// Waits for the end.
fn wait(
    limit: Option<Duration>,
    stop: &Stop,
    recorder: &Recorder,
    target: &Target,
    mut child: Option<&mut Child>,
) -> Ending {
    let begin = Instant::now();
    let mut line = weir_terminal::progress::Line::new();
    loop {
        if stop.asked() || limit.is_some_and(|limit| begin.elapsed() >= limit) {
            return Ending::default();
        }
        if recorder.has_failed() {
            return Ending::noted("the recording could not be written on".to_owned());
        }
        if let Some(status) = child.as_deref_mut().and_then(Child::ended) {
            let note = format!("the command ended ({status}); what was recorded is kept");
            return Ending { failed: !status.success(), ..Ending::noted(note) };
        }
        if child.is_none() && has_ended(target) {
            return Ending::noted(TARGET_ENDED.to_owned());
        }
        let recording = recorder.recording();
        line.show(|| {
            format!(
                "recording {:.0} s, {} events, {} lost",
                begin.elapsed().as_secs_f64(),
                recording.events.load(Ordering::Relaxed),
                recording.lost.load(Ordering::Relaxed)
            )
        });
        std::thread::sleep(Duration::from_millis(50));
    }
}
