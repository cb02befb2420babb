//! Packs: which places in known servers' programs begin which phases of their work, and which tell queries and names.
//!
//! A pack is a table and nothing else. It names functions that the server exports and static probes that it brings
//! along, so that it fits a range of versions; what a build lacks is left out with a note.
//! A mark begins a phase of the task that meets it, which lasts until its next mark: so phases have no gaps, do not
//! overlap, and cost one probe each.

mod apache;
mod mariadb;
mod nginx;
mod php;
mod postgresql;
mod weir;

use crate::user_probes::{Dialect, ProbeError, Programs};
use std::path::PathBuf;
use std::str::FromStr;

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
}

impl Reads {
    /// The argument that is read.
    #[must_use]
    pub fn number(self) -> Option<u8> {
        match self {
            Self::Nothing => None,
            Self::Number(number) | Self::Text(number) | Self::TextAt(number, _) => Some(number),
        }
    }
}

impl Entry {
    /// A mark that reads nothing.
    const fn mark(name: &'static str, roles: u16, places: &'static [Place<'static>]) -> Self {
        Self { name, roles, places, reads: Reads::Nothing, optional: false }
    }

    /// The same that also reads.
    const fn reading(self, reads: Reads) -> Self {
        Self { reads, ..self }
    }

    /// The same where it is no news if it is missing.
    const fn optional(self) -> Self {
        Self { optional: true, ..self }
    }
}

/// All packs.
pub const PACKS: &[&Pack] = &[&apache::PACK, &nginx::PACK, &php::PACK, &postgresql::PACK, &mariadb::PACK, &weir::PACK];

/// What is recorded of a server wherever its programs are probed: it is seldom, and costs nothing in between.
const ALWAYS: &[&Pack] = &[&weir::DECISIONS];

/// Which packs are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PackChoice {
    /// None.
    #[default]
    None,
    /// Those that fit the server's processes.
    Auto,
    /// These.
    Named(Vec<&'static Pack>),
}

impl PartialEq for Pack {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Pack {}

impl FromStr for PackChoice {
    type Err = ProbeError;

    fn from_str(text: &str) -> Result<Self, ProbeError> {
        match text {
            "none" => Ok(Self::None),
            "auto" => Ok(Self::Auto),
            _ => text.split(',').map(named).collect::<Result<_, _>>().map(Self::Named),
        }
    }
}

fn named(name: &str) -> Result<&'static Pack, ProbeError> {
    PACKS.iter().copied().find(|pack| pack.name == name).ok_or_else(|| {
        let known: Vec<&str> = PACKS.iter().map(|pack| pack.name).collect();
        ProbeError::NoPack { name: name.to_owned(), known: known.join(", ") }
    })
}

/// The packs of a choice that fit, each with the program that it fits.
///
/// # Errors
/// [`ProbeError::NoProgram`] for one that was asked for by name and fits none.
pub(crate) fn fitting(choice: &PackChoice, programs: &Programs) -> Result<Vec<(&'static Pack, PathBuf)>, ProbeError> {
    let all = |pack: &'static Pack| {
        programs.programs().filter(|(_, name)| pack.fits(name)).map(move |(path, _)| (pack, path.to_owned()))
    };
    match choice {
        PackChoice::None => Ok(Vec::new()),
        PackChoice::Auto => Ok(PACKS.iter().copied().flat_map(all).collect()),
        PackChoice::Named(packs) => {
            let mut found = Vec::new();
            for pack in packs {
                let before = found.len();
                found.extend(all(pack));
                if found.len() == before {
                    return Err(ProbeError::NoProgram { name: pack.name, programs: pack.programs.join(", ") });
                }
            }
            Ok(found)
        }
    }
}

/// What is recorded without being asked for, each with the program that it fits.
pub(crate) fn always(programs: &Programs) -> impl Iterator<Item = (&'static Pack, PathBuf)> {
    ALWAYS.iter().copied().flat_map(|pack| {
        programs.programs().filter(|(_, name)| pack.fits(name)).map(move |(path, _)| (pack, path.to_owned()))
    })
}

impl Pack {
    /// Whether a program of this name is the server's.
    fn fits(&self, name: &str) -> bool {
        self.programs.iter().any(|program| match program.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => name == *program,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::probe::{PHASE, QUERY, REMARK, REQUEST};

    #[test]
    fn packs_are_chosen_by_name_or_by_program() {
        assert_eq!("none".parse::<PackChoice>().expect("a choice"), PackChoice::None);
        assert_eq!("auto".parse::<PackChoice>().expect("a choice"), PackChoice::Auto);
        assert_eq!(
            "nginx,php-fpm".parse::<PackChoice>().expect("a choice"),
            PackChoice::Named(vec![&nginx::PACK, &php::PACK])
        );
        let error = "nginx,iis".parse::<PackChoice>().expect_err("none of ours");
        assert!(error.to_string().contains("iis") && error.to_string().contains("postgresql"), "{error}");
        assert!(php::PACK.fits("php-fpm8.2"));
        assert!(!php::PACK.fits("php8.2"));
        assert!(!nginx::PACK.fits("nginx-debug-tool"));
        // Nothing of this process is a known server.
        let own = Programs::of([std::process::id()]);
        assert!(fitting(&PackChoice::Auto, &own).expect("nothing is no error").is_empty());
        assert!(matches!(fitting(&PackChoice::Named(vec![&nginx::PACK]), &own), Err(ProbeError::NoProgram { .. })));
    }

    #[test]
    fn every_point_with_a_text_reads_one() {
        for pack in PACKS.iter().chain(ALWAYS) {
            for entry in pack.entries {
                let tells = entry.roles & (QUERY | REQUEST | REMARK) != 0;
                assert_eq!(tells, matches!(entry.reads, Reads::Text(_) | Reads::TextAt(..)), "{}", entry.name);
                assert!(entry.roles & QUERY == 0 || pack.dialect.is_some(), "{}", pack.name);
                assert!(!entry.places.is_empty() && (entry.roles & PHASE == 0 || !entry.name.is_empty()));
            }
        }
    }
}
