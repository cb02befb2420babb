//! Repeats section 3.1 of "The Patia Autonomic Webserver: Feasibility Experimentation" (McCann and Jawaheer): where the
//! documents of a university's web site should lie.
//!
//! The site and its log are made from a seed (`site.rs`), the experiments are simulated (`experiments.rs`), and the page
//! is written with the paper's figures beside (`page.rs`, `picture.rs`). `measured.rs` has a real node beside a simulated
//! one. `flood.rs` is what a flash crowd did to a server with a policy and to one without.

mod experiments;
mod flood;
mod measured;
mod page;
mod picture;
mod site;

use anyhow::Context;
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
    /// Write the page of the flash crowd into this folder: FLOOD.md and its picture.
    #[arg(long, requires = "runs")]
    flood: Option<PathBuf>,
    /// With --flood: the folder with its runs.
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
    let Some(folder) = &args.page else { return Ok(()) };
    let measured = args.measured.as_deref().map(measured::read_all).transpose()?.unwrap_or_default();
    let results = experiments::run(args.requests, args.seeds)?;
    write(folder, "RESULTS.svg", &picture::picture(&results[0]))?;
    write(folder, "RESULTS.md", &page::page(&results, &measured))
}

fn service(text: &str) -> Result<(f64, PathBuf), String> {
    let (bytes, file) = text.split_once('=').ok_or("write BYTES=FILE")?;
    Ok((bytes.parse().map_err(|_| format!("{bytes:?} is no number of bytes"))?, file.into()))
}

fn write_flood(folder: &Path, runs: &Path) -> anyhow::Result<()> {
    let text = |name: &str| {
        let file = runs.join(name);
        std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    };
    let [with, without] = [flood::Run::read(&runs.join("with.json"))?, flood::Run::read(&runs.join("without.json"))?];
    write(folder, "FLOOD.svg", &flood::picture(&with, &without))?;
    write(folder, "FLOOD.md", &flood::page(&with, &without, &text("flood.policy")?, &text("surroundings")?))
}

fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let file = folder.join(name);
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}
