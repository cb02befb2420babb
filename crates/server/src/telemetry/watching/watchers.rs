//! All watchers, as the thread of the admin address looks after them.

use super::hub::{Hub, Wanted};
use super::question::Subscription;
use super::watcher::Watcher;
use socket2::Socket;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Watchers at a time.
const WATCHERS_MAX: usize = 64;
/// What all of them may get in a second, and so what their memory may hold.
const BUDGETS_BYTES_MAX: u64 = 16 << 20;
/// From one look at the loops' queues to the next.
const LOOK_EVERY: Duration = Duration::from_millis(100);

const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: weir\r\nContent-Type: application/x-ndjson\r\nCache-Control: no-store\r\n\
    X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n";
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nServer: weir\r\nContent-Type: text/plain\r\nContent-Length: 78\r\n\
    Retry-After: 10\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n\
    64 watchers are there, or they have 16 MiB a second: end one, or ask for less\n";

/// All watchers.
#[derive(Debug)]
pub(crate) struct Watchers {
    hub: Arc<Hub>,
    list: Vec<(Socket, Watcher)>,
    look_at: Instant,
}

impl Watchers {
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, list: Vec::new(), look_at: Instant::now() }
    }

    /// Begins to tell a client what it has asked for, or refuses where there are too many.
    pub(crate) fn admit(&mut self, mut socket: Socket, asked: Subscription, now: Instant) {
        let budgets =
            |list: &[(Socket, Watcher)]| list.iter().map(|(_, one)| u64::from(one.budget_bytes_per_s())).sum();
        let sum: u64 = budgets(&self.list);
        let is_full = self.list.len() == WATCHERS_MAX || sum + u64::from(asked.budget_bytes_per_s) > BUDGETS_BYTES_MAX;
        // Nothing was written to it before, so that there is room; a client that has gone is not told.
        if socket.write_all(if is_full { FULL } else { HEAD }).is_err() || is_full {
            return;
        }
        if self.list.is_empty() {
            // What was seen for watchers that have gone.
            self.hub.sinks().iter().for_each(|sink| {
                sink.take();
                sink.take_dropped();
            });
            self.look_at = now + LOOK_EVERY;
        }
        self.list.push((socket, Watcher::new(asked, now)));
        self.look_for();
    }

    fn look_for(&self) {
        self.hub.look_for(Wanted {
            filters: self.list.iter().map(|(_, watcher)| watcher.filter().clone()).collect(),
            takes_bodies: self.list.iter().any(|(_, watcher)| watcher.takes_bodies()),
        });
    }

    /// When it is to be looked at again; none without a watcher.
    pub(crate) fn next(&self) -> Option<Instant> {
        (!self.list.is_empty()).then_some(self.look_at)
    }

    /// What is waited for, for each of them.
    pub(crate) fn polls(&self) -> impl Iterator<Item = libc::pollfd> + '_ {
        self.list.iter().map(|(socket, watcher)| {
            let room = if watcher.rest().is_empty() { 0 } else { libc::POLLOUT };
            libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN | room, revents: 0 }
        })
    }

    /// Takes what loops have seen if it is time, and writes what can be written; `ready` says of each whether something
    /// has happened.
    pub(crate) fn turn(&mut self, mut ready: impl Iterator<Item = bool>, now: Instant) {
        let before = self.list.len();
        self.list.retain_mut(|(socket, _)| ready.next() != Some(true) || is_there(socket));
        if self.look_at <= now && !self.list.is_empty() {
            self.look(now);
        }
        self.list.retain_mut(|(socket, watcher)| write(socket, watcher));
        if self.list.len() != before {
            self.look_for();
        }
    }

    fn look(&mut self, now: Instant) {
        self.look_at = now + LOOK_EVERY;
        let sinks = self.hub.sinks();
        let dropped: u64 = sinks.iter().map(|sink| sink.take_dropped()).sum();
        let seen: Vec<_> = sinks.iter().map(|sink| sink.take()).collect();
        for (_, watcher) in &mut self.list {
            watcher.earn(now);
            watcher.dropped(dropped);
            seen.iter().flatten().for_each(|seen| watcher.offer(seen));
            watcher.tell(now);
        }
    }

    /// The server ends: each is told, as far as its socket takes it.
    pub(crate) fn end(mut self) {
        for (socket, watcher) in &mut self.list {
            watcher.end("server");
            write(socket, watcher);
        }
    }
}

/// Whether the client is still there. What it says is read for nothing.
fn is_there(socket: &mut Socket) -> bool {
    let mut piece = [0; 4096];
    match socket.read(&mut piece) {
        Ok(read) => read > 0,
        Err(error) => is_passing(&error),
    }
}

/// Writes what the socket takes; false once it is over.
fn write(socket: &mut Socket, watcher: &mut Watcher) -> bool {
    while !watcher.rest().is_empty() {
        match socket.write(watcher.rest()) {
            Ok(written) => watcher.wrote(written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return is_passing(&error),
        }
    }
    if watcher.is_over() {
        // The client may have gone, and there is nothing more to be told.
        let _ = socket.shutdown(Shutdown::Write);
    }
    !watcher.is_over()
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
