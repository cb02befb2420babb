//! A loop takes up another role.

use crate::event_loop::driver::{ACCEPTS_MAX, BACKLOG_MAX, EventLoop};
use crate::event_loop::role::LoopRole;
use crate::event_loop::tokens::listener_token;
use crate::io::epoll::Interest;
use crate::io::epoll::Readiness;
use crate::io::listen::BACKLOG;
use crate::transport::Lane;
use std::os::fd::AsRawFd;

impl EventLoop {
    /// Serves or rests as it is ordered.
    pub(super) fn change_role(&mut self) {
        let wanted = self.state.loops_more;
        match self.role {
            LoopRole::Resting(number) | LoopRole::Leaving(number) if number < wanted => self.begin_to_serve(number),
            LoopRole::Serving(number) if number >= wanted => self.leave(number),
            _ => {}
        }
    }

    fn begin_to_serve(&mut self, number: u32) {
        for (i, listener) in self.listeners.iter().enumerate() {
            let listens = listener.socket.listen(BACKLOG);
            let fd = listener.socket.as_raw_fd();
            if listens.and_then(|()| self.epoll.add(fd, listener_token(i), Interest::Level)).is_err() {
                self.state.counts().accept_pauses.add(1);
            }
        }
        self.state.stopping = false;
        self.role = LoopRole::Serving(number);
        self.state.counts().loops_begun.add(1);
    }

    fn leave(&mut self, number: u32) {
        for i in 0..self.listeners.len() {
            (0..BACKLOG_MAX / ACCEPTS_MAX).for_each(|_| self.accept(listener_token(i)));
            let _ = self.epoll.remove(self.listeners[i].socket.as_raw_fd());
            // It is bound still, so that it can listen again.
            let _ = self.listeners[i].socket.shutdown(std::net::Shutdown::Read);
        }
        // Connections end with their response, as where the server is stopped.
        self.state.stopping = true;
        self.role = LoopRole::Leaving(number);
        for token in self.connections.tokens(|_| true) {
            // What has arrived for those on the ring comes with the last completions, and then their turn.
            self.leave_ring(token);
            if self.connections.get(token).is_some_and(|connection| connection.lane() == Lane::Socket) {
                self.turn(token, Readiness::INPUT);
            }
        }
    }

    /// Rests once nothing is under way any more.
    pub(super) fn finish_role_change(&mut self) {
        if let LoopRole::Leaving(number) = self.role
            && self.is_empty()
        {
            self.state.stopping = false;
            self.role = LoopRole::Resting(number);
            self.state.counts().loops_given_back.add(1);
        }
    }
}
