//! How often a loop asked the kernel for something.

use crate::carried::carried;

/// How often a loop asked the kernel for something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// Waits for events.
    pub wait: u64,
    /// Receptions.
    pub receive: u64,
    /// Transmissions.
    pub send: u64,
    /// All others of the loop: sockets made, set up, watched, closed.
    pub other: u64,
}

impl Calls {
    /// All of them.
    #[must_use]
    pub fn total(self) -> u64 {
        self.wait + self.receive + self.send + self.other
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.wait += other.wait;
        self.receive += other.receive;
        self.send += other.send;
        self.other += other.other;
    }
}

carried!(Calls { wait, receive, send, other });
