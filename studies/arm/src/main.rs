//! Makes the page of the study: the paper's figures (`paper.toml`) beside ours (what `run` has measured).

mod measured;
mod page;
mod paper;
mod responses;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;

use measured::Measured;
use page::Found;
use paper::Paper;
use responses::Responses;

/// Makes the page of the study that repeats the paper on ARM in Apache and PHP.
#[derive(Parser)]
struct Args {
    /// The folder with what was measured
    #[arg(long, value_name = "DIR")]
    results: PathBuf,
    /// The file that says where and when it was measured
    #[arg(long, value_name = "FILE")]
    surroundings: PathBuf,
    /// Where the page goes
    #[arg(long, value_name = "FILE")]
    page: PathBuf,
    /// The study's folder, with paper.toml
    #[arg(long, value_name = "DIR", default_value = "studies/arm")]
    study: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let read = |path: PathBuf| fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()));
    let paper = Paper::read(&read(args.study.join("paper.toml"))?).context("paper.toml")?;
    let responses = |name: &str| Responses::read(&args.results.join("responses").join(name));
    let adminer = args.results.join("adminer.txt");
    let adminer = if adminer.exists() { Some(read(adminer)?) } else { None };
    let text = page::write(&Found {
        paper: &paper,
        measured: &Measured::read(&args.results)?,
        open: responses("open")?.as_ref(),
        congested: responses("congested")?.as_ref(),
        adminer: adminer.as_deref(),
        surroundings: &read(args.surroundings)?,
    });
    fs::write(&args.page, text).with_context(|| format!("writing {}", args.page.display()))
}
