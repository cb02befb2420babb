//! The file sets of published workloads, written to a directory.

use super::args::Args;
use super::load_args::LoadArgs;
use super::usage::Usage;
use super::workload::name;
use anyhow::anyhow;
use serde_json::json;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir_load::workload::FileSet;
use weir_load::workload::fileset::{FileSetError, Progress, write};
use weir_terminal::progress::Line;
use weir_terminal::stop::Stop;

/// Where stderr is no terminal, how often a new line is written.
const PLAIN_EVERY: Duration = Duration::from_secs(5);
/// Writing that takes less time shows no progress.
const QUIET_UNTIL: Duration = Duration::from_secs(2);

/// The options of a load that writing a file set heeds.
const OF_WRITING: [&str; 4] = ["--directories", "--rate", "--files", "--fileset-seed"];

/// What to write, if that is asked for instead of a load: the file set and where to.
fn wanted(args: &Args, given: &[String]) -> Result<(FileSet, PathBuf), Usage> {
    let [kind, directory] = args.make_fileset.as_slice() else {
        return Err(anyhow!("--make-fileset: write its name and a directory").into());
    };
    name(kind).map_err(|problem| anyhow!("--make-fileset {kind}: {problem}"))?;
    if let Some(other) = given.iter().find(|option| !OF_WRITING.contains(&option.as_str())) {
        return Err(anyhow!("{other}: says how to load; with --make-fileset nothing is loaded").into());
    }
    if args.url.is_some() || args.run.is_some() || args.load.duration().is_some() {
        return Err(anyhow!("--make-fileset loads nothing: leave the URL, -d and --run out").into());
    }
    let LoadArgs { workload, rate, .. } = &args.load;
    if let (Some(_), Some(_)) = (rate, workload.directories) {
        return Err(anyhow!("--rate: says how many directories there are, as --directories does; give one").into());
    }
    Ok((workload.file_set(kind, *rate)?, PathBuf::from(directory)))
}

/// Writes a file set.
pub(super) fn make(args: &Args) -> anyhow::Result<ExitCode> {
    let (files, directory) = match wanted(args, args.load.given()) {
        Ok(wanted) => wanted,
        Err(Usage(error)) => {
            eprintln!("weir load: {}", weir_terminal::output::causes(&error));
            return Ok(ExitCode::from(2));
        }
    };
    let stop = Stop::on_signals()?;
    let mut told = Told::new(args.quiet);
    let written = write(&files, &directory, |progress| {
        told.show(progress);
        !stop.asked()
    });
    drop(told);
    match written {
        Ok(progress) => report(&files, &directory, progress, args.json),
        Err(error @ FileSetError::Stopped { .. }) => {
            eprintln!("weir load: {error}");
            Ok(ExitCode::from(130))
        }
        Err(error @ (FileSetError::NotEmpty { .. } | FileSetError::Another { .. })) => {
            eprintln!("weir load: {error}");
            Ok(ExitCode::from(2))
        }
        Err(error) => Err(error.into()),
    }
}

fn report(files: &FileSet, directory: &Path, progress: Progress, as_json: bool) -> anyhow::Result<ExitCode> {
    let (size, option) = match files {
        FileSet::SpecWeb96 { directories, .. } => {
            (format!(" in {directories} directories"), format!("--directories {directories}"))
        }
        FileSet::Surge(_) => (String::new(), format!("--files {}", files.len())),
    };
    if as_json {
        let told = json!({
            "schema": "weir-fileset/1",
            "name": files.name(),
            "directory": directory.display().to_string(),
            "directories": if let FileSet::SpecWeb96 { directories, .. } = files { Some(directories) } else { None },
            "files": progress.files,
            "kept": progress.kept,
            "bytes": progress.bytes,
        });
        weir_terminal::output::print(&format!("{told:#}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let kept = if progress.kept > 0 { format!(", {} of them were there", progress.kept) } else { String::new() };
    weir_terminal::output::print(&format!(
        "{}: {} files{size}, {:.1} MB{kept}\nask for them: weir load --mix {} {option} http://HOST/\n",
        directory.display(),
        progress.files,
        progress.bytes as f64 / 1e6,
        files.name()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// How far writing has got: a line that changes on a terminal, else one now and then.
struct Told {
    line: Line,
    begun: Instant,
    next_plain: Option<Instant>,
    quiet: bool,
}

impl Told {
    fn new(quiet: bool) -> Self {
        let begun = Instant::now();
        let next_plain = (!std::io::stderr().is_terminal()).then(|| begun + PLAIN_EVERY);
        Self { line: Line::new(), begun, next_plain, quiet }
    }

    fn show(&mut self, progress: Progress) {
        if self.quiet || self.begun.elapsed() < QUIET_UNTIL {
            return;
        }
        let text = || {
            format!(
                "{} of {} files, {:.0} of {:.0} MB",
                progress.files,
                progress.files_all,
                progress.bytes as f64 / 1e6,
                progress.bytes_all as f64 / 1e6
            )
        };
        self.line.show(text);
        if self.next_plain.is_some_and(|next| Instant::now() >= next) {
            self.next_plain = Some(Instant::now() + PLAIN_EVERY);
            eprintln!("{}", text());
        }
    }
}
