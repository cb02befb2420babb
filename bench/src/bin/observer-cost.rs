//! What observing costs the server: CPU time per request with the probes attached, against detached, in paired slices
//! of one run at full keep-alive load.
//!
//! The server stays on CPU 0, generator and collector on CPU 1.
//! A slice's CPU time is the sum of schedstat over the server's threads, its requests are counted by the generator's own
//! events within the slice.

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use std::time::{Duration, Instant};
use weir_capture::packs::PackChoice;
use weir_capture::user_probes::{Plan, Programs, Release, UserProbes, Wanted};
use weir_capture::{EventSource, Probes, Recorder, Recording, Rung, Samples, Target, Watch, Watched};
use weir_load::{Control, Options, StopRule, Url};
use weir_measure::comparison::{Bootstrap, PairedRatios, median};
use weir_testkit::{Apache, Nginx, RunningServer};
use weir_trace::{Limits, Run};
use weir_wire::client::ClientRequest;
use weir_wire::{Consumer, Record};

/// The observed server.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Server {
    Nginx,
    Prefork,
    Event,
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
    #[arg(long, value_parser = Rung::of_word, default_value = "tracepoints")]
    rung: Rung,
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

fn watched(list: &str) -> Result<WatchedList, String> {
    Watched::parse_list(list).map(WatchedList).map_err(|word| format!("{word:?} is no source"))
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let server = match arguments.server {
        Server::Nginx => Nginx::new().pin(0).start(),
        Server::Prefork => Apache::prefork().pin(0).start(),
        Server::Event => Apache::event().pin(0).start(),
    };
    let server = server.map_err(|error| anyhow::anyhow!("{error}"))?;
    pin_to(1)?;
    let folder = tempfile::tempdir().context("a temporary directory")?;
    let run = Run::create(folder.path())?;
    // Old segments are removed beyond a small bound: a long measurement must not fill the disk.
    let limits = Limits { segment_bytes: 16 << 20, stream_bytes: 64 << 20, ..Limits::default() };
    let target = Target::of_port(server.port)?;
    let recorder = match arguments.rung {
        Rung::ProcOnly => Recorder::sample(&target, &run, limits)?,
        rung => {
            let probes = Probes::load_rung(rung)?;
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
        let outcome = measure(&arguments, &server, recorder.recording(), &mut done);
        control.stop();
        let report = load.join().map_err(|_| anyhow::anyhow!("the generator panicked"))?;
        report.context("the load failed")?;
        outcome
    });
    let lost = recorder.recording().lost.load(std::sync::atomic::Ordering::Relaxed);
    recorder.finish(Vec::new())?;
    report(&arguments, &outcome?, lost)
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

/// One pair of slices.
struct Pair {
    off_ns: f64,
    on_ns: f64,
    rate_off: f64,
}

fn measure(
    arguments: &Arguments,
    server: &RunningServer,
    recording: &Recording,
    done: &mut Consumer,
) -> anyhow::Result<Vec<Pair>> {
    let mut coin = arguments.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut pairs = Vec::new();
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..arguments.pairs {
        // Xorshift: the order within a pair must not follow anything that the machine does regularly.
        coin ^= coin << 13;
        coin ^= coin >> 7;
        coin ^= coin << 17;
        let on_first = coin & 1 == 1;
        let mut slices = [(0.0, 0.0); 2];
        for on in if on_first { [true, false] } else { [false, true] } {
            toggle(recording, on)?;
            slices[usize::from(on)] = slice(arguments, server, done)?;
        }
        pairs.push(Pair { off_ns: slices[0].0, on_ns: slices[1].0, rate_off: slices[0].1 });
    }
    toggle(recording, false)?;
    Ok(pairs)
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

/// (server CPU ns per request, requests a second) of a slice.
fn slice(arguments: &Arguments, server: &RunningServer, done: &mut Consumer) -> anyhow::Result<(f64, f64)> {
    let pids = server.pids();
    done.drain(usize::MAX, |_, _| {});
    let (begin, cpu_before) = (monotonic_ns(), cpu_ns(&pids));
    let end = begin + arguments.slice_ms * 1_000_000;
    let mut finished: Vec<u64> = Vec::new();
    let mut note = |record: Record, slots: &[[u64; 4]]| {
        if ClientRequest::read(&record, slots).is_some() {
            finished.push(record.time_ns);
        }
    };
    while monotonic_ns() < end {
        std::thread::sleep(Duration::from_millis(20));
        done.drain(usize::MAX, &mut note);
    }
    let (cpu_after, end) = (cpu_ns(&pids), monotonic_ns());
    std::thread::sleep(Duration::from_millis(2));
    done.drain(usize::MAX, &mut note);
    let requests = finished.iter().filter(|at| (begin..end).contains(*at)).count();
    if requests == 0 {
        bail!("no requests in a slice");
    }
    Ok(((cpu_after - cpu_before) as f64 / requests as f64, requests as f64 * 1e9 / (end - begin) as f64))
}

fn report(arguments: &Arguments, pairs: &[Pair], lost: u64) -> anyhow::Result<()> {
    let mut ratios = PairedRatios::default();
    for pair in pairs {
        ratios.push(pair.off_ns, pair.on_ns)?;
    }
    let estimate = ratios.snapshot(&Bootstrap::with_seed(arguments.seed))?;
    let middle = |value: fn(&Pair) -> f64| median(&pairs.iter().map(value).collect::<Vec<_>>()).unwrap_or(f64::NAN);
    println!(
        "{:?}{} c={} keep-alive, {}, {} pairs of {} ms: {:.0} requests/s, server CPU {:.2} us/request off, {:.2} us on",
        arguments.server,
        watching(arguments),
        arguments.connections,
        arguments.rung.name(),
        pairs.len(),
        arguments.slice_ms,
        middle(|pair| pair.rate_off),
        middle(|pair| pair.off_ns) / 1e3,
        middle(|pair| pair.on_ns) / 1e3,
    );
    println!(
        "observer cost {:+.2} % (95 % interval {:+.2} to {:+.2} %), {:+.0} ns/request, {lost} events lost",
        100.0 * (estimate.point - 1.0),
        100.0 * (estimate.interval.low - 1.0),
        100.0 * (estimate.interval.high - 1.0),
        middle(|pair| pair.on_ns) - middle(|pair| pair.off_ns),
    );
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

/// Time on a CPU of every thread of these processes, from schedstat (proc: Documentation/scheduler/sched-stats).
fn cpu_ns(pids: &[u32]) -> u64 {
    let mut sum = 0;
    for pid in pids {
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            sum += text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    sum
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours; the call writes it and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn pin_to(cpu: usize) -> anyhow::Result<()> {
    // SAFETY: a zeroed cpu_set_t is the empty set, and CPU_SET writes within it for a CPU below 1024.
    let outcome = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if outcome != 0 {
        bail!("cannot pin to CPU {cpu}: {}", std::io::Error::last_os_error());
    }
    Ok(())
}
