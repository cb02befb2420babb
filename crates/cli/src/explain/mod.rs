//! The `weir explain` command: where each request's time went.

mod args;
mod cluster_events;
mod generator;
mod live;
pub(crate) mod spans;

pub(crate) use args::Args;

use anyhow::Context;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_explain::spans::Beside;
use weir_explain::{View, WithSpans, decisions};
use weir_measure::class::Grouping;
use weir_report::{Explanation, Style};
use weir_terminal::whole_file::write_whole;

/// What the arguments come to.
pub(crate) enum Explained {
    /// A run directory and what it says.
    Run(PathBuf, Box<WithSpans>),
    /// Nothing: the arguments do not fit, and the user has been told.
    Not(ExitCode),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(pid) = args.generator {
        return generator::run(pid, args);
    }
    let (directory, explanation) = match explained(args)? {
        Explained::Run(directory, explanation) => (directory, explanation),
        Explained::Not(code) => return Ok(code),
    };
    let WithSpans { explanation, sample, beside } = *explanation;
    let shown = show(&explanation, beside.as_ref(), args.html.as_deref(), &directory, args.json);
    // Each whether or not the others could be written.
    let folded = args.folded.as_deref().map_or(Ok(()), |path| fold(&explanation, path));
    let handed_on = match (&args.otlp, &sample) {
        (Some(to), Some(sample)) => spans::hand_on(to, &explanation, sample),
        _ => Ok(()),
    };
    let mut failed = [shown, folded, handed_on].into_iter().filter_map(Result::err);
    if let Some(error) = failed.next() {
        failed.for_each(|other| eprintln!("weir explain: {}", weir_terminal::output::causes(&other)));
        return Err(error);
    }
    let missed = explanation.objectives.iter().any(|objective| objective.met == Some(false));
    Ok(match explanation.requests {
        0 => ExitCode::FAILURE,
        _ if missed => ExitCode::from(3),
        _ => ExitCode::SUCCESS,
    })
}

/// Why an objective that was asked for cannot be judged; said before anything is recorded.
fn refusal(args: &Args) -> Option<String> {
    let refusal = weir_explain::refusal(&args.slo)?;
    let view = View { server_side: args.server_side, ..View::default() };
    let without_client = match (args.recorded.as_slice(), &args.url) {
        ([], Some(_)) => args.server_side,
        ([], None) => true,
        // A run that cannot be opened is refused for that, not for the objective.
        (named, _) => {
            let runs = weir_explain::runs_of(named).unwrap_or_default();
            !runs.is_empty()
                && runs
                    .iter()
                    .all(|run| weir_trace::RunReader::open(run).is_ok_and(|reader| view.is_server_side(&reader)))
        }
    };
    without_client.then_some(refusal)
}

/// Explains what the arguments name, making a run of it first if they ask for one.
pub(crate) fn explained(args: &Args) -> anyhow::Result<Explained> {
    if args.url.is_none() && !args.load.given().is_empty() {
        let options = args.load.given().join(", ");
        eprintln!(
            "weir explain: {options}: how to load, but nothing is loaded; add --load URL, or leave it out to take what comes anyway"
        );
        return Ok(Explained::Not(ExitCode::from(2)));
    }
    if let Some(refusal) = refusal(args) {
        eprintln!("weir explain: {refusal}");
        return Ok(Explained::Not(ExitCode::from(2)));
    }
    // Before anything is recorded: what cannot be read is told at once.
    let beside = args.spans.as_deref().map(weir_explain::spans::read).transpose()?;
    if let Some(log) = args.decisions.as_ref().filter(|_| args.command.is_empty()) {
        decisions::check(log)?;
    }
    let recorded = weir_explain::runs_of(&args.recorded)?;
    let (directory, subject) = match (recorded.first(), &args.url) {
        (Some(directory), _) if directory.to_string_lossy().contains("://") => {
            eprintln!("weir explain: {} is a URL; did you mean --load {0}?", directory.display());
            return Ok(Explained::Not(ExitCode::from(2)));
        }
        (Some(directory), _) => (directory.clone(), subject(&args.recorded)),
        (None, Some(url)) => match live::record(args, url)? {
            live::Outcome::Recorded(directory) => (directory, weir_terminal::privacy::without_query(url)),
            live::Outcome::Usage(message) => {
                eprintln!("weir explain: {message}");
                return Ok(Explained::Not(ExitCode::from(2)));
            }
        },
        (None, None) if !args.target.is_empty() => match live::watch(args)? {
            live::Outcome::Recorded(directory) => (directory, args.target.named().words()),
            live::Outcome::Usage(message) => {
                eprintln!("weir explain: {message}");
                return Ok(Explained::Not(ExitCode::from(2)));
            }
        },
        (None, None) => {
            eprintln!(
                "weir explain: name a run directory, --load URL to make a run, or --port N to record what comes there (see `weir explain --help`)"
            );
            return Ok(Explained::Not(ExitCode::from(2)));
        }
    };
    if let Some(log) = &args.decisions {
        let notes = decisions::put(&directory, log);
        let notes = notes.with_context(|| format!("the run is in {}", directory.display()))?;
        notes.iter().for_each(|note| eprintln!("weir explain: {note}"));
    }
    let view = View {
        server_side: args.server_side,
        tls_ports: args.tls_port.clone(),
        objectives: args.slo.iter().map(|slo| (slo.text.clone(), slo.objective)).collect(),
        cluster: cluster_events::read(&args.cluster_events)?,
        others: recorded.iter().skip(1).cloned().collect(),
        sampled: args.otlp.is_some(),
        beside,
    };
    let explanation = weir_explain::with_spans(&directory, subject, Grouping::new(args.group.clone()), &view)?;
    if args.folded.is_some() {
        check_stacks(&explanation.explanation)?;
    }
    Ok(Explained::Run(directory, Box::new(explanation)))
}

/// The runs that are explained, for a reader.
fn subject(runs: &[PathBuf]) -> String {
    runs.iter().map(|run| run.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Refuses a run without what other tools are to have.
fn check_stacks(explanation: &Explanation) -> anyhow::Result<()> {
    if explanation.stacks.is_empty() {
        anyhow::bail!(
            "{} holds no stacks; `--stacks` of weir record or weir explain --load samples them",
            explanation.run
        );
    }
    Ok(())
}

/// Writes the sampled stacks for other tools.
fn fold(explanation: &Explanation, path: &Path) -> anyhow::Result<()> {
    write_whole(path, weir_explain::folded(&explanation.stacks))
        .with_context(|| format!("--folded: cannot write {}", path.display()))
}

/// Whether what cannot be written may only be read, rather than that there is no room.
fn is_read_only(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// Prints the report and writes the HTML, beside the run where no option says otherwise.
fn show(
    explanation: &Explanation,
    beside: Option<&Beside>,
    html: Option<&Path>,
    run: &Path,
    json: bool,
) -> anyhow::Result<()> {
    if json {
        let mut told = serde_json::to_value(explanation)?;
        told["schema"] = "weir-explain/1".into();
        if let Some(beside) = beside {
            told["spans"] = serde_json::to_value(beside)?;
        }
        weir_terminal::output::print(&format!("{}\n", serde_json::to_string_pretty(&told)?))?;
    } else {
        let style = Style { colours: weir_terminal::output::colours(), width: weir_terminal::output::columns() };
        weir_terminal::output::print(&weir_report::terminal(explanation, style))?;
        if let Some(beside) = beside {
            weir_terminal::output::print(&spans::words(beside))?;
        }
    }
    let path = html.map_or_else(|| run.join("report.html"), Path::to_owned);
    match write_whole(&path, weir_report::html(explanation)) {
        Ok(()) if json => {}
        Ok(()) => weir_terminal::output::print(&format!("report: {}\n", path.display()))?,
        // A run of another user may be readable only: the report is printed all the same.
        Err(error) if html.is_none() && is_read_only(&error) => {
            eprintln!(
                "weir explain: no HTML: {} cannot be written ({error}); --html FILE puts it elsewhere",
                path.display()
            );
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
    Ok(())
}
