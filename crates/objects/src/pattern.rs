//! How two objects interact: the columns of Table 1 in Horikawa (2000), and the CPU of its Fig. 4.

/// What is asked, who begins and ends its work, and what the requester does meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// A task asks for a CPU: wake-up, resume and sleep are request, accept and finish.
    Cpu,
    /// A timer cues a logical entity, and no requester waits.
    TimerCued,
    /// A logical entity works on request, and the requester goes on.
    Detached,
    /// A logical entity works on request, and the requester pauses until it hears of the outcome.
    ClientServer,
    /// A task makes another one and waits for its end.
    ForkJoin,
    /// A function within the requester: it is on the requester's own CPU.
    Call,
    /// A physical resource works, and the requester goes on.
    AsyncIo,
    /// A physical resource works, and the requester pauses.
    SyncIo,
    /// A logical resource is taken and given back by the requester, which spins until it gets it.
    BusyWait,
    /// The same, but the requester pauses until it gets it.
    Contention,
}

impl Pattern {
    /// Every pattern, with the word that tables have for it.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::Cpu, "cpu"),
        (Self::TimerCued, "timer-cued"),
        (Self::Detached, "detached"),
        (Self::ClientServer, "client-server"),
        (Self::ForkJoin, "fork-join"),
        (Self::Call, "call"),
        (Self::AsyncIo, "async-io"),
        (Self::SyncIo, "sync-io"),
        (Self::BusyWait, "busy-wait"),
        (Self::Contention, "contention"),
    ];

    /// The pattern of a table's word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == word).map(|(pattern, _)| *pattern)
    }

    /// The word that tables have for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(pattern, _)| *pattern == self).map_or("", |(_, word)| word)
    }

    /// Whether the object works for the requester's transaction from its acceptance to its finish (steps 5 and 6).
    #[must_use]
    pub fn carries(self) -> bool {
        matches!(self, Self::Detached | Self::ClientServer | Self::ForkJoin)
    }

    /// Whether the requester itself uses the object, so that a use may be of several transactions, one after the other.
    /// The use of a physical resource is of the transaction for which it was asked (step 7).
    #[must_use]
    pub fn is_used_by_requester(self) -> bool {
        matches!(self, Self::Cpu | Self::BusyWait | Self::Contention | Self::Call)
    }
}
