//! A flash crowd of ten times over three nodes and two reserves: what policies of growing and of limiting make of it.
//!
//! The arrivals are made from a seed (`crowd.rs`); nodes are links that responses share (`node.rs`); a closed loop reads
//! them and asks a policy (`simulation.rs`): none, an autoscaler (`policy.rs`), limits of concurrency by others
//! (`limits.rs`), or weir's rules by weir's own engine (`rules.rs`).
//! `measured.rs` has a real cluster beside it, `page.rs` and `picture.rs` write the page.

mod crowd;
mod limits;
mod measured;
mod node;
mod page;
mod picture;
mod policy;
mod rules;
mod simulation;

use anyhow::{Context, ensure};
use clap::Parser;
use measured::Measured;
use policy::{Fixed, Policy, Threshold};
use simulation::{NODES, NODES_MIN, Outcome, simulate};
use std::path::{Path, PathBuf};

/// The seed whose arrivals the real cluster is sent.
const MEASURED_SEED: u64 = 1;
/// The runs of the real cluster, and the policies of the simulation that they are beside.
const RUNS: [(&str, &str); 2] = [("without", "three nodes"), ("with", "weir's rules")];

/// Writes the page of the study, or what its step with a real cluster needs.
#[derive(Debug, Parser)]
struct Args {
    /// Write the page into this folder: RESULTS.md and its picture.
    #[arg(long)]
    page: Option<PathBuf>,
    /// With --page: the folder with the runs of a real cluster.
    #[arg(long)]
    measured: Option<PathBuf>,
    /// Write the arrivals of the first seed to this file, as a log for weir load --replay.
    #[arg(long)]
    log: Option<PathBuf>,
    /// Write the files of the site into this folder.
    #[arg(long)]
    site: Option<PathBuf>,
    /// Seeds.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(file) = &args.log {
        std::fs::write(file, crowd::log(&crowd::arrivals(MEASURED_SEED)))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(folder) = &args.site {
        for (path, bytes) in crowd::files() {
            write(folder, path.trim_start_matches('/'), &"x".repeat(bytes as usize))?;
        }
    }
    let Some(folder) = &args.page else { return Ok(()) };
    let all: Vec<Vec<Outcome>> = (1..=args.seeds).map(outcomes).collect::<anyhow::Result<_>>()?;
    let first = all.first().context("there is no seed; take --seeds 1 or more")?;
    let (measured, surroundings) = match &args.measured {
        Some(runs) => (measured_of(runs, first)?, Some(read(&runs.join("surroundings"))?)),
        None => (Vec::new(), None),
    };
    let names: Vec<&str> = first.iter().map(|outcome| outcome.name).collect();
    write(folder, "RESULTS.svg", &picture::picture(first))?;
    write(folder, "RESULTS.md", &page::page(&all, &names, &measured, surroundings.as_deref()))?;
    let all_hold = page::claims(&all).iter().all(|claim| claim.holds) && measured.iter().all(Measured::is_as_simulated);
    ensure!(all_hold, "not everything holds; see {}", folder.join("RESULTS.md").display());
    Ok(())
}

/// What each policy makes of the arrivals of a seed.
fn outcomes(seed: u64) -> anyhow::Result<Vec<Outcome>> {
    let load = crowd::arrivals(seed);
    let policies: Vec<(usize, Box<dyn Policy>)> = vec![
        (NODES_MIN, Box::new(Fixed("three nodes"))),
        (NODES, Box::new(Fixed("five nodes"))),
        (NODES_MIN, Box::new(Threshold::default())),
        (NODES_MIN, Box::new(limits::Gradient::new(NODES))),
        (NODES_MIN, Box::new(limits::Gradient2::new(NODES))),
        (NODES_MIN, Box::new(rules::Rules::new(NODES)?)),
    ];
    Ok(policies.into_iter().map(|(awake, mut policy)| simulate(&load, awake, policy.as_mut())).collect())
}

fn measured_of(runs: &Path, simulated: &[Outcome]) -> anyhow::Result<Vec<Measured>> {
    RUNS.iter()
        .map(|(name, policy)| {
            let beside = simulated.iter().find(|outcome| outcome.name == *policy).context("no such policy")?;
            Measured::read(runs, name, beside.clone())
        })
        .collect()
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let file = folder.join(name);
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}
