//! Reads the state of a live connection, and makes a socket with such a state (`TCP_REPAIR`, tcp(7)).
//!
//! The caller has blocked what comes in for the connection before: a segment that is taken in meanwhile would be
//! acknowledged by this host and missing at the next one. All of it needs CAP_NET_ADMIN in the socket's network
//! namespace, and CAP_NET_BIND_SERVICE to restore a connection of a port below `ip_unprivileged_port_start`.
//!
//! A connection that stands still sends nothing: its send window is closed here, and opened again when it goes on. The
//! repair mode alone does not stop it. Without a chosen queue timers go on sending; and with that of sending
//! (`TCP_REPAIR_QUEUE`) each of them has the kernel take all that is unsent for sent, however small the client's window,
//! which the connection gets over by time-outs only. So that queue is chosen for one reading.
//!
//! What is lost in a move, as no call of the kernel gives it: congestion window, round-trip time, ECN, segments that came
//! out of order, and the options that the program has set on the socket.

use crate::encoding::{DecodeError, put_u32, take_u8, take_u32};
use crate::flow;
use crate::socket_calls::{
    UNACKNOWLEDGED_BYTES, UNREAD_BYTES, UNSENT_BYTES, append, disconnect, ends, get, peek, queue_bytes, set, set_all,
};
use crate::tcp_state::{Frozen, OPTION_SACK, OPTION_SCALE, OPTION_TIMESTAMPS, TcpState};
use libc::{IPPROTO_TCP, SOL_SOCKET};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// `TCP_REPAIR_WINDOW` of linux/tcp.h, which libc has for some targets only.
const TCP_REPAIR_WINDOW: i32 = 29;
/// Values of `TCP_REPAIR`: off with a window probe, which the client answers at once; on; off without.
const REPAIR_OFF: i32 = 0;
const REPAIR_ON: i32 = 1;
const REPAIR_OFF_SILENTLY: i32 = -1;
/// Values of `TCP_REPAIR_QUEUE`.
const NO_QUEUE: i32 = 0;
const RECEIVE_QUEUE: i32 = 1;
const SEND_QUEUE: i32 = 2;
/// Options of a handshake, for `TCP_REPAIR_OPTIONS`.
const OPTION_MSS: u32 = 2;
const OPTION_WINDOW_SCALE: u32 = 3;
const OPTION_SACK_PERMITTED: u32 = 4;
const OPTION_TIMESTAMP: u32 = 8;
/// `SO_BUF_LOCK` of asm-generic/socket.h (Linux 5.14): which of a socket's buffers keep their size.
const SO_BUF_LOCK: i32 = 72;
/// The index of `snd_wnd` in `struct tcp_repair_window`.
const SEND_WINDOW: usize = 1;
/// `TCP_ESTABLISHED` of linux/tcp.h.
const ESTABLISHED: u8 = 1;
/// A segment that was being taken in when the hold began may still change the state.
const READS_MAX: usize = 20;
/// The kernel keeps a segment until all of it is acknowledged, so the queue may begin before the first byte that is not.
const SEGMENT_BYTES_MAX: usize = 1 << 16;
/// Up to this, what a new socket's buffers hold anyway.
const BUFFER_BYTES: usize = 32 << 10;
/// A new connection's send buffer, from which the kernel lets it grow: twice its first window of 10 segments, with what
/// the kernel needs besides.
const SEND_BUFFER_BYTES: i32 = 87_040;
/// Appended to a queue at once.
const PIECE_BYTES: usize = 1 << 16;
const PIECE_BYTES_MIN: usize = 512;

/// What was asked of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// Reading the connection's state.
    Read = 1,
    /// Changing to and from repair mode.
    Repair = 2,
    /// Making a socket with the connection's addresses.
    Open = 3,
    /// Setting sequence numbers, options, window or clock.
    Set = 4,
    /// Filling the queue of unread input.
    FillReceived = 5,
    /// Filling the queue of what was sent.
    FillSent = 6,
    /// Writing what was not sent yet.
    WriteUnsent = 7,
    /// Ending the connection.
    End = 8,
}

/// Why a connection cannot be frozen, restored or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepairError {
    /// It is not established: opening, closing or closed. The number is the kernel's (linux/tcp.h).
    #[error("the connection is in the state {}; only one in the state ESTABLISHED can be moved: let it end here", state_name(*.0))]
    State(u8),
    /// It stands still already.
    #[error("the connection is frozen already; thaw or discard it first")]
    AlreadyFrozen,
    /// It does not stand still.
    #[error("the connection is not frozen; freeze it first")]
    NotFrozen,
    /// Its state changed at each reading.
    #[error("the connection's state does not settle; hold what comes in for it before, and try again later")]
    Unsettled,
    /// The bytes that belong to the state have another length than the state says.
    #[error("the state speaks of {expected} bytes and {got} are there; give all bytes of the queue")]
    Length {
        /// As the state says.
        expected: u32,
        /// As there are.
        got: u32,
    },
    /// One end is IPv4, the other IPv6.
    #[error("the ends {0} and {1} are not of one family; give the addresses of one connection")]
    Families(SocketAddr, SocketAddr),
    /// The kernel refuses.
    #[error("{} fails: {}; {}", .step.words(), io::Error::from_raw_os_error(*.errno), remedy(*.errno))]
    System {
        /// What was asked.
        step: Step,
        /// The error's number (errno(3)).
        errno: i32,
    },
}

/// What a client said last while what came in from it was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// Its acknowledgement number.
    pub ack: u32,
    /// The window in bytes as it stands in the segment: not scaled.
    pub window: u32,
}

/// A socket in repair mode with the state of a connection.
#[derive(Debug)]
pub struct Restored {
    /// It blocks, and has the options of a new socket.
    pub socket: OwnedFd,
    /// What was written and never sent. [`activate`] writes it: within repair mode the kernel takes all as sent.
    pub unsent: Vec<u8>,
}

impl Step {
    const ALL: [Self; 8] = [
        Self::Read,
        Self::Repair,
        Self::Open,
        Self::Set,
        Self::FillReceived,
        Self::FillSent,
        Self::WriteUnsent,
        Self::End,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::Read => "reading the connection's state",
            Self::Repair => "changing the repair mode",
            Self::Open => "making a socket with the connection's addresses",
            Self::Set => "setting the connection's numbers",
            Self::FillReceived => "filling the queue of unread input",
            Self::FillSent => "filling the queue of what was sent",
            Self::WriteUnsent => "writing what was not sent yet",
            Self::End => "ending the connection",
        }
    }

    fn failed(self, error: &io::Error) -> RepairError {
        RepairError::System { step: self, errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }
}

/// Reads a connection's state and unread input, and leaves it standing still: nothing goes out any more.
///
/// # Errors
/// [`RepairError`]; the connection goes on as before.
pub fn freeze(socket: BorrowedFd<'_>) -> Result<Frozen, RepairError> {
    check_established(socket)?;
    if is_frozen(socket)? {
        return Err(RepairError::AlreadyFrozen);
    }
    set(socket, IPPROTO_TCP, libc::TCP_REPAIR, REPAIR_ON).map_err(|error| Step::Repair.failed(&error))?;
    let mut send_window = 0;
    read(socket, &mut send_window).inspect_err(|_| {
        // What was asked fails for another reason, which is told.
        let _ = open_window(socket, send_window);
        let _ = leave(socket, REPAIR_OFF_SILENTLY);
        let _ = push(socket);
    })
}

/// The first so many bytes of those that are not acknowledged, of a connection that stands still.
///
/// # Errors
/// [`RepairError`]: it does not stand still, or has fewer bytes.
pub fn send_queue(socket: BorrowedFd<'_>, bytes: u32) -> Result<Vec<u8>, RepairError> {
    require_frozen(socket)?;
    let failed = |error: io::Error| Step::Read.failed(&error);
    let queued = queue_bytes(socket, UNACKNOWLEDGED_BYTES).map_err(failed)?;
    if bytes > queued {
        return Err(RepairError::Length { expected: bytes, got: queued });
    }
    // The kernel copies whole segments and refuses where they do not fit, so all of them are asked for.
    let bytes_max = if queued == 0 { 0 } else { queued as usize + SEGMENT_BYTES_MAX };
    set(socket, IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, SEND_QUEUE).map_err(failed)?;
    let all = peek(socket, bytes_max);
    set(socket, IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, NO_QUEUE).map_err(failed)?;
    let mut all = all.map_err(failed)?;
    let acknowledged = all.len().checked_sub(queued as usize).ok_or(RepairError::Unsettled)?;
    all.drain(..acknowledged);
    all.truncate(bytes as usize);
    Ok(all)
}

/// Has a connection that stands still go on here, as its program left it.
///
/// `window` is that of the state that [`freeze`] returned; without it the connection goes on when the client has told its
/// window. `release` ends the hold, and says what the client said meanwhile. It is called before the connection goes on,
/// as that asks the client for an answer.
///
/// # Errors
/// [`RepairError`]; `release` was not called for [`RepairError::NotFrozen`].
pub fn thaw(
    socket: BorrowedFd<'_>,
    window: Option<[u32; 5]>,
    release: impl FnOnce() -> Option<Heard>,
) -> Result<(), RepairError> {
    require_frozen(socket)?;
    let opened = open_window(socket, window.map_or(0, |window| window[SEND_WINDOW]));
    opened.map_err(|error| Step::Set.failed(&error))?;
    take_in(socket, release)?;
    leave(socket, REPAIR_OFF)?;
    push(socket).map_err(|error| Step::WriteUnsent.failed(&error))
}

/// Ends a connection that stands still, without a word to the client; its descriptors are to be closed.
///
/// # Errors
/// [`RepairError`].
pub fn discard(socket: BorrowedFd<'_>) -> Result<(), RepairError> {
    require_frozen(socket)?;
    disconnect(socket).map_err(|error| Step::End.failed(&error))
}

/// Ends an established connection without a word to the client, without reading its state; its descriptors are to be
/// closed. What comes in for it is to be held before.
///
/// # Errors
/// [`RepairError`]: it is not established, or stands still as another move has it; nothing was done then.
pub fn abandon(socket: BorrowedFd<'_>) -> Result<(), RepairError> {
    check_established(socket)?;
    if is_frozen(socket)? {
        return Err(RepairError::AlreadyFrozen);
    }
    set(socket, IPPROTO_TCP, libc::TCP_REPAIR, REPAIR_ON).map_err(|error| Step::Repair.failed(&error))?;
    disconnect(socket).map_err(|error| Step::End.failed(&error))
}

/// Makes a socket with the state of a connection. It stands still until [`activate`].
///
/// `sent` holds the bytes from the first unacknowledged one to `send_next`, `mark` is the socket's mark (`SO_MARK`,
/// 0 for none), by which a route with a larger first window can be chosen.
///
/// # Errors
/// [`RepairError`]; nothing is left then, and nothing was sent.
pub fn restore(tcp: &TcpState, unread: &[u8], sent: &[u8], mark: u32) -> Result<Restored, RepairError> {
    check_length(tcp.unread_bytes, unread)?;
    check_length(tcp.unacknowledged_bytes, sent)?;
    let in_flight = tcp.unacknowledged_bytes.checked_sub(tcp.unsent_bytes);
    let in_flight =
        in_flight.ok_or(RepairError::Length { expected: tcp.unsent_bytes, got: tcp.unacknowledged_bytes })?;
    let (flying, unsent) = sent.split_at(in_flight as usize);
    let socket = open(tcp, mark)?;
    set_options(socket.as_fd(), tcp).map_err(|error| Step::Set.failed(&error))?;
    fill_received(socket.as_fd(), unread).map_err(|error| Step::FillReceived.failed(&error))?;
    fill_sent(socket.as_fd(), flying, unsent.len()).map_err(|error| Step::FillSent.failed(&error))?;
    let window = set(socket.as_fd(), IPPROTO_TCP, TCP_REPAIR_WINDOW, tcp.window);
    window.map_err(|error| Step::Set.failed(&error))?;
    Ok(Restored { socket, unsent: unsent.to_vec() })
}

/// Has a restored connection go on, and writes what was not sent yet. `release` is that of [`thaw`].
///
/// # Errors
/// [`RepairError`]: the connection cannot go on and is to be closed.
pub fn activate(
    socket: BorrowedFd<'_>,
    unsent: &[u8],
    release: impl FnOnce() -> Option<Heard>,
) -> Result<(), RepairError> {
    require_frozen(socket)?;
    take_in(socket, release)?;
    leave(socket, REPAIR_OFF)?;
    let written = fill(socket, unsent);
    // Else a program that fills its buffer would have a larger one after each move. The kernel doubles what is given.
    let _ = set(socket, SOL_SOCKET, libc::SO_SNDBUF, SEND_BUFFER_BYTES / 2);
    // Else the buffers would never grow again. Before Linux 5.14 they stay so.
    let _ = set(socket, SOL_SOCKET, SO_BUF_LOCK, 0);
    written.map_err(|error| Step::WriteUnsent.failed(&error))
}

/// Refuses a connection that is opening, closing or closed.
///
/// # Errors
/// [`RepairError::State`]; [`RepairError::System`] for what is no TCP socket.
pub fn check_established(socket: BorrowedFd<'_>) -> Result<(), RepairError> {
    let info: [u8; 8] = get(socket, libc::TCP_INFO).map_err(|error| Step::Read.failed(&error))?;
    if info[0] == ESTABLISHED { Ok(()) } else { Err(RepairError::State(info[0])) }
}

fn is_frozen(socket: BorrowedFd<'_>) -> Result<bool, RepairError> {
    get::<i32>(socket, libc::TCP_REPAIR).map(|on| on != 0).map_err(|error| Step::Read.failed(&error))
}

/// Refuses a connection that does not stand still.
///
/// # Errors
/// [`RepairError::NotFrozen`]; [`RepairError::System`] for what is no TCP socket.
pub fn require_frozen(socket: BorrowedFd<'_>) -> Result<(), RepairError> {
    if is_frozen(socket)? { Ok(()) } else { Err(RepairError::NotFrozen) }
}

fn check_length(expected: u32, bytes: &[u8]) -> Result<(), RepairError> {
    let got = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    if got == expected { Ok(()) } else { Err(RepairError::Length { expected, got }) }
}

/// Reads until the state is settled. `send_window` is the last one that was closed.
fn read(socket: BorrowedFd<'_>, send_window: &mut u32) -> Result<Frozen, RepairError> {
    for _ in 0..READS_MAX {
        check_established(socket)?;
        if let Some(frozen) = read_once(socket, send_window).map_err(|error| Step::Read.failed(&error))? {
            return Ok(frozen);
        }
    }
    Err(RepairError::Unsettled)
}

/// One reading, or nothing if the state changed meanwhile.
fn read_once(socket: BorrowedFd<'_>, send_window: &mut u32) -> io::Result<Option<Frozen>> {
    let unread_bytes = queue_bytes(socket, UNREAD_BYTES)?;
    let info: [u8; 8] = get(socket, libc::TCP_INFO)?;
    let window = close_window(socket, send_window)?;
    let mss = get(socket, libc::TCP_MAXSEG)?;
    set(socket, IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, RECEIVE_QUEUE)?;
    let receive_next = get(socket, libc::TCP_QUEUE_SEQ)?;
    let unread = peek(socket, unread_bytes as usize)?;
    // Before the other queue is chosen: see the head of this file.
    let unsent_bytes = queue_bytes(socket, UNSENT_BYTES)?;
    let unacknowledged_bytes = queue_bytes(socket, UNACKNOWLEDGED_BYTES)?;
    let send_next = written(socket)?;
    let again: [u32; 5] = get(socket, TCP_REPAIR_WINDOW)?;
    let is_settled = unread.len() == unread_bytes as usize
        && unread_bytes == queue_bytes(socket, UNREAD_BYTES)?
        && unacknowledged_bytes == queue_bytes(socket, UNACKNOWLEDGED_BYTES)?
        && unsent_bytes <= unacknowledged_bytes
        && window == again;
    if !is_settled {
        return Ok(None);
    }
    let (local, peer) = ends(socket)?;
    let tcp = TcpState {
        local: flow::canonical(local),
        peer: flow::canonical(peer),
        options: info[5],
        // `struct tcp_info` has both in one byte.
        send_scale: info[6] & 15,
        receive_scale: info[6] >> 4,
        mss,
        receive_next,
        unread_bytes,
        send_next,
        unacknowledged_bytes,
        unsent_bytes,
        window: with_send_window(window, *send_window),
        timestamp: get(socket, libc::TCP_TIMESTAMP)?,
    };
    Ok(Some(Frozen { tcp, unread }))
}

/// The sequence number behind the last byte written. Only while the queue of sending is chosen does the kernel tell it.
fn written(socket: BorrowedFd<'_>) -> io::Result<u32> {
    set(socket, IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, SEND_QUEUE)?;
    let number = get(socket, libc::TCP_QUEUE_SEQ);
    set(socket, IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, NO_QUEUE)?;
    number
}

/// Closes the send window, so that no timer sends what is unsent; the window as it stands then.
fn close_window(socket: BorrowedFd<'_>, send_window: &mut u32) -> io::Result<[u32; 5]> {
    let window: [u32; 5] = get(socket, TCP_REPAIR_WINDOW)?;
    // One that is closed was closed here, or by the client, whose later word comes by the director.
    if window[SEND_WINDOW] == 0 {
        return Ok(window);
    }
    *send_window = window[SEND_WINDOW];
    let closed = with_send_window(window, 0);
    set(socket, IPPROTO_TCP, TCP_REPAIR_WINDOW, closed)?;
    Ok(closed)
}

/// Opens the window that [`close_window`] closed, unless the client has opened it since.
fn open_window(socket: BorrowedFd<'_>, send_window: u32) -> io::Result<()> {
    let window: [u32; 5] = get(socket, TCP_REPAIR_WINDOW)?;
    if window[SEND_WINDOW] != 0 || send_window == 0 {
        return Ok(());
    }
    set(socket, IPPROTO_TCP, TCP_REPAIR_WINDOW, with_send_window(window, send_window))
}

fn with_send_window([update, _, largest, ours, ours_from]: [u32; 5], send_window: u32) -> [u32; 5] {
    [update, send_window, largest, ours, ours_from]
}

/// Sends what the window allows. The kernel does that where `TCP_CORK` is taken away, also if it was not set; with it the
/// program does not want it yet.
fn push(socket: BorrowedFd<'_>) -> io::Result<()> {
    match get::<i32>(socket, libc::TCP_CORK)? {
        0 => set(socket, IPPROTO_TCP, libc::TCP_CORK, 0),
        _ => Ok(()),
    }
}

/// Ends a hold and takes in what the client said meanwhile, unless the socket has heard more of it since.
///
/// Without it a window that was opened meanwhile would stay unknown for a second: the client answers the window probe of
/// a connection that goes on at most each 500 ms, and may have answered another one just before.
fn take_in(socket: BorrowedFd<'_>, release: impl FnOnce() -> Option<Heard>) -> Result<(), RepairError> {
    let failed = |error: io::Error| Step::Set.failed(&error);
    let before: [u32; 5] = get(socket, TCP_REPAIR_WINDOW).map_err(failed)?;
    let info: [u8; 8] = get(socket, libc::TCP_INFO).map_err(failed)?;
    let unacknowledged = queue_bytes(socket, UNACKNOWLEDGED_BYTES).map_err(failed)?;
    let first = written(socket).map_err(failed)?.wrapping_sub(unacknowledged);
    let Some(heard) = release() else { return Ok(()) };
    let Some(window) = window_with(before, heard, first, unacknowledged, info[6] & 15) else { return Ok(()) };
    let now: [u32; 5] = get(socket, TCP_REPAIR_WINDOW).map_err(failed)?;
    if now == before { set(socket, IPPROTO_TCP, TCP_REPAIR_WINDOW, window).map_err(failed) } else { Ok(()) }
}

/// The window that ends where the client said, seen from the first byte that the socket takes for unacknowledged. Nothing
/// for what is older, or acknowledges bytes that were never written.
fn window_with(window: [u32; 5], heard: Heard, first: u32, unacknowledged: u32, scale: u8) -> Option<[u32; 5]> {
    let advance = heard.ack.wrapping_sub(first);
    if advance > unacknowledged {
        return None;
    }
    let [update, _, largest, ours, ours_from] = window;
    let bytes = advance.saturating_add(heard.window << scale.min(14));
    Some([update, bytes, largest.max(bytes), ours, ours_from])
}

/// Leaves repair mode. Doing so takes `SO_REUSEADDR` away, without which a listener could not start again beside it.
fn leave(socket: BorrowedFd<'_>, how: i32) -> Result<(), RepairError> {
    let left = set(socket, IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, NO_QUEUE)
        .and_then(|()| set(socket, IPPROTO_TCP, libc::TCP_REPAIR, how))
        .and_then(|()| set(socket, SOL_SOCKET, libc::SO_REUSEADDR, 1));
    left.map_err(|error| Step::Repair.failed(&error))
}

/// A socket in repair mode with the connection's addresses and sequence numbers.
fn open(tcp: &TcpState, mark: u32) -> Result<OwnedFd, RepairError> {
    if tcp.local.is_ipv4() != tcp.peer.is_ipv4() {
        return Err(RepairError::Families(tcp.local, tcp.peer));
    }
    let failed = |error: io::Error| Step::Open.failed(&error);
    let socket = Socket::new(Domain::for_address(tcp.local), Type::STREAM, None).map_err(failed)?;
    let fd = socket.as_fd();
    if mark != 0 {
        set(fd, SOL_SOCKET, libc::SO_MARK, mark).map_err(failed)?;
    }
    // It also allows the address beside the listener's.
    set(fd, IPPROTO_TCP, libc::TCP_REPAIR, REPAIR_ON).map_err(|error| Step::Repair.failed(&error))?;
    socket.bind(&SockAddr::from(tcp.local)).map_err(failed)?;
    let received = tcp.receive_next.wrapping_sub(tcp.unread_bytes);
    for (queue, number) in [(RECEIVE_QUEUE, received), (SEND_QUEUE, tcp.first_unacknowledged())] {
        let numbered = set(fd, IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, queue)
            .and_then(|()| set(fd, IPPROTO_TCP, libc::TCP_QUEUE_SEQ, number));
        numbered.map_err(|error| Step::Set.failed(&error))?;
    }
    set(fd, IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, NO_QUEUE).map_err(failed)?;
    // The kernel calculates the size of its segments here, and not again when the options are set: without this they
    // would be of 524 bytes (IPv4). It takes no larger ones than 32,767, which only the loopback interface has.
    let _ = set(fd, IPPROTO_TCP, libc::TCP_MAXSEG, tcp.mss);
    // In repair mode nothing is sent: the socket is established at once.
    socket.connect(&SockAddr::from(tcp.peer)).map_err(failed)?;
    Ok(socket.into())
}

/// What the handshake agreed on, and the clock of timestamps, without which the client would refuse all segments as old.
fn set_options(socket: BorrowedFd<'_>, tcp: &TcpState) -> io::Result<()> {
    let mut options = Vec::with_capacity(8);
    if tcp.options & OPTION_SACK != 0 {
        options.extend([OPTION_SACK_PERMITTED, 0]);
    }
    if tcp.options & OPTION_SCALE != 0 {
        options.extend([OPTION_WINDOW_SCALE, u32::from(tcp.send_scale) | u32::from(tcp.receive_scale) << 16]);
    }
    if tcp.options & OPTION_TIMESTAMPS != 0 {
        options.extend([OPTION_TIMESTAMP, 0]);
    }
    options.extend([OPTION_MSS, tcp.mss]);
    set_all(socket, IPPROTO_TCP, libc::TCP_REPAIR_OPTIONS, &options)?;
    if tcp.options & OPTION_TIMESTAMPS != 0 {
        set(socket, IPPROTO_TCP, libc::TCP_TIMESTAMP, tcp.timestamp)?;
    }
    Ok(())
}

fn fill_received(socket: BorrowedFd<'_>, unread: &[u8]) -> io::Result<()> {
    if unread.is_empty() {
        return Ok(());
    }
    enlarge(socket, libc::SO_RCVBUFFORCE, unread.len())?;
    fill_queue(socket, RECEIVE_QUEUE, unread)
}

/// Makes room also for what is unsent, which is written later.
fn fill_sent(socket: BorrowedFd<'_>, flying: &[u8], unsent_bytes: usize) -> io::Result<()> {
    enlarge(socket, libc::SO_SNDBUFFORCE, flying.len() + unsent_bytes)?;
    if flying.is_empty() {
        return Ok(());
    }
    fill_queue(socket, SEND_QUEUE, flying)
}

/// Makes a socket's buffer larger than is allowed otherwise. The kernel doubles what is given; pieces as large as ours
/// need a hundredth more than their bytes.
fn enlarge(socket: BorrowedFd<'_>, option: i32, bytes: usize) -> io::Result<()> {
    if bytes <= BUFFER_BYTES {
        return Ok(());
    }
    set(socket, SOL_SOCKET, option, i32::try_from(bytes / 2 + bytes / 16 + BUFFER_BYTES).unwrap_or(i32::MAX / 2))
}

fn fill_queue(socket: BorrowedFd<'_>, queue: i32, bytes: &[u8]) -> io::Result<()> {
    set(socket, IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, queue)?;
    fill(socket, bytes)?;
    set(socket, IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, NO_QUEUE)
}

/// Appends all bytes, in smaller pieces where the kernel has no memory for large ones.
fn fill(socket: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    let mut piece = PIECE_BYTES;
    while !bytes.is_empty() {
        match append(socket, &bytes[..piece.min(bytes.len())]) {
            Ok(put) => bytes = &bytes[put..],
            Err(error) if piece <= PIECE_BYTES_MIN => return Err(error),
            Err(_) => piece /= 2,
        }
    }
    Ok(())
}

/// As linux/tcp.h numbers them.
fn state_name(state: u8) -> &'static str {
    const NAMES: [&str; 13] = [
        "unknown",
        "ESTABLISHED",
        "SYN_SENT",
        "SYN_RECV",
        "FIN_WAIT1",
        "FIN_WAIT2",
        "TIME_WAIT",
        "CLOSE",
        "CLOSE_WAIT",
        "LAST_ACK",
        "LISTEN",
        "CLOSING",
        "NEW_SYN_RECV",
    ];
    NAMES.get(usize::from(state)).copied().unwrap_or("unknown")
}

fn remedy(errno: i32) -> &'static str {
    match errno {
        libc::EPERM => "give the keeper CAP_NET_ADMIN in the network namespace of the socket",
        libc::EACCES => "give the keeper CAP_NET_BIND_SERVICE, or lower net.ipv4.ip_unprivileged_port_start",
        libc::EADDRNOTAVAIL => "add the service's address to this node's loopback interface",
        libc::EADDRINUSE => "a connection with these ends exists on this node; discard it first",
        libc::ENETUNREACH | libc::EHOSTUNREACH => "add a route to the client on this node",
        libc::ENOPROTOOPT => "use a kernel with CONFIG_CHECKPOINT_RESTORE, and a TCP socket",
        libc::ENOTSOCK | libc::EOPNOTSUPP => "pass a TCP socket",
        libc::EAGAIN | libc::ENOMEM => "raise net.ipv4.tcp_mem, or move fewer connections at once",
        _ => "the connection cannot be moved",
    }
}

impl RepairError {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::State(state) => out.extend([1, *state]),
            Self::AlreadyFrozen => out.push(2),
            Self::NotFrozen => out.push(3),
            Self::Unsettled => out.push(4),
            Self::Length { expected, got } => {
                out.push(5);
                put_u32(*expected, out);
                put_u32(*got, out);
            }
            Self::Families(local, peer) => {
                out.push(6);
                crate::encoding::put_address(*local, out);
                crate::encoding::put_address(*peer, out);
            }
            Self::System { step, errno } => {
                out.extend([7, *step as u8]);
                put_u32(errno.cast_unsigned(), out);
            }
        }
    }

    pub(crate) fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        use crate::encoding::take_address;
        Ok(match take_u8(bytes)? {
            1 => Self::State(take_u8(bytes)?),
            2 => Self::AlreadyFrozen,
            3 => Self::NotFrozen,
            4 => Self::Unsettled,
            5 => Self::Length { expected: take_u32(bytes)?, got: take_u32(bytes)? },
            6 => Self::Families(take_address(bytes)?, take_address(bytes)?),
            7 => {
                let number = take_u8(bytes)?;
                let step = Step::ALL.into_iter().find(|step| *step as u8 == number);
                let step = step.ok_or(DecodeError::Unknown("step"))?;
                Self::System { step, errno: take_u32(bytes)?.cast_signed() }
            }
            _ => return Err(DecodeError::Unknown("error of a repair")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_heard_meanwhile_ends_where_the_client_said() {
        let before = [7, 0, 60_000, 65_535, 9];
        let heard = |ack, window| Heard { ack, window };
        assert_eq!(window_with(before, heard(1000, 10), 1000, 0, 3), Some([7, 80, 60_000, 65_535, 9]));
        // The kernel learns of 500 bytes only later that they are acknowledged.
        assert_eq!(window_with(before, heard(100, 10_000), 100u32.wrapping_sub(500), 600, 3), {
            Some([7, 80_500, 80_500, 65_535, 9])
        });
        assert_eq!(window_with(before, heard(999, 10), 1000, 0, 3), None);
        assert_eq!(window_with(before, heard(1001, 10), 1000, 0, 3), None);
    }
}
