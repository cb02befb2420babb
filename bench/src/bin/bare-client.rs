//! The least that can load a server truthfully: one thread, epoll, a request sent and an answer received, the clock read
//! and a histogram counted up for each. What `weir load` does beyond it, it does at a cost that is measured against this.
//!
//! An answer is whole when it has so many bytes as the first one.

use anyhow::Context;
use clap::Parser;
use hdrhistogram::Histogram;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bare\r\n\r\n";

#[derive(Debug, Parser)]
struct Arguments {
    /// The server
    server: SocketAddr,
    /// Connections
    #[arg(short, long, default_value_t = 10)]
    connections: usize,
    /// Seconds
    #[arg(short, long, default_value_t = 1.0)]
    seconds: f64,
}

struct Connection {
    stream: TcpStream,
    sent_ns: u64,
    received: usize,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // SAFETY: the call takes no pointer.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    anyhow::ensure!(epoll >= 0, "epoll_create1: {}", std::io::Error::last_os_error());
    let mut connections = Vec::new();
    let mut whole = 0;
    for index in 0..arguments.connections {
        let mut stream =
            TcpStream::connect(arguments.server).with_context(|| format!("cannot reach {}", arguments.server))?;
        stream.set_nodelay(true)?;
        if index == 0 {
            whole = length_of_answer(&mut stream)?;
        }
        stream.set_nonblocking(true)?;
        watch(epoll, stream.as_raw_fd(), index)?;
        connections.push(Connection { stream, sent_ns: 0, received: 0 });
    }
    let mut latency = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3)?;
    let mut buffer = vec![0u8; 128 << 10];
    let begin_ns = clock_ns();
    let end_ns = begin_ns + Duration::from_secs_f64(arguments.seconds).as_nanos() as u64;
    for connection in &mut connections {
        connection.sent_ns = clock_ns();
        send(connection.stream.as_raw_fd())?;
    }
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
    let mut now_ns = begin_ns;
    while now_ns < end_ns {
        // SAFETY: the events outlive the call, and their number is given.
        let count = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), events.len() as i32, 1000) };
        for event in events.iter().take(usize::try_from(count).unwrap_or(0)) {
            let connection = &mut connections[event.u64 as usize];
            let fd = connection.stream.as_raw_fd();
            // SAFETY: the buffer outlives the call, and its length is given.
            let read = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            now_ns = clock_ns();
            anyhow::ensure!(read != 0, "the server closed a connection");
            connection.received += usize::try_from(read).unwrap_or(0);
            if connection.received >= whole {
                latency.saturating_record(now_ns - connection.sent_ns);
                (connection.received, connection.sent_ns) = (0, now_ns);
                send(fd)?;
            }
        }
        if count <= 0 {
            now_ns = clock_ns();
        }
    }
    let seconds = (now_ns - begin_ns) as f64 / 1e9;
    println!(
        "{{\"requests\": {}, \"errors\": {{}}, \"duration_s\": {seconds}, \"p50_ns\": {}, \"p99_ns\": {}}}",
        latency.len(),
        latency.value_at_quantile(0.5),
        latency.value_at_quantile(0.99)
    );
    Ok(())
}

/// The bytes of an answer, head and body.
fn length_of_answer(stream: &mut TcpStream) -> anyhow::Result<usize> {
    stream.write_all(REQUEST)?;
    stream.set_read_timeout(Some(Duration::from_millis(300)))?;
    let (mut length, mut buffer) = (0, [0u8; 64 << 10]);
    // Until nothing comes for a while: the server keeps the connection.
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        length += count;
    }
    anyhow::ensure!(length > 0, "the server does not answer");
    Ok(length)
}

fn send(fd: RawFd) -> anyhow::Result<()> {
    // SAFETY: the bytes outlive the call, and their number is given.
    let sent = unsafe { libc::send(fd, REQUEST.as_ptr().cast(), REQUEST.len(), libc::MSG_NOSIGNAL) };
    anyhow::ensure!(sent == REQUEST.len() as isize, "send: {}", std::io::Error::last_os_error());
    Ok(())
}

fn watch(epoll: RawFd, fd: RawFd, index: usize) -> anyhow::Result<()> {
    let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: index as u64 };
    // SAFETY: the event outlives the call.
    let done = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    anyhow::ensure!(done == 0, "epoll_ctl: {}", std::io::Error::last_os_error());
    Ok(())
}

fn clock_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place for the result is valid; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
