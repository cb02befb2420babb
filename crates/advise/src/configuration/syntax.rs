//! How configurations are written.

use super::{apache, assignments, ini, nginx};

/// How a configuration is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Syntax {
    /// Apache's: lines, `<Section argument>`.
    Apache,
    /// nginx's: `name argument;`, `name { }`.
    Nginx,
    /// php-fpm's and php.ini's: `[section]`, `name = value`.
    #[default]
    Ini,
    /// PostgreSQL's: `name = value`.
    Assignments,
}

impl Syntax {
    /// The arguments of a directive, without quotes.
    pub(crate) fn words(self, raw: &str) -> Vec<String> {
        match self {
            Self::Apache => apache::words(raw),
            Self::Nginx => nginx::words(raw),
            Self::Ini => vec![ini::value(raw)],
            Self::Assignments => vec![assignments::value(raw)],
        }
    }

    /// Whether two names mean the same directive.
    pub(super) fn same_name(self, one: &str, other: &str) -> bool {
        match self {
            Self::Apache | Self::Assignments => one.eq_ignore_ascii_case(other),
            Self::Nginx | Self::Ini => one == other,
        }
    }

    /// A directive as a line of its file.
    pub(crate) fn line(self, name: &str, raw: &str) -> String {
        match self {
            Self::Apache if raw.is_empty() => name.to_owned(),
            Self::Apache => format!("{name} {raw}"),
            Self::Nginx if raw.is_empty() => format!("{name};"),
            Self::Nginx => format!("{name} {raw};"),
            Self::Ini | Self::Assignments => format!("{name} = {raw}"),
        }
    }
}
