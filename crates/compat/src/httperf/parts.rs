//! Which part of requests and replies is printed.

/// Which part of requests or replies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) head: bool,
    pub(super) content: bool,
}

impl Parts {
    /// The option's value: `header`, `body`, or both where there is none.
    pub(super) fn parse(value: &str) -> Self {
        match value.chars().next().map(|first| first.to_ascii_lowercase()) {
            Some('h') => Self { head: true, content: false },
            Some('b') => Self { head: false, content: true },
            _ => Self { head: true, content: true },
        }
    }

    pub(super) fn any(self) -> bool {
        self.head || self.content
    }

    /// The option as the original repeats it.
    pub(super) fn repeated(self, name: &str) -> String {
        match (self.head, self.content) {
            (true, false) => format!("--{name}=header"),
            (false, true) => format!("--{name}=body"),
            _ => format!("--{name}"),
        }
    }
}
