//! Where php-fpm's configuration is.

use super::Process;
use super::ask::ask;
use crate::configuration::{Configuration, Files, Syntax, reading};
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

/// Which php.ini a php-fpm reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ini {
    /// What it says, with its additions.
    pub(crate) configuration: Configuration,
    /// The file, where it is another than the program reads by itself.
    pub(crate) file: Option<PathBuf>,
    /// Whether the program's own additions are read, too.
    pub(crate) has_additions: bool,
}

/// php.ini with its additions.
///
/// php-fpm puts its title over its command line and its environment, so that `-c` and PHP_INI_SCAN_DIR cannot be seen.
/// A php.ini beside the pools' configuration is taken for the one that is read, and the additions for read if a module
/// is loaded that php.ini does not name.
pub(super) fn ini(process: &Process, files: &Files, folder: &Path) -> Ini {
    let told = ask(process, &["-i"]);
    let mut paths = loaded(&told);
    let beside = folder.join("php.ini");
    let own = files.exists(&beside) && paths.first() != Some(&beside);
    let mut has_additions = true;
    if own {
        let text = files.read(&beside).unwrap_or_default();
        has_additions = modules(process.pid).iter().any(|module| !text.contains(module.as_str()));
        paths = std::iter::once(beside.clone()).chain(paths.into_iter().skip(1).filter(|_| has_additions)).collect();
    }
    let mut configuration = Configuration::empty(Syntax::Ini);
    for path in paths.into_iter().filter(|path| files.exists(path)) {
        configuration.append(reading::ini(files, &path));
    }
    Ini { configuration, file: own.then_some(beside), has_additions }
}

/// The names of the PHP modules that a process has loaded, without their ending.
fn modules(pid: u32) -> Vec<String> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).filter(|path| path.contains("/php/"));
    let mut names: Vec<String> =
        paths.filter_map(|path| Some(path.rsplit('/').next()?.strip_suffix(".so")?.to_owned())).collect();
    names.dedup();
    names
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
