//! `weir record --host`: recordings of several hosts, by ssh.

use clap::ArgMatches;
use clap::parser::ValueSource;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use weir_record::hosts::{Asked, OfHost, record};
use weir_record::run_directory;
use weir_terminal::stop::Stop;
use weir_wire::socket::MOST_HOSTS;

/// Options that are for this host.
const OURS: [&str; 6] = ["host", "remote_weir", "ssh_config", "send_run", "run", "duration"];

/// On which other hosts is recorded.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Other hosts")]
pub(crate) struct HostArgs {
    /// Record on this host, reached by ssh as it takes it (HOST, USER@HOST or a name of its configuration); repeated
    /// for several, all of which begin and end together. Their runs are fetched to RUN/HOST
    #[arg(long, value_name = "HOST", value_parser = host)]
    pub(crate) host: Vec<String>,

    /// The weir on the other hosts [default: weir, found in the PATH there]
    #[arg(long, value_name = "PATH", requires = "host")]
    remote_weir: Option<String>,

    /// Configuration of ssh in place of yours: ports, users, keys
    #[arg(long, value_name = "FILE", requires = "host")]
    ssh_config: Option<PathBuf>,

    /// Begin and end as standard input says, and send the run on standard output
    #[arg(long, hide = true)]
    pub(crate) send_run: bool,
}

/// A host that ssh does not take for an option.
fn host(text: &str) -> anyhow::Result<String> {
    anyhow::ensure!(
        !text.is_empty() && !text.starts_with('-'),
        "a host is HOST, USER@HOST or a name of ssh's configuration"
    );
    Ok(text.to_owned())
}

/// Records on the hosts and fetches their runs.
pub(crate) fn run(
    args: &HostArgs,
    command: &clap::Command,
    run: Option<PathBuf>,
    limit: Option<Duration>,
    disk_mib: u64,
) -> anyhow::Result<ExitCode> {
    if args.host.len() > MOST_HOSTS as usize {
        eprintln!("weir record: at most {MOST_HOSTS} hosts are recorded and explained together");
        return Ok(ExitCode::from(2));
    }
    let names: Vec<String> = args.host.iter().map(|host| directory_name(host)).collect();
    if let Some(name) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        eprintln!("weir record: {} is named twice: the runs of both would be in one directory", name.1);
        return Ok(ExitCode::from(2));
    }
    let stop = Stop::on_signals()?;
    let directory = run.unwrap_or_else(run_directory::next);
    if let Some(taken) = names.iter().map(|name| directory.join(name)).find(|path| path.exists()) {
        anyhow::bail!("{} is there already; name another directory by --run", taken.display());
    }
    std::fs::create_dir_all(&directory)
        .map_err(|error| anyhow::anyhow!("cannot make {}: {error}", directory.display()))?;
    let arguments = for_the_others(command);
    let asked: Vec<Asked> = args
        .host
        .iter()
        .zip(&names)
        .map(|(host, name)| Asked {
            host: host.clone(),
            ssh_config: args.ssh_config.clone(),
            weir: args.remote_weir.clone().unwrap_or_else(|| "weir".to_owned()),
            arguments: arguments.clone(),
            directory: directory.join(name),
            disk_mib,
        })
        .collect();
    let hosts = record(&asked, limit, &stop);
    let fetched: Vec<&str> =
        hosts.iter().zip(&names).filter(|(host, _)| host.run.is_ok()).map(|(_, name)| name.as_str()).collect();
    if !fetched.is_empty() {
        weir_explain::note_hosts(&directory, &fetched)?;
    }
    Ok(told(&directory, &hosts))
}

/// Says what came of each host.
fn told(directory: &Path, hosts: &[OfHost]) -> ExitCode {
    let mut fetched = 0;
    for OfHost { host, said, run } in hosts {
        said.iter().for_each(|line| eprintln!("weir record: {host}: {line}"));
        match run {
            Ok(run) => {
                fetched += 1;
                eprintln!("{host}: {} events ({} lost) in {}", run.events, run.lost, run.directory.display());
            }
            Err(why) => eprintln!("weir record: {host}: not recorded: {why}"),
        }
    }
    match fetched {
        0 => {
            // Nothing is left in it; a directory that held something before stays.
            let _holds_something = std::fs::remove_dir(directory);
        }
        _ => eprintln!("recorded {fetched} of {} hosts\nread it: weir explain {}", hosts.len(), directory.display()),
    }
    if fetched == hosts.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A name for the directory of a host's run: without the user, and of letters that any file may have.
fn directory_name(host: &str) -> String {
    let name = host.rsplit('@').next().unwrap_or(host);
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let plain: String = name.chars().map(|letter| if is_plain(letter) { letter } else { '-' }).collect();
    if plain.starts_with('.') { format!("host{plain}") } else { plain }
}

/// The arguments of this command, `weir record`, that say what is recorded, for the same command on other hosts.
fn for_the_others(command: &clap::Command) -> Vec<String> {
    // They were taken before.
    let given = command.clone().try_get_matches_from(std::env::args_os().skip(1));
    given.map_or_else(|_| Vec::new(), |matches| passed_on(command, &matches))
}

fn passed_on(command: &clap::Command, matches: &ArgMatches) -> Vec<String> {
    let mut words = Vec::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let (Some(long), false) = (argument.get_long(), OURS.contains(&id)) else { continue };
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        match matches.get_raw(id) {
            Some(values) if argument.get_action().takes_values() => {
                words.extend(values.map(|value| format!("--{long}={}", value.to_string_lossy())));
            }
            _ => words.push(format!("--{long}")),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgAction};

    #[test]
    fn the_others_are_told_what_is_recorded_and_not_where_it_goes() {
        let line = "record --host a --host=b --ssh-config f --port 80 --port=81 --comm it's --keep-addresses \
                    --stacks --disk 300 -d5s --run r";
        let value = |name: &'static str| Arg::new(name).long(name).action(ArgAction::Append);
        let command = clap::Command::new("record")
            .args(["host", "port", "comm", "disk", "run"].map(value))
            .arg(value("stacks").num_args(0..=1).default_missing_value("99"))
            .arg(value("ssh_config").long("ssh-config"))
            .arg(value("duration").short('d'))
            .arg(value("keep_addresses").long("keep-addresses").action(ArgAction::SetTrue));
        let matches = command.clone().try_get_matches_from(line.split_whitespace()).expect("right");
        let mut words = passed_on(&command, &matches);
        words.sort_unstable();
        let expected = ["--comm=it's", "--disk=300", "--keep-addresses", "--port=80", "--port=81", "--stacks=99"];
        assert_eq!(words, expected);
    }

    #[test]
    fn a_directory_is_named_by_its_host() {
        let names = ["web", "root@web.example", "ssh://root@[::1]:22", "..", "a/b"].map(directory_name);
        assert_eq!(names, ["web", "web.example", "---1--22", "host..", "a-b"]);
    }
}
