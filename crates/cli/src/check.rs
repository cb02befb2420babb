//! The `weir check` command: looks for mistakes in files that other commands read.

use crate::cluster::members::MembersFile;
use crate::cluster::rules;
use crate::given_files::{ARM_BYTES_MAX, read_policy};
use crate::serve_policy::{PolicyArgs, Settings, Source, UPSTREAM_REMEDY, WORKERS_REMEDY, Wrong, ids};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_adapt::Policy;
use weir_diagnostic::Mistake;
use weir_server::{ArmRules, ConfigurationError, LogTarget, read_configuration, read_script_server};
use weir_terminal::output;
use weir_terminal::text_file;

const EXAMPLES: &str = "\
Examples:
  weir check weir.toml
      a configuration of weir serve
  weir check weir.toml && kill -HUP $(pidof weir)
      and have a running server reload it, if it has no mistake
  weir check shop.arm
      directives for weir serve --arm
  weir check flood.policy
      rules by which a server adapts
  weir check --cluster /etc/weir/cluster nodes.policy
      rules over the nodes of a cluster, for weir cluster rules
  weir check --format flood.policy > tidy.policy
      the same rules in the standard format
  weir check --json weir.toml | jq .mistakes
      for a program

Each mistake is printed with FILE:LINE:COLUMN, what is wrong and the remedy.
What a configuration names must exist: directories, pages, users, logs. The
server must be able to carry out its rules.
A file whose name ends in .arm has ARM directives, in .policy or .weir-policy
rules; any other file is a configuration, with [[scripts]] one of a script
server.
It also warns of what is seldom intended, such as a redirect to itself, a
certificate for no host, or passwords in the clear. A warning is no mistake.

Exit status: 0 without a mistake, 1 with one, 2 if a file cannot be read.";

/// Look for mistakes in files that other commands read.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Print mistakes and warnings as JSON
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Print a file of rules in the standard format, comments included
    #[arg(long)]
    format: bool,

    /// Check rules over the nodes of the cluster whose members are in DIR, rather than those of one server
    #[arg(long, value_name = "DIR", conflicts_with = "format")]
    cluster: Option<PathBuf>,
}

/// What is said of one file.
#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    kind: &'static str,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    mistakes: Vec<Mistake>,
    /// Warnings: what is accepted, but seldom intended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Mistake>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.format {
        return format(&args.files);
    }
    let checked: Vec<Checked> = match &args.cluster {
        None => args.files.iter().flat_map(|file| check(file)).collect(),
        Some(folder) => {
            let members = MembersFile::read(folder)?;
            args.files.iter().map(|file| over_nodes(file, &members)).collect()
        }
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&checked)?);
    } else {
        for one in &checked {
            tell(one);
        }
    }
    Ok(if checked.iter().any(|one| one.unreadable.is_some()) {
        ExitCode::from(2)
    } else {
        ExitCode::from(u8::from(checked.iter().any(|one| !one.mistakes.is_empty())))
    })
}

/// What a file is, by the end of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Arm,
    Configuration,
    Policy,
}

impl Kind {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("arm") => Self::Arm,
            Some("policy" | "weir-policy") => Self::Policy,
            _ => Self::Configuration,
        }
    }
}

/// The file, and the rules that it names if it is a configuration.
fn check(path: &Path) -> Vec<Checked> {
    let file = path.display().to_string();
    match Kind::of(path) {
        Kind::Policy => vec![policy(path, file, None)],
        Kind::Arm => vec![of_mistakes(file, "ARM directives", arm(path))],
        Kind::Configuration if is_of_script_server(path) => vec![script_server(path, file)],
        Kind::Configuration => configuration(path, file),
    }
}

/// Whether it has a table that only a script server has.
fn is_of_script_server(path: &Path) -> bool {
    read_policy(path).is_ok_and(|text| text.lines().any(|line| line.trim_start().starts_with("[[scripts]]")))
}

fn script_server(path: &Path, file: String) -> Checked {
    let kind = "script server";
    match read_script_server(path) {
        Ok(options) => Checked { file, kind, unreadable: None, mistakes: Vec::new(), warnings: options.warnings },
        Err(ConfigurationError::Mistaken { mistakes, .. }) => of_mistakes(file, kind, (None, mistakes)),
        Err(ConfigurationError::Unreadable { source, .. }) => {
            of_mistakes(file, kind, (Some(source.to_string()), Vec::new()))
        }
    }
}

fn of_mistakes(file: String, kind: &'static str, (unreadable, mistakes): (Option<String>, Vec<Mistake>)) -> Checked {
    Checked { file, kind, unreadable, mistakes, warnings: Vec::new() }
}

/// Checks rules, and with the settings of a configuration that names them also whether the server can use them.
fn policy(path: &Path, file: String, used: Option<&Settings>) -> Checked {
    let kind = "policy";
    match read_policy(path) {
        Err(error) => {
            let unreadable = Some(error.to_string());
            Checked { file, kind, unreadable, mistakes: Vec::new(), warnings: Vec::new() }
        }
        Ok(text) => {
            let weir_adapt::Checked { mut mistakes, mut warnings } = weir_adapt::check_policy(&text);
            if let Some((used, (policy, _))) = used.zip(Policy::read(&file, &text).ok()) {
                let at_first =
                    |what| Mistake { line: 1, column: 1, what, remedy: "name it by `node` in [policy]".to_owned() };
                if policy.rules() == 0 {
                    // The server takes no such file.
                    mistakes.append(&mut warnings);
                }
                warnings.extend(used.doubt(&policy).map(at_first));
                warnings.extend(used.unknown_node(&policy).map(|what| {
                    let remedy = UPSTREAM_REMEDY.to_owned();
                    Mistake { line: 1, column: 1, what, remedy }
                }));
                warnings.extend(used.unknown_workers(&policy).map(|what| {
                    let remedy = WORKERS_REMEDY.to_owned();
                    Mistake { line: 1, column: 1, what, remedy }
                }));
                mistakes.extend(used.setup().engine(policy).err().map(|error| {
                    let (line, what, remedy) = (error.line(), error.what(), error.remedy().to_owned());
                    let begin = text.lines().nth(line - 1).map_or("", |line| &line[..line.find("rule").unwrap_or(0)]);
                    Mistake { line, column: begin.chars().count() + 1, what, remedy }
                }));
            }
            Checked { file, kind, unreadable: None, mistakes, warnings }
        }
    }
}

/// Checks rules over the nodes of a cluster.
fn over_nodes(path: &Path, members: &MembersFile) -> Checked {
    let (file, kind) = (path.display().to_string(), "policy over nodes");
    let text = match read_policy(path) {
        Ok(text) => text,
        Err(error) => return of_mistakes(file, kind, (Some(error.to_string()), Vec::new())),
    };
    let nodes = members.nodes.values().map(|(reached, _)| reached.member.name.to_string()).collect();
    let mistakes = rules::read(&file, &text, &nodes).err().unwrap_or_default();
    Checked { warnings: weir_adapt::check_policy(&text).warnings, ..of_mistakes(file, kind, (None, mistakes)) }
}

/// Prints the files, which must be policies.
fn format(files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut exit = 0;
    for path in files {
        let file = path.display();
        if Kind::of(path) != Kind::Policy {
            eprintln!("weir check: {file}: only rules can be formatted; name their file .policy");
            return Ok(ExitCode::from(2));
        }
        let text = match read_policy(path) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("weir check: {file}: {error}");
                return Ok(ExitCode::from(2));
            }
        };
        match weir_adapt::format_policy(&text) {
            Ok(formatted) => output::print(&formatted)?,
            Err(mistakes) => {
                mistakes.iter().for_each(|mistake| eprintln!("{file}:{mistake}"));
                exit = 1;
            }
        }
    }
    Ok(ExitCode::from(exit))
}

/// All that the server looks at before it listens.
fn configuration(path: &Path, file: String) -> Vec<Checked> {
    let kind = "configuration";
    let options = match read_configuration(path) {
        Ok(options) => options,
        Err(ConfigurationError::Mistaken { mistakes, .. }) => return vec![of_mistakes(file, kind, (None, mistakes))],
        Err(ConfigurationError::Unreadable { source, .. }) => {
            return vec![of_mistakes(file, kind, (Some(source.to_string()), Vec::new()))];
        }
    };
    let (settings, wrong) = match Settings::of(&PolicyArgs::default(), &options) {
        Ok(settings) => (settings, Vec::new()),
        Err(wrong) => (None, wrong),
    };
    let place = |Wrong { source, what, remedy }: Wrong| match source {
        Source::Place(line, column) => Mistake { line, column, what, remedy },
        Source::Option(_) => Mistake { line: 1, column: 1, what, remedy },
    };
    let mut mistakes: Vec<Mistake> = wrong.into_iter().map(place).collect();
    let text = read_policy(path).unwrap_or_default();
    mistakes.extend(options.user.as_deref().filter(|user| ids(user).is_err()).map(|user| {
        let what = format!("there is no user `{user}` on this machine");
        Mistake { what, remedy: "give one that is in /etc/passwd".to_owned(), ..of_key(&text, "user") }
    }));
    let log = options.access_log.as_ref().and_then(|log| match &log.target {
        LogTarget::File(path) => Some(path),
        LogTarget::Stdout => None,
    });
    mistakes.extend(log.and_then(|log| {
        let folder = log.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir());
        let what = match folder {
            Some(folder) => format!("the log cannot be made, as {} is no directory", folder.display()),
            None if log.is_dir() => format!("{} is a directory", log.display()),
            None => return None,
        };
        Some(Mistake { what, remedy: "make its directory, or give another file".to_owned(), ..of_key(&text, "file") })
    }));
    let rules = settings.as_ref().map(|used| policy(&used.file, used.file.display().to_string(), Some(used)));
    // If something else is wrong, the rules are checked by themselves.
    let rules = rules.or_else(|| {
        let file = &options.policy.as_ref()?.file;
        Some(policy(file, file.display().to_string(), None))
    });
    let of_file = Checked { file, kind, unreadable: None, mistakes, warnings: options.warnings };
    std::iter::once(of_file).chain(rules).collect()
}

/// The place of the first line that begins with a key.
fn of_key(text: &str, key: &str) -> Mistake {
    let is_of_key =
        |line: &str| line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
    let line = text.lines().position(is_of_key).map_or(1, |at| at + 1);
    Mistake { line, column: 1, what: String::new(), remedy: String::new() }
}

fn arm(path: &Path) -> (Option<String>, Vec<Mistake>) {
    match text_file::read(path, ARM_BYTES_MAX) {
        Err(error) => (Some(error.to_string()), Vec::new()),
        Ok(text) => {
            let mistake = text.parse::<ArmRules>().err().map(|error| {
                let (what, remedy) = error.what.split_once(": ").unwrap_or((&error.what, "see weir serve --help"));
                Mistake { line: error.line, column: 1, what: what.to_owned(), remedy: remedy.to_owned() }
            });
            (None, mistake.into_iter().collect())
        }
    }
}

fn tell(Checked { file, kind, unreadable, mistakes, warnings }: &Checked) {
    if let Some(why) = unreadable {
        return eprintln!("weir check: {file}: {why}");
    }
    for Mistake { line, column, what, remedy } in mistakes {
        println!("{file}:{line}:{column}: {what}; {remedy}");
    }
    for Mistake { line, column, what, remedy } in warnings {
        println!("{file}:{line}:{column}: warning: {what}; {remedy}");
    }
    if mistakes.is_empty() {
        println!("{file}: {kind} without mistakes");
    }
}
