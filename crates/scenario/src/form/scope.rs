//! What is counted apart.

/// What is counted apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// What it is.
    pub kind: ScopeKind,
    /// Its name; of a tag, `name=value`.
    pub name: String,
}

/// What is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopeKind {
    /// All requests.
    All,
    /// The requests of a step.
    Step,
    /// Those of a group.
    Group,
    /// Those with a tag.
    Tag,
}

impl ScopeKind {
    /// Its name in objectives and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Step => "step",
            Self::Group => "group",
            Self::Tag => "tag",
        }
    }
}
