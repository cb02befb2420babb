//! A connection as a value while it goes on, for another node to go on with where this one dies.

use super::moving::check_exchange;
use super::{After, Connection, SavedFor};
use crate::exchange::drain::Drain;
use crate::exchange::life::{Exchange, Source};
use crate::loop_state::LoopState;
use crate::policy::session_copies::{NotCopied, TlsKeys};
use crate::policy::sessions::TakeError;
use crate::process::session::{ContentName, Ending, Pending, Session, Wait};
use crate::tls::{FixedRecords, NotFixed, TlsSession};
use crate::transport::Lane;
use std::net::SocketAddr;

impl Connection {
    /// How far the response under way came, and all of its bytes; none without one.
    pub(crate) fn progress(&self) -> Option<(u64, u64)> {
        self.queue.first().map(|first| (first.response.offset, first.response.len()))
    }

    /// Whether a copy of it says all that another node needs.
    pub(crate) fn check_copyable(&self, keys: TlsKeys) -> Result<(), NotCopied> {
        let [only] = self.queue.as_slice() else { return Err(NotCopied::Pipelined) };
        if keys == TlsKeys::StayHere && self.transport.is_secure() {
            return Err(NotCopied::TlsByChoice);
        }
        // Bytes that are given to the kernel behind the loop's back have no place in the response.
        let is_behind = self.transport.holds_output() && !self.transport.is_secure();
        if self.transport.lane() != Lane::Socket || is_behind || only.response.is_finished() {
            return Err(NotCopied::Busy);
        }
        if !self.saved.is_empty() || self.transport.held_bytes() > 0 || self.saved_for != SavedFor::Rest {
            return Err(NotCopied::Pipelined);
        }
        if !matches!(self.drain, Drain::Done) || self.after == After::Upgrade {
            return Err(NotCopied::Body);
        }
        if only.stream_place().is_some() {
            return Err(NotCopied::Made);
        }
        // What an earlier answer has in the kernel still is not known of a form that is made.
        check_exchange(only, false).map_err(|_| NotCopied::Made)?;
        self.check_movable().map_err(|error| match error {
            TakeError::Tls { .. } => NotCopied::Tls,
            TakeError::Body | TakeError::Tunnel => NotCopied::Body,
            TakeError::Application => NotCopied::Made,
            _ => NotCopied::Busy,
        })
    }

    /// Has the response under way go on in records that another process can make as well, where it goes over TLS.
    ///
    /// # Errors
    ///
    /// [`NotCopied`]; it goes on as before.
    pub(crate) fn fix_records(&mut self, unacknowledged: u64) -> Result<Option<FixedRecords>, NotCopied> {
        let progress = self.progress().ok_or(NotCopied::Busy)?;
        self.transport.fix_records(progress, unacknowledged).map_err(|why| match why {
            NotFixed::Stays => NotCopied::Tls,
            NotFixed::Asked => NotCopied::Pipelined,
            NotFixed::Earlier => NotCopied::TlsEarlier,
            NotFixed::Keys => NotCopied::TlsUpdates,
        })
    }

    /// It as a session, while it goes on; it is copyable. The digest of its content is still to be put in.
    pub(crate) fn copy(
        &self,
        (peer, client): (SocketAddr, Option<SocketAddr>),
        name: Option<ContentName>,
        tls: Option<TlsSession>,
        state: &LoopState,
    ) -> Session {
        Session {
            peer,
            client,
            ending: match self.after {
                After::Close => Ending::Closes,
                After::Linger => Ending::Lingers,
                After::Continue | After::Upgrade => Ending::Stays,
            },
            wait: Wait::Room,
            left_ms: match self.deadline_ms {
                u64::MAX => u64::MAX,
                at => at.saturating_sub(state.clock.now_ms),
            },
            body_bytes: 0,
            saved: Vec::new(),
            input: Vec::new(),
            output: Vec::new(),
            tls,
            responses: self.queue.first().map(|first| copy_of(first, name)).into_iter().collect(),
            http2: None,
        }
    }
}

fn copy_of(exchange: &Exchange, name: Option<ContentName>) -> Pending {
    Pending {
        status: exchange.status,
        head_bytes: exchange.head_bytes,
        content: name.filter(|_| matches!(exchange.source, Source::Content(_))),
        line: exchange.record.log.to_text(),
        host: exchange.record.log.host.as_ref().map(|host| host.name.to_string()),
        response: exchange.response.clone(),
        far: None,
        swapped: None,
    }
}
