//! A server recorded while it is loaded.

use crate::child::Child;
use crate::kernel::{self, DISK_MIB};
use crate::load::into_run;
use crate::setup::Setup;
use crate::target::{TARGET_ENDED, has_ended};
use crate::transactions::ArmRecording;
use anyhow::bail;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};
use weir_capture::{BoundarySource, Footing, Recorder, Target};
use weir_load::{LoadError, LoadReport, Options};
use weir_terminal::stop::Stop;
use weir_trace::Run;

/// How long a started server may take until it answers.
const READY: Duration = Duration::from_secs(15);
/// After the load's end the last sends may still be on their way into the rings.
const SETTLE: Duration = Duration::from_millis(100);

/// Starts the server if a command is given, and records it while `drive` loads it.
///
/// # Errors
/// The server cannot be found or started, or the load fails.
pub fn under_load(
    setup: &Setup,
    options: Options,
    stop: &Stop,
    drive: impl FnOnce(Options) -> Result<LoadReport, LoadError>,
) -> anyhow::Result<()> {
    let directory = setup.directory();
    let mut footing = setup.ladder.climb()?;
    if let Some(probes) = &mut footing.probes {
        probes.tell_wakeups_of(std::process::id());
    }
    setup.say_notes(&footing);
    let address = match &options.reach.connect_to {
        Some(place) => (place.host.clone(), place.port),
        None => (options.url.host.clone(), options.url.port),
    };
    let address = (address.0.as_str(), address.1);
    let transactions = setup.sources.subscribe()?;
    let mut child = if setup.command.is_empty() { None } else { Some(started(&setup.command, address, stop)?) };
    let observed = recorder(setup, &mut footing, child.as_ref(), (&directory, options.url.port))?;
    let mut notes = footing.notes;
    let run = Run::create(&directory)?;
    let transactions = transactions.map(|told| told.record(&run)).transpose()?;
    let loaded = into_run(options, &run, drive);
    std::thread::sleep(SETTLE);
    if let Some(child) = &mut child {
        notes.extend(child.ended().map(|status| format!("the server ended during the load ({status})")));
    } else if let Some((_, target)) = &observed
        && has_ended(target)
    {
        notes.push(TARGET_ENDED.to_owned());
    }
    if let Some(child) = child {
        child.end();
    }
    let recorded = observed.map(|(recorder, _)| recorder.finish(notes)).transpose();
    let told = transactions.map(ArmRecording::finish).transpose();
    // The load's error is the one to tell: a server that refused is why there is nothing to record.
    if let Some(error) = loaded?.unwritten {
        return Err(error.into());
    }
    recorded?;
    told?;
    Ok(())
}

/// Starts to record the server as the rung allows, and says which processes it is; the lowest rung has the client only.
fn recorder(
    setup: &Setup,
    footing: &mut Footing,
    child: Option<&Child>,
    (directory, port): (&Path, u16),
) -> anyhow::Result<Option<(Recorder, Target)>> {
    let who = setup.who;
    if footing.source == BoundarySource::ClientOnly {
        eprintln!("{who}: the client's side only");
        return Ok(None);
    }
    let mut target = match setup.target(child, "the server ended at once") {
        Err(why) if footing.source == BoundarySource::ProcOnly && setup.ladder.forced.is_none() => {
            eprintln!("{who}: the client's side only: {why:#}");
            return Ok(None);
        }
        found => found?,
    };
    // The port that is loaded belongs to the server whether or not it was named.
    target.ports.insert(port);
    footing.settle(&target)?;
    let sources = setup.sources.load(footing.probes.as_mut(), &target, false)?;
    let run = Run::create(directory)?;
    let recorder = kernel::start(&run, footing, sources, &target, DISK_MIB)?;
    Ok(Some((recorder, target)))
}

/// Starts a server and waits until its port answers.
fn started(command: &[String], address: (&str, u16), stop: &Stop) -> anyhow::Result<Child> {
    if answers(address) {
        bail!(
            "something answers on {}:{} already; end it, or explain it with --port {}",
            address.0,
            address.1,
            address.1
        );
    }
    let mut child = Child::start(command)?;
    let deadline = Instant::now() + READY;
    while Instant::now() < deadline && !stop.asked() {
        if let Some(status) = child.ended() {
            bail!("the server ended before it answered ({status}); its messages stand above");
        }
        if answers(address) {
            return Ok(child);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    if stop.asked() {
        bail!("ended by you before the server answered");
    }
    bail!("the server does not answer on {}:{} after {} s", address.0, address.1, READY.as_secs());
}

/// Whether a server accepts connections there; we give up a silent address after 200 ms.
fn answers(address: (&str, u16)) -> bool {
    let addresses = address.to_socket_addrs().into_iter().flatten();
    addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok())
}
