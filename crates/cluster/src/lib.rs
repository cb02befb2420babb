//! What the nodes of a cluster say to each other: who they are, and how a live session moves from one to another.
//!
//! - `identity/` makes the cluster's authority, keys and certificates, and lets machines join by a token.
//! - `link/` carries messages over mutual TLS 1.3, with bounds on time, size and number.
//! - `message.rs` and `record.rs` are what is said, with a versioned encoding.
//! - `moving/` has both sides of a move, as state machines and as what drives them.
//! - `replicas/` and `successor.rs` have sessions go on that lose their node.
//! - `director.rs` decides which node has a flow.
//! - `heartbeat/` tells which members are alive, by sealed datagrams.
//!
//! It does not know what a session is: the server gives and takes its bytes through a trait.

mod director;
mod fields;
mod heartbeat;
mod identity;
mod link;
mod message;
mod moving;
mod name;
mod record;
mod remote;
mod replicas;
mod successor;

pub use director::{Control, Director, DirectorCounts, Known, Steering, TableFault};
pub use fields::FieldError;
pub use heartbeat::{
    Beat, BeatCounts, BeatRefusal, Change, Detector, DetectorSettings, Health, HeartbeatError, Heartbeats, Opened,
    Opener, Sealer, StartId,
};
pub use identity::{
    Admission, Authority, ClusterSecret, Identity, IdentityError, JoinError, KeyError, MemberKey, PublicKey, Token,
    TokenError, Tokens, join,
};
pub use link::{
    Answering, Closed, HandshakeError, LinkClient, LinkCounts, LinkCountsNow, LinkError, LinkServer, LinkSettings,
    Members, Trust, TrustError,
};
pub use message::{Claim, Decline, MESSAGE_BYTES_MAX, Message, Owner, PIECE_BYTES_MAX, Timings};
pub use moving::{
    Answer, Counts, Directing, DirectingError, Event, Giving, GivingStep, Heard, Keeper, KeeperFault, MoveError, Mover,
    MoverSettings, Registry, SessionError, Sessions, Taken, Taking, TakingInput, TakingStep, Transport, TransportError,
};
pub use name::{DOMAIN, Member, NameError, NodeName, NodeNumber, Role};
pub use record::{MoveId, Record, Span};
pub use remote::{DirectorAnswers, NodeAnswers, Numbers, RemoteDirector, RemoteNodes};
pub use replicas::{
    Batch, Births, Kept, Place, Position, REPLICA_BYTES_MAX, Replica, ReplicaStore, SocketOptions, StoreCounts, Unfit,
    Word,
};
pub use successor::{Loss, Succession, Successor, TakeOverError};

/// Entries for the fuzz targets.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::identity::SigningRequest;
}
