//! Repeats section 3.1 of "The Patia Autonomic Webserver: Feasibility Experimentation" (McCann and Jawaheer): where the
//! documents of a university's web site should lie.
//!
//! The site and its log are made from a seed (`site.rs`), the experiments are simulated (`experiments.rs`), and the page
//! is written with the paper's figures beside (`page.rs`, `picture.rs`). `measured.rs` has a real node beside a simulated
//! one. `flood.rs` is what a flash crowd did to a server with a policy and to one without, and `freshness.rs` to servers
//! whose readings come more and less often; `firing.rs` is what their rules did first.

mod experiments;
mod firing;
mod flood;
mod freshness;
mod measured;
mod page;
mod picture;
mod site;

use anyhow::{Context, anyhow, ensure};
use clap::Parser;
use std::path::{Path, PathBuf};

/// Makes the page of the study, or a log for the step that measures a real node.
#[derive(Debug, Parser)]
struct Args {
    /// Write the page into this folder: RESULTS.md and its picture.
    #[arg(long)]
    page: Option<PathBuf>,
    /// With --page: the folder with what was measured of a real node.
    #[arg(long)]
    measured: Option<PathBuf>,
    /// Say whether what was measured of a real node, in this folder, is as simulated, and fail where it is not.
    #[arg(long)]
    judge: Option<PathBuf>,
    /// Write the page of the flash crowd into this folder: FLOOD.md and its picture.
    #[arg(long, requires = "runs")]
    flood: Option<PathBuf>,
    /// Write the page of the flash crowd with readings of different age into this folder: FRESHNESS.md.
    #[arg(long, requires = "runs")]
    freshness: Option<PathBuf>,
    /// With --flood and --freshness: the folder with the runs.
    #[arg(long)]
    runs: Option<PathBuf>,
    /// Write a log for a real node to this file, and say at how many requests a second it is.
    #[arg(long, requires_all = ["utilisation", "service"])]
    log: Option<PathBuf>,
    /// With --log: the share of its time for which the node is to be at work.
    #[arg(long)]
    utilisation: Option<f64>,
    /// With --log: a report of weir load -c 1 of responses of so many bytes; of small and large ones.
    #[arg(long, value_name = "BYTES=FILE", value_parser = service)]
    service: Vec<(f64, PathBuf)>,
    /// Requests of the simulated day.
    #[arg(long, default_value_t = 1_000_000)]
    requests: u32,
    /// Seeds of each experiment.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let (Some(file), Some(utilisation)) = (&args.log, args.utilisation) {
        let rate_per_s = measured::rate_per_s(utilisation, &args.service)?;
        std::fs::write(file, site::short_log(rate_per_s))
            .with_context(|| format!("cannot write {}", file.display()))?;
        println!("{rate_per_s:.3}");
    }
    if let (Some(folder), Some(runs)) = (&args.flood, &args.runs) {
        write_flood(folder, runs)?;
    }
    if let (Some(folder), Some(runs)) = (&args.freshness, &args.runs) {
        write_freshness(folder, runs)?;
    }
    if let Some(folder) = &args.judge {
        let measured = measured::read_all(folder)?;
        ensure!(!measured.is_empty(), "{} has nothing of a real node", folder.display());
        judge(&measured)?;
    }
    let Some(folder) = &args.page else { return Ok(()) };
    let measured = args.measured.as_deref().map(measured::read_all).transpose()?.unwrap_or_default();
    let results = experiments::run(args.requests, args.seeds)?;
    write(folder, "RESULTS.svg", &picture::picture(&results[0]))?;
    write(folder, "RESULTS.md", &page::page(&results, &measured))?;
    judge(&measured)
}

fn judge(measured: &[measured::Measured]) -> anyhow::Result<()> {
    let beyond = page::loads_beyond(measured);
    ensure!(
        beyond.is_empty(),
        "most runs of the real node are not within 15 % of the simulation where it is at work for {} % of its time",
        beyond.join(" and ")
    );
    Ok(())
}

fn service(text: &str) -> anyhow::Result<(f64, PathBuf)> {
    let (bytes, file) = text.split_once('=').context("write BYTES=FILE")?;
    Ok((bytes.parse().map_err(|_| anyhow!("{bytes:?} is no number of bytes"))?, file.into()))
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Folders of a folder by their names, which are numbers, in the order of these.
fn numbered(folder: &Path) -> anyhow::Result<Vec<(f64, PathBuf)>> {
    let list = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let paths: Vec<PathBuf> = list.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<f64>().ok().filter(|_| path.is_dir());
    let mut folders: Vec<_> = paths.into_iter().filter_map(|path| Some((number(&path)?, path))).collect();
    folders.sort_by(|one, other| one.0.total_cmp(&other.0));
    Ok(folders)
}

/// A run with the policy, and the first thing that this did.
fn with_policy(folder: &Path, name: &str) -> anyhow::Result<(flood::Run, Option<firing::Firing>)> {
    let begun_ms = read(&folder.join(format!("{name}.begun")))?.trim().parse().context("when it began is no number")?;
    let first = firing::Firing::first(&folder.join(format!("{name}.jsonl")), begun_ms)?;
    Ok((flood::Run::read(&folder.join(format!("{name}.json")))?, first))
}

fn write_flood(folder: &Path, runs: &Path) -> anyhow::Result<()> {
    let pairs = numbered(runs)?.into_iter().map(|(seed, runs)| {
        let (with, first) = with_policy(&runs, "with")?;
        let without = flood::Run::read(&runs.join("without.json"))?;
        Ok(flood::Pair { seed: seed.to_string(), with, without, first })
    });
    let pairs = pairs.collect::<anyhow::Result<Vec<_>>>()?;
    let first = pairs.first().context("there are no runs")?;
    write(folder, "FLOOD.svg", &flood::picture(&first.with, &first.without))?;
    let (page, all_hold) = flood::page(&pairs, &read(&runs.join("flood.policy"))?, &read(&runs.join("surroundings"))?);
    write(folder, "FLOOD.md", &page)?;
    ensure!(all_hold, "not everything holds; see {}", folder.join("FLOOD.md").display());
    Ok(())
}

/// A folder for each tick, in seconds, with one for each seed in it.
fn write_freshness(folder: &Path, runs: &Path) -> anyhow::Result<()> {
    let told = numbered(runs)?.into_iter().map(|(tick_s, ticks)| {
        let seeds = numbered(&ticks)?.into_iter().map(|(_, runs)| with_policy(&runs, "with"));
        Ok(freshness::Told { tick_s, runs: seeds.collect::<anyhow::Result<_>>()? })
    });
    let told = told.collect::<anyhow::Result<Vec<_>>>()?;
    let (policy, surroundings) = (read(&runs.join("flood.policy"))?, read(&runs.join("surroundings"))?);
    write(folder, "FRESHNESS.md", &freshness::page(&told, &policy, &surroundings))
}

fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let file = folder.join(name);
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}
