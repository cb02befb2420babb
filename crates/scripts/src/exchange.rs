//! One request: the body goes to the script, its output to the server, until one of them ends it.

use crate::children;
use crate::descriptor::{self, Moved};
use crate::fastcgi::{self, HEAD_BYTES, kind};
use crate::first_output;
use crate::input::{Begun, Heard, Input};
use crate::marks::{Marks, Sifted};
use crate::signals;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Output of one read: what a pipe holds, in one record.
const READ_BYTES: usize = fastcgi::CONTENT_BYTES_MAX;
/// Output that waits for more for a moment, so that a short response goes out whole, in one write.
const LINGER: Duration = Duration::from_micros(200);
/// Output of a script that has closed it and is about to end waits so long for that.
const CLOSED_LINGER: Duration = Duration::from_millis(5);
/// A response that takes longer from its first piece to its end is one that is to be seen while it comes.
const PACE_MAX: Duration = Duration::from_millis(2);
/// The same for a process that answers one request, which has to end besides.
const PACE_OF_PROCESS_MAX: Duration = Duration::from_millis(5);
/// Output that goes out without that.
const ENOUGH_BYTES: usize = 32 << 10;
/// Output that the server has not taken, beyond which the script's is not read.
const HELD_BYTES_MAX: usize = 256 << 10;
/// How long the record is waited for that ends a body.
const BODY_END_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of STDERR of one request that go into the log.
const STDERR_BYTES_MAX: usize = 64 << 10;
const STDERR_READ_BYTES: usize = 4096;
/// Reads of STDERR in one go: what a pipe holds, so that one that is flooded keeps nothing else from its turn.
const STDERR_READS: usize = 16;
/// How long a script may run on that has closed its output, which is whole then.
const CLOSED_PATIENCE: Duration = Duration::from_secs(1);
/// Answers to callouts that a script has not read, besides the variables of its request.
const ANSWERS_BYTES_MAX: usize = 3 << 20;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The script has marked the end of its response.
    Whole,
    /// Its process has ended, with this status.
    Exited(libc::c_int),
    /// It took too long.
    TimedOut,
    /// The server wants no answer any more, or has gone.
    Gone,
    /// The response is longer than the configuration allows.
    TooMuch,
    /// The script's callout is too long, or it reads no answers.
    Malformed,
    /// The script has closed its output, and runs on.
    Closed,
    /// The script has marked the end of a response without one.
    Empty,
    /// The script has written something before it has read the request.
    Early,
    /// This process is to end.
    Stopped,
}

/// Bytes on their way to a script.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    pub(crate) bytes: Vec<u8>,
    at: usize,
}

impl Feed {
    fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Writes what the pipe takes; whether it still has a reader.
    fn write(&mut self, pipe: RawFd) -> bool {
        match descriptor::write(pipe, &self.bytes[self.at..]) {
            Moved::Bytes(bytes) => self.at += bytes,
            Moved::None => {}
            Moved::Over => return false,
        }
        if self.is_empty() {
            self.clear();
        }
        true
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.at = 0;
    }
}

/// Where the body of the request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Coming,
    Whole,
}

/// When things are due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) begun: Instant,
    pub(crate) slow: Option<Instant>,
    pub(crate) end: Option<Instant>,
}

impl Times {
    pub(crate) fn new(slow: Duration, timeout: Duration) -> Self {
        let begun = Instant::now();
        let at = |time: Duration| (!time.is_zero()).then(|| begun + time);
        Self { begun, slow: at(slow), end: at(timeout) }
    }
}

/// One request under way.
#[derive(Debug)]
pub(crate) struct Exchange<'r> {
    pub(crate) conn: RawFd,
    pub(crate) input: &'r mut Input,
    pub(crate) begun: Begun,
    /// Records for the server, of which `sent` bytes have gone.
    pub(crate) out: &'r mut Vec<u8>,
    pub(crate) sent: usize,
    /// Whether bytes of the response have gone to the server.
    pub(crate) has_told: bool,
    /// The script's output and errors.
    pub(crate) stdout: RawFd,
    pub(crate) stderr: RawFd,
    /// Where the body goes, and what of it is on its way.
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) feed: Feed,
    /// Whether the end of the body closes the pipe.
    pub(crate) closes_stdin: bool,
    /// The variables for a persistent script.
    pub(crate) variables: Option<(RawFd, Feed)>,
    /// Bytes of the body that have not come yet.
    pub(crate) body_left: u64,
    /// Whether the script was over before it could be told anything.
    pub(crate) was_deaf: bool,
    pub(crate) body: Body,
    pub(crate) child: libc::pid_t,
    /// What was known of children that have ended.
    pub(crate) ended: u32,
    pub(crate) marks: Option<&'r mut Marks>,
    pub(crate) times: Times,
    pub(crate) output_max: u64,
    pub(crate) output: u64,
    pub(crate) stderr_bytes: usize,
    /// Bytes that were read of the script's output.
    pub(crate) taken: u64,
    /// Until when the script may run whose output is closed.
    pub(crate) closed: Option<Instant>,
    /// Bytes of variables, of which the process has read some before it answers; 0 = that is not checked.
    pub(crate) heeds: usize,
    /// Whether the process has read all variables that were written.
    pub(crate) has_heard_all: bool,
    /// How output came.
    pub(crate) pace: Pace,
    /// The request's number where its steps are told.
    pub(crate) told: Option<Rc<str>>,
}

/// How the output of a script comes. One that writes piece after piece wakes this process by each of them: so the
/// output is not looked at, behind the first piece, for as long as the last response took from there to its end.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// That time; zero = each piece is looked at.
    pub(crate) pause: Duration,
    first: Option<Instant>,
    reads: u32,
    has_paused: bool,
}

impl Pace {
    pub(crate) fn new(pause: Duration) -> Self {
        Self { pause, ..Self::default() }
    }

    fn note(&mut self) {
        self.reads += 1;
        if self.reads == 1 {
            self.first = Some(Instant::now());
        }
    }

    /// How long to pause in the next response.
    pub(crate) fn next(&self) -> Duration {
        match self.first.filter(|_| self.reads > 1).map(|first| first.elapsed()) {
            None => self.pause,
            // Less would perhaps do: so it shrinks until it is too short.
            Some(_) if self.has_paused && self.reads == 2 => self.pause - self.pause / 16,
            Some(took) if took <= PACE_MAX => took.min(LINGER),
            Some(_) => Duration::ZERO,
        }
    }

    /// How long to pause in the response of the next process, when this one has ended: with some time to spare.
    pub(crate) fn next_of_process(&self) -> Duration {
        match self.first.map(|first| first.elapsed()) {
            None => self.pause,
            Some(took) if took <= PACE_OF_PROCESS_MAX => took + took / 4,
            Some(_) => Duration::ZERO,
        }
    }
}

impl Exchange<'_> {
    /// Goes on until the request ends; `stuck` is called once if it takes too long.
    pub(crate) fn run(&mut self, mut stuck: impl FnMut(Duration)) -> Outcome {
        let mut is_open = true;
        loop {
            if let Some(outcome) = self.pass_body_on() {
                return outcome;
            }
            let is_fresh = self.sent < self.out.len() && self.out.len() < ENOUGH_BYTES;
            if self.out.len() >= ENOUGH_BYTES && !self.flush() {
                return Outcome::Gone;
            }
            let now = Instant::now();
            if self.times.end.is_some_and(|end| now >= end) {
                return Outcome::TimedOut;
            }
            if self.times.slow.is_some_and(|slow| now >= slow) {
                self.times.slow = None;
                stuck(now - self.times.begun);
            }
            if !is_open && now >= *self.closed.get_or_insert(now + CLOSED_PATIENCE) {
                return Outcome::Closed;
            }
            let due = [self.times.slow, self.times.end, self.closed].into_iter().flatten().min().map(|due| due - now);
            let is_pause = is_open && self.is_to_pause();
            let linger = if is_pause {
                self.pace.pause
            } else if is_open {
                LINGER
            } else {
                CLOSED_LINGER
            };
            let patience = if is_fresh { Some(due.map_or(linger, |due| due.min(linger))) } else { due };
            let mut fds = self.interests(is_open && !is_pause);
            let is_ready = signals::wait(&mut fds, patience);
            if signals::is_to_end() {
                return Outcome::Stopped;
            }
            if is_pause && self.marks.is_some() {
                // More has come by now; if not, the loop waits for it.
                fds[0].revents = libc::POLLIN;
            } else if !is_ready && is_fresh && signals::children_ended() == self.ended && !self.flush() {
                return Outcome::Gone;
            }
            if let Some(outcome) = self.turn(&fds, &mut is_open) {
                return outcome;
            }
        }
    }

    /// Whether more output is to gather before it is looked at, once in a response.
    fn is_to_pause(&mut self) -> bool {
        let is_due = self.pace.reads == 1 && !self.pace.has_paused && !self.pace.pause.is_zero();
        let is_pause = is_due && self.sent < self.out.len() && self.out.len() < ENOUGH_BYTES;
        self.pace.has_paused |= is_pause;
        is_pause
    }

    /// What is waited for: the script's output, its errors, the connection, and the pipes to the script.
    fn interests(&self, is_open: bool) -> [libc::pollfd; 5] {
        let fd = |fd: Option<RawFd>, events| libc::pollfd { fd: fd.unwrap_or(-1), events, revents: 0 };
        let mut of_conn = libc::POLLRDHUP;
        if self.feed.is_empty() {
            of_conn |= libc::POLLIN;
        }
        if self.out.len() >= ENOUGH_BYTES {
            of_conn |= libc::POLLOUT;
        }
        let reads = is_open && self.out.len() - self.sent < HELD_BYTES_MAX;
        let feeds = self.stdin.as_ref().filter(|_| !self.feed.is_empty()).map(AsRawFd::as_raw_fd);
        let tells = self.variables.as_ref().filter(|(_, feed)| !feed.is_empty()).map(|(fd, _)| *fd);
        [
            fd(Some(self.stdout).filter(|_| reads), libc::POLLIN),
            fd(Some(self.stderr), libc::POLLIN),
            fd(Some(self.conn), of_conn),
            fd(feeds, libc::POLLOUT),
            fd(tells, libc::POLLOUT),
        ]
    }

    /// Does what has become possible.
    fn turn(&mut self, fds: &[libc::pollfd; 5], is_open: &mut bool) -> Option<Outcome> {
        if fds[1].revents != 0 {
            self.read_stderr();
        }
        if fds[0].revents == libc::POLLHUP {
            // All that was in the pipe has been read.
            *is_open = false;
        } else if fds[0].revents != 0
            && let Some(outcome) = self.read_stdout(is_open)
        {
            return Some(outcome);
        }
        if fds[2].revents & (libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP) != 0 {
            return Some(Outcome::Gone);
        }
        if fds[2].revents & libc::POLLIN != 0 && self.input.receive(self.conn) == Moved::Over {
            return Some(Outcome::Gone);
        }
        let ended = signals::children_ended();
        if ended != self.ended
            && let Some(status) = children::reap(self.child)
        {
            return Some(self.last_words(status, is_open));
        }
        self.ended = ended;
        None
    }

    /// Reads what a process that has ended has left in its pipes.
    fn last_words(&mut self, status: libc::c_int, is_open: &mut bool) -> Outcome {
        // What stands in the pipe now is the script's; what others write behind it is not waited for.
        let until = if *is_open { self.taken + descriptor::waiting(self.stdout) as u64 } else { 0 };
        while *is_open && self.taken < until {
            let before = self.taken;
            if let Some(outcome) = self.read_stdout(is_open) {
                return outcome;
            }
            if self.taken == before {
                break;
            }
        }
        Outcome::Exited(status)
    }

    /// Writes what has come of the body, as far as the pipe takes it, and the variables.
    fn pass_body_on(&mut self) -> Option<Outcome> {
        loop {
            if let Some(outcome) = self.take_input() {
                return Some(outcome);
            }
            let is_last = self.feed.is_empty();
            self.write_feeds();
            if is_last || !self.feed.is_empty() {
                return None;
            }
        }
    }

    /// Reads the next record of the body if the last one has gone on.
    fn take_input(&mut self) -> Option<Outcome> {
        while self.feed.is_empty() {
            match self.input.body(self.begun.number, &mut self.feed.bytes) {
                Heard::Nothing => break,
                Heard::Body if self.body == Body::Coming => {
                    // No more than was promised: in a process that goes on, the next body would begin with it.
                    self.feed.bytes.truncate(usize::try_from(self.body_left).unwrap_or(usize::MAX));
                    self.body_left = self.body_left.saturating_sub(self.feed.bytes.len() as u64);
                    if self.stdin.is_none() {
                        // The script reads no body, or no more of it.
                        self.feed.clear();
                    }
                }
                Heard::BodyEnd if self.body == Body::Coming => {
                    self.body = Body::Whole;
                    // A process that goes on would wait for the rest, and take the next body for it.
                    if self.body_left > 0 && self.stdin.is_some() && !self.closes_stdin {
                        return Some(Outcome::Gone);
                    }
                }
                _ => return Some(Outcome::Gone),
            }
        }
        None
    }

    fn write_feeds(&mut self) {
        if let Some((pipe, feed)) = &mut self.variables
            && !feed.is_empty()
        {
            self.has_heard_all = false;
            if !feed.write(*pipe) {
                // Its end shows in its output.
                self.was_deaf |= feed.at == 0;
                feed.clear();
            }
        }
        if let Some(pipe) = &self.stdin {
            let has_reader = self.feed.is_empty() || self.feed.write(pipe.as_raw_fd());
            if !has_reader {
                self.feed.clear();
            }
            if !has_reader || (self.closes_stdin && self.body == Body::Whole && self.feed.is_empty()) {
                self.stdin = None;
            }
        }
    }

    /// Reads output into a record of its own.
    fn read_stdout(&mut self, is_open: &mut bool) -> Option<Outcome> {
        let is_early = self.is_early();
        let head_at = self.out.len();
        self.out.extend_from_slice(&[0; HEAD_BYTES]);
        let at = self.out.len();
        let carried = self.marks.as_mut().map_or(0, |marks| marks.restore(self.out));
        let moved = descriptor::read(self.stdout, READ_BYTES - carried, self.out);
        match moved {
            Moved::Bytes(bytes) => {
                self.taken += bytes as u64;
                self.pace.note();
            }
            Moved::None => {}
            Moved::Over => *is_open = false,
        }
        let mut outcome = None;
        if let Some(marks) = &mut self.marks {
            outcome = match marks.sift(at, self.out) {
                Sifted::Going => None,
                Sifted::Ended => Some(Outcome::Whole),
                Sifted::Malformed => Some(Outcome::Malformed),
            };
            if let Some((_, feed)) = &mut self.variables {
                let before = feed.bytes.len();
                marks.take_answers(&mut feed.bytes);
                if feed.bytes.len() > before {
                    self.heeds = 0;
                }
                if feed.bytes.len() > ANSWERS_BYTES_MAX {
                    outcome = Some(Outcome::Malformed);
                }
            }
        }
        let content = self.out.len() - at;
        if content == 0 {
            self.out.truncate(head_at);
            return outcome;
        }
        if is_early {
            self.out.truncate(head_at);
            return Some(Outcome::Early);
        }
        if self.output == 0 {
            first_output::output_begins(self.told.as_ref(), &self.out[at..]);
        }
        self.output += content as u64;
        self.out[head_at..at].copy_from_slice(&fastcgi::head(kind::STDOUT, self.begun.number, content));
        self.out.resize(self.out.len() + fastcgi::padding(content), 0);
        let is_too_much = self.output_max > 0 && self.output > self.output_max;
        if is_too_much { Some(Outcome::TooMuch) } else { outcome }
    }

    /// Whether what the process writes now cannot answer this request, of which it has read nothing.
    fn is_early(&mut self) -> bool {
        let Some((pipe, feed)) = self.variables.as_ref().filter(|_| self.heeds > 0 && self.output == 0) else {
            return false;
        };
        let written = if feed.is_empty() { self.heeds } else { feed.at };
        let waiting = descriptor::waiting(*pipe);
        self.has_heard_all = feed.is_empty() && waiting == 0;
        waiting >= written
    }

    /// Whether a process that goes on has not taken all of this request, so that it would take the rest for the next.
    pub(crate) fn is_unread(&self) -> bool {
        let has_heard_all = |(pipe, feed): &(RawFd, Feed)| feed.is_empty() && descriptor::waiting(*pipe) == 0;
        let is_told = self.has_heard_all || self.variables.as_ref().is_none_or(has_heard_all);
        !is_told || self.body_left > 0 || !self.feed.is_empty()
    }

    /// Passes on what the script says to the log.
    pub(crate) fn read_stderr(&mut self) {
        let mut text = Vec::new();
        for _ in 0..STDERR_READS {
            let Moved::Bytes(bytes) = descriptor::read(self.stderr, STDERR_READ_BYTES, &mut text) else { break };
            let room = STDERR_BYTES_MAX.saturating_sub(self.stderr_bytes);
            self.stderr_bytes += bytes;
            text.truncate(room);
            fastcgi::push(kind::STDERR, self.begun.number, &text, self.out);
            text.clear();
            if bytes < STDERR_READ_BYTES {
                break;
            }
        }
    }

    /// Bytes of STDERR that did not go into the log.
    pub(crate) fn stderr_lost(&self) -> usize {
        self.stderr_bytes.saturating_sub(STDERR_BYTES_MAX)
    }

    /// Drops the response so far, of which nothing has gone, and keeps what is for the log.
    pub(crate) fn keep_log(&mut self) {
        let (mut kept, mut at, mut sent) = (Vec::new(), 0, 0);
        while let Ok(Some(record)) = fastcgi::next_record(&self.out[at..]) {
            let end = at + record.bytes;
            if record.kind == kind::STDERR && end > self.sent {
                // A part of the first one may have gone.
                sent += self.sent.saturating_sub(at);
                kept.extend_from_slice(&self.out[at..end]);
            }
            at = end;
        }
        (*self.out, self.sent) = (kept, sent);
    }

    /// Drops what has come of the body that the script has not taken.
    pub(crate) fn settle(&mut self) {
        self.stdin = None;
        self.feed.clear();
        self.take_input();
        if self.body == Body::Coming && self.input.receive(self.conn) != Moved::Over {
            self.take_input();
        }
    }

    /// Waits for the record that ends a body of which all bytes have come; whether it comes. A body of which more is to
    /// come is not waited for: its client may be slow.
    pub(crate) fn is_at_end(&mut self) -> bool {
        let until = Instant::now() + BODY_END_PATIENCE;
        while self.body == Body::Coming {
            let now = Instant::now();
            if self.body_left > 0 || now >= until || signals::is_to_end() {
                return false;
            }
            let mut fds = [libc::pollfd { fd: self.conn, events: libc::POLLIN, revents: 0 }];
            signals::wait(&mut fds, Some(until - now));
            if (fds[0].revents != 0 && self.input.receive(self.conn) == Moved::Over) || self.take_input().is_some() {
                return false;
            }
        }
        true
    }

    /// Writes what the connection takes; whether it is still there.
    fn flush(&mut self) -> bool {
        match descriptor::write(self.conn, &self.out[self.sent..]) {
            Moved::Bytes(bytes) => {
                self.sent += bytes;
                self.has_told |= self.output > 0;
            }
            Moved::None => {}
            Moved::Over => return false,
        }
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        true
    }

    /// Writes all that is left, at the end; whether that went out.
    pub(crate) fn finish(&mut self) -> bool {
        loop {
            if !self.flush() {
                return false;
            }
            if self.out.is_empty() {
                return true;
            }
            let now = Instant::now();
            if signals::is_to_end() || self.times.end.is_some_and(|end| now >= end) {
                return false;
            }
            let mut fds = [libc::pollfd { fd: self.conn, events: libc::POLLOUT, revents: 0 }];
            signals::wait(&mut fds, self.times.end.map(|end| end - now));
        }
    }
}
