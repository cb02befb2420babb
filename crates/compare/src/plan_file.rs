//! Plans as people write them: TOML, with units, names in place of numbers, and as little as can be.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::command_line::CommandLine;
use crate::cpus::CpuSet;
use crate::metric::Measured;
use crate::plan::{
    Asked, Case, CpuAccountingChoice, PartsChoice, Pinning, Plan, Repetitions, SMALLEST_EFFECT, ServerSpec, Subject,
};
use crate::plan_mistake::PlanMistake;
use crate::plan_subject::{Reached, SubjectEntry, Surroundings};
use crate::ports::Ports;
use crate::quantity::{CpuWord, Fraction, Seconds};
use crate::target::Target;

/// Why a text is no plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanFileError {
    /// It cannot be read as a plan; the message names line and column.
    #[error("{file}: {message}")]
    Text {
        /// Which file.
        file: String,
        /// What is wrong and where.
        message: String,
    },
    /// What it says makes no experiment.
    #[error("{file}: {mistake}")]
    Meaning {
        /// Which file.
        file: String,
        /// What is wrong, and what would be right.
        mistake: PlanMistake,
    },
}

/// What a plan need not say.
#[derive(Debug, Clone, PartialEq)]
pub struct Defaults {
    /// The load of subjects without one. `--insecure` follows where the server's certificate is made for the experiment.
    pub load: CommandLine,
    /// Where servers, loads and what runs beside run.
    pub pinning: Pinning,
    /// The seed.
    pub seed: u64,
    /// The path of this program, which some ready-made servers are.
    pub weir: String,
}

/// Reads a plan. `file` is its name in messages; `{plan}` in its commands, and relative folders, mean the folder that it
/// is in.
///
/// # Errors
/// [`PlanFileError`], with the place and the remedy.
pub fn read_plan(text: &str, file: &Path, defaults: &Defaults) -> Result<Plan, PlanFileError> {
    let name = file.display().to_string();
    let read: File = toml::from_str(text).map_err(|error| PlanFileError::Text {
        file: name.clone(),
        message: error.to_string().trim_end().to_owned(),
    })?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let wrong = |mistake| PlanFileError::Meaning { file: name.clone(), mistake };
    let plan = read.into_plan(folder, defaults).map_err(wrong)?;
    plan.check().map_err(|error| wrong(error.into()))?;
    Ok(plan)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    measure: MeasureWord,
    #[serde(default)]
    restart: bool,
    start_timeout: Option<Seconds>,
    load_timeout: Option<Seconds>,
    smallest_effect: Option<Fraction>,
    seed: Option<u64>,
    load: Option<CommandLine>,
    #[serde(default)]
    cgroup: Option<bool>,
    parts: Option<PartsWord>,
    site: Option<PathBuf>,
    #[serde(default)]
    repeat: Repeat,
    #[serde(default)]
    cpus: Cpus,
    #[serde(default, rename = "subject")]
    subjects: Vec<SubjectEntry>,
    #[serde(default, rename = "case")]
    cases: Vec<CaseEntry>,
}

/// `true` and `false`, or how many slices.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "true, false or a number of observed slices")]
enum PartsWord {
    Wanted(bool),
    Slices(u32),
}

impl From<PartsWord> for PartsChoice {
    fn from(word: PartsWord) -> Self {
        match word {
            PartsWord::Wanted(true) => Self::Slices(3),
            PartsWord::Wanted(false) | PartsWord::Slices(0) => Self::Never,
            PartsWord::Slices(slices) => Self::Slices(slices),
        }
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MeasureWord {
    #[default]
    Server,
    Generator,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeat {
    blocks: Option<usize>,
    again: Option<usize>,
    slice: Option<Seconds>,
    warm_up: Option<Seconds>,
    until: Option<Fraction>,
    budget: Option<Seconds>,
    starts: Option<usize>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cpus {
    server: Option<CpuWord>,
    load: Option<CpuWord>,
    beside: Option<CpuWord>,
}

/// Connections of a case that does not say.
const CONNECTIONS: u32 = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseEntry {
    name: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    paths: BTreeMap<String, String>,
    subjects: Option<Vec<String>>,
    connections: Option<u32>,
    load: Option<CommandLine>,
}

impl Repeat {
    fn asked(&self) -> Asked {
        let seconds = |value: Option<Seconds>| value.map(|value| value.0);
        Asked {
            blocks: self.blocks,
            aa_blocks: self.again,
            block_s: seconds(self.slice),
            warm_up_s: seconds(self.warm_up),
            until: self.until.map(|until| until.0),
            budget_s: seconds(self.budget),
            starts: self.starts,
        }
    }
}

impl File {
    fn into_plan(self, folder: &Path, defaults: &Defaults) -> Result<Plan, PlanMistake> {
        let here = folder.display().to_string();
        let in_plan = |command: CommandLine| command.filled(&[("plan", here.clone())]);
        let has_load = self.load.is_some();
        let load = in_plan(self.load.unwrap_or_else(|| defaults.load.clone()));
        if self.subjects.is_empty() {
            return Err(PlanMistake::NoSubjects);
        }
        let cpus =
            |word: Option<CpuWord>, default: &Option<CpuSet>| word.map_or_else(|| default.clone(), |word| word.0);
        let server_cpus = cpus(self.cpus.server, &defaults.pinning.server);
        let surroundings = Surroundings {
            folder,
            server_cpus: &server_cpus,
            connections: self.cases.iter().map(CaseEntry::connections).max().unwrap_or(CONNECTIONS),
            weir: &defaults.weir,
        };
        let mut read = Subjects::default();
        for mut entry in self.subjects {
            let name = entry.take_name()?;
            let (load_of_its_own, beside) = (entry.load.take(), entry.beside.take().map(in_plan));
            let (server, found) = read.server(entry, &name, &surroundings)?;
            let insecure = if found.tls && !has_load { vec!["--insecure".to_owned()] } else { Vec::new() };
            let load = load_of_its_own.map_or_else(|| load.with(&insecure), in_plan);
            read.reached.push(found);
            read.subjects.push(Subject { name, server, load, beside });
        }
        let Subjects { servers, subjects, reached, .. } = read;
        let names: Vec<String> = subjects.iter().map(|subject| subject.name.clone()).collect();
        let entries = if self.cases.is_empty() { vec![CaseEntry::plain()] } else { self.cases };
        let cases = entries.into_iter().map(|case| case.into_case(&names, &reached)).collect::<Result<Vec<_>, _>>()?;
        let slices = cases.iter().map(|case| case.subjects().count()).sum();
        let measured = match self.measure {
            MeasureWord::Server => Measured::Server,
            MeasureWord::Generator => Measured::Generator,
        };
        let repetitions = Repetitions::asked(&self.repeat.asked(), measured, slices, cases.len());
        let seconds = |value: Option<Seconds>, default| value.map_or(default, |value| value.0);
        Ok(Plan {
            measured,
            servers,
            subjects,
            cases,
            repetitions,
            pinning: Pinning {
                server: server_cpus,
                load: cpus(self.cpus.load, &defaults.pinning.load),
                beside: cpus(self.cpus.beside, &defaults.pinning.beside),
            },
            restart: self.restart,
            start_timeout_s: seconds(self.start_timeout, 10.0),
            load_timeout_s: self.load_timeout.map(|value| value.0),
            smallest_effect: self.smallest_effect.map_or(SMALLEST_EFFECT, |fraction| fraction.0),
            seed: self.seed.unwrap_or(defaults.seed),
            accounting: if self.cgroup == Some(false) {
                CpuAccountingChoice::ProcessTree
            } else {
                CpuAccountingChoice::Best
            },
            parts: self.parts.map_or(PartsChoice::Auto, PartsChoice::from),
            site: self.site.map(|site| folder.join(site)),
        })
    }
}

/// The subjects that were read up to now, with their servers.
#[derive(Default)]
struct Subjects {
    servers: Vec<ServerSpec>,
    subjects: Vec<Subject>,
    /// Where each subject is reached.
    reached: Vec<Reached>,
    ports: Ports,
}

impl Subjects {
    /// The server of the next subject, and where it is reached.
    fn server(
        &mut self,
        mut entry: SubjectEntry,
        name: &str,
        surroundings: &Surroundings<'_>,
    ) -> Result<(usize, Reached), PlanMistake> {
        let Some(of) = entry.server.take() else {
            let (server, reached) = entry.into_server(name, surroundings, &mut self.ports)?;
            self.servers.push(server);
            return Ok((self.servers.len() - 1, reached));
        };
        entry.without_server(name)?;
        let known = self.subjects.iter().position(|subject| subject.name == of);
        let known = known.ok_or_else(|| PlanMistake::NotBefore { subject: name.to_owned(), of })?;
        let Reached { url, script, tls } = &self.reached[known];
        let url = entry.url.unwrap_or_else(|| url.clone());
        Ok((self.subjects[known].server, Reached { url, script: script.clone(), tls: *tls }))
    }
}

impl CaseEntry {
    /// The case of a plan without any: every subject's URL as it stands.
    fn plain() -> Self {
        let (name, path) = ("load".to_owned(), String::new());
        Self { name, path, paths: BTreeMap::new(), subjects: None, connections: None, load: None }
    }

    fn connections(&self) -> u32 {
        self.connections.unwrap_or(CONNECTIONS)
    }

    fn into_case(self, names: &[String], reached: &[Reached]) -> Result<Case, PlanMistake> {
        let named = self.subjects.iter().flatten().chain(self.paths.keys());
        if let Some(unknown) = named.into_iter().find(|name| !names.contains(*name)) {
            let (case, subject, known) = (self.name.clone(), unknown.clone(), names.join(", "));
            return Err(PlanMistake::UnknownSubject { case, subject, known });
        }
        let target = |(name, reached): (&String, &Reached)| {
            if self.subjects.as_ref().is_some_and(|chosen| !chosen.contains(name)) {
                return Ok(None);
            }
            let of = || (self.name.clone(), name.clone());
            let path = self.paths.get(name).unwrap_or(&self.path);
            let path = match (&reached.script, path.contains("{script}")) {
                (Some(script), true) => path.replace("{script}", script),
                (None, true) => {
                    let (case, subject) = of();
                    return Err(PlanMistake::NoScripts { case, subject });
                }
                _ => path.clone(),
            };
            // One slash between them, wherever it was written.
            let url = &reached.url;
            let whole = match (url.strip_suffix('/'), path.strip_prefix('/')) {
                _ if path.is_empty() => url.clone(),
                (Some(url), Some(path)) => format!("{url}/{path}"),
                (None, None) => format!("{url}/{path}"),
                _ => format!("{url}{path}"),
            };
            whole.parse::<Target>().map(Some).map_err(|source| {
                let (case, subject) = of();
                PlanMistake::Target { case, subject, source }
            })
        };
        Ok(Case {
            targets: names.iter().zip(reached).map(target).collect::<Result<_, _>>()?,
            connections: self.connections(),
            options: self.load.map_or_else(Vec::new, |words| words.words().to_vec()),
            name: self.name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Readiness;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Plan, String> {
        let defaults = Defaults {
            load: "weir load {url}".parse().expect("a command"),
            pinning: Pinning { server: CpuSet::one(0).ok(), load: None, beside: None },
            seed: 9,
            weir: "weir".to_owned(),
        };
        read_plan(text, Path::new("here/plan.toml"), &defaults).map_err(|error| error.to_string())
    }

    const WHOLE: &str = r#"
        seed = 7
        smallest_effect = "2%"
        restart = true
        start_timeout = "500ms"
        [repeat]
        blocks = 30
        again = 30
        slice = 0.5
        warm_up = "200ms"
        until = "1%"
        budget = "10m"
        [cpus]
        load = 1
        beside = "any"
        [[subject]]
        name = "nginx"
        command = "nginx -c {plan}/nginx.conf"
        stop = "nginx -s stop"
        ready = "curl -f http://127.0.0.1:8081/"
        environment = { TZ = "UTC" }
        folder = "site"
        cpus = "0-1"
        url = "http://127.0.0.1:8081"
        [[subject]]
        name = "observed"
        server = "nginx"
        beside = "weir record --pid {pid}"
        [[case]]
        name = "small"
        path = "1k.txt"
        connections = 100
        load = "--rate 1000"
        [[case]]
        name = "script"
        paths = { nginx = "/x.php?a" }
        subjects = ["nginx"]
    "#;

    #[test]
    fn a_whole_plan_is_read() {
        let plan = read(WHOLE).expect("a plan");
        assert_eq!((plan.seed, plan.smallest_effect, plan.restart, plan.start_timeout_s), (7, 0.02, true, 0.5));
        let repetitions = Repetitions {
            blocks: 30,
            aa_blocks: 30,
            block_s: 0.5,
            warm_up_s: 0.2,
            until: Some(0.01),
            budget_s: Some(600.0),
            starts: None,
        };
        assert_eq!(plan.repetitions, repetitions);
        let server = &plan.servers[0];
        assert_eq!(server.command.to_string(), "nginx -c here/nginx.conf");
        assert_eq!(server.folder.as_deref(), Some(Path::new("here/site")));
        assert_eq!(server.environment["TZ"], "UTC");
        assert!(server.stop.is_some() && matches!(server.ready, Readiness::Command(_)) && server.cpus.is_some());
        assert_eq!((plan.servers.len(), plan.subjects.len(), plan.subjects[1].server), (1, 2, 0));
        let urls = |case: usize| -> Vec<Option<&str>> {
            plan.cases[case].targets.iter().map(|target| target.as_ref().map(Target::url)).collect()
        };
        assert_eq!(urls(0), [Some("http://127.0.0.1:8081/1k.txt"); 2]);
        assert_eq!(urls(1), [Some("http://127.0.0.1:8081/x.php?a"), None]);
        assert_eq!(plan.cases[0].options, ["--rate", "1000"]);
        assert_eq!((&plan.pinning.server, &plan.pinning.load), (&CpuSet::one(0).ok(), &CpuSet::one(1).ok()));
    }

    #[test]
    fn load_generators_are_compared_by_whole_seconds() {
        let lengths = |measure: &str, slice: &str| {
            let plan = read(&format!(
                "measure = '{measure}'\n[repeat]\n{slice}\n[[subject]]\nname = 'a'\ncommand = 'server'\nurl = 'http://127.0.0.1:1'\n\
                 [[subject]]\nname = 'b'\nserver = 'a'\nload = 'wrk -d{{seconds}}s {{url}}'\n"
            ))
            .expect("a plan");
            (plan.repetitions.block_s, plan.repetitions.warm_up_s)
        };
        assert_eq!(lengths("generator", ""), (1.0, 1.0), "most generators know nothing shorter");
        assert_eq!(lengths("generator", "slice = '2s'"), (2.0, 1.0));
        assert_eq!(lengths("server", ""), (0.3, 0.1));
    }

    #[test]
    fn ready_made_servers_take_a_line() {
        let plan = read(
            "site = 'docs'\n[[subject]]\nfrom = 'nginx'\nport = 8090\n[[subject]]\nfrom = 'apache-mod-php'\nname = 'php'\n\
             settings = 'LimitRequestLine 100'\n[[case]]\nname = 'c'\npath = '/x.{script}'\nsubjects = ['php']\n\
             connections = 200\n[[case]]\nname = 'd'\npath = '/1k.txt'\n",
        )
        .expect("a plan");
        assert_eq!((plan.subjects[0].name.as_str(), plan.subjects[1].name.as_str()), ("nginx", "php"));
        assert_eq!(plan.site.as_deref(), Some(Path::new("here/docs")));
        let url = |case: usize, subject: usize| plan.cases[case].targets[subject].as_ref().map(Target::url);
        assert_eq!((url(0, 0), url(1, 0)), (None, Some("http://127.0.0.1:8090/1k.txt")));
        assert!(url(0, 1).is_some_and(|url| url.ends_with("/x.php") && !url.contains(":8090")), "{:?}", url(0, 1));
        assert!(plan.servers[0].files["server.conf"].contains("listen 127.0.0.1:8090 "));
        assert!(plan.servers[1].files["server.conf"].contains("LimitRequestLine 100"));
        assert!(plan.servers[1].files["apache-prefork.conf"].contains("MaxRequestWorkers 208"));
        assert!(plan.servers[1].needs.iter().any(|need| need.package == "libapache2-mod-php8.2"));
    }

    #[test]
    fn little_is_enough() {
        let plan = read("[[subject]]\nname = 'a'\ncommand = 'x'\nurl = 'http://h/'\n").expect("a plan");
        assert_eq!((plan.seed, plan.repetitions.blocks, plan.repetitions.aa_blocks), (9, 100, 100));
        assert_eq!(plan.cases[0].targets[0].as_ref().map(Target::url), Some("http://h/"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let subject = "[[subject]]\nname = 'a'\ncommand = 'x'\nurl = 'http://h/'\n";
        for (text, words) in [
            (String::new(), ["here/plan.toml", "[[subject]]"]),
            (format!("blocks = 3\n{subject}"), ["line 1", "blocks"]),
            (format!("{subject}[repeat]\nslice = 'soon'\n"), ["line 6", "500ms"]),
            (format!("smallest_effect = 5\n{subject}"), ["line 1", "5%"]),
            (format!("{subject}{subject}"), ["two subjects", "\"a\""]),
            ("[[subject]]\nname = 'a'\n".to_owned(), ["needs command", "\"a\""]),
            ("[[subject]]\nurl = 'http://h/'\n".to_owned(), ["name", "subject"]),
            ("[[subject]]\nfrom = 'iis'\n".to_owned(), ["\"iis\"", "nginx"]),
            ("[[subject]]\nfrom = 'nginx'\nstop = 'x'\n".to_owned(), ["\"nginx\"", "stop"]),
            ("[[subject]]\nfrom = 'weir'\nsettings = 'x'\n".to_owned(), ["\"weir\"", "no settings"]),
            (format!("{subject}port = 1\n"), ["\"a\"", "port"]),
            (format!("{subject}files = {{ '../x' = '' }}\n"), ["a", "\"../x\""]),
            (
                "[[subject]]\nfrom = 'nginx'\n[[case]]\nname = 'c'\npath = 'x.{script}'\n".to_owned(),
                ["no scripts", "subjects"],
            ),
            ("[[subject]]\nname = 'a'\nserver = 'b'\n".to_owned(), ["\"b\"", "before it"]),
            ("[[subject]]\nname = 'a'\ncommand = 'x'\n".to_owned(), ["needs url", "\"a\""]),
            (format!("{subject}[[case]]\nname = 'c'\nsubjects = ['z']\n"), ["\"z\"", "there are a"]),
            (format!("{subject}[repeat]\nblocks = 0\n"), ["blocks is 0", "within"]),
            ("[[subject]]\nname = 'a'\ncommand = '\"'\nurl = 'http://h/'\n".to_owned(), ["line 3", "quote"]),
            ("[[subject]]\nname = 'a'\ncommand = 'x'\nurl = 'h'\n".to_owned(), ["subject \"a\"", "http://"]),
        ] {
            let error = read(&text).expect_err(&text);
            assert!(words.iter().all(|word| error.contains(word)), "{words:?} are not in {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "(?s)(\\[\\[?(subject|case|repeat|cpus)\\]\\]?\n|(name|url|command|server|from|blocks|slice) = |'(nginx|weir|[a-z/:%]{0,6})'\n|[0-9.]{1,3}\n|\\PC|\n){0,40}") {
            let _plan_or_not = read(&text);
        }
    }
}
