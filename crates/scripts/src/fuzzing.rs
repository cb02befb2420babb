//! Entries for the fuzz targets.

pub use crate::fastcgi::{NoRecord, Pairs, Record, next_record};
pub use crate::first_output::status_of;
use crate::input::{Heard, Input, Opening};
pub use crate::marks::{Marks, Said, Sifted};
pub use crate::runs::{place_of_correlator, read as read_correlator};

/// What a runner has read of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Its number, and whether its connection is for further ones.
    pub begun: Option<(u16, bool)>,
    /// Its variables.
    pub variables: Vec<u8>,
    /// What has come of its body.
    pub body: Vec<u8>,
    /// Whether all of it has come.
    pub is_whole: bool,
}

/// Has a runner read what a server sends in pieces: the requests, and whether something was none.
pub fn requests(pieces: &[&[u8]]) -> (Vec<Request>, bool) {
    let (mut input, mut opening) = (Input::default(), Opening::default());
    let (mut found, mut request) = (Vec::new(), Request::default());
    for piece in pieces {
        input.append(piece);
        loop {
            let heard = match request.begun {
                None => input.open(&mut opening, &mut request.variables),
                Some((number, _)) => input.body(number, &mut request.body),
            };
            match heard {
                Heard::Nothing => break,
                Heard::Body => {}
                Heard::Begun(begun) => request.begun = Some((begun.number, begun.is_kept)),
                Heard::BodyEnd => {
                    request.is_whole = true;
                    found.push(std::mem::take(&mut request));
                }
                Heard::Aborted | Heard::Malformed => {
                    found.push(request);
                    return (found, true);
                }
            }
        }
    }
    found.push(request);
    (found, false)
}
