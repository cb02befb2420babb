//! What a probe in a program means, as the dictionary's text tells it.

/// A phase of the server's work begins: the task is in it until its next mark of the same server.
pub const PHASE: u16 = 1;
/// The phase ends, and none begins.
pub const END: u16 = 2;
/// A query begins, with the text that follows; with no text (argument 0) it ends.
pub const QUERY: u16 = 4;
/// A query ends.
pub const QUERY_END: u16 = 8;
/// A request begins, with its name in the text that follows.
pub const REQUEST: u16 = 16;
/// A task has many requests at a time, so that a mark is for the one that it is at.
pub const INTERLEAVED: u16 = 32;
/// A probe by hand: it counts for a response only from its first hit within it.
pub const BY_HAND: u16 = 64;
/// The task begins to wait for a lock that its server keeps by itself; with [`END`] it has it, or has given up. No phase
/// begins or ends there.
pub const LOCK: u16 = 128;
/// The server tells of something that it does, in the text that follows. It belongs to no request, and no phase begins.
pub const REMARK: u16 = 256;
/// The phase lasts also while other tasks work for this one: what they do meanwhile is in it, too.
pub const SPANNING: u16 = 512;
/// Not the task is meant but what it carries, whose number is the argument: a goroutine, which goes from thread to thread.
pub const CARRIED: u16 = 1024;
/// A sleep begins; with [`END`] its time is over. No phase begins or ends there.
pub const SLEEP: u16 = 2048;

/// Flag of [`crate::Kind::ProbeHit`]: not the running task is meant but the one whose number is the argument, and its
/// application has told.
pub const BY_APPLICATION: u8 = 1;
/// Flag of [`crate::Kind::ProbeHit`]: the phase was interrupted by another one and goes on.
pub const GOES_ON: u8 = 2;

/// The names of the roles, by their bits.
const NAMES: [&str; 12] = [
    "phase",
    "end",
    "query",
    "query_end",
    "request",
    "interleaved",
    "by_hand",
    "lock",
    "remark",
    "spanning",
    "carried",
    "sleep",
];

/// What a probe stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbePoint {
    /// Whose work it is, such as `apache`.
    pub server: String,
    /// What begins there, such as `process request`.
    pub name: String,
    /// What a hit means, bits of [`PHASE`] and its neighbours.
    pub roles: u16,
}

impl ProbePoint {
    /// The text of the dictionary: server, name and the names of the roles, with tabs between.
    #[must_use]
    pub fn write(&self) -> String {
        let roles = NAMES.iter().enumerate().filter(|(bit, _)| self.roles >> bit & 1 == 1).map(|(_, name)| *name);
        let clean = |text: &str| text.replace(['\t', '\n'], " ");
        format!("{}\t{}\t{}", clean(&self.server), clean(&self.name), roles.collect::<Vec<_>>().join(" "))
    }

    /// Reads what [`ProbePoint::write`] wrote; roles that are not known are left out.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut pieces = text.splitn(3, '\t');
        let (server, name, roles) = (pieces.next()?, pieces.next()?, pieces.next()?);
        let bit = |role: &str| NAMES.iter().position(|name| *name == role).map_or(0, |bit| 1u16 << bit);
        let roles = roles.split(' ').map(bit).fold(0, |roles, bit| roles | bit);
        Some(Self { server: server.to_owned(), name: name.to_owned(), roles })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_known_is_left_out() {
        let point = ProbePoint::read("a\tb c\tphase telepathy query").expect("a point");
        assert_eq!(point, ProbePoint { server: "a".to_owned(), name: "b c".to_owned(), roles: PHASE | QUERY });
        assert_eq!(ProbePoint::read("a\tb"), None);
    }

    proptest! {
        #[test]
        fn points_come_back(server in "[a-z ]{0,9}", name in "[A-Za-z_:. ]{0,30}", roles in 0u16..4096) {
            let point = ProbePoint { server, name, roles };
            prop_assert_eq!(ProbePoint::read(&point.write()), Some(point));
        }

        #[test]
        fn no_text_breaks_it(text in ".{0,50}") {
            let _ = ProbePoint::read(&text);
        }
    }
}
