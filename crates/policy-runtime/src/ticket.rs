//! What goes out with the advice on a request and comes back with the end of its response.

/// Identifies a request at the end of its response: the server keeps it from the advice on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

impl Ticket {
    /// Of a request that no statistics know.
    pub(crate) const NONE: Self = Self(0);
    /// So that no place is that of a request which no statistics know.
    pub(crate) const KNOWN: u64 = 1 << 32;
    pub(crate) const REFUSED: u64 = 1 << 33;
    pub(crate) const SESSION: u64 = 1 << 34;

    #[inline]
    pub(crate) fn of(place: u32, is_refused: bool) -> Self {
        Self(u64::from(place) | Self::KNOWN | if is_refused { Self::REFUSED } else { 0 })
    }

    /// The ticket of a number that the server gives back.
    #[inline]
    pub(crate) fn told(number: u64) -> Self {
        Self(number)
    }

    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// The response is that of a session which the rules know.
    #[inline]
    pub(crate) fn of_session(self) -> Self {
        Self(self.0 | Self::SESSION)
    }

    #[inline]
    pub(crate) fn has(self, what: u64) -> bool {
        self.0 & what != 0
    }

    /// The place of its path.
    #[inline]
    pub(crate) fn place(self) -> u32 {
        (self.0 & u64::from(u32::MAX)) as u32
    }
}
