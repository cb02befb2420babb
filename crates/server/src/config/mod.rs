//! The server's configuration: a TOML file. It is read as a whole, and every mistake is reported with its position.

mod doubts;
mod foreign;
mod general;
mod header;
mod host;
mod nearest;
pub(crate) mod options;
mod policy;
mod site;
mod table;
mod throttle;
mod units;
mod users;

use crate::config::options::Options;
use crate::exchange::application::{Application, ApplicationHandle};
use crate::http::pattern::Pattern;
use crate::routing::rules::{PATHS_MAX, Rules};
use crate::routing::settings::{Action, Said};
use crate::telemetry::access_log::settings::LogTarget;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use table::{Reader, Table};
use thiserror::Error;
use toml::de::DeTable;
use weir_diagnostic::Mistake;

/// Bytes of a configuration file; more are no configuration.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// An example of everything, with its defaults and what it is for.
pub const EXAMPLE: &str = include_str!("example.toml");

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

/// The hosts of a configuration, ready to be served.
#[derive(Debug, Clone)]
pub struct HostRules(pub(crate) Arc<Rules>);

impl HostRules {
    /// The names of the hosts, each by its first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.hosts.iter().map(|host| &*host.name)
    }

    /// Has an application answer the paths of all hosts that a glob matches (`*` within a segment, `**` anything, `?`
    /// one character), behind all tables that the hosts have: access, passwords, rates and fields of other tables hold
    /// for it as well. None if the glob is too large, a host has 128 tables already, or the rules are in use.
    pub fn with_application(self, glob: &str, application: Arc<dyn Application>) -> Option<Self> {
        let mut rules = Arc::try_unwrap(self.0).ok()?;
        let pattern = Pattern::glob(glob)?;
        let action = Some(Action::Application(ApplicationHandle(application)));
        for host in &mut rules.hosts {
            if host.paths.len() == PATHS_MAX {
                return None;
            }
            host.paths.push((pattern.clone(), Said { action: action.clone(), ..Said::default() }));
        }
        Some(Self(Arc::new(rules)))
    }
}

/// Reads a configuration file. Directories are opened and pages of errors read, so that what is served later was
/// there when the file was accepted; relative paths start at the file's own directory.
///
/// # Errors
///
/// The file cannot be read, or it has mistakes: the error lists all of them.
pub fn read_configuration(path: &Path) -> Result<Options, ConfigurationError> {
    let unreadable = |source| ConfigurationError::Unreadable { path: path.to_owned(), source };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        // What is cut off could be a rule that keeps clients away.
        return Err(unreadable(std::io::Error::other(format!("it has more than {} MiB", FILE_BYTES_MAX >> 20))));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut options = parse_configuration(&text, folder)
        .map_err(|mistakes| ConfigurationError::Mistaken { path: path.to_owned(), mistakes })?;
    options.read_again.push(path.to_owned());
    Ok(options)
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
    let (rules, places) = host::read(&table, &options);
    table.finish();
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
