//! Man pages and shell completions, made from the same definitions as `--help`.

use anyhow::Context;
use clap::CommandFactory;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write the man pages, one for each command.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The directory to write to, made if it is not there
    directory: PathBuf,
}

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  weir completions bash > /etc/bash_completion.d/weir")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

/// Writes `weir.1`, `weir-load.1` and so on.
pub(crate) fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&args.directory).with_context(|| format!("cannot make {}", args.directory.display()))?;
    let command = crate::Cli::command();
    page(&args.directory, "weir", &command)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        // clap leaks the name for the life of the process, which is about to end.
        let name: &'static str = format!("weir-{}", sub.get_name()).leak();
        page(&args.directory, name, &sub.clone().name(name).bin_name(name.replacen('-', " ", 1)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn page(directory: &Path, name: &str, command: &clap::Command) -> anyhow::Result<()> {
    let path = directory.join(format!("{name}.1"));
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Prints the script.
pub(crate) fn completions(args: &CompletionsArgs) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "weir", &mut script);
    crate::output::print(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}
