//! Man pages and shell completions, made from the same definitions as `--help`.

use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const COMPLETIONS: &str = "\
Examples:
  weir completions bash > /etc/bash_completion.d/weir
  weir completions zsh > /usr/local/share/zsh/site-functions/_weir
  weir completions fish > ~/.config/fish/completions/weir.fish";

/// Variables that every command reads, for the page of `weir`.
const ENVIRONMENT: &str = "\
.SH ENVIRONMENT
.TP
\\fBWEIR_LOG\\fR
For people who debug weir: which events of its own work it tells on standard error.
A level (error, warn, info, debug, trace, off), alone or for a part of weir, as in info,weir_server=debug.
Without it weir tells none.
";

/// Write the man pages, one for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  weir man /usr/local/share/man/man1    then: man weir-explain")]
pub(crate) struct ManArgs {
    /// The directory to write to, made if it is not there
    directory: PathBuf,
}

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

/// Writes `weir.1`, `weir-load.1` and so on.
pub(crate) fn man(args: &ManArgs, command: &clap::Command) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&args.directory).with_context(|| format!("cannot make {}", args.directory.display()))?;
    pages(&args.directory, "weir", command)?;
    Ok(ExitCode::SUCCESS)
}

/// The page of a command, and those of its own ones.
fn pages(directory: &Path, name: &str, command: &clap::Command) -> anyhow::Result<()> {
    page(directory, name, command)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        // clap leaks the name for the life of the process, which is about to end.
        let sub_name: &'static str = format!("{name}-{}", sub.get_name()).leak();
        let called = format!("{} {}", command.get_bin_name().unwrap_or("weir"), sub.get_name());
        pages(directory, sub_name, &sub.clone().name(sub_name).bin_name(called))?;
    }
    Ok(())
}

fn page(directory: &Path, name: &str, command: &clap::Command) -> anyhow::Result<()> {
    let path = directory.join(format!("{name}.1"));
    let mut text = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    if name == "weir" {
        text.extend_from_slice(ENVIRONMENT.as_bytes());
    }
    if let Some(examples) = command.get_after_help() {
        text.extend_from_slice(as_it_stands(&examples.to_string()).as_bytes());
    }
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Examples as a section whose lines stay as they are: they hold commands to be copied, and tables.
fn as_it_stands(text: &str) -> String {
    let mut section = String::from(".SH EXAMPLES AND NOTES\n.nf\n");
    for line in text.lines() {
        // A dot or a quote at the begin of a line would be a request to roff, and its hyphens are no minus signs.
        section.push_str(if line.starts_with(['.', '\'']) { "\\&" } else { "" });
        section.push_str(&line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga"));
        section.push('\n');
    }
    section.push_str(".fi\n");
    section
}

/// Prints the script.
pub(crate) fn completions(args: &CompletionsArgs, command: &mut clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "weir", &mut script);
    weir_terminal::output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Terminals have 80 columns; what is longer would be broken in the middle of a command or of a table.
    #[test]
    fn examples_fit_on_a_terminal_and_every_command_has_some() {
        let command = crate::Cli::command();
        let of_its_own = command.get_subcommands().flat_map(clap::Command::get_subcommands);
        let all = std::iter::once(&command).chain(command.get_subcommands()).chain(of_its_own);
        // What weir starts by itself is no command for people.
        for sub in all.filter(|sub| !sub.is_hide_set()) {
            let text = sub.get_after_help().unwrap_or_else(|| panic!("{} has no examples", sub.get_name())).to_string();
            assert!(text.contains("  weir "), "{} has no examples: {text}", sub.get_name());
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{}: {line}", sub.get_name());
            }
        }
    }

    #[test]
    fn lines_of_a_page_stay_as_they_are() {
        let section = as_it_stands("Examples:\n  weir load -c 1 'http://h/'\n.no request\n");
        assert_eq!(
            section,
            ".SH EXAMPLES AND NOTES\n.nf\nExamples:\n  weir load \\-c 1 \\(aqhttp://h/\\(aq\n\\&.no request\n.fi\n"
        );
    }
}
