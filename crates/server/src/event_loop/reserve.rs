//! A loop of the reserve: it serves when it is ordered to, and rests otherwise. Its sockets stay bound, and listen only
//! while it serves.
//!
//! When it begins it joins the loops that share the port. When it stops it accepts the connections that wait at its
//! sockets, then stops listening, so that the kernel chooses among the other loops; it finishes what is under way. The
//! kernel resets a client that arrives between these two steps, which are some microseconds apart.

use super::{ACCEPTS_MAX, BACKLOG_MAX, EventLoop, READABLE, listener_token};
use crate::io::epoll::Interest;
use crate::io::listen::BACKLOG;
use crate::transport::Lane;
use std::os::fd::AsRawFd;

/// Whether a loop serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Post {
    /// Always.
    Steady,
    /// It is the reserve's loop of this number, from 0, and rests.
    Resting(u32),
    /// The same, and serves.
    Serving(u32),
    /// The same, and finishes what is under way.
    Leaving(u32),
}

impl Post {
    /// Whether it takes connections.
    pub(super) fn serves(self) -> bool {
        matches!(self, Self::Steady | Self::Serving(_))
    }

    pub(super) fn is_leaving(self) -> bool {
        matches!(self, Self::Leaving(_))
    }
}

impl EventLoop {
    /// Serves or rests as it is ordered.
    pub(super) fn take_post(&mut self) {
        let wanted = self.bench.loops_more;
        match self.post {
            Post::Resting(number) | Post::Leaving(number) if number < wanted => self.begin_to_serve(number),
            Post::Serving(number) if number >= wanted => self.leave(number),
            _ => {}
        }
    }

    fn begin_to_serve(&mut self, number: u32) {
        for (i, listener) in self.listeners.iter().enumerate() {
            let listens = listener.socket.listen(BACKLOG);
            let fd = listener.socket.as_raw_fd();
            if listens.and_then(|()| self.epoll.add(fd, listener_token(i), Interest::Level)).is_err() {
                self.bench.counts().accept_pauses.add(1);
            }
        }
        self.bench.stopping = false;
        self.post = Post::Serving(number);
        self.bench.counts().loops_begun.add(1);
    }

    fn leave(&mut self, number: u32) {
        for i in 0..self.listeners.len() {
            (0..BACKLOG_MAX / ACCEPTS_MAX).for_each(|_| self.accept(listener_token(i)));
            let _ = self.epoll.remove(self.listeners[i].socket.as_raw_fd());
            // It is bound still, so that it can listen again.
            let _ = self.listeners[i].socket.shutdown(std::net::Shutdown::Read);
        }
        // Connections end with their response, as where the server is stopped.
        self.bench.stopping = true;
        self.post = Post::Leaving(number);
        for token in self.connections.tokens(|_| true) {
            // What has arrived for those on the ring comes with the last completions, and then their turn.
            self.leave_ring(token);
            if self.connections.get(token).is_some_and(|connection| connection.lane() == Lane::Socket) {
                self.turn(token, READABLE);
            }
        }
    }

    /// Rests once nothing is under way any more.
    pub(super) fn settle_post(&mut self) {
        if let Post::Leaving(number) = self.post
            && self.is_empty()
        {
            self.bench.stopping = false;
            self.post = Post::Resting(number);
            self.bench.counts().loops_given_back.add(1);
        }
    }
}
