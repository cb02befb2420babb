//! What the translation of one configuration of nginx shares.

use crate::directive::Directive;
use crate::files::Files;
use crate::report::Report;
use std::collections::BTreeMap;

/// The files around, the blocks of the whole configuration, and what is told.
pub(crate) struct Context<'t> {
    pub(crate) files: &'t dyn Files,
    pub(crate) folder: String,
    pub(crate) report: &'t mut Report,
    pub(crate) upstreams: BTreeMap<String, &'t Directive>,
    /// Requests and their time, by the name of the zone.
    pub(crate) rates: BTreeMap<String, (u64, &'static str)>,
    /// Paths of weir's own that were made so far.
    pub(crate) inner: usize,
}

impl Context<'_> {
    /// A path that no client can ask for, for what nginx does within itself.
    pub(crate) fn inner_path(&mut self, name: &str) -> String {
        self.inner += 1;
        let name: String =
            name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-' || *letter == '_').collect();
        format!("/@{}{}", if name.is_empty() { "inner" } else { &name }, self.inner)
    }
}
