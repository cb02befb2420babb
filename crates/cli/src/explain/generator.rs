//! `weir explain --generator PID`: how much of what a load generator reports is its own doing.

use super::args::Args;
use crate::load::culprit_by_share;
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir_capture::{GeneratorCounts, Target, TargetError, cpu_times, tree, watch_generator};
use weir_explain::generator::{GeneratorFold, SlowExchanges};
use weir_report::{count, nanoseconds};
use weir_terminal::progress::Line;
use weir_terminal::stop::Stop;

/// How long it is watched, unless the user says.
const WATCH: Duration = Duration::from_secs(10);
/// The version of the JSON.
const SCHEMA: &str = "weir.generator/1";
/// Which exchanges are told apart, as parts of all.
const SHARES: [(f64, &str); 4] = [(1.0, "all"), (0.1, "slowest 10 %"), (0.01, "slowest 1 %"), (0.001, "slowest 0.1 %")];
/// The part whose culprit is named.
const NAMED: f64 = 0.01;
/// From this share of a CPU's time on in which its threads wait for a CPU, a generator lacks CPUs.
const CPU_LACKS: f64 = 0.05;

/// What was seen of a generator.
struct Watched {
    name: String,
    pid: u32,
    /// Processes below it.
    others: usize,
    lasted: Duration,
    fold: GeneratorFold,
    counts: GeneratorCounts,
    /// CPUs' time that its threads had, and that they waited for, in seconds each second.
    running: f64,
    waiting: f64,
}

/// Watches the generator and says what was seen.
pub(super) fn run(pid: u32, args: &Args) -> anyhow::Result<ExitCode> {
    let target = match Target::of_pid(pid) {
        Ok(target) => target,
        Err(error @ TargetError::NoPid(_)) => {
            eprintln!("weir explain: --generator: {error}");
            return Ok(ExitCode::from(2));
        }
        Err(error) => return Err(error.into()),
    };
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned();
    let watch = args.load.duration().unwrap_or(WATCH);
    let stop = Stop::on_signals()?;
    let mut fold = GeneratorFold::default();
    let mut line = Line::new();
    let begin = Instant::now();
    let before = cpu_times(&target.pids);
    let mut after = before.clone();
    let mut looked = begin;
    let counts = watch_generator(&target.pids, &target.ports, |exchanges| {
        exchanges.iter().for_each(|exchange| fold.push(exchange));
        let (lasted, exchanges) = (begin.elapsed(), count(fold.count()));
        line.show(|| format!("{name}: {:.1} s, {exchanges} exchanges (Ctrl-C reports)", lasted.as_secs_f64()));
        // Threads that end take their times along: the last look at them counts.
        if looked.elapsed() > Duration::from_millis(200) {
            after.extend(cpu_times(&target.pids));
            looked = Instant::now();
        }
        lasted < watch && !stop.asked() && !tree(pid).is_empty()
    })?;
    drop(line);
    after.extend(cpu_times(&target.pids));
    let lasted = begin.elapsed();
    let per_second = |part: fn(&(u64, u64)) -> u64| {
        let grown = |(task, now): (&u32, &(u64, u64))| part(now).saturating_sub(before.get(task).map_or(0, part));
        after.iter().map(grown).sum::<u64>() as f64 / lasted.as_nanos() as f64
    };
    let (running, waiting) = (per_second(|times| times.0), per_second(|times| times.1));
    let watched = Watched { name, pid, others: target.pids.len() - 1, lasted, fold, counts, running, waiting };
    let text = if args.json { format!("{:#}\n", watched.as_json()) } else { watched.words() };
    weir_terminal::output::print(&text)?;
    Ok(if watched.fold.count() == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Watched {
    fn words(&self) -> String {
        let Self { name, pid, fold, counts, .. } = self;
        let mut text = format!(
            "{name} (process {pid}{}), watched for {:.1} s: {} exchanges, {} new connections\n",
            if self.others > 0 { format!(", and {} below it", self.others) } else { String::new() },
            self.lasted.as_secs_f64(),
            count(fold.count()),
            count(counts.begun),
        );
        let Some(slowest) = fold.slowest(NAMED) else {
            text.push_str(
                "it sent nothing over TCP that was answered: is it this process that loads, and does it load now?\n",
            );
            return text;
        };
        let time = |ns: f64| nanoseconds(ns).trim().to_owned();
        let _ = writeln!(
            text,
            "{}: {:.1} % of the slowest 1 % ({}) is the generator's own: answers lay unread in its sockets for {}\n",
            culprit_by_share(slowest.own_share()),
            slowest.own_share() * 100.0,
            time(slowest.latency_ns),
            time(slowest.unread_ns),
        );
        let _ = writeln!(
            text,
            "{:<14} {:>11} {:>10} {:>20} {:>10}",
            "", "exchanges", "latency", "server or network", "unread"
        );
        for (name, of) in self.parts() {
            let _ = writeln!(
                text,
                "{name:<14} {:>11} {:>10} {:>20} {:>10}",
                count(of.count),
                nanoseconds(of.latency_ns),
                nanoseconds(of.latency_ns - of.unread_ns),
                nanoseconds(of.unread_ns),
            );
        }
        let _ = writeln!(
            text,
            "\nCPU: its threads ran on {:.2} CPUs, and waited for one for {:.2} s each second{}",
            self.running,
            self.waiting,
            if self.waiting > CPU_LACKS { ": it lacks CPUs" } else { "" },
        );
        text.push_str("What it waits before it sends is not seen: weir load counts from the time that was intended.\n");
        self.missing(&mut text);
        text
    }

    /// What was not told as an exchange.
    fn missing(&self, text: &mut String) {
        let GeneratorCounts { unanswered, dropped, untracked, .. } = self.counts;
        for (number, words) in [
            (unanswered, "requests without an answer, whose connection was closed"),
            (
                self.fold.unseen(),
                "exchanges whose answer was not seen to arrive: all of their time is the server's here",
            ),
            (dropped, "exchanges were lost for want of memory"),
            (untracked, "sends on connections beyond the 65,536 that are followed"),
        ] {
            if number > 0 {
                let _ = writeln!(text, "{} {words}", count(number));
            }
        }
    }

    fn parts(&self) -> impl Iterator<Item = (&'static str, SlowExchanges)> {
        SHARES.iter().filter_map(|(share, name)| Some((*name, self.fold.slowest(*share)?)))
    }

    fn as_json(&self) -> serde_json::Value {
        let part = |(share, _): &(f64, &str)| {
            let of = self.fold.slowest(*share)?;
            Some(json!({
                "share": share,
                "exchanges": of.count,
                "latency_ns": of.latency_ns,
                "unread_ns": of.unread_ns,
                "own_share": of.own_share(),
            }))
        };
        let parts: Vec<_> = SHARES.iter().filter_map(part).collect();
        let culprit = self.fold.slowest(NAMED).map(|slowest| culprit_by_share(slowest.own_share()));
        json!({
            "schema": SCHEMA,
            "name": self.name,
            "pid": self.pid,
            "processes": self.others + 1,
            "duration_ns": self.lasted.as_nanos() as u64,
            "exchanges": self.fold.count(),
            "culprit": culprit,
            "slowest": parts,
            "connections_begun": self.counts.begun,
            "unanswered": self.counts.unanswered,
            "arrival_unseen": self.fold.unseen(),
            "dropped": self.counts.dropped,
            "untracked": self.counts.untracked,
            "cpu": { "running": self.running, "waiting": self.waiting },
        })
    }
}
