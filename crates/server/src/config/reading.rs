//! Reads a configuration as a whole; every mistake is reported with its position.

use super::table::{Reader, Table};
use crate::config::host_rules::HostRules;
use crate::config::options::Options;
use crate::config::{acme, doubts, general, host, route_doubts, throttle};
use crate::telemetry::access_log::settings::LogTarget;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use toml::de::DeTable;
use weir_diagnostic::Mistake;

/// Bytes of a configuration file; more are no configuration.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigurationError {
    /// The file cannot be read.
    #[error("{path}: {source}; give a file that can be read", path = path.display())]
    Unreadable {
        /// The file as given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file says what cannot be done; in the order of its lines, at least one.
    #[error("{}", .mistakes.iter().map(|mistake| format!("{}:{mistake}", path.display())).collect::<Vec<_>>().join("\n"))]
    Mistaken {
        /// The file as given.
        path: PathBuf,
        /// What is wrong with it.
        mistakes: Vec<Mistake>,
    },
}

/// Reads a configuration file. Directories are opened and pages of errors read, so that what is served later was
/// there when the file was accepted; relative paths start at the file's own directory.
///
/// # Errors
///
/// The file cannot be read, or it has mistakes: the error lists all of them.
pub fn read_configuration(path: &Path) -> Result<Options, ConfigurationError> {
    let text = text_of(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut options = parse_configuration(&text, folder)
        .map_err(|mistakes| ConfigurationError::Mistaken { path: path.to_owned(), mistakes })?;
    options.read_again.push(path.to_owned());
    Ok(options)
}

/// The text of a configuration file.
pub(super) fn text_of(path: &Path) -> Result<String, ConfigurationError> {
    let unreadable = |source| ConfigurationError::Unreadable { path: path.to_owned(), source };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        // What is cut off could be a rule that keeps clients away.
        return Err(unreadable(std::io::Error::other(format!("it has more than {} MiB", FILE_BYTES_MAX >> 20))));
    }
    Ok(text)
}

/// The same of a text whose relative paths start at `folder`.
///
/// # Errors
///
/// All mistakes, in the order of the lines.
pub fn parse_configuration(text: &str, folder: &Path) -> Result<Options, Vec<Mistake>> {
    let reader = Reader::new(text, folder);
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            reader.wrong(at, error.message().replace('\n', ", "), "mend the TOML here first");
        }
        return Err(reader.into_mistakes().0);
    }
    let table = Table::new(&reader, document.get_ref(), 0..0, "");
    let mut options = Options::new(folder);
    let certificates_at = general::read(&table, &mut options);
    options.throttles = throttle::read(&table);
    let (rules, (places, route_places), obtained) = host::read(&table, &options);
    acme::finish(&table, obtained, &mut options);
    table.finish();
    route_doubts::look(&reader, &rules, (&route_places, &places), &options);
    doubts::look(&reader, &rules, &places, &certificates_at, &options);
    if let Some(first) = rules.sites.first() {
        options.root.clone_from(&first.how.root);
    }
    options.hosts = Some(HostRules(Arc::new(rules)));
    let log = options.access_log.as_ref().map(|log| &log.target);
    options.read_again.extend(reader.paths());
    options.read_again.retain(|path| path.is_file() && log != Some(&LogTarget::File(path.clone())));
    let (mistakes, warnings) = reader.into_mistakes();
    options.warnings = warnings;
    if mistakes.is_empty() { Ok(options) } else { Err(mistakes) }
}
