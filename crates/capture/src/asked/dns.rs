//! DNS over UDP and TCP (RFC 1035): name and type of the question, and the answer's code.

use super::protocol::{Fact, Outcome, Protocol, Seen};
use std::collections::VecDeque;

/// Questions of a socket that wait for their answer.
const MOST_OPEN: usize = 64;
const HEAD_BYTES: usize = 12;
const NAME_BYTES_MAX: usize = 253;

/// A socket towards a name server.
#[derive(Debug, Default)]
pub(super) struct Dns {
    /// Numbers that the client gave, and ours.
    open: VecDeque<(u16, u64)>,
    asked: u64,
}

/// A message: its number, whether it is an answer, its code, and its question.
struct Message {
    id: u16,
    is_answer: bool,
    code: u8,
    question: String,
}

fn read(bytes: &[u8]) -> Option<Message> {
    let (head, mut rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let (is_answer, operation, code) = (head[2] & 0x80 != 0, head[2] >> 3 & 15, head[3] & 15);
    // One question, as everywhere.
    if operation != 0 || head[4..6] != [0, 1] {
        return None;
    }
    let mut name = String::new();
    loop {
        let (length, after) = rest.split_first()?;
        if *length == 0 {
            rest = after;
            break;
        }
        // No pointer can stand in the first name of a message.
        let (label, after) = after.split_at_checked(usize::from(*length))?;
        let known = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if *length > 63 || !label.iter().all(known) || name.len() + label.len() >= NAME_BYTES_MAX {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(&String::from_utf8_lossy(label).to_ascii_lowercase());
        rest = after;
    }
    let [a, b, 0, 1, ..] = rest else { return None };
    let name = if name.is_empty() { "." } else { &name };
    let question = format!("{} {name}", type_name(u16::from_be_bytes([*a, *b])));
    Some(Message { id: u16::from_be_bytes([head[0], head[1]]), is_answer, code, question })
}

/// The messages of a call: a datagram's own, or those that TCP carries, each behind its length (RFC 1035 4.2.2). Some give
/// and take that length by a call of its own: then the message comes as a datagram's does.
fn messages(seen: Seen<'_>) -> Vec<&[u8]> {
    let Seen { bytes, length } = seen;
    let (mut rest, mut left) = (bytes, length);
    let mut found = Vec::new();
    while let Some((own, after)) = rest.split_first_chunk::<2>() {
        let own = usize::from(u16::from_be_bytes(*own));
        let Some(behind) = left.checked_sub(own + 2).filter(|_| own > 0) else { break };
        found.push(&after[..after.len().min(own)]);
        (rest, left) = (after.get(own..).unwrap_or_default(), behind);
    }
    // Lengths that fit the call to its last byte are no chance; what was not copied of it had further ones.
    let is_stream = left == 0 || (rest.is_empty() && bytes.len() < length);
    if is_stream && found.first().is_some_and(|first| read(first).is_some()) { found } else { vec![bytes] }
}

/// Whether what a client gave is a question.
pub(super) fn begins(seen: Seen<'_>) -> bool {
    let is_question = |bytes: &&[u8]| read(bytes).is_some_and(|message| !message.is_answer) && bytes[6..10] == [0; 4];
    messages(seen).first().is_some_and(is_question)
}

/// Whether what a client took is an answer: of some calls that send, the bytes cannot be seen.
pub(super) fn answers(seen: Seen<'_>) -> bool {
    messages(seen).first().and_then(|bytes| read(bytes)).is_some_and(|message| message.is_answer)
}

impl Dns {
    fn ask(&mut self, message: Message, tell: &mut dyn FnMut(Fact)) -> u64 {
        let key = self.asked;
        self.asked += 1;
        if self.open.len() >= MOST_OPEN {
            self.open.pop_front();
        }
        self.open.push_back((message.id, key));
        tell(Fact::Asked(key, message.question));
        key
    }
}

impl Protocol for Dns {
    fn name(&self) -> &'static str {
        "dns"
    }

    fn given(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact)) {
        for message in messages(seen).into_iter().filter_map(read).filter(|message| !message.is_answer) {
            self.ask(message, tell);
        }
    }

    fn taken(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact)) {
        for message in messages(seen).into_iter().filter_map(read).filter(|message| message.is_answer) {
            self.answer(message, tell);
        }
    }

    fn is_lost(&self) -> bool {
        false
    }

    fn resume(&mut self) {}
}

impl Dns {
    fn answer(&mut self, message: Message, tell: &mut dyn FnMut(Fact)) {
        let code = message.code;
        let at = self.open.iter().position(|(id, _)| *id == message.id);
        let key = match at.and_then(|at| self.open.remove(at)) {
            Some((_, key)) => key,
            // The answer says itself what was asked.
            None => {
                let key = self.ask(message, tell);
                self.open.pop_back();
                key
            }
        };
        let outcome = match code {
            0 => Outcome::Fine(Some("NOERROR".to_owned())),
            code => Outcome::Failed(code_name(code)),
        };
        tell(Fact::Ended(key, outcome));
    }
}

fn type_name(number: u16) -> String {
    let known = match number {
        1 => "A",
        2 => "NS",
        5 => "CNAME",
        6 => "SOA",
        12 => "PTR",
        15 => "MX",
        16 => "TXT",
        28 => "AAAA",
        33 => "SRV",
        64 => "SVCB",
        65 => "HTTPS",
        255 => "ANY",
        other => return format!("TYPE{other}"),
    };
    known.to_owned()
}

fn code_name(code: u8) -> String {
    let known = match code {
        1 => "FORMERR",
        2 => "SERVFAIL",
        3 => "NXDOMAIN",
        4 => "NOTIMP",
        5 => "REFUSED",
        other => return format!("RCODE{other}"),
    };
    known.to_owned()
}
