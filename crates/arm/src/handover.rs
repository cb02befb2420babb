//! The memory file goes to the agent by itself, where one is there when a process announces itself.
//!
//! The agent finds an announcement a moment after it was made. By then a program's first transactions are over, and a
//! short program is: its memory would be gone with it. So a process sends the file to the agent's socket, once and
//! without waiting. If the socket takes it, the process assumes that the agent listens, and records; the agent reads
//! the memory even if the process has ended. A socket that another user has put there is believed as well: all that its
//! owner gets is the memory of a process that chose that directory, which holds what the process tells of its
//! transactions.

use std::mem::{size_of, zeroed};
use weir_wire::arm::HANDOVER_NAME;

/// Room for one descriptor with its head, aligned as the kernel wants it.
#[repr(align(8))]
struct Control([u8; 24]);

/// Sends a memory file to the agent of a directory; whether one is there. Never waits.
///
/// Where more processes wait for the agent than its socket holds (4,096, or net.core.somaxconn), it finds the
/// announcement.
pub(crate) fn hand_over(folder: &[u8], descriptor: i32) -> bool {
    // SAFETY: plain numbers, for which zeros are valid.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    let name = [b"/", HANDOVER_NAME.as_bytes()];
    // The last byte stays NUL.
    if folder.len() + 1 + HANDOVER_NAME.len() >= address.sun_path.len() {
        return false;
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (place, byte) in address.sun_path.iter_mut().zip(folder.iter().chain(name.into_iter().flatten())) {
        *place = *byte as libc::c_char;
    }
    let mut payload = descriptor.to_ne_bytes();
    let mut piece = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
    let mut control = Control([0; 24]);
    // SAFETY: plain numbers and pointers, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: the control message's room is CMSG_SPACE of a descriptor, 24 bytes on 64-bit machines, and all that the
    // message points to lives until the call is over. The descriptor that is closed is this function's own.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as _;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        if head.is_null() {
            return false;
        }
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
        libc::CMSG_DATA(head).cast::<i32>().write_unaligned(descriptor);
        let socket = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0);
        if socket < 0 {
            return false;
        }
        let size = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        let is_there = if libc::connect(socket, (&raw const address).cast(), size) == 0 {
            // What was sent stays for the agent, also when this end is closed and the process is gone.
            libc::sendmsg(socket, &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
            true
        } else {
            *libc::__errno_location() == libc::EAGAIN
        };
        libc::close(socket);
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::UnixListener;

    #[test]
    fn an_agent_is_there_while_its_socket_is_open() {
        let folder = std::env::temp_dir().join(format!("weir-handover-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a new directory");
        let file = std::fs::File::open("/dev/null").expect("it is everywhere");
        let hand_over = |folder: &[u8]| hand_over(folder, file.as_raw_fd());
        let bytes = folder.as_os_str().as_bytes();
        assert!(!hand_over(bytes));
        let agent = UnixListener::bind(folder.join(HANDOVER_NAME)).expect("a socket");
        assert!(hand_over(bytes));
        let mut told = Vec::new();
        agent.accept().expect("it came").0.read_to_end(&mut told).expect("it is whole");
        assert_eq!(told, file.as_raw_fd().to_ne_bytes());
        // More than the socket holds: the call does not block.
        assert!((0..5000).all(|_| hand_over(bytes)));
        // As after `kill -9`: its name is still there.
        drop(agent);
        assert!(!hand_over(bytes));
        assert!(!hand_over(&[b'x'; 200]), "a name that is too long");
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}
