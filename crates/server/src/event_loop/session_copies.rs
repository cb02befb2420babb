//! What a loop does so that another node can go on with its connections where this one dies: it follows responses that
//! take long, and copies each once.
//!
//! A response that is over with its turn costs one comparison. As long as others are under way the loop looks at them
//! each 10 ms, and has the node process told when there is something to ask for: that costs more than the looks.

use super::client::Client;
use super::client::copying::Progress;
use super::driver::EventLoop;
use super::followed::{Copied, Due, Followed, LoopCopies, LoopCopy};
use crate::files::held::Held;
use crate::http::response::Digest;
use crate::io::{connection_facts, epoll};
use crate::policy::session_copies::{CopyRound, NotCopied, TlsKeys};
use crate::process::session::ContentName;
use crate::transport::Lane;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Connections that are copied at one look; the others have their turn at the next one.
const COPIES_MAX: usize = 256;
/// A connection that was closed may have bytes in the kernel for so long.
const CLOSING_MAX: Duration = Duration::from_secs(10);

impl EventLoop {
    /// Looks at what is being sent; another thread is told if a copy is due, or an end is to be told.
    #[cold]
    pub(super) fn look_at_responses(&mut self) {
        let now = Instant::now();
        let (due, left_out) = self.follow(now);
        self.forget_ended(now);
        if !due.is_empty() || !self.followed.over.is_empty() || left_out != self.followed.told_left_out {
            self.sessions.tell_of_copies();
        }
        self.followed.end_look(self.state.clock.now_ms);
    }

    /// Copies what is due.
    #[cold]
    pub(super) fn copy_sessions(&mut self, keys: TlsKeys, round: CopyRound) -> LoopCopies {
        let now = Instant::now();
        let mut found = LoopCopies::default();
        if round == CopyRound::All {
            self.followed.lose();
        }
        let (due, left_out) = self.follow(now);
        found.left_out = left_out;
        for Due { token, progress, why_not } in due {
            if found.copies.len() >= COPIES_MAX {
                break;
            }
            let copied = why_not.map_or_else(|| self.copy_session(token, progress, keys), Err);
            let response = self.followed.responses.get_mut(&token);
            match copied {
                Ok(copy) => {
                    if let Some(response) = response {
                        let (peer, local, offset) = (copy.peer, copy.local, progress.offset);
                        response.copied = Some(Copied { peer, local, offset, is_lost: false });
                    }
                    found.copies.push(copy);
                }
                Err(NotCopied::Busy) => {}
                Err(why) => {
                    if let Some(response) = response.filter(|_| why.is_lasting()) {
                        response.left_out = Some(why);
                    }
                    *found.left_out.entry(why.words()).or_default() += 1;
                }
            }
        }
        self.forget_ended(now);
        found.ended = std::mem::take(&mut self.followed.over);
        self.followed.told_left_out = found.left_out.clone();
        self.followed.end_look(self.state.clock.now_ms);
        found
    }

    /// Notes what is being sent: of what a copy is due, and how many can have none, by the reason.
    fn follow(&mut self, now: Instant) -> (Vec<Due>, BTreeMap<&'static str, u64>) {
        let (mut due, mut left_out) = (Vec::new(), BTreeMap::new());
        self.followed.looks += 1;
        for (progress, token) in self.connections.each(Client::progress) {
            match self.followed.note(token, progress, now) {
                Ok(one) => due.extend(one),
                Err(why) => *left_out.entry(why.words()).or_default() += 1,
            }
        }
        (due, left_out)
    }

    /// Forgets responses that are over: those that were copied only once the client has all of their bytes.
    fn forget_ended(&mut self, now: Instant) {
        let Self { connections, followed, .. } = self;
        let Followed { responses, looks: look, over, .. } = followed;
        responses.retain(|&token, response| {
            if response.look == *look {
                return true;
            }
            let Some(copied) = &response.copied else { return false };
            let is_under_way = match connections.get(token) {
                Some(client) => connection_facts::unacknowledged_bytes(client.fd()) > 0,
                None => now.duration_since(response.seen) < CLOSING_MAX,
            };
            if !is_under_way {
                over.push((copied.peer, copied.local));
            }
            is_under_way
        });
    }

    /// Ends a connection that is about to be closed here, and that another process has a descriptor of; what the ring has
    /// to send for it goes out first.
    #[cold]
    pub(super) fn end_held_elsewhere(&mut self, token: u64) {
        let Some(client) = self.connections.get(token) else { return };
        if client.registered.take().is_some() {
            // The socket stays open elsewhere, and epoll would tell of it as long as that is so.
            let _ = self.epoll.remove(client.fd());
        }
        if client.lane() == Lane::Socket && !client.is_staged(&self.state.ring) {
            epoll::end_both(client.fd());
        }
    }

    fn copy_session(&mut self, token: u64, progress: Progress, keys: TlsKeys) -> Result<LoopCopy, NotCopied> {
        let Self { connections, state, .. } = self;
        let client = connections.get(token).ok_or(NotCopied::Busy)?;
        if client.lane() != Lane::Socket || client.is_staged(&state.ring) {
            // What the ring sends is not in the response's offset yet.
            self.leave_ring(token);
            return Err(NotCopied::Busy);
        }
        let facts = client.check_copyable(keys)?;
        let content = match client.first_content() {
            Some(resource) => {
                let place = state.router.place_of(&resource).ok_or(NotCopied::Made)?;
                Some(Held::of(&resource, place).map_err(|_| NotCopied::Busy)?)
            }
            None => None,
        };
        let name = content.as_ref().map(|held| ContentName {
            site: held.key.site,
            path: held.key.path.clone(),
            digest: Digest([0; 32]),
            is_made: held.key.is_made,
        });
        // Last, as the session is bound to these records from then on.
        let records = client.fix_records(&facts)?;
        let progress =
            records.as_ref().map_or(progress, |records| Progress { offset: records.sent, bytes: records.bytes });
        let tls = records.map(|records| records.session);
        let (session, peer, local) = client.copy(name, tls, state).ok_or(NotCopied::Busy)?;
        let socket = epoll::duplicate(client.fd()).ok();
        client.is_held_elsewhere |= socket.is_some();
        Ok(LoopCopy { session, content, peer, local, progress, facts, socket })
    }
}
