//! PostgreSQL's protocol, version 3 (chapter "Frontend/Backend Protocol" of its documentation).

use super::framing::{Framing, Head, Message};
use super::protocol::{Fact, Outcome, Protocol, Seen};
use crate::user_probes::{Dialect, normalised};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Statements and portals of a connection that are remembered by their names.
const MOST_NAMES: usize = 256;
/// Steps that wait for their answer on one connection; beyond, the oldest are given up.
const MOST_STEPS: usize = 1024;
/// What a statement is called that was prepared before the recording.
const OLDER: &str = "(a statement prepared before the recording)";
/// First words of a connection: version 3.0, and requests for encryption.
const VERSION: u32 = 196_608;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
/// Types of messages of a client.
const CLIENT: &[u8] = b"QPBDESCHFdcfpX";
/// The longest message that is taken for one.
const MESSAGE_BYTES_MAX: u32 = 1 << 30;

/// What the answers are to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A question in one message: over when the server is ready.
    Simple(u64),
    /// An execution: over when its command is complete.
    Execute(u64),
    /// A preparation that is not executed at once: over when the server is ready.
    Prepare(u64),
    /// The end of a batch: the server says that it is ready.
    Sync,
}

impl Step {
    fn question(self) -> Option<u64> {
        match self {
            Self::Simple(key) | Self::Execute(key) | Self::Prepare(key) => Some(key),
            Self::Sync => None,
        }
    }
}

/// How far the connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The client's first message has no type.
    Begin,
    /// Encryption was asked for: one byte answers.
    Asked,
    /// Messages.
    Open,
    /// Encrypted.
    Closed,
}

/// A connection.
#[derive(Debug)]
pub(super) struct PostgreSql {
    phase: Phase,
    given: Framing,
    taken: Framing,
    statements: FxHashMap<Vec<u8>, String>,
    portals: FxHashMap<Vec<u8>, String>,
    /// The statement that the batch under way has prepared, unless it executes something.
    prepared: Option<String>,
    steps: VecDeque<Step>,
    /// The error of the question in front, told before it is over.
    error: Option<String>,
    asked: u64,
    whole: bool,
}

/// Whether the first bytes that a client gave are of this protocol.
pub(super) fn begins(bytes: &[u8], length: usize) -> bool {
    let word = |at: usize| bytes.get(at..at + 4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    if word(0) == u32::try_from(length).ok() && length >= 8 {
        return matches!(word(4), Some(VERSION | SSL_REQUEST | GSS_REQUEST));
    }
    let mut at = 0;
    // All the messages that were seen.
    while at < bytes.len() {
        let Some(length) = word(at + 1) else { return at > 0 };
        if !CLIENT.contains(&bytes[at]) || !(4..MESSAGE_BYTES_MAX).contains(&length) {
            return false;
        }
        at += 1 + length as usize;
    }
    // Else text that begins with such a letter would do.
    let first_is_common = bytes.first().is_some_and(|first| b"QPBDES".contains(first));
    first_is_common && (at == length || bytes.len() < length)
}

impl PostgreSql {
    /// `whole` keeps statements with their values.
    pub(super) fn new(first: &[u8], whole: bool) -> Self {
        let phase = if first.first() == Some(&0) { Phase::Begin } else { Phase::Open };
        Self {
            phase,
            given: Framing::default(),
            taken: Framing::default(),
            statements: FxHashMap::default(),
            portals: FxHashMap::default(),
            prepared: None,
            steps: VecDeque::new(),
            error: None,
            asked: 0,
            whole,
        }
    }

    fn begin(&mut self, seen: Seen<'_>) {
        let word = seen.bytes.get(4..8).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        self.phase = match word {
            Some(SSL_REQUEST | GSS_REQUEST) => Phase::Asked,
            _ => Phase::Open,
        };
    }

    fn shape(&self, text: &[u8], is_cut: bool) -> String {
        let text = String::from_utf8_lossy(text);
        if self.whole {
            super::shape::bounded(text.into_owned())
        } else {
            normalised(&text, Dialect::PostgreSql, is_cut)
        }
    }

    fn ask(&mut self, shape: String, step: fn(u64) -> Step, tell: &mut dyn FnMut(Fact)) {
        let key = self.asked;
        self.asked += 1;
        self.push_step(step(key));
        tell(Fact::Asked(key, shape));
    }

    fn push_step(&mut self, step: Step) {
        if self.steps.len() >= MOST_STEPS {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
    }

    fn client(&mut self, kind: u8, body: &[u8], is_cut: bool, tell: &mut dyn FnMut(Fact)) {
        let (first, rest) = text(body);
        match kind {
            b'Q' => {
                let shape = self.shape(first, is_cut);
                self.ask(shape, Step::Simple, tell);
            }
            b'P' => {
                let statement = self.shape(text(rest).0, is_cut);
                self.prepared = Some(statement.clone());
                remember(&mut self.statements, first, statement);
            }
            b'B' => {
                let of = self.statements.get(text(rest).0).cloned();
                remember(&mut self.portals, first, of.unwrap_or_else(|| OLDER.to_owned()));
            }
            b'E' => {
                self.prepared = None;
                let shape = self.portals.get(first).cloned().unwrap_or_else(|| OLDER.to_owned());
                self.ask(shape, Step::Execute, tell);
            }
            b'S' => {
                if let Some(statement) = self.prepared.take() {
                    self.ask(format!("PREPARE {statement}"), Step::Prepare, tell);
                }
                self.push_step(Step::Sync);
            }
            b'F' => self.ask("(a function call)".to_owned(), Step::Simple, tell),
            // Passwords, copied rows, closings and descriptions are not read.
            _ => {}
        }
    }

    fn server(&mut self, kind: u8, body: &[u8], is_cut: bool, tell: &mut dyn FnMut(Fact)) {
        let front = self.steps.front().copied();
        if let Some(key) = front.and_then(Step::question).filter(|_| b"TDCIEs1HGn".contains(&kind)) {
            tell(Fact::Begun(key));
        }
        match kind {
            b'E' => {
                let code = sqlstate(body);
                match front {
                    Some(Step::Execute(key)) => {
                        self.steps.pop_front();
                        tell(Fact::Ended(key, Outcome::Failed(code)));
                    }
                    _ => self.error = Some(code),
                }
            }
            b'C' | b'I' | b's' if !is_cut => {
                if let Some(Step::Execute(key)) = front {
                    self.steps.pop_front();
                    tell(Fact::Ended(key, Outcome::Fine(None)));
                }
            }
            b'Z' => self.ready(tell),
            _ => {}
        }
    }

    /// All steps up to the end of the batch, or the question in one message, are over.
    fn ready(&mut self, tell: &mut dyn FnMut(Fact)) {
        let error = self.error.take();
        let outcome = || error.clone().map_or(Outcome::Fine(None), Outcome::Failed);
        while let Some(step) = self.steps.pop_front() {
            match step {
                Step::Simple(key) => return tell(Fact::Ended(key, outcome())),
                Step::Prepare(key) => tell(Fact::Ended(key, outcome())),
                // The server passes over what stands behind an error.
                Step::Execute(key) => tell(Fact::Ended(key, Outcome::Unseen)),
                Step::Sync => return,
            }
        }
    }
}

impl Protocol for PostgreSql {
    fn name(&self) -> &'static str {
        "postgresql"
    }

    fn given(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact)) {
        match self.phase {
            Phase::Closed => {}
            Phase::Begin | Phase::Asked => self.begin(seen),
            Phase::Open => {
                let mut given = std::mem::take(&mut self.given);
                given.push(seen, head, &mut |Message { head, body, length }| {
                    self.client(head[0], body, body.len() < length, tell);
                });
                if given.is_lost() {
                    given.reset();
                }
                self.given = given;
            }
        }
    }

    fn taken(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact)) {
        match self.phase {
            Phase::Asked => {
                self.phase = if matches!(seen.bytes.first(), Some(b'S' | b'G')) { Phase::Closed } else { Phase::Begin };
            }
            Phase::Begin | Phase::Closed => {}
            Phase::Open => {
                let mut taken = std::mem::take(&mut self.taken);
                taken.push(seen, head, &mut |message| {
                    self.server(message.head[0], message.body, message.is_cut(), tell);
                });
                // A long row whose end comes later is the answer's beginning nevertheless.
                let begun = taken.begun().is_some_and(|message| b"TDE".contains(&message.head[0]));
                if let Some(key) = self.steps.front().and_then(|step| step.question()).filter(|_| begun) {
                    tell(Fact::Begun(key));
                }
                // What follows an error was not copied: that the server is ready again will not be seen.
                if taken.is_lost() && self.error.is_some() {
                    self.ready(tell);
                }
                self.taken = taken;
            }
        }
    }

    fn is_lost(&self) -> bool {
        self.taken.is_lost()
    }

    fn resume(&mut self) {
        self.taken.reset();
        self.steps.clear();
        self.error = None;
    }

    fn is_closed_to_us(&self) -> bool {
        self.phase == Phase::Closed
    }
}

fn head(bytes: &[u8]) -> Head {
    match bytes {
        [kind, a, b, c, d] => match u32::from_be_bytes([*a, *b, *c, *d]) {
            length @ 4..MESSAGE_BYTES_MAX if kind.is_ascii_alphanumeric() => Head::Of(5, length as usize - 4),
            _ => Head::Wrong,
        },
        _ => Head::Short,
    }
}

/// A text up to its zero, and what follows.
fn text(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == 0) {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[]),
    }
}

/// The SQLSTATE of an error's fields.
fn sqlstate(mut fields: &[u8]) -> String {
    while let Some((kind, rest)) = fields.split_first().filter(|(kind, _)| **kind != 0) {
        let (value, rest) = text(rest);
        if *kind == b'C' && value.len() == 5 && value.iter().all(u8::is_ascii_alphanumeric) {
            return String::from_utf8_lossy(value).into_owned();
        }
        fields = rest;
    }
    "error".to_owned()
}

fn remember(names: &mut FxHashMap<Vec<u8>, String>, name: &[u8], text: String) {
    if names.len() < MOST_NAMES || names.contains_key(name) {
        names.insert(name.to_vec(), text);
    }
}
