//! Answers that break the protocol in one way each, for the tests of clients.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::blocking::{each_connection, next_head, next_request};
use crate::http::{self, Inbox};
use crate::options::{Failure, Options};

/// How long a request that gets no answer is held.
const UNANSWERED: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Half of the promised body, then the end of the stream.
    CloseInBody,
    /// A reset instead of an answer, as soon as the connection is there.
    Reset,
    /// The request is read and nothing comes.
    Never,
    /// 413 to a POST when its head has come, its body unread.
    Early,
    /// Bytes that are no HTTP.
    Garbage,
    /// A chunk that announces more than comes, then the end of the stream.
    TruncatedChunked,
    /// A Content-Length larger than the body; the connection stays open.
    LongLength,
    /// A Content-Length smaller than the body; the rest looks like the next answer.
    ShortLength,
    /// 100 and 103 before the final answer, which is a good one.
    Informational,
    /// Each third request of a connection is taken in, and 10 ms later the connection closes.
    CloseUnanswered,
}

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let name = options.word("KIND")?;
    let kind = match name.as_str() {
        "close-in-body" => Kind::CloseInBody,
        "reset" => Kind::Reset,
        "never" => Kind::Never,
        "early" => Kind::Early,
        "garbage" => Kind::Garbage,
        "truncated-chunked" => Kind::TruncatedChunked,
        "long-length" => Kind::LongLength,
        "short-length" => Kind::ShortLength,
        "informational" => Kind::Informational,
        "close-unanswered" => Kind::CloseUnanswered,
        other => return Err(Failure::Usage(format!("there is no kind `{other}`"))),
    };
    let listener = options.listen()?;
    each_connection(&listener, move |stream| kind.talk(stream))?;
    Ok(())
}

impl Kind {
    fn talk(self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        if matches!(self, Self::Reset) {
            return reset(&stream);
        }
        let mut inbox = Inbox::default();
        if matches!(self, Self::Early) {
            return answer_early(stream, &mut inbox);
        }
        let mut answered = 0;
        while let Some(request) = next_request(&mut stream, &mut inbox)? {
            match self {
                Self::Never => continue,
                Self::CloseUnanswered if answered < 2 => {
                    answered += 1;
                    stream.write_all(&http::ok(&request))?;
                    continue;
                }
                Self::CloseUnanswered => std::thread::sleep(UNANSWERED),
                Self::Informational => {
                    stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                    stream.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")?;
                    stream.write_all(&http::ok(&request))?;
                    continue;
                }
                _ => stream.write_all(self.broken_answer())?,
            }
            if !matches!(self, Self::LongLength | Self::ShortLength) {
                break;
            }
        }
        Ok(())
    }

    fn broken_answer(self) -> &'static [u8] {
        match self {
            Self::CloseInBody => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
            Self::Garbage => b"\x16\x03\x01 this is not what you asked for\r\n\r\n",
            Self::TruncatedChunked => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n40\r\nwor",
            Self::LongLength => b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello",
            Self::ShortLength => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello",
            Self::Reset | Self::Never | Self::Early | Self::Informational | Self::CloseUnanswered => b"",
        }
    }
}

/// Closes so that the client gets a reset instead of the end of the stream.
fn reset(stream: &TcpStream) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the kernel reads the structure within the size given.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn answer_early(mut stream: TcpStream, inbox: &mut Inbox) -> io::Result<()> {
    while let Some(mut request) = next_head(&mut stream, inbox)? {
        if request.body_length == 0 {
            stream.write_all(&http::ok(&request))?;
            continue;
        }
        request.keep_alive = false;
        stream.write_all(&http::answer(&request, "413 Content Too Large", "too large\n"))?;
        // To close with unread bytes would send a reset, which may overtake the answer: so the
        // rest is read for a while, as proper servers do.
        stream.shutdown(Shutdown::Write)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut buffer = [0; 16 << 10];
        for _ in 0..1024 {
            if stream.read(&mut buffer)? == 0 {
                break;
            }
        }
        break;
    }
    Ok(())
}
