//! The connection with a server's admin address, and the lines that come over it.

use anyhow::{Context, bail, ensure};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use weir_terminal::stop::Stop;

/// How long a server may take to answer at first.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether the user has asked for an end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Bytes of the head of the answer, and of a line.
const HEAD_BYTES_MAX: usize = 16 << 10;
const LINE_BYTES_MAX: usize = 4 << 20;

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// The lines of a watch.
pub(super) struct Lines {
    stream: Box<dyn Stream>,
    input: Vec<u8>,
    /// Bytes of it that were given out, and of those behind them that hold no end of a line.
    given: usize,
    looked: usize,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Next {
    /// A line, without its end.
    Line(String),
    /// The user has asked for an end.
    Stopped,
    /// Nothing more comes.
    Gone,
}

/// What was received.
enum Received {
    Some,
    Nothing,
    End,
}

impl Lines {
    /// Asks a server for what is watched.
    pub(super) fn open(admin: &str, target: &str, token: Option<&str>, stop: &Stop) -> anyhow::Result<Self> {
        let mut stream = connect(admin)?;
        let token = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        write!(stream, "GET {target} HTTP/1.1\r\nHost: weir\r\n{token}\r\n").with_context(|| admin.to_owned())?;
        let mut lines = Self { stream, input: Vec::new(), given: 0, looked: 0 };
        lines.read_head(stop).with_context(|| admin.to_owned())?;
        Ok(lines)
    }

    fn read_head(&mut self, stop: &Stop) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        let end = loop {
            if let Some(at) = self.input.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            ensure!(self.input.len() < HEAD_BYTES_MAX, "this is no admin address of weir serve");
            ensure!(Instant::now() < until && !stop.asked(), "it gave no answer");
            if let Received::End = self.receive()? {
                bail!("it gave no answer");
            }
        };
        let head = String::from_utf8_lossy(&self.input[..end]).into_owned();
        let status = head.split(' ').nth(1).unwrap_or_default();
        if status == "200" && head.contains("application/x-ndjson") {
            self.given = end;
            return Ok(());
        }
        // What it says stands in the body, of a few lines.
        while Instant::now() < until && self.input.len() < HEAD_BYTES_MAX && !matches!(self.receive()?, Received::End) {
        }
        let said = String::from_utf8_lossy(&self.input[end..]).trim().to_owned();
        match status {
            "401" => bail!("the token is missing or wrong; give its file by --token FILE"),
            "404" => bail!("the server there cannot be watched: it is of a version before `weir watch`"),
            "400" | "503" => bail!("{}", super::text::plain(&said)),
            "200" => bail!("this is no admin address of weir serve"),
            _ => bail!("it answered with status {}", super::text::plain(status)),
        }
    }

    fn receive(&mut self) -> io::Result<Received> {
        let mut piece = [0; 16 << 10];
        match self.stream.read(&mut piece) {
            Ok(0) => Ok(Received::End),
            Ok(read) => {
                self.input.extend_from_slice(&piece[..read]);
                Ok(Received::Some)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => {
                    Ok(Received::Nothing)
                }
                io::ErrorKind::ConnectionReset => Ok(Received::End),
                _ => Err(error),
            },
        }
    }

    /// The next line.
    pub(super) fn next(&mut self, stop: &Stop) -> anyhow::Result<Next> {
        loop {
            let from = self.given + self.looked;
            if let Some(at) = self.input[from..].iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&self.input[self.given..from + at]).into_owned();
                (self.given, self.looked) = (from + at + 1, 0);
                return Ok(Next::Line(line));
            }
            self.input.drain(..self.given);
            (self.given, self.looked) = (0, self.input.len());
            ensure!(self.input.len() < LINE_BYTES_MAX, "the server sent a line of more than 4 MiB");
            if stop.asked() {
                return Ok(Next::Stopped);
            }
            if let Received::End = self.receive()? {
                return Ok(Next::Gone);
            }
        }
    }
}

fn connect(admin: &str) -> anyhow::Result<Box<dyn Stream>> {
    let silent = || format!("{admin}: no server answers there");
    if let Some(path) = admin.strip_prefix("unix:") {
        let stream = UnixStream::connect(path).with_context(silent)?;
        stream.set_read_timeout(Some(LOOK_EVERY))?;
        return Ok(Box::new(stream));
    }
    let addr = admin.strip_prefix("http://").map_or(admin, |addr| addr.trim_end_matches('/'));
    let addr: SocketAddr = addr.parse().ok().with_context(|| {
        format!("--admin {admin} is neither unix:PATH nor ADDRESS:PORT; write unix:admin.sock or 127.0.0.1:9100")
    })?;
    let stream = TcpStream::connect_timeout(&addr, PATIENCE).with_context(silent)?;
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    Ok(Box::new(stream))
}

/// A text as a part of a query.
pub(super) fn encoded(text: &str) -> String {
    let each = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' | b':' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(each).collect()
}
