//! Which packs are wanted, and which of them fit a server's programs.

use super::pack::Pack;
use super::{apache, go, mariadb, nginx, php, postgresql, scripts, weir};
use crate::user_probes::{ProbeError, Programs};
use crate::watch::Watched;
use std::path::PathBuf;
use std::str::FromStr;

/// All packs.
pub const PACKS: &[&Pack] = &[&apache::PACK, &nginx::PACK, &php::PACK, &postgresql::PACK, &mariadb::PACK, &weir::PACK];

/// What is recorded of a server wherever its programs are probed: it is seldom, and costs nothing in between.
const ALWAYS: &[&Pack] = &[&weir::DECISIONS, &scripts::PACK];

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

/// What runtimes tell of waits that are watched for: those of programs in their languages.
pub(crate) fn of_runtimes(watched: &[Watched]) -> impl Iterator<Item = &'static Pack> {
    let of = |source: &Watched| match source {
        Watched::Locks => Some(&go::LOCKS),
        Watched::Timers => Some(&go::SLEEPS),
        Watched::Disk | Watched::Interrupts => None,
    };
    watched.iter().filter_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packs::Reads;
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
