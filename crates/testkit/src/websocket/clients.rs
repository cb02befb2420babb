//! Clients of WebSocket: each sends frames with a counter and checks what comes back.

use super::frame::{self, BINARY, CLOSE, PING, PONG};
use super::poll::{Buffered, Poll};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Among so many frames one is a ping.
const PING_EVERY: u64 = 8;
/// Sockets that are opened in one round.
const OPENED_MAX: usize = 200;
/// The mask of all frames: any will do.
const MASK: [u8; 4] = [0x5a, 0xc3, 0x17, 0x9e];

/// What the clients do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server.
    pub addr: SocketAddr,
    /// The path that is asked for.
    pub path: String,
    /// Sockets that are open at once.
    pub count: usize,
    /// From one frame of a socket to the next.
    pub every: Duration,
    /// Frames of a socket before it is closed and opened anew; 0 = it stays.
    pub life: u64,
    /// Bytes of a frame, at least 8.
    pub bytes: usize,
}

/// What they have seen.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Sockets that are open now, that were opened, and that were closed as it was wanted.
    pub open: usize,
    /// All that were opened.
    pub opened: u64,
    /// Those that ended as they should.
    pub closed: u64,
    /// Frames that came back, pongs included.
    pub echoes: u64,
    /// Sockets that ended otherwise, or could not be opened.
    pub broken: u64,
    /// Why the first of these did.
    pub first: Option<String>,
}

impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { open, opened, closed, echoes, broken, first } = self;
        write!(out, "{open} open, {opened} opened, {closed} closed, {echoes} echoes, {broken} broken")?;
        first.iter().try_for_each(|why| write!(out, "; the first: {why}"))
    }
}

/// They run until they are stopped or dropped.
#[derive(Debug)]
pub struct Clients {
    counts: Arc<Mutex<Counts>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Clients {
    /// Starts a thread that opens the sockets.
    ///
    /// # Errors
    ///
    /// What the system answers.
    pub fn start(plan: Plan) -> io::Result<Self> {
        let (counts, stop) = (Arc::<Mutex<Counts>>::default(), Arc::new(AtomicBool::new(false)));
        let poll = Poll::new()?;
        let (own_counts, own_stop) = (Arc::clone(&counts), Arc::clone(&stop));
        let run = move || {
            let sockets = (0..plan.count).map(|_| None).collect();
            Loop { poll, plan, sockets, counts: own_counts, number: 0 }.run(&own_stop);
        };
        let thread = std::thread::Builder::new().name("websockets".to_owned()).spawn(run)?;
        Ok(Self { counts, stop, thread: Some(thread) })
    }

    /// What they have seen up to now.
    pub fn counts(&self) -> Counts {
        locked(&self.counts).clone()
    }

    /// Closes all sockets, and waits until the server has.
    pub fn stop(mut self) -> Counts {
        self.end();
        self.counts()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a lock guards is whole at every time.
fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Loop {
    poll: Poll,
    plan: Plan,
    sockets: Vec<Option<Socket>>,
    counts: Arc<Mutex<Counts>>,
    /// Of the next socket.
    number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The answer to the handshake is awaited.
    Opening,
    /// Nothing is awaited.
    Quiet,
    /// An echo is.
    Awaiting,
    /// The other side's close.
    Closing,
}

struct Socket {
    buffered: Buffered,
    state: State,
    /// Frames that were sent.
    sent: u64,
    /// When it does something next, or has waited too long.
    due: Instant,
}

impl Loop {
    fn run(mut self, stop: &AtomicBool) {
        let mut until = None;
        loop {
            let now = Instant::now();
            if stop.load(Ordering::Relaxed) && until.is_none() {
                until = Some(now + PATIENCE);
                self.sockets.iter_mut().flatten().for_each(|socket| socket.due = socket.due.min(now + PATIENCE));
            }
            if until.is_none() {
                self.open();
            }
            let ready = self.poll.wait(5);
            let now = Instant::now();
            let places = ready.into_iter().map(|place| place as usize).collect::<Vec<_>>();
            for place in places {
                self.turn(place, now, until.is_some());
            }
            for place in 0..self.sockets.len() {
                let is_due = |socket: &Socket| socket.due <= now || (until.is_some() && socket.state == State::Quiet);
                if self.sockets[place].as_ref().is_some_and(is_due) {
                    self.turn(place, now, until.is_some());
                }
            }
            locked(&self.counts).open = self.sockets.iter().flatten().filter(|one| one.state != State::Opening).count();
            if until.is_some_and(|until| now >= until || self.sockets.iter().all(Option::is_none)) {
                return;
            }
        }
    }

    fn open(&mut self) {
        let places = (0..self.sockets.len()).filter(|&place| self.sockets[place].is_none());
        for place in places.take(OPENED_MAX).collect::<Vec<_>>() {
            match self.connect(place) {
                Ok(socket) => self.sockets[place] = Some(socket),
                Err(error) => {
                    self.broken(&format!("it cannot be opened: {error}"));
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    fn connect(&mut self, place: usize) -> io::Result<Socket> {
        let mut buffered = Buffered::new(TcpStream::connect_timeout(&self.plan.addr, PATIENCE)?)?;
        self.poll.add(&buffered.stream, place as u64)?;
        self.number += 1;
        buffered.output = format!(
            "GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {:0>22}==\r\n\r\n",
            self.plan.path, self.number
        )
        .into_bytes();
        buffered.flush()?;
        Ok(Socket { buffered, state: State::Opening, sent: 0, due: Instant::now() + PATIENCE })
    }

    fn turn(&mut self, place: usize, now: Instant, is_last: bool) {
        let Some(socket) = &mut self.sockets[place] else { return };
        let mut counts = locked(&self.counts);
        match socket.go_on(&self.plan, &mut counts, (now, is_last)) {
            Ok(true) => {}
            Ok(false) => {
                counts.closed += 1;
                self.sockets[place] = None;
            }
            Err(why) => {
                let (state, sent) = (socket.state, socket.sent);
                drop(counts);
                self.sockets[place] = None;
                self.broken(&format!("{why} ({state:?} behind {sent} frames)"));
            }
        }
    }

    fn broken(&self, why: &str) {
        let mut counts = locked(&self.counts);
        counts.broken += 1;
        counts.first.get_or_insert_with(|| why.to_owned());
    }
}

impl Socket {
    /// Does what can be done now; false = it has ended as it should.
    fn go_on(&mut self, plan: &Plan, counts: &mut Counts, (now, is_last): (Instant, bool)) -> Result<bool, String> {
        while self.buffered.fill().map_err(|error| format!("it receives: {error}"))? {}
        while self.take(plan, counts, now)? {}
        if self.buffered.has_ended {
            let is_good = self.state == State::Closing && self.buffered.input.is_empty();
            return if is_good { Ok(false) } else { Err("the server ends it".to_owned()) };
        }
        match self.state {
            State::Quiet if is_last || (plan.life > 0 && self.sent >= plan.life) => {
                frame::write(&mut self.buffered.output, CLOSE, &1000_u16.to_be_bytes(), Some(MASK));
                (self.state, self.due) = (State::Closing, now + PATIENCE);
            }
            State::Quiet if self.due <= now => {
                let kind = if self.sent % PING_EVERY == PING_EVERY - 1 { PING } else { BINARY };
                let content = self.content(plan, kind);
                frame::write(&mut self.buffered.output, kind, &content, Some(MASK));
                (self.state, self.due) = (State::Awaiting, now + PATIENCE);
            }
            State::Quiet => {}
            _ if self.due <= now => return Err(format!("nothing has come for {PATIENCE:?}")),
            _ => {}
        }
        self.buffered.flush().map_err(|error| format!("it sends: {error}"))?;
        Ok(true)
    }

    /// What a frame has: its number, then bytes of it.
    fn content(&self, plan: &Plan, kind: u8) -> Vec<u8> {
        let mut content = self.sent.to_be_bytes().to_vec();
        let bytes = if kind == PING { 8 } else { plan.bytes.max(8) };
        content.resize(bytes, self.sent as u8);
        content
    }

    /// Takes what has come; whether there was anything.
    fn take(&mut self, plan: &Plan, counts: &mut Counts, now: Instant) -> Result<bool, String> {
        let input = &mut self.buffered.input;
        if self.state == State::Opening {
            let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(false) };
            let head: Vec<u8> = input.drain(..end + 4).collect();
            if !head.starts_with(b"HTTP/1.1 101 ") {
                return Err(format!("it is refused: {:.60}", String::from_utf8_lossy(&head)));
            }
            counts.opened += 1;
            (self.state, self.due) = (State::Quiet, now + plan.every);
            return Ok(true);
        }
        let Some(frame) = frame::read(input)? else { return Ok(false) };
        match (frame.kind, self.state) {
            (CLOSE, State::Closing) => {}
            (kind @ (BINARY | PONG), State::Awaiting) => {
                let asked = if kind == PONG { PING } else { BINARY };
                if frame.content != self.content(plan, asked) {
                    return Err(format!("frame {} comes back as another one", self.sent));
                }
                counts.echoes += 1;
                self.sent += 1;
                (self.state, self.due) = (State::Quiet, now + plan.every);
            }
            (kind, state) => return Err(format!("a frame of kind {kind} while {state:?}")),
        }
        Ok(true)
    }
}
