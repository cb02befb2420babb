//! A pack: the probes of a known server, as a table.

use crate::user_probes::Dialect;

/// A known server.
#[derive(Debug)]
pub struct Pack {
    /// Its name, in options and reports.
    pub name: &'static str,
    /// File names of its programs; one that ends with `*` stands for all that begin so.
    pub programs: &'static [&'static str],
    /// How the queries that it tells are written.
    pub dialect: Option<Dialect>,
    /// Its probes.
    pub entries: &'static [Entry],
}

impl PartialEq for Pack {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Pack {}

/// A probe of a pack.
#[derive(Debug)]
pub struct Entry {
    /// What begins there.
    pub name: &'static str,
    /// What a hit means, bits of [`weir_wire::probe`].
    pub roles: u16,
    /// Where it is; the first place that there is counts.
    pub places: &'static [Place<'static>],
    /// What a hit reads.
    pub reads: Reads,
    /// Whether it goes without saying that some builds or settings lack it.
    pub optional: bool,
}

/// Where a probe is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'n> {
    /// The entry of a function of the program.
    Function(&'n str),
    /// The return of a function of the program.
    Return(&'n str),
    /// The entry of a function of a library or module that the server maps.
    Library(&'n str, &'n str),
    /// Where a library or module that the server maps calls a function of another one.
    Call(&'n str, &'n str),
    /// A static probe: provider and name.
    Static(&'n str, &'n str),
    /// In a function of a program of Go, behind the check of the stack.
    Go(&'n str),
}

/// What a hit reads; arguments count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Nothing.
    Nothing,
    /// An argument's value.
    Number(u8),
    /// The text that an argument points to.
    Text(u8),
    /// The text whose address stands so many bytes behind where an argument points.
    TextAt(u8, i32),
    /// What this register holds.
    Held(&'static str),
    /// The word that stands so many bytes behind where this register points.
    HeldAt(&'static str, i32),
}

impl Reads {
    /// The argument that is read.
    #[must_use]
    pub fn number(self) -> Option<u8> {
        match self {
            Self::Nothing | Self::Held(_) | Self::HeldAt(..) => None,
            Self::Number(number) | Self::Text(number) | Self::TextAt(number, _) => Some(number),
        }
    }
}

impl Entry {
    /// A mark that reads nothing.
    pub(super) const fn mark(name: &'static str, roles: u16, places: &'static [Place<'static>]) -> Self {
        Self { name, roles, places, reads: Reads::Nothing, optional: false }
    }

    /// The same that also reads.
    pub(super) const fn reading(self, reads: Reads) -> Self {
        Self { reads, ..self }
    }

    /// The same where it is no news if it is missing.
    pub(super) const fn optional(self) -> Self {
        Self { optional: true, ..self }
    }
}

impl Pack {
    /// Whether a program of this name is the server's.
    pub(super) fn fits(&self, name: &str) -> bool {
        self.programs.iter().any(|program| match program.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => name == *program,
        })
    }
}
