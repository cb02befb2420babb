//! What the server's tasks asked others over sockets, and for whose request.
//!
//! A question's parent is the client's connection that its task was at: so far as wake-ups, reads and answers tell it. Where
//! they do not, the question has no parent, and is told as such.

use crate::join::{AtServer, Joiner, Response};
use crate::known::Known;
use crate::tasks::{Touch, Verb};
use std::net::SocketAddr;

/// How many servers may ask each other for one request.
const MOST_DEPTH: usize = 8;

/// A question over a TCP connection that the server made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The server's end of the connection.
    pub local: SocketAddr,
    /// Whom it asked.
    pub remote: SocketAddr,
    /// When the first piece of it was sent, nanoseconds.
    pub asked_ns: u64,
}

impl Joiner {
    /// The questions that were asked for a response, in the order of time. While it is told only: later it may be forgotten.
    #[must_use]
    pub fn questions(&self, response: &Response<'_>) -> Vec<Question> {
        let Some(server) = response.server else { return Vec::new() };
        let Some(own) = self.taken_from(server) else { return Vec::new() };
        self.asked(server, |root| root == own)
    }

    fn taken_from(&self, server: AtServer) -> Option<u32> {
        let at_ns = server.picked_ns;
        let taken = |touch: &&Touch| touch.server_side && touch.verb == Verb::Receive;
        self.tasks.serving().find_map(|pid| self.tasks.touches(pid, at_ns, at_ns + 1).find(taken)).map(|one| one.socket)
    }

    fn asked(&self, server: AtServer, is_own: impl Fn(u32) -> bool) -> Vec<Question> {
        let known = self.known();
        let mut questions = Vec::new();
        for pid in self.tasks.serving() {
            let mut last = None;
            for touch in self.tasks.touches(pid, server.picked_ns, server.sent_ns.saturating_add(1)) {
                let asks = !touch.server_side && touch.verb == Verb::Send;
                // What follows at once at the same socket is another piece.
                if asks && last != Some((touch.socket, Verb::Send)) && is_own(root(known, touch)) {
                    questions.extend(self.sockets.get(touch.socket).map(|socket| Question {
                        local: socket.open.local,
                        remote: socket.open.remote,
                        asked_ns: touch.at_ns,
                    }));
                }
                last = Some((touch.socket, touch.verb));
            }
        }
        questions.sort_by_key(|question| question.asked_ns);
        questions
    }
}

/// The client's connection for whose request a question was asked, over all servers that asked each other; 0 where that
/// is not known.
fn root(known: Known<'_>, touch: &Touch) -> u32 {
    let (mut owner, mut at_ns) = (touch.owner, touch.at_ns);
    for _ in 0..MOST_DEPTH {
        let asked = known.conversations.peer(owner).and_then(|peer| {
            let asked = known.conversations.asked(peer, at_ns).filter(|asked| known.tasks.serves(asked.pid))?;
            known.tasks.touches(asked.pid, asked.at_ns, asked.at_ns + 1).find(|touch| touch.socket == peer)
        });
        // A client's connection: none of the server's tasks has asked over it.
        let Some(asked) = asked else { return owner };
        (owner, at_ns) = (asked.owner, asked.at_ns);
    }
    0
}
