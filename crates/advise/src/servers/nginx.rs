//! Where nginx's configuration is.

use super::Process;
use super::ask::ask;
use crate::configuration::{Configuration, Files, reading};
use std::path::PathBuf;

/// The configuration, and the folder against which relative paths count.
pub(super) fn configuration(process: &Process, files: &Files) -> (Configuration, PathBuf) {
    // nginx writes its command line into its title, as one string.
    let title = process.title();
    let command = title.split_once("master process ").map_or(title.as_str(), |(_, command)| command);
    let words = command.split_whitespace().map(str::to_owned).collect();
    let started = Process { words, ..process.clone() };
    let told = ask(process, &["-V"]);
    let built_in = |name: &str| told.split_whitespace().find_map(|word| word.strip_prefix(name)).map(str::to_owned);
    let prefix =
        started.option("-p").or_else(|| built_in("--prefix=")).unwrap_or_else(|| "/usr/share/nginx".to_owned());
    let prefix = process.folder.join(prefix);
    let main =
        started.option("-c").or_else(|| built_in("--conf-path=")).unwrap_or_else(|| "/etc/nginx/nginx.conf".to_owned());
    (reading::nginx(files, &prefix.join(main)), prefix)
}
