//! The socket between a server and its node process: frames of a header in JSON, bytes, and perhaps a descriptor.
//!
//! A frame is `u32 header length, u32 byte count, header, bytes`, in little endian; the descriptor comes by
//! `SCM_RIGHTS` (unix(7)) with the first byte.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Bytes of a header, at most: an address and a reason.
const HEADER_BYTES_MAX: u32 = 16 << 10;
/// Bytes behind it, at most: what a socket's send buffer can hold, and a session.
const BYTES_MAX: u32 = 64 << 20;
const LENGTHS: usize = 8;
/// Descriptors of a frame: the connection's, and one for each response that another node goes on making.
pub(crate) const FDS_MAX: usize = 65;
/// Room for the control message of so many descriptors, aligned as `cmsghdr` is.
const CONTROL_WORDS: usize = 36;

/// What the node process asks of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// What has the session of these two addresses under way?
    Preview { client: SocketAddr, service: SocketAddr },
    /// Stop the session of these two addresses, and give it away.
    Take { client: SocketAddr, service: SocketAddr },
    /// It was not moved: the server goes on with it. With what [`Answer::Taken`] came with.
    GiveBack { known_bytes: u64, before: Vec<u32> },
    /// Bytes of what a session, which comes with this, has sent.
    Sent { from: u64, length: u64 },
    /// Go on with a session of another node. With its bytes and its descriptors: the connection's first.
    Adopt { client: SocketAddr },
    /// Which connections are open?
    Sessions,
    /// What have you counted? And which files are you asked for most?
    Reading { with_paths: bool },
    /// Copy the sessions whose response takes long and that were not copied; with those over TLS, of which the copies have
    /// the keys, or without. Or `all`, as what was copied before is lost.
    Copy { with_tls: bool, all: bool },
    /// Serve what the paths of the roots lead to now; all loops do once this is answered.
    FollowRoots,
    /// Have clients of HTTP/3 go elsewhere, or not any more.
    LeaveHttp3(bool),
    /// Use these keys of TLS session tickets, which come as bytes. Nothing is answered.
    Tickets,
    /// How many connections of HTTP/3 have requests under way?
    Http3,
    /// Say this on standard error. Nothing is answered.
    Tell(String),
    /// Show these figures at the admin address, which come as bytes. Nothing is answered.
    Figures,
    /// Serve the node process whose sockets come with this: for what it asks, and for content. With them comes an
    /// eventfd(2), by which it is told that there are copies to be asked for. Nothing is answered.
    Node,
}

/// What a process beside the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// It keeps a node process running.
    Attendant,
    /// It is the node process.
    Node,
}

/// The first frame, from the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begin {
    /// The directory of the cluster.
    pub(crate) folder: PathBuf,
    /// The socket of the keeper.
    pub(crate) keeper: PathBuf,
    pub(crate) part: Part,
    /// A number of the server, which no other one of this machine has; a descriptor of its process (pidfd_open(2)) comes
    /// with this, where the kernel gives one.
    pub(crate) server: u64,
}

/// What the server answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// With the session's bytes and its descriptors: the connection's first, then those of responses that are made
    /// elsewhere. Behind the session stand the bytes that come before what is in each of these, of so many bytes.
    Taken {
        known_bytes: u64,
        before: Vec<u32>,
    },
    /// With the bytes that were asked for.
    Bytes,
    /// With a list of [`Open`] in JSON as bytes.
    Sessions,
    /// So many connections of HTTP/3 have requests under way.
    Http3(u64),
    /// With a list of [`Asked`] in JSON as bytes, if it was asked for.
    Reading(Counted),
    /// With [`Copies`] in JSON, of so many bytes, and then the sessions.
    Copies {
        json_bytes: u32,
    },
    /// With sockets of the [`Copies`] that went before, in their order.
    Sockets,
    Done,
    /// Nothing was changed; why, and in words.
    Refused(Refusal, String),
}

/// What a server has counted since it started, and what it has now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub(crate) requests: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) open: u64,
    pub(crate) sending: u64,
    /// CPU time of the process.
    pub(crate) cpu_us: u64,
    /// CPUs that it may use.
    pub(crate) cpus: u32,
    /// Since the reading before; none at the first one.
    pub(crate) strain: Option<Strained>,
}

/// What requests waited for since the reading before, how many failed, and how full the memory is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Strained {
    pub(crate) queue: f64,
    pub(crate) wait_s: f64,
    pub(crate) mem_bytes: f64,
    pub(crate) mem_percent: f64,
    pub(crate) errors_per_s: f64,
    pub(crate) error_percent: f64,
}

/// How often a file was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) requests_per_s: f64,
}

/// A connection that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Open {
    pub(crate) client: SocketAddr,
    pub(crate) service: SocketAddr,
    /// Whether a response is being sent.
    pub(crate) is_sending: bool,
    /// The path of the file that is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
}

/// What has changed of the sessions whose response takes long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Copies {
    pub(crate) copies: Vec<Copied>,
    /// The client's end and the service's of those whose response is over.
    pub(crate) ended: Vec<(SocketAddr, SocketAddr)>,
    /// How many send and cannot be copied, by the reason.
    pub(crate) left_out: BTreeMap<String, u64>,
    /// Copies that did not fit into the frame.
    pub(crate) too_large: u64,
    /// Frames of sockets that follow, [`Answer::Sockets`].
    pub(crate) socket_frames: u32,
}

/// A session that was copied; its own bytes stand behind those of the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Copied {
    pub(crate) client: SocketAddr,
    pub(crate) service: SocketAddr,
    pub(crate) session_bytes: u32,
    /// Whether another descriptor of its socket follows.
    pub(crate) has_socket: bool,
    pub(crate) offset: u64,
    pub(crate) response_bytes: u64,
    pub(crate) cookie: u64,
    /// Bytes written, acknowledged, and received since the socket was made.
    pub(crate) counts: [u64; 3],
    /// Options, the client's window scale, ours.
    pub(crate) options: [u8; 3],
    /// Largest segment, clock of timestamps, round trip in microseconds.
    pub(crate) numbers: [u32; 3],
}

/// Why the server does not do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Refusal {
    NoSession,
    NotMovable,
    OtherContent,
    NotUnderstood,
    Full,
}

/// A frame that was received.
#[derive(Debug)]
pub(crate) struct Frame<T> {
    pub(crate) header: T,
    /// They may have keys of a session.
    pub(crate) bytes: Zeroizing<Vec<u8>>,
    /// The connection, and those by which its responses come that another node goes on making.
    pub(crate) fds: Vec<OwnedFd>,
}

/// Puts what comes before responses that are made elsewhere behind a session; the length of each. Each has at most what a
/// server holds of a response, which is far below this type's bound.
pub(crate) fn put_before(session: &mut Zeroizing<Vec<u8>>, before: &[&[u8]]) -> Vec<u32> {
    let (mut all, mut lengths) = (Vec::new(), Vec::new());
    for bytes in before {
        all.extend_from_slice(bytes);
        lengths.push(bytes.len() as u32);
    }
    if !all.is_empty() {
        // In new memory, so that the keys in the old one are wiped.
        let mut longer = Zeroizing::new(Vec::with_capacity(session.len() + all.len()));
        longer.extend_from_slice(session);
        longer.extend_from_slice(&all);
        *session = longer;
    }
    lengths
}

/// Takes off a session what [`put_before`] has put there, one for each descriptor.
///
/// # Errors
///
/// `InvalidData` if there is not as much, or not one for each.
pub(crate) fn take_before(
    session: &mut Zeroizing<Vec<u8>>,
    lengths: &[u32],
    fds: impl ExactSizeIterator<Item = OwnedFd>,
) -> io::Result<Vec<(OwnedFd, Vec<u8>)>> {
    let bytes: usize = lengths.iter().map(|length| *length as usize).sum();
    let at = session.len().checked_sub(bytes).filter(|_| lengths.len() == fds.len());
    let mut at = at.ok_or(io::ErrorKind::InvalidData)?;
    let end = at;
    let mut all = Vec::with_capacity(lengths.len());
    for (fd, length) in fds.zip(lengths) {
        let next = at + *length as usize;
        all.push((fd, session[at..next].to_vec()));
        at = next;
    }
    session.truncate(end);
    Ok(all)
}

/// Sends a frame.
///
/// # Errors
///
/// What the socket answers; `InvalidInput` if it is too large.
pub(crate) fn send(link: &UnixStream, header: &impl Serialize, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    let too_large = || io::Error::from(io::ErrorKind::InvalidInput);
    let header_bytes = u32::try_from(header.len()).ok().filter(|length| *length <= HEADER_BYTES_MAX);
    let byte_count = u32::try_from(bytes.len()).ok().filter(|length| *length <= BYTES_MAX);
    let (header_bytes, byte_count) = (header_bytes.ok_or_else(too_large)?, byte_count.ok_or_else(too_large)?);
    let mut head = Vec::with_capacity(LENGTHS + header.len());
    head.extend_from_slice(&header_bytes.to_le_bytes());
    head.extend_from_slice(&byte_count.to_le_bytes());
    head.extend_from_slice(&header);
    let sent = if fds.is_empty() { 0 } else { send_with(link, &head, fds)? };
    let mut link = link;
    link.write_all(&head[sent..])?;
    link.write_all(bytes)
}

/// Receives a frame; none at the end of the stream.
///
/// # Errors
///
/// What the socket answers; `InvalidData` if the other side does not keep to the form.
pub(crate) fn receive<T: for<'d> Deserialize<'d>>(link: &UnixStream) -> io::Result<Option<Frame<T>>> {
    let mut lengths = [0; LENGTHS];
    let (received, fds) = receive_with(link, &mut lengths)?;
    if received == 0 {
        return Ok(None);
    }
    let mut link = link;
    link.read_exact(&mut lengths[received..])?;
    let number = |at: usize| u32::from_le_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]]);
    let (header_bytes, byte_count) = (number(0), number(4));
    if header_bytes > HEADER_BYTES_MAX || byte_count > BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut header = vec![0; header_bytes as usize];
    link.read_exact(&mut header)?;
    let mut bytes = Zeroizing::new(vec![0; byte_count as usize]);
    link.read_exact(&mut bytes)?;
    Ok(Some(Frame { header: serde_json::from_slice(&header)?, bytes, fds }))
}

/// Sends the first bytes with descriptors; how many went.
fn send_with(link: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    if fds.len() > FDS_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // The bound is far below this type's.
    let fd_bytes = size_of_val(fds) as u32;
    // SAFETY: a header of zeros is a valid one; all that it points to lives over the call, and the control message is
    // written within its room, which `CMSG_SPACE` of the most descriptors fits into.
    let sent = unsafe {
        let mut message = MaybeUninit::<libc::msghdr>::zeroed().assume_init();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(fd_bytes) as _;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        ((*head).cmsg_level, (*head).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        (*head).cmsg_len = libc::CMSG_LEN(fd_bytes) as _;
        let data = libc::CMSG_DATA(head).cast::<RawFd>();
        fds.iter().enumerate().for_each(|(at, fd)| data.add(at).write_unaligned(fd.as_raw_fd()));
        libc::sendmsg(link.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives bytes and perhaps descriptors.
fn receive_with(link: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: as above; descriptors that the kernel puts into the control message are new and have no other owner, and
    // its length says how many there are.
    unsafe {
        let mut message = MaybeUninit::<libc::msghdr>::zeroed().assume_init();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
        let received = loop {
            let received = libc::recvmsg(link.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
            if received >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break received;
            }
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        let has_fds =
            !head.is_null() && ((*head).cmsg_level, (*head).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        let fd_bytes = if has_fds { (*head).cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize) } else { 0 };
        let fd = |at| OwnedFd::from_raw_fd(libc::CMSG_DATA(head).cast::<RawFd>().add(at).read_unaligned());
        let fds: Vec<OwnedFd> = (0..fd_bytes / size_of::<RawFd>()).map(fd).collect();
        // Some did not fit: this process may have no more.
        if message.msg_flags & libc::MSG_CTRUNC != 0 {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        Ok((received, fds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Seek;
    use std::os::fd::AsFd;

    #[test]
    fn a_frame_arrives_with_its_bytes_and_its_descriptor() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"content").expect("writes");
        let bytes = vec![7; 3 << 20];
        let (expected, link) = (bytes.clone(), other.try_clone().expect("a handle"));
        let sender = std::thread::spawn(move || {
            send(&one, &Ask::GiveBack { known_bytes: 5, before: Vec::new() }, &bytes, &[file.as_fd(), link.as_fd()])
                .expect("sends");
            send(&one, &Answer::Done, b"", &[]).expect("sends");
        });
        let frame = receive::<Ask>(&other).expect("receives").expect("a frame");
        assert_eq!(
            (&frame.header, frame.bytes.to_vec()),
            (&Ask::GiveBack { known_bytes: 5, before: Vec::new() }, expected)
        );
        let mut fds = frame.fds.into_iter();
        assert_eq!(fds.len(), 2);
        let mut came = File::from(fds.next().expect("a descriptor"));
        let mut text = String::new();
        came.rewind().expect("seeks");
        came.read_to_string(&mut text).expect("reads");
        assert_eq!(text, "content");
        let frame = receive::<Answer>(&other).expect("receives").expect("a frame");
        assert!(frame.header == Answer::Done && frame.fds.is_empty());
        sender.join().expect("has sent");
        assert!(receive::<Answer>(&other).expect("reads").is_none(), "the end is no frame");
    }

    #[test]
    fn what_stands_before_responses_comes_behind_the_session() {
        let fds = || [(); 3].map(|()| tempfile::tempfile().expect("a file").into()).into_iter();
        let before = [b"one".to_vec(), Vec::new(), b"three".to_vec()];
        let mut session = Zeroizing::new(b"session".to_vec());
        let lengths = put_before(&mut session, &before.each_ref().map(Vec::as_slice));
        let mut short = session.clone();
        let taken = take_before(&mut session, &lengths, fds()).expect("is whole");
        assert_eq!(
            (session.as_slice(), taken.into_iter().map(|(_, bytes)| bytes).collect()),
            (&b"session"[..], before.to_vec())
        );
        short.truncate(5);
        assert!(take_before(&mut short, &lengths, fds()).is_err());
        assert!(take_before(&mut session, &[1], fds()).is_err(), "not one for each");
    }

    #[test]
    fn lengths_that_are_too_large_are_refused_before_memory_is_taken() {
        let (one, other) = UnixStream::pair().expect("a pair");
        (&one).write_all(&[0xff; LENGTHS]).expect("writes");
        let refused = receive::<Ask>(&other).expect_err("is refused");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }
}
