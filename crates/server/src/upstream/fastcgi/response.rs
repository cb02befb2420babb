//! How the response of an upstream of FastCGI is read.

use super::record::{HEAD_BYTES, REQUEST, RecordHead, kind};
use crate::upstream::gateway::response::{CgiResponse, Wants};
use crate::upstream::message::{Garbled, Said};

/// Bytes of records that say nothing here, for one response: of kinds that are unknown, about the connection, or empty.
const SKIPPED_BYTES_MAX: usize = 64 << 10;
/// Bytes of the content of END_REQUEST.
const END_BYTES: usize = 8;

/// Where in a record the reader is.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// In its head, of which so many bytes have come.
    Head { held: [u8; HEAD_BYTES], bytes: usize },
    /// In its content, of which so many bytes are to come, with so many of padding behind.
    Content { of: Content, left: u16, padding: u8 },
    /// In its padding.
    Padding { left: u8, then: Then },
    /// Behind the last record.
    Ended,
}

/// What a record is.
#[derive(Debug, Clone, Copy)]
enum Content {
    Output,
    Log,
    /// The end of the request, of which so many bytes have come.
    End {
        held: [u8; END_BYTES],
        bytes: usize,
    },
    Skipped,
}

/// What follows a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Record,
    /// The record was END_REQUEST.
    End,
}

/// Reads one response.
#[derive(Debug)]
pub(crate) struct FastCgiResponse {
    stage: Stage,
    output: CgiResponse,
    skipped: usize,
    app_status: u32,
}

impl FastCgiResponse {
    pub(crate) fn new(wants: Wants) -> Self {
        let stage = Stage::Head { held: [0; HEAD_BYTES], bytes: 0 };
        Self { stage, output: CgiResponse::new(wants), skipped: 0, app_status: 0 }
    }

    pub(crate) fn wants(&self) -> Wants {
        self.output.wants()
    }

    /// Reads a piece; returns how many of its bytes belong to the response. After [`Said::End`] none do.
    ///
    /// # Errors
    ///
    /// [`Garbled`] if it is no response; [`Garbled::Refused`] if another upstream may be asked, as no program has run.
    pub(crate) fn read(&mut self, input: &[u8], said: &mut impl FnMut(Said<'_>)) -> Result<usize, Garbled> {
        let mut rest = input;
        loop {
            match self.stage {
                Stage::Head { mut held, bytes } => {
                    let (taken, behind) = rest.split_at(rest.len().min(HEAD_BYTES - bytes));
                    held[bytes..bytes + taken.len()].copy_from_slice(taken);
                    rest = behind;
                    let bytes = bytes + taken.len();
                    if bytes < HEAD_BYTES {
                        self.stage = Stage::Head { held, bytes };
                        return Ok(input.len());
                    }
                    self.stage = self.begin(held)?;
                }
                Stage::Content { of, left, padding } => {
                    let (content, behind) = rest.split_at(rest.len().min(usize::from(left)));
                    rest = behind;
                    self.stage = self.content(content, of, left, padding, said)?;
                    if rest.is_empty() && matches!(self.stage, Stage::Content { .. }) {
                        return Ok(input.len());
                    }
                }
                Stage::Padding { left, then } => {
                    let taken = rest.len().min(usize::from(left));
                    rest = &rest[taken..];
                    // It is at most `left`.
                    let left = left - taken as u8;
                    if left > 0 {
                        self.stage = Stage::Padding { left, then };
                        return Ok(input.len());
                    }
                    self.stage = match then {
                        Then::Record => Stage::Head { held: [0; HEAD_BYTES], bytes: 0 },
                        Then::End => {
                            said(Said::End);
                            Stage::Ended
                        }
                    };
                }
                Stage::Ended => return Ok(input.len() - rest.len()),
            }
        }
    }

    /// Reads the head of a record.
    fn begin(&mut self, head: [u8; HEAD_BYTES]) -> Result<Stage, Garbled> {
        let head = RecordHead::read(head).ok_or(Garbled::Body("a record has another version of FastCGI"))?;
        let of = match (head.kind, head.request) {
            (kind::STDOUT | kind::STDERR, REQUEST) if head.content == 0 => Content::Skipped,
            (kind::STDOUT, REQUEST) => Content::Output,
            (kind::STDERR, REQUEST) => Content::Log,
            (kind::END_REQUEST, REQUEST) if usize::from(head.content) < END_BYTES => {
                return Err(Garbled::Body("the record that ends it is too short"));
            }
            (kind::END_REQUEST, REQUEST) => Content::End { held: [0; END_BYTES], bytes: 0 },
            (kind::STDOUT | kind::STDERR | kind::END_REQUEST, _) | (_, 2..) => {
                return Err(Garbled::Body("a record is of a request that was not made"));
            }
            // Records about the connection (section 4), and kinds that the specification does not know.
            _ => Content::Skipped,
        };
        if let Content::Skipped = of {
            self.skipped += HEAD_BYTES + usize::from(head.content) + usize::from(head.padding);
            if self.skipped > SKIPPED_BYTES_MAX {
                return Err(Garbled::Body("it has too many records that say nothing"));
            }
        }
        Ok(Stage::Content { of, left: head.content, padding: head.padding })
    }

    /// Reads a piece of a record's content; where that ends, so does the stage.
    fn content(
        &mut self,
        content: &[u8],
        of: Content,
        left: u16,
        padding: u8,
        said: &mut impl FnMut(Said<'_>),
    ) -> Result<Stage, Garbled> {
        // It is at most `left`.
        let left = left - content.len() as u16;
        let (of, then) = match of {
            Content::Output => {
                if !content.is_empty() {
                    self.output.read(content, said)?;
                }
                (of, Then::Record)
            }
            Content::Log => {
                if !content.is_empty() {
                    said(Said::Log(content));
                }
                (of, Then::Record)
            }
            Content::End { mut held, bytes } => {
                let taken = content.len().min(END_BYTES - bytes);
                held[bytes..bytes + taken].copy_from_slice(&content[..taken]);
                if left == 0 {
                    self.finish(held)?;
                }
                (Content::End { held, bytes: bytes + taken }, Then::End)
            }
            Content::Skipped => (of, Then::Record),
        };
        Ok(if left > 0 { Stage::Content { of, left, padding } } else { Stage::Padding { left: padding, then } })
    }

    /// Reads the content of END_REQUEST (section 5.5).
    fn finish(&mut self, content: [u8; END_BYTES]) -> Result<(), Garbled> {
        let [a, b, c, d, protocol, ..] = content;
        self.app_status = u32::from_be_bytes([a, b, c, d]);
        match protocol {
            0 => self.output.end(),
            1 => Err(Garbled::Refused("it takes one request at a time")),
            2 => Err(Garbled::Refused("it is overloaded")),
            3 => Err(Garbled::Refused("it does not answer requests (the role of a responder)")),
            _ => Err(Garbled::Body("the record that ends it has an unknown status")),
        }
    }

    /// The connection has ended.
    ///
    /// # Errors
    ///
    /// [`Garbled::Cut`] if the response was not whole: its end is said by a record.
    pub(crate) fn end_of_input(&mut self, _said: &mut impl FnMut(Said<'_>)) -> Result<(), Garbled> {
        if matches!(self.stage, Stage::Ended) { Ok(()) } else { Err(Garbled::Cut) }
    }

    /// Whether the connection can take another request.
    pub(crate) fn keeps(&self) -> bool {
        matches!(self.stage, Stage::Ended) && !self.output.has_excess()
    }

    /// The exit status of the program, behind the end of the response; 0 if it is content.
    pub(crate) fn app_status(&self) -> u32 {
        self.app_status
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::push;
    use super::*;
    use proptest::prelude::*;

    const END: [u8; 8] = [0; 8];

    /// What was said, pieces of body and log joined, how it ended, and whether the connection is kept.
    type Outcome = (Vec<String>, String, String, Result<(), Garbled>, bool);

    fn read(pieces: &[&[u8]]) -> Outcome {
        let mut response = FastCgiResponse::new(Wants::All);
        let (mut parts, mut body, mut log) = (Vec::new(), Vec::new(), Vec::new());
        let mut said = |part: Said<'_>| match part {
            Said::Body(bytes) => body.extend_from_slice(bytes),
            Said::Log(bytes) => log.extend_from_slice(bytes),
            part => parts.push(format!("{part:?}")),
        };
        let outcome = pieces.iter().try_for_each(|piece| response.read(piece, &mut said).map(drop));
        let outcome = outcome.and_then(|()| response.end_of_input(&mut said));
        (parts, body.escape_ascii().to_string(), log.escape_ascii().to_string(), outcome, response.keeps())
    }

    fn records(records: &[(u8, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        records.iter().for_each(|(kind, content)| push(*kind, content, &mut out));
        out
    }

    fn error(bytes: &[u8]) -> Garbled {
        read(&[bytes]).3.expect_err("an error")
    }

    #[test]
    fn a_response_is_output_log_and_end() {
        let input = records(&[
            (kind::STDERR, b"oops"),
            (kind::STDOUT, b"Content-Type: a/b\r\n"),
            (9, b"values"),
            (99, b"unknown"),
            (kind::STDOUT, b"\r\nbo"),
            (kind::STDERR, b"!"),
            (kind::STDOUT, b"dy"),
            (kind::STDERR, b""),
            (kind::STDOUT, b""),
            (kind::END_REQUEST, &END),
        ]);
        let (parts, body, log, outcome, keeps) = read(&[&input]);
        assert_eq!((body.as_str(), log.as_str(), outcome, keeps), ("body", "oops!", Ok(()), true));
        assert_eq!(parts.len(), 2);
        assert!(parts[0].starts_with("Head(ResponseHead { status: 200") && parts[1] == "End", "{parts:?}");
    }

    #[test]
    fn bytes_behind_the_end_are_left() {
        let mut input = records(&[(kind::STDOUT, b"A: b\n\n"), (kind::END_REQUEST, &[0, 0, 0, 3, 0, 0, 0, 0, 1])]);
        let length = input.len();
        input.extend_from_slice(b"more");
        let mut response = FastCgiResponse::new(Wants::All);
        assert_eq!(response.read(&input, &mut |_| {}), Ok(length));
        assert_eq!(response.read(b"more", &mut |_| {}), Ok(0));
        assert_eq!((response.app_status(), response.keeps()), (3, true));
    }

    #[test]
    fn a_connection_out_of_step_is_not_kept() {
        let long = records(&[(kind::STDOUT, b"Content-Length: 1\n\nab"), (kind::END_REQUEST, &END)]);
        let (_, body, _, outcome, keeps) = read(&[&long]);
        assert_eq!((body.as_str(), outcome, keeps), ("a", Ok(()), false));
        let head = records(&[(kind::STDOUT, b"A: b\n\n")]);
        assert_eq!((error(&head), read(&[&head]).4), (Garbled::Cut, false));
    }

    #[test]
    fn what_breaks_the_protocol_is_refused() {
        let end = |status: u8| records(&[(kind::END_REQUEST, &[0, 0, 0, 0, status, 0, 0, 0])]);
        for status in 1..=3 {
            assert!(matches!(error(&end(status)), Garbled::Refused(_)), "{status}");
        }
        assert!(matches!(error(&end(4)), Garbled::Body(_)));
        assert_eq!(error(&end(0)), Garbled::Cut);
        assert_eq!(error(b""), Garbled::Cut);
        let short = records(&[(kind::STDOUT, b"Content-Length: 3\n\nab"), (kind::END_REQUEST, &END)]);
        assert_eq!(error(&short), Garbled::Cut);
        for bad in [
            &[2, 6, 0, 1, 0, 0, 0, 0][..],
            &[1, 6, 0, 2, 0, 0, 0, 0],
            &[1, 6, 0, 0, 0, 0, 0, 0],
            &[1, 3, 0, 0, 0, 8, 0, 0],
            &[1, 3, 0, 1, 0, 7, 0, 0],
            &[1, 99, 1, 0, 0, 0, 0, 0],
        ] {
            assert!(matches!(error(bad), Garbled::Body(_)), "{bad:?}");
        }
        assert!(matches!(error(&records(&[(kind::STDOUT, b"x\n\n")])), Garbled::Head(_)));
        let nothing = records(&[(kind::STDERR, b"")]).repeat(SKIPPED_BYTES_MAX / HEAD_BYTES + 1);
        assert!(matches!(error(&nothing), Garbled::Body(_)));
    }

    fn record() -> impl Strategy<Value = (u8, Vec<u8>)> {
        prop_oneof![
            Just((kind::STDOUT, b"A: b\nContent-Length: 9\n\n".to_vec())),
            Just((kind::STDOUT, b"Status: 404\r\n\r\n".to_vec())),
            Just((kind::END_REQUEST, END.to_vec())),
            (0_u8..12, proptest::collection::vec(any::<u8>(), 0..20)),
            (Just(kind::STDOUT), proptest::collection::vec(b'a'..=b'z', 0..20)),
            (Just(kind::STDERR), proptest::collection::vec(any::<u8>(), 0..20)),
        ]
    }

    proptest! {
        #[test]
        fn cuts_make_no_difference(
            written in proptest::collection::vec(record(), 0..8),
            cuts in proptest::collection::vec(0_usize..300, 0..12),
        ) {
            let mut input = Vec::new();
            written.iter().for_each(|(kind, content)| push(*kind, content, &mut input));
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(input.len())).collect();
            cuts.push(input.len());
            cuts.sort_unstable();
            let mut start = 0;
            let mut pieces = Vec::new();
            for cut in cuts {
                pieces.push(&input[start..cut]);
                start = cut;
            }
            prop_assert_eq!(read(&pieces), read(&[&input]));
        }

        #[test]
        fn any_bytes_are_read_without_panic(input in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&[&input]);
        }
    }
}
