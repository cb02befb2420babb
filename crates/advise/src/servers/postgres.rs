//! Where PostgreSQL's configuration is.

use super::Process;
use crate::configuration::{Configuration, Files, reading};
use std::path::PathBuf;

/// The configuration, and the data directory.
pub(super) fn configuration(process: &Process, files: &Files) -> (Configuration, PathBuf) {
    let data = process.option("-D").or_else(|| process.variable("PGDATA").map(str::to_owned));
    // A running server works in its data directory.
    let data = data.map_or_else(|| process.folder.clone(), |data| process.folder.join(data));
    let given = process.options("-c").into_iter().find_map(|pair| pair.strip_prefix("config_file=").map(str::to_owned));
    let main = given.or_else(|| process.option("--config-file")).or_else(|| process.option("--config_file"));
    let main = main.map_or_else(|| data.join("postgresql.conf"), |main| data.join(main));
    let mut configuration = reading::assignments(files, &main);
    // What ALTER SYSTEM wrote counts after all the rest.
    let automatic = data.join("postgresql.auto.conf");
    if files.exists(&automatic) {
        configuration.append(reading::assignments(files, &automatic));
    }
    (configuration, data)
}
