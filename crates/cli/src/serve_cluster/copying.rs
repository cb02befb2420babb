//! Copies of sessions on their way through the socket between a server and its node process.

use super::gate::{self, Answer, Copied, Copies, FDS_MAX, Frame};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use weir_cluster::REPLICA_BYTES_MAX;
use weir_server::{SessionCopies, SessionCopy};
use zeroize::Zeroizing;

/// Bytes of all sessions of a frame; what does not fit is counted, and copied when it has come much further.
const BYTES_MAX: usize = 32 << 20;
/// Sockets behind a frame: both processes have them open for a moment.
const SOCKETS_MAX: usize = 256;

/// Sends copies: a frame of their sessions, and frames of their sockets.
///
/// # Errors
///
/// What the socket answers.
pub(super) fn send(link: &UnixStream, found: SessionCopies) -> io::Result<()> {
    let (json_bytes, bytes, sockets) = framed(found)?;
    gate::send(link, &Answer::Copies { json_bytes }, &bytes, &[])?;
    for sockets in sockets.chunks(FDS_MAX) {
        let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        gate::send(link, &Answer::Sockets, &[], &sockets)?;
    }
    Ok(())
}

/// The copies as the bytes of a frame, how many of these are JSON, and the sockets.
///
/// # Errors
///
/// Those of JSON, which does not fail for such values.
fn framed(found: SessionCopies) -> io::Result<(u32, Zeroizing<Vec<u8>>, Vec<OwnedFd>)> {
    let mut sockets = Vec::new();
    let left_out = found.left_out.into_iter().map(|(why, count)| (why.to_owned(), count)).collect();
    let mut copies = Copies { ended: found.ended, left_out, ..Copies::default() };
    let mut sessions = Zeroizing::new(Vec::new());
    for SessionCopy { peer: client, local: service, session, offset, response_bytes, facts, socket } in found.copies {
        if session.len() > REPLICA_BYTES_MAX || sessions.len() + session.len() > BYTES_MAX {
            copies.too_large += 1;
            continue;
        }
        sessions.extend_from_slice(&session);
        let has_socket = socket.is_some() && sockets.len() < SOCKETS_MAX;
        copies.copies.push(Copied {
            client,
            service,
            // Below the bound.
            session_bytes: session.len() as u32,
            has_socket,
            offset,
            response_bytes,
            cookie: facts.cookie,
            counts: [facts.written, facts.acknowledged, facts.received],
            options: [facts.options, facts.send_scale, facts.receive_scale],
            numbers: [facts.mss, facts.timestamp, facts.round_trip_us],
        });
        sockets.extend(socket.filter(|_| has_socket));
    }
    // There are at most some thousands.
    copies.socket_frames = sockets.len().div_ceil(FDS_MAX) as u32;
    let json = serde_json::to_vec(&copies)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(json.len() + sessions.len()));
    bytes.extend_from_slice(&json);
    bytes.extend_from_slice(&sessions);
    Ok((u32::try_from(json.len()).unwrap_or(u32::MAX), bytes, sockets))
}

/// A session that was copied, with what is known of it and another descriptor of its socket.
pub(super) struct CopiedSession {
    pub(super) copied: Copied,
    pub(super) session: Zeroizing<Vec<u8>>,
    pub(super) socket: Option<OwnedFd>,
}

/// Receives what [`send`] has sent behind its first frame, and puts it together.
///
/// # Errors
///
/// What the socket answers; `InvalidData` for what [`send`] does not send.
pub(super) fn receive(link: &UnixStream, first: &Frame<Answer>) -> io::Result<(Copies, Vec<CopiedSession>)> {
    let (mut copies, sessions) = unframed(first)?;
    let mut sockets = VecDeque::new();
    for _ in 0..copies.socket_frames {
        match gate::receive::<Answer>(link)? {
            Some(Frame { header: Answer::Sockets, fds, .. }) => sockets.extend(fds),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    let all = std::mem::take(&mut copies.copies).into_iter().zip(sessions);
    let all = all.map(|(copied, session)| {
        let socket = if copied.has_socket { sockets.pop_front() } else { None };
        CopiedSession { copied, session, socket }
    });
    let all = all.collect();
    Ok((copies, all))
}

/// The copies of a frame, each with its session.
///
/// # Errors
///
/// `InvalidData` for what [`framed`] has not made.
fn unframed(frame: &Frame<Answer>) -> io::Result<(Copies, Vec<Zeroizing<Vec<u8>>>)> {
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
