//! The words of a command line that go to workers: how to load. Others are the orchestrator's own, or refused.

use super::super::args::Args;
use super::super::load_args::loading_options;
use super::super::usage::Usage;
use anyhow::anyhow;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// Options of a load that are of one generator or one host, and that no worker obeys.
const OF_ONE: [&str; 10] = [
    "cpu",
    "source",
    "unix",
    "flash_crowd",
    "client_requests",
    "client_pause",
    "hot_files",
    "stream",
    "between_at_most",
    "stream_for",
];

/// Options that each worker obeys for its part, beside those that say how to load.
const BESIDE: [&str; 6] = ["url", "duration", "io", "slo", "check", "ok"];

/// Whether each worker obeys an option for its part.
fn is_shared(id: &str) -> bool {
    BESIDE.contains(&id) || loading_options().any(|name| name == id) && !OF_ONE.contains(&id)
}

/// Options that the orchestrator obeys alone.
const OWN: &[&str] = &[
    "workers",
    "worker_cert",
    "worker_key",
    "worker_ca",
    "remote_weir",
    "ssh_config",
    "run",
    "json",
    "quiet",
    "verbose",
    "interval",
    "csv",
    "html",
    "hgrm",
    "hdr_log",
    "ndjson",
    "prometheus",
    "prometheus_listen",
    "prometheus_push",
    "junit",
    "markdown",
    "github",
    "baseline",
    "fail_on",
];

/// The command whose options are meant.
fn command() -> Command {
    <Args as clap::Args>::augment_args(Command::new("load"))
}

/// The words of this process's command line that go to workers.
pub(crate) fn words() -> Result<Vec<String>, Usage> {
    // They were taken before.
    let matches = command().try_get_matches_from(std::env::args_os().skip(1))?;
    passed_on(&matches)
}

/// What a worker makes of words: nothing but what it may obey.
pub(super) fn taken(words: &[String]) -> Result<ArgMatches, Usage> {
    let matches = command().no_binary_name(true).try_get_matches_from(words)?;
    for argument in command().get_arguments() {
        let id = argument.get_id().as_str();
        if given(&matches, id) && !is_shared(id) {
            return Err(anyhow!("{} is no option of a worker's", spelled(argument)).into());
        }
    }
    Ok(matches)
}

fn given(matches: &ArgMatches, id: &str) -> bool {
    matches.ids().any(|known| known.as_str() == id) && matches.value_source(id) == Some(ValueSource::CommandLine)
}

fn spelled(argument: &clap::Arg) -> String {
    format!("--{}", argument.get_long().unwrap_or(argument.get_id().as_str()))
}

fn passed_on(matches: &ArgMatches) -> Result<Vec<String>, Usage> {
    let (mut words, mut refused) = (Vec::new(), Vec::new());
    for argument in command().get_arguments() {
        let id = argument.get_id().as_str();
        if !given(matches, id) || OWN.contains(&id) {
            continue;
        }
        if !is_shared(id) {
            refused.push(spelled(argument));
            continue;
        }
        match matches.get_raw(id) {
            Some(values) if argument.get_action().takes_values() => {
                for value in values {
                    let value = value.to_str().ok_or_else(|| {
                        anyhow!("{}: its value is not UTF-8, and goes to workers as text", spelled(argument))
                    })?;
                    words.push(match argument.get_long() {
                        Some(long) => format!("--{long}={value}"),
                        None => value.to_owned(),
                    });
                }
            }
            _ => words.push(spelled(argument)),
        }
    }
    if refused.is_empty() {
        return Ok(words);
    }
    Err(anyhow!("{}: cannot be shared by workers; leave it out, or --workers", refused.join(", ")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(line: &str) -> Result<Vec<String>, String> {
        let matches = command().try_get_matches_from(line.split_whitespace()).map_err(|error| error.to_string())?;
        passed_on(&matches).map_err(|Usage(error)| error.to_string())
    }

    #[test]
    fn every_name_is_an_option() {
        let command = command();
        let known: Vec<&str> = command.get_arguments().map(|argument| argument.get_id().as_str()).collect();
        for name in OF_ONE.iter().chain(&BESIDE).chain(OWN) {
            assert!(known.contains(name), "{name}");
        }
        for name in OWN {
            assert!(!is_shared(name), "{name} is in two lists");
        }
        // What says how to load is known here: a new option is shared unless a list says otherwise.
        assert!(loading_options().all(|name| known.contains(&name)));
    }

    #[test]
    fn workers_are_told_how_to_load_and_nothing_else() {
        let words = sent("load --workers local:2 -c8 --rate 100 -H a:1 -H b:2 --json --csv f --slo p99<1s http://h/");
        let mut words = words.expect("shared");
        words.sort_unstable();
        let expected = ["--connections=8", "--header=a:1", "--header=b:2", "--rate=100", "--slo=p99<1s", "http://h/"];
        assert_eq!(words, expected);
        let again = taken(&words).expect("its own words");
        assert_eq!(again.get_one::<u32>("connections"), Some(&8));
        let refused = sent("load --workers h --cpu 1 --unix /s --source 127.0.0.2 http://h/").expect_err("not shared");
        assert!(["--cpu", "--unix", "--source"].iter().all(|name| refused.contains(name)), "{refused}");
    }

    #[test]
    fn a_worker_obeys_nothing_else() {
        for word in ["--html=f", "--run=d", "--workers=local:9", "--unix=/s", "--prometheus-listen=127.0.0.1:1"] {
            let Err(Usage(error)) = taken(&[word.to_owned(), "http://h/".to_owned()]) else { panic!("{word}") };
            assert!(error.to_string().contains("no option of a worker's"), "{word}: {error}");
        }
    }
}
