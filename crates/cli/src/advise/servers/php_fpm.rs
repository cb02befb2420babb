//! Where php-fpm's configuration is.

use super::{Process, ask};
use crate::advise::configuration::{Configuration, Files, Syntax, reading};
use std::path::{Path, PathBuf};

/// The configuration of the pools, and its folder.
pub(super) fn configuration(process: &Process, files: &Files) -> (Configuration, PathBuf) {
    let title = process.title();
    // The first process says which file it reads in its title: `php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)`.
    let by_title = title
        .split_once("master process (")
        .and_then(|(_, rest)| rest.rsplit_once(')'))
        .map(|(path, _)| path.to_owned());
    let by_option = || process.option("--fpm-config").or_else(|| process.option("-y"));
    let Some(main) = by_title.or_else(by_option).or_else(|| beside(process, files)) else {
        return (Configuration::empty(Syntax::Ini), PathBuf::from("/"));
    };
    let main = process.folder.join(main);
    let folder = main.parent().unwrap_or(Path::new("/")).to_owned();
    (reading::ini(files, &main), folder)
}

/// php.ini with its additions.
pub(super) fn ini(process: &Process, files: &Files) -> Configuration {
    let told = process.is_near.then(|| ask(&process.program, &["-i"])).unwrap_or_default();
    let mut whole = Configuration::empty(Syntax::Ini);
    for path in loaded(&told).into_iter().filter(|path| files.exists(path)) {
        let mut read = reading::ini(files, &path);
        // Places count from the files of the whole.
        let offset = whole.files.len();
        read.entries.iter_mut().for_each(|entry| entry.shift(offset));
        whole.files.append(&mut read.files);
        whole.entries.append(&mut read.entries);
        whole.problems.append(&mut read.problems);
    }
    whole
}

/// The files that PHP says it has read.
fn loaded(told: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut in_list = false;
    for line in told.lines() {
        if let Some(path) = line.strip_prefix("Loaded Configuration File => ") {
            paths.push(path);
        } else if let Some(first) = line.strip_prefix("Additional .ini files parsed => ") {
            paths.push(first);
            in_list = true;
        } else if in_list && line.starts_with('/') {
            paths.push(line);
        } else {
            in_list = false;
        }
    }
    paths
        .into_iter()
        .map(|path| PathBuf::from(path.trim().trim_end_matches(',')))
        .filter(|path| path.is_absolute())
        .collect()
}

/// Debian's place for a version: `php-fpm8.2` reads `/etc/php/8.2/fpm/php-fpm.conf`.
fn beside(process: &Process, files: &Files) -> Option<String> {
    let name = process.program.file_name()?.to_string_lossy().into_owned();
    let path = format!("/etc/php/{}/fpm/php-fpm.conf", name.strip_prefix("php-fpm")?);
    files.exists(Path::new(&path)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_php_has_read() {
        let told = "x\nLoaded Configuration File => /etc/php.ini\nAdditional .ini files parsed => /etc/a.ini,\n/etc/b.ini,\n/etc/c.ini\n\n/no.ini\n";
        let paths: Vec<String> = loaded(told).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(paths, ["/etc/php.ini", "/etc/a.ini", "/etc/b.ini", "/etc/c.ini"]);
        assert!(loaded("Loaded Configuration File => (none)\n").is_empty());
    }
}
