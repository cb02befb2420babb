//! Who tells the truth about a server that stalls? Each load generator asks the same server, whose percentiles are known by
//! arithmetic, and the table says what each makes of it.
//!
//! The server stands still for 240 ms of each 400 ms, and each tenth time for 380 ms: of users who come evenly,
//! even while it stands still, `9 (240 - x) + 380 - x` of 4000 wait longer than `x` ms, and `380 - x` of 4000 where `x`
//! is above 240.

use anyhow::{Context, bail};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use weir_testkit::Faulty;

/// p50, p90, p99 and p99.9 in milliseconds, as arithmetic has them.
const TRUTH_MS: [f64; 4] = [54.0, 214.0, 340.0, 376.0];
const SHARES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
const STALLS: [&str; 8] = ["--ms", "240", "--every", "400", "--long-ms", "380", "--long-each", "10"];
/// All stalls of the server, seconds: what is measured is a multiple of it.
const PERIOD_S: u64 = 4;
/// wrk tells p99.9 only to a script.
const WRK_SCRIPT: &str = "done = function(summary, latency, requests)\n\
    for _, p in pairs({ 50, 90, 99, 99.9 }) do io.write(string.format('us %f\\n', latency:percentile(p))) end\n\
    end\n";

#[derive(Debug, Parser)]
struct Arguments {
    /// Arrivals a second, where a tool can be told; its paces must not be in step with the stalls
    #[arg(long, default_value_t = 260)]
    rate: u64,
    /// Connections
    #[arg(long, default_value_t = 50)]
    connections: u64,
    /// Periods of 4 s
    #[arg(long, default_value_t = 4)]
    periods: u64,
    /// The program that is measured [default: the one beside this]
    #[arg(long)]
    weir: Option<PathBuf>,
    /// Where hey is, if not on the path: no distribution has it (go install github.com/rakyll/hey@v0.1.5)
    #[arg(long, default_value = "hey")]
    hey: PathBuf,
}

/// A tool, how its users run it, and how its percentiles are found in what it writes.
struct Tool {
    name: &'static str,
    loop_kind: &'static str,
    command: Vec<String>,
    read: fn(&str, &Path) -> anyhow::Result<[f64; 4]>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let weir = match &arguments.weir {
        Some(weir) => weir.clone(),
        None => std::env::current_exe()?.with_file_name("weir"),
    };
    let server = Faulty::new("stall").args(STALLS).start().context("the server")?;
    // Its first period has no stall.
    std::thread::sleep(Duration::from_millis(400));
    let folder = tempfile::tempdir()?;
    let tools = tools(&arguments, &weir, &server.url("/"), folder.path())?;
    println!("| | loop | p50 | p90 | p99 | p99.9 | command |");
    println!("|---|---|---|---|---|---|---|");
    let [p50, p90, p99, p99_9] = TRUTH_MS;
    println!("| arithmetic truth | open | {p50:.1} ms | {p90:.1} ms | {p99:.1} ms | {p99_9:.1} ms | |");
    for tool in tools {
        let (name, kind) = (tool.name, tool.loop_kind);
        match measured(&tool, folder.path()) {
            Ok(figures) => {
                let cells: Vec<_> = figures
                    .iter()
                    .zip(TRUTH_MS)
                    .map(|(figure, truth)| format!("{figure:.1} ms ({:+.0} %)", (figure / truth - 1.0) * 100.0))
                    .collect();
                let command = tool.command.join(" ").replace(&format!("{}/", folder.path().display()), "");
                let command = command.replace(&weir.display().to_string(), "weir");
                let command = command.replace(&arguments.hey.display().to_string(), "hey");
                println!("| {name} | {kind} | {} | `{command}` |", cells.join(" | "));
            }
            Err(error) => println!("| {name} | {kind} | not measured: {error:#} | | | | |"),
        }
    }
    Ok(())
}

fn tools(arguments: &Arguments, weir: &Path, url: &str, folder: &Path) -> anyhow::Result<Vec<Tool>> {
    let seconds = arguments.periods * PERIOD_S;
    let (rate, connections) = (arguments.rate, arguments.connections);
    let each = rate as f64 / connections as f64;
    let script = folder.join("percentiles.lua");
    std::fs::write(&script, WRK_SCRIPT)?;
    let log = folder.join("h2load.log");
    let gnuplot = folder.join("ab.tsv");
    let words = |line: String| line.split_whitespace().map(str::to_owned).collect();
    let tool = |name, loop_kind, line: String, read| Tool { name, loop_kind, command: words(line), read };
    Ok(vec![
        tool(
            "weir",
            "open, a fixed rate",
            format!("{} load -q --json --rate {rate} -d {seconds}s -c 200 {url}", weir.display()),
            of_weir,
        ),
        tool(
            "wrk",
            "closed: it has no other",
            format!("wrk -t1 -c{connections} -d{seconds}s --latency -s {} {url}", script.display()),
            of_wrk,
        ),
        tool(
            "ab",
            "closed: it has no other",
            format!("ab -q -k -c {connections} -n 10000000 -t {seconds} -g {} {url}", gnuplot.display()),
            of_ab,
        ),
        tool(
            "hey",
            "closed, each worker paced (-q)",
            format!("{} -z {seconds}s -c {connections} -q {each} -o csv {url}", arguments.hey.display()),
            of_hey,
        ),
        tool(
            "h2load",
            "closed, each client paced (--rps)",
            format!("h2load --h1 -c {connections} -D {seconds} --rps {each} --log-file={} {url}", log.display()),
            of_h2load,
        ),
    ])
}

fn measured(tool: &Tool, folder: &Path) -> anyhow::Result<[f64; 4]> {
    let (program, arguments) = tool.command.split_first().context("a command")?;
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{program} cannot be run"))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        bail!("{program} failed: {}", told.lines().last().unwrap_or_default());
    }
    (tool.read)(&String::from_utf8_lossy(&output.stdout), folder)
}

/// The percentiles of some times.
fn percentiles(mut times_ms: Vec<f64>) -> anyhow::Result<[f64; 4]> {
    anyhow::ensure!(!times_ms.is_empty(), "it tells of no request");
    times_ms.sort_by(f64::total_cmp);
    Ok(SHARES.map(|share| times_ms[((times_ms.len() as f64 * share).ceil() as usize).max(1) - 1]))
}

fn of_weir(output: &str, _: &Path) -> anyhow::Result<[f64; 4]> {
    // The figures of one key are enough; it stands once at the outermost level, before the series.
    let latency = output.split_once("\"latency_ns\": {").context("no latency_ns")?.1;
    let latency = latency.split_once('}').context("no end")?.0;
    let figure = |name: &str| -> anyhow::Result<f64> {
        let rest = latency.split_once(&format!("\"{name}\": ")).with_context(|| format!("no {name}"))?.1;
        Ok(rest.split([',', '\n']).next().unwrap_or_default().trim().parse::<f64>()? / 1e6)
    };
    Ok([figure("p50")?, figure("p90")?, figure("p99")?, figure("p99_9")?])
}

fn of_wrk(output: &str, _: &Path) -> anyhow::Result<[f64; 4]> {
    let us: Vec<f64> = output.lines().filter_map(|line| line.strip_prefix("us ")?.trim().parse::<f64>().ok()).collect();
    let us: [f64; 4] = us.try_into().map_err(|us| anyhow::anyhow!("its percentiles are {us:?}"))?;
    Ok(us.map(|us| us / 1e3))
}

/// Each request, whole milliseconds: starttime seconds ctime dtime ttime wait.
fn of_ab(_: &str, folder: &Path) -> anyhow::Result<[f64; 4]> {
    let text = std::fs::read_to_string(folder.join("ab.tsv"))?;
    percentiles(text.lines().filter_map(|line| line.split('\t').nth(4)?.parse().ok()).collect())
}

/// Each request, seconds: response-time first, below a head.
fn of_hey(output: &str, _: &Path) -> anyhow::Result<[f64; 4]> {
    percentiles(
        output
            .lines()
            .filter_map(|line| line.split(',').next()?.parse::<f64>().ok())
            .map(|seconds| seconds * 1e3)
            .collect(),
    )
}

/// Each request: begin, status, microseconds.
fn of_h2load(_: &str, folder: &Path) -> anyhow::Result<[f64; 4]> {
    let text = std::fs::read_to_string(folder.join("h2load.log"))?;
    let us = text.lines().filter_map(|line| line.split('\t').nth(2)?.parse::<f64>().ok());
    percentiles(us.map(|us| us / 1e3).collect())
}
