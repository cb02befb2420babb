//! What a history keeps of each experiment: written, and read again.
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weir_measure::comparison::{Bootstrap, Estimate};

use super::time::utc;
use crate::host::Host;
use crate::measured_slice::Slice;
use crate::metric::{Measured, Metric};
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::schedule::Role;
use crate::verdict::Judgement;

const FORMAT: &str = "weir-compare-history-1";
/// What is larger is none of ours.
const MOST_BYTES: u64 = 16 << 20;
/// The latest files of a folder that are read; with more figures each than any plan has this is still little memory.
const MOST_FILES: usize = 2_000;
/// Characters of a label.
const MOST_LABEL: usize = 80;

/// What one experiment found, as a history keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptResult {
    format: String,
    /// When it ended, in seconds since 1970.
    pub at_s: u64,
    /// What it is called: a commit or what the user says; may be empty.
    pub label: String,
    /// Whether the user takes the level of this result as the one that is to be.
    #[serde(default)]
    pub accepted: bool,
    /// On what it ran.
    pub host: Host,
    /// Of what it is.
    pub experiment: Fingerprint,
    /// The seed of its order.
    #[serde(default)]
    pub seed: u64,
    /// What was found.
    pub figures: Vec<Figure>,
}

/// Of what a result is: results of equal ones on like machines are one history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Of what it was measured.
    pub measured: Measured,
    /// The names of the subjects. Of `A` and `B`, which say nothing, with their commands; of others the commands may
    /// change, since they are what a history is kept for.
    pub subjects: Vec<String>,
    /// The cases with connections, options and paths.
    pub cases: Vec<String>,
}

/// A figure of a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The name of the case.
    pub case: String,
    /// The name of the subject.
    pub subject: String,
    /// The name of the baseline, if it is the ratio to it.
    pub against: Option<String>,
    /// The metric by its name in JSON.
    pub metric: String,
    /// The median over blocks: of the ratio, or in the metric's unit. Finite and above 0.
    pub value: f64,
    /// The 95 % interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// How many blocks it rests on.
    pub blocks: usize,
}

/// Why a result cannot be kept, or a folder not be read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// Of what.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// Why a file holds no result.
#[derive(Debug, thiserror::Error)]
pub enum KeptResultError {
    /// The system refuses.
    #[error("{0}")]
    Read(io::Error),
    /// It is a folder, a pipe or the like.
    #[error("it is no file")]
    NoFile,
    /// It is longer than any result.
    #[error("it has more than {} MB", MOST_BYTES >> 20)]
    TooLong,
    /// Another program wrote it.
    #[error("it is no result of weir compare: {0}")]
    NotOurs(serde_json::Error),
    /// Another version wrote it.
    #[error("its format is {found:?}, and this version reads {FORMAT}")]
    Format {
        /// What it says.
        found: String,
    },
    /// Something is missing in it, or is of another kind.
    #[error("{0}")]
    Content(serde_json::Error),
    /// A figure that no measurement gives.
    #[error("its {metric} of {subject} is no finite number above 0")]
    Figure {
        /// Its metric.
        metric: String,
        /// Its subject.
        subject: String,
    },
}

/// The results in a folder that belong to one experiment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// In the order of their times.
    pub results: Vec<KeptResult>,
    /// How many results there are of other plans or machines.
    pub others: usize,
    /// How many files are older than those that were read.
    pub unread: usize,
    /// What could not be read, with the reason.
    pub damaged: Vec<(PathBuf, String)>,
}

impl KeptResult {
    /// What an outcome found, for a history.
    #[must_use]
    pub fn of(outcome: &Outcome, judgements: &[Judgement], host: &Host, at_s: u64, label: &str) -> Self {
        let plan = &outcome.plan;
        let name = |case: usize| plan.cases[case].name.clone();
        let figure = |case: usize, subject: usize, against: Option<usize>, metric: Metric, found: Estimate| Figure {
            case: name(case),
            subject: plan.subject_name(subject),
            against: against.map(|baseline| plan.subject_name(baseline)),
            metric: metric_name(metric),
            value: found.point,
            low: found.interval.low,
            high: found.interval.high,
            blocks: found.blocks,
        };
        let ratios = judgements.iter().filter_map(|judgement| {
            let baseline = plan.cases[judgement.case].baseline();
            Some(figure(judgement.case, judgement.subject, Some(baseline), judgement.metric, judgement.ratio?))
        });
        // The ratio does not tell when both have shifted.
        let subjects = plan
            .cases
            .iter()
            .enumerate()
            .flat_map(|(case, planned)| planned.subjects().map(move |subject| (case, subject)));
        let costs = subjects.filter_map(|(case, subject)| {
            let slices = outcome.blocks_of(case).filter_map(|block| block.of(Role::Subject(subject)));
            let costs: Vec<f64> = slices.map(|slice: &Slice| slice.cpu_ns_per_request).filter(|ns| *ns > 0.0).collect();
            let found = Bootstrap::with_seed(plan.seed).median_ratio(&costs).ok()?;
            Some(figure(case, subject, None, Metric::CpuNsPerRequest, found))
        });
        Self {
            format: FORMAT.to_owned(),
            at_s,
            label: shown_label(label),
            accepted: false,
            host: host.clone(),
            experiment: Fingerprint::of(plan),
            seed: plan.seed,
            figures: ratios.chain(costs).collect(),
        }
    }

    /// The result with its level as the one that is to be.
    #[must_use]
    pub fn accepted(mut self, accepted: bool) -> Self {
        self.accepted = accepted;
        self
    }

    /// When and by which label, for people.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", utc(self.at_s), self.label).trim_end().to_owned()
    }

    /// Writes it into a folder, which is made if there is none, and tells where.
    ///
    /// # Errors
    /// The system's; nothing is left of it then.
    pub fn keep(&self, folder: &Path) -> Result<PathBuf, HistoryError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| HistoryError::Io { path, source }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(folder)(error.into()))? + "\n";
        let beside = folder.join(format!(".{}.{}", self.file_name(0), std::process::id()));
        let written = fs::File::create(&beside)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .map_err(failed(&beside))
            .and_then(|()| self.named(&beside, folder));
        let _gone = fs::remove_file(&beside);
        written
    }

    /// Gives what was written beside a name of its own.
    fn named(&self, beside: &Path, folder: &Path) -> Result<PathBuf, HistoryError> {
        let mut refused = None;
        for number in 0..1000 {
            let path = folder.join(self.file_name(number));
            match fs::hard_link(beside, &path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => refused = Some(error),
                // The file system has no hard links. Another process could take the name in between, which is unlikely.
                Err(_) if !path.exists() => {
                    let moved = fs::rename(beside, &path);
                    return moved.map(|()| path.clone()).map_err(|source| HistoryError::Io { path, source });
                }
                Err(error) => refused = Some(error),
            }
        }
        let source = refused.unwrap_or_else(|| io::Error::other("there is no name left"));
        Err(HistoryError::Io { path: folder.join(self.file_name(0)), source })
    }

    /// `20261122T005000Z-label.json`, with a number where that is taken.
    fn file_name(&self, number: usize) -> String {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
        let label: String = self.label.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect();
        let time: String = utc(self.at_s).chars().filter(char::is_ascii_digit).collect();
        let (day, clock) = time.split_at(time.len().min(8));
        let mut name = format!("{day}T{clock}Z");
        if !label.is_empty() {
            name += &format!("-{label}");
        }
        if number > 0 {
            name += &format!("-{}", number + 1);
        }
        name + ".json"
    }

    /// Whether both belong to one history.
    fn belongs_to(&self, other: &Self) -> bool {
        self.experiment == other.experiment && self.host.is_like(&other.host)
    }

    /// Reads what [`KeptResult::keep`] wrote.
    ///
    /// # Errors
    /// [`KeptResultError`] says why it is none.
    pub fn parse(text: &str) -> Result<Self, KeptResultError> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        let head: Head = serde_json::from_str(text).map_err(KeptResultError::NotOurs)?;
        if head.format != FORMAT {
            return Err(KeptResultError::Format { found: head.format });
        }
        let mut result: Self = serde_json::from_str(text).map_err(KeptResultError::Content)?;
        // Another person may have written the file, and a terminal shows the label.
        result.label = shown_label(&result.label);
        let sound = |value: f64| value.is_finite() && value > 0.0;
        let bad = result.figures.iter().find(|figure| ![figure.value, figure.low, figure.high].into_iter().all(sound));
        match bad {
            Some(figure) => {
                Err(KeptResultError::Figure { metric: figure.metric.clone(), subject: figure.subject.clone() })
            }
            None => Ok(result),
        }
    }
}

impl Fingerprint {
    /// Of what a plan's results are.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let subject = |subject: &crate::plan::Subject| {
            if !["A", "B"].contains(&subject.name.as_str()) {
                return subject.name.clone();
            }
            let server = plan.servers.get(subject.server).map(|server| server.command.to_string()).unwrap_or_default();
            let load = if plan.measured == Measured::Generator { subject.load.to_string() } else { String::new() };
            let beside = subject.beside.as_ref().map(ToString::to_string).unwrap_or_default();
            [subject.name.as_str(), &server, &load, &beside].join(" | ")
        };
        let case = |case: &crate::plan::Case| {
            // Ports may be drawn anew each time.
            let path = |url: &str| url.splitn(4, '/').nth(3).unwrap_or_default().to_owned();
            let paths: Vec<String> = case
                .targets
                .iter()
                .map(|target| target.as_ref().map_or("-".to_owned(), |target| path(target.url())))
                .collect();
            format!(
                "{} | {} connections | /{} | {}",
                case.name,
                case.connections,
                paths.join(" /"),
                case.options.join(" ")
            )
        };
        Self {
            measured: plan.measured,
            subjects: plan.subjects.iter().map(subject).collect(),
            cases: plan.cases.iter().map(case).collect(),
        }
    }
}

impl History {
    /// Reads the results of a folder that belong to the same history as `now`; a folder that is not there has none.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn read(folder: &Path, now: &KeptResult) -> Result<Self, HistoryError> {
        let failed = |source| HistoryError::Io { path: folder.to_owned(), source };
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if path.extension().is_some_and(|extension| extension == "json") && !hidden {
                paths.push(path);
            }
        }
        // Names begin with the time.
        paths.sort();
        let mut history = Self { unread: paths.len().saturating_sub(MOST_FILES), ..Self::default() };
        for path in paths.drain(..).skip(history.unread) {
            match read_file(&path).and_then(|text| KeptResult::parse(&text)) {
                Ok(result) if result.belongs_to(now) => {
                    history.add(result);
                }
                Ok(_) => history.others += 1,
                Err(why) => history.damaged.push((path, why.to_string())),
            }
        }
        Ok(history)
    }

    /// Puts a result where its time is; tells whether that says something new. The same one twice is one, accepted if
    /// either is.
    pub fn add(&mut self, result: KeptResult) -> bool {
        let place = self.results.partition_point(|other| other.at_s <= result.at_s);
        let same = self.results[..place].iter_mut().rev().take_while(|other| other.at_s == result.at_s);
        if let Some(known) = same.into_iter().find(|other| other.figures == result.figures) {
            let is_new = result.accepted && !known.accepted;
            known.accepted |= result.accepted;
            if known.label.is_empty() {
                known.label = result.label;
            }
            return is_new;
        }
        self.results.insert(place, result);
        true
    }
}

/// A file's text, if it is one and not too large; nothing is waited for.
fn read_file(path: &Path) -> Result<String, KeptResultError> {
    let metadata = fs::metadata(path).map_err(KeptResultError::Read)?;
    if !metadata.is_file() {
        return Err(KeptResultError::NoFile);
    }
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text));
    read.map_err(KeptResultError::Read)?;
    if text.len() as u64 > MOST_BYTES { Err(KeptResultError::TooLong) } else { Ok(text) }
}

/// A label without what a terminal would obey, and not too long.
fn shown_label(label: &str) -> String {
    label.chars().filter(|letter| !letter.is_control()).take(MOST_LABEL).collect()
}

/// A metric's name in JSON.
fn metric_name(metric: Metric) -> String {
    serde_json::to_value(metric).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The metric of a name in JSON.
pub(super) fn metric_named(name: &str) -> Option<Metric> {
    Metric::ALL.into_iter().find(|metric| metric_name(*metric) == name)
}
