//! The life of one connection: the handshake, one request after the other, the end.

use crate::channel::{Channel, Received};
use crate::counts::Counts;
use crate::intake::{Begun, Heard, Intake};
use crate::mounts::NoScript;
use crate::parameters::{self, NoRequest};
use crate::refusal;
use crate::relay::{Broken, Relay, poll};
use crate::shared::{Configured, Place, Shared};
use crate::trust::Untrusted;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a handshake may take, and a request from its first byte until its variables are whole.
const OPENING_PATIENCE: Duration = Duration::from_secs(10);
/// How long the end of a body is waited for behind the response.
const BODY_END_PATIENCE: Duration = Duration::from_secs(1);
/// How long a peer may take to read the rest, so that the system does not throw it away.
const LINGER: Duration = Duration::from_secs(2);
/// Looks at what a peer still sends, within that time.
const LINGER_READS_MAX: u32 = 4096;

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    channel: Channel,
    intake: Intake,
    peer: SocketAddr,
    shared: Arc<Shared>,
    /// What held for its handshake, then for its last request.
    configured: Arc<Configured>,
}

/// Whether a connection goes on behind a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    Kept,
    Closed,
}

impl Connection {
    pub(crate) fn new(socket: TcpStream, peer: SocketAddr, shared: Arc<Shared>) -> Option<Self> {
        let configured = shared.now();
        match Channel::new(socket, configured.trust.as_ref()) {
            Ok(channel) => Some(Self { channel, intake: Intake::default(), peer, shared, configured }),
            Err(error) => {
                shared.tell(&format!("connection from {peer}: TLS: {error}"));
                None
            }
        }
    }

    /// Answers all its requests.
    pub(crate) fn serve(mut self) {
        if let Err(error) = self.shake_hands() {
            Counts::add(&self.shared.counts.untrusted);
            self.shared.tell(&format!("connection from {}: TLS: {error}", self.peer));
            return self.close();
        }
        if let Err(error) = self.channel.take_early(self.intake.space()) {
            self.end_with(&error.to_string());
            return self.close();
        }
        while let Some(begun) = self.request() {
            if self.answer(&begun) == Behind::Closed {
                break;
            }
        }
        self.close();
    }

    fn shake_hands(&mut self) -> Result<(), Untrusted> {
        let until = Instant::now() + OPENING_PATIENCE;
        while !self.channel.shake_hands(self.configured.trust.as_ref())? {
            if Instant::now() >= until {
                return Err(Untrusted::Late);
            }
            if !self.wait(libc::POLLIN, until) {
                return Err(Untrusted::Gone);
            }
        }
        Ok(())
    }

    /// Waits for events of the connection; false if the program is to end.
    fn wait(&self, events: i16, until: Instant) -> bool {
        let fd = |fd, events| libc::pollfd { fd, events, revents: 0 };
        let events = if self.channel.holds_output() { events | libc::POLLOUT } else { events };
        let mut fds = [fd(self.channel.fd(), events), fd(self.shared.stop_fd(), libc::POLLIN)];
        poll(&mut fds, Some(until));
        fds[1].revents == 0
    }

    /// Waits for events of the connection, or for another configuration; false if the program is to end.
    fn wait_for_request(&self, until: Instant) -> bool {
        let fd = |fd, events| libc::pollfd { fd, events, revents: 0 };
        let events = if self.channel.holds_output() { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
        let news = fd(self.configured.superseded_fd(), libc::POLLIN);
        let mut fds = [fd(self.channel.fd(), events), fd(self.shared.stop_fd(), libc::POLLIN), news];
        poll(&mut fds, Some(until));
        fds[1].revents == 0
    }

    /// Goes by what is configured now; false if its peer would have to show anew that it is to be believed.
    fn take_up(&mut self) -> bool {
        let now = self.shared.now();
        let is_believed = now.believes_as(&self.configured);
        self.configured = now;
        is_believed
    }

    /// The variables of the next request; none if there is no further one.
    fn request(&mut self) -> Option<Begun> {
        let begun_at = Instant::now();
        let mut until = begun_at + self.configured.idle;
        let mut is_begun = false;
        loop {
            if !is_begun {
                if !self.take_up() {
                    return None;
                }
                until = begun_at + self.configured.idle;
            }
            match self.intake.open() {
                Ok(Some(begun)) => return Some(begun),
                Ok(None) => {}
                Err(error) => return self.end_with(&error.to_string()),
            }
            if !is_begun && self.intake.is_begun() {
                (is_begun, until) = (true, Instant::now() + OPENING_PATIENCE);
            }
            if Instant::now() >= until {
                return if is_begun { self.end_with("its request took too long to come") } else { None };
            }
            let goes_on = if is_begun { self.wait(libc::POLLIN, until) } else { self.wait_for_request(until) };
            if !goes_on {
                return None;
            }
            let heard = self.channel.receive(self.intake.space());
            if self.channel.push().is_err() {
                return None;
            }
            match heard {
                Ok(Received::Bytes | Received::Nothing) => {}
                Ok(Received::End) | Err(_) if !self.intake.is_begun() => return None,
                Ok(Received::End) => return self.end_with("it ended within a request"),
                Err(error) => return self.end_with(&error.to_string()),
            }
        }
    }

    /// Notes what was wrong with the connection.
    fn end_with(&self, why: &str) -> Option<Begun> {
        Counts::add(&self.shared.counts.malformed);
        self.shared.tell(&format!("connection from {}: {why}", self.peer));
        None
    }

    fn answer(&mut self, begun: &Begun) -> Behind {
        let (shared, configured) = (Arc::clone(&self.shared), Arc::clone(&self.configured));
        let counts = &shared.counts;
        Counts::add(&counts.requests);
        let rewritten = match parameters::rewrite(&begun.pairs, &configured.mounts, &configured.accept) {
            Ok(rewritten) => rewritten,
            Err(error) => {
                Counts::add(&counts.unfound);
                let status = match error {
                    NoRequest::NoScript(NoScript::Missing(..) | NoScript::Unmounted(_) | NoScript::Outside(..)) => {
                        (404, "Not Found")
                    }
                    _ => (400, "Bad Request"),
                };
                return self.refuse(begun, status, &error.to_string());
            }
        };
        let place = &configured.places[rewritten.mount];
        let Some(_permit) = Place::enter(place) else {
            Counts::add(&counts.crowded);
            let line = "all workers are busy, and `queue` is full";
            return self.refuse(begun, (503, "Service Unavailable"), line);
        };
        let runner = match connect(&place.socket) {
            Ok(runner) => runner,
            Err(error) => {
                Counts::add(&counts.broken);
                return self.refuse(begun, (502, "Bad Gateway"), &format!("no runner can be asked: {error}"));
            }
        };
        let ways = (&mut self.channel, &mut self.intake);
        let relay = Relay::new(ways, (runner, shared.stop_fd()), begun.number, &rewritten.pairs);
        match relay.run() {
            Ok(is_body_whole) => {
                Counts::add(&counts.answered);
                self.behind(begun, is_body_whole)
            }
            Err(broken) => self.broken(begun, &broken),
        }
    }

    /// Whether the connection goes on behind a whole response.
    fn behind(&mut self, begun: &Begun, is_body_whole: bool) -> Behind {
        if begun.is_kept && (is_body_whole || self.skip_body(begun.number)) { Behind::Kept } else { Behind::Closed }
    }

    fn broken(&mut self, begun: &Begun, broken: &Broken) -> Behind {
        let counts = &self.shared.counts;
        let counter = match broken {
            Broken::Gone => &counts.gone,
            Broken::Stalled => &counts.stalled,
            Broken::Malformed(_) => &counts.malformed,
            Broken::Runner { .. } => &counts.broken,
            Broken::Cut => &counts.cut,
        };
        Counts::add(counter);
        if let Broken::Runner { has_answered: false } = broken {
            return self.refuse(begun, (502, "Bad Gateway"), &broken.to_string());
        }
        self.shared.tell(&format!("request from {}: {broken}", self.peer));
        Behind::Closed
    }

    /// Answers without a script, and has both logs say why.
    fn refuse(&mut self, begun: &Begun, status: (u16, &str), line: &str) -> Behind {
        self.shared.tell(&format!("request from {}: {line}", self.peer));
        let mut out = Vec::new();
        refusal::write(begun.number, status, line, &mut out);
        if self.channel.queue(&out).is_err() {
            return Behind::Closed;
        }
        let until = Instant::now() + OPENING_PATIENCE;
        while self.channel.push().is_ok() {
            if !self.channel.holds_output() {
                return self.behind(begun, false);
            }
            if Instant::now() >= until || !self.wait(0, until) {
                break;
            }
        }
        Behind::Closed
    }

    /// Reads the rest of a body that no script takes, if it comes soon; whether it has come.
    fn skip_body(&mut self, number: u16) -> bool {
        let until = Instant::now() + BODY_END_PATIENCE;
        let mut skipped = Vec::new();
        loop {
            skipped.clear();
            match self.intake.body(number, &mut skipped) {
                Ok(Heard::BodyEnd) => return true,
                Ok(Heard::Body) => continue,
                Ok(Heard::Nothing) => {}
                Ok(Heard::Aborted) | Err(_) => return false,
            }
            if Instant::now() >= until || !self.wait(libc::POLLIN, until) {
                return false;
            }
            if !matches!(self.channel.receive(self.intake.space()), Ok(Received::Bytes | Received::Nothing)) {
                return false;
            }
        }
    }

    /// Ends the connection so that the peer can read all that was sent: a socket that is closed with bytes unread
    /// throws away what is on its way (RFC 9112 section 9.6).
    fn close(mut self) {
        self.channel.end();
        let until = Instant::now() + LINGER;
        for _ in 0..LINGER_READS_MAX {
            if !self.channel.discard() || Instant::now() >= until || !self.wait(libc::POLLIN, until) {
                break;
            }
        }
    }
}

/// A connection with a runner, which takes it when it is free.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(socket.into())
}
