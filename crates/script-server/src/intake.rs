//! The records that a peer sends, within a connection.

use weir_scripts::fastcgi::{self, kind};

/// Bytes of the variables of one request.
const VARIABLES_BYTES_MAX: usize = 256 << 10;
/// Bytes that are held until they are used.
pub(crate) const HELD_BYTES_MAX: usize = 128 << 10;

/// The peer does not speak FastCGI, or says more than is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("it sent what is no request of FastCGI")]
    Record,
    #[error("the variables of its request have more than 256 KiB")]
    TooLong,
}

/// A request whose variables have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) number: u16,
    /// Whether the connection is for further requests.
    pub(crate) is_kept: bool,
    pub(crate) pairs: Vec<u8>,
}

/// A piece of a request behind its variables.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Nothing,
    /// The peer wants no answer any more.
    Aborted,
    Body,
    BodyEnd,
}

/// What has come and was not used.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    pub(crate) bytes: Vec<u8>,
    at: usize,
    begun: Option<Begun>,
}

impl Intake {
    /// Whether there is room for more.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes.len() - self.at < HELD_BYTES_MAX
    }

    /// Whether a request has begun, be it by its first byte.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun.is_some() || self.at < self.bytes.len()
    }

    /// Where further bytes go.
    pub(crate) fn space(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.at);
        self.at = 0;
        &mut self.bytes
    }

    /// Reads records until the variables of a request are whole.
    pub(crate) fn open(&mut self) -> Result<Option<Begun>, Malformed> {
        while let Some(record) = fastcgi::next_record(&self.bytes[self.at..]).map_err(|_| Malformed::Record)? {
            self.at += record.bytes;
            match (record.kind, &mut self.begun) {
                (kind::BEGIN_REQUEST, None) => match fastcgi::beginning(record.content) {
                    Some((true, is_kept)) if record.request != 0 => {
                        self.begun = Some(Begun { number: record.request, is_kept, pairs: Vec::new() });
                    }
                    _ => return Err(Malformed::Record),
                },
                (kind::PARAMS, Some(begun)) if begun.number == record.request => {
                    if record.content.is_empty() {
                        return Ok(self.begun.take());
                    }
                    begun.pairs.extend_from_slice(record.content);
                    if begun.pairs.len() > VARIABLES_BYTES_MAX {
                        return Err(Malformed::TooLong);
                    }
                }
                _ => return Err(Malformed::Record),
            }
        }
        Ok(None)
    }

    /// Reads one record behind the variables, and appends what it has of the body, as a record.
    pub(crate) fn body(&mut self, number: u16, out: &mut Vec<u8>) -> Result<Heard, Malformed> {
        let record = match fastcgi::next_record(&self.bytes[self.at..]) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(Heard::Nothing),
            Err(_) => return Err(Malformed::Record),
        };
        self.at += record.bytes;
        match record.kind {
            _ if record.request != number => Err(Malformed::Record),
            kind::STDIN if record.content.is_empty() => {
                out.extend_from_slice(&fastcgi::head(kind::STDIN, number, 0));
                Ok(Heard::BodyEnd)
            }
            kind::STDIN => {
                fastcgi::push(kind::STDIN, number, record.content, out);
                Ok(Heard::Body)
            }
            kind::ABORT_REQUEST => Ok(Heard::Aborted),
            _ => Err(Malformed::Record),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(keep: u8, pairs: &[u8], body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        fastcgi::push(kind::BEGIN_REQUEST, 3, &[0, 1, keep, 0, 0, 0, 0, 0], &mut out);
        fastcgi::push(kind::PARAMS, 3, pairs, &mut out);
        out.extend_from_slice(&fastcgi::head(kind::PARAMS, 3, 0));
        fastcgi::push(kind::STDIN, 3, body, &mut out);
        out.extend_from_slice(&fastcgi::head(kind::STDIN, 3, 0));
        out
    }

    #[test]
    fn what_is_no_request_is_told() {
        let told = |bytes: &[u8]| {
            let mut intake = Intake::default();
            intake.space().extend_from_slice(bytes);
            intake.open()
        };
        assert_eq!(told(b"GET / HTTP/1.1\r\n\r\n"), Err(Malformed::Record));
        assert_eq!(told(&fastcgi::head(kind::PARAMS, 1, 0)), Err(Malformed::Record));
        assert_eq!(told(&request(1, &vec![0; VARIABLES_BYTES_MAX + 2], b"")), Err(Malformed::TooLong));
        let mut filter = Vec::new();
        fastcgi::push(kind::BEGIN_REQUEST, 1, &[0, 3, 0, 0, 0, 0, 0, 0], &mut filter);
        assert_eq!(told(&filter), Err(Malformed::Record));
    }

    proptest! {
        #[test]
        fn requests_are_read_however_they_are_cut(
            pairs in prop::collection::vec(any::<u8>(), 1..300), body in prop::collection::vec(any::<u8>(), 0..300), step in 1_usize..40
        ) {
            let bytes = [request(1, &pairs, &body), request(0, &pairs, &body)].concat();
            let (mut intake, mut out, mut found, mut is_open) = (Intake::default(), Vec::new(), Vec::new(), false);
            for piece in bytes.chunks(step) {
                intake.space().extend_from_slice(piece);
                loop {
                    if !is_open {
                        let Some(begun) = intake.open().expect("a request") else { break };
                        prop_assert_eq!(&begun.pairs, &pairs);
                        found.push(begun.is_kept);
                        is_open = true;
                    }
                    match intake.body(3, &mut out).expect("a request") {
                        Heard::Nothing => break,
                        Heard::BodyEnd => is_open = false,
                        heard => prop_assert_eq!(heard, Heard::Body),
                    }
                }
            }
            prop_assert_eq!(found, [true, false]);
            let mut once = Vec::new();
            fastcgi::push(kind::STDIN, 3, &body, &mut once);
            once.extend_from_slice(&fastcgi::head(kind::STDIN, 3, 0));
            prop_assert_eq!(out, once.repeat(2));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (mut intake, mut out) = (Intake::default(), Vec::new());
            intake.space().extend_from_slice(&bytes);
            let _ = intake.open();
            let _ = intake.body(1, &mut out);
        }
    }
}
