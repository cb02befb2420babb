//! What an event of a trace means.

use crate::What;

/// What an event means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Meaning<'a> {
    Is(What<'a>),
    /// No rule has its name.
    None,
    /// A field that its meaning needs is missing.
    Cut,
}

impl<'a> Meaning<'a> {
    /// What it is, counted by the reason where that is nothing.
    pub(crate) fn counted(self, name: &'a str, counts: &mut crate::Counts) -> What<'a> {
        let why = match self {
            Self::Is(what) => return what,
            Self::None => crate::Skipped::NotMapped,
            Self::Cut => crate::Skipped::FieldMissing,
        };
        counts.skip(why);
        What::Other(name)
    }
}
