//! Which options have no effect in which mode of a command: they are refused with a reason, never ignored.
//!
//! Every option of every command stands in the table; a test goes over the definitions of all of them and tries each
//! pair of a mode and an option that has no effect in it on the real parser.

mod mode;
mod table;

use clap::ArgMatches;
use mode::{Mode, given};
use table::COMMANDS;

/// Which options were given without effect, and why they have none; with the command's name in front.
pub(crate) fn refusal(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    let (mut path, mut command, mut matches) = (Vec::new(), command, matches);
    while let Some((name, within)) = matches.subcommand() {
        command = command.find_subcommand(name)?;
        path.push(name);
        matches = within;
    }
    let usage = COMMANDS.iter().find(|usage| usage.path == path)?;
    let mode_of = |mode: &Mode| {
        let idle = mode.idle.iter().flat_map(|ids| ids.iter().copied()).filter(|id| given(matches, id));
        let idle: Vec<String> = idle.map(|id| spelled(command, id)).collect();
        (!idle.is_empty()).then(|| format!("weir {}: {}: {}", path.join(" "), idle.join(", "), mode.words))
    };
    usage.modes.iter().filter(|mode| (mode.is_on)(matches)).find_map(mode_of)
}

/// An argument as it is written.
fn spelled(command: &clap::Command, id: &str) -> String {
    match command.get_arguments().find(|argument| argument.get_id() == id) {
        Some(argument) => match (argument.get_long(), argument.get_short()) {
            (Some(long), _) => format!("--{long}"),
            (None, Some(short)) => format!("-{short}"),
            (None, None) => {
                argument.get_value_names().and_then(|names| names.first()).map_or(id.to_owned(), ToString::to_string)
            }
        },
        None => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;
    use clap::{Arg, Command, CommandFactory};
    use std::collections::BTreeSet;

    /// All commands that have options of their own, with their names.
    fn commands(command: &Command, path: &[String], found: &mut Vec<(Vec<String>, Command)>) {
        let mut within = command.get_subcommands().filter(|command| command.get_name() != "help").peekable();
        if within.peek().is_none() && !path.is_empty() {
            found.push((path.to_vec(), command.clone()));
        }
        for sub in within {
            commands(sub, &[path, &[sub.get_name().to_owned()]].concat(), found);
        }
    }

    fn own(argument: &&Arg) -> bool {
        !["help", "version"].contains(&argument.get_id().as_str())
    }

    #[test]
    fn every_option_of_every_command_stands_in_the_table() {
        let mut found = Vec::new();
        commands(&crate::Cli::command(), &[], &mut found);
        let mut wrong = Vec::new();
        for (path, command) in &found {
            let name = path.join(" ");
            let Some(usage) = COMMANDS.iter().find(|usage| usage.path == path.as_slice()) else {
                wrong.push(format!("{name}: in which modes have its options an effect?"));
                continue;
            };
            let defined: BTreeSet<&str> =
                command.get_arguments().filter(own).map(|argument| argument.get_id().as_str()).collect();
            let told: BTreeSet<&str> = usage.options.iter().flat_map(|ids| ids.iter().copied()).collect();
            let idle = usage.modes.iter().flat_map(|mode| mode.idle.iter().flat_map(|ids| ids.iter().copied()));
            let unknown: Vec<&str> = idle.filter(|id| !told.contains(id)).collect();
            if defined != told || !unknown.is_empty() {
                wrong.push(format!(
                    "{name}: lacks {:?}, has too many {:?}, modes name {unknown:?}",
                    defined.difference(&told),
                    told.difference(&defined)
                ));
            }
        }
        assert_eq!(found.len(), COMMANDS.len(), "a command that is no more");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Values of which each option takes one.
    const VALUES: &str = "1 1s f stop http://h/ 127.0.0.1 127.0.0.1:9 p99<1s 1KB/s 3g 1.3 h:80:127.0.0.1 h:80 256 specweb96 \
                          sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU= epoll proc all 1/2s 1h/5m:2 1/60s \
                          socks5://h none events echo webtest csv random robust status=200 4096";
    const VALUE_OF_WORDS: &str = "p50 worse than 5%";

    /// What the program says to these arguments, if it refuses them for a reason other than their values.
    fn refused(line: &[String]) -> Option<bool> {
        let command = crate::Cli::command();
        match command.clone().try_get_matches_from(line) {
            Ok(matches) => Some(refusal(&command, &matches).is_some()),
            Err(error) => match error.kind() {
                ErrorKind::ArgumentConflict | ErrorKind::MissingRequiredArgument => Some(true),
                _ => None,
            },
        }
    }

    /// A line with an argument more behind the command's name, in all ways in which it may be written.
    fn with(example: &[String], commands: usize, argument: &Arg) -> Vec<Vec<String>> {
        let at = 1 + commands;
        let inserted = |words: &[&str]| {
            let mut line = example.to_vec();
            line.splice(at..at, words.iter().map(|word| (*word).to_owned()));
            line
        };
        let values = VALUES.split_whitespace().chain([VALUE_OF_WORDS]);
        let least = argument.get_num_args().map_or(1, |range| range.min_values());
        match argument.get_long().map(|long| format!("--{long}")) {
            Some(name) if !argument.get_action().takes_values() => vec![inserted(&[&name])],
            // Such as --make-fileset.
            Some(name) if least == 2 => vec![inserted(&[&name, "surge", "d"])],
            Some(name) => values.map(|value| inserted(&[&format!("{name}={value}")])).collect(),
            None => values
                .map(|value| {
                    let mark = argument.is_last_set().then(|| "--".to_owned());
                    example.iter().cloned().chain(mark).chain([value.to_owned()]).collect()
                })
                .collect(),
        }
    }

    #[test]
    fn an_option_without_effect_is_refused_in_every_mode() {
        let (mut passed, mut tried) = (Vec::new(), 0);
        for usage in COMMANDS {
            let mut command = &crate::Cli::command();
            for name in usage.path {
                command = command.find_subcommand(name).expect("a command of the table");
            }
            for mode in usage.modes {
                let words: Vec<String> =
                    ["weir"].into_iter().chain(mode.example.split(' ')).map(str::to_owned).collect();
                assert_eq!(refused(&words), Some(false), "{}: the mode itself is refused", mode.example);
                for id in mode.idle.iter().flat_map(|ids| ids.iter()) {
                    let argument = command.get_arguments().find(|argument| argument.get_id() == id);
                    let argument = argument.unwrap_or_else(|| panic!("{:?} has no {id}", usage.path));
                    let mut told: Vec<bool> =
                        with(&words, usage.path.len(), argument).iter().filter_map(|line| refused(line)).collect();
                    tried += 1;
                    told.dedup();
                    // A value that is taken must be refused, and one at least must be taken.
                    if told != [true] {
                        passed.push(format!("{} with {id}: {told:?}", mode.example));
                    }
                }
            }
        }
        assert!(tried > 100, "{tried} pairs");
        assert!(passed.is_empty(), "taken in silence:\n{}", passed.join("\n"));
    }

    #[test]
    fn a_refusal_names_the_options_and_the_reason() {
        let command = crate::Cli::command();
        let words = ["weir", "load", "--queue", "9", "--seed", "7", "http://h/"];
        let matches = command.clone().try_get_matches_from(words).expect("options that exist");
        let told = refusal(&command, &matches).expect("a closed loop has no queue");
        assert!(told.starts_with("weir load: --queue: ") && told.contains("--rate"), "{told}");
    }
}
