//! What is counted apart, and the names that texts may use.

use crate::form::scope::{Scope, ScopeKind};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Names that every user has.
pub(crate) const BUILT_IN: [&str; 3] = ["user", "iteration", "uuid"];

/// What is known while a file is read.
#[derive(Debug, Default)]
pub(crate) struct Known {
    scopes: RefCell<Vec<Scope>>,
    /// Names that some step, feeder or table defines.
    names: RefCell<BTreeSet<String>>,
    /// Names that texts use, with the places of the texts.
    used: RefCell<Vec<(String, usize)>>,
}

impl Known {
    pub(crate) fn new() -> Self {
        let known = Self::default();
        known.scope(ScopeKind::All, "");
        BUILT_IN.iter().for_each(|name| known.define(name));
        known
    }

    /// The place of a scope, which is made if there is none.
    pub(crate) fn scope(&self, kind: ScopeKind, name: &str) -> usize {
        let mut scopes = self.scopes.borrow_mut();
        if let Some(place) = scopes.iter().position(|scope| scope.kind == kind && scope.name == name) {
            return place;
        }
        scopes.push(Scope { kind, name: name.to_owned() });
        scopes.len() - 1
    }

    /// All scopes so far.
    pub(crate) fn scopes(&self) -> Vec<Scope> {
        self.scopes.borrow().clone()
    }

    pub(crate) fn define(&self, name: &str) {
        self.names.borrow_mut().insert(name.to_owned());
    }

    pub(crate) fn uses(&self, name: &str, at: usize) {
        self.used.borrow_mut().push((name.to_owned(), at));
    }

    /// Names that are used and that nothing defines, with their places.
    pub(crate) fn unknown(&self) -> Vec<(String, usize)> {
        let names = self.names.borrow();
        self.used.borrow().iter().filter(|(name, _)| !names.contains(name)).cloned().collect()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.names.borrow().iter().cloned().collect()
    }

    pub(crate) fn into_scopes(self) -> Vec<Scope> {
        self.scopes.into_inner()
    }
}
