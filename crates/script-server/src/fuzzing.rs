//! Entries for the fuzz targets.

use crate::intake::{Heard, Intake};
pub use crate::mounts::{Mounts, NoScript};
pub use crate::parameters::{NoRequest, rewrite};

/// What has come of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Its number, whether its connection is for further ones, and its variables.
    pub begun: Option<(u16, bool, Vec<u8>)>,
    /// Whether all of its body has come.
    pub is_whole: bool,
}

/// Reads what a peer sends in pieces: the requests, their bodies as they are passed on, and whether something was none.
pub fn requests(pieces: &[&[u8]]) -> (Vec<Request>, Vec<u8>, bool) {
    let mut intake = Intake::default();
    let (mut found, mut body, mut request) = (Vec::new(), Vec::new(), Request::default());
    for piece in pieces {
        intake.space().extend_from_slice(piece);
        loop {
            let heard = match &request.begun {
                None => intake.open().map(|begun| match begun {
                    Some(begun) => {
                        request.begun = Some((begun.number, begun.is_kept, begun.pairs));
                        Heard::Body
                    }
                    None => Heard::Nothing,
                }),
                Some((number, ..)) => intake.body(*number, &mut body),
            };
            match heard {
                Ok(Heard::Nothing) => break,
                Ok(Heard::Body) => {}
                Ok(Heard::BodyEnd) => {
                    request.is_whole = true;
                    found.push(std::mem::take(&mut request));
                }
                Ok(Heard::Aborted) | Err(_) => {
                    found.push(request);
                    return (found, body, true);
                }
            }
        }
    }
    found.push(request);
    (found, body, false)
}
