//! A client of the agent's socket: what the command and others ask through.

use crate::protocol::{Answer, Ask, SOCKET_NAME};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer that is taken in, bytes.
const MOST_ANSWER_BYTES: usize = 256 << 20;
/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// Why the agent could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// No agent listens there.
    #[error(
        "no agent listens in {directory}: start one with `weir agent` (as root for all programs of this host, else for \
         your own), or name the directory of one that runs by --directory or WEIR_ARM_DIR"
    )]
    NoAgent {
        /// Where one was looked for.
        directory: PathBuf,
    },
    /// It may not be connected to.
    #[error("{socket}: the agent may not be asked by this user; ask as the user that it runs as, or as root")]
    NotAllowed {
        /// Its socket.
        socket: PathBuf,
    },
    /// The connection failed.
    #[error("{socket}: the agent cannot be asked: {source}")]
    Socket {
        /// Its socket.
        socket: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It ended, or closed the connection.
    #[error("{socket}: the agent has ended, or closed the connection")]
    Ended {
        /// Its socket.
        socket: PathBuf,
    },
    /// It does not answer.
    #[error("{socket}: the agent has not answered within {} s", PATIENCE.as_secs())]
    Late {
        /// Its socket.
        socket: PathBuf,
    },
    /// What it says is not understood.
    #[error("{socket}: the agent's answer is not understood ({why}); it is of another version: start it anew")]
    NotUnderstood {
        /// Its socket.
        socket: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// A connection to an agent.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    socket: PathBuf,
    /// What came and was not taken yet.
    came: Vec<u8>,
    /// So much of it holds no line's end.
    searched: usize,
}

impl Connection {
    /// Connects to the agent of an ARM directory.
    ///
    /// # Errors
    /// If no agent listens there, or this user may not ask it.
    pub fn open(directory: &Path) -> Result<Self, ConnectionError> {
        let socket = directory.join(SOCKET_NAME);
        match UnixStream::connect(&socket) {
            Ok(stream) => Ok(Self { stream, socket, came: Vec::new(), searched: 0 }),
            Err(error) => Err(match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::NotADirectory => {
                    ConnectionError::NoAgent { directory: directory.to_owned() }
                }
                ErrorKind::PermissionDenied => ConnectionError::NotAllowed { socket },
                _ => ConnectionError::Socket { socket, source: error },
            }),
        }
    }

    /// Asks a question and waits for its answer; a refusal is an answer, too.
    ///
    /// # Errors
    /// If the connection fails or no answer comes that is understood.
    pub fn ask(&mut self, ask: &Ask) -> Result<Answer, ConnectionError> {
        self.send(ask)?;
        self.receive(Some(PATIENCE))?.ok_or_else(|| ConnectionError::Late { socket: self.socket.clone() })
    }

    /// Asks a question whose answers [`Connection::receive`] gives.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn send(&mut self, ask: &Ask) -> Result<(), ConnectionError> {
        let mut line = serde_json::to_vec(ask).map_err(|error| self.not_understood(&error.to_string()))?;
        line.push(b'\n');
        self.stream.write_all(&line).map_err(|error| self.failed(error))
    }

    /// The next answer; `None` if none came in time. Without a patience it is waited for.
    ///
    /// # Errors
    /// If the connection fails or ends, or what comes is not understood.
    pub fn receive(&mut self, patience: Option<Duration>) -> Result<Option<Answer>, ConnectionError> {
        let end = patience.map(|patience| Instant::now() + patience);
        loop {
            if let Some(length) = self.came[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.came.drain(..=self.searched + length).collect();
                self.searched = 0;
                let answer = serde_json::from_slice(&line);
                return answer.map(Some).map_err(|error| self.not_understood(&error.to_string()));
            }
            self.searched = self.came.len();
            if self.came.len() > MOST_ANSWER_BYTES {
                return Err(self.not_understood("its line does not end"));
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            self.stream.set_read_timeout(left).map_err(|error| self.failed(error))?;
            self.read_piece()?;
        }
    }

    /// Reads what is there, or nothing if the time is up.
    fn read_piece(&mut self) -> Result<(), ConnectionError> {
        let mut piece = [0; PIECE];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(ConnectionError::Ended { socket: self.socket.clone() }),
            Ok(length) => {
                self.came.extend_from_slice(&piece[..length]);
                Ok(())
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                Ok(())
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, source: io::Error) -> ConnectionError {
        let socket = self.socket.clone();
        match source.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => ConnectionError::Ended { socket },
            _ => ConnectionError::Socket { socket, source },
        }
    }

    fn not_understood(&self, why: &str) -> ConnectionError {
        ConnectionError::NotUnderstood { socket: self.socket.clone(), why: why.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    /// A server that answers each line with the next of these texts, unchanged.
    fn answering(directory: &Path, answers: &'static [&'static str]) -> std::thread::JoinHandle<()> {
        let listener = UnixListener::bind(directory.join(SOCKET_NAME)).expect("a socket");
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client");
            let mut lines = BufReader::new(stream.try_clone().expect("a second handle")).lines();
            for answer in answers {
                lines.next().expect("a question").expect("a line");
                (&stream).write_all(answer.as_bytes()).expect("it listens");
            }
        })
    }

    #[test]
    fn answers_come_in_pieces_and_in_a_row() {
        let folder = tempfile::tempdir().expect("a folder");
        let missed = "{\"answer\":\"missed\",\"transactions\":2}\n{\"answer\":\"missed\",\"transactions\":3}\n{\"ans";
        let answers: &[&str] = &[missed, "wer\":\"error\",\"message\":\"no\"}\n", "x\n"];
        let server = answering(folder.path(), Box::leak(answers.to_vec().into_boxed_slice()));
        let mut connection = Connection::open(folder.path()).expect("it listens");
        assert_eq!(connection.ask(&Ask::Status).expect("an answer"), Answer::Missed { transactions: 2 });
        let next = connection.receive(Some(Duration::from_secs(5))).expect("an answer");
        assert_eq!(next, Some(Answer::Missed { transactions: 3 }));
        assert_eq!(connection.receive(Some(Duration::from_millis(20))).expect("half of one"), None);
        assert_eq!(connection.ask(&Ask::List).expect("a refusal"), Answer::Error { message: "no".into() });
        assert!(matches!(connection.ask(&Ask::List), Err(ConnectionError::NotUnderstood { .. })));
        server.join().expect("it ends");
        assert!(matches!(connection.receive(None), Err(ConnectionError::Ended { .. })));
    }

    #[test]
    fn the_error_without_an_agent_says_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = Connection::open(folder.path()).expect_err("no agent listens");
        assert!(matches!(error, ConnectionError::NoAgent { .. }) && error.to_string().contains("weir agent"));
        // An agent that was killed leaves its socket.
        drop(UnixListener::bind(folder.path().join(SOCKET_NAME)).expect("a socket"));
        assert!(matches!(Connection::open(folder.path()), Err(ConnectionError::NoAgent { .. })));
        assert!(matches!(Connection::open(Path::new("/dev/null")), Err(ConnectionError::NoAgent { .. })));
    }
}
