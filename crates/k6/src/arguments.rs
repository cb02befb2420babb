//! k6's command line.

use crate::options::Given;
use crate::output::Output;
use crate::script::Bounds;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Asked {
    Run(Box<Arguments>),
    Help,
    Version,
}

/// A run as it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) script: PathBuf,
    pub(crate) given: Given,
    /// Variables of `-e`.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) without_system_env: bool,
    pub(crate) without_setup: bool,
    pub(crate) without_teardown: bool,
    pub(crate) without_thresholds: bool,
    pub(crate) without_summary: bool,
    pub(crate) summary_export: Option<PathBuf>,
    /// Where values go one by one.
    pub(crate) outputs: Vec<Output>,
    /// A file of options, which come behind the script's.
    pub(crate) config: Option<PathBuf>,
    pub(crate) quiet: bool,
    pub(crate) without_colours: bool,
    pub(crate) bounds: Bounds,
    /// Options that have no effect here.
    pub(crate) without_effect: Vec<String>,
}

/// Why a command line cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("no script is given; give its file")]
    NoScript,
    #[error("{0}: one script is run, and one is there already")]
    TwoScripts(String),
    #[error("a script from standard input (-) is not read; give a file")]
    Stdin,
    #[error("{0}: of k6's commands only run is there")]
    Command(String),
    #[error("{0}: no such option; weir k6 --help lists them")]
    Unknown(String),
    #[error("{option} is refused: {why}")]
    Refused { option: String, why: &'static str },
    #[error("{0} needs a value")]
    NoValue(String),
    #[error("{option} {value}: {wanted} is needed")]
    Value { option: String, value: String, wanted: &'static str },
}

const SHORT: [(&str, &str); 10] = [
    ("-u", "--vus"),
    ("-d", "--duration"),
    ("-i", "--iterations"),
    ("-s", "--stage"),
    ("-e", "--env"),
    ("-o", "--out"),
    ("-q", "--quiet"),
    ("-w", "--throw"),
    ("-c", "--config"),
    ("-h", "--help"),
];
/// What outputs there are.
const OUTPUTS: &str =
    "json=FILE or csv=FILE (other outputs are not there: send such a file on, or take --summary-export FILE)";
/// Options without a value.
const SWITCHES: [&str; 17] = [
    "--no-setup",
    "--no-teardown",
    "--no-thresholds",
    "--no-summary",
    "--insecure-skip-tls-verify",
    "--no-connection-reuse",
    "--no-vu-connection-reuse",
    "--discard-response-bodies",
    "--throw",
    "--quiet",
    "--no-color",
    "--include-system-env-vars",
    "--no-usage-report",
    "--help",
    "--version",
    "--verbose",
    "--linger",
];
const REFUSED: [(&str, &str); 12] = [
    ("--rps", "requests are not held back as a whole; use the executor constant-arrival-rate"),
    ("--http-debug", "messages are not printed; use console.log in the script"),
    ("--execution-segment", "one process runs the whole test"),
    ("--execution-segment-sequence", "one process runs the whole test"),
    ("--paused", "a run cannot begin paused"),
    ("--blacklist-ip", "addresses are not kept out"),
    ("--block-hostnames", "names are not kept out"),
    ("--local-ips", "the kernel chooses the address that connections come from"),
    ("--console-output", "the log goes to standard error; redirect that"),
    ("--address", "there is no server of k6's to control a run"),
    ("--type", "a script is JavaScript; archives are not read"),
    ("--profiling-enabled", "there is no server of k6's"),
];
/// Options that say nothing about the load.
const WITHOUT_EFFECT: [&str; 8] = [
    "--no-usage-report",
    "--linger",
    "--verbose",
    "--system-tags",
    "--dns",
    "--compatibility-mode",
    "--log-format",
    "--log-output",
];

/// Reads the words behind the program's name.
pub(crate) fn parse(words: &[String]) -> Result<Asked, UsageError> {
    let mut arguments = Arguments::default();
    let mut script: Option<String> = None;
    let mut words = words.iter().map(String::as_str).peekable();
    match words.peek() {
        Some(&"run") => drop(words.next()),
        Some(&"version") => return Ok(Asked::Version),
        Some(&"help") => return Ok(Asked::Help),
        Some(other) if is_command(other) => return Err(UsageError::Command((*other).to_owned())),
        _ => {}
    }
    while let Some(word) = words.next() {
        if word == "-" {
            return Err(UsageError::Stdin);
        }
        if !word.starts_with('-') {
            if script.replace(word.to_owned()).is_some() {
                return Err(UsageError::TwoScripts(word.to_owned()));
            }
            continue;
        }
        let (name, inline) = spelled(word);
        if name == "--help" || name == "--version" {
            return Ok(if name == "--help" { Asked::Help } else { Asked::Version });
        }
        if let Some((option, why)) = REFUSED.into_iter().find(|(refused, _)| *refused == name) {
            return Err(UsageError::Refused { option: option.to_owned(), why });
        }
        let is_switch = SWITCHES.contains(&name.as_str());
        let value = match (inline, is_switch) {
            (Some(value), _) => value,
            (None, true) => "true".to_owned(),
            (None, false) => words.next().ok_or_else(|| UsageError::NoValue(name.clone()))?.to_owned(),
        };
        if WITHOUT_EFFECT.contains(&name.as_str()) {
            arguments.without_effect.push(format!("option {name} has no effect here"));
        } else {
            arguments.set(&name, &value)?;
        }
    }
    arguments.script = script.ok_or(UsageError::NoScript)?.into();
    Ok(Asked::Run(Box::new(arguments)))
}

fn is_command(word: &str) -> bool {
    ["archive", "cloud", "inspect", "new", "pause", "resume", "scale", "stats", "status", "login", "deps", "x"]
        .contains(&word)
}

/// The long name of an option, and the value that stands within the same word.
fn spelled(word: &str) -> (String, Option<String>) {
    if word.starts_with("--") {
        return match word.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (word.to_owned(), None),
        };
    }
    let short = word.get(..2).unwrap_or(word);
    let rest = word.get(2..).unwrap_or_default();
    let long = SHORT.into_iter().find(|(known, _)| *known == short).map_or(short, |(_, long)| long);
    let rest = rest.strip_prefix('=').unwrap_or(rest);
    (long.to_owned(), (!rest.is_empty()).then(|| rest.to_owned()))
}

impl Arguments {
    fn set(&mut self, name: &str, value: &str) -> Result<(), UsageError> {
        let wrong = |wanted| UsageError::Value { option: name.to_owned(), value: value.to_owned(), wanted };
        let truth = || value.parse::<bool>().map_err(|_| wrong("true or false"));
        let whole = || value.parse::<u64>().map_err(|_| wrong("a whole number"));
        let duration = || crate::time::duration(value).ok_or_else(|| wrong("a duration such as 30s"));
        let pair = || value.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| wrong("NAME=VALUE"));
        let mut option = |option: &str, value: Value| {
            self.given.options.insert(option.to_owned(), value);
        };
        match name {
            "--vus" => option("vus", json!(whole()?)),
            "--iterations" => option("iterations", json!(whole()?)),
            "--max-redirects" => option("maxRedirects", json!(whole()?)),
            "--batch" => option("batch", json!(whole()?)),
            "--batch-per-host" => option("batchPerHost", json!(whole()?)),
            "--duration" => duration().map(|_| option("duration", json!(value)))?,
            "--min-iteration-duration" => duration().map(|_| option("minIterationDuration", json!(value)))?,
            "--user-agent" => option("userAgent", json!(value)),
            "--summary-time-unit" => option("summaryTimeUnit", json!(value)),
            "--summary-trend-stats" => {
                option("summaryTrendStats", value.split(',').map(|stat| json!(stat.trim())).collect());
            }
            "--insecure-skip-tls-verify" => option("insecureSkipTLSVerify", json!(truth()?)),
            "--no-connection-reuse" => option("noConnectionReuse", json!(truth()?)),
            "--no-vu-connection-reuse" => option("noVUConnectionReuse", json!(truth()?)),
            "--discard-response-bodies" => option("discardResponseBodies", json!(truth()?)),
            "--throw" => option("throw", json!(truth()?)),
            "--stage" => self.add_stages(value).ok_or_else(|| wrong("DURATION:TARGET, such as 30s:10"))?,
            "--tag" => {
                let (key, value) = pair()?;
                let tags = self.given.options.entry("tags").or_insert_with(|| json!({}));
                tags[key] = json!(value);
            }
            "--env" => {
                let (key, value) = match value.split_once('=') {
                    Some((key, value)) => (key, value.to_owned()),
                    None => (value, std::env::var(value).unwrap_or_default()),
                };
                self.env.insert(key.to_owned(), value);
            }
            "--no-setup" => self.without_setup = truth()?,
            "--no-teardown" => self.without_teardown = truth()?,
            "--no-thresholds" => self.without_thresholds = truth()?,
            "--no-summary" => self.without_summary = truth()?,
            "--summary-mode" => match value {
                "compact" => {}
                "disabled" => self.without_summary = true,
                _ => return Err(wrong("compact or disabled")),
            },
            "--summary-export" => self.summary_export = Some(value.into()),
            "--out" => self.outputs.push(Output::parse(value).ok_or_else(|| wrong(OUTPUTS))?),
            "--config" => self.config = Some(value.into()),
            "--quiet" => self.quiet = truth()?,
            "--no-color" => self.without_colours = truth()?,
            "--include-system-env-vars" => self.without_system_env = !truth()?,
            "--script-limit" => {
                self.bounds.turn =
                    duration().ok().filter(|turn| !turn.is_zero()).ok_or_else(|| wrong("a time over 0"))?;
            }
            "--memory-limit" => {
                let mebibytes = whole()?;
                if !(1..=65_536).contains(&mebibytes) {
                    return Err(wrong("a number of MiB from 1 to 65536"));
                }
                self.bounds.memory_bytes = (mebibytes as usize) << 20;
            }
            _ => return Err(UsageError::Unknown(name.to_owned())),
        }
        Ok(())
    }

    fn add_stages(&mut self, text: &str) -> Option<()> {
        let list = self.given.options.entry("stages").or_insert_with(|| json!([]));
        for one in text.split(',') {
            let (duration, target) = one.split_once(':')?;
            crate::time::duration(duration)?;
            let target: u32 = target.trim().parse().ok()?;
            list.as_array_mut()?.push(json!({ "duration": duration, "target": target }));
        }
        Some(())
    }

    /// The variables that scripts see.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let mut all: BTreeMap<String, String> = if self.without_system_env {
            BTreeMap::new()
        } else {
            let text = |text: std::ffi::OsString| text.into_string().ok();
            std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
        };
        all.extend(self.env.clone());
        all
    }

    /// Options of the environment, which come behind those of the command line.
    pub(crate) fn take_environment(&mut self, variable: impl Fn(&str) -> Option<String>) -> Result<(), UsageError> {
        if let Some(outputs) = variable("K6_OUT").filter(|outputs| !outputs.is_empty() && self.outputs.is_empty()) {
            outputs.split(',').try_for_each(|output| self.set("--out", output))?;
        }
        let runs = ["vus", "duration", "iterations", "stages"];
        if runs.iter().any(|option| self.given.options.contains_key(*option)) {
            return Ok(());
        }
        for (name, option) in [
            ("K6_VUS", "--vus"),
            ("K6_DURATION", "--duration"),
            ("K6_ITERATIONS", "--iterations"),
            ("K6_STAGES", "--stage"),
        ] {
            if let Some(value) = variable(name).filter(|value| !value.is_empty()) {
                self.set(option, &value)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Asked, UsageError> {
        parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_as_k6_spells_them() {
        let asked =
            read(&["run", "-u5", "-d", "30s", "--stage=10s:5,1m:0", "-e", "A=b=c", "--tag", "x=y", "t.js", "--quiet"]);
        let Ok(Asked::Run(asked)) = asked else { panic!("{asked:?}") };
        assert_eq!((asked.script.to_str(), asked.quiet, asked.env["A"].as_str()), (Some("t.js"), true, "b=c"));
        let options = Value::Object(asked.given.options.clone());
        assert_eq!(
            (&options["vus"], &options["duration"], &options["tags"]),
            (&json!(5), &json!("30s"), &json!({"x": "y"}))
        );
        assert_eq!(options["stages"][1], json!({"duration": "1m", "target": 0}));
        assert!(matches!(read(&["t.js"]), Ok(Asked::Run(_))));
        assert!(matches!(read(&["run", "-h"]), Ok(Asked::Help)));
    }

    #[test]
    fn wrong_words_are_refused() {
        assert!(matches!(read(&["run"]), Err(UsageError::NoScript)));
        assert!(matches!(read(&["cloud", "t.js"]), Err(UsageError::Command(_))));
        assert!(matches!(read(&["run", "--out", "influxdb=http://h", "t.js"]), Err(UsageError::Value { .. })));
        assert!(matches!(read(&["run", "--rps", "5", "t.js"]), Err(UsageError::Refused { .. })));
        assert!(matches!(
            read(&["run", "--nothing", "t.js"]),
            Err(UsageError::NoValue(_)) | Err(UsageError::Unknown(_))
        ));
        assert!(matches!(read(&["run", "--vus", "x", "t.js"]), Err(UsageError::Value { .. })));
        assert!(matches!(read(&["a.js", "b.js"]), Err(UsageError::TwoScripts(_))));
        assert!(matches!(read(&["run", "--vus"]), Err(UsageError::NoValue(_))));
    }
}
