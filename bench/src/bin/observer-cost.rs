//! What observing costs the server: CPU time per request with the probes attached, against detached, in paired slices
//! of one run at full keep-alive load.
//!
//! The server stays on CPU 0, generator and collector on CPU 1.
//! A slice's CPU time is the sum of schedstat over the server's threads, its requests are counted by the generator's own
//! events within the slice.

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use std::time::{Duration, Instant};
use weir_bench::{Cost, Slices, pin_to};
use weir_capture::packs::PackChoice;
use weir_capture::user_probes::{Plan, Programs, Release, UserProbes, Wanted};
use weir_capture::{BoundarySource, EventSource, Probes, Recorder, Recording, Samples, Target, Watch, Watched};
use weir_load::{Control, Options, StopRule, Url};
use weir_testkit::{Apache, Nginx, WeirServe};
use weir_trace::{Limits, Run};

/// The observed server.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Server {
    Nginx,
    Prefork,
    Event,
    /// `weir serve`, which lies beside this program
    Weir,
}

#[derive(Debug, Parser)]
struct Arguments {
    /// The observed server
    #[arg(value_enum)]
    server: Server,
    /// Connections of the generator
    #[arg(short, long, default_value_t = 16)]
    connections: u32,
    /// Pairs of slices
    #[arg(short, long, default_value_t = 60)]
    pairs: u32,
    /// Milliseconds of a slice
    #[arg(long, default_value_t = 300)]
    slice_ms: u64,
    /// Where request boundaries come from: tracepoints, fentry, syscalls, userprobes, proc
    #[arg(long, value_parser = BoundarySource::of_word, default_value = "tracepoints")]
    rung: BoundarySource,
    /// Optional sources beside scheduler and sockets: disk,locks,interrupts,timers or all
    #[arg(long, value_parser = watched)]
    watch: Option<WatchedList>,
    /// Phases by packs besides: auto, none, or their names
    #[arg(long, default_value = "none")]
    packs: PackChoice,
    /// Seed of the order within pairs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sample stacks as well, so many times a second of each CPU
    #[arg(long, value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = "99")]
    stacks: Option<u32>,
}

/// Sources, as an option takes them.
#[derive(Debug, Clone, Default)]
struct WatchedList(Vec<Watched>);

fn watched(list: &str) -> anyhow::Result<WatchedList> {
    Watched::parse_list(list).map(WatchedList).map_err(|word| anyhow::anyhow!("{word:?} is no source"))
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let server = match arguments.server {
        Server::Nginx => Nginx::new().pin(0).start(),
        Server::Prefork => Apache::prefork().pin(0).start(),
        Server::Event => Apache::event().pin(0).start(),
        Server::Weir => WeirServe::new(beside()?).pin(0).start(),
    };
    let server = server.map_err(|error| anyhow::anyhow!("{error}"))?;
    pin_to(1)?;
    let folder = tempfile::tempdir().context("a temporary directory")?;
    let run = Run::create(folder.path())?;
    // Old segments are removed beyond a small bound: a long measurement must not fill the disk.
    let limits = Limits { segment_bytes: 16 << 20, stream_bytes: 64 << 20, ..Limits::default() };
    let target = Target::of_port(server.port)?;
    let recorder = match arguments.rung {
        BoundarySource::ProcOnly => Recorder::sample(&target, &run, limits)?,
        rung => {
            let probes = Probes::load_source(rung)?;
            let mut sources = sources(&arguments.packs, &probes, &target)?;
            let watch = arguments.watch.clone().unwrap_or_default();
            sources.extend(Watch::load(&probes, &watch.0, None)?);
            if let Some(hz) = arguments.stacks {
                sources.push(Box::new(Samples::load(&probes, hz)?));
            }
            Recorder::start_with(probes, sources, &target, &run, limits)?
        }
    };
    let (producer, mut done) = weir_wire::ring(1 << 18);
    let mut options = Options::new(Url::parse(&server.url("/1k.txt")).map_err(|error| anyhow::anyhow!("{error}"))?);
    options.connections = arguments.connections;
    options.stop = StopRule::Duration(Duration::from_secs(3600));
    options.cpu = Some(1);
    options.events = vec![producer];
    let control = Control::default();
    let outcome = std::thread::scope(|scope| {
        let load = scope.spawn(|| weir_load::run(options, &control));
        let length = Duration::from_millis(arguments.slice_ms);
        let mut slices = Slices { pids: server.pids(), done: &mut done, length };
        let recording = recorder.recording();
        let outcome = slices.pairs(arguments.pairs, arguments.seed, |on| toggle(recording, on));
        control.stop();
        let report = load.join().map_err(|_| anyhow::anyhow!("the generator panicked"))?;
        report.context("the load failed")?;
        outcome
    });
    let lost = recorder.recording().lost.load(std::sync::atomic::Ordering::Relaxed);
    recorder.finish(Vec::new())?;
    let head = format!(
        "{:?}{} c={} keep-alive, {}, slices of {} ms",
        arguments.server,
        watching(&arguments),
        arguments.connections,
        arguments.rung.name(),
        arguments.slice_ms,
    );
    let cost = Cost::of(&outcome?, arguments.seed)?;
    println!("{}, {lost} events lost", cost.told(&head, "observer cost"));
    Ok(())
}

/// The command `weir` of the same build.
fn beside() -> anyhow::Result<std::path::PathBuf> {
    Ok(std::env::current_exe().context("where this program lies")?.with_file_name("weir"))
}

/// The probes of the packs that fit.
fn sources(packs: &PackChoice, probes: &Probes, target: &Target) -> anyhow::Result<Vec<Box<dyn EventSource>>> {
    let wanted = Wanted { packs: packs.clone(), ..Wanted::default() };
    let plan = Plan::of(&wanted, &Programs::of(target.pids.iter().copied()), Release::running())?;
    if plan.sites.is_empty() {
        return Ok(Vec::new());
    }
    plan.notes.iter().for_each(|note| println!("{note}"));
    Ok(vec![Box::new(UserProbes::load(probes, plan, false)?)])
}

fn toggle(recording: &Recording, on: bool) -> anyhow::Result<()> {
    recording.pause(!on);
    let deadline = Instant::now() + Duration::from_secs(5);
    while recording.is_attached() != on {
        if Instant::now() > deadline {
            bail!("the probes could not be toggled");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // Patching the kernel's text and warming the programs up belong to no slice.
    std::thread::sleep(Duration::from_millis(40));
    Ok(())
}

/// What is recorded beside scheduler and sockets, in words.
fn watching(arguments: &Arguments) -> String {
    let sources = arguments.watch.iter().flat_map(|list| list.0.iter().map(|source| source.name().to_owned()));
    let packs = (arguments.packs != PackChoice::None).then(|| "packs".to_owned());
    let stacks = arguments.stacks.map(|hz| format!("stacks at {hz} Hz"));
    let names: Vec<String> = sources.chain(packs).chain(stacks).collect();
    if names.is_empty() { String::new() } else { format!(" with {}", names.join(", ")) }
}
