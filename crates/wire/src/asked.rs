//! What a server asks behind, over its connections to others.

use crate::{Kind, Record, Slot};

/// Flag of [`Kind::AskedCall`]: the server gave the bytes.
pub const GIVEN: u8 = 16;
/// Flag of [`Kind::AskedCall`]: it is no connection to something that the server asks, but one of its clients'.
const SERVED: u8 = 32;
/// Flag of [`Kind::Asked`]: no answer was seen.
const UNANSWERED: u8 = 1;
/// Flag of [`Kind::Asked`]: the answer is an error.
const FAILED: u8 = 2;

/// A [`Kind::AskedCall`]: a call on a connection to something that the server asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskedCall {
    /// The socket's short id.
    pub socket: u32,
    /// The server gave the bytes; else it took them.
    pub given: bool,
    /// The connection is one of the server's clients', who ask it.
    pub served: bool,
    /// How many there were.
    pub length: u32,
    /// The task.
    pub pid: u32,
}

impl AskedCall {
    /// The record.
    #[must_use]
    pub fn write(self, time_ns: u64, lane: u32) -> Record {
        Record {
            time_ns,
            kind: Kind::AskedCall as u16,
            flags: if self.given { GIVEN } else { 0 } | if self.served { SERVED } else { 0 },
            lane,
            a: u64::from(self.socket) | u64::from(self.length) << 32,
            b: u64::from(self.pid),
            ..Record::default()
        }
    }

    /// The call of a record, if it is one.
    #[must_use]
    pub fn read(record: &Record) -> Option<Self> {
        let (socket, length) = record.a_halves();
        (record.kind == Kind::AskedCall as u16).then_some(Self {
            socket,
            given: record.flags & GIVEN != 0,
            served: record.flags & SERVED != 0,
            length,
            pid: record.b as u32,
        })
    }
}

/// A [`Kind::Asked`]: a question that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The socket's short id.
    pub socket: u32,
    /// The dictionary id of protocol, shape and status, with tabs between.
    pub name: u32,
    /// The answer is an error.
    pub failed: bool,
    /// An answer was seen.
    pub answered: bool,
    /// When the question was given, nanoseconds.
    pub asked_ns: u64,
    /// When the first bytes of its answer were taken.
    pub answered_ns: u64,
    /// The task that asked.
    pub pid: u32,
}

impl Question {
    /// The record and its slot.
    #[must_use]
    pub fn write(self, time_ns: u64) -> (Record, [Slot; 1]) {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let record = Record {
            time_ns,
            kind: Kind::Asked as u16,
            flags: flag(!self.answered, UNANSWERED) | flag(self.failed, FAILED),
            slots: 1,
            a: self.asked_ns,
            b: u64::from(self.name) | u64::from(self.socket) << 32,
            ..Record::default()
        };
        (record, [[self.answered_ns, u64::from(self.pid), 0, 0]])
    }

    /// The question of a record, if it is one.
    #[must_use]
    pub fn read(record: &Record, slots: &[Slot]) -> Option<Self> {
        if record.kind != Kind::Asked as u16 {
            return None;
        }
        let [answered_ns, pid, ..] = *slots.first()?;
        Some(Self {
            socket: (record.b >> 32) as u32,
            name: record.b as u32,
            failed: record.flags & FAILED != 0,
            answered: record.flags & UNANSWERED == 0,
            asked_ns: record.a,
            answered_ns,
            pid: pid as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn calls_and_questions_come_back(
            socket: u32, length: u32, pid: u32, name: u32, flags: [bool; 3], asked_ns: u64, answered_ns: u64,
        ) {
            let [given, answered, served] = flags;
            let call = AskedCall { socket, given, served, length, pid };
            prop_assert_eq!(AskedCall::read(&call.write(7, 3)), Some(call));
            let question = Question { socket, name, failed: given, answered, asked_ns, answered_ns, pid };
            let (record, slots) = question.write(9);
            prop_assert_eq!(Question::read(&record, &slots), Some(question));
            prop_assert!(Question::read(&record, &[]).is_none() && AskedCall::read(&record).is_none());
        }
    }
}
