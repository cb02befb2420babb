//! Frames on a request's stream (RFC 9114 7), taken apart as their bytes come; knows no stream and no socket.

use crate::http3::integers::take_number;
use crate::http3::malformed::{Malformed, code};

/// The longest block of fields that is read, in bytes; the server is told so.
pub const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the longest head of a frame: two numbers.
const HEAD_BYTES_MAX: usize = 16;

/// Types of frames (RFC 9114 7.2).
pub(crate) mod kind {
    pub(crate) const DATA: u64 = 0x0;
    pub(crate) const HEADERS: u64 = 0x1;
    pub(crate) const CANCEL_PUSH: u64 = 0x3;
    pub(crate) const SETTINGS: u64 = 0x4;
    pub(crate) const PUSH_PROMISE: u64 = 0x5;
    pub(crate) const GOAWAY: u64 = 0x7;
    pub(crate) const MAX_PUSH_ID: u64 = 0xd;
}

/// What came on the stream of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A whole block of fields.
    Headers(&'a [u8]),
    /// A piece of the content, never empty.
    Content(&'a [u8]),
}

/// Where a reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Before a frame, or within its head.
    #[default]
    Head,
    Headers,
    Content,
    Skipped,
}

/// Takes the frames of one stream apart.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reader {
    state: State,
    /// Bytes of the frame that are still to come.
    left: u64,
    begun: [u8; HEAD_BYTES_MAX],
    begun_bytes: u8,
}

impl Reader {
    /// Takes bytes of the stream: how many of them, and what they make whole. `block` keeps what has come of a block of
    /// fields, from one call to the next.
    ///
    /// # Errors
    /// [`Malformed`] where a frame may not stand there (RFC 9114 7.2), or a block is too long.
    pub fn next<'a>(
        &mut self,
        input: &'a [u8],
        block: &'a mut Vec<u8>,
    ) -> Result<(usize, Option<Event<'a>>), Malformed> {
        let mut at = 0;
        if self.state == State::Head {
            let (used, head) = self.head(input);
            at = used;
            let Some((kind, length)) = head else { return Ok((at, None)) };
            self.state = state_of(kind, length)?;
            self.left = length;
            block.clear();
        }
        let rest = &input[at..];
        let here = usize::try_from(self.left).map_or(rest.len(), |left| left.min(rest.len()));
        let (is_first, before) = (block.is_empty(), self.state);
        self.left -= here as u64;
        if self.left == 0 {
            self.state = State::Head;
        }
        let event = match before {
            State::Content if here > 0 => Some(Event::Content(&rest[..here])),
            State::Headers if self.left == 0 && is_first => Some(Event::Headers(&rest[..here])),
            State::Headers => {
                block.extend_from_slice(&rest[..here]);
                (self.left == 0).then_some(Event::Headers(block))
            }
            State::Head | State::Content | State::Skipped => None,
        };
        Ok((at + here, event))
    }

    /// Whether the stream may end here: no frame is cut off.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.state == State::Head && self.begun_bytes == 0
    }

    /// Takes the type and the length of a frame, or what there is of them.
    fn head(&mut self, input: &[u8]) -> (usize, Option<(u64, u64)>) {
        let before = usize::from(self.begun_bytes);
        let more = input.len().min(HEAD_BYTES_MAX - before);
        self.begun[before..before + more].copy_from_slice(&input[..more]);
        let mut rest = &self.begun[..before + more];
        let head = take_number(&mut rest).and_then(|kind| Some((kind, take_number(&mut rest)?)));
        let used = if head.is_some() { more - rest.len() } else { more };
        self.begun_bytes = if head.is_some() { 0 } else { (before + more) as u8 };
        (used, head)
    }
}

/// How a frame's content is taken.
fn state_of(kind: u64, length: u64) -> Result<State, Malformed> {
    match kind {
        kind::DATA => Ok(if length == 0 { State::Head } else { State::Content }),
        kind::HEADERS if length > BLOCK_BYTES_MAX as u64 => {
            Err(Malformed::new(code::EXCESSIVE_LOAD, "a block of fields that is longer than 65536 bytes"))
        }
        kind::HEADERS => Ok(State::Headers),
        // No push was allowed (RFC 9114 7.2.5); and what HTTP/2 had there is reserved (7.2.8).
        kind::PUSH_PROMISE => Err(Malformed::new(code::ID_ERROR, "a push, which was not allowed")),
        kind::CANCEL_PUSH | kind::SETTINGS | kind::GOAWAY | kind::MAX_PUSH_ID | 0x2 | 0x6 | 0x8 | 0x9 => {
            Err(Malformed::new(code::FRAME_UNEXPECTED, "a frame on a request's stream that may not stand there"))
        }
        _ => Ok(State::Skipped),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Blocks of fields (`true`) and content, and whether the stream may end there.
    type Said = (Vec<(bool, Vec<u8>)>, bool);

    /// What a stream says that comes in pieces of such sizes, pieces of content joined.
    fn read(input: &[u8], mut piece: impl FnMut() -> usize) -> Result<Said, Malformed> {
        let (mut reader, mut block, mut found) = (Reader::default(), Vec::new(), Vec::<(bool, Vec<u8>)>::new());
        let mut at = 0;
        while at < input.len() {
            let end = input.len().min(at + piece().max(1));
            while at < end {
                let (used, event) = reader.next(&input[at..end], &mut block)?;
                at += used;
                match event {
                    Some(Event::Headers(fields)) => found.push((true, fields.to_vec())),
                    Some(Event::Content(bytes)) => match found.last_mut() {
                        Some((false, before)) => before.extend_from_slice(bytes),
                        _ => found.push((false, bytes.to_vec())),
                    },
                    None => {}
                }
            }
        }
        Ok((found, reader.is_between()))
    }

    #[test]
    fn frames_are_told_apart_in_pieces_of_any_size() {
        // A reserved frame, a block, content in two frames, an empty one, and trailers.
        let input = b"\x21\x03xyz\x01\x02ab\x00\x40\x03con\x00\x04tent\x00\x00\x01\x00";
        let wanted = vec![(true, b"ab".to_vec()), (false, b"content".to_vec()), (true, Vec::new())];
        for piece in 1..input.len() + 1 {
            assert_eq!(read(input, || piece), Ok((wanted.clone(), true)), "{piece}");
        }
        assert_eq!(read(b"\x00\x05abc", || 9).map(|(_, ended)| ended), Ok(false));
        assert_eq!(read(b"\x40", || 9).map(|(_, ended)| ended), Ok(false));
    }

    #[test]
    fn frames_that_may_not_stand_there_are_refused() {
        for (input, code) in [
            (&b"\x04\x00"[..], code::FRAME_UNEXPECTED),
            (b"\x07\x01\x00", code::FRAME_UNEXPECTED),
            (b"\x0d\x01\x00", code::FRAME_UNEXPECTED),
            (b"\x02\x00", code::FRAME_UNEXPECTED),
            (b"\x05\x02\x00\x00", code::ID_ERROR),
            (b"\x01\x80\x01\x00\x01", code::EXCESSIVE_LOAD),
        ] {
            assert_eq!(read(input, || 9).map_err(|error| error.code), Err(code), "{input:02x?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(input in proptest::collection::vec(0u8..12, 0..60), sizes in proptest::collection::vec(1usize..9, 1..9)) {
            let mut next = 0;
            let pieces = || { next += 1; sizes[next % sizes.len()] };
            prop_assert_eq!(read(&input, pieces), read(&input, || usize::MAX / 2));
        }
    }
}
