//! PHP under twice the load that it can answer: what the runs of `run` left behind becomes a page and a picture.
//!
//! `runs.rs` reads the reports of the load generator, `page.rs` writes the page, `picture.rs` the picture.

mod page;
mod picture;
mod runs;

use anyhow::{Context, ensure};
use clap::Parser;
use std::path::PathBuf;

/// Writes the page of the study.
#[derive(Debug, Parser)]
struct Args {
    /// Write the page into this folder: RESULTS.md and its picture
    #[arg(long, requires_all = ["runs", "patience"])]
    page: Option<PathBuf>,
    /// With --page: the folder with the runs
    #[arg(long)]
    runs: Option<PathBuf>,
    /// With --page: after how long a client leaves
    #[arg(long)]
    patience: Option<String>,
    /// Say how many requests a second were answered in this report of weir load
    #[arg(long)]
    capacity: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(file) = &args.capacity {
        println!("{:.0}", runs::Run::read(file)?.useful_per_s);
    }
    let (Some(folder), Some(runs), Some(patience)) = (&args.page, &args.runs, &args.patience) else { return Ok(()) };
    let surroundings = std::fs::read_to_string(runs.join("surroundings")).context("the runs have no surroundings")?;
    let capacity_per_s = runs::Run::read(&runs.join("capacity.json"))?.useful_per_s;
    let pairs = runs::pairs(runs)?;
    ensure!(!pairs.is_empty(), "{} has no rounds", runs.display());
    let of = page::Of { surroundings: surroundings.trim(), capacity_per_s, patience };
    let (text, all_hold) = page::page(&of, &pairs);
    std::fs::write(folder.join("RESULTS.md"), text).context("writing RESULTS.md")?;
    std::fs::write(folder.join("RESULTS.svg"), picture::picture(&pairs)).context("writing RESULTS.svg")?;
    ensure!(all_hold, "something does not hold; {} says what", folder.join("RESULTS.md").display());
    Ok(())
}
