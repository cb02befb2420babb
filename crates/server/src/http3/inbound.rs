//! The streams that a client opens for the connection itself (RFC 9114 section 6.2): control, and the two of QPACK.

use super::frame::{self, Code, Item, Reader, kind};

/// Bytes of a frame on the control stream that are kept; none that means something here is longer.
const KEPT_BYTES_MAX: usize = 1024;

/// Kinds of streams in one direction.
mod purpose {
    pub(super) const CONTROL: u64 = 0x0;
    pub(super) const PUSH: u64 = 0x1;
    pub(super) const ENCODER: u64 = 0x2;
    pub(super) const DECODER: u64 = 0x3;
}

/// Which of the streams are there that a connection has once.
#[derive(Debug, Default)]
pub(crate) struct Opened([bool; 4]);

/// A stream that the client has opened in one direction.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    purpose: Purpose,
    /// The number that says what it is for, as far as it has come.
    saved: Vec<u8>,
}

#[derive(Debug, Default)]
enum Purpose {
    #[default]
    Unknown,
    Control(Control),
    Encoder,
    Decoder(Decoder),
}

/// What became of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It was read, with so many frames in it.
    Frames(u64),
    /// The type of the stream is unknown: the client is asked to stop sending it.
    Unwanted,
}

impl Inbound {
    /// Takes in more of the stream.
    pub(crate) fn take(&mut self, mut input: &[u8], opened: &mut Opened) -> Result<Taken, Code> {
        while matches!(self.purpose, Purpose::Unknown) {
            let Some((&byte, rest)) = input.split_first() else { return Ok(Taken::Frames(0)) };
            input = rest;
            self.saved.push(byte);
            let Some((number, _)) = frame::integer(&self.saved) else { continue };
            self.saved = Vec::new();
            self.purpose = match number {
                purpose::CONTROL => Purpose::Control(Control::default()),
                // Only servers push.
                purpose::PUSH => return Err(Code::StreamCreation),
                purpose::ENCODER => Purpose::Encoder,
                purpose::DECODER => Purpose::Decoder(Decoder::default()),
                _ => return Ok(Taken::Unwanted),
            };
            // One of the four, so it fits.
            if std::mem::replace(&mut opened.0[number as usize], true) {
                return Err(Code::StreamCreation);
            }
        }
        match &mut self.purpose {
            Purpose::Control(control) => control.take(input).map(Taken::Frames),
            // The client may insert nothing. It can only set the capacity of the table to 0.
            Purpose::Encoder if input.iter().all(|&byte| byte == 0x20) => Ok(Taken::Frames(input.len() as u64)),
            Purpose::Encoder => Err(Code::EncoderStream),
            Purpose::Decoder(decoder) => decoder.take(input).map(Taken::Frames),
            Purpose::Unknown => Ok(Taken::Frames(0)),
        }
    }

    /// What is wrong with the stream's end: those that are needed never end.
    pub(crate) fn end(&self) -> Result<(), Code> {
        if matches!(self.purpose, Purpose::Unknown) { Ok(()) } else { Err(Code::ClosedCriticalStream) }
    }
}

/// The control stream.
#[derive(Debug, Default)]
struct Control {
    reader: Reader,
    has_settings: bool,
    push_id_max: Option<u64>,
    goaway: Option<u64>,
}

impl Control {
    fn take(&mut self, mut input: &[u8]) -> Result<u64, Code> {
        let mut frames = 0;
        while let Some(item) = self.reader.next(&mut input, KEPT_BYTES_MAX) {
            match item {
                Item::Begun { kind, len } => {
                    frames += 1;
                    if self.has_settings == (kind == kind::SETTINGS) {
                        return Err(if self.has_settings { Code::FrameUnexpected } else { Code::MissingSettings });
                    }
                    let is_misplaced = matches!(kind, kind::DATA | kind::HEADERS | kind::PUSH_PROMISE);
                    if is_misplaced || frame::is_of_http2(kind) {
                        return Err(Code::FrameUnexpected);
                    }
                    if len > KEPT_BYTES_MAX as u64 && frame::is_kept(kind) {
                        return Err(Code::ExcessiveLoad);
                    }
                }
                Item::Whole { kind: kind::SETTINGS, content } => {
                    frame::check_settings(content)?;
                    self.has_settings = true;
                }
                Item::Whole { kind: kind::MAX_PUSH_ID, content } => {
                    let id = frame::only_integer(content)?;
                    if self.push_id_max.replace(id).is_some_and(|before| before > id) {
                        return Err(Code::Id);
                    }
                }
                Item::Whole { kind: kind::GOAWAY, content } => {
                    let id = frame::only_integer(content)?;
                    if self.goaway.replace(id).is_some_and(|before| before < id) {
                        return Err(Code::Id);
                    }
                }
                // Nothing was ever promised.
                Item::Whole { kind: kind::CANCEL_PUSH, content } => {
                    frame::only_integer(content)?;
                    return Err(Code::Id);
                }
                Item::Whole { .. } | Item::Data(_) => return Err(Code::FrameUnexpected),
            }
        }
        Ok(frames)
    }
}

/// What the client's decoder says: it can only give up streams, as nothing else was ever referred to.
#[derive(Debug, Default)]
struct Decoder {
    /// Bytes of a number that were read; 0 = none is under way.
    number_bytes: usize,
}

impl Decoder {
    fn take(&mut self, input: &[u8]) -> Result<u64, Code> {
        let mut instructions = 0;
        for &byte in input {
            if self.number_bytes == 0 {
                if byte & 0xc0 != 0x40 {
                    return Err(Code::DecoderStream);
                }
                instructions += 1;
                self.number_bytes = usize::from(byte & 0x3f == 0x3f);
            } else {
                // Ten bytes hold every number of a stream.
                if self.number_bytes == 10 {
                    return Err(Code::DecoderStream);
                }
                self.number_bytes = if byte & 0x80 == 0 { 0 } else { self.number_bytes + 1 };
            }
        }
        Ok(instructions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(input: &[u8], piece: usize) -> Result<Taken, Code> {
        let (mut inbound, mut opened, mut frames) = (Inbound::default(), Opened::default(), 0);
        for piece in input.chunks(piece) {
            match inbound.take(piece, &mut opened)? {
                Taken::Frames(more) => frames += more,
                Taken::Unwanted => return Ok(Taken::Unwanted),
            }
        }
        Ok(Taken::Frames(frames))
    }

    #[test]
    fn each_stream_is_as_the_standard_has_it_in_any_pieces() {
        for (input, expected) in [
            (&b""[..], Ok(Taken::Frames(0))),
            // Control: settings first and once, then what belongs there; a frame of no known kind is passed over.
            (b"\0\x04\0", Ok(Taken::Frames(1))),
            (b"\0\x04\x02\x06\x01\x21\x03abc\x07\x01\x04\x07\x01\0\x0d\x01\x02\x0d\x01\x02", Ok(Taken::Frames(6))),
            (b"\0\x21\0\x04\0", Err(Code::MissingSettings)),
            (b"\0\x07\x01\0", Err(Code::MissingSettings)),
            (b"\0\x04\0\x04\0", Err(Code::FrameUnexpected)),
            (b"\0\x04\x02\x02\0", Err(Code::Settings)),
            (b"\0\x04\0\x00\0", Err(Code::FrameUnexpected)),
            (b"\0\x04\0\x01\0", Err(Code::FrameUnexpected)),
            (b"\0\x04\0\x05\x01\0", Err(Code::FrameUnexpected)),
            (b"\0\x04\0\x06\0", Err(Code::FrameUnexpected)),
            (b"\0\x04\0\x09\0", Err(Code::FrameUnexpected)),
            (b"\0\x04\0\x03\x01\0", Err(Code::Id)),
            (b"\0\x04\0\x0d\x01\x02\x0d\x01\x01", Err(Code::Id)),
            (b"\0\x04\0\x07\x01\x04\x07\x01\x08", Err(Code::Id)),
            (b"\0\x04\0\x0d\x02\x02\x02", Err(Code::Frame)),
            (b"\0\x04\0\x0d\0", Err(Code::Frame)),
            (b"\0\x04\x44\x01", Err(Code::ExcessiveLoad)),
            // Pushes; no such stream; grease.
            (b"\x01", Err(Code::StreamCreation)),
            (b"\x40\x21abc", Ok(Taken::Unwanted)),
            // The encoder may say that its table has no bytes.
            (b"\x02\x20", Ok(Taken::Frames(1))),
            (b"\x02\x3f\x01", Err(Code::EncoderStream)),
            (b"\x02\xc0\x01a", Err(Code::EncoderStream)),
            // The decoder may give streams up.
            (b"\x03\x44\x7f\x80\x01", Ok(Taken::Frames(2))),
            (b"\x03\x84", Err(Code::DecoderStream)),
            (b"\x03\x01", Err(Code::DecoderStream)),
            (b"\x03\x7f\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", Err(Code::DecoderStream)),
        ] {
            for piece in [usize::MAX, 1, 2, 3] {
                assert_eq!(outcome(input, piece), expected, "{} by {piece}", input.escape_ascii());
            }
        }
    }

    #[test]
    fn each_is_there_once_and_never_ends() {
        let mut opened = Opened::default();
        for (number, other) in [(0_u8, false), (2, false), (3, false), (0, true), (3, true)] {
            let mut inbound = Inbound::default();
            assert_eq!(inbound.end(), Ok(()));
            let taken = inbound.take(&[number], &mut opened);
            assert_eq!(taken, if other { Err(Code::StreamCreation) } else { Ok(Taken::Frames(0)) });
            assert_eq!(inbound.end(), Err(Code::ClosedCriticalStream));
        }
    }
}
