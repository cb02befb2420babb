//! Repeats section 3.1 of "The Patia Autonomic Webserver: Feasibility Experimentation" (McCann and Jawaheer): where the
//! documents of a university's web site should lie.
//!
//! The site and its log are made from a seed (`site.rs`), the experiments are simulated (`experiments.rs`), and the page
//! is written with the paper's figures beside (`page.rs`, `picture.rs`). `measured.rs` has a real node beside a simulated
//! one.

mod experiments;
mod measured;
mod page;
mod picture;
mod site;

use anyhow::Context;
use clap::Parser;
use std::path::PathBuf;

/// Makes the page of the study, or a log for the step that measures a real node.
#[derive(Debug, Parser)]
struct Args {
    /// Write the page into this folder: RESULTS.md and its picture.
    #[arg(long)]
    page: Option<PathBuf>,
    /// With --page: the folder with what was measured of a real node.
    #[arg(long)]
    measured: Option<PathBuf>,
    /// Write a log for a real node to this file.
    #[arg(long)]
    log: Option<PathBuf>,
    /// Requests of the simulated day.
    #[arg(long, default_value_t = 1_000_000)]
    requests: u32,
    /// Seeds of each experiment.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(file) = &args.log {
        std::fs::write(file, site::short_log()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let Some(folder) = &args.page else { return Ok(()) };
    let measured = args.measured.as_deref().map(measured::read).transpose()?;
    let results = experiments::run(args.requests, args.seeds)?;
    let write = |name: &str, text: String| {
        let file = folder.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    write("RESULTS.svg", picture::picture(&results[0]))?;
    write("RESULTS.md", page::page(&results, measured.as_ref()))
}
