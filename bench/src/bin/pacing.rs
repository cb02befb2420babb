//! How well a generator keeps to its schedule, beside the least that could: one thread that sleeps to each of the same
//! times by itself and notes how late it wakes up.
//!
//! Both take turns, `--blocks` times at each rate, on the same CPU; the ratio of the 99th percentiles is that of the
//! blocks' median.

use anyhow::Context;
use clap::Parser;
use hdrhistogram::Histogram;
use std::time::Duration;
use weir_load::{Control, Io, Options, Schedule, StopRule, Url};

#[derive(Debug, Parser)]
struct Arguments {
    /// The server, as a URL
    url: String,
    /// Arrivals a second
    #[arg(short, long, value_delimiter = ',', default_values_t = [100.0, 1000.0, 10_000.0])]
    rates: Vec<f64>,
    /// Turns of each
    #[arg(short, long, default_value_t = 8)]
    blocks: usize,
    /// Seconds of a turn
    #[arg(short, long, default_value_t = 2.0)]
    seconds: f64,
    /// Connections of the generator
    #[arg(short, long, default_value_t = 100)]
    connections: u32,
    /// The CPU of both
    #[arg(long)]
    cpu: Option<usize>,
    /// How the generator's bytes come and go: auto, epoll or io_uring
    #[arg(long, default_value = "auto")]
    io: String,
}

/// What one turn found, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Turn {
    p50: f64,
    p99: f64,
    cpu_share: f64,
}

impl Turn {
    fn of(lag: &Histogram<u64>, cpu_share: f64) -> Self {
        let at = |quantile| lag.value_at_quantile(quantile) as f64;
        Self { p50: at(0.5), p99: at(0.99), cpu_share }
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    println!(
        "| rate | bare loop p50 | p99 | weir p50 | p99 | p99 ratio, median of blocks (quartiles) | CPU bare | CPU weir |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for rate_per_s in &arguments.rates {
        let mut blocks = Vec::new();
        for block in 0..arguments.blocks.max(1) {
            // Neither always comes first.
            let (bare, weir);
            if block.is_multiple_of(2) {
                bare = bare_loop(*rate_per_s, &arguments)?;
                weir = generator(*rate_per_s, &arguments)?;
            } else {
                weir = generator(*rate_per_s, &arguments)?;
                bare = bare_loop(*rate_per_s, &arguments)?;
            }
            blocks.push((bare, weir));
        }
        let median = |of: &dyn Fn(&(Turn, Turn)) -> f64| quantile(blocks.iter().map(of).collect(), 0.5);
        let ratios: Vec<f64> = blocks.iter().map(|(bare, weir)| weir.p99 / bare.p99).collect();
        println!(
            "| {rate_per_s}/s | {:.1} us | {:.1} us | {:.1} us | {:.1} us | {:.2} ({:.2} to {:.2}) | {:.1} % | {:.1} % |",
            median(&|(bare, _)| bare.p50) / 1e3,
            median(&|(bare, _)| bare.p99) / 1e3,
            median(&|(_, weir)| weir.p50) / 1e3,
            median(&|(_, weir)| weir.p99) / 1e3,
            quantile(ratios.clone(), 0.5),
            quantile(ratios.clone(), 0.25),
            quantile(ratios, 0.75),
            median(&|(bare, _)| bare.cpu_share) * 100.0,
            median(&|(_, weir)| weir.cpu_share) * 100.0,
        );
    }
    Ok(())
}

/// A quantile of some numbers, of which there is at least one.
fn quantile(mut numbers: Vec<f64>, share: f64) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[((numbers.len() - 1) as f64 * share).round() as usize]
}

/// The generator, as its users run it.
fn generator(rate_per_s: f64, arguments: &Arguments) -> anyhow::Result<Turn> {
    let mut options = Options::new(Url::parse(&arguments.url)?);
    options.connections = arguments.connections;
    options.schedule = Schedule::Fixed { rate_per_s };
    options.stop = StopRule::Duration(Duration::from_secs_f64(arguments.seconds));
    options.cpu = arguments.cpu;
    options.io = match arguments.io.as_str() {
        "epoll" => Io::Epoll,
        "io_uring" => Io::Uring,
        _ => Io::Auto,
    };
    let report = weir_load::run(options, &Control::default())?;
    anyhow::ensure!(report.failures() == 0, "requests failed: {:?}", report.errors);
    Ok(Turn::of(&report.schedule_lag, report.generator.cpu_share))
}

/// The bare loop, in a thread of its own as the generator's.
fn bare_loop(rate_per_s: f64, arguments: &Arguments) -> anyhow::Result<Turn> {
    let (count, cpu) = ((rate_per_s * arguments.seconds) as u64, arguments.cpu);
    let sleeper = std::thread::spawn(move || -> anyhow::Result<Turn> {
        if let Some(cpu) = cpu {
            pin(cpu)?;
        }
        // SAFETY: the call takes numbers only; where it is refused, timers stay as they were.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        let mut lag = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3)?;
        let (begin_ns, begin_cpu_ns) = (clock_ns(libc::CLOCK_MONOTONIC), clock_ns(libc::CLOCK_THREAD_CPUTIME_ID));
        for number in 1..=count.max(1) {
            let due_ns = begin_ns + (number as f64 * 1e9 / rate_per_s) as u64;
            sleep_until(due_ns);
            lag.saturating_record(clock_ns(libc::CLOCK_MONOTONIC).saturating_sub(due_ns));
        }
        let wall_ns = clock_ns(libc::CLOCK_MONOTONIC) - begin_ns;
        let cpu_ns = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - begin_cpu_ns;
        Ok(Turn::of(&lag, cpu_ns as f64 / wall_ns as f64))
    });
    sleeper.join().map_err(|_| anyhow::anyhow!("the bare loop panicked"))?
}

fn sleep_until(due_ns: u64) {
    let due = libc::timespec { tv_sec: (due_ns / 1_000_000_000) as i64, tv_nsec: (due_ns % 1_000_000_000) as i64 };
    // SAFETY: `due` outlives the call; with an absolute time nothing is written back.
    while unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const due, std::ptr::null_mut())
    } == libc::EINTR
    {}
}

fn pin(cpu: usize) -> anyhow::Result<()> {
    // SAFETY: an all-zero set is the empty set; the set outlives the call, and 0 is the calling thread.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu.min(libc::CPU_SETSIZE as usize - 1), &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    (result == 0).then_some(()).with_context(|| format!("CPU {cpu}: {}", std::io::Error::last_os_error()))
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place for the result is valid; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
