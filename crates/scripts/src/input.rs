//! What the server says on a connection, record by record.

use crate::descriptor::{self, Moved};
use crate::fastcgi::{self, kind};
use std::os::fd::RawFd;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes of the variables of one request.
const VARIABLES_BYTES_MAX: usize = 1 << 20;

/// The bytes of one connection that were not used yet.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    at: usize,
}

/// A request of which all variables have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begun {
    /// Its number.
    pub(crate) number: u16,
    /// Whether the connection is for further requests.
    pub(crate) is_kept: bool,
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// More has to come.
    Nothing,
    /// The server wants no answer any more.
    Aborted,
    /// The server does not speak as it should.
    Malformed,
    Begun(Begun),
    /// Bytes of the body were appended.
    Body,
    /// The body is whole.
    BodyEnd,
}

/// How far the beginning of a request is.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    begun: Option<Begun>,
}

impl Input {
    /// Reads what has come.
    pub(crate) fn receive(&mut self, conn: RawFd) -> Moved {
        if self.at > 0 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        descriptor::read(conn, READ_BYTES, &mut self.bytes)
    }

    /// Takes bytes that came otherwise.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.at = 0;
    }

    /// Whether bytes are there that were not used.
    pub(crate) fn has_more(&self) -> bool {
        self.at < self.bytes.len()
    }

    /// Reads records until the variables of a request are whole.
    pub(crate) fn open(&mut self, opening: &mut Opening, variables: &mut Vec<u8>) -> Heard {
        loop {
            let record = match fastcgi::next_record(&self.bytes[self.at..]) {
                Ok(Some(record)) => record,
                Ok(None) => return Heard::Nothing,
                Err(_) => return Heard::Malformed,
            };
            self.at += record.bytes;
            match (record.kind, opening.begun) {
                (kind::BEGIN_REQUEST, None) => match fastcgi::beginning(record.content) {
                    Some((true, is_kept)) => {
                        variables.clear();
                        opening.begun = Some(Begun { number: record.request, is_kept });
                    }
                    _ => return Heard::Malformed,
                },
                (kind::PARAMS, Some(begun)) if begun.number == record.request => {
                    if record.content.is_empty() {
                        opening.begun = None;
                        return Heard::Begun(begun);
                    }
                    variables.extend_from_slice(record.content);
                    if variables.len() > VARIABLES_BYTES_MAX {
                        return Heard::Malformed;
                    }
                }
                (kind::ABORT_REQUEST, Some(_)) => return Heard::Aborted,
                _ => return Heard::Malformed,
            }
        }
    }

    /// Reads one record behind the variables of a request.
    pub(crate) fn body(&mut self, number: u16, body: &mut Vec<u8>) -> Heard {
        let record = match fastcgi::next_record(&self.bytes[self.at..]) {
            Ok(Some(record)) => record,
            Ok(None) => return Heard::Nothing,
            Err(_) => return Heard::Malformed,
        };
        self.at += record.bytes;
        match record.kind {
            kind::STDIN if record.request == number && record.content.is_empty() => Heard::BodyEnd,
            kind::STDIN if record.request == number => {
                body.extend_from_slice(record.content);
                Heard::Body
            }
            kind::ABORT_REQUEST => Heard::Aborted,
            _ => Heard::Malformed,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fastcgi::{head, kind, push};
    use crate::fuzzing::requests;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_are_read_however_they_are_cut(
            variables in prop::collection::vec(any::<u8>(), 1..300), body in prop::collection::vec(any::<u8>(), 0..300), step in 1_usize..40
        ) {
            let mut bytes = Vec::new();
            for number in [1, 2] {
                push(kind::BEGIN_REQUEST, number, &[0, 1, 1, 0, 0, 0, 0, 0], &mut bytes);
                push(kind::PARAMS, number, &variables, &mut bytes);
                bytes.extend_from_slice(&head(kind::PARAMS, number, 0));
                push(kind::STDIN, number, &body, &mut bytes);
                bytes.extend_from_slice(&head(kind::STDIN, number, 0));
            }
            let pieces: Vec<_> = bytes.chunks(step).collect();
            let (found, is_malformed) = requests(&pieces);
            prop_assert_eq!((found.len(), is_malformed), (3, false));
            for (request, number) in found.iter().zip([1, 2]) {
                prop_assert_eq!(request.begun, Some((number, true)));
                prop_assert!(request.is_whole && request.variables == variables && request.body == body);
            }
            prop_assert_eq!(found[2].begun, None);
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(0_u8..8, 0..300)) {
            let _ = requests(&[&bytes]);
        }
    }
}
