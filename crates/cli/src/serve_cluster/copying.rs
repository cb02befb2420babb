//! Copies of sessions on their way through the socket between a server and its node process.

use super::gate::{Answer, Copied, Copies, Frame};
use std::io;
use weir_cluster::REPLICA_BYTES_MAX;
use weir_server::{SessionCopies, SessionCopy};
use zeroize::Zeroizing;

/// Bytes of all sessions of a frame; what does not fit is counted, and copied when it has come much further.
const BYTES_MAX: usize = 32 << 20;

/// The copies as the bytes of a frame, and how many of these are JSON.
///
/// # Errors
///
/// Those of JSON, which does not fail for such values.
pub(super) fn framed(found: SessionCopies) -> io::Result<(u32, Zeroizing<Vec<u8>>)> {
    let left_out = found.left_out.into_iter().map(|(why, count)| (why.to_owned(), count)).collect();
    let mut copies = Copies { ended: found.ended, left_out, ..Copies::default() };
    let mut sessions = Zeroizing::new(Vec::new());
    for SessionCopy { peer: client, local: service, session, offset, response_bytes, facts } in found.copies {
        if session.len() > REPLICA_BYTES_MAX || sessions.len() + session.len() > BYTES_MAX {
            copies.too_large += 1;
            continue;
        }
        sessions.extend_from_slice(&session);
        copies.copies.push(Copied {
            client,
            service,
            // Below the bound.
            session_bytes: session.len() as u32,
            offset,
            response_bytes,
            cookie: facts.cookie,
            counts: [facts.written, facts.acknowledged, facts.received],
            options: [facts.options, facts.send_scale, facts.receive_scale],
            numbers: [facts.mss, facts.timestamp, facts.round_trip_us],
        });
    }
    let json = serde_json::to_vec(&copies)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(json.len() + sessions.len()));
    bytes.extend_from_slice(&json);
    bytes.extend_from_slice(&sessions);
    Ok((u32::try_from(json.len()).unwrap_or(u32::MAX), bytes))
}

/// The copies of a frame, each with its session.
///
/// # Errors
///
/// `InvalidData` for what [`framed`] has not made.
pub(super) fn unframed(frame: &Frame<Answer>) -> io::Result<(Copies, Vec<Zeroizing<Vec<u8>>>)> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let Answer::Copies { json_bytes } = frame.header else { return Err(invalid()) };
    let (json, mut rest) = frame.bytes.split_at_checked(json_bytes as usize).ok_or_else(invalid)?;
    let copies: Copies = serde_json::from_slice(json)?;
    let mut sessions = Vec::with_capacity(copies.copies.len());
    for copied in &copies.copies {
        let (session, after) = rest.split_at_checked(copied.session_bytes as usize).ok_or_else(invalid)?;
        sessions.push(Zeroizing::new(session.to_vec()));
        rest = after;
    }
    Ok((copies, sessions))
}
