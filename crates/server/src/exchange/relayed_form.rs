//! The form of a response on its way from the server that goes on making it to the one that sends it.
//!
//! A stream of frames: `u8 kind, u32 framing, u32 length`, in little endian, then so many bytes. A frame of bytes is a
//! piece of what the client is sent; `framing` says how many bytes of the response's framing came up since the frame
//! before. The last frame holds the lines of fields behind the body. A stream that ends without it was broken off.

/// Bytes of what stands before a frame.
pub(crate) const HEAD_BYTES: usize = 9;
/// Bytes of a frame at most, its head aside.
pub(crate) const FRAME_BYTES_MAX: usize = 64 << 10;

const BYTES: u8 = 1;
const END: u8 = 2;

/// The stream is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("these are no pieces of a response; let both nodes run the same program")]
pub(crate) struct Malformed;

/// What a stream says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said<'i> {
    /// So many bytes of framing are among what follows.
    Framing(u32),
    /// The next bytes of the response.
    Bytes(&'i [u8]),
    /// It is whole; lines of fields follow behind its body.
    End(&'i [u8]),
}

/// Appends the head of a frame of bytes.
pub(crate) fn put_head(out: &mut Vec<u8>, framing: u32, length: usize) {
    put(out, BYTES, framing, length);
}

/// Appends the last frame.
pub(crate) fn put_end(out: &mut Vec<u8>, framing: u32, trailers: &[u8]) {
    put(out, END, framing, trailers.len());
    out.extend_from_slice(trailers);
}

fn put(out: &mut Vec<u8>, kind: u8, framing: u32, length: usize) {
    out.push(kind);
    out.extend_from_slice(&framing.to_le_bytes());
    // At most FRAME_BYTES_MAX, as each caller bounds it.
    out.extend_from_slice(&(length as u32).to_le_bytes());
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Within a head, or before one.
    Head,
    Bytes {
        left: usize,
    },
    /// The last frame; what is here of it is held.
    Trailers {
        length: usize,
    },
    Ended,
}

/// Reads a stream, however it is cut.
#[derive(Debug)]
pub(crate) struct Decoder {
    state: State,
    /// A head, or the last frame, that is not whole yet.
    held: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { state: State::Head, held: Vec::new() }
    }
}

impl Decoder {
    /// Whether the last frame has come.
    pub(crate) fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Puts down what stands before the rest of the stream, so that another decoder goes on there.
    pub(crate) fn put_state(&self, out: &mut Vec<u8>) {
        match self.state {
            State::Head => out.extend_from_slice(&self.held),
            State::Bytes { left: 0 } | State::Ended => {}
            State::Bytes { left } => put_head(out, 0, left),
            State::Trailers { length } => {
                put(out, END, 0, length);
                out.extend_from_slice(&self.held);
            }
        }
    }

    /// Takes in what has come. Never is more said than came.
    ///
    /// # Errors
    ///
    /// [`Malformed`], also for bytes behind the last frame.
    pub(crate) fn feed(&mut self, mut input: &[u8], say: &mut impl FnMut(Said<'_>)) -> Result<(), Malformed> {
        loop {
            match self.state {
                State::Ended => return if input.is_empty() { Ok(()) } else { Err(Malformed) },
                State::Bytes { left: 0 } => self.state = State::Head,
                State::Bytes { .. } | State::Head if input.is_empty() => return Ok(()),
                State::Bytes { left } => {
                    let (now, later) = input.split_at(left.min(input.len()));
                    say(Said::Bytes(now));
                    (self.state, input) = (State::Bytes { left: left - now.len() }, later);
                }
                State::Head => {
                    input = self.hold(input, HEAD_BYTES);
                    if self.held.len() == HEAD_BYTES {
                        self.begin(say)?;
                    }
                }
                State::Trailers { length } => {
                    input = self.hold(input, length);
                    if self.held.len() < length {
                        return Ok(());
                    }
                    say(Said::End(&self.held));
                    (self.state, self.held) = (State::Ended, Vec::new());
                }
            }
        }
    }

    /// Holds input until so many bytes are held; the rest of the input.
    fn hold<'i>(&mut self, input: &'i [u8], bytes: usize) -> &'i [u8] {
        let (now, later) = input.split_at((bytes - self.held.len()).min(input.len()));
        self.held.extend_from_slice(now);
        later
    }

    /// Begins the frame whose head is held.
    fn begin(&mut self, say: &mut impl FnMut(Said<'_>)) -> Result<(), Malformed> {
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| self.held[at + byte]));
        let (kind, framing, length) = (self.held[0], number(1), number(5) as usize);
        if length > FRAME_BYTES_MAX {
            return Err(Malformed);
        }
        self.state = match kind {
            BYTES => State::Bytes { left: length },
            END => State::Trailers { length },
            _ => return Err(Malformed),
        };
        self.held.clear();
        if framing > 0 {
            say(Said::Framing(framing));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bytes of a response, those of its framing, and its trailers if it has ended.
    type Whole = (Vec<u8>, u64, Option<Vec<u8>>);

    /// What a stream says, cut into pieces of so many bytes.
    fn read(stream: &[u8], piece: usize) -> Result<Whole, Malformed> {
        let (mut bytes, mut framing, mut end) = (Vec::new(), 0, None);
        let mut decoder = Decoder::default();
        for input in stream.chunks(piece) {
            decoder.feed(input, &mut |said| match said {
                Said::Framing(more) => framing += u64::from(more),
                Said::Bytes(more) => bytes.extend_from_slice(more),
                Said::End(trailers) => end = Some(trailers.to_vec()),
            })?;
        }
        assert_eq!(decoder.is_ended(), end.is_some());
        Ok((bytes, framing, end))
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_however_it_is_cut(
            pieces in proptest::collection::vec((0_u32..100, proptest::collection::vec(any::<u8>(), 0..400)), 0..8),
            trailers in proptest::collection::vec(any::<u8>(), 0..100),
            piece in 1_usize..700,
        ) {
            let mut stream = Vec::new();
            for (framing, bytes) in &pieces {
                put_head(&mut stream, *framing, bytes.len());
                stream.extend_from_slice(bytes);
            }
            let broken = read(&stream, piece).expect("is read");
            let all: Vec<u8> = pieces.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
            let framing = pieces.iter().map(|(framing, _)| u64::from(*framing)).sum::<u64>();
            prop_assert_eq!(&broken, &(all.clone(), framing, None));
            put_end(&mut stream, 5, &trailers);
            prop_assert_eq!(read(&stream, piece), Ok((all, framing + 5, Some(trailers))));
            stream.push(0);
            prop_assert_eq!(read(&stream, piece), Err(Malformed));
        }

        #[test]
        fn another_decoder_goes_on_anywhere(
            pieces in proptest::collection::vec((0_u32..100, proptest::collection::vec(any::<u8>(), 0..90)), 0..8),
            trailers in proptest::collection::vec(any::<u8>(), 0..40),
            at in 0_usize..900,
        ) {
            let mut stream = Vec::new();
            for (framing, bytes) in &pieces {
                put_head(&mut stream, *framing, bytes.len());
                stream.extend_from_slice(bytes);
            }
            put_end(&mut stream, 5, &trailers);
            let (before, after) = stream.split_at(at.min(stream.len()));
            let mut decoder = Decoder::default();
            let (mut bytes, mut framing) = (Vec::new(), 0);
            let fed = decoder.feed(before, &mut |said| match said {
                Said::Framing(more) => framing += u64::from(more),
                Said::Bytes(more) => bytes.extend_from_slice(more),
                Said::End(_) => {}
            });
            prop_assert_eq!(fed, Ok(()));
            if !decoder.is_ended() {
                let mut rest = Vec::new();
                decoder.put_state(&mut rest);
                rest.extend_from_slice(after);
                let (more, more_framing, end) = read(&rest, 7).expect("is read");
                bytes.extend(more);
                let all: Vec<u8> = pieces.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
                let whole = pieces.iter().map(|(framing, _)| u64::from(*framing)).sum::<u64>() + 5;
                prop_assert_eq!((bytes, framing + more_framing, end), (all, whole, Some(trailers)));
            }
        }

        #[test]
        fn no_more_is_said_than_came(stream in proptest::collection::vec(any::<u8>(), 0..300), piece in 1_usize..50) {
            if let Ok((bytes, _, end)) = read(&stream, piece) {
                prop_assert!(bytes.len() + end.map_or(0, |trailers| trailers.len()) <= stream.len());
            }
        }
    }

    #[test]
    fn frames_that_are_too_long_or_unknown_are_refused() {
        let mut long = Vec::new();
        put_head(&mut long, 0, FRAME_BYTES_MAX + 1);
        assert_eq!(read(&long, 100), Err(Malformed));
        assert_eq!(read(&[9; HEAD_BYTES], 100), Err(Malformed));
    }
}
