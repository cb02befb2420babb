//! What a configuration consists of: directives and sections, each with its place.

/// Sections within sections, at most.
pub(crate) const MOST_DEPTH: usize = 64;

/// Where a directive stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// Index in [`Configuration::files`].
    pub(crate) file: usize,
    /// The line, from 1.
    pub(crate) line: usize,
}

/// A name with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directive {
    /// As it is written.
    pub(crate) name: String,
    /// The arguments as they are written, quotes included.
    pub(crate) raw: String,
    /// Where.
    pub(crate) place: Place,
}

/// One element of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A directive without a body.
    Set(Directive),
    /// The begin of a section or block.
    Open(Directive),
    /// Its end.
    Close,
}

/// Why a text cannot be read as a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub(crate) struct ParseError {
    /// The line, from 1.
    pub(crate) line: usize,
    /// What is wrong there.
    pub(crate) what: String,
}
