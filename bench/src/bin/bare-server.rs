//! The least that can serve HTTP: one thread, epoll, bytes from memory. What a load generator costs is measured against
//! it, as no server that does anything is faster.
//!
//! Each read is taken as one request, which is true of generators that do not pipeline, and answered with the same bytes.

use anyhow::Context;
use clap::Parser;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};

#[derive(Debug, Parser)]
struct Arguments {
    /// Where it listens
    listen: SocketAddr,
    /// Bytes of the body
    #[arg(long, default_value_t = 0)]
    body: usize,
}

/// What could not be written at once.
#[derive(Debug, Default, Clone, Copy)]
struct Owed {
    from: usize,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nServer: bare\r\nConnection: keep-alive\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
        arguments.body
    )
    .into_bytes();
    answer.resize(answer.len() + arguments.body, b'x');
    let listener =
        TcpListener::bind(arguments.listen).with_context(|| format!("cannot listen on {}", arguments.listen))?;
    listener.set_nonblocking(true)?;
    // SAFETY: the call takes no pointer.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    anyhow::ensure!(epoll >= 0, "epoll_create1: {}", std::io::Error::last_os_error());
    watch(epoll, listener.as_raw_fd())?;
    let mut owed: Vec<Option<Owed>> = Vec::new();
    let mut buffer = [0u8; 4096];
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 512];
    loop {
        // SAFETY: the events outlive the call, and their number is given.
        let count = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), events.len() as i32, -1) };
        for event in events.iter().take(usize::try_from(count).unwrap_or(0)) {
            let fd = event.u64 as RawFd;
            if fd == listener.as_raw_fd() {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let fd = stream.into_raw_fd();
                    owed.resize(owed.len().max(fd as usize + 1), None);
                    owed[fd as usize] = None;
                    watch(epoll, fd)?;
                }
                continue;
            }
            if let Some(rest) = owed[fd as usize].take() {
                owed[fd as usize] = give(fd, &answer, rest.from);
                if owed[fd as usize].is_some() {
                    continue;
                }
            }
            loop {
                // SAFETY: the buffer outlives the call, and its length is given.
                let read = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
                if read > 0 {
                    owed[fd as usize] = give(fd, &answer, 0);
                    if read as usize == buffer.len() && owed[fd as usize].is_none() {
                        continue;
                    }
                } else if read == 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::WouldBlock {
                    // SAFETY: the descriptor is ours, and not used after this.
                    unsafe { libc::close(fd) };
                }
                break;
            }
        }
    }
}

/// Writes the answer from a position on; what is left, if anything is.
fn give(fd: RawFd, answer: &[u8], mut from: usize) -> Option<Owed> {
    while from < answer.len() {
        let rest = &answer[from..];
        // SAFETY: the bytes outlive the call, and their number is given.
        let written = unsafe { libc::send(fd, rest.as_ptr().cast(), rest.len(), libc::MSG_NOSIGNAL) };
        match usize::try_from(written) {
            Ok(written) => from += written,
            // Gone: the next read tells.
            Err(_) if std::io::Error::last_os_error().kind() != std::io::ErrorKind::WouldBlock => return None,
            Err(_) => return Some(Owed { from }),
        }
    }
    None
}

fn watch(epoll: RawFd, fd: RawFd) -> anyhow::Result<()> {
    let flags = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
    let mut event = libc::epoll_event { events: flags, u64: fd as u64 };
    // SAFETY: the event outlives the call.
    let done = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    anyhow::ensure!(done == 0, "epoll_ctl: {}", std::io::Error::last_os_error());
    Ok(())
}
