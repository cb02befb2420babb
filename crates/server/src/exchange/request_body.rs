//! The body of a request on its way to an application: a stream with a bound.

use crate::http::field_lines::pairs;

/// Bytes of one request's body that the server holds at most; a client that sends more waits until the application has
/// taken some.
pub const HELD_BYTES_MAX: usize = 64 << 10;
/// Bytes of trailers that are kept; a request with more is refused.
pub(crate) const TRAILER_BYTES_MAX: usize = 8 << 10;

/// What the client still owes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coming {
    /// More bytes, or the end.
    More,
    /// Nothing: the whole body has come.
    Whole,
}

/// The body of a request, as far as it has come and was not taken.
///
/// The server receives no more than it holds room for: at most [`HELD_BYTES_MAX`]. What an application does not take
/// holds the client back, by the flow control of HTTP/2 and HTTP/3 and by that of TCP.
#[derive(Debug)]
pub struct RequestBody {
    held: Vec<u8>,
    /// Of these so many were taken.
    taken: usize,
    coming: Coming,
    /// Lines of fields.
    trailers: Vec<u8>,
    /// Bytes that are held at most.
    bytes_max: usize,
}

impl Default for RequestBody {
    fn default() -> Self {
        let (held, trailers) = (Vec::new(), Vec::new());
        Self { held, taken: 0, coming: Coming::More, trailers, bytes_max: HELD_BYTES_MAX }
    }
}

impl RequestBody {
    /// The bytes that are here, in their order; empty = none for now, or the end ([`Self::is_ended`]).
    pub fn bytes(&self) -> &[u8] {
        &self.held[self.taken..]
    }

    /// Takes so many of them, at most all; the client may send as many more.
    pub fn take(&mut self, bytes: usize) {
        self.taken += bytes.min(self.held.len() - self.taken);
        if self.taken == self.held.len() {
            // Its memory is given back: thousands of connections that mostly wait keep nothing.
            self.held = Vec::new();
            self.taken = 0;
        }
    }

    /// Whether the whole body has come and was taken.
    pub fn is_ended(&self) -> bool {
        self.coming == Coming::Whole && self.bytes().is_empty()
    }

    /// Whether the whole body has come, taken or not.
    pub(crate) fn is_whole(&self) -> bool {
        self.coming == Coming::Whole
    }

    /// The fields behind the body (RFC 9110 section 6.5), once it has ended; names in the case that they came in.
    pub fn trailers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        pairs(&self.trailers)
    }

    /// Bytes that may come now.
    pub(crate) fn room(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes().len())
    }

    /// Holds no more than this, as the rest of the bound is held elsewhere.
    pub(crate) fn hold_at_most(&mut self, bytes: usize) {
        self.bytes_max = bytes.min(HELD_BYTES_MAX);
    }

    /// Whether the client owes more, and there is room for it.
    pub(crate) fn is_owed(&self) -> bool {
        self.coming == Coming::More && self.room() > 0
    }

    /// Takes up bytes from the client, for which there is room.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.held.drain(..self.taken);
            self.taken = 0;
        }
        self.held.extend_from_slice(bytes);
    }

    /// Takes up fields behind the body, each a line; false if they are too large.
    #[cold]
    pub(crate) fn put_fields<'f>(&mut self, mut fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> bool {
        fields.all(|(name, value)| [name, b": ", value, b"\r\n"].iter().all(|part| self.put_trailer(part)))
    }

    /// Takes over what came before the application began: bytes and trailers, but not the bound.
    #[cold]
    pub(crate) fn take_over(&mut self, early: Self) {
        (self.held, self.taken, self.trailers) = (early.held, early.taken, early.trailers);
    }

    /// Takes up a part of the trailers; false if they are too large.
    pub(crate) fn put_trailer(&mut self, bytes: &[u8]) -> bool {
        let fits = self.trailers.len() + bytes.len() <= TRAILER_BYTES_MAX;
        if fits {
            self.trailers.extend_from_slice(bytes);
        }
        fits
    }

    /// What follows the request's body belongs to it from here on.
    pub(crate) fn reopen(&mut self) {
        self.coming = Coming::More;
    }

    /// The whole body has come.
    pub(crate) fn end(&mut self) {
        self.coming = Coming::Whole;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_is_taken_in_order_and_never_more_is_held_than_the_bound(
            steps in proptest::collection::vec((0_usize..100_000, 0_usize..100_000), 0..20),
        ) {
            let (mut body, mut put, mut taken) = (RequestBody::default(), 0_usize, 0_usize);
            for (more, less) in steps {
                let more = more.min(body.room());
                body.put(&(put..put + more).map(|number| number as u8).collect::<Vec<u8>>());
                put += more;
                prop_assert!(body.bytes().len() <= HELD_BYTES_MAX && body.bytes().len() + body.room() == HELD_BYTES_MAX);
                prop_assert!(body.bytes().iter().zip(taken..).all(|(byte, number)| *byte == number as u8));
                let less = less.min(body.bytes().len());
                body.take(less);
                taken += less;
                prop_assert_eq!(body.bytes().len(), put - taken);
                prop_assert!(!body.is_ended());
            }
            body.end();
            body.take(usize::MAX);
            prop_assert!(body.is_ended() && !body.is_owed());
        }
    }

    #[test]
    fn trailers_are_read_by_name_and_bounded() {
        let mut body = RequestBody::default();
        assert!(body.put_trailer(b"A: b\r\nC:  d e ") && body.put_trailer(b" \r\n"));
        assert_eq!(body.trailers().collect::<Vec<_>>(), [("A", &b"b"[..]), ("C", b"d e")]);
        assert!(!body.put_trailer(&[b'x'; TRAILER_BYTES_MAX]));
    }

    #[test]
    fn what_came_early_is_taken_over_with_its_trailers_and_without_its_bound() {
        let (mut early, mut body) = (RequestBody::default(), RequestBody::default());
        early.put(&[b'x'; 2000]);
        assert!(early.put_fields([(&b"a"[..], &b"b"[..]), (b"c", b"")].into_iter()));
        assert!(!early.put_fields([(&b"d"[..], &[b'x'; TRAILER_BYTES_MAX][..])].into_iter()));
        body.hold_at_most(1000);
        body.end();
        body.take_over(early);
        assert_eq!((body.bytes().len(), body.room(), body.is_ended()), (2000, 0, false));
        assert_eq!(body.trailers().next(), Some(("a", &b"b"[..])));
        body.take(2000);
        assert!(body.is_ended());
    }
}
