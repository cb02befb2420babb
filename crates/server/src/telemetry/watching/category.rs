//! What is told of a watched request, by categories.

use std::fmt;
use std::str::FromStr;

/// A part of what is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchCategory {
    /// The connection: addresses, session, protocol, loop.
    Network,
    /// The request line and fields.
    Head,
    /// Host, routes with reasons, tables, what keeps clients away.
    Routes,
    /// What caches did.
    Cache,
    /// The file that answers.
    File,
    /// The script that runs.
    Script,
    /// The steps with servers that are asked.
    Upstream,
    /// What the rules of a policy said.
    Rules,
    /// The business transaction that it is told as.
    Arm,
    /// Status, fields and bytes of the response.
    Response,
    /// How long its parts took.
    Timing,
    /// What request and response carry. It takes the right `bodies`, and is told only if it is named.
    Bodies,
}

impl WatchCategory {
    /// Each of them, in the order in which they are shown.
    pub const ALL: [Self; 12] = [
        Self::Network,
        Self::Head,
        Self::Routes,
        Self::Cache,
        Self::File,
        Self::Script,
        Self::Upstream,
        Self::Rules,
        Self::Arm,
        Self::Response,
        Self::Timing,
        Self::Bodies,
    ];

    /// Its name, as lists have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Head => "head",
            Self::Routes => "routes",
            Self::Cache => "cache",
            Self::File => "file",
            Self::Script => "script",
            Self::Upstream => "upstream",
            Self::Rules => "rules",
            Self::Arm => "arm",
            Self::Response => "response",
            Self::Timing => "timing",
            Self::Bodies => "bodies",
        }
    }
}

/// Some of the categories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchCategories(u16);

impl WatchCategories {
    /// All but bodies, which take a right.
    pub const fn all() -> Self {
        Self(((1 << WatchCategory::ALL.len()) - 1) & !(1 << WatchCategory::Bodies as u16))
    }

    /// Whether one of them is among these.
    pub const fn has(self, category: WatchCategory) -> bool {
        self.0 & 1 << category as u16 != 0
    }
}

/// A word in a list that names no category.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{word}` is no category; there are network, head, routes, cache, file, script, upstream, rules, arm, response, \
     timing, all (these) and bodies (by the right `bodies`)"
)]
pub struct UnknownCategory {
    /// The word as given, shortened.
    pub word: String,
}

impl FromStr for WatchCategories {
    type Err = UnknownCategory;

    fn from_str(list: &str) -> Result<Self, UnknownCategory> {
        let mut chosen = Self(0);
        for word in list.split(',').map(str::trim) {
            let found = WatchCategory::ALL.into_iter().find(|category| category.name() == word);
            match (found, word) {
                (Some(category), _) => chosen.0 |= 1 << category as u16,
                (None, "all") => chosen.0 |= Self::all().0,
                (None, _) => return Err(UnknownCategory { word: word.chars().take(40).collect() }),
            }
        }
        Ok(chosen)
    }
}

impl fmt::Display for WatchCategories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> =
            WatchCategory::ALL.into_iter().filter(|one| self.has(*one)).map(WatchCategory::name).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_are_written() {
        for bits in 1..1_u16 << WatchCategory::ALL.len() {
            let chosen = WatchCategories(bits);
            assert_eq!(chosen.to_string().parse(), Ok(chosen));
        }
        assert_eq!("all".parse(), Ok(WatchCategories::all()));
        assert!(!WatchCategories::all().has(WatchCategory::Bodies), "bodies are told only where they are named");
        assert_eq!("all,bodies".parse(), Ok(WatchCategories((1 << WatchCategory::ALL.len()) - 1)));
        assert!("head,".parse::<WatchCategories>().is_err() && "heads".parse::<WatchCategories>().is_err());
    }
}
