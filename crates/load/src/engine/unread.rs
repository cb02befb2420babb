//! Connections that were left with more to read: their watch tells of nothing that was there before.

use std::collections::VecDeque;

/// Tokens of such connections, each listed once.
#[derive(Debug)]
pub(crate) struct Unread {
    tokens: VecDeque<u64>,
    /// How many are left of those that were listed when the turn began.
    turn: usize,
}

impl Unread {
    /// Room for so many connections.
    pub(crate) fn new(connections: usize) -> Self {
        Self { tokens: VecDeque::with_capacity(connections), turn: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Lists a connection. Few are listed at a time: each has had megabytes in a row.
    pub(crate) fn list(&mut self, token: u64) {
        if !self.tokens.contains(&token) {
            self.tokens.push_back(token);
        }
    }

    /// Begins a turn: what is listed from now on has to wait for the next one.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.turn = self.tokens.len();
    }

    /// The next connection of the turn, listed no more.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<u64> {
        self.turn = self.turn.checked_sub(1)?;
        self.tokens.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_even_if_more_is_listed_meanwhile() {
        let mut unread = Unread::new(2);
        unread.list(1);
        unread.list(2);
        unread.list(1);
        unread.begin();
        assert_eq!(unread.next(), Some(1));
        unread.list(1);
        unread.list(2);
        assert_eq!((unread.next(), unread.next(), unread.is_empty()), (Some(2), None, false));
        unread.begin();
        assert_eq!((unread.next(), unread.next(), unread.is_empty()), (Some(1), None, true));
    }
}
