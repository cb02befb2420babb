//! Memory files that clients send: of those that announce themselves while the agent is there.
//!
//! The sender has opened the file itself, so the agent opens nothing with its own rights. The kernel names the sender.

use crate::accept::accepted;
use crate::directory::{Announcement, Directory};
use std::collections::VecDeque;
use std::fs::{self, File, Permissions};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use weir_wire::arm::HANDOVER_NAME;

/// A file that was sent.
#[derive(Debug)]
pub(crate) struct Handed {
    /// The file, which may be anything.
    pub(crate) file: File,
    /// The sending process, and the number of its descriptor, as it says.
    pub(crate) announcement: Announcement,
    /// The sender's effective user.
    pub(crate) uid: u32,
}

/// Senders whose memory has not come yet; of more, the oldest are let go, and found by their announcements.
const MOST_PENDING: usize = 1024;
/// How long a sender may take from its connection to its message, which it sends at once.
const MOST_PENDING_NS: u64 = 2_000_000_000;
/// Senders that the kernel holds until they are looked at, or as many as net.core.somaxconn allows.
const BACKLOG: i32 = 4096;

/// Room for descriptors, aligned as the kernel wants it.
#[repr(align(8))]
struct Control([u8; 64]);

/// The socket that takes memory files.
#[derive(Debug)]
pub(crate) struct Handover {
    listener: UnixListener,
    /// With the times at which they came.
    pending: VecDeque<(UnixStream, u64)>,
}

impl Handover {
    /// Listens in the ARM directory; all users may send theirs.
    pub(crate) fn listen(directory: &Directory) -> io::Result<Self> {
        let path = directory.entry(HANDOVER_NAME);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o666))?;
        listener.set_nonblocking(true)?;
        // SAFETY: the descriptor is open; a second call only changes the length of the queue.
        unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) };
        Ok(Self { listener, pending: VecDeque::new() })
    }

    /// Readable when a client connects.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Whether an accepted client has yet to send its file.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Takes what has come, from at most `most` senders.
    pub(crate) fn take(&mut self, most: usize, now_ns: u64) -> Vec<Handed> {
        for _ in 0..most {
            let Some(stream) = accepted(&self.listener) else { break };
            if self.pending.len() >= MOST_PENDING {
                self.pending.pop_front();
            }
            self.pending.push_back((stream, now_ns));
        }
        let mut taken = Vec::new();
        self.pending.retain(|(stream, came_ns)| match receive(stream) {
            Received::Handed(handed) => {
                taken.push(handed);
                false
            }
            Received::Other => false,
            Received::Nothing => now_ns.saturating_sub(*came_ns) < MOST_PENDING_NS,
        });
        taken
    }
}

/// What came of a look at a sender.
enum Received {
    /// A file.
    Handed(Handed),
    /// Something else, which was thrown away.
    Other,
    /// Nothing has come yet.
    Nothing,
}

/// Takes the message of a sender, if it is there.
fn receive(socket: &UnixStream) -> Received {
    let mut payload = [0u8; 4];
    let mut piece = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
    let mut control = Control([0; 64]);
    // SAFETY: plain numbers and pointers, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: all that the message points to is ours and lives until the call is over.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    if length < 0 {
        let again = io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock;
        return if again { Received::Nothing } else { Received::Other };
    }
    let mut files: Vec<OwnedFd> = Vec::new();
    // SAFETY: the kernel has laid out whole control messages within the length that it told; each descriptor is new and
    // owned only here. All are taken, so that none stays open.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(&raw const message);
        while !head.is_null() {
            if ((*head).cmsg_level, (*head).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let bytes = (*head).cmsg_len - libc::CMSG_LEN(0) as usize;
                for number in 0..bytes / size_of::<i32>() {
                    let place = libc::CMSG_DATA(head).cast::<i32>().add(number);
                    files.push(OwnedFd::from_raw_fd(place.read_unaligned()));
                }
            }
            head = libc::CMSG_NXTHDR(&raw const message, head);
        }
    }
    let (file, more) = (files.pop(), files.len());
    let descriptor = u32::try_from(i32::from_ne_bytes(payload));
    match (file, peer(socket), descriptor) {
        // A process of a namespace that we do not see has number 0.
        (Some(file), Some(peer), Ok(descriptor)) if more == 0 && peer.pid > 0 && length == payload.len() as isize => {
            let announcement = Announcement { pid: peer.pid as u32, descriptor };
            Received::Handed(Handed { file: file.into(), announcement, uid: peer.uid })
        }
        _ => Received::Other,
    }
}

/// The process at the other end, as the kernel noted it at the connect.
fn peer(socket: &UnixStream) -> Option<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the place and its length are ours.
    let told = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    (told == 0).then_some(peer)
}
