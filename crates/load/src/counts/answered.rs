//! How a whole response came out.

/// Set in the number of a response that failed a check: so it is none of the statuses that there are.
const UNFIT: u16 = 1 << 15;

/// The status of a whole response, and whether it failed a check, in one number: so the comparison by which a status is
/// looked up tells both, and runs without checks pay nothing for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answered(u16);

impl Answered {
    /// A response that failed no check.
    #[inline]
    pub(crate) fn fit(status: u16) -> Self {
        Self(status)
    }

    /// A response that failed a check.
    pub(crate) fn unfit(status: u16) -> Self {
        Self(status | UNFIT)
    }

    #[inline]
    pub(crate) fn status(self) -> u16 {
        self.0 & !UNFIT
    }

    pub(crate) fn is_fit(self) -> bool {
        self.0 & UNFIT == 0
    }

    /// Its place among the statuses; beyond all of them if it failed a check.
    #[inline]
    pub(crate) fn place(self) -> usize {
        usize::from(self.0)
    }
}
