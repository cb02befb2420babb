//! Sources of programs: files that a program of the host runs are never sent, below no root.

use super::hosts::Hosts;
use super::rules::Rules;
use super::settings::{Action, Said};
use crate::http::coding::CODINGS;
use crate::site::looked_up::{Leads, LookedUp};

/// Why a file is not sent.
pub(super) const KEPT_BACK: &str = "a program of the host runs files of this name, so that it is never sent as a file";

/// How names of files end that programs of these tables run.
#[expect(single_use_lifetimes, reason = "an iterator's item cannot do without")]
pub(crate) fn endings<'s>(rules: &Rules, tables: impl Iterator<Item = &'s Said>) -> Box<[String]> {
    let mut all: Vec<String> = Vec::new();
    for said in tables {
        let Some(Action::Upstream(number)) = said.action else { continue };
        let gateway = rules.upstreams.get(number).and_then(|upstream| upstream.rules.gateway.as_ref());
        all.extend(gateway.into_iter().flat_map(|gateway| gateway.endings.iter().cloned()));
    }
    all.sort_unstable();
    all.dedup();
    all.into()
}

impl Hosts {
    /// Whether a path, or the file that was found for it, is one that a program of the host runs.
    #[inline]
    pub(super) fn leads_to_source(&self, host: u16, path: &[u8], found: Option<&LookedUp>) -> bool {
        let endings = &self.rules.hosts[usize::from(host)].source_endings;
        let is_found = |found: &LookedUp| matches!(found.leads(), Leads::File(file) if is_one(&file, endings));
        !endings.is_empty() && (is_one(path, endings) || found.is_some_and(is_found))
    }

    /// Whether a file is one that a program of the host runs, or a compressed form of such a one.
    #[inline]
    pub(super) fn is_source(&self, host: u16, path: &[u8]) -> bool {
        let endings = &self.rules.hosts[usize::from(host)].source_endings;
        !endings.is_empty() && is_one(path, endings)
    }
}

#[cold]
fn is_one(path: &[u8], endings: &[String]) -> bool {
    let forms = CODINGS.into_iter().filter_map(|coding| path.strip_suffix(coding.suffix()));
    std::iter::once(path).chain(forms).any(|path| endings.iter().any(|ending| path.ends_with(ending.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_known_by_their_endings() {
        let endings = [".php".to_owned(), ".phtml".to_owned()];
        for (path, expected) in [
            ("/a.php", true),
            ("/a/b.phtml", true),
            ("/a.php.gz", true),
            ("/a.php.br", true),
            ("/a.txt", false),
            ("/a.php/b", false),
            ("/php", false),
        ] {
            assert_eq!(is_one(path.as_bytes(), &endings), expected, "{path}");
        }
    }
}
