//! What the server reads of programs behind FastCGI, SCGI and uwsgi.

use crate::Choices;
use crate::upstream::fastcgi::response::FastCgiResponse;
use crate::upstream::gateway::response::{ClosingResponse, Wants};
use crate::upstream::message::{FIELDS_MAX, Garbled, HEAD_BYTES_MAX, HandOver, Instead, ResponseHead, Said};

/// What was read: parts in words, bytes of the body and of the log, how it ended.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    parts: Vec<String>,
    body: Vec<u8>,
    log: Vec<u8>,
    error: Option<Garbled>,
}

impl Outcome {
    fn take(&mut self, part: Said<'_>, wants: Wants) {
        assert!(self.parts.last().is_none_or(|last| last != "End"), "something behind the end");
        match part {
            Said::Head(head) => {
                check(&head);
                assert!(self.parts.is_empty(), "a second head");
                self.parts.push(format!("{head:?}"));
            }
            Said::Instead(instead) => {
                assert!(self.parts.is_empty(), "a second head");
                match &instead {
                    Instead::Path(path) => assert!(path.starts_with(b"/") && !path.starts_with(b"//")),
                    Instead::HandOver { to, head } => {
                        check(head);
                        assert!(head.length.is_none());
                        match to {
                            HandOver::Path(path) => assert!(path.starts_with(b"/") && !path.starts_with(b"//")),
                            HandOver::File(file) => assert!(!file.is_empty() && !file.contains(&0)),
                        }
                    }
                }
                self.parts.push(format!("{instead:?}"));
            }
            Said::Body(bytes) => {
                assert!(wants == Wants::All && self.parts[0].starts_with("ResponseHead"), "a body without a head");
                self.body.extend_from_slice(bytes);
            }
            Said::Log(bytes) => self.log.extend_from_slice(bytes),
            Said::End => {
                assert_eq!(self.parts.len(), 1, "an end without a head");
                self.parts.push("End".to_owned());
            }
            Said::Interim { .. } | Said::Trailers(_) => unreachable!("programs send neither"),
        }
    }
}

/// Lines of fields are whole, and none of them ends the head or frames the message.
fn check(head: &ResponseHead) {
    assert!((200..=599).contains(&head.status));
    assert!(head.fields.len() <= HEAD_BYTES_MAX + 3 * FIELDS_MAX);
    assert!(head.fields.is_empty() || head.fields.ends_with(b"\r\n"));
    let mut lines = 0;
    for line in head.fields.split_inclusive(|byte| *byte == b'\n') {
        lines += 1;
        let line = line.strip_suffix(b"\r\n").expect("a line");
        assert!(line.iter().all(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
        let colon = line.iter().position(|byte| *byte == b':').expect("a field");
        let name = line[..colon].to_ascii_lowercase();
        assert!(!name.is_empty() && name != b"content-length" && name != b"transfer-encoding" && name != b"connection");
    }
    assert!(lines <= FIELDS_MAX);
}

/// Reads pieces with `read`, then the end with `end`.
fn read<R>(
    reader: &mut R,
    pieces: &[&[u8]],
    wants: Wants,
    mut read: impl FnMut(&mut R, &[u8], &mut dyn FnMut(Said<'_>)) -> Result<usize, Garbled>,
    mut end: impl FnMut(&mut R, &mut dyn FnMut(Said<'_>)) -> Result<(), Garbled>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut said = |part: Said<'_>| outcome.take(part, wants);
    let result = pieces.iter().try_for_each(|piece| {
        let bytes = read(reader, piece, &mut said)?;
        assert!(bytes <= piece.len());
        Ok(())
    });
    let result = result.and_then(|()| end(reader, &mut said));
    outcome.error = result.err();
    assert!(outcome.error.is_some() || outcome.parts.len() == 2, "it ends well without being whole");
    outcome
}

/// The input in pieces as the fuzzer wants them.
fn pieces(input: &[u8]) -> (Wants, Vec<&[u8]>, &[u8]) {
    let mut choices = Choices(input);
    let wants = if choices.byte() % 4 == 0 { Wants::Head } else { Wants::All };
    let largest = 1 + usize::from(choices.byte() % 32);
    (wants, choices.0.chunks(largest).collect(), choices.0)
}

/// Reads any bytes as the response of a program, in one piece and in many, which makes no difference.
pub fn cgi_response(input: &[u8]) {
    let (wants, pieces, whole) = pieces(input);
    let read = |pieces: &[&[u8]]| {
        let mut response = ClosingResponse::new(wants);
        let read_piece = |response: &mut ClosingResponse, piece: &[u8], mut said: &mut dyn FnMut(Said<'_>)| {
            response.read(piece, &mut said)
        };
        read(&mut response, pieces, wants, read_piece, |response, mut said| response.end_of_input(&mut said))
    };
    assert_eq!(read(&pieces), read(&[whole]));
}

/// Reads any bytes as records of FastCGI, in one piece and in many, which makes no difference.
pub fn fastcgi_response(input: &[u8]) {
    let (wants, pieces, whole) = pieces(input);
    let read = |pieces: &[&[u8]]| {
        let mut response = FastCgiResponse::new(wants);
        let read_piece = |response: &mut FastCgiResponse, piece: &[u8], mut said: &mut dyn FnMut(Said<'_>)| {
            response.read(piece, &mut said)
        };
        let outcome =
            read(&mut response, pieces, wants, read_piece, |response, mut said| response.end_of_input(&mut said));
        assert!(outcome.error.is_none() || !response.keeps());
        (outcome, response.keeps(), response.app_status())
    };
    assert_eq!(read(&pieces), read(&[whole]));
}
