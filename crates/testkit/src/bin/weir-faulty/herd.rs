//! A thundering herd: many processes wait for the same socket, each with an epoll of its own, and all of
//! them are woken for each connection. The server counts by itself what became of each wake-up.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::blocking::next_request;
use crate::event::Epoll;
use crate::http::{self, Inbox};
use crate::options::{Failure, Options};
use crate::work::set_name;

/// A client that connects and says nothing holds up one of many, and no longer than this.
const READ_LIMIT: Duration = Duration::from_secs(1);

/// What is counted, by all processes together: the order of the numbers in the file.
#[derive(Clone, Copy)]
enum Count {
    /// Processes that wait for their first connection.
    Ready,
    /// Connections accepted.
    Accepted,
    /// Of those, the ones for which the process had slept.
    Useful,
    /// Times that there was nothing to accept.
    Again,
    /// Of those, the ones for which the process had not slept: it looked in vain.
    Busy,
    /// Sleeps that were not for a connection to come: inside accept, or for a request.
    OtherSleeps,
}
const COUNTS: usize = 6;

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let path = options.word("FILE")?;
    let processes = options.number("processes")?.unwrap_or(50).clamp(1, 512);
    let counts = shared_counts(&path)?;
    let listener = options.listen()?;
    listener.set_nonblocking(true)?;
    for _ in 1..processes {
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error().into()),
            0 => {
                // SAFETY: prctl touches no memory; a parent that has died already has closed nothing
                // that we need, and its launcher kills the whole group.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                break;
            }
            _ => {}
        }
    }
    set_name(c"weir-herd");
    Ok(serve(&listener, counts)?)
}

/// The counts lie in a file, so that others can read them without asking over the network.
fn shared_counts(path: &str) -> io::Result<&'static [AtomicU64; COUNTS]> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    let length = size_of::<[AtomicU64; COUNTS]>();
    file.set_len(length as u64)?;
    // SAFETY: the file is as long as the mapping, which is aligned to a page and lives as long as the
    // process; other processes that map the file only read it, and all our accesses are atomic.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let map = libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), 0);
        if map == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(&*map.cast()) }
    }
}

fn serve(listener: &TcpListener, counts: &[AtomicU64; COUNTS]) -> io::Result<()> {
    let add = |count: Count, number: u64| counts[count as usize].fetch_add(number, Ordering::Relaxed);
    let epoll = Epoll::new()?;
    // No EPOLLEXCLUSIVE: that is the fault.
    epoll.add(listener.as_raw_fd(), libc::EPOLLIN)?;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }];
    add(Count::Ready, 1);
    loop {
        let before = sleeps();
        epoll.wait(&mut events)?;
        let woken = sleeps();
        let accepted = listener.accept();
        match accepted {
            Ok((stream, _)) => {
                add(Count::Accepted, 1);
                add(Count::Useful, u64::from(woken > before));
                // A connection that breaks is the client's affair.
                let _ = answer_one(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                add(Count::Again, 1);
                add(Count::Busy, u64::from(woken == before));
            }
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
        add(Count::OtherSleeps, sleeps() - woken);
    }
}

fn answer_one(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(READ_LIMIT))?;
    let Some(mut request) = next_request(&mut stream, &mut Inbox::default())? else {
        return Ok(());
    };
    request.keep_alive = false;
    stream.write_all(&http::ok(&request))
}

/// How often this process has gone to sleep by itself, as the kernel counts it.
fn sleeps() -> u64 {
    // SAFETY: an all-zero rusage is valid and ours to be written.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage.ru_nvcsw as u64
    }
}
