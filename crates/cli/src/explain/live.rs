//! Load and record in one go, into a run directory.

use super::args::Args;
use crate::load::{Heading, Now, Usage, Watch, watched};
use std::path::PathBuf;
use std::time::Duration;
use weir_record::{Setup, run_directory};
use weir_terminal::stop::Stop;

/// How long to watch a server, unless the user says.
const WATCH: Duration = Duration::from_secs(10);

/// What came of it.
pub(super) enum Outcome {
    /// A run to be explained.
    Recorded(PathBuf),
    /// The arguments do not fit.
    Usage(String),
}

/// Starts the server if asked to, records it while it is loaded.
pub(super) fn record(args: &Args, url: &str) -> anyhow::Result<Outcome> {
    let options = match args.load.options(Some(url)) {
        Ok(options) => options,
        Err(Usage(error)) => return Ok(Outcome::Usage(weir_terminal::output::causes(&error))),
    };
    if let Some(path) = &options.reach.unix {
        return Ok(Outcome::Usage(format!(
            "requests are found again at the server by their connections' addresses, and the Unix socket {} has none: \
             load it over TCP; `weir load --unix` shows the client's side alone",
            path.display()
        )));
    }
    if args.target.is_empty() && args.command.is_empty() {
        let example = format!("--port {}", options.url.port);
        return Ok(Outcome::Usage(format!("name the server: {example}, --pid PID, --comm NAME, or -- SERVER COMMAND")));
    }
    let (directory, setup) = match setup(args) {
        Ok(setup) => setup,
        Err(usage) => return Ok(usage),
    };
    let stop = Stop::on_signals()?;
    let now = Now::begin(&directory, &Heading::of(&options));
    let watch = Watch { quiet: args.json, title: options.url.to_string(), now, ..Default::default() };
    weir_record::under_load(&setup, options, &stop, |options| watched(options, &stop, &watch))?;
    Ok(Outcome::Recorded(directory))
}

/// Records what is there for a while, without a load of ours.
pub(super) fn watch(args: &Args) -> anyhow::Result<Outcome> {
    let (directory, setup) = match setup(args) {
        Ok(setup) => setup,
        Err(usage) => return Ok(usage),
    };
    let stop = Stop::on_signals()?;
    weir_record::while_clients_come(&setup, args.load.duration().unwrap_or(WATCH), &stop)?;
    Ok(Outcome::Recorded(directory))
}

/// Where the run goes, and what is recorded; an error where a run is there already.
fn setup(args: &Args) -> Result<(PathBuf, Setup), Outcome> {
    let directory = args.run.clone().unwrap_or_else(run_directory::next);
    if run_directory::is_taken(&directory) {
        let name = directory.display();
        return Err(Outcome::Usage(format!("{name} is a run already; name a new directory, or `weir explain {name}`")));
    }
    let setup = Setup {
        who: "weir explain",
        directory: Some(directory.clone()),
        named: args.target.named(),
        command: args.command.clone(),
        ladder: args.rung.ladder(),
        sources: args.sources.sources(),
    };
    Ok((directory, setup))
}
