//! The director's control side: it decides which node has a flow, and remembers what it has decided.
//!
//! It has no clock and no socket. Its epoch is given from outside; an order of another epoch does not steer.

mod taken;
mod takeover;
mod takeovers;

use crate::message::{Claim, Decline, Message, Owner};
use crate::name::NodeNumber;
use crate::pair::Survey;
use crate::record::MoveId;
use crate::replicas::Word;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use taken::Takeovers;
use weir_keeper::{Birth, Flow, Seen};

/// Moves that are remembered.
const MOVES_MAX: usize = 65_536;

/// The flow table fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TableFault(pub String);

/// What the flow table knows of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// What was seen last of the client.
    pub seen: Option<Seen>,
    /// The numbers with which it began, if its node has the socket that began it.
    pub birth: Option<Birth>,
}

/// The flow table, as the control side uses it.
pub trait Steering: Send {
    /// Sends a flow's packets to a node; returns what was seen last of the client.
    ///
    /// # Errors
    /// [`TableFault`]; the flow goes where it went before.
    fn steer(&mut self, flow: &Flow, to: NodeNumber, epoch: u64) -> Result<Option<Seen>, TableFault>;

    /// The node of a flow, if there is an entry.
    fn owner(&self, flow: &Flow) -> Option<NodeNumber>;

    /// Where a flow's packets go, by its entry or by the hash.
    fn goes_to(&self, flow: &Flow) -> Option<NodeNumber> {
        self.owner(flow)
    }

    /// Removes a flow's entry, if there is one.
    fn forget(&mut self, flow: &Flow) {
        let _ = flow;
    }

    /// What is known of a flow, if there is an entry. A table that knows none lets no session be taken over.
    fn known(&self, flow: &Flow) -> Option<Known> {
        let _ = flow;
        None
    }
}

/// What a move has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decided {
    /// Packets go to the taker; nothing is final.
    Steered(NodeNumber),
    /// The taker has it for good.
    Confirmed(NodeNumber),
    /// The giver has it for good.
    Closed,
}

/// What the director has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirectorCounts {
    /// Flows that were steered.
    pub steered: u64,
    /// Moves that were confirmed.
    pub confirmed: u64,
    /// Flows that their giver has again.
    pub reclaimed: u64,
    /// Requests that were declined.
    pub declined: u64,
    /// Questions that could not be answered.
    pub unknown: u64,
    /// Flows of nodes that were down which others have got.
    pub taken_over: u64,
}

/// The decisions of a director.
#[derive(Debug)]
pub struct Control {
    epoch: u64,
    nodes: BTreeSet<NodeNumber>,
    /// Those that want no new connections.
    draining: BTreeSet<NodeNumber>,
    moves: HashMap<MoveId, Decided>,
    order: VecDeque<(MoveId, Flow)>,
    /// By flow: the move of which something was decided last.
    newest: HashMap<Flow, MoveId>,
    /// By giver: moves up to this number are forgotten.
    forgotten: HashMap<NodeNumber, u64>,
    moves_max: usize,
    counts: DirectorCounts,
    /// What nodes have told, where this director has taken over from another one.
    survey: Option<Survey>,
    takeovers: Takeovers,
}

impl Control {
    /// Begins an epoch, in which no move is known.
    pub fn new(epoch: u64, nodes: impl IntoIterator<Item = NodeNumber>) -> Self {
        Self {
            epoch,
            nodes: nodes.into_iter().collect(),
            draining: BTreeSet::new(),
            moves: HashMap::new(),
            order: VecDeque::new(),
            newest: HashMap::new(),
            forgotten: HashMap::new(),
            moves_max: MOVES_MAX,
            counts: DirectorCounts::default(),
            survey: None,
            takeovers: Takeovers::default(),
        }
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What was counted.
    pub fn counts(&self) -> DirectorCounts {
        self.counts
    }

    /// The nodes to which flows may be steered.
    pub fn set_nodes(&mut self, nodes: impl IntoIterator<Item = NodeNumber>) {
        self.nodes = nodes.into_iter().collect();
    }

    /// The nodes that want no new connections.
    pub fn draining(&self) -> &BTreeSet<NodeNumber> {
        &self.draining
    }

    /// A node says whether it wants new connections. Sessions may move to it all the same.
    pub fn drain(&mut self, node: NodeNumber, is_draining: bool) {
        if is_draining {
            self.draining.insert(node)
        } else {
            self.draining.remove(&node)
        };
    }

    /// A taker asks for the packets of a flow.
    ///
    /// # Errors
    /// [`Decline`]; the flow goes where it went before.
    pub fn steer(
        &mut self,
        asker: NodeNumber,
        id: MoveId,
        flow: &Flow,
        epoch: u64,
        table: &mut dyn Steering,
    ) -> Result<Option<Seen>, Decline> {
        let decided = self.moves.get(&id).copied();
        let may = match decided {
            _ if epoch != self.epoch => Err(Decline::Epoch(self.epoch)),
            _ if asker == id.giver || !self.nodes.contains(&asker) => Err(Decline::NotAllowed),
            Some(Decided::Steered(to) | Decided::Confirmed(to)) if to != asker => Err(Decline::OtherOwner(to)),
            Some(Decided::Steered(_)) => Ok(()),
            // One that comes late, or twice: the flow may have moved on since.
            Some(Decided::Confirmed(_) | Decided::Closed) => Err(Decline::Closed),
            None if self.is_forgotten(id) => Err(Decline::Closed),
            None => match table.owner(flow) {
                Some(owner) if owner != id.giver => Err(Decline::OtherOwner(owner)),
                _ => Ok(()),
            },
        };
        let steered = may.and_then(|()| table.steer(flow, asker, self.epoch).map_err(|fault| Decline::Table(fault.0)));
        match &steered {
            Ok(_) => {
                self.counts.steered += 1;
                if decided.is_none() {
                    self.remember(id, flow, Decided::Steered(asker));
                }
            }
            Err(_) => self.counts.declined += 1,
        }
        steered
    }

    /// A taker asks to go on with a flow. Once it may, the giver never gets it back.
    ///
    /// # Errors
    /// [`Decline`]; only `Unknown` and `Table` leave it open.
    pub fn confirm(&mut self, asker: NodeNumber, id: MoveId, flow: &Flow, table: &dyn Steering) -> Result<(), Decline> {
        let may = match self.moves.get(&id).copied() {
            Some(Decided::Steered(to) | Decided::Confirmed(to)) if to == asker => Ok(()),
            Some(Decided::Steered(to) | Decided::Confirmed(to)) => Err(Decline::OtherOwner(to)),
            Some(Decided::Closed) => Err(Decline::Closed),
            // An earlier director steered it, or the move is forgotten: the table holds what was decided.
            None => match table.owner(flow) {
                Some(owner) if owner == asker && asker != id.giver => Ok(()),
                Some(_) => Err(Decline::Closed),
                None => Err(Decline::Unknown),
            },
        };
        match may {
            Ok(()) => {
                self.counts.confirmed += 1;
                self.remember(id, flow, Decided::Confirmed(asker));
            }
            Err(_) => self.counts.declined += 1,
        }
        may
    }

    /// The giver, or a taker that failed, asks that the giver has the flow.
    ///
    /// # Errors
    /// [`Decline::NotAllowed`], if another member asks.
    pub fn reclaim(&mut self, asker: NodeNumber, claim: &Claim, table: &mut dyn Steering) -> Result<Owner, Decline> {
        let Claim { id, taker, .. } = *claim;
        let is_refused = claim.is_refused || asker == taker;
        let is_party = asker == id.giver || asker == taker;
        let owner = match self.moves.get(&id).copied() {
            Some(Decided::Steered(to) | Decided::Confirmed(to)) if !is_party || to != taker => None,
            _ if !is_party => None,
            Some(Decided::Confirmed(_)) => Some(Owner::Taker),
            // It was given back, and taken over since from the giver, which was down.
            Some(Decided::Closed) if self.takeovers.has_lost(id.giver, &claim.flow) => Some(Owner::Taker),
            Some(Decided::Closed) => Some(Owner::Giver),
            Some(Decided::Steered(_)) => Some(self.steer_back(claim, table)),
            None => Some(match self.owner_of_unknown(claim, table) {
                // The taker has not gone on, and says that it never will.
                Owner::Unknown if is_refused => self.steer_back(claim, table),
                owner => owner,
            }),
        };
        match owner {
            Some(Owner::Giver) => {
                self.counts.reclaimed += 1;
                self.remember(id, &claim.flow, Decided::Closed);
            }
            Some(Owner::Unknown) => self.counts.unknown += 1,
            Some(Owner::Taker) => {}
            None => self.counts.declined += 1,
        }
        owner.ok_or(Decline::NotAllowed)
    }

    fn steer_back(&self, claim: &Claim, table: &mut dyn Steering) -> Owner {
        if table.steer(&claim.flow, claim.id.giver, self.epoch).is_ok() { Owner::Giver } else { Owner::Unknown }
    }

    /// A move of which nothing is known: it was not steered in this epoch, unless it is forgotten.
    fn owner_of_unknown(&self, claim: &Claim, table: &dyn Steering) -> Owner {
        let is_of_now = claim.epoch == self.epoch && !self.is_forgotten(claim.id);
        // A flow moves on only once the move before is decided: this claim comes late, and steers nothing any more.
        let is_late = self.newest.get(&claim.flow).is_some_and(|newest| *newest != claim.id);
        match table.owner(&claim.flow) {
            // Orders of earlier epochs do not steer any more, so it stays there.
            Some(owner) if owner == claim.id.giver => Owner::Giver,
            None if is_of_now => Owner::Giver,
            // It went on from the taker, or was taken over.
            Some(owner) if is_of_now || is_late || owner != claim.taker => Owner::Taker,
            // The taker may have been allowed to go on, or not; the taker knows.
            Some(_) | None => Owner::Unknown,
        }
    }

    fn is_forgotten(&self, id: MoveId) -> bool {
        self.forgotten.get(&id.giver).is_some_and(|last| id.number <= *last)
    }

    fn remember(&mut self, id: MoveId, flow: &Flow, decided: Decided) {
        // A claim steers nothing, and may itself have come late: it says nothing of which move is the newest.
        if !matches!(decided, Decided::Closed) {
            self.newest.insert(*flow, id);
        }
        if self.moves.insert(id, decided).is_some() {
            return;
        }
        self.order.push_back((id, *flow));
        while self.order.len() > self.moves_max {
            let Some((oldest, flow)) = self.order.pop_front() else { break };
            self.moves.remove(&oldest);
            if self.newest.get(&flow) == Some(&oldest) {
                self.newest.remove(&flow);
            }
            let last = self.forgotten.entry(oldest.giver).or_default();
            *last = oldest.number.max(*last);
        }
    }
}

/// The control side with its flow table, for links.
pub struct Director {
    inner: Mutex<(Control, Box<dyn Steering>)>,
}

impl std::fmt::Debug for Director {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Director").field(&self.inner().0.counts).finish()
    }
}

impl Director {
    /// Puts both together.
    pub fn new(control: Control, table: Box<dyn Steering>) -> Self {
        Self { inner: Mutex::new((control, table)) }
    }

    /// Uses the control side, as to change the nodes.
    pub fn with<T>(&self, act: impl FnOnce(&mut Control, &mut dyn Steering) -> T) -> T {
        let mut inner = self.inner();
        let (control, table) = &mut *inner;
        act(control, &mut **table)
    }

    /// Answers a request of a node.
    pub fn answer(&self, asker: NodeNumber, request: &Message) -> Message {
        self.with(|control, table| match request {
            Message::Steer { id, flow, epoch } => match control.steer(asker, *id, flow, *epoch, table) {
                Ok(seen) => Message::Steered { id: *id, seen },
                Err(why) => Message::Declined { id: *id, why },
            },
            Message::Confirm { id, flow } => match control
                .settle_confirm(asker, *id, flow, table)
                .and_then(|()| control.confirm(asker, *id, flow, table))
            {
                Ok(()) => Message::Confirmed { id: *id },
                Err(why) => Message::Declined { id: *id, why },
            },
            Message::Reclaim(claim) => {
                match control.settle_claim(asker, claim, table).map_or_else(|| control.reclaim(asker, claim, table), Ok)
                {
                    Ok(owner) => Message::Owned { id: claim.id, owner, epoch: control.epoch },
                    Err(why) => Message::Declined { id: claim.id, why },
                }
            }
            Message::Who { flow } => Message::Has { flow: *flow, node: table.owner(flow) },
            Message::Replica(word) => match &**word {
                Word::TakeOver { id, flow, epoch, position } => {
                    match control.take_over(asker, (*id, flow), *epoch, position, table) {
                        Ok((seen, birth)) => Message::replica(Word::TakenOver { id: *id, seen, birth }),
                        Err(why) => Message::Declined { id: *id, why },
                    }
                }
                Word::Watch { discarded } => Message::replica(control.watch(asker, discarded, table)),
                Word::Orphaned { flows } => {
                    control.orphaned(asker, flows, table);
                    Message::Noted
                }
                _ => Message::Failed { why: "the director keeps no replicas; ask a node".to_owned() },
            },
            Message::Draining { is_draining } => {
                control.drain(asker, *is_draining);
                Message::Noted
            }
            _ => Message::Failed { why: "the director takes no such message; ask a node".to_owned() },
        })
    }

    /// A decision is whole before the lock is given back; one that panicked has changed nothing behind it.
    fn inner(&self) -> MutexGuard<'_, (Control, Box<dyn Steering>)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[derive(Default)]
    struct Table(HashMap<Flow, NodeNumber>);

    impl Steering for Table {
        fn steer(&mut self, flow: &Flow, to: NodeNumber, _: u64) -> Result<Option<Seen>, TableFault> {
            self.0.insert(*flow, to);
            Ok(None)
        }

        fn owner(&self, flow: &Flow) -> Option<NodeNumber> {
            self.0.get(flow).copied()
        }
    }

    fn flow(port: u16) -> Flow {
        Flow { client: SocketAddr::from(([10, 0, 0, 9], port)), service: SocketAddr::from(([10, 0, 0, 1], 80)) }
    }

    fn id(number: u64) -> MoveId {
        MoveId { giver: 1, number }
    }

    fn claim(number: u64, flow: Flow, epoch: u64) -> Claim {
        Claim { id: id(number), flow, epoch, taker: 2, is_refused: false }
    }

    #[test]
    fn the_first_of_confirm_and_reclaim_wins() {
        let (mut control, mut table) = (Control::new(7, [1, 2, 3]), Table::default());
        let (one, two) = (flow(1), flow(2));
        assert_eq!(control.steer(2, id(1), &one, 7, &mut table), Ok(None));
        assert_eq!(control.confirm(2, id(1), &one, &table), Ok(()));
        assert_eq!(control.reclaim(1, &claim(1, one, 7), &mut table), Ok(Owner::Taker));
        assert_eq!(control.steer(2, id(1), &one, 7, &mut table), Err(Decline::Closed));
        assert_eq!(table.owner(&one), Some(2));
        assert_eq!(control.steer(2, id(2), &two, 7, &mut table), Ok(None));
        assert_eq!(control.reclaim(1, &claim(2, two, 7), &mut table), Ok(Owner::Giver));
        assert_eq!(control.confirm(2, id(2), &two, &table), Err(Decline::Closed));
        assert_eq!(control.steer(2, id(2), &two, 7, &mut table), Err(Decline::Closed));
        assert_eq!(table.owner(&two), Some(1));
        // Reclaimed before the taker has asked: it comes too late.
        assert_eq!(control.reclaim(1, &claim(3, two, 7), &mut table), Ok(Owner::Giver));
        assert_eq!(control.steer(2, id(3), &two, 7, &mut table), Err(Decline::Closed));
    }

    #[test]
    fn other_epochs_and_other_nodes_are_declined() {
        let (mut control, mut table) = (Control::new(7, [1, 2, 3]), Table::default());
        assert_eq!(control.steer(2, id(1), &flow(1), 6, &mut table), Err(Decline::Epoch(7)));
        assert_eq!(control.steer(2, id(1), &flow(1), 8, &mut table), Err(Decline::Epoch(7)));
        assert_eq!(control.steer(4, id(1), &flow(1), 7, &mut table), Err(Decline::NotAllowed));
        assert_eq!(control.steer(1, id(1), &flow(1), 7, &mut table), Err(Decline::NotAllowed));
        assert_eq!(control.steer(2, id(1), &flow(1), 7, &mut table), Ok(None));
        assert_eq!(control.steer(3, id(1), &flow(1), 7, &mut table), Err(Decline::OtherOwner(2)));
        assert_eq!(control.confirm(3, id(1), &flow(1), &table), Err(Decline::OtherOwner(2)));
        assert_eq!(control.reclaim(3, &claim(1, flow(1), 7), &mut table), Err(Decline::NotAllowed));
        assert_eq!(control.counts().declined, 7);
    }

    #[test]
    fn a_new_director_decides_by_the_table() {
        let mut table = Table::default();
        let mut old = Control::new(7, [1, 2]);
        assert_eq!(old.steer(2, id(1), &flow(1), 7, &mut table), Ok(None));
        let mut new = Control::new(8, [1, 2]);
        // The old one may have confirmed it.
        assert_eq!(new.reclaim(1, &claim(1, flow(1), 7), &mut table), Ok(Owner::Unknown));
        assert_eq!(new.confirm(2, id(1), &flow(1), &table), Ok(()));
        assert_eq!(new.reclaim(1, &claim(1, flow(1), 7), &mut table), Ok(Owner::Taker));
        // One that the taker has refused goes back, unless it was confirmed.
        table.0.insert(flow(3), 2);
        assert_eq!(new.reclaim(1, &claim(3, flow(3), 7), &mut table), Ok(Owner::Unknown));
        let refused = |number, port| Claim { is_refused: true, ..claim(number, flow(port), 7) };
        assert_eq!(new.reclaim(1, &refused(3, 3), &mut table), Ok(Owner::Giver));
        assert_eq!(table.owner(&flow(3)), Some(1));
        assert_eq!(new.reclaim(1, &refused(1, 1), &mut table), Ok(Owner::Taker));
        // It has moved on since, and the claim comes late.
        table.0.insert(flow(5), 1);
        assert_eq!(new.steer(2, id(6), &flow(5), 8, &mut table), Ok(None));
        assert_eq!(new.reclaim(1, &refused(5, 5), &mut table), Ok(Owner::Taker));
        assert_eq!(table.owner(&flow(5)), Some(2));
        // A third node has it, as one that took it over.
        table.0.insert(flow(4), 3);
        assert_eq!(new.reclaim(1, &refused(4, 4), &mut table), Ok(Owner::Taker));
        // One that was never steered is the giver's.
        table.0.insert(flow(2), 1);
        assert_eq!(new.reclaim(1, &claim(2, flow(2), 7), &mut table), Ok(Owner::Giver));
    }

    #[test]
    fn forgotten_moves_steer_nothing() {
        let (mut control, mut table) = (Control::new(7, [1, 2]), Table::default());
        control.moves_max = 10;
        for number in 1..=30 {
            assert_eq!(control.reclaim(1, &claim(number, flow(number as u16), 7), &mut table), Ok(Owner::Giver));
        }
        assert_eq!(control.moves.len(), 10);
        for number in 1..=30 {
            let steered = control.steer(2, id(number), &flow(number as u16), 7, &mut table);
            assert_eq!(steered, Err(Decline::Closed), "{number}");
        }
    }
}
