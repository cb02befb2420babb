//! Where Apache's configuration is.

use super::Process;
use super::ask::ask;
use crate::configuration::apache_tree::{self, Start};
use crate::configuration::{Configuration, Files};
use std::path::PathBuf;

/// The configuration, and the folder against which relative paths count.
pub(super) fn configuration(process: &Process, files: &Files) -> (Configuration, PathBuf) {
    let told = ask(process, &["-V"]);
    let built_in = |name: &str, default: &str| quoted(&told, name).unwrap_or_else(|| default.to_owned());
    let server_root = process.option("-d").unwrap_or_else(|| built_in("HTTPD_ROOT", "/etc/apache2"));
    let server_root = process.folder.join(server_root);
    let main = process.option("-f").unwrap_or_else(|| built_in("SERVER_CONFIG_FILE", "apache2.conf"));
    let start = Start {
        main: server_root.join(main),
        server_root: server_root.clone(),
        defines: process.options("-D"),
        environment: process.environment.clone(),
    };
    let configuration = apache_tree::read(files, &start);
    let root = configuration.last("ServerRoot").map_or(server_root, |found| PathBuf::from(found.word()));
    (configuration, root)
}

/// `-D NAME="value"` of what `apache2 -V` prints.
fn quoted(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("-D ")?.strip_prefix(name)?.strip_prefix('='))?;
    let value = line.trim().trim_matches('"').to_owned();
    (!value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_was_built_with() {
        let told =
            "Server MPM: x\n -D HTTPD_ROOT=\"/etc/apache2\"\n -D SERVER_CONFIG_FILE=\"apache2.conf\"\n -D EMPTY=\"\"\n";
        assert_eq!(quoted(told, "HTTPD_ROOT").as_deref(), Some("/etc/apache2"));
        assert_eq!((quoted(told, "NONE"), quoted(told, "EMPTY")), (None, None));
    }
}
