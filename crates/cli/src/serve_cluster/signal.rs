//! What wakes the thread that gives replicas: the server has something to be asked for, or this process has more to give.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// An eventfd(2), which the server has too: a thread that waits for it costs nothing.
#[derive(Debug)]
pub(super) struct Signal(OwnedFd);

impl Signal {
    /// A new one.
    ///
    /// # Errors
    ///
    /// Those of eventfd(2).
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: the call takes numbers only.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Gives it, also before another thread waits.
    pub(super) fn give(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the buffer lives over the call, which fails only where the signal is given very often already.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Takes it, or waits until it is given, at most so long.
    pub(super) fn wait(&self, most: Duration) {
        let mut polled = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let ms = i32::try_from(most.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the structure lives over the call, which fills it.
        unsafe { libc::poll(&raw mut polled, 1, ms) };
        let mut count = [0; size_of::<u64>()];
        // SAFETY: the buffer lives over the call, which fails where it was not given.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Signal {
    fn from(eventfd: OwnedFd) -> Self {
        Self(eventfd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn one_that_is_given_before_is_taken_once() {
        let signal = Signal::new().expect("an eventfd");
        let other = Signal::from(signal.as_fd().try_clone_to_owned().expect("a descriptor"));
        other.give();
        other.give();
        let begun = Instant::now();
        signal.wait(Duration::from_secs(60));
        assert!(begun.elapsed() < Duration::from_secs(30), "it was given");
        let begun = Instant::now();
        signal.wait(Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(19), "it was taken");
    }
}
