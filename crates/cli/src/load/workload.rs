//! Published workloads: the options for them.

use super::asked::When;
use super::usage::Usage;
use anyhow::{Context, anyhow};
use std::sync::Arc;
use std::time::Duration;
use weir_load::workload::{Crowd, FileSet, Mix, Surge, specweb96, surge};
use weir_load::{Options, Order, Schedule, StopRule, Url};

/// The most clients at a time that a flash crowd has by itself.
const CLIENTS_MAX: f64 = 50_000.0;

/// Options of published workloads.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Workload {
    /// Request the files of a file set, which --make-fileset wrote, by this workload: specweb96, or surge (-c users
    /// with pages and pauses; -n counts pages)
    #[arg(long, value_name = "NAME", value_parser = name, conflicts_with_all = ["urls", "sessions", "replay", "cookie_jar", "http2", "http3"], help_heading = "Workload")]
    mix: Option<String>,
    /// With --mix: a flash crowd requests the files: clients come, make requests with pauses, and go; BASE clients a
    /// second, FACTOR times as many at the peak
    #[arg(long, value_name = "BASE*FACTOR/CALM,RISE,HOLD,DECAY", requires = "mix", conflicts_with_all = ["rate", "steps", "ramp", "bursts", "pipeline", "no_keepalive"], help_heading = "Workload")]
    flash_crowd: Option<String>,
    /// With --flash-crowd: requests of a client [default: 5]
    #[arg(long, value_name = "N", requires = "flash_crowd", help_heading = "Workload")]
    client_requests: Option<u32>,
    /// With --flash-crowd: the mean of the exponentially distributed pauses between a client's requests [default: 1s]
    #[arg(long, value_name = "TIME", requires = "flash_crowd", value_parser = weir_terminal::units::duration, help_heading = "Workload")]
    client_pause: Option<Duration>,
    /// With --flash-crowd: how many files get nine of ten requests of the crowd [default: 10]
    #[arg(long, value_name = "N", requires = "flash_crowd", help_heading = "Workload")]
    hot_files: Option<u32>,
    /// specweb96: how many directories the file set has
    #[arg(long, value_name = "N", help_heading = "Workload")]
    pub(super) directories: Option<u32>,
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

/// Reads the name of a workload.
pub(super) fn name(text: &str) -> anyhow::Result<String> {
    anyhow::ensure!(["specweb96", "surge"].contains(&text), "it is specweb96 or surge");
    Ok(text.to_owned())
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
        let mut crowd = Crowd::parse(text, |time| weir_terminal::units::duration(time).ok())
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
    pub(super) fn file_set(&self, name: &str, rate: Option<f64>) -> Result<FileSet, Usage> {
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
