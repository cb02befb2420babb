//! Load and record in one go, into a run directory.

use super::Args;
use crate::arm_source::ArmRecording;
use crate::child::Child;
use crate::load::Usage;
use crate::load_run;
use anyhow::{Context, bail};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_capture::{Footing, Recorder, Rung, Target};
use weir_terminal::stop::Stop;
use weir_trace::{Run, RunReader, Source};

/// How long a started server may take until it answers.
const READY: Duration = Duration::from_secs(15);
/// After the load's end the last sends may still be on their way into the rings.
const SETTLE: Duration = Duration::from_millis(100);

/// How long to watch a server, unless the user says.
const WATCH: Duration = Duration::from_secs(10);

/// What came of it.
pub(super) enum Outcome {
    /// A run to be explained.
    Recorded(PathBuf),
    /// The arguments do not fit.
    Usage(String),
}

/// Starts the server if asked to, records it while it is loaded.
pub(super) fn record(args: &Args, url: &str) -> anyhow::Result<Outcome> {
    let options = match args.load.options(Some(url)) {
        Ok(options) => options,
        Err(Usage(error)) => return Ok(Outcome::Usage(weir_terminal::output::causes(&error))),
    };
    if let Some(path) = &options.reach.unix {
        return Ok(Outcome::Usage(format!(
            "requests are found again at the server by their connections' addresses, and the Unix socket {} has none: \
             load it over TCP; `weir load --unix` shows the client's side alone",
            path.display()
        )));
    }
    if args.target.is_empty() && args.command.is_empty() {
        let example = format!("--port {}", options.url.port);
        return Ok(Outcome::Usage(format!("name the server: {example}, --pid PID, --comm NAME, or -- SERVER COMMAND")));
    }
    let directory = args.run.clone().unwrap_or_else(crate::run_directory::next);
    if RunReader::open(&directory).is_ok() {
        let name = directory.display();
        return Ok(Outcome::Usage(format!("{name} is a run already; name a new directory, or `weir explain {name}`")));
    }
    let stop = Stop::on_signals()?;
    let mut footing = args.rung.ladder().climb()?;
    if let Some(probes) = &mut footing.probes {
        probes.tell_wakeups_of(std::process::id());
    }
    footing.notes.iter().for_each(|note| eprintln!("weir explain: {note}"));
    let address = match &options.reach.connect_to {
        Some(place) => (place.host.clone(), place.port),
        None => (options.url.host.clone(), options.url.port),
    };
    let address = (address.0.as_str(), address.1);
    let transactions = args.sources.transactions()?;
    let mut child = if args.command.is_empty() { None } else { Some(started(&args.command, address, &stop)?) };
    let observed = recorder(args, &mut footing, child.as_ref(), (&directory, options.url.port))?;
    let mut notes = footing.notes;
    let run = Run::create(&directory)?;
    let transactions = transactions.map(|told| told.record(&run)).transpose()?;
    let watch = crate::load::Watch { quiet: args.json, title: options.url.to_string(), ..Default::default() };
    let loaded = load_run::into_run(options, &run, &stop, &watch);
    std::thread::sleep(SETTLE);
    if let Some(child) = &mut child {
        notes.extend(child.ended().map(|status| format!("the server ended during the load ({status})")));
    } else if let Some((_, target)) = &observed
        && crate::record::has_ended(target)
    {
        notes.push(crate::record::TARGET_ENDED.to_owned());
    }
    if let Some(child) = child {
        child.end();
    }
    let recorded = observed.map(|(recorder, _)| recorder.finish(notes)).transpose();
    let told = transactions.map(ArmRecording::finish).transpose();
    // The load's error is the one to tell: a server that refused is why there is nothing to record.
    loaded?;
    recorded?;
    told?;
    Ok(Outcome::Recorded(directory))
}

/// Starts to record the server as the rung allows, and says which processes it is; the lowest rung has the client only.
fn recorder(
    args: &Args,
    footing: &mut Footing,
    child: Option<&Child>,
    (directory, port): (&Path, u16),
) -> anyhow::Result<Option<(Recorder, Target)>> {
    if footing.rung == Rung::ClientOnly {
        eprintln!("weir explain: the client's side only");
        return Ok(None);
    }
    let target = match target(args, child, port) {
        Err(why) if footing.rung == Rung::ProcOnly && !args.rung.is_forced() => {
            eprintln!("weir explain: the client's side only: {why:#}");
            return Ok(None);
        }
        found => found?,
    };
    footing.settle(&target)?;
    let sources = args.sources.load(footing.probes.as_ref(), &target, false)?;
    let run = Run::create(directory)?;
    let (rung, limits) = (footing.rung.name(), crate::record::limits(crate::record::DISK_MIB));
    run.begin(Source::Kernel, weir_terminal::VERSION, weir_terminal::privacy::command_line(), Some(rung), None)?;
    let recorder = match footing.probes.take() {
        Some(probes) => Recorder::start_with(probes, sources, &target, &run, limits)?,
        None => Recorder::sample(&target, &run, limits)?,
    };
    Ok(Some((recorder, target)))
}

/// Records what is there for a while, without a load of ours.
pub(super) fn watch(args: &Args) -> anyhow::Result<Outcome> {
    let directory = args.run.clone().unwrap_or_else(crate::run_directory::next);
    if RunReader::open(&directory).is_ok() {
        let name = directory.display();
        return Ok(Outcome::Usage(format!("{name} is a run already; name a new directory, or `weir explain {name}`")));
    }
    let stop = Stop::on_signals()?;
    let (probes, rung, mut notes) = crate::record::probes(&args.rung)?;
    let target = args.target.find()?;
    crate::record::must_listen(&target)?;
    let sources = args.sources.load(Some(&probes), &target, false)?;
    let transactions = args.sources.transactions()?;
    let run = Run::create(&directory)?;
    run.begin(Source::Kernel, weir_terminal::VERSION, weir_terminal::privacy::command_line(), Some(rung.name()), None)?;
    let limits = crate::record::limits(crate::record::DISK_MIB);
    let recorder = Recorder::start_with(probes, sources, &target, &run, limits)?;
    let transactions = transactions.map(|told| told.record(&run)).transpose()?;
    let (begin, mut line) = (Instant::now(), weir_terminal::progress::Line::new());
    let watch = args.load.duration().unwrap_or(WATCH);
    while begin.elapsed() < watch && !stop.asked() && !recorder.has_failed() {
        if crate::record::has_ended(&target) {
            notes.push(crate::record::TARGET_ENDED.to_owned());
            break;
        }
        line.show(|| format!("recording {:.0} of {:.0} s", begin.elapsed().as_secs_f64(), watch.as_secs_f64()));
        std::thread::sleep(Duration::from_millis(20).min(watch.saturating_sub(begin.elapsed())));
    }
    drop(line);
    recorder.finish(notes)?;
    transactions.map(ArmRecording::finish).transpose()?;
    Ok(Outcome::Recorded(directory))
}

/// The server's processes and ports.
fn target(args: &Args, child: Option<&Child>, port: u16) -> anyhow::Result<Target> {
    let mut target = args.target.find()?;
    if let Some(child) = child {
        target = target.and(Target::of_pid(child.id()).context("the server ended at once")?);
    }
    // The port that is loaded belongs to the server whether or not it was named.
    target.ports.insert(port);
    Ok(target)
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
