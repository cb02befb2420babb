//! The connection with a server's admin address, and the lines that come over it.

use crate::admin_client::{AdminAddress, WRONG_TOKEN, encoded};
use anyhow::{Context, bail, ensure};
use std::io::{self, Read};
use std::time::{Duration, Instant};
use weir_server::{RequestFilter, WatchCategories};

/// Bytes a second without `--budget`.
pub(super) const USUAL_BUDGET: u32 = 65_536;
/// What is shown without `--show`.
pub(crate) const USUAL_CATEGORIES: &str = "network,routes,file,script,upstream,response,timing";

/// How long a server may take to answer at first.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether the user has asked for an end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Bytes of the head of the answer, and of a line.
const HEAD_BYTES_MAX: usize = 16 << 10;
const LINE_BYTES_MAX: usize = 4 << 20;

/// What is asked at an admin address.
pub(super) fn target(filter: &RequestFilter, show: WatchCategories, budget: u32) -> String {
    format!("/watch?filter={}&show={show}&budget={budget}", encoded(&filter.to_string()))
}

/// Whether it is to end.
pub(super) type Asked<'a> = &'a dyn Fn() -> bool;

/// The lines of a watch.
pub(super) struct Lines {
    stream: Box<dyn Read + Send>,
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
    /// It was asked to end, or to be read on later.
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
    pub(super) fn open(admin: &AdminAddress, target: &str, stop: Asked<'_>) -> anyhow::Result<Self> {
        let stream = admin.begin("GET", target, LOOK_EVERY)?;
        let mut lines = Self { stream, input: Vec::new(), given: 0, looked: 0 };
        lines.read_head(stop).with_context(|| admin.text().to_owned())?;
        Ok(lines)
    }

    fn read_head(&mut self, stop: Asked<'_>) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        let end = loop {
            if let Some(at) = self.input.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            ensure!(self.input.len() < HEAD_BYTES_MAX, "this is no admin address of weir serve");
            ensure!(Instant::now() < until && !stop(), "it gave no answer");
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
            "401" => bail!("{WRONG_TOKEN}"),
            "404" => bail!("the server there cannot be watched: it is of a version before `weir watch`"),
            "400" | "403" | "421" | "503" => bail!("{}", weir_report::clean(&said)),
            "200" => bail!("this is no admin address of weir serve"),
            _ => bail!("it answered with status {}", weir_report::clean(status)),
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
    pub(super) fn next(&mut self, stop: Asked<'_>) -> anyhow::Result<Next> {
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
            if stop() {
                return Ok(Next::Stopped);
            }
            if let Received::End = self.receive()? {
                return Ok(Next::Gone);
            }
        }
    }
}
