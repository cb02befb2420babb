//! Published workloads: the options for them, and the command that writes their files.

use super::asked::When;
use super::{Args, LoadArgs, Usage};
use crate::progress::Line;
use crate::stop::Stop;
use anyhow::{Context, anyhow};
use serde_json::json;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_load::workload::fileset::{FileSetError, Progress, write};
use weir_load::workload::{Crowd, FileSet, Mix, Surge, specweb96, surge};
use weir_load::{Options, Order, Schedule, StopRule, Url};

/// Where stderr is no terminal, how often a new line is written.
const PLAIN_EVERY: Duration = Duration::from_secs(5);
/// The most clients at a time that a flash crowd has by itself.
const CLIENTS_MAX: f64 = 50_000.0;
/// Writing that takes less time shows no progress.
const QUIET_UNTIL: Duration = Duration::from_secs(2);

/// Options of published workloads.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Workload {
    /// Request the files of a file set, which --make-fileset wrote, by this workload: specweb96, or surge (-c users
    /// with pages and pauses; -n counts pages)
    #[arg(long, value_name = "NAME", value_parser = name, conflicts_with_all = ["urls", "sessions", "replay", "cookie_jar", "http2"], help_heading = "Workload")]
    mix: Option<String>,
    /// With --mix: a flash crowd requests the files: clients come, make requests with pauses, and go; BASE clients a
    /// second, FACTOR times as many at the peak
    #[arg(long, value_name = "BASE*FACTOR/CALM,RISE,HOLD,DECAY", requires = "mix", conflicts_with_all = ["rate", "steps", "ramp", "bursts", "pipeline", "no_keepalive"], help_heading = "Workload")]
    flash_crowd: Option<String>,
    /// With --flash-crowd: requests of a client [default: 5]
    #[arg(long, value_name = "N", requires = "flash_crowd", help_heading = "Workload")]
    client_requests: Option<u32>,
    /// With --flash-crowd: the mean of the exponentially distributed pauses between a client's requests [default: 1s]
    #[arg(long, value_name = "TIME", requires = "flash_crowd", value_parser = crate::units::duration, help_heading = "Workload")]
    client_pause: Option<Duration>,
    /// With --flash-crowd: how many files get nine of ten requests of the crowd [default: 10]
    #[arg(long, value_name = "N", requires = "flash_crowd", help_heading = "Workload")]
    hot_files: Option<u32>,
    /// specweb96: how many directories the file set has
    #[arg(long, value_name = "N", help_heading = "Workload")]
    directories: Option<u32>,
    /// specweb96: choose directories by Zipf's law, the r-th in proportion to 1/r^S, instead of equally often
    #[arg(long, value_name = "S", num_args = 0..=1, require_equals = true, default_missing_value = "1", help_heading = "Workload")]
    directory_zipf: Option<f64>,
    /// surge: how many files the file set has
    #[arg(long, value_name = "N", help_heading = "Workload")]
    files: Option<u32>,
    /// Seed of the file set's random numbers [default: 1]
    #[arg(long, value_name = "N", help_heading = "Workload")]
    fileset_seed: Option<u64>,
}

/// The names of the fields of [`Workload`].
pub(super) const OF_WORKLOAD: [&str; 9] = [
    "mix",
    "flash_crowd",
    "client_requests",
    "client_pause",
    "hot_files",
    "directories",
    "directory_zipf",
    "files",
    "fileset_seed",
];

/// The options of a load that writing a file set heeds.
const OF_WRITING: [&str; 4] = ["--directories", "--rate", "--files", "--fileset-seed"];

fn name(text: &str) -> Result<String, String> {
    if ["specweb96", "surge"].contains(&text) {
        Ok(text.to_owned())
    } else {
        Err("it is specweb96 or surge".to_owned())
    }
}

impl Workload {
    /// Adds what these options mean to `options`, whose other fields are set.
    pub(super) fn apply(&self, options: &mut Options, base: Option<&Url>, seed: u64) -> Result<(), Usage> {
        let Some(name) = &self.mix else {
            let given = [
                ("--directories", self.directories.is_some()),
                ("--files", self.files.is_some()),
                ("--directory-zipf", self.directory_zipf.is_some()),
                ("--fileset-seed", self.fileset_seed.is_some()),
            ];
            return match given.iter().find(|(_, given)| *given) {
                Some((option, _)) => Err(anyhow!("{option}: means something only with --mix or --make-fileset").into()),
                None => Ok(()),
            };
        };
        let base = base.context("--mix: say where the file set is served: a URL such as http://localhost:8080/")?;
        let files = self.file_set(name, None)?;
        let crowd = self.crowd()?;
        let mix = Mix { files, seed, directories_zipf: self.directory_zipf, crowd };
        options.requests.list = mix.requests(base, &options.request);
        options.requests.order = Order::InTurn;
        options.requests.mix = Some(mix);
        Ok(())
    }

    /// The flash crowd that is meant, if one is.
    fn crowd(&self) -> Result<Option<Crowd>, Usage> {
        let Some(text) = &self.flash_crowd else { return Ok(None) };
        let mut crowd = Crowd::parse(text, |time| crate::units::duration(time).ok())
            .map_err(|error| anyhow!("--flash-crowd: {error}"))?;
        crowd.requests = self.client_requests.unwrap_or(crowd.requests);
        crowd.pause = self.client_pause.unwrap_or(crowd.pause);
        crowd.hot_files = self.hot_files.unwrap_or(crowd.hot_files);
        Ok(Some(crowd))
    }

    /// Sets the schedule, where a flash crowd says one, and what follows from it unless the user said otherwise.
    pub(super) fn schedule(&self, options: &mut Options, how: When, given: &[String]) -> Result<(), Usage> {
        let Some(crowd) = options.requests.mix.as_ref().and_then(|mix| mix.crowd.clone()) else { return Ok(()) };
        let whole = crowd.profile.duration();
        if !how.has_end {
            options.stop = StopRule::Duration(whole);
        } else if options.stop.time().is_some_and(|wanted| wanted > whole) {
            return Err(anyhow!("--flash-crowd: it ends after {whole:?}, before the -d that was given").into());
        }
        options.schedule =
            Schedule::Changing { profile: Arc::clone(&crowd.profile), poisson: how.poisson.then_some(how.seed) };
        if !given.iter().any(|option| option == "--connections") {
            // As many as the crowd has clients at a time, and again as many for a server that is slow then.
            let wanted = 2.0 * crowd.clients_at_peak() + 100.0;
            if wanted > CLIENTS_MAX {
                return Err(anyhow!(
                    "--flash-crowd: about {wanted:.0} clients would be there at a time; lower the peak or the pauses, or \
                     say with -c how many there may be"
                )
                .into());
            }
            options.connections = (wanted as u32).max(options.threads);
        }
        if options.reach.sources.is_empty() {
            options.requests.notes.push(
                "all clients came from one address: name several (--source 127.0.0.2,127.0.0.3 and so on) to stand for \
                 their networks"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// The file set that is meant; `rate` is the one that it is made for.
    fn file_set(&self, name: &str, rate: Option<f64>) -> Result<FileSet, Usage> {
        let seed = self.fileset_seed.unwrap_or(1);
        if name == "surge" {
            if self.directories.is_some() || rate.is_some() {
                return Err(anyhow!("surge: its size is a number of files: give --files N alone").into());
            }
            let files = self.files.context("surge: say how large the file set is: --files N, such as 2000")?;
            if !(1..=surge::FILES_MAX).contains(&files) {
                return Err(anyhow!("surge: the number of files lies between 1 and 1000000").into());
            }
            return Ok(FileSet::Surge(Surge::new(files, seed)));
        }
        if self.files.is_some() {
            return Err(anyhow!("specweb96: its size is a number of directories: give --directories N").into());
        }
        let directories = match (self.directories, rate) {
            (Some(directories), _) => directories,
            (None, Some(rate)) if rate > 0.0 => specweb96::directories_for(rate),
            (None, Some(_)) => return Err(anyhow!("--rate: a file set is made for a rate above 0").into()),
            (None, None) => return Err(anyhow!("specweb96: say how large the file set is: --directories N").into()),
        };
        if !(1..=specweb96::DIRECTORIES_MAX).contains(&directories) {
            return Err(anyhow!("specweb96: the number of directories lies between 1 and 100000").into());
        }
        Ok(FileSet::SpecWeb96 { directories, seed })
    }
}

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
            eprintln!("weir load: {}", crate::output::causes(&error));
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
            "name": files.name(),
            "directory": directory.display().to_string(),
            "directories": if let FileSet::SpecWeb96 { directories, .. } = files { Some(directories) } else { None },
            "files": progress.files,
            "kept": progress.kept,
            "bytes": progress.bytes,
        });
        crate::output::print(&format!("{told:#}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let kept = if progress.kept > 0 { format!(", {} of them were there", progress.kept) } else { String::new() };
    crate::output::print(&format!(
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

/// What the report says it is of, where a mix is asked.
pub(super) fn title(options: &Options) -> Option<String> {
    let mix = options.requests.mix.as_ref()?;
    let listed = options.requests.list.first()?;
    let path = listed.url.target.strip_suffix(&mix.files.path(0)).unwrap_or("/");
    Some(format!("the {} mix of {} files of {}", mix.files.name(), mix.files.len(), listed.url.with_target(path)))
}

/// The names of a mix's requests in a run: one for each kind of file.
pub(super) fn number_names(options: &mut Options) -> Option<Vec<String>> {
    let files = &options.requests.mix.as_ref()?.files;
    let mut names = Vec::new();
    for (number, listed) in (0..).zip(&mut options.requests.list) {
        listed.request.name = number;
        names.push(format!("{} {} of {}", listed.request.method, files.kind_name(number), files.name()));
    }
    Some(names)
}
