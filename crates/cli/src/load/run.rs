//! `weir load`, from its arguments to its report.

use super::args::Args;
use super::baseline::{Baseline, REPORT_FILE};
use super::files::Files;
use super::gate::Gate;
use super::heading::Heading;
use super::json::as_json;
use super::live::{Watch, watched, watching};
use super::now::Now;
use super::prometheus::Exporter;
use super::stream::Stream;
use super::usage::Usage;
use super::workers::{ByWorkers, Conducted, conduct};
use super::{beside, fileset, find_max, grpc, json, screen, websocket};
use anyhow::{Context, anyhow};
use std::process::ExitCode;
use std::time::SystemTime;
use weir_load::{LoadError, LoadReport, Options};
use weir_record::into_run;
use weir_terminal::stop::Stop;
use weir_terminal::whole_file::write_whole;
use weir_trace::Run;

/// Runs the command.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments whole")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let done = load(&args);
    if let Err(error) = &done
        && let Some(cause) = error.chain().find_map(|cause| cause.downcast_ref::<LoadError>())
    {
        if args.json {
            weir_terminal::output::print(&format!("{:#}\n", json::not_made(cause, args.url.as_deref())))?;
        }
        args.gate.not_made(cause, args.url.as_deref().unwrap_or_default())?;
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
    let Ready { options, heading, baseline, exporter, stream, conducted } = match ready(args) {
        Ok(ready) => ready,
        Err(Usage(error)) => {
            let error = grpc::not_asked(error)?;
            eprintln!("weir load: {}", weir_terminal::output::causes(&error));
            return Ok(ExitCode::from(2));
        }
    };
    let stop = Stop::on_signals()?;
    let title = format!("{}  {}", heading.url, heading.manner);
    let now = args.run.as_deref().and_then(|directory| Now::begin(directory, &heading));
    let watch = Watch { quiet: args.quiet, verbose: args.verbose, title, exporter, stream, now };
    let (report, unrecorded) = made(args, options, conducted, (&stop, &watch))?;
    let ended = SystemTime::now();
    let gate = Gate::of(&args.judge, &baseline, &report);
    let failed = handed_on(args, &watch, &report, (&heading, &gate, ended));
    print(args, &report, &heading, &gate)?;
    // The report is there, so that only what could not be handed on is lost.
    match unrecorded.into_iter().chain(failed).reduce(|first, other| {
        eprintln!("weir load: {}", weir_terminal::output::causes(&other));
        first
    }) {
        Some(error) => Err(error),
        None => Ok(gate.exit_code(&report)),
    }
}

/// Makes the load, by workers or here; with it comes what of its record could not be kept.
fn made(
    args: &Args,
    options: Options,
    conducted: Option<Conducted>,
    (stop, watch): (&Stop, &Watch),
) -> anyhow::Result<(LoadReport, Vec<anyhow::Error>)> {
    if let Some(conducted) = conducted {
        let ByWorkers { report, kept } =
            watching(options.stop, stop, watch, |control| conduct(conducted, options, control))?;
        if !kept.runs.is_empty() && !args.quiet {
            let runs: Vec<String> = kept.runs.iter().map(|run| run.display().to_string()).collect();
            eprintln!("weir load: read the record, with the server's: weir explain {} …", runs.join(" "));
        }
        return Ok((report, kept.errors.into_iter().map(anyhow::Error::from).collect()));
    }
    let Some(directory) = &args.run else { return Ok((watched(options, stop, watch)?, Vec::new())) };
    let written = into_run(options, &Run::create(directory)?, |options| watched(options, stop, watch))?;
    let unwritten = written.unwritten.map(|error| anyhow!(error).context("--run: not all events were recorded"));
    Ok((written.made, unwritten.into_iter().collect()))
}

/// Hands the figures to all that wait for them, whether or not others could be reached; returns what went wrong.
fn handed_on(
    args: &Args,
    watch: &Watch,
    report: &LoadReport,
    (heading, gate, ended): (&Heading, &Gate, SystemTime),
) -> Vec<anyhow::Error> {
    let kept = args.run.as_ref().map(|directory| {
        let file = directory.join(REPORT_FILE);
        write_whole(&file, format!("{:#}\n", json::kept(report, heading)))
            .with_context(|| format!("--run: cannot write {}", file.display()))
    });
    let written =
        args.outputs.write(report, heading, gate, ended).into_iter().chain(args.gate.write(report, heading, gate));
    let exported = watch.exporter.as_ref().map(|exporter| exporter.finish(report));
    let streamed = watch.stream.as_ref().map(|stream| stream.finish(&report.series));
    kept.into_iter().chain(written).chain(exported).chain(streamed).filter_map(Result::err).collect()
}

/// Prints the report.
fn print(args: &Args, report: &LoadReport, heading: &Heading, gate: &Gate) -> anyhow::Result<()> {
    if args.json {
        weir_terminal::output::print(&format!("{:#}\n", as_json(report, heading, gate.json(report))))?;
    } else {
        let to_stderr = args.outputs.streams_to_stdout();
        let colours = if to_stderr { screen::Colours::of_stderr() } else { screen::Colours::of_stdout() };
        let text = screen::text(report, heading, gate, args.verbose, colours);
        if to_stderr {
            eprint!("{text}");
        } else {
            weir_terminal::output::print(&text)?;
        }
    }
    Ok(())
}

/// A load that can begin.
struct Ready {
    options: Options,
    heading: Heading,
    baseline: Baseline,
    exporter: Option<Exporter>,
    stream: Option<Stream>,
    /// The workers that make it, if it is not this process.
    conducted: Option<Conducted>,
}

/// What the arguments mean.
fn ready(args: &Args) -> Result<Ready, Usage> {
    let files = if args.workers.wanted() { Files::copied() } else { Files::Here };
    let opening = args.url.as_deref().and_then(websocket::opened_by);
    let calling = args.url.as_deref().and_then(grpc::called_by);
    let mut options = match &calling {
        Some(url) => args.load.options_of_calls(url, &files)?,
        None => args.load.options_of(opening.as_deref().or(args.url.as_deref()), &files)?,
    };
    if opening.is_some() {
        args.messages.apply(&mut options)?;
    }
    if calling.is_some() {
        args.grpc.apply(&mut options, &args.messages.texts())?;
    }
    args.outputs.apply(&mut options);
    args.judge.apply(&mut options)?;
    options.check()?;
    args.outputs.check()?;
    if args.json && args.outputs.streams_to_stdout() {
        return Err(anyhow!("--ndjson -: standard output takes one of them; write --ndjson FILE with --json").into());
    }
    args.gate.check()?;
    let conducted = Conducted::of(&args.workers, &options, &files, args.run.as_deref())?;
    let mut heading = Heading::of(&options);
    if let Some(conducted) = &conducted {
        let workers = conducted.workers();
        heading.manner.push_str(&format!(", by {workers} worker{}", if workers == 1 { "" } else { "s" }));
    }
    let baseline = args.baseline.read(&heading)?;
    let exporter = args.outputs.exporter(&heading.url)?;
    Ok(Ready { options, heading, baseline, exporter, stream: args.outputs.stream()?, conducted })
}
