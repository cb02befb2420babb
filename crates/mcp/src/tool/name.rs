//! Which tools there are.

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Where the time of requests goes.
    Explain,
    /// Which of two is better.
    Compare,
    /// A load and its latencies.
    Load,
    /// What to change.
    Advise,
    /// A question to a run.
    Sql,
}

impl Tool {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Explain, Self::Compare, Self::Load, Self::Advise, Self::Sql];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Explain => "explain",
            Self::Compare => "compare",
            Self::Load => "load",
            Self::Advise => "advise",
            Self::Sql => "sql",
        }
    }

    /// The tool of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }
}
