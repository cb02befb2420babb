//! An upstream whose WebSockets send back what comes. It also answers plain requests: `/bytes/N` by so many bytes, a
//! body by its length, all else by a word.

use super::frame::{self, CLOSE, PING, PONG};
use super::poll::{Buffered, Poll};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// The number of the listening socket.
const LISTENER: u64 = 0;
/// Bytes of a response that are there at once.
const PIECE_BYTES: u64 = 64 << 10;

/// It runs until it is dropped.
#[derive(Debug)]
pub struct Echo {
    addr: SocketAddr,
    open: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Listens at this address; port 0 is any that is free.
    ///
    /// # Errors
    ///
    /// What the system answers.
    pub fn start(addr: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let (open, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let poll = Poll::new()?;
        poll.add(&listener, LISTENER)?;
        let (own_open, own_stop) = (Arc::clone(&open), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("echo".to_owned()).spawn(move || {
            Loop { poll, listener, peers: HashMap::new(), next: LISTENER + 1, open: own_open }.run(&own_stop);
        })?;
        Ok(Self { addr, open, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Loop {
    poll: Poll,
    listener: TcpListener,
    peers: HashMap<u64, Peer>,
    next: u64,
    open: Arc<AtomicUsize>,
}

struct Peer {
    socket: Buffered,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// A head is awaited.
    Head,
    /// So much of a body is still to come, of so many bytes.
    Body { left: u64, of: u64 },
    /// So much of a response's body is still to be sent.
    Sending(u64),
    /// It is a WebSocket.
    Frames,
    /// It was closed in both directions.
    Closed,
}

impl Loop {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            for number in self.poll.wait(50) {
                if number == LISTENER {
                    self.accept();
                } else if let Some(peer) = self.peers.get_mut(&number)
                    && !peer.turn().unwrap_or(false)
                {
                    self.peers.remove(&number);
                }
            }
            self.open.store(self.peers.len(), Ordering::Relaxed);
        }
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let number = self.next;
                    self.next += 1;
                    let Ok(socket) = Buffered::new(stream) else { continue };
                    if self.poll.add(&socket.stream, number).is_ok() {
                        self.peers.insert(number, Peer { socket, state: State::Head });
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {}
            }
        }
    }
}

impl Peer {
    /// Does what can be done now; whether there is more to come.
    fn turn(&mut self) -> Result<bool, Box<dyn std::error::Error>> {
        while self.socket.fill()? {
            while self.step()? {}
        }
        while self.step()? {}
        self.socket.flush()?;
        while let State::Sending(_) = self.state
            && self.socket.output.is_empty()
        {
            self.step()?;
            self.socket.flush()?;
        }
        let is_over = matches!(self.state, State::Closed) || self.socket.has_ended;
        Ok(!(is_over && self.socket.output.is_empty()))
    }

    /// Goes on with what has come; whether it is worth another look.
    fn step(&mut self) -> Result<bool, Box<dyn std::error::Error>> {
        let Buffered { input, output, .. } = &mut self.socket;
        match self.state {
            State::Head => {
                let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(false) };
                let head = String::from_utf8(input.drain(..end + 4).collect())?;
                self.state = answer(&head, output);
            }
            State::Body { left, of } => {
                let taken = left.min(input.len() as u64);
                input.drain(..taken as usize);
                if taken < left {
                    self.state = State::Body { left: left - taken, of };
                    return Ok(false);
                }
                let text = of.to_string();
                output.extend_from_slice(
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).as_bytes(),
                );
                self.state = State::Head;
            }
            State::Sending(0) => self.state = State::Head,
            State::Sending(left) if output.is_empty() => {
                let bytes = left.min(PIECE_BYTES);
                output.resize(bytes as usize, b'x');
                self.state = State::Sending(left - bytes);
                return Ok(false);
            }
            State::Sending(_) | State::Closed => return Ok(false),
            State::Frames => {
                let Some(frame) = frame::read(input)? else { return Ok(false) };
                let kind = if frame.kind == PING { PONG } else { frame.kind };
                frame::write(output, kind, &frame.content, None);
                if kind == CLOSE {
                    self.state = State::Closed;
                }
            }
        }
        Ok(true)
    }
}

/// Answers a head, as far as that can be done before its body.
fn answer(head: &str, output: &mut Vec<u8>) -> State {
    let field = |name: &str| {
        let mut lines = head.split("\r\n").filter_map(|line| line.split_once(": "));
        lines.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    if field("upgrade").is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket")) {
        let accept = accept(field("sec-websocket-key").unwrap_or_default());
        output.extend_from_slice(
            format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Accept: {accept}\r\n\r\n"
            )
            .as_bytes(),
        );
        return State::Frames;
    }
    if let Some(bytes) = field("content-length").and_then(|length| length.parse().ok()) {
        return State::Body { left: bytes, of: bytes };
    }
    let target = head.split(' ').nth(1).unwrap_or_default();
    let bytes = target.rsplit_once("/bytes/").and_then(|(_, number)| number.parse::<u64>().ok());
    let (length, text) = bytes.map_or((5, "hello"), |bytes| (bytes, ""));
    output.extend_from_slice(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}").as_bytes());
    bytes.map_or(State::Head, State::Sending)
}

/// The answer to a key (RFC 6455 4.2.2), in base64.
fn accept(key: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes());
    let groups = digest.as_ref().chunks(3).flat_map(|group| {
        let at = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        (0..4).map(move |place| match place > group.len() {
            true => '=',
            false => char::from(DIGITS[(bits >> (18 - 6 * place)) as usize & 63]),
        })
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_answered_as_in_the_standard() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
