//! The least that can serve HTTP through io_uring: one thread, a multishot accept, a multishot reception for each
//! connection with its bytes in buffers that the kernel chooses, and answers that go out in the call which also waits. The
//! counterpart of `bare-server`, which does the same through epoll: the ceiling that a server which does anything is held
//! against.
//!
//! Each reception is taken as one request, which is true of generators that do not pipeline, and answered with the same
//! bytes.

use anyhow::Context;
use clap::Parser;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU16, Ordering};

/// Buffers of the kernel's choice: how many, a power of two, and how large each.
const BUFFERS: u16 = 1024;
const BUFFER_BYTES: usize = 4096;
/// What a completion is of, above the descriptor.
const ACCEPT: u64 = 1 << 32;
const SEND: u64 = 2 << 32;

#[derive(Debug, Parser)]
struct Arguments {
    /// Where it listens
    listen: SocketAddr,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let answer: &[u8] =
        b"HTTP/1.1 200 OK\r\nServer: bare\r\nConnection: keep-alive\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n";
    let listener =
        TcpListener::bind(arguments.listen).with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_cqsize(8192).build(4096);
    let mut ring = ring.context("io_uring_setup (Linux 6.1 and later have what is needed)")?;
    let mut buffers = Buffers::new(&ring)?;
    push(&mut ring, &accept(&listener))?;
    let mut completions: Vec<cqueue::Entry> = Vec::with_capacity(8192);
    loop {
        buffers.publish();
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => {}
            Err(error) => return Err(error).context("io_uring_enter"),
        }
        completions.clear();
        completions.extend(ring.completion());
        for completion in &completions {
            let (what, came) = (completion.user_data(), completion.result());
            if what & ACCEPT != 0 {
                if came >= 0 {
                    no_delay(came);
                    push(&mut ring, &receive(came))?;
                }
                if !cqueue::more(completion.flags()) {
                    push(&mut ring, &accept(&listener))?;
                }
                continue;
            }
            // A transmission is completed only where it failed, and then the reception tells.
            if what & SEND != 0 {
                continue;
            }
            let fd = what as RawFd;
            if let Some(buffer) = cqueue::buffer_select(completion.flags()) {
                buffers.give_back(buffer);
            }
            if came > 0 {
                push(&mut ring, &send(fd, answer))?;
            }
            if !cqueue::more(completion.flags()) {
                if came > 0 || came == -libc::ENOBUFS {
                    push(&mut ring, &receive(fd))?;
                } else {
                    // SAFETY: the descriptor is ours, and not used after this.
                    unsafe { libc::close(fd) };
                }
            }
        }
    }
}

fn no_delay(fd: RawFd) {
    let on: i32 = 1;
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value lives over the call, which reads it. Without the option the server is only slower.
    unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, (&raw const on).cast(), len) };
}

fn accept(listener: &TcpListener) -> squeue::Entry {
    opcode::AcceptMulti::new(types::Fd(listener.as_raw_fd())).build().user_data(ACCEPT)
}

fn receive(fd: RawFd) -> squeue::Entry {
    opcode::RecvMulti::new(types::Fd(fd), 0).build().user_data(fd as u64)
}

fn send(fd: RawFd, answer: &'static [u8]) -> squeue::Entry {
    opcode::Send::new(types::Fd(fd), answer.as_ptr(), answer.len() as u32)
        .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
        .build()
        .flags(squeue::Flags::SKIP_SUCCESS)
        .user_data(fd as u64 | SEND)
}

fn push(ring: &mut IoUring, entry: &squeue::Entry) -> anyhow::Result<()> {
    // SAFETY: the answer lives as long as the program, and the other operations name no memory.
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
