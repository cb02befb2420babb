//! A server with what its configuration says.

use super::roots::kind_of;
use super::{Ini, Kind, Process, apache, nginx, php_fpm, postgres};
use crate::configuration::{Configuration, Files, Syntax};
use std::path::PathBuf;

/// A server with its configuration.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// What it is.
    pub(crate) kind: Kind,
    /// Its first process; number 0 where only its command is known.
    pub(crate) process: Process,
    /// Processes of the server besides the first.
    pub(crate) children: Vec<u32>,
    /// What it was started with; of nothing where it could not be found.
    pub(crate) configuration: Configuration,
    /// php.ini and its additions, for php-fpm.
    pub(crate) ini: Ini,
    /// The folder against which relative paths count.
    pub(crate) root: PathBuf,
}

impl Server {
    pub(super) fn of(process: Process, children: Vec<u32>) -> Option<Self> {
        let kind = kind_of(&process)?;
        let files = Files::below(process.root.clone());
        let (configuration, root) = match kind {
            Kind::Apache => apache::configuration(&process, &files),
            Kind::Nginx => nginx::configuration(&process, &files),
            Kind::PhpFpm => php_fpm::configuration(&process, &files),
            Kind::Postgres => postgres::configuration(&process, &files),
            Kind::Mariadb => (Configuration::empty(Syntax::Ini), PathBuf::from("/")),
        };
        let ini = if kind == Kind::PhpFpm { php_fpm::ini(&process, &files, &root) } else { Ini::default() };
        Some(Self { kind, process, children, configuration, ini, root })
    }

    /// Its name for reports, with the number of its first process.
    pub(crate) fn label(&self) -> String {
        match self.process.pid {
            0 => self.kind.name().to_owned(),
            pid => format!("{} ({pid})", self.kind.name()),
        }
    }

    /// Whether its configuration was found at all.
    pub(crate) fn is_known(&self) -> bool {
        !self.configuration.entries.is_empty()
    }
}
