//! A blocking HTTP/1.1 client for tests that look at one answer at a time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// No test waits longer for one read.
const READ_LIMIT: Duration = Duration::from_secs(10);

/// A connection that is kept open.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The header lines, as sent.
    pub headers: Vec<String>,
    /// The body, by Content-Length.
    pub body: Vec<u8>,
    /// From the first byte sent to the last one received.
    pub took: Duration,
}

impl Connection {
    /// Connects to a port on 127.0.0.1.
    pub fn open(port: u16) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, READ_LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_LIMIT))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Asks for a path.
    pub fn get(&mut self, path: &str) -> io::Result<Reply> {
        self.exchange(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes())
    }

    /// Sends bytes as they are and reads one answer.
    pub fn exchange(&mut self, request: &[u8]) -> io::Result<Reply> {
        let start = Instant::now();
        self.stream.get_mut().write_all(request)?;
        let mut reply = self.read_reply()?;
        reply.took = start.elapsed();
        Ok(reply)
    }

    /// Reads an answer that is due, such as the second of a pipeline or the one after a 1xx.
    pub fn read_reply(&mut self) -> io::Result<Reply> {
        let start = Instant::now();
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "not an HTTP answer");
        let line = self.read_line()?;
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        let status = status.and_then(|code| code.parse().ok()).ok_or_else(malformed)?;
        let mut headers = Vec::new();
        let mut length = 0;
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().map_err(|_| malformed())?;
            }
            headers.push(line);
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(Reply { status, headers, body, took: start.elapsed() })
    }

    /// Whether the server has closed the connection and sent nothing more.
    pub fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.stream.fill_buf()?.is_empty())
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        // A line that does not end is a fault of the server, not a reason to fill the memory.
        (&mut self.stream).take(64 << 10).read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
