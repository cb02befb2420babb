//! `weir arm overhead`: what measuring business transactions costs, here and now.

use super::asking::Where;
use super::words::{json, unexpected};
use crate::schemas::Named;
use anyhow::Context;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use weir_agent::protocol::{AgentStatus, Answer, Ask, List};
use weir_arm::{Field, Sort};
use weir_report::nanoseconds;
use weir_report::{clean, count};
use weir_wire::arm::{
    HEAD_HEARTBEAT, HEAD_LANES_USED, LANE_BYTES, LANE_READ, LANE_WRITTEN, LANES_AT, MEMORY_NAME, POSITION_WORDS,
    POSITIONS_AT,
};

const EXAMPLES: &str = "\
Examples:
  weir arm overhead
      the cost of a transaction, of all programs together, and of the agent
  weir arm overhead --seconds 60 --json | jq .agent_cpu_share

The cost of a transaction is measured now, in a process of its own: it starts
and stops transactions by the same code, in memory that no agent reads. The C
interface adds some nanoseconds. Shares are of one CPU.

Exit status: 0, also if no agent answers, or 1 if it cannot be measured.";

/// Starts and stops in a row: as many as fit into a lane.
const BATCH: u32 = 4000;
/// Batches in all: in turn one while an agent listens and one while none does.
const BATCHES: usize = 60;

/// Measure what business transactions cost: each one, the programs, the agent.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    place: Where,

    /// How long the agent is watched
    #[arg(long, value_name = "SECS", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Measure the library in this process
    #[arg(long, hide = true)]
    pairs: bool,
}

/// What a start and a stop cost, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
struct Pairs {
    /// While an agent listens.
    pair_ns_listening: f64,
    /// While none does.
    pair_ns_idle: f64,
    /// How many were measured of each.
    pairs: u64,
}

/// The whole report.
#[derive(Debug, serde::Serialize)]
struct Overhead {
    #[serde(flatten)]
    pairs: Pairs,
    #[serde(flatten)]
    agent: Option<AgentCost>,
    /// Why nothing is known of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_agent: Option<String>,
}

/// The agent, and what its clients do, over some seconds.
#[derive(Debug, serde::Serialize)]
struct AgentCost {
    seconds: f64,
    processes: u32,
    transactions_per_s: f64,
    /// Share of one CPU that all clients together spend on starting and stopping.
    clients_cpu_share: f64,
    /// The most memory that the clients' rings take, bytes.
    clients_memory_bytes_max: u64,
    records_per_s: f64,
    agent_cpu_share: f64,
    agent_resident_bytes: u64,
    /// Transactions that switches left out, a second.
    left_out_per_s: f64,
    /// Lost since the agent's start, by cause.
    lost: u64,
    lost_no_room: u64,
    lost_no_lane: u64,
    lost_definitions: u64,
    lost_forgotten: u64,
    lost_unmatched: u64,
    lost_damaged: u64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.pairs {
        weir_terminal::output::print(&json(&measure()?)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let pairs = measured_beside()?;
    let (agent, no_agent) = match watched(args, pairs) {
        Ok(agent) => (Some(agent), None),
        Err(error) => (None, Some(weir_terminal::output::causes(&error))),
    };
    let overhead = Overhead { pairs, agent, no_agent };
    weir_terminal::output::print(&if args.json {
        json(&Named::new("weir-arm-overhead/1", &overhead))?
    } else {
        text(&overhead)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// In a process of its own, whose memory is announced where no agent looks.
fn measured_beside() -> anyhow::Result<Pairs> {
    let folder = tempfile::tempdir().context("a temporary directory")?;
    let mut beside = Command::new("/proc/self/exe");
    beside.args(["arm", "overhead", "--pairs"]).env(weir_agent::directory::DIRECTORY_VARIABLE, folder.path());
    let output = beside.output().context("a process to measure in cannot be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "the library could not be measured: {}", said.trim());
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn measure() -> anyhow::Result<Pairs> {
    let name = b"weir arm overhead";
    let application = weir_arm::define(Sort::Application, 4, 0, |told| {
        told.piece(Field::Name, 0, name);
    });
    let transaction = weir_arm::define(Sort::Transaction, 4, application, |told| {
        told.piece(Field::Name, 0, name);
    });
    let memory = own_memory()?;
    let (mut listening, mut idle) = (Vec::new(), Vec::new());
    for batch in 0..BATCHES {
        let listens = batch % 2 == 0;
        put(&memory, HEAD_HEARTBEAT * 8, u64::from(listens))?;
        let begin = Instant::now();
        for _ in 0..BATCH {
            weir_arm::stop(weir_arm::start(transaction, 0), 0);
        }
        let each_ns = begin.elapsed().as_nanos() as f64 / f64::from(BATCH);
        if listens { &mut listening } else { &mut idle }.push(each_ns);
        let read = read_all(&memory)?;
        // A figure of calls that did nothing would be too good to be true.
        let expected = if listens { u64::from(BATCH) * 2 } else { 0 };
        anyhow::ensure!(read >= expected && (listens || read == 0), "{read} records instead of {expected}");
    }
    let pairs = u64::from(BATCH) * BATCHES as u64 / 2;
    Ok(Pairs { pair_ns_listening: median(listening), pair_ns_idle: median(idle), pairs })
}

/// The memory that this process has just made.
fn own_memory() -> anyhow::Result<File> {
    for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
        let is_it = std::fs::read_link(entry.path())
            .is_ok_and(|target| target.to_string_lossy().starts_with(&format!("/memfd:{MEMORY_NAME}")));
        if is_it {
            return Ok(File::options().read(true).write(true).open(entry.path())?);
        }
    }
    anyhow::bail!("the library made no memory (is the limit on files' sizes, ulimit -f, lower than 64 MiB?)")
}

/// Empties all lanes as an agent does; how many slots there were.
fn read_all(memory: &File) -> anyhow::Result<u64> {
    let lanes = get(memory, HEAD_LANES_USED * 8)?;
    let mut slots = 0;
    for lane in 0..lanes as usize {
        let positions = POSITIONS_AT + lane * POSITION_WORDS * 8;
        let written = get(memory, positions + LANE_WRITTEN * 8)?;
        slots += written.saturating_sub(get(memory, positions + LANE_READ * 8)?);
        put(memory, positions + LANE_READ * 8, written)?;
    }
    Ok(slots)
}

fn get(memory: &File, at: usize) -> std::io::Result<u64> {
    let mut word = [0; 8];
    memory.read_exact_at(&mut word, at as u64)?;
    Ok(u64::from_ne_bytes(word))
}

fn put(memory: &File, at: usize, word: u64) -> std::io::Result<()> {
    memory.write_all_at(&word.to_ne_bytes(), at as u64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn watched(args: &Args, pairs: Pairs) -> anyhow::Result<AgentCost> {
    let mut connection = args.place.connect()?;
    let mut status = || -> anyhow::Result<(AgentStatus, Instant)> {
        match connection.ask_for_answer(&Ask::Status)? {
            Answer::Status(status) => Ok((*status, Instant::now())),
            other => Err(unexpected(&other)),
        }
    };
    let (before, begin) = status()?;
    std::thread::sleep(Duration::from_secs(args.seconds.into()));
    let (after, end) = status()?;
    let list = match connection.ask_for_answer(&Ask::List)? {
        Answer::List(list) => list,
        other => return Err(unexpected(&other)),
    };
    Ok(cost(&before, &after, &list, end.duration_since(begin).as_secs_f64(), pairs))
}

fn cost(before: &AgentStatus, after: &AgentStatus, list: &List, seconds: f64, pairs: Pairs) -> AgentCost {
    // An agent that was started anew meanwhile counts from zero.
    let per_s = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
    let (was, is) = (&before.counts, &after.counts);
    let transactions_per_s = per_s(was.started, is.started);
    let lanes: u64 = list.processes.iter().map(|process| u64::from(process.lanes)).sum();
    AgentCost {
        seconds,
        processes: after.processes,
        transactions_per_s,
        clients_cpu_share: transactions_per_s * pairs.pair_ns_listening / 1e9,
        clients_memory_bytes_max: list.processes.len() as u64 * LANES_AT as u64 + lanes * LANE_BYTES as u64,
        records_per_s: per_s(was.records, is.records),
        agent_cpu_share: per_s(before.cpu_ns, after.cpu_ns) / 1e9,
        agent_resident_bytes: after.resident_bytes,
        left_out_per_s: per_s(was.skipped, is.skipped),
        lost: is.lost(),
        lost_no_room: is.dropped,
        lost_no_lane: is.laneless,
        lost_definitions: is.definitions_dropped,
        lost_forgotten: is.forgotten,
        lost_unmatched: is.unmatched,
        lost_damaged: is.damaged,
    }
}

fn text(overhead: &Overhead) -> String {
    let pairs = &overhead.pairs;
    let mut text = format!(
        "a transaction   {} (its start and its stop) while an agent listens, {} while none does;\n{:16}the median of \
         {} of each\n",
        nanoseconds(pairs.pair_ns_listening),
        nanoseconds(pairs.pair_ns_idle),
        "",
        count(pairs.pairs)
    );
    let Some(agent) = &overhead.agent else {
        let why = overhead.no_agent.as_deref().unwrap_or_default();
        text.push_str(&format!("the agent       {}\n", clean(why)));
        return text;
    };
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let mega = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    text.push_str(&format!(
        "the programs    {} of a CPU in {} process{}: {} transactions/s; rings of {} at most\n",
        percent(agent.clients_cpu_share),
        count(agent.processes.into()),
        if agent.processes == 1 { "" } else { "es together" },
        count(agent.transactions_per_s.round() as u64),
        mega(agent.clients_memory_bytes_max),
    ));
    text.push_str(&format!(
        "the agent       {} of a CPU, {} of memory: {} records/s\n",
        percent(agent.agent_cpu_share),
        mega(agent.agent_resident_bytes),
        count(agent.records_per_s.round() as u64),
    ));
    text.push_str(&format!("left out        {}/s by switches\n", count(agent.left_out_per_s.round() as u64)));
    let causes = [
        ("found no room", agent.lost_no_room),
        ("no lane", agent.lost_no_lane),
        ("definitions", agent.lost_definitions),
        ("forgotten", agent.lost_forgotten),
        ("without a begin", agent.lost_unmatched),
        ("damaged", agent.lost_damaged),
    ];
    let causes: Vec<String> =
        causes.iter().filter(|(_, lost)| *lost > 0).map(|(cause, lost)| format!("{cause}: {}", count(*lost))).collect();
    let causes = if causes.is_empty() { String::new() } else { format!(" ({})", causes.join(", ")) };
    text.push_str(&format!("lost            {} since the agent began{causes}\n", count(agent.lost)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_from_two_looks() {
        let before = AgentStatus { cpu_ns: 1_000_000, ..AgentStatus::default() };
        let mut after = AgentStatus { cpu_ns: 21_000_000, resident_bytes: 9_000_000, ..AgentStatus::default() };
        (after.counts.started, after.counts.records, after.counts.dropped) = (20_000, 40_000, 3);
        let pairs = Pairs { pair_ns_listening: 100.0, pair_ns_idle: 5.0, pairs: 10 };
        let agent = cost(&before, &after, &List::default(), 2.0, pairs);
        assert!((agent.clients_cpu_share - 0.001).abs() < 1e-9 && (agent.agent_cpu_share - 0.01).abs() < 1e-9);
        let text = text(&Overhead { pairs, agent: Some(agent), no_agent: None });
        assert!(text.contains("0.10 % of a CPU in 0 processes together: 10,000 transactions/s"), "{text}");
        assert!(text.contains("the agent       1.00 % of a CPU, 9.0 MB of memory: 20,000 records/s"), "{text}");
        assert!(text.ends_with("lost            3 since the agent began (found no room: 3)\n"), "{text}");
    }
}
