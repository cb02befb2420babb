//! `weir load`, from its arguments to its report.

use super::args::Args;
use super::baseline::{Baseline, REPORT_FILE};
use super::files::Files;
use super::gate::Gate;
use super::heading::Heading;
use super::json::as_json;
use super::live::{Watch, watched, watching};
use super::stream::Stream;
use super::usage::Usage;
use super::whole_file::write_whole;
use super::workers::{Conducted, conduct};
use super::{beside, fileset, find_max, json, screen};
use anyhow::{Context, anyhow};
use std::process::ExitCode;
use weir_load::{LoadError, Options};
use weir_record::into_run;
use weir_terminal::stop::Stop;
use weir_trace::Run;

/// Runs the command.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments whole")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let done = load(&args);
    if let (true, Err(error)) = (args.json, &done)
        && let Some(cause) = error.chain().find_map(|cause| cause.downcast_ref::<LoadError>())
    {
        weir_terminal::output::print(&format!("{:#}\n", json::not_made(cause, args.url.as_deref())))?;
    }
    done
}

fn load(args: &Args) -> anyhow::Result<ExitCode> {
    if !args.make_fileset.is_empty() {
        return fileset::make(args);
    }
    if !args.compare.is_empty() {
        return beside::run(args);
    }
    if args.find_max.wanted() {
        let url = args.url.as_deref();
        return find_max::run(&args.find_max, &args.judge, &args.load, url, &args.outputs, args.json, args.quiet);
    }
    let Ready { options, heading, baseline, stream, conducted } = match ready(args) {
        Ok(ready) => ready,
        Err(Usage(error)) => {
            eprintln!("weir load: {}", weir_terminal::output::causes(&error));
            return Ok(ExitCode::from(2));
        }
    };
    let stop = Stop::on_signals()?;
    let title = format!("{}  {}", heading.url, heading.manner);
    let exporter = args.outputs.exporter(&heading.url)?;
    let watch = Watch { quiet: args.quiet, verbose: args.verbose, title, exporter, stream };
    let report = match (&args.run, conducted) {
        (_, Some(conducted)) => watching(options.stop, &stop, &watch, |control| conduct(conducted, options, control))?,
        (Some(directory), None) => {
            into_run(options, &Run::create(directory)?, |options| watched(options, &stop, &watch))?
        }
        (None, None) => watched(options, &stop, &watch)?,
    };
    if let Some(exporter) = &watch.exporter {
        exporter.finish(&report)?;
    }
    if let Some(stream) = &watch.stream {
        stream.finish(&report.series)?;
    }
    let gate = Gate::of(&args.judge, &baseline, &report);
    args.outputs.write(&report, &heading, &gate)?;
    args.gate.write(&report, &heading, &gate)?;
    if let Some(directory) = &args.run {
        let file = directory.join(REPORT_FILE);
        write_whole(&file, &format!("{:#}\n", json::kept(&report, &heading)))
            .with_context(|| format!("--run: cannot write {}", file.display()))?;
    }
    if args.json {
        weir_terminal::output::print(&format!("{:#}\n", as_json(&report, &heading, gate.json(&report))))?;
    } else {
        let to_stderr = args.outputs.streams_to_stdout();
        let colours = if to_stderr { screen::Colours::of_stderr() } else { screen::Colours::of_stdout() };
        let text = screen::text(&report, &heading, &gate, args.verbose, colours);
        if to_stderr {
            eprint!("{text}");
        } else {
            weir_terminal::output::print(&text)?;
        }
    }
    Ok(gate.exit_code(&report))
}

/// A load that can begin.
struct Ready {
    options: Options,
    heading: Heading,
    baseline: Baseline,
    stream: Option<Stream>,
    /// The workers that make it, if it is not this process.
    conducted: Option<Conducted>,
}

/// What the arguments mean.
fn ready(args: &Args) -> Result<Ready, Usage> {
    let files = if args.workers.wanted() { Files::copied() } else { Files::Here };
    let mut options = args.load.options_of(args.url.as_deref(), &files)?;
    args.outputs.apply(&mut options);
    args.judge.apply(&mut options)?;
    options.check()?;
    args.outputs.check()?;
    if args.json && args.outputs.streams_to_stdout() {
        return Err(anyhow!("--ndjson -: standard output takes one of them; write --ndjson FILE with --json").into());
    }
    args.gate.check()?;
    let conducted = Conducted::of(&args.workers, &options, &files)?;
    let mut heading = Heading::of(&options);
    if let Some(conducted) = &conducted {
        let workers = conducted.workers();
        heading.manner.push_str(&format!(", by {workers} worker{}", if workers == 1 { "" } else { "s" }));
    }
    let baseline = args.baseline.read(&heading)?;
    Ok(Ready { options, heading, baseline, stream: args.outputs.stream()?, conducted })
}
