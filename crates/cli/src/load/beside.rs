//! `weir load --compare A B`: two servers by turns, by what `weir compare` does.

use super::args::Args;
use super::usage::Usage;
use anyhow::anyhow;
use std::process::ExitCode;

/// Runs the comparison.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match words(args) {
        Ok(words) => crate::compare::of_words(words),
        Err(Usage(error)) => {
            eprintln!("weir load: {}", weir_terminal::output::causes(&error));
            Ok(ExitCode::from(2))
        }
    }
}

/// The command line of `weir compare` for the same.
fn words(args: &Args) -> Result<Vec<String>, Usage> {
    let [a, b] = args.compare.as_slice() else {
        return Err(anyhow!("--compare: give two servers, by their commands or the names of ready-made ones").into());
    };
    if let Some(url) = [a, b].into_iter().find(|side| side.starts_with("http://") || side.starts_with("https://")) {
        return Err(anyhow!(
            "--compare {url}: the servers are started by turns, so give their commands, or names that weir compare \
             --subjects lists, and the URL behind them"
        )
        .into());
    }
    let mut words: Vec<String> = ["compare", "--a", a, "--b", b].map(str::to_owned).to_vec();
    let mut add = |name: &str, value: String| words.extend([name.to_owned(), value]);
    add("--connections", args.load.connections().to_string());
    if let Some(url) = &args.url {
        add("--url", url.clone());
    }
    if let Some(time) = args.load.duration() {
        add("--budget", format!("{}ms", time.as_millis()));
    }
    if args.load.given().iter().any(|given| given == "--seed") {
        add("--seed", args.load.seed().to_string());
    }
    if let Some(page) = args.outputs.html() {
        add("--html", page.display().to_string());
    }
    if args.json {
        words.push("--json".to_owned());
    }
    Ok(words)
}
