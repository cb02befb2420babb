//! The least that can load a server truthfully through io_uring: one thread, a multishot reception for each connection, its
//! bytes in buffers that the kernel chooses, requests that go out in the call which also waits, the clock read and a
//! histogram counted up for each. The counterpart of `bare-client`, which does the same through epoll.
//!
//! An answer is whole when it has so many bytes as the first one.

use anyhow::Context;
use clap::Parser;
use hdrhistogram::Histogram;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bare\r\n\r\n";
/// Buffers of the kernel's choice: how many, a power of two, and how large each.
const BUFFERS: u16 = 1024;
const BUFFER_BYTES: usize = 16 << 10;
/// What marks the completion of a transmission.
const SEND: u64 = 1 << 32;

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
    let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_cqsize(8192).build(4096);
    let mut ring = ring.context("io_uring_setup (Linux 6.1 and later have what is needed)")?;
    let mut buffers = Buffers::new(&ring)?;
    let mut connections = Vec::new();
    let mut whole = 0;
    for index in 0..arguments.connections {
        let mut stream =
            TcpStream::connect(arguments.server).with_context(|| format!("cannot reach {}", arguments.server))?;
        stream.set_nodelay(true)?;
        if index == 0 {
            whole = length_of_answer(&mut stream)?;
        }
        connections.push(Connection { stream, sent_ns: 0, received: 0 });
    }
    let mut latency = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3)?;
    let begin_ns = clock_ns();
    let end_ns = begin_ns + Duration::from_secs_f64(arguments.seconds).as_nanos() as u64;
    for (index, connection) in connections.iter_mut().enumerate() {
        connection.sent_ns = clock_ns();
        push(&mut ring, &receive(connection, index))?;
        push(&mut ring, &send(connection, index))?;
    }
    let mut completions: Vec<cqueue::Entry> = Vec::with_capacity(8192);
    let mut now_ns = begin_ns;
    while now_ns < end_ns {
        buffers.publish();
        let second = types::Timespec::new().sec(1);
        match ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&second)) {
            Ok(_) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY)) => {}
            Err(error) => return Err(error).context("io_uring_enter"),
        }
        completions.clear();
        completions.extend(ring.completion());
        if completions.is_empty() {
            now_ns = clock_ns();
        }
        for completion in &completions {
            anyhow::ensure!(completion.user_data() & SEND == 0, "a request went out in part or not at all");
            let index = completion.user_data() as usize;
            let connection = &mut connections[index];
            let came = completion.result();
            now_ns = clock_ns();
            anyhow::ensure!(came != 0, "the server closed a connection");
            anyhow::ensure!(came > 0 || came == -libc::ENOBUFS, "recv: {}", std::io::Error::from_raw_os_error(-came));
            if let Some(buffer) = cqueue::buffer_select(completion.flags()) {
                buffers.give_back(buffer);
            }
            if !cqueue::more(completion.flags()) {
                push(&mut ring, &receive(connection, index))?;
            }
            connection.received += usize::try_from(came).unwrap_or(0);
            if connection.received >= whole {
                latency.saturating_record(now_ns - connection.sent_ns);
                (connection.received, connection.sent_ns) = (0, now_ns);
                push(&mut ring, &send(connection, index))?;
            }
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
    stream.set_read_timeout(None)?;
    anyhow::ensure!(length > 0, "the server does not answer");
    Ok(length)
}

fn receive(connection: &Connection, index: usize) -> squeue::Entry {
    opcode::RecvMulti::new(types::Fd(connection.stream.as_raw_fd()), 0).build().user_data(index as u64)
}

fn send(connection: &Connection, index: usize) -> squeue::Entry {
    let fd = types::Fd(connection.stream.as_raw_fd());
    // Completed only where it fails.
    opcode::Send::new(fd, REQUEST.as_ptr(), REQUEST.len() as u32)
        .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
        .build()
        .flags(squeue::Flags::SKIP_SUCCESS)
        .user_data(index as u64 | SEND)
}

fn push(ring: &mut IoUring, entry: &squeue::Entry) -> anyhow::Result<()> {
    // SAFETY: the request's bytes live as long as the program, and receptions name no memory.
    if unsafe { ring.submission().push(entry) }.is_ok() {
        return Ok(());
    }
    ring.submit()?;
    // SAFETY: as above; the queue has room now.
    unsafe { ring.submission().push(entry) }.context("the submission queue is full")
}

/// The buffers that receptions fill (io_uring_register_buf_ring(3)): their ring, and behind it their bytes.
struct Buffers {
    memory: *mut u8,
    tail: u16,
}

impl Buffers {
    const RING_BYTES: usize = BUFFERS as usize * size_of::<types::BufRingEntry>();

    fn new(ring: &IoUring) -> anyhow::Result<Self> {
        let bytes = Self::RING_BYTES + usize::from(BUFFERS) * BUFFER_BYTES;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh private mapping touches nothing that exists; it stays until the program ends.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        anyhow::ensure!(memory != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        let mut buffers = Self { memory: memory.cast(), tail: 0 };
        // SAFETY: the memory is page-aligned, large enough, and stays until the program ends.
        unsafe { ring.submitter().register_buf_ring_with_flags(memory as u64, BUFFERS, 0, 0) }
            .context("io_uring_register (buffers)")?;
        (0..BUFFERS).for_each(|buffer| buffers.give_back(buffer));
        Ok(buffers)
    }

    /// Lets the kernel have a buffer, once it is shown the tail.
    fn give_back(&mut self, buffer: u16) {
        let place = self.memory.wrapping_add(Self::RING_BYTES + usize::from(buffer) * BUFFER_BYTES);
        let index = usize::from(self.tail % BUFFERS);
        // SAFETY: the entry lies within the ring, and the kernel reads it only below the published tail.
        let entry = unsafe { &mut *self.memory.cast::<types::BufRingEntry>().add(index) };
        entry.set_addr(place as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        // SAFETY: the tail lies in the first entry, which is ours and aligned; the kernel reads it with acquire.
        unsafe {
            let tail = types::BufRingEntry::tail(self.memory.cast()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

fn clock_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place for the result is valid; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
