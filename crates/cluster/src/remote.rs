//! The director and other nodes over links, and what a member answers on them.

use crate::clock::{ClockSample, unix_us};
use crate::director::Director;
use crate::link::{Answering, LinkClient, LinkError};
use crate::message::{Claim, Decline, Message, Owner};
use crate::moving::{Directing, DirectingError, Mover, Transport, TransportError};
use crate::name::{Member, NodeName, NodeNumber, Role};
use crate::pair::Seat;
use crate::record::{MoveId, Record};
use crate::relays::{Carrier, Carrying, RelayWord};
use crate::replicas::{Batch, Position, ReplicaStore, Word};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use weir_keeper::{Birth, Flow, Seen};

/// How long a node may look for the files of a session that is to come; they may be large.
const EXPECT_PATIENCE: Duration = Duration::from_secs(30);
/// How long a node may take to put replicas into a table; meanwhile no others are given to any node.
const REPLICA_PATIENCE: Duration = Duration::from_millis(300);
/// How long a node may take to take pieces of responses in; they are sent again then.
const RELAY_PATIENCE: Duration = Duration::from_secs(1);
const UNKNOWN_ADDRESS: &str = "no address of it is known; see the nodes in members.toml";

/// The director over a link.
#[derive(Debug)]
pub struct RemoteDirector {
    link: LinkClient,
    /// To the second director, where there is one; the epoch says which of the two is active.
    second: Option<LinkClient>,
    patience: Duration,
    epoch: AtomicU64,
}

impl RemoteDirector {
    /// Asks over this link, and waits so long for each answer.
    pub fn new(link: LinkClient, patience: Duration, epoch: u64) -> Self {
        Self { link, second: None, patience, epoch: AtomicU64::new(epoch) }
    }

    /// There is a second director, too.
    #[must_use]
    pub fn with_second(self, second: LinkClient) -> Self {
        Self { second: Some(second), ..self }
    }

    /// A newer epoch is known, as from a heartbeat.
    pub fn set_epoch(&self, epoch: u64) {
        let before = self.epoch.fetch_max(epoch, Ordering::AcqRel);
        if epoch > before && Seat::of(epoch) != Seat::of(before) {
            // What waits for the director before need not wait for its time to end.
            self.link_of(before).interrupt();
        }
    }

    /// The link to the director that has begun an epoch.
    fn link_of(&self, epoch: u64) -> &LinkClient {
        self.second.as_ref().filter(|_| Seat::of(epoch) == Seat::Second).unwrap_or(&self.link)
    }

    fn ask(&self, request: &Message) -> Result<Message, DirectingError> {
        let answer = self.link_of(self.epoch.load(Ordering::Acquire)).ask(request, self.patience);
        match answer.map_err(|error| DirectingError::Silent(error.to_string()))? {
            Message::Declined { why, .. } => {
                if let Decline::Epoch(epoch) = why {
                    self.set_epoch(epoch);
                }
                Err(DirectingError::Declined(why))
            }
            Message::Failed { why } => Err(DirectingError::Silent(why)),
            answer => Ok(answer),
        }
    }
}

/// What a director tells of nodes and flows that are lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watched {
    /// Nodes that are down.
    pub down: Vec<NodeNumber>,
    /// Flows of this node that others have.
    pub taken: Vec<(MoveId, Flow)>,
    /// Flows of other nodes whose server has ended.
    pub orphans: Vec<(NodeNumber, Flow)>,
}

impl RemoteDirector {
    /// Asks which nodes are down, and which flows of this node others have; `discarded` are those of an earlier answer
    /// that it has discarded.
    ///
    /// # Errors
    /// [`DirectingError`].
    pub fn watch(&self, discarded: &[(MoveId, Flow)]) -> Result<Watched, DirectingError> {
        let answer = self.ask(&Message::replica(Word::Watch { discarded: discarded.to_vec() }))?;
        match answer {
            Message::Replica(word) => match Arc::unwrap_or_clone(word) {
                Word::Watched { down, taken, orphans } => Ok(Watched { down, taken, orphans }),
                other => other_answer(Message::replica(other)),
            },
            other => other_answer(other),
        }
    }

    /// Says which connections of this node have lost their server, in place of those that were told before.
    ///
    /// # Errors
    /// [`DirectingError`], if the director does not say that it knows.
    pub fn orphaned(&self, flows: &[Flow]) -> Result<(), DirectingError> {
        match self.ask(&Message::replica(Word::Orphaned { flows: flows.to_vec() }))? {
            Message::Noted => Ok(()),
            other => other_answer(other),
        }
    }

    /// Says whether this node wants new connections.
    ///
    /// # Errors
    /// [`DirectingError`], if the director does not say that it knows.
    pub fn drain(&self, is_draining: bool) -> Result<(), DirectingError> {
        match self.ask(&Message::Draining { is_draining })? {
            Message::Noted => Ok(()),
            other => other_answer(other),
        }
    }

    /// How the director's clock stands to this machine's.
    ///
    /// # Errors
    /// [`DirectingError`], if the director does not say it, or says what cannot be.
    pub fn clock(&self) -> Result<ClockSample, DirectingError> {
        let sent_us = unix_us();
        let told = self.ask(&Message::Time)?;
        let heard_us = unix_us();
        let Message::TimeTold { received_us, told_us } = told else { return other_answer(told) };
        let sample = ClockSample::of(sent_us, received_us, told_us, heard_us);
        sample.ok_or_else(|| DirectingError::Silent("its clock or this one was set meanwhile".to_owned()))
    }
}

fn other_answer<T>(_: Message) -> Result<T, DirectingError> {
    Err(DirectingError::Silent("it answers something else".to_owned()))
}

impl Directing for RemoteDirector {
    fn steer(&self, id: MoveId, flow: &Flow, epoch: u64) -> Result<Option<Seen>, DirectingError> {
        match self.ask(&Message::Steer { id, flow: *flow, epoch })? {
            Message::Steered { id: of, seen } if of == id => Ok(seen),
            other => other_answer(other),
        }
    }

    fn confirm(&self, id: MoveId, flow: &Flow) -> Result<(), DirectingError> {
        match self.ask(&Message::Confirm { id, flow: *flow })? {
            Message::Confirmed { id: of } if of == id => Ok(()),
            other => other_answer(other),
        }
    }

    fn reclaim(&self, claim: Claim) -> Result<Owner, DirectingError> {
        match self.ask(&Message::Reclaim(claim))? {
            Message::Owned { id: of, owner, epoch } if of == claim.id => {
                self.set_epoch(epoch);
                Ok(owner)
            }
            other => other_answer(other),
        }
    }

    fn take_over(
        &self,
        id: MoveId,
        flow: &Flow,
        epoch: u64,
        position: &Position,
    ) -> Result<(Seen, Option<Birth>), DirectingError> {
        let asked = Word::TakeOver { id, flow: *flow, epoch, position: position.clone() };
        match self.ask(&Message::replica(asked))? {
            Message::Replica(word) => match Arc::unwrap_or_clone(word) {
                Word::TakenOver { id: of, seen, birth } if of == id => Ok((seen, birth)),
                other => other_answer(Message::replica(other)),
            },
            other => other_answer(other),
        }
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn learn_epoch(&self, epoch: u64) {
        self.set_epoch(epoch);
    }
}

/// Other nodes over links.
#[derive(Debug)]
pub struct RemoteNodes {
    links: RwLock<HashMap<NodeNumber, Arc<LinkClient>>>,
    patience: Duration,
}

impl RemoteNodes {
    /// Waits so long for the end of a move.
    pub fn new(patience: Duration) -> Self {
        Self { links: RwLock::default(), patience }
    }

    /// Sets the link to a node.
    pub fn set(&self, node: NodeNumber, link: LinkClient) {
        self.links.write().unwrap_or_else(PoisonError::into_inner).insert(node, Arc::new(link));
    }

    /// Gives a batch of replicas to a node.
    ///
    /// # Errors
    /// [`TransportError`]; it may have arrived.
    pub fn replicate(&self, to: NodeNumber, batch: Batch) -> Result<(), TransportError> {
        let link = self.links.read().unwrap_or_else(PoisonError::into_inner).get(&to).cloned();
        let link = link.ok_or_else(|| TransportError::NotSent { node: to, why: UNKNOWN_ADDRESS.to_owned() })?;
        match link.ask(&Message::replica(Word::Replicas(batch)), REPLICA_PATIENCE) {
            Ok(Message::Noted) => Ok(()),
            Ok(Message::Failed { why }) => Err(TransportError::Refused { node: to, why }),
            Ok(_) => Err(TransportError::NoAnswer { node: to, why: "it answers something else".to_owned() }),
            Err(error) => Err(unanswered(to, &error)),
        }
    }

    /// Removes the link to a node.
    pub fn remove(&self, node: NodeNumber) {
        self.links.write().unwrap_or_else(PoisonError::into_inner).remove(&node);
    }
}

impl Transport for RemoteNodes {
    fn expect(&self, to: NodeNumber, preview: Vec<u8>) -> Result<(), TransportError> {
        let not_sent = |why: String| TransportError::NotSent { node: to, why };
        let link = self.links.read().unwrap_or_else(PoisonError::into_inner).get(&to).cloned();
        let link = link.ok_or_else(|| not_sent(UNKNOWN_ADDRESS.to_owned()))?;
        match link.ask(&Message::Expect { preview }, EXPECT_PATIENCE) {
            Ok(Message::Noted) => Ok(()),
            Ok(Message::Failed { why }) => Err(TransportError::Refused { node: to, why }),
            Ok(_) => Err(not_sent("it answers something else".to_owned())),
            Err(error) => Err(not_sent(error.to_string())),
        }
    }

    fn send(&self, to: NodeNumber, record: &Arc<Record>) -> Result<Message, TransportError> {
        let link = self.links.read().unwrap_or_else(PoisonError::into_inner).get(&to).cloned();
        let Some(link) = link else {
            let why = UNKNOWN_ADDRESS.to_owned();
            return Err(TransportError::NotSent { node: to, why });
        };
        let id = record.id;
        match link.ask(&Message::Record(Arc::clone(record)), self.patience) {
            Ok(answer @ (Message::Done { id: of, .. } | Message::Refused { id: of, .. })) if of == id => Ok(answer),
            Ok(answer @ Message::Failed { .. }) => Ok(answer),
            Ok(_) => Err(TransportError::NoAnswer { node: to, why: "it answers something else".to_owned() }),
            Err(error) => Err(unanswered(to, &error)),
        }
    }
}

impl Carrying for RemoteNodes {
    fn carry(&self, to: NodeNumber, word: RelayWord) -> Result<Message, TransportError> {
        let link = self.links.read().unwrap_or_else(PoisonError::into_inner).get(&to).cloned();
        let link = link.ok_or_else(|| TransportError::NotSent { node: to, why: UNKNOWN_ADDRESS.to_owned() })?;
        link.ask(&Message::relay(word), RELAY_PATIENCE).map_err(|error| unanswered(to, &error))
    }
}

fn unanswered(node: NodeNumber, error: &LinkError) -> TransportError {
    let why = error.to_string();
    if error.is_unsent() { TransportError::NotSent { node, why } } else { TransportError::NoAnswer { node, why } }
}

/// The numbers of members by name, as the directory says.
#[derive(Debug, Default)]
pub struct Numbers {
    by_name: RwLock<HashMap<NodeName, NodeNumber>>,
}

impl Numbers {
    /// Sets the number of a member.
    pub fn set(&self, name: NodeName, number: NodeNumber) {
        self.by_name.write().unwrap_or_else(PoisonError::into_inner).insert(name, number);
    }

    /// The number of a node; `None` for directors, and for nodes that are not known.
    pub fn of_node(&self, member: &Member) -> Option<NodeNumber> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        by_name.get(&member.name).copied().filter(|_| member.role == Role::Node)
    }
}

/// What a node answers: it takes sessions of other nodes.
pub struct NodeAnswers {
    mover: Arc<Mover>,
    numbers: Arc<Numbers>,
    replicas: Arc<ReplicaStore>,
    relays: Option<Arc<Carrier>>,
}

impl NodeAnswers {
    /// Answers by a node's mover, and keeps replicas of other nodes.
    pub fn new(mover: Arc<Mover>, numbers: Arc<Numbers>) -> Self {
        Self { mover, numbers, replicas: Arc::default(), relays: None }
    }

    /// Also takes responses in that other nodes go on making.
    #[must_use]
    pub fn with_relays(self, relays: Arc<Carrier>) -> Self {
        Self { relays: Some(relays), ..self }
    }

    /// The replicas that it keeps.
    pub fn replicas(&self) -> &Arc<ReplicaStore> {
        &self.replicas
    }

    fn keep(&self, peer: &Member, word: Word) -> Message {
        match (word, self.numbers.of_node(peer)) {
            (Word::Replicas(batch), Some(node)) if batch.replicas.iter().all(|replica| replica.id.giver == node) => {
                self.replicas.take_in(node, batch);
                Message::Noted
            }
            (Word::Replicas(_), _) => {
                Message::Failed { why: format!("{} gives replicas of other nodes; give its own only", peer.name) }
            }
            _ => Message::Failed { why: "a node takes no such message; ask the director".to_owned() },
        }
    }
}

impl fmt::Debug for NodeAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeAnswers").field(&self.mover).finish()
    }
}

impl Answering for NodeAnswers {
    fn answer(&self, peer: &Member, request: Message) -> Message {
        match request {
            Message::Record(record) if self.numbers.of_node(peer) == Some(record.id.giver) => {
                // Only a message within this process could still be held elsewhere.
                self.mover.take(Arc::unwrap_or_clone(record))
            }
            Message::Record(record) => {
                let why = format!("{} is not node {}; give its own sessions only", peer.name, record.id.giver);
                Message::Refused { id: record.id, is_settled: true, why }
            }
            Message::Replica(word) => self.keep(peer, Arc::unwrap_or_clone(word)),
            Message::Relay(word) => match (self.numbers.of_node(peer), &self.relays) {
                (Some(node), Some(relays)) => relays.answer(node, &word),
                _ => Message::Failed { why: format!("{} is no node that gives responses here", peer.name) },
            },
            Message::Expect { preview } => match self.mover.expect(&preview) {
                Ok(()) => Message::Noted,
                Err(error) => Message::Failed { why: error.to_string() },
            },
            Message::Survey { epoch } if peer.role == Role::Director => match self.mover.survey(epoch) {
                Ok(surveyed) => Message::Surveyed(surveyed),
                Err(error) => Message::Failed { why: error.to_string() },
            },
            _ => Message::Failed { why: "a node takes no such message; ask the director".to_owned() },
        }
    }

    /// Replicas are put into a table only, and in the order in which they come.
    fn is_quick(&self, request: &Message) -> bool {
        matches!(request, Message::Replica(_) | Message::Relay(_))
    }
}

/// What the director answers.
#[derive(Debug)]
pub struct DirectorAnswers {
    director: Arc<Director>,
    numbers: Arc<Numbers>,
}

impl DirectorAnswers {
    /// Answers by the control side.
    pub fn new(director: Arc<Director>, numbers: Arc<Numbers>) -> Self {
        Self { director, numbers }
    }
}

impl Answering for DirectorAnswers {
    fn answer(&self, peer: &Member, request: Message) -> Message {
        if request == Message::Time {
            let received_us = unix_us();
            return Message::TimeTold { received_us, told_us: unix_us() };
        }
        match self.numbers.of_node(peer) {
            Some(node) => self.director.answer(node, &request),
            None => Message::Failed { why: format!("{} is no node that the director knows", peer.name) },
        }
    }

    /// It looks into tables only.
    fn is_quick(&self, _: &Message) -> bool {
        true
    }
}
