//! Goes on with sessions of a node that is down.

use crate::message::Decline;
use crate::moving::{Directing, DirectingError, Keeper, KeeperFault, SessionError, Sessions};
use crate::record::MoveId;
use crate::replicas::{Births, Kept, Place, Position, Replica, Unfit};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_keeper::{Birth, Flow, Seen, TcpState};

/// How long the director is asked again that does not answer.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);
/// What is on its way to the client is waited for so long at most.
const SETTLES_MAX: Duration = Duration::from_millis(500);
/// A session that goes on here is looked at for so long at most: longer than queues on the way to a client hold anything.
const LOOKED_AT_MAX: Duration = Duration::from_secs(30);
/// Besides the round trip: a client may answer that much later (delayed acknowledgements, RFC 9293, section 3.8.6.3).
const LATENESS: Duration = Duration::from_millis(5);

/// A session was not taken over.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// The director does not give the flow; nothing was done.
    #[error(transparent)]
    Directing(#[from] DirectingError),
    /// This node cannot go on with it; nothing was done.
    #[error(transparent)]
    Session(SessionError),
    /// The keeper does not hold the flow; nothing was done.
    #[error(transparent)]
    Hold(KeeperFault),
    /// The flow is this node's, and the session cannot go on: it is lost.
    #[error("the connection is lost: {0}")]
    Lost(#[from] Loss),
}

/// Why a session is lost that was this node's already.
#[derive(Debug, thiserror::Error)]
pub enum Loss {
    /// The client has said something in the last moment.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The server does not go on with it.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The keeper does not restore its socket.
    #[error(transparent)]
    Keeper(#[from] KeeperFault),
    /// Its bytes cannot be told where to go on.
    #[error("the session cannot be told where to go on; run the same version of weir on all nodes")]
    NotPlaced,
}

impl TakeOverError {
    /// Whether the node lives after all, and has the session.
    pub fn is_alive(&self) -> bool {
        matches!(self, Self::Directing(DirectingError::Declined(Decline::NotDown(_))))
    }

    /// Whether the connection had come to an end by itself.
    pub fn is_over(&self) -> bool {
        matches!(
            self,
            Self::Directing(DirectingError::Declined(Decline::Unfit(Unfit::Over)))
                | Self::Lost(Loss::Unfit(Unfit::Over))
        )
    }
}

/// A session that goes on here.
#[derive(Debug)]
pub struct Succession {
    /// How long the client's packets were held.
    pub held: Duration,
    begun: Instant,
    send_next: u32,
    /// What the dead node may have sent beyond that at most: the client's window. What it has is acknowledged once this is.
    ahead_bytes: u64,
    /// Bytes that were acknowledged, and since when no others were.
    acknowledged: (u64, Instant),
    /// Another descriptor of its socket.
    socket: OwnedFd,
    gone_on: GoneOn,
}

/// With what a session went on here.
#[derive(Debug, Clone)]
struct GoneOn {
    birth: Option<Birth>,
    tcp: TcpState,
}

impl Succession {
    /// A replica of the session for the time that it goes on here.
    pub fn replica(&self, kept: &Kept, id: MoveId) -> Replica {
        kept.replica.gone_on(id, self.gone_on.birth, &self.gone_on.tcp)
    }
}

/// What a look at a session showed that goes on here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looked {
    /// It goes on, and nothing of the dead node is on its way to the client any more.
    Settled,
    /// The client has all that was written, or the connection is over.
    Quiet,
    /// It is to be looked at again.
    Unsettled,
    /// It began anew, and is to be looked at again.
    Anew,
}

/// Goes on with sessions of nodes that are down.
pub struct Successor {
    keeper: Arc<dyn Keeper>,
    sessions: Arc<dyn Sessions>,
    directing: Arc<dyn Directing>,
    births: Arc<Births>,
}

impl fmt::Debug for Successor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Successor").finish_non_exhaustive()
    }
}

impl Successor {
    /// Puts the parts together.
    pub fn new(
        keeper: Arc<dyn Keeper>,
        sessions: Arc<dyn Sessions>,
        directing: Arc<dyn Directing>,
        births: Arc<Births>,
    ) -> Self {
        Self { keeper, sessions, directing, births }
    }

    /// Looks whether this node has the content of a replica's response, so that it knows it when it is needed: to find its
    /// digest may take long.
    ///
    /// # Errors
    /// [`SessionError`], if it could not go on.
    pub fn prepare(&self, session: &[u8]) -> Result<(), SessionError> {
        self.sessions.prepare(session, &[]).map(drop)
    }

    /// Goes on with a session here. [`Successor::look`] is to follow.
    ///
    /// # Errors
    /// [`TakeOverError`]; but for `Lost` the director gives the flow to this node only when it is asked again.
    pub fn take_over(&self, kept: &Kept) -> Result<Succession, TakeOverError> {
        let Kept { replica, since } = kept;
        let flow = &replica.flow;
        self.prepare(&replica.session).map_err(TakeOverError::Session)?;
        let begun = Instant::now();
        // Else the kernel would answer the client's packets with a reset.
        self.keeper.hold(flow, self.directing.epoch()).map_err(TakeOverError::Hold)?;
        let given = self.ask(replica.id, flow, &replica.position);
        let (mut seen, mut birth) = given.inspect_err(|_| drop(self.keeper.release(flow)))?;
        // What the dead node has sent last, and the client's answers to it, may still be on their way.
        let settles_after = Duration::from_micros(u64::from(replica.options.round_trip_us)) * 5 / 4 + LATENESS;
        let mut is_settled = seen.age >= settles_after;
        while !is_settled && begun.elapsed() < SETTLES_MAX {
            std::thread::sleep(settles_after.min(SETTLES_MAX));
            let Ok((newer, of)) = self.ask(replica.id, flow, &replica.position) else { break };
            // It may go on to say how much room it has, without having got more.
            is_settled = newer.ack == seen.ack;
            (seen, birth) = (newer, of);
        }
        let place = replica.position.place(birth, Some(&seen)).map_err(Loss::from);
        let gone_on = place.and_then(|place| self.go_on(kept, place, &seen, since.elapsed()));
        // Without a hold the kernel tells the client that the connection is over.
        let (socket, tcp) = gone_on.inspect_err(|_| drop(self.keeper.release(flow)))?;
        Ok(succession(kept, &seen, begun.elapsed(), (socket, GoneOn { birth, tcp })))
    }

    fn go_on(&self, kept: &Kept, place: Place, seen: &Seen, since: Duration) -> Result<(OwnedFd, TcpState), Loss> {
        let (replica, epoch) = (&kept.replica, self.directing.epoch());
        let session = self.sessions.place(&replica.session, place.offset).ok_or(Loss::NotPlaced)?;
        let tcp = replica.tcp_state(place, seen, since);
        let mut socket = self.keeper.restore(&tcp, &[], &[], epoch)?;
        match self.keeper.activate(socket.as_fd()) {
            // Started anew since: in repair mode the old socket says nothing to the client.
            Err(KeeperFault::HoldIsOver(_)) => {
                drop(socket);
                socket = self.keeper.restore(&tcp, &[], &[], epoch)?;
                self.keeper.activate(socket.as_fd())?;
            }
            activated => activated?,
        }
        self.births.note(socket.as_fd(), &tcp);
        let own = socket.try_clone().map_err(KeeperFault::from)?;
        self.sessions.adopt(session, socket, Vec::new(), replica.flow.client)?;
        Ok((own, tcp))
    }

    /// Looks whether the client answers, and begins anew where it has more than this socket has sent: what the dead node
    /// had sent came to it later, or its acknowledgements were lost, and the kernel takes none of bytes that its socket has
    /// not sent (`SKB_DROP_REASON_TCP_ACK_UNSENT_DATA`, net/ipv4/tcp_input.c). To be called again and again.
    ///
    /// # Errors
    /// [`TakeOverError`]; the session is not to be looked at again.
    pub fn look(&self, kept: &Kept, succession: &mut Succession) -> Result<Looked, TakeOverError> {
        let replica = &kept.replica;
        let Ok(now) = weir_keeper::progress(succession.socket.as_fd()) else { return Ok(Looked::Quiet) };
        if !now.is_established {
            return Ok(Looked::Quiet);
        }
        if now.acknowledged_bytes >= succession.ahead_bytes || succession.begun.elapsed() >= LOOKED_AT_MAX {
            return Ok(if now.has_more { Looked::Settled } else { Looked::Quiet });
        }
        let (before, since) = succession.acknowledged;
        if now.acknowledged_bytes != before {
            succession.acknowledged = (now.acknowledged_bytes, Instant::now());
            return Ok(Looked::Unsettled);
        }
        let round_trip = Duration::from_micros(u64::from(replica.options.round_trip_us));
        if since.elapsed() < round_trip * 5 / 4 + LATENESS * 2 {
            return Ok(Looked::Unsettled);
        }
        if !now.has_more {
            return Ok(Looked::Quiet);
        }
        let (seen, birth) = match self.ask(replica.id, &replica.flow, &replica.position) {
            Ok(given) => given,
            // It has moved on, or is over.
            Err(DirectingError::Declined(Decline::OtherOwner(_) | Decline::Unknown | Decline::Closed)) => {
                return Ok(Looked::Settled);
            }
            // That comes to this socket: a request, or the end of the connection.
            Err(DirectingError::Declined(Decline::Unfit(Unfit::ClientSent))) => return Ok(Looked::Unsettled),
            Err(error) => return Err(error.into()),
        };
        let known = succession.send_next.wrapping_add(before as u32);
        // What it says now may still be on its way to this socket.
        if seen.ack.wrapping_sub(known).cast_signed() <= 0 || seen.age < LATENESS {
            return Ok(Looked::Unsettled);
        }
        self.begin_anew(kept, succession, &seen, birth)?;
        Ok(Looked::Anew)
    }

    fn begin_anew(
        &self,
        kept: &Kept,
        succession: &mut Succession,
        seen: &Seen,
        birth: Option<Birth>,
    ) -> Result<(), TakeOverError> {
        let (replica, epoch) = (&kept.replica, self.directing.epoch());
        let taken = match self.sessions.take(&replica.flow) {
            Ok(taken) => Some(taken),
            // The server has written all of it already, and closed its descriptor.
            Err(SessionError::NoSession) => None,
            Err(error) => return Err(TakeOverError::Session(error)),
        };
        let socket = succession.socket.as_fd();
        let stopped = self.keeper.freeze(socket, epoch).and_then(|_| self.keeper.discard(socket));
        stopped.map_err(Loss::from)?;
        drop(taken);
        self.keeper.hold(&replica.flow, epoch).map_err(Loss::from)?;
        let place = replica.position.place(birth, Some(seen)).map_err(Loss::from);
        let gone_on = place.and_then(|place| self.go_on(kept, place, seen, kept.since.elapsed()));
        let (socket, tcp) = gone_on.inspect_err(|_| drop(self.keeper.release(&replica.flow)))?;
        *succession = self::succession(kept, seen, succession.held, (socket, GoneOn { birth, tcp }));
        Ok(())
    }

    /// Asks the director for the flow until it answers, which gives it once only.
    fn ask(&self, id: MoveId, flow: &Flow, position: &Position) -> Result<(Seen, Option<Birth>), DirectingError> {
        let begun = Instant::now();
        loop {
            match self.directing.take_over(id, flow, self.directing.epoch(), position) {
                Err(DirectingError::Silent(_) | DirectingError::Declined(Decline::Epoch(_)))
                    if begun.elapsed() < PATIENCE =>
                {
                    std::thread::sleep(PAUSE);
                }
                answer => return answer,
            }
        }
    }
}

/// What is to be looked at of a session that has just gone on.
fn succession(kept: &Kept, seen: &Seen, held: Duration, (socket, gone_on): (OwnedFd, GoneOn)) -> Succession {
    let now = Instant::now();
    // RFC 7323, section 2.3: a scale is at most 14.
    let ahead_bytes = u64::from(seen.window) << kept.replica.options.send_scale.min(14);
    Succession { held, begun: now, send_next: seen.ack, ahead_bytes, acknowledged: (0, now), socket, gone_on }
}
