//! Messages over a Unix socket of packets (`SOCK_SEQPACKET`, unix(7)), with a descriptor along where there is one.
//!
//! A packet must fit in the socket's buffer, so a long message goes in several: the first byte of each says whether more
//! follow.

use crate::protocol::MESSAGE_BYTES_MAX;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Of the message, in one packet. A socket's buffer holds 208 KiB by default (`net.core.wmem_default`).
const PIECE_BYTES: usize = 60 << 10;
const MORE: u8 = 1;
const LAST: u8 = 0;

/// Room for control messages, aligned as they must be.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// A message that came, and the descriptor that came along.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptor: Option<OwnedFd>,
}

/// Sends a message, and a descriptor with it.
///
/// # Errors
/// Those of sendmsg(2); `InvalidInput` for a message that is too long, of which nothing was sent.
pub(crate) fn send(socket: BorrowedFd<'_>, message: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut descriptor = descriptor;
    let mut pieces = message.chunks(PIECE_BYTES).peekable();
    while let Some(piece) = pieces.next() {
        let head = if pieces.peek().is_some() { MORE } else { LAST };
        send_packet(socket, head, piece, descriptor.take())?;
    }
    Ok(())
}

/// The next message; nothing if the other end has closed the socket.
///
/// # Errors
/// Those of recvmsg(2); `InvalidData` for what is no message. The socket is of no use then.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<Message>> {
    let mut message = Message { bytes: Vec::new(), descriptor: None };
    let mut piece = vec![0; PIECE_BYTES + 1];
    loop {
        let (length, descriptor) = receive_packet(socket, &mut piece)?;
        let Some((head, bytes)) = piece[..length].split_first() else {
            // An empty packet is never sent.
            return if message.bytes.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        };
        if message.bytes.len() + bytes.len() > MESSAGE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        message.bytes.extend_from_slice(bytes);
        message.descriptor = message.descriptor.or(descriptor);
        match *head {
            LAST => return Ok(Some(message)),
            MORE => {}
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn send_packet(socket: BorrowedFd<'_>, head: u8, piece: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut parts = [
        libc::iovec { iov_base: (&raw const head).cast_mut().cast(), iov_len: 1 },
        libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() },
    ];
    let mut control = Control([0; 64]);
    // SAFETY: plain numbers and pointers, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len();
    if let Some(descriptor) = descriptor {
        let bytes = size_of::<RawFd>() as u32;
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: the room is larger than CMSG_SPACE of a descriptor, so the first head and its data lie within it.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(bytes) as _;
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(bytes) as _;
            libc::CMSG_DATA(head).cast::<RawFd>().write_unaligned(descriptor.as_raw_fd());
        }
    }
    loop {
        // SAFETY: the kernel reads what the message points to, which lives until the call is over.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A packet's length, and the one descriptor that came along.
fn receive_packet(socket: BorrowedFd<'_>, piece: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut part = libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() };
    let mut control = Control([0; 64]);
    // SAFETY: plain numbers and pointers, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    let length = loop {
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len();
        // SAFETY: all that the message points to is ours and lives until the call is over.
        let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        if let Ok(length) = usize::try_from(length) {
            break length;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    };
    let mut descriptors = descriptors(&message);
    let is_cut = message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    if is_cut || descriptors.len() > 1 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok((length, descriptors.pop()))
}

/// All that came along, so that none stays open.
fn descriptors(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut descriptors = Vec::new();
    // SAFETY: the kernel has laid out whole control messages within the length that it told; each descriptor is new and
    // owned only here.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(message);
        while !head.is_null() {
            if ((*head).cmsg_level, (*head).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let bytes = (*head).cmsg_len - libc::CMSG_LEN(0) as usize;
                for number in 0..bytes / size_of::<RawFd>() {
                    let place = libc::CMSG_DATA(head).cast::<RawFd>().add(number);
                    descriptors.push(OwnedFd::from_raw_fd(place.read_unaligned()));
                }
            }
            head = libc::CMSG_NXTHDR(message, head);
        }
    }
    descriptors
}
