//! What the nodes of a cluster say to each other: who they are, and how a live session moves from one to another.
//!
//! - `identity/` makes the cluster's authority, keys and certificates, and lets machines join by a token.
//! - `keyring/` has the members change the keys that they have in common, and certificates be renewed.
//! - `link/` carries messages over mutual TLS 1.3, with bounds on time, size and number.
//! - `message.rs` and `record.rs` are what is said, with a versioned encoding.
//! - `moving/` has both sides of a move, as state machines and as what drives them.
//! - `replicas/` and `successor.rs` have sessions go on that lose their node.
//! - `relays/` carries responses that the old node of a session goes on making.
//! - `director.rs` decides which node has a flow.
//! - `pair/` has a second director stand by and take over.
//! - `names.rs` answers DNS, and `locality.rs` chooses by the path, for fronts that steer no packets.
//! - `balance.rs` weighs nodes for new connections by their readings.
//! - `heartbeat/` tells which members are alive, by sealed datagrams (`sealed.rs`).
//! - `gossip/` tells how nodes stand, by the crate chitchat.
//! - `placement/` says which node keeps which content.
//! - `events/` writes down what a member did and saw, and `clock.rs` tells how far its clock is from another one's.
//!
//! It does not know what a session is: the server gives and takes its bytes through a trait.

mod balance;
mod clock;
mod director;
mod events;
mod fields;
mod gossip;
mod heartbeat;
mod identity;
mod keyring;
mod link;
mod locality;
mod message;
mod moving;
mod name;
mod names;
mod pair;
pub mod placement;
mod record;
mod relays;
mod remote;
mod replicas;
mod sealed;
mod successor;

pub use balance::{Balance, Balanced, CONFIGURED_DEFAULT, CONFIGURED_MAX, FRESH, Measure, Quantity, Standing};
pub use clock::ClockSample;
pub use director::{Control, Director, DirectorCounts, Known, Steering, TableFault};
pub use events::{
    EVENT_BYTES_MAX, EVENTS_FILE, EventCounts, EventEntry, EventFileError, EventHeader, EventLine, EventLog,
    EventLogFault, EventPart, EventParts, What, event_files, read_events, whole_lines,
};
pub use fields::FieldError;
pub use gossip::{
    Asked, Gossip, GossipCounts, GossipError, GossipPeer, GossipSettings, GossipTextError, Heard as HeardMember,
    Introduction, PATH_BYTES_MAX, POPULAR_MAX, RULES_BYTES_MAX, Reading, Sites, Strain,
};
pub use heartbeat::{
    Beat, BeatCounts, BeatIntake, BeatRefusal, Change, Detector, DetectorSettings, Health, HeartbeatError, Heartbeats,
    Opened, Opener, Sealer, StartId,
};
pub use identity::{
    Admission, Authority, ClusterSecret, ETCD_COMMON_NAME, EtcdKeys, EtcdSeat, Identity, IdentityError, JoinError,
    Joined, Joining, KeyError, MemberKey, PublicKey, REVOKED, Renewed, RevocationList, Token, TokenError, Tokens,
    Validity, authority_validity, join,
};
pub use keyring::{Keyring, KeyringAnswers, KeysWord, RenewError, Shared, TICKETS_MAX, TicketKey, renew, show_newest};
pub use link::{
    Answering, Closed, HandshakeError, LinkClient, LinkCounts, LinkCountsNow, LinkError, LinkServer, LinkSettings,
    Members, Trust, TrustError,
};
pub use locality::Locality;
pub use message::{Claim, Decline, INQUIRED_MAX, Keeping, MESSAGE_BYTES_MAX, Message, Owner, PIECE_BYTES_MAX, Timings};
pub use moving::{
    Answer, Counts, Directing, DirectingError, Event, Giving, GivingStep, Heard, Keeper, KeeperFault, MoveError, Mover,
    MoverSettings, Outcome, Registry, Relaying, SessionError, Sessions, Taken, TakenRelay, Taking, TakingInput,
    TakingStep, Transport, TransportError,
};
pub use name::{DOMAIN, Member, NameError, NodeName, NodeNumber, Role};
pub use names::{NameAnswer, ServiceName, ServiceNameError};
pub use pair::{
    Duty, DutySettings, ENTRIES_MAX, Entries, Holding, Noticed, Replica as TableReplica, Replicated, SURVEY_FLOWS_MAX,
    Seat, Survey, Surveyed, Wish,
};
pub use record::{MoveId, Record, Span};
pub use relays::{
    Carrier, Carrying, Credit, PieceOf, RelayCountsNow, RelayId, RelaySettings, RelayState, RelayWord, SameRelay,
    Turning, WINDOW_BYTES,
};
pub use remote::{DirectorAnswers, NodeAnswers, Numbers, RemoteDirector, RemoteNodes, Watched};
pub use replicas::{
    Batch, Births, GivenReplicas, Kept, Place, Position, REPLICA_BYTES_MAX, Replica, ReplicaStore, SocketOptions,
    StoreCounts, Unfit, Word,
};
pub use successor::{Looked, Loss, Succession, Successor, TakeOverError};

/// Entries for the fuzz targets.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::gossip::fuzzing::*;
    pub use crate::identity::{SigningRequest, read_any_certificate};
    pub use crate::names::answer_any;
}
