//! Where a directive of nginx holds: its own block, or the nearest one around it that says something.

use crate::directive::Directive;

/// The blocks around a place, the outermost first.
#[derive(Debug, Clone)]
pub(crate) struct Scope<'t> {
    levels: Vec<&'t [Directive]>,
}

/// How many of the levels are of a whole server: `http` and `server`.
const SERVER_LEVELS: usize = 2;

impl<'t> Scope<'t> {
    pub(crate) fn of_server(http: &'t [Directive], server: &'t [Directive]) -> Self {
        Self { levels: vec![http, server] }
    }

    pub(crate) fn within(&self, block: &'t [Directive]) -> Self {
        let mut levels = self.levels.clone();
        levels.push(block);
        Self { levels }
    }

    /// The directives of the innermost block.
    pub(crate) fn innermost(&self) -> &'t [Directive] {
        self.levels.last().copied().unwrap_or_default()
    }

    /// All of a name in the nearest block that has one: nginx inherits them together.
    pub(crate) fn all(&self, name: &str) -> Vec<&'t Directive> {
        of_levels(&self.levels, name)
    }

    /// The last of a name in the nearest block that has one.
    pub(crate) fn one(&self, name: &str) -> Option<&'t Directive> {
        self.all(name).pop()
    }

    /// As [`Self::all`], below the server only.
    pub(crate) fn own(&self, name: &str) -> Vec<&'t Directive> {
        of_levels(self.levels.get(SERVER_LEVELS..).unwrap_or_default(), name)
    }

    /// As [`Self::all`], of the server alone.
    pub(crate) fn of_host(&self, name: &str) -> Vec<&'t Directive> {
        of_levels(&self.levels[..self.levels.len().min(SERVER_LEVELS)], name)
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.one(name).is_some_and(|directive| directive.argument(0) == "on")
    }
}

fn of_levels<'t>(levels: &[&'t [Directive]], name: &str) -> Vec<&'t Directive> {
    for level in levels.iter().rev() {
        let found: Vec<_> = level.iter().filter(|directive| directive.name == name).collect();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}
