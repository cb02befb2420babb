//! One request between a peer and a runner: the body goes there, the response comes back, and what one side does not
//! take is not read from the other.

use crate::channel::{Channel, Received, read};
use crate::intake::{Heard, Intake, Malformed};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use weir_scripts::fastcgi::{self, kind};

/// Bytes of a body that wait for a runner.
const BODY_BYTES_MAX: usize = 64 << 10;
/// How long a peer may take nothing of a response.
const STALL_PATIENCE: Duration = Duration::from_secs(60);
/// How long requests may go on when the program is to end.
pub(crate) const END_PATIENCE: Duration = Duration::from_secs(5);
/// A wait that is looked at again, in milliseconds.
const LONG_MS: i32 = 60_000;

/// A request that was not answered as a whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("its peer gave it up, so that its script is ended")]
    Gone,
    #[error("its peer took nothing of the response for 60 s")]
    Stalled,
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("its runner ended before the response was whole; see the lines about runners")]
    Runner {
        /// Whether some of the response is on its way.
        has_answered: bool,
    },
    #[error("this program ends")]
    Cut,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Relay<'c> {
    pub(crate) channel: &'c mut Channel,
    pub(crate) intake: &'c mut Intake,
    pub(crate) runner: UnixStream,
    /// Ready when the program is to end.
    pub(crate) stop: RawFd,
    pub(crate) number: u16,
    to_runner: Vec<u8>,
    from_runner: Vec<u8>,
    body: Body,
    answer: Answer,
    has_answered: bool,
    /// When the peer took something last.
    moved: Instant,
    /// Until when it may go on, once the program is to end.
    until: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Coming,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Coming,
    /// The runner has closed its connection.
    Closed,
    Whole,
}

impl<'c> Relay<'c> {
    /// The beginning of a request for a runner that waits for no further one.
    pub(crate) fn new(
        (channel, intake): (&'c mut Channel, &'c mut Intake),
        (runner, stop): (UnixStream, RawFd),
        number: u16,
        pairs: &[u8],
    ) -> Self {
        let mut to_runner = Vec::with_capacity(pairs.len() + 64);
        fastcgi::push(kind::BEGIN_REQUEST, number, &[0, 1, 0, 0, 0, 0, 0, 0], &mut to_runner);
        fastcgi::push(kind::PARAMS, number, pairs, &mut to_runner);
        to_runner.extend_from_slice(&fastcgi::head(kind::PARAMS, number, 0));
        Self {
            channel,
            intake,
            runner,
            stop,
            number,
            to_runner,
            from_runner: Vec::new(),
            body: Body::Coming,
            answer: Answer::Coming,
            has_answered: false,
            moved: Instant::now(),
            until: None,
        }
    }

    /// Answers the request; whether its body has come to its end.
    pub(crate) fn run(mut self) -> Result<bool, Broken> {
        loop {
            self.feed()?;
            self.pass_on()?;
            if self.channel.push().map_err(|_| Broken::Gone)? > 0 || !self.channel.holds_output() {
                self.moved = Instant::now();
            }
            if self.answer == Answer::Whole && !self.channel.holds_output() {
                return Ok(self.body == Body::Ended);
            }
            if self.answer == Answer::Closed && !self.channel.holds_output() {
                return Err(Broken::Runner { has_answered: self.has_answered });
            }
            self.wait()?;
        }
    }

    /// Passes the body on.
    fn feed(&mut self) -> Result<(), Broken> {
        while self.body == Body::Coming && self.to_runner.len() < BODY_BYTES_MAX {
            match self.intake.body(self.number, &mut self.to_runner)? {
                Heard::Nothing => break,
                Heard::Body => {}
                Heard::BodyEnd => self.body = Body::Ended,
                Heard::Aborted => return Err(Broken::Gone),
            }
        }
        let mut sent = 0;
        while sent < self.to_runner.len() {
            match self.runner.write(&self.to_runner[sent..]) {
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // It has answered, or ended: what it has sent tells.
                Err(_) => sent = self.to_runner.len(),
            }
        }
        self.to_runner.drain(..sent);
        Ok(())
    }

    /// Passes whole records of the response on.
    fn pass_on(&mut self) -> Result<(), Broken> {
        let mut at = 0;
        while self.answer != Answer::Whole
            && let Ok(Some(record)) = fastcgi::next_record(&self.from_runner[at..])
        {
            let end = at + record.bytes;
            self.has_answered |= record.kind == kind::STDOUT;
            if record.kind == kind::END_REQUEST {
                self.answer = Answer::Whole;
            }
            self.channel.queue(&self.from_runner[at..end]).map_err(|_| Broken::Gone)?;
            at = end;
        }
        self.from_runner.drain(..at);
        Ok(())
    }

    /// Waits until something can go on, and reads it.
    fn wait(&mut self) -> Result<(), Broken> {
        let wants = |is_wanted: bool, event: i16| if is_wanted { event } else { 0 };
        let holds = self.channel.holds_output();
        let takes_body = self.intake.has_room() && self.to_runner.len() < BODY_BYTES_MAX;
        let is_coming = self.answer == Answer::Coming;
        let of_peer = wants(takes_body, libc::POLLIN) | wants(holds, libc::POLLOUT) | libc::POLLRDHUP;
        let of_runner = wants(is_coming && !holds, libc::POLLIN) | wants(!self.to_runner.is_empty(), libc::POLLOUT);
        let fd = |fd, events| libc::pollfd { fd, events, revents: 0 };
        // A descriptor below zero is left out, and a runner that has hung up is looked at when there is room.
        let runner = if of_runner == 0 { -1 } else { self.runner.as_raw_fd() };
        let stop = if self.until.is_some() { -1 } else { self.stop };
        let mut fds = [fd(self.channel.fd(), of_peer), fd(runner, of_runner), fd(stop, libc::POLLIN)];
        poll(&mut fds, [self.until, holds.then(|| self.moved + STALL_PATIENCE)].into_iter().flatten().min());
        let now = Instant::now();
        if fds[2].revents != 0 {
            self.until = Some(now + END_PATIENCE);
        }
        if self.until.is_some_and(|until| now >= until) {
            return Err(Broken::Cut);
        }
        if holds && now >= self.moved + STALL_PATIENCE {
            return Err(Broken::Stalled);
        }
        if fds[0].revents & !libc::POLLOUT != 0 {
            self.hear_peer(fds[0].revents)?;
        }
        if fds[1].revents & !libc::POLLOUT != 0
            && is_coming
            && !holds
            && !matches!(read(&mut self.runner, &mut self.from_runner), Ok(Received::Bytes | Received::Nothing))
        {
            self.answer = Answer::Closed;
        }
        Ok(())
    }

    fn hear_peer(&mut self, events: i16) -> Result<(), Broken> {
        if events & (libc::POLLERR | libc::POLLHUP | libc::POLLRDHUP) != 0 {
            // A peer that closes one direction only is none that we know: it wants no answer.
            return Err(Broken::Gone);
        }
        match self.channel.receive(self.intake.space()) {
            Ok(Received::Bytes | Received::Nothing) => Ok(()),
            Ok(Received::End) | Err(_) => Err(Broken::Gone),
        }
    }
}

/// Waits for descriptors until then at most; a signal may end the wait before.
pub(crate) fn poll(fds: &mut [libc::pollfd], until: Option<Instant>) {
    let wait_ms = until.map_or(LONG_MS, |until| {
        let left = until.saturating_duration_since(Instant::now());
        // Rounded up, so that the time has passed afterwards.
        i32::try_from(left.as_millis() + 1).unwrap_or(LONG_MS).min(LONG_MS)
    });
    // SAFETY: the pointer and the number are those of a slice that lives over the call.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, wait_ms) };
    if ready < 0 {
        fds.iter_mut().for_each(|fd| fd.revents = 0);
    }
}
