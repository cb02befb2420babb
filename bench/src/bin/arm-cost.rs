//! What ARM costs a server that runs: CPU time per request with its transactions switched on, against off, as `weir arm on`
//! and `off` switch them, in paired slices of one run at full keep-alive load.
//!
//! Two servers beside each other, one with the module and one without, differ by some percent even where both are the
//! same (their memory lies elsewhere): more than is asked here. What is left of the module while it is off is told
//! by instructions (`crates/web-modules/tests/apache/cost.rs`).

use anyhow::{Context, bail, ensure};
use clap::Parser;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use weir_agent::connection::Connection;
use weir_agent::protocol::{Answer, Ask, Switch};
use weir_bench::{Cost, Slices, family, pin_to};
use weir_load::{Control, Options, StopRule, Url};

#[derive(Debug, Parser)]
struct Arguments {
    /// What is asked for
    url: String,
    /// The server's first process; those below it belong to it
    #[arg(long)]
    pid: u32,
    /// The agent's directory
    #[arg(long)]
    directory: PathBuf,
    /// Connections of the generator
    #[arg(short, long, default_value_t = 5)]
    connections: u32,
    /// Pairs of slices
    #[arg(short, long, default_value_t = 300)]
    pairs: u32,
    /// Milliseconds of a slice: short ones are near each other, and what disturbs the machine disturbs both
    #[arg(long, default_value_t = 60)]
    slice_ms: u64,
    /// Seed of the order within pairs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One line of JSON
    #[arg(long)]
    json: bool,
    /// The generator's CPU
    #[arg(long, default_value_t = 1)]
    cpu: usize,
}

#[derive(Serialize)]
struct Told<'a> {
    url: &'a str,
    /// Those that were measured while they were on.
    transactions: u64,
    #[serde(flatten)]
    cost: Cost,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    pin_to(arguments.cpu)?;
    let mut agent = Connection::open(&arguments.directory)?;
    let (producer, mut done) = weir_wire::ring(1 << 16);
    let mut options = Options::new(Url::parse(&arguments.url).map_err(|error| anyhow::anyhow!("{error}"))?);
    options.connections = arguments.connections;
    options.stop = StopRule::Duration(Duration::from_secs(3600));
    options.cpu = Some(arguments.cpu);
    options.events = vec![producer];
    let control = Control::default();
    let mut transactions = [0; 2];
    let pairs = std::thread::scope(|scope| {
        let load = scope.spawn(|| weir_load::run(options, &control));
        let length = Duration::from_millis(arguments.slice_ms);
        let mut slices = Slices { pids: family(arguments.pid), done: &mut done, length };
        let (mut before, mut is_on) = (started(&mut agent)?, false);
        let pairs = slices.pairs(arguments.pairs, arguments.seed, |on| {
            let now = started(&mut agent)?;
            transactions[usize::from(is_on)] += now - before;
            switch(&mut agent, on)?;
            (before, is_on) = (started(&mut agent)?, on);
            Ok(())
        });
        control.stop();
        let report = load.join().map_err(|_| anyhow::anyhow!("the generator panicked"))?.context("the load failed")?;
        ensure!(report.errors.is_empty(), "requests failed: {:?}", report.errors);
        pairs
    })?;
    let [off, on] = transactions;
    ensure!(on > 0, "no transaction was measured while they were on");
    let head = format!("{} c={} keep-alive, slices of {} ms", arguments.url, arguments.connections, arguments.slice_ms);
    let cost = Cost::of(&pairs, arguments.seed)?;
    if arguments.json {
        println!("{}", serde_json::to_string(&Told { url: &arguments.url, transactions: on, cost })?);
    } else {
        println!("{}, {on} transactions measured on, {off} off", cost.told(&head, "ARM's cost"));
    }
    Ok(())
}

/// Transactions that have begun since the agent did.
fn started(agent: &mut Connection) -> anyhow::Result<u64> {
    match agent.ask(&Ask::Status)? {
        Answer::Status(status) => Ok(status.counts.started),
        other => bail!("{other:?}"),
    }
}

fn switch(agent: &mut Connection, on: bool) -> anyhow::Result<()> {
    let to = Some(if on { Switch::On } else { Switch::Off });
    let asked = Ask::Switch { application: "*".to_owned(), transaction: None, to };
    match agent.ask(&asked)? {
        Answer::Switched { .. } => {}
        other => bail!("{other:?}"),
    }
    // What is under way when it is switched belongs to no slice, and the agent is to have read of it.
    std::thread::sleep(Duration::from_millis(80));
    Ok(())
}
