//! Commands with their options and modes.

use clap::ArgMatches;
use clap::parser::ValueSource;

/// A command, its options and its modes.
pub(super) struct Usage {
    /// Its name, with those of the commands that it belongs to.
    pub(super) path: &'static [&'static str],
    /// All of its options; they have an effect in every mode that does not name them.
    #[cfg_attr(not(test), expect(dead_code, reason = "what a test holds against the definitions"))]
    pub(super) options: &'static [&'static [&'static str]],
    /// Modes in which some of them have none.
    pub(super) modes: &'static [Mode],
}

/// A way to use a command.
pub(super) struct Mode {
    /// Arguments that mean it, for the test.
    #[cfg_attr(not(test), expect(dead_code, reason = "what a test tries"))]
    pub(super) example: &'static str,
    /// Whether arguments mean it.
    pub(super) is_on: fn(&ArgMatches) -> bool,
    /// Options that have no effect in it.
    pub(super) idle: &'static [&'static [&'static str]],
    /// Why, and what to do instead.
    pub(super) words: &'static str,
}

/// Whether an option was given on the command line.
pub(super) fn given(matches: &ArgMatches, id: &str) -> bool {
    matches.ids().any(|known| known.as_str() == id) && matches.value_source(id) == Some(ValueSource::CommandLine)
}

pub(super) fn any_given(matches: &ArgMatches, ids: &[&str]) -> bool {
    ids.iter().any(|id| given(matches, id))
}
