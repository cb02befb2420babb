//! Bodies of HTTP/1 requests: where they end. The server discards them to find the next request of the connection, or
//! gives them to an application.

use crate::http::framing::Framing;

/// How much of a body is still to be read past.
#[derive(Debug, Default)]
pub(crate) enum Drain {
    /// No body, or its end was reached.
    #[default]
    Done,
    /// This many bytes.
    Length(u64),
    /// Everything up to the connection's end, behind an upgrade.
    Raw,
    /// Chunks (RFC 9112 section 7.1), with the bytes that they may still take.
    Chunked { state: Chunk, budget_bytes: u64, bound: Bound },
}

/// Where in a chunked body the input stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// In the digits of a size: the size so far and how many digits.
    Size { size: u64, digits: u8 },
    /// In blanks after the digits.
    Blank { size: u64 },
    /// After a semicolon, up to the end of the line.
    Extension { size: u64 },
    /// After a carriage return that ends the size line.
    SizeEnd { size: u64 },
    /// In data.
    Data(u64),
    /// Before the carriage return, then the line feed, that end a chunk.
    DataEnd { seen_cr: bool },
    /// In the trailer section: whether the current line has any bytes.
    Trailer { is_begun: bool },
    /// After a carriage return that ends such a line.
    TrailerEnd { is_begun: bool },
}

/// Why a body cannot be read past.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DrainError {
    /// The chunks are malformed.
    Malformed,
    /// The body is larger than what is read for nothing.
    TooLarge,
}

/// A part of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'i> {
    Content(&'i [u8]),
    /// Of the trailer section, line ends included.
    Trailer(&'i [u8]),
}

/// What bounds a body in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// All of its bytes.
    Whole,
    /// Those that are no content, anew behind each piece of content.
    Overhead(u64),
}

impl Drain {
    /// Begins with a body of any size, of which everything is given out. `overhead_bytes_max` bounds what may stand
    /// between two pieces of its content.
    pub(crate) fn whole(framing: Framing, overhead_bytes_max: u64) -> Self {
        match framing {
            Framing::None | Framing::Length(0) => Self::Done,
            Framing::Length(bytes) => Self::Length(bytes),
            Framing::Chunked => Self::Chunked {
                state: Chunk::Size { size: 0, digits: 0 },
                budget_bytes: overhead_bytes_max,
                bound: Bound::Overhead(overhead_bytes_max),
            },
        }
    }

    /// Has the rest of a body discarded that was begun as a whole one; refuses one that is larger than `bytes_max`.
    pub(crate) fn discard(&mut self, bytes_max: u64) -> Result<(), DrainError> {
        match self {
            Self::Length(left) if *left > bytes_max => return Err(DrainError::TooLarge),
            Self::Chunked { budget_bytes, bound, .. } => (*budget_bytes, *bound) = (bytes_max, Bound::Whole),
            Self::Done | Self::Length(_) | Self::Raw => {}
        }
        Ok(())
    }

    /// Begins with a body; refuses one that is known to be larger than `bytes_max`.
    pub(crate) fn begin(framing: Framing, bytes_max: u64) -> Result<Self, DrainError> {
        match framing {
            Framing::None | Framing::Length(0) => Ok(Self::Done),
            Framing::Length(bytes) if bytes > bytes_max => Err(DrainError::TooLarge),
            Framing::Length(bytes) => Ok(Self::Length(bytes)),
            Framing::Chunked => {
                let state = Chunk::Size { size: 0, digits: 0 };
                Ok(Self::Chunked { state, budget_bytes: bytes_max, bound: Bound::Whole })
            }
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// Reads past what `input` has of the body and returns how many bytes that is.
    pub(crate) fn advance(&mut self, input: &[u8]) -> Result<usize, DrainError> {
        self.read(input, &mut |_| {})
    }

    /// The same, and gives out the parts of the body.
    pub(crate) fn read(&mut self, input: &[u8], give: &mut impl FnMut(Part<'_>)) -> Result<usize, DrainError> {
        match self {
            Self::Done => Ok(0),
            Self::Raw => {
                give(Part::Content(input));
                Ok(input.len())
            }
            Self::Length(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                give(Part::Content(&input[..taken]));
                *left -= taken as u64;
                if *left == 0 {
                    *self = Self::Done;
                }
                Ok(taken)
            }
            Self::Chunked { state, budget_bytes, bound } => {
                let mut at = 0;
                while at < input.len() {
                    let taken = match *state {
                        Chunk::Data(left) => usize::try_from(left).unwrap_or(usize::MAX).min(input.len() - at),
                        _ => 1,
                    };
                    let piece = &input[at..at + taken];
                    match (*state, *bound) {
                        (Chunk::Data(_), Bound::Overhead(most)) => *budget_bytes = most,
                        _ => *budget_bytes = budget_bytes.checked_sub(taken as u64).ok_or(DrainError::TooLarge)?,
                    }
                    match *state {
                        Chunk::Data(_) => give(Part::Content(piece)),
                        Chunk::Trailer { .. } | Chunk::TrailerEnd { .. } => give(Part::Trailer(piece)),
                        _ => {}
                    }
                    let next = state.after(input[at], taken as u64);
                    at += taken;
                    match next? {
                        Some(next) => *state = next,
                        None => {
                            *self = Self::Done;
                            break;
                        }
                    }
                }
                Ok(at)
            }
        }
    }
}

impl Chunk {
    /// The state after `taken` bytes, of which `byte` is the first; none at the end of the body.
    fn after(self, byte: u8, taken: u64) -> Result<Option<Self>, DrainError> {
        let next = match (self, byte) {
            (Self::Size { size, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if digits < 15 => {
                let digit = (byte as char).to_digit(16).map_or(0, u64::from);
                Self::Size { size: size * 16 + digit, digits: digits + 1 }
            }
            (Self::Size { size, digits: 1.. }, b'\r') => Self::SizeEnd { size },
            // A line ends with both characters. If one server takes a single one for an end and another does not, the
            // two see different requests.
            (Self::Size { size, digits: 1.. } | Self::Blank { size }, b';') => Self::Extension { size },
            (Self::Size { size, digits: 1.. } | Self::Blank { size }, b' ' | b'\t') => Self::Blank { size },
            (Self::Blank { size } | Self::Extension { size }, b'\r') => Self::SizeEnd { size },
            (Self::Extension { size }, b'\t' | b' '..=b'~' | 0x80..) => Self::Extension { size },
            (Self::SizeEnd { size: 0 }, b'\n') => Self::Trailer { is_begun: false },
            (Self::SizeEnd { size }, b'\n') => Self::Data(size),
            (Self::Data(left), _) if left > taken => Self::Data(left - taken),
            (Self::Data(_), _) => Self::DataEnd { seen_cr: false },
            (Self::DataEnd { seen_cr: false }, b'\r') => Self::DataEnd { seen_cr: true },
            (Self::DataEnd { seen_cr: true }, b'\n') => Self::Size { size: 0, digits: 0 },
            (Self::Trailer { is_begun }, b'\r') => Self::TrailerEnd { is_begun },
            (Self::Trailer { .. }, b'\t' | b' '..=b'~' | 0x80..) => Self::Trailer { is_begun: true },
            (Self::TrailerEnd { is_begun: false }, b'\n') => return Ok(None),
            (Self::TrailerEnd { is_begun: true }, b'\n') => Self::Trailer { is_begun: false },
            _ => return Err(DrainError::Malformed),
        };
        Ok(Some(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain_in_pieces(body: &[u8], piece: usize) -> Result<usize, DrainError> {
        let mut drain = Drain::begin(Framing::Chunked, 10_000).expect("chunks have no size at first");
        let mut taken = 0;
        for input in body.chunks(piece) {
            taken += drain.advance(input)?;
            if drain.is_done() {
                return Ok(taken);
            }
        }
        Ok(usize::MAX)
    }

    #[test]
    fn the_rest_of_a_whole_body_is_discarded_within_the_bound() {
        let mut length = Drain::whole(Framing::Length(1 << 40), 10);
        assert_eq!(length.read(b"abc", &mut |_| {}), Ok(3));
        assert_eq!(length.discard(1000), Err(DrainError::TooLarge));
        let mut small = Drain::whole(Framing::Length(5), 10);
        assert_eq!((small.discard(5), small.advance(b"abcdeGET"), small.is_done()), (Ok(()), Ok(5), true));
        let mut chunked = Drain::whole(Framing::Chunked, 10);
        assert_eq!((chunked.advance(b"ff\r\n"), chunked.discard(100)), (Ok(4), Ok(())));
        assert_eq!(chunked.advance(&[0; 101]), Err(DrainError::TooLarge));
        // Extensions have their bound beside the content.
        let mut chatty = Drain::whole(Framing::Chunked, 10);
        assert_eq!(chatty.advance(b"1;abcdefghijk"), Err(DrainError::TooLarge));
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for body in [
            "x\r\n",
            "\r\n",
            "5\r\nabcdefg",
            "1;\n",
            "-1\r\n",
            "0x1\r\n",
            "1\r\naX",
            "ffffffffffffffff\r\n",
            "5 \nabcde",
            "5 5\r\nabcde",
            "5;a\rb\r\n",
            "5;a\0\r\n",
            "5\nabcde",
            "5\r\nabcde\n",
            "0\n\n",
            "0\r\n\n",
            "0\r\nA: b\n\r\n",
            "0\r\nA: b\rc\r\n",
            "0\r\nA: \0\r\n",
        ] {
            assert_eq!(drain_in_pieces(body.as_bytes(), 99), Err(DrainError::Malformed), "{body:?}");
        }
        for body in ["5 \r\nabcde\r\n0\r\n\r\n", "5\t;a=\"b\" ; c\r\nabcde\r\n0;x\r\nA: b\r\n\r\n"] {
            assert_eq!(drain_in_pieces(body.as_bytes(), 3), Ok(body.len()), "{body:?}");
        }
        let endless = b"1;".iter().copied().chain(std::iter::repeat_n(b'x', 20_000)).collect::<Vec<u8>>();
        assert_eq!(drain_in_pieces(&endless, 999), Err(DrainError::TooLarge));
    }

    proptest! {
        #[test]
        fn chunked_bodies_end_where_they_end(
            chunks in proptest::collection::vec(1_usize..300, 0..6),
            trailer in any::<bool>(),
            piece in 1_usize..50,
        ) {
            let mut body = Vec::new();
            for len in chunks {
                body.extend_from_slice(format!("{len:X};a=b\r\n").as_bytes());
                body.extend(std::iter::repeat_n(b'\n', len));
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(if trailer { b"0\r\nA: b\r\n\r\n".as_slice() } else { b"0\r\n\r\n" });
            let end = body.len();
            body.extend_from_slice(b"GET / HTTP/1.1\r\n");
            prop_assert_eq!(drain_in_pieces(&body, piece), Ok(end));
        }

        #[test]
        fn the_content_of_chunks_and_their_trailers_come_out_in_any_pieces(
            chunks in proptest::collection::vec(1_usize..300, 0..6),
            piece in 1_usize..50,
        ) {
            let (mut body, mut expected) = (Vec::new(), Vec::new());
            for (number, len) in chunks.into_iter().enumerate() {
                body.extend_from_slice(format!("{len:x}\r\n").as_bytes());
                body.extend(std::iter::repeat_n(number as u8, len));
                expected.extend(std::iter::repeat_n(number as u8, len));
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(b"0\r\nA: b\r\nC: d\r\n\r\nGET /");
            // What stands between two pieces of content is bounded, the content is not.
            let mut drain = Drain::whole(Framing::Chunked, 20);
            let (mut content, mut trailers, mut taken) = (Vec::new(), Vec::new(), 0);
            for input in body.chunks(piece) {
                taken += drain.read(input, &mut |part| match part {
                    Part::Content(bytes) => content.extend_from_slice(bytes),
                    Part::Trailer(bytes) => trailers.extend_from_slice(bytes),
                }).expect("well-formed");
                if drain.is_done() {
                    break;
                }
            }
            prop_assert_eq!((content, &trailers[..], taken), (expected, &b"A: b\r\nC: d\r\n\r\n"[..], body.len() - 5));
        }

        #[test]
        fn any_bytes_are_read_past_without_panic(input in proptest::collection::vec(any::<u8>(), 0..300), piece in 1_usize..40) {
            let _ = drain_in_pieces(&input, piece);
        }
    }
}
