//! Makes the page of the study: the paper's figures (`paper.toml`) beside ours (the results of the plans), as
//! `page.toml` lays it out; `scripts.toml` lays out a second page, on scripts alone.
//!
//! 1. `run` makes what is served (`make-site`) and has `weir compare` carry out each of `plans/`; complete results are
//!    not measured again.
//! 2. `paper.rs` reads the paper's figures, each row as printed and as divided, and checks that both agree.
//! 3. `measured.rs` reads the results and gives values and ratios by the formulas of `weir-measure`.
//! 4. `held.rs` says by a rule what became of each comparison of the paper.
//! 5. `page.rs` and `picture.rs` write the page: no number on it is typed.

mod held;
mod layout;
mod measured;
mod page;
mod paper;
mod picture;
#[cfg(test)]
mod scripts;
mod surroundings;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;

use layout::Layout;
use measured::Measured;
use paper::Paper;
use surroundings::Surroundings;

/// Makes the page of the study that repeats the WASD server's performance paper.
#[derive(Parser)]
struct Args {
    /// The folder with a folder of results for each plan
    #[arg(long, value_name = "DIR")]
    results: PathBuf,
    /// The file that says where and when it was measured
    #[arg(long, value_name = "FILE")]
    surroundings: PathBuf,
    /// Where the page goes; its picture goes beside it
    #[arg(long, value_name = "FILE")]
    page: PathBuf,
    /// What stands on the page: page.toml, or scripts.toml for the page on scripts
    #[arg(long, value_name = "FILE", default_value = "page.toml")]
    layout: String,
    /// The study's folder, with paper.toml and page.toml
    #[arg(long, value_name = "DIR", default_value = "studies/wasd")]
    study: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let read = |path: PathBuf| fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()));
    let paper = Paper::read(&read(args.study.join("paper.toml"))?).context("paper.toml")?;
    let mut layout = Layout::read(&read(args.study.join(&args.layout))?).context(args.layout.clone())?;
    let surroundings = Surroundings::read(&read(args.surroundings)?);
    let measured = Measured::read(&args.results, &layout.plans)?;
    layout.keep_measured(&measured);

    let compared = page::compare(&paper, &layout, &measured)?;
    let picture = args.page.with_extension("svg");
    let name = picture.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let text = page::write(&paper, &layout, &measured, &surroundings, &compared, &name)?;
    fs::write(&picture, picture::draw(&compared)).with_context(|| format!("writing {}", picture.display()))?;
    fs::write(&args.page, text).with_context(|| format!("writing {}", args.page.display()))
}
