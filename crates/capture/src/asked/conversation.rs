//! A connection on which the server asks: its protocol is found by the first bytes, its questions by their answers.

use super::protocol::{Fact, Outcome, Protocol, Seen};
use super::{dns, http1, http2, memcached, mysql, postgresql, redis};

/// Questions of a connection that wait for their answer; beyond, the oldest are given up.
const MOST_OPEN: usize = 1024;
/// Calls that are looked at for a protocol; one that is not known by then is none of ours.
const MOST_LOOKS: u32 = 16;

/// A call that gave bytes to a connection, or took some from it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// When, nanoseconds.
    pub at_ns: u64,
    /// The task.
    pub pid: u32,
    /// The server gave them.
    pub given: bool,
    /// How many bytes there were.
    pub length: usize,
    /// The first of them.
    pub bytes: &'a [u8],
}

/// A question, with what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Its protocol.
    pub protocol: &'static str,
    /// What was asked, without values.
    pub shape: String,
    /// The answer's status or error, where the protocol has one and it was seen; else empty.
    pub status: String,
    /// It failed.
    pub failed: bool,
    /// An answer was seen, if only its beginning.
    pub answered: bool,
    /// When the question was given, nanoseconds.
    pub asked_ns: u64,
    /// When the first bytes of its answer were taken.
    pub answered_ns: u64,
    /// The task that asked.
    pub pid: u32,
}

#[derive(Debug)]
struct Open {
    key: u64,
    shape: String,
    pid: u32,
    asked_ns: u64,
    first_ns: Option<u64>,
}

/// What is spoken.
#[derive(Debug)]
enum Speech {
    /// Not known yet, after so many calls.
    Unknown(u32),
    /// This.
    Known(Box<dyn Protocol>),
    /// Nothing that we can read.
    Foreign,
}

/// A connection, from its first call on or from any later one.
#[derive(Debug)]
pub struct Conversation {
    speech: Speech,
    whole: bool,
    open: Vec<Open>,
    last_given: (u64, u32),
    last_taken_ns: u64,
    /// Questions that were given up for want of room.
    dropped: u64,
}

impl Conversation {
    /// `whole` keeps statements and paths with their values.
    #[must_use]
    pub fn new(whole: bool) -> Self {
        Self { speech: Speech::Unknown(0), whole, open: Vec::new(), last_given: (0, 0), last_taken_ns: 0, dropped: 0 }
    }

    /// Whether nothing can be read of it, now and later.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        matches!(self.speech, Speech::Foreign)
    }

    /// Questions that were given up for want of room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Questions that wait for their answer.
    #[must_use]
    pub fn held(&self) -> usize {
        self.open.len()
    }

    /// Takes the next call; tells the questions that are over with it.
    pub fn push(&mut self, call: &Call<'_>, tell: &mut dyn FnMut(Told)) {
        let seen = Seen::new(call.bytes, call.length);
        if let Speech::Unknown(looks) = &mut self.speech {
            *looks += 1;
            let give_up = *looks >= MOST_LOOKS;
            match find(seen, call.given, self.whole) {
                Some(protocol) => self.speech = Speech::Known(protocol),
                None if give_up => self.speech = Speech::Foreign,
                None => {}
            }
        }
        let mut protocol = match std::mem::replace(&mut self.speech, Speech::Foreign) {
            Speech::Known(protocol) => protocol,
            other => {
                self.speech = other;
                self.note(call);
                return;
            }
        };
        if call.given && protocol.is_lost() && self.last_taken_ns >= self.last_given.0 {
            self.finish(protocol.name(), tell);
            protocol.resume();
        }
        let mut facts = Vec::new();
        let mut take = |fact| facts.push(fact);
        if call.given {
            protocol.given(seen, &mut take);
        } else {
            protocol.taken(seen, &mut take);
        }
        for fact in facts {
            self.fact(protocol.name(), fact, call, tell);
        }
        // A lost answer has begun nevertheless.
        if !call.given && protocol.is_lost() {
            let last_given_ns = self.last_given.0;
            let asked = self.open.iter_mut().filter(|open| open.asked_ns <= last_given_ns && open.first_ns.is_none());
            asked.for_each(|open| open.first_ns = Some(call.at_ns));
        }
        if !protocol.is_closed_to_us() {
            self.speech = Speech::Known(protocol);
        }
        self.note(call);
    }

    /// The connection is over, or is watched no longer: what waits is told as it stands.
    pub fn close(&mut self, tell: &mut dyn FnMut(Told)) {
        if let Speech::Known(protocol) = &self.speech {
            let name = protocol.name();
            self.finish(name, tell);
        }
    }

    fn note(&mut self, call: &Call<'_>) {
        if matches!(self.speech, Speech::Foreign) && self.open.is_empty() {
            return;
        }
        match call.given {
            true => self.last_given = (call.at_ns, call.pid),
            false => self.last_taken_ns = call.at_ns,
        }
    }

    fn fact(&mut self, protocol: &'static str, fact: Fact, call: &Call<'_>, tell: &mut dyn FnMut(Told)) {
        match fact {
            Fact::Asked(key, shape) => {
                // Where the answer says what was asked, that was with the last call before it.
                let (asked_ns, pid) = if call.given { (call.at_ns, call.pid) } else { self.last_given };
                if self.open.len() >= MOST_OPEN {
                    self.open.remove(0);
                    self.dropped += 1;
                }
                if asked_ns > 0 {
                    self.open.push(Open { key, shape, pid, asked_ns, first_ns: None });
                }
            }
            Fact::Begun(key) => {
                if let Some(open) = self.open.iter_mut().find(|open| open.key == key) {
                    open.first_ns = open.first_ns.or(Some(call.at_ns));
                }
            }
            Fact::Ended(key, outcome) => {
                let Some(at) = self.open.iter().position(|open| open.key == key) else { return };
                let open = self.open.remove(at);
                // Of a question that was passed over the end is told with a later answer.
                let first_ns = open.first_ns.or((!call.given).then_some(call.at_ns));
                tell(told(protocol, Open { first_ns, ..open }, outcome));
            }
        }
    }

    fn finish(&mut self, protocol: &'static str, tell: &mut dyn FnMut(Told)) {
        self.open.drain(..).for_each(|open| tell(told(protocol, open, Outcome::Unseen)));
    }
}

fn told(protocol: &'static str, open: Open, outcome: Outcome) -> Told {
    let (status, failed) = match outcome {
        Outcome::Fine(status) => (status.unwrap_or_default(), false),
        Outcome::Failed(error) => (error, true),
        Outcome::Unseen => (String::new(), false),
    };
    let Open { shape, pid, asked_ns, first_ns, .. } = open;
    let shape = if shape.is_empty() { "(an empty question)".to_owned() } else { super::shape::bounded(shape) };
    let answered_ns = first_ns.unwrap_or(asked_ns).max(asked_ns);
    Told { protocol, shape, status, failed, answered: first_ns.is_some(), asked_ns, answered_ns, pid }
}

/// The protocol that bytes are of.
fn find(seen: Seen<'_>, given: bool, whole: bool) -> Option<Box<dyn Protocol>> {
    let Seen { bytes, length } = seen;
    if !given {
        return match bytes {
            _ if mysql::greets(bytes, length) => Some(Box::new(mysql::MySql::new(true, whole))),
            _ if dns::answers(seen) => Some(Box::new(dns::Dns::default())),
            _ => None,
        };
    }
    Some(match bytes {
        _ if http2::begins(bytes) => Box::new(http2::Http2::new(whole)),
        _ if http1::begins(bytes) => Box::new(http1::Http1::new(whole)),
        _ if redis::begins(bytes) => Box::new(redis::Redis::default()),
        _ if memcached::begins(bytes) => Box::new(memcached::Memcached::default()),
        _ if postgresql::begins(bytes, length) => Box::new(postgresql::PostgreSql::new(bytes, whole)),
        _ if mysql::begins(bytes, length) => Box::new(mysql::MySql::new(false, whole)),
        _ if dns::begins(seen) => Box::new(dns::Dns::default()),
        _ => return None,
    })
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
