//! Messages with their length before them, followed over calls of which only the first bytes were copied.

use super::protocol::Seen;

/// Bytes of a message's body that are kept until it is read.
pub(super) const BODY_BYTES_MAX: usize = 1024;
/// The longest head of any protocol.
const HEAD_BYTES_MAX: usize = 16;

/// What the first bytes of a message say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// More bytes are needed.
    Short,
    /// They are no head of this protocol.
    Wrong,
    /// The head has so many bytes, and so many follow.
    Of(usize, usize),
}

/// A message, as far as it was seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    /// Its head.
    pub(super) head: &'a [u8],
    /// The first bytes behind the head.
    pub(super) body: &'a [u8],
    /// Bytes behind the head.
    pub(super) length: usize,
}

impl Message<'_> {
    /// Whether some of the body was not seen.
    pub(super) fn is_cut(&self) -> bool {
        self.body.len() < self.length
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Framing {
    head: Vec<u8>,
    body: Vec<u8>,
    /// Of the message under way: bytes of its body, and how many are still to come.
    length: usize,
    left: usize,
    inside: bool,
    lost: bool,
}

impl Framing {
    /// Whether it is not known where the next message begins.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// The next byte begins a message.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Takes a call; `begins` tells of each message as soon as its head is whole, `take` when it is over.
    pub(super) fn push(&mut self, seen: Seen<'_>, read: fn(&[u8]) -> Head, take: &mut dyn FnMut(Message<'_>)) {
        let (mut bytes, mut length) = (seen.bytes, seen.length);
        while length > 0 && !self.lost {
            if self.inside {
                let step = self.left.min(length);
                let copied = step.min(bytes.len());
                let room = BODY_BYTES_MAX.saturating_sub(self.body.len());
                // A body with a hole in it ends before the hole.
                if self.body.len() == self.length - self.left {
                    self.body.extend_from_slice(&bytes[..copied.min(room)]);
                }
                (bytes, length) = (&bytes[copied..], length - step);
                self.left -= step;
            } else if let Some((first, rest)) = bytes.split_first() {
                self.head.push(*first);
                (bytes, length) = (rest, length - 1);
                match read(&self.head) {
                    Head::Of(_, body) => (self.inside, self.length, self.left) = (true, body, body),
                    Head::Short if self.head.len() < HEAD_BYTES_MAX => {}
                    Head::Short | Head::Wrong => self.lost = true,
                }
            } else {
                // The next head lies in what was not copied.
                self.lost = true;
            }
            if self.inside && self.left == 0 {
                take(Message { head: &self.head, body: &self.body, length: self.length });
                self.head.clear();
                self.body.clear();
                self.inside = false;
            }
        }
    }

    /// The message under way, as far as it was seen; none where its head is not whole.
    pub(super) fn begun(&self) -> Option<Message<'_>> {
        self.inside.then_some(Message { head: &self.head, body: &self.body, length: self.length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A letter, and a length of one byte.
    fn read(head: &[u8]) -> Head {
        match head {
            [b'a'..=b'z', length] => Head::Of(2, usize::from(*length)),
            [b'a'..=b'z'] | [] => Head::Short,
            _ => Head::Wrong,
        }
    }

    fn told(framing: &mut Framing, seen: Seen<'_>) -> Vec<(u8, usize, usize)> {
        let mut out = Vec::new();
        framing.push(seen, read, &mut |message| out.push((message.head[0], message.body.len(), message.length)));
        out
    }

    #[test]
    fn a_hole_within_a_message_is_passed_over_and_one_at_a_head_loses_the_way() {
        let mut framing = Framing::default();
        assert_eq!(told(&mut framing, Seen::new(b"a\x05hel", 7)), [(b'a', 3, 5)]);
        assert_eq!(told(&mut framing, Seen::new(b"b\x01xc", 4)), [(b'b', 1, 1)]);
        assert_eq!(told(&mut framing, Seen::new(b"\x00d\x02h", 40)), [(b'c', 0, 0), (b'd', 1, 2)]);
        assert!(framing.is_lost());
        framing.reset();
        assert_eq!(told(&mut framing, Seen::new(b"e\x00", 2)), [(b'e', 0, 0)]);
    }

    proptest! {
        /// However the bytes come, the messages are the same.
        #[test]
        fn calls_may_cut_messages_anywhere(
            messages in proptest::collection::vec((0u8..26, 0usize..40), 0..12), cut in 1usize..30,
        ) {
            let mut stream = Vec::new();
            for (letter, length) in &messages {
                stream.extend([b'a' + letter, *length as u8]);
                stream.extend(std::iter::repeat_n(7, *length));
            }
            let mut framing = Framing::default();
            let out: Vec<_> =
                stream.chunks(cut).flat_map(|call| told(&mut framing, Seen::new(call, call.len()))).collect();
            let wanted: Vec<_> = messages.iter().map(|(letter, length)| (b'a' + letter, *length, *length)).collect();
            prop_assert_eq!(out, wanted);
        }

        #[test]
        fn no_bytes_break_it(calls in proptest::collection::vec((any::<Vec<u8>>(), 0usize..100), 0..20)) {
            let mut framing = Framing::default();
            for (bytes, length) in &calls {
                told(&mut framing, Seen::new(bytes, *length));
                prop_assert!(framing.body.len() <= BODY_BYTES_MAX && framing.head.len() <= HEAD_BYTES_MAX);
            }
        }
    }
}
