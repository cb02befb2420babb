//! What `weir record --always` costs: its own CPU time, that of its probes inside the kernel, and its disk space, against
//! the CPU time of a server of PHP pages (Apache event and php-fpm) at a steady rate.
//!
//! The recorder's CPU time is the sum of schedstat over its threads, the server's over those of Apache and php-fpm; the
//! probes' is the kernel's own statistic (`run_time_ns` in fdinfo, bpf(2) `BPF_ENABLE_STATS`), which adds about 40 ns to
//! each run and so errs upwards, but knows nothing of the dispatch.

use anyhow::{Context, bail};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_bench::cpu_ns;
use weir_testkit::{Apache, PhpFpm, Site};

/// Loading the probes and the first window are a cost of the hour, not of the minute: they are told apart.
const WARM_UP: Duration = Duration::from_secs(5);
const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

#[derive(Debug, Parser)]
struct Arguments {
    /// Pages a second
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// How long to measure, seconds
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// The page: hello.php, compute.php
    #[arg(long, default_value = "hello.php")]
    page: String,
    /// The program that is measured [default: the one beside this]
    #[arg(long)]
    weir: Option<PathBuf>,
}

/// A child that does not outlive the measurement.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The kernel's statistics of programs, for as long as it lives.
struct Statistics(String);

impl Statistics {
    fn on() -> anyhow::Result<Self> {
        let before = std::fs::read_to_string(STATISTICS).context(STATISTICS)?;
        std::fs::write(STATISTICS, "1").context("cannot switch the statistics of BPF programs on")?;
        Ok(Self(before))
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        let _ = std::fs::write(STATISTICS, &self.0);
    }
}

/// What had been spent by a moment, nanoseconds and bytes.
#[derive(Debug, Clone, Copy)]
struct Spent {
    recorder: u64,
    programs: u64,
    server: u64,
    bytes: u64,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let beside = std::env::current_exe()?.with_file_name("weir");
    let weir = arguments.weir.clone().unwrap_or(beside);
    let site = Site::php().context("a site")?;
    let php = PhpFpm::new().processes(8).start().map_err(|error| anyhow::anyhow!("{error}"))?;
    let apache = Apache::event().workers(16).root(site.path()).php_fpm(&php).start();
    let apache = apache.map_err(|error| anyhow::anyhow!("{error}"))?;
    let folder = tempfile::tempdir().context("a temporary directory")?;
    let _statistics = Statistics::on()?;

    let seconds = WARM_UP.as_secs() + arguments.seconds + 5;
    let _load = Ended(
        Command::new(&weir)
            .args(["load", "-q", "-c", "16", "--rate", &arguments.rate.to_string(), "-d", &format!("{seconds}s")])
            .arg(apache.url(&format!("/{}", arguments.page)))
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| weir.display().to_string())?,
    );
    let recorder = Ended(
        Command::new(&weir)
            .args(["record", "--always", "--port", &apache.port.to_string(), "--pid", &php.pid().to_string()])
            .arg("--run")
            .arg(folder.path())
            .stderr(Stdio::null())
            .spawn()?,
    );
    let servers = || [apache.pids(), php.pids()].concat();
    let spent = || Spent {
        recorder: cpu_ns(&[recorder.0.id()]),
        programs: programs_ns(recorder.0.id()),
        server: cpu_ns(&servers()),
        bytes: bytes_below(folder.path()),
    };
    std::thread::sleep(WARM_UP);
    let (begin, first) = (Instant::now(), spent());
    if first.bytes == 0 {
        bail!("nothing was recorded in {WARM_UP:?}");
    }
    std::thread::sleep(Duration::from_secs(arguments.seconds));
    let (elapsed_s, last) = (begin.elapsed().as_secs_f64(), spent());
    report(&arguments, elapsed_s, first, last);
    Ok(())
}

fn report(arguments: &Arguments, elapsed_s: f64, first: Spent, last: Spent) {
    let (recorder, programs, server) =
        (last.recorder - first.recorder, last.programs - first.programs, last.server - first.server);
    let share = |ns: u64| 100.0 * ns as f64 / server as f64;
    println!(
        "{} at {}/s through Apache event and php-fpm, {elapsed_s:.0} s: the server takes {:.1} % of a CPU",
        arguments.page,
        arguments.rate,
        server as f64 / elapsed_s / 1e7,
    );
    println!(
        "always on: recorder {:.2} %, probes {:.2} %, together {:.2} % of the server's CPU time",
        share(recorder),
        share(programs),
        share(recorder + programs),
    );
    println!(
        "begun with {:.2} s of CPU time for loading and the first window, once an hour: {:.2} % more",
        first.recorder as f64 / 1e9,
        100.0 * first.recorder as f64 / (server as f64 / elapsed_s * 3600.0),
    );
    println!("disk: {:.1} MB an hour", (last.bytes - first.bytes) as f64 / elapsed_s * 3600.0 / 1e6);
}

/// Time in the BPF programs that a process holds.
fn programs_ns(pid: u32) -> u64 {
    let held = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let times = held.filter_map(|entry| {
        let text = std::fs::read_to_string(entry.path()).ok()?;
        text.lines().find_map(|line| line.strip_prefix("run_time_ns:"))?.trim().parse::<u64>().ok()
    });
    times.sum()
}

fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let path = entry.path();
            if path.is_dir() { bytes_below(&path) } else { entry.metadata().map_or(0, |metadata| metadata.len()) }
        })
        .sum()
}
