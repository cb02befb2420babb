//! The protocol of MySQL and MariaDB ("Client/Server Protocol" in the documentation of both).

use super::framing::{Framing, Head, Message};
use super::protocol::{Fact, Outcome, Protocol, Seen, Turns};
use crate::user_probes::{Dialect, normalised};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Statements of a connection that are remembered by their numbers.
const MOST_STATEMENTS: usize = 256;
/// Preparations that wait for their answer.
const MOST_PREPARING: usize = 256;
/// What a statement is called that was prepared before the recording.
const OLDER: &str = "(a statement prepared before the recording)";
/// Commands that ask something.
const QUIT: u8 = 0x01;
const INIT_DB: u8 = 0x02;
const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const LONG_DATA: u8 = 0x18;
const CLOSE: u8 = 0x19;
/// By this number MariaDB's client executes what it has prepared last.
const LAST_PREPARED: u32 = u32::MAX;
/// Capabilities that a client asks for in its first message.
const COMPRESS: u32 = 1 << 5;
const SSL: u32 = 1 << 11;
const QUERY_ATTRIBUTES: u32 = 1 << 27;
/// The protocol's version in the server's greeting.
const GREETING: u8 = 10;
const NO_ERROR: u8 = 0;
const ERROR: u8 = 0xff;

/// How far the connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The server has greeted, and the client is to say who it is.
    Greeted,
    /// The client has said it, and waits to be let in.
    LogsIn,
    /// Commands.
    Open,
    /// Encrypted or compressed.
    Closed,
}

/// A connection.
#[derive(Debug)]
pub(super) struct MySql {
    phase: Phase,
    given: Framing,
    taken: Framing,
    statements: FxHashMap<u32, String>,
    /// Preparations that wait for their number: that of the question, and the shape.
    preparing: VecDeque<(u64, String)>,
    last: Option<String>,
    /// Whether queries have their attributes before their text, where the client's first message was seen.
    attributes: Option<bool>,
    turns: Turns,
    whole: bool,
}

/// Whether the first bytes that a server gave are its greeting.
pub(super) fn greets(bytes: &[u8], length: usize) -> bool {
    matches!(bytes, [a, b, 0, 0, GREETING, version, ..]
        if usize::from(*a) + usize::from(*b) * 256 + 4 == length && version.is_ascii_digit())
}

/// Whether bytes that a client gave are a command by themselves.
pub(super) fn begins(bytes: &[u8], length: usize) -> bool {
    let [a, b, c, 0, command, ..] = bytes else { return false };
    let body = usize::from(*a) + usize::from(*b) * 256 + usize::from(*c) * 65_536;
    let fits = match *command {
        QUERY | PREPARE => body > 4 && bytes[5..].iter().take(8).any(u8::is_ascii_alphabetic),
        EXECUTE => body >= 10,
        0x0e => body == 1,
        INIT_DB => body > 1 && bytes[5..].iter().all(|byte| !byte.is_ascii_control()),
        _ => false,
    };
    fits && body + 4 <= length
}

impl MySql {
    /// Of a connection whose beginning was seen, or not; `whole` keeps statements with their values.
    pub(super) fn new(from_beginning: bool, whole: bool) -> Self {
        Self {
            phase: if from_beginning { Phase::Greeted } else { Phase::Open },
            given: Framing::default(),
            taken: Framing::default(),
            statements: FxHashMap::default(),
            preparing: VecDeque::new(),
            last: None,
            attributes: None,
            turns: Turns::default(),
            whole,
        }
    }

    fn shape(&self, text: &[u8], is_cut: bool) -> String {
        let text = String::from_utf8_lossy(text);
        if self.whole { super::shape::bounded(text.into_owned()) } else { normalised(&text, Dialect::MySql, is_cut) }
    }

    fn logs_in(&mut self, body: &[u8]) {
        let capabilities = body.get(..4).map_or(0, |word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        self.phase = if capabilities & (SSL | COMPRESS) == 0 { Phase::LogsIn } else { Phase::Closed };
        self.attributes = Some(capabilities & QUERY_ATTRIBUTES != 0);
    }

    /// The text of a query: behind its attributes, of which none are given as a rule.
    fn query_text<'a>(&self, body: &'a [u8]) -> &'a [u8] {
        match body {
            [0, 1, text @ ..] if self.attributes.unwrap_or(true) => text,
            _ => body,
        }
    }

    fn ask(&mut self, shape: String, tell: &mut dyn FnMut(Fact)) -> u64 {
        let key = self.turns.ask();
        tell(Fact::Asked(key, shape));
        key
    }

    fn client(&mut self, sequence: u8, body: &[u8], is_cut: bool, tell: &mut dyn FnMut(Fact)) {
        match self.phase {
            Phase::Greeted => return self.logs_in(body),
            Phase::Open => {}
            Phase::LogsIn | Phase::Closed => return,
        }
        // Further packets of a command count on.
        let Some((command, rest)) = body.split_first().filter(|_| sequence == 0) else { return };
        match *command {
            QUERY => {
                let shape = self.shape(self.query_text(rest), is_cut);
                self.ask(shape, tell);
            }
            PREPARE => {
                let shape = self.shape(rest, is_cut);
                let key = self.ask(format!("PREPARE {shape}"), tell);
                self.last = Some(shape.clone());
                if self.preparing.len() < MOST_PREPARING {
                    self.preparing.push_back((key, shape));
                }
            }
            EXECUTE => {
                let number = rest.get(..4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
                let known = match number {
                    Some(LAST_PREPARED) => self.last.clone(),
                    Some(number) => self.statements.get(&number).cloned(),
                    None => None,
                };
                self.ask(known.unwrap_or_else(|| OLDER.to_owned()), tell);
            }
            CLOSE => {
                let number = rest.get(..4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
                number.and_then(|number| self.statements.remove(&number));
            }
            // These have no answer.
            QUIT | LONG_DATA => {}
            other => drop(self.ask(command_name(other).to_owned(), tell)),
        }
    }

    fn server(&mut self, sequence: u8, body: &[u8], tell: &mut dyn FnMut(Fact)) {
        let first = body.first().copied();
        if self.phase == Phase::LogsIn {
            // Let in, or refused; else it asks for more of the client.
            if matches!(first, Some(NO_ERROR | ERROR)) {
                self.phase = Phase::Open;
            }
            return;
        }
        // Packets of an answer are counted from one on.
        let Some(key) = self.turns.front().filter(|_| sequence == 1 && self.phase == Phase::Open) else { return };
        let prepared = self.preparing.front().is_some_and(|(asked, _)| *asked == key);
        let prepared = if prepared { self.preparing.pop_front() } else { None };
        if let (Some((_, shape)), Some(NO_ERROR), Some(word)) = (prepared, first, body.get(1..5)) {
            let number = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            if self.statements.len() < MOST_STATEMENTS || self.statements.contains_key(&number) {
                self.statements.insert(number, shape);
            }
        }
        self.turns.end();
        let outcome = if first == Some(ERROR) { Outcome::Failed(error(body)) } else { Outcome::Fine(None) };
        tell(Fact::Ended(key, outcome));
    }
}

impl Protocol for MySql {
    fn name(&self) -> &'static str {
        "mysql"
    }

    fn given(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact)) {
        let mut given = std::mem::take(&mut self.given);
        given.push(seen, head, &mut |Message { head, body, length }| {
            self.client(head[3], body, body.len() < length, tell);
        });
        if given.is_lost() {
            given.reset();
        }
        self.given = given;
    }

    fn taken(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact)) {
        if self.phase == Phase::Greeted {
            return;
        }
        let mut taken = std::mem::take(&mut self.taken);
        taken.push(seen, head, &mut |message| self.server(message.head[3], message.body, tell));
        self.taken = taken;
    }

    fn is_lost(&self) -> bool {
        self.taken.is_lost()
    }

    fn resume(&mut self) {
        self.taken.reset();
        self.turns.clear();
        self.preparing.clear();
    }

    fn is_closed_to_us(&self) -> bool {
        self.phase == Phase::Closed
    }
}

fn head(bytes: &[u8]) -> Head {
    match bytes {
        [a, b, c, _] => Head::Of(4, usize::from(*a) + usize::from(*b) * 256 + usize::from(*c) * 65_536),
        _ => Head::Short,
    }
}

fn command_name(command: u8) -> &'static str {
    match command {
        INIT_DB => "USE ?",
        0x04 => "(a list of fields)",
        0x09 => "(statistics)",
        0x0e => "PING",
        0x11 => "(another user)",
        0x1a => "(a statement is reset)",
        0x1b => "(an option is set)",
        0x1c => "FETCH",
        0x1f => "(the connection is reset)",
        _ => "(another command)",
    }
}

/// The code of an error, as the clients show it, with its SQLSTATE where it has one.
fn error(body: &[u8]) -> String {
    let code = body.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
    match body.get(3..9) {
        Some([b'#', state @ ..]) if state.iter().all(u8::is_ascii_alphanumeric) => {
            format!("{code} ({})", String::from_utf8_lossy(state))
        }
        _ => code.to_string(),
    }
}
