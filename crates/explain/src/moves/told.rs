//! What the members of a cluster tell of moves and of their clocks.

use std::net::SocketAddr;

/// A moment by two clocks of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Microseconds since 1970.
    pub unix_us: u64,
    /// CLOCK_MONOTONIC, microseconds.
    pub monotonic_us: u64,
}

/// What one start of a member told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsOf {
    /// The member.
    pub member: String,
    /// Which start of which kernel its monotonic times count from.
    pub boot_id: String,
    /// Some moment of it.
    pub began: Moment,
    /// Moves that it took part in.
    pub moves: Vec<MoveTold>,
    /// How its clock stood to those of others.
    pub clocks: Vec<ClockTold>,
}

/// Who tells of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The node that had the session; it was over then.
    Giver,
    /// The node that has it now; it went on there then.
    Taker,
    /// The director, which let the new node go on then.
    Director,
}

/// A move as a member tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveTold {
    /// Which move: the same at all members.
    pub id: String,
    /// Who tells it.
    pub side: Side,
    /// When.
    pub at: Moment,
    /// The client's end of the connection.
    pub client: SocketAddr,
    /// The node that had the session.
    pub from: String,
    /// The node that has it now.
    pub to: String,
    /// How long it stood still, microseconds; the giver knows it.
    pub freeze_us: Option<u64>,
    /// How long the move took there, microseconds.
    pub total_us: Option<u64>,
    /// Whether a response was under way; the giver knows it.
    pub under_way: Option<bool>,
}

/// How a member's clock stood to another one's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockTold {
    /// When, by the member's clock.
    pub at: Moment,
    /// The other member.
    pub member: String,
    /// The other clock less the member's own, microseconds.
    pub offset_us: i64,
    /// By how much that may be wrong, microseconds.
    pub error_us: u64,
}
