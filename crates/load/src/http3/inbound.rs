//! The server's own streams, all in one direction (RFC 9114 6.2): what its control stream says, and that the streams of
//! QPACK say nothing but what they may to a client without tables.

use crate::http3::frames::kind;
use crate::http3::integers::take_number;
use crate::http3::malformed::{Malformed, code};

/// The longest frame of a control stream that is read, in bytes.
const FRAME_BYTES_MAX: u64 = 4096;
/// Bytes of the longest number that a stream's can be.
const NUMBER_BYTES_MAX: usize = 10;
/// QPACK's encoder sets the capacity of its table to nothing (RFC 9204 4.3.1): all that it may say.
const CAPACITY_NOTHING: u8 = 0x20;

/// What the server says of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Its settings have come.
    Settings {
        /// The longest section of fields that it takes, in bytes as RFC 9114 4.2.2 counts them, if it says so.
        section_bytes_max: Option<u64>,
    },
    /// Requests on this stream and those behind it are not looked at (RFC 9114 5.2).
    Goaway {
        /// The number of the stream.
        first: u64,
    },
}

/// What a stream is for.
#[derive(Debug, PartialEq, Eq)]
enum Purpose {
    /// Its type has not come whole.
    Untold,
    Control,
    Encoder,
    Decoder,
    /// Of a type that is not known, which is passed over.
    Unknown,
}

/// One of the server's streams.
#[derive(Debug)]
struct Inbound {
    stream: u64,
    purpose: Purpose,
    /// What has come of a number or of a frame.
    begun: Vec<u8>,
    /// Bytes of a frame that is passed over.
    skipped: u64,
}

/// All of the server's streams on a connection.
#[derive(Debug, Default)]
pub struct InboundStreams {
    streams: Vec<Inbound>,
    has_settings: bool,
    /// The stream of the last GOAWAY: the next may not name a later one.
    goaway: Option<u64>,
}

impl InboundStreams {
    /// Forgets all of them.
    pub(crate) fn reset(&mut self) {
        self.streams.clear();
        (self.has_settings, self.goaway) = (false, None);
    }

    /// Takes bytes of a stream; `said` gets what they say of the connection.
    ///
    /// # Errors
    /// [`Malformed`] where a stream may not be, or may not say that.
    pub fn take(&mut self, stream: u64, mut input: &[u8], said: &mut Vec<Said>) -> Result<(), Malformed> {
        let place = match self.streams.iter().position(|known| known.stream == stream) {
            Some(place) => place,
            None => {
                self.streams.push(Inbound { stream, purpose: Purpose::Untold, begun: Vec::new(), skipped: 0 });
                self.streams.len() - 1
            }
        };
        if self.streams[place].purpose == Purpose::Untold && !self.find_purpose(place, &mut input)? {
            return Ok(());
        }
        match self.streams[place].purpose {
            Purpose::Control => self.control(place, input, said),
            Purpose::Encoder if input.iter().any(|byte| *byte != CAPACITY_NOTHING) => {
                Err(Malformed::new(code::ENCODER_STREAM_ERROR, "it fills a table of fields that we refused"))
            }
            Purpose::Decoder => self.decoder(place, input),
            Purpose::Encoder | Purpose::Unknown | Purpose::Untold => Ok(()),
        }
    }

    /// A stream is over.
    ///
    /// # Errors
    /// [`Malformed`] if the connection cannot be without it (RFC 9114 6.2.1, RFC 9204 4.2).
    pub fn end(&mut self, stream: u64) -> Result<(), Malformed> {
        let Some(place) = self.streams.iter().position(|known| known.stream == stream) else { return Ok(()) };
        match self.streams[place].purpose {
            Purpose::Control | Purpose::Encoder | Purpose::Decoder => {
                Err(Malformed::new(code::CLOSED_CRITICAL_STREAM, "it ends a stream that the connection needs"))
            }
            Purpose::Untold | Purpose::Unknown => {
                self.streams.swap_remove(place);
                Ok(())
            }
        }
    }

    /// Reads the type of a stream; tells whether it has come.
    fn find_purpose(&mut self, place: usize, input: &mut &[u8]) -> Result<bool, Malformed> {
        let begun = &mut self.streams[place].begun;
        let kind = loop {
            let Some(byte) = input.split_off_first() else { return Ok(false) };
            begun.push(*byte);
            if let Some(kind) = take_number(&mut begun.as_slice()) {
                break kind;
            }
        };
        begun.clear();
        let purpose = match kind {
            0x0 => Purpose::Control,
            0x1 => return Err(Malformed::new(code::ID_ERROR, "a push, which was not allowed")),
            0x2 => Purpose::Encoder,
            0x3 => Purpose::Decoder,
            _ => Purpose::Unknown,
        };
        if purpose != Purpose::Unknown && self.streams.iter().any(|other| other.purpose == purpose) {
            return Err(Malformed::new(code::STREAM_CREATION_ERROR, "a second stream of a kind that there is one of"));
        }
        self.streams[place].purpose = purpose;
        Ok(true)
    }

    /// Takes bytes of the control stream.
    fn control(&mut self, place: usize, mut input: &[u8], said: &mut Vec<Said>) -> Result<(), Malformed> {
        while !input.is_empty() {
            let inbound = &mut self.streams[place];
            if inbound.skipped > 0 {
                let here = inbound.skipped.min(input.len() as u64);
                inbound.skipped -= here;
                input = &input[here as usize..];
                continue;
            }
            // Frames there are short and seldom: bytes are taken one by one until one is whole.
            let Some(byte) = input.split_off_first() else { break };
            inbound.begun.push(*byte);
            let mut rest = inbound.begun.as_slice();
            let head = take_number(&mut rest).and_then(|kind| Some((kind, take_number(&mut rest)?)));
            let Some((kind, length)) = head else { continue };
            let is_known = matches!(kind, kind::SETTINGS | kind::GOAWAY);
            if !self.has_settings && kind != kind::SETTINGS {
                return Err(Malformed::new(
                    code::MISSING_SETTINGS,
                    "its control stream does not begin with its settings",
                ));
            }
            if !is_known {
                refuse_on_control(kind)?;
                inbound.skipped = length;
                inbound.begun.clear();
            } else if length > FRAME_BYTES_MAX {
                return Err(Malformed::new(code::EXCESSIVE_LOAD, "a frame of its control stream that is too long"));
            } else if rest.len() as u64 == length {
                let frame = (kind, rest.to_vec());
                inbound.begun.clear();
                said.push(self.frame(frame.0, &frame.1)?);
            }
        }
        Ok(())
    }

    /// Takes bytes of the stream of QPACK's decoder: streams that are given up may be told, but nothing can be
    /// acknowledged (RFC 9204 4.4).
    fn decoder(&mut self, place: usize, input: &[u8]) -> Result<(), Malformed> {
        let wrong = Malformed::new(code::DECODER_STREAM_ERROR, "it acknowledges fields of a table that is not used");
        let begun = &mut self.streams[place].begun;
        for byte in input {
            match (begun.len(), *byte) {
                // A number of a stream that goes on in further bytes.
                (0, 0x7f) => begun.push(*byte),
                (0, 0x40..0x7f) => {}
                (1..NUMBER_BYTES_MAX, 0x80..) => begun.push(*byte),
                (1..NUMBER_BYTES_MAX, _) => begun.clear(),
                _ => return Err(wrong),
            }
        }
        Ok(())
    }

    /// A frame of the control stream is whole.
    fn frame(&mut self, kind: u64, mut payload: &[u8]) -> Result<Said, Malformed> {
        if kind == kind::SETTINGS {
            if std::mem::replace(&mut self.has_settings, true) {
                return Err(Malformed::new(code::FRAME_UNEXPECTED, "a second frame of settings"));
            }
            return settings(payload);
        }
        let first = take_number(&mut payload).filter(|_| payload.is_empty());
        let first = first.ok_or(Malformed::new(code::FRAME_ERROR, "a GOAWAY that is no number"))?;
        if first % 4 != 0 || self.goaway.is_some_and(|before| first > before) {
            return Err(Malformed::new(code::ID_ERROR, "a GOAWAY that names a wrong stream"));
        }
        self.goaway = Some(first);
        Ok(Said::Goaway { first })
    }
}

/// Frames that may not stand on a control stream, or not on a server's.
fn refuse_on_control(kind: u64) -> Result<(), Malformed> {
    match kind {
        kind::DATA | kind::HEADERS | kind::PUSH_PROMISE | kind::MAX_PUSH_ID | 0x2 | 0x6 | 0x8 | 0x9 => {
            Err(Malformed::new(code::FRAME_UNEXPECTED, "a frame on its control stream that may not stand there"))
        }
        kind::CANCEL_PUSH => Err(Malformed::new(code::ID_ERROR, "the end of a push that never was")),
        _ => Ok(()),
    }
}

/// Reads settings (RFC 9114 7.2.4).
fn settings(mut payload: &[u8]) -> Result<Said, Malformed> {
    let (mut known, mut section_bytes_max) = (0u32, None);
    while !payload.is_empty() {
        let setting = take_number(&mut payload).and_then(|id| Some((id, take_number(&mut payload)?)));
        let (id, value) = setting.ok_or(Malformed::new(code::FRAME_ERROR, "settings that are cut off"))?;
        match id {
            // Those of HTTP/2 that have none here.
            0x2..=0x5 => return Err(Malformed::new(code::SETTINGS_ERROR, "a setting of HTTP/2")),
            0x1 | 0x6 | 0x7 | 0x8 => {
                if known >> id & 1 != 0 {
                    return Err(Malformed::new(code::SETTINGS_ERROR, "a setting that is told twice"));
                }
                known |= 1 << id;
                if id == 0x6 {
                    section_bytes_max = Some(value);
                }
            }
            _ => {}
        }
    }
    Ok(Said::Settings { section_bytes_max })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn take(pieces: &[(u64, &[u8])]) -> Result<Vec<Said>, Malformed> {
        let (mut streams, mut said) = (InboundStreams::default(), Vec::new());
        for (stream, bytes) in pieces {
            streams.take(*stream, bytes, &mut said)?;
        }
        Ok(said)
    }

    #[test]
    fn settings_and_farewells_are_read() {
        let wanted = vec![
            Said::Settings { section_bytes_max: Some(16_384) },
            Said::Goaway { first: 8 },
            Said::Goaway { first: 4 },
        ];
        let bytes = b"\x00\x04\x09\x06\x80\x00\x40\x00\x21\x01\x01\x00\x21\x02ab\x07\x01\x08\x07\x01\x04";
        assert_eq!(take(&[(3, bytes)]), Ok(wanted.clone()));
        let pieces: Vec<(u64, &[u8])> = bytes.chunks(1).map(|piece| (3, piece)).collect();
        assert_eq!(take(&pieces), Ok(wanted));
        // The streams of QPACK, and one of a type that is reserved.
        assert_eq!(
            take(&[(7, b"\x02\x20"), (11, b"\x03\x44\x7f\x81\x00\x44"), (15, b"\x40\x21anything")]),
            Ok(Vec::new())
        );
    }

    #[test]
    fn what_may_not_be_is_refused() {
        for (pieces, code) in [
            (&[(3, &b"\x00\x07\x01\x00"[..])][..], code::MISSING_SETTINGS),
            (&[(3, b"\x00\x04\x00\x04\x00")], code::FRAME_UNEXPECTED),
            (&[(3, b"\x00\x04\x00\x00\x00")], code::FRAME_UNEXPECTED),
            (&[(3, b"\x00\x04\x02\x03\x00")], code::SETTINGS_ERROR),
            (&[(3, b"\x00\x04\x04\x06\x01\x06\x01")], code::SETTINGS_ERROR),
            (&[(3, b"\x00\x04\x01\x06")], code::FRAME_ERROR),
            (&[(3, b"\x00\x04\x00\x07\x01\x04\x07\x01\x08")], code::ID_ERROR),
            (&[(3, b"\x00\x04\x00\x07\x01\x01")], code::ID_ERROR),
            (&[(3, b"\x00\x04\x80\x01\x00\x00")], code::EXCESSIVE_LOAD),
            (&[(3, b"\x01\x00")], code::ID_ERROR),
            (&[(3, b"\x00"), (7, b"\x00")], code::STREAM_CREATION_ERROR),
            (&[(3, b"\x02\x3f\xe1\x1f")], code::ENCODER_STREAM_ERROR),
            (&[(3, b"\x03\x81")], code::DECODER_STREAM_ERROR),
        ] {
            assert_eq!(take(pieces).map_err(|error| error.code), Err(code), "{pieces:02x?}");
        }
        let mut streams = InboundStreams::default();
        assert!(streams.take(3, b"\x00", &mut Vec::new()).is_ok() && streams.end(3).is_err());
        assert!(streams.take(7, b"\x21", &mut Vec::new()).is_ok() && streams.end(7).is_ok());
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(bytes in proptest::collection::vec(0u8..12, 0..60)) {
            let pieces: Vec<(u64, &[u8])> = bytes.chunks(1).map(|piece| (3, piece)).collect();
            let control = bytes.first() == Some(&0);
            if control {
                prop_assert_eq!(take(&[(3, &bytes)]), take(&pieces));
            } else {
                let _ = take(&pieces);
            }
        }
    }
}
