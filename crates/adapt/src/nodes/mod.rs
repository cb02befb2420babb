//! Rules over the nodes of a cluster: what they are told, and what each member does of what they decide.
//!
//! Each member evaluates the same policy on what it has heard. The director in duty decides for all which reserve nodes
//! are awake and how many copies atoms have (`director.rs`, `reserve.rs`); each node decides which of its own sessions
//! switch (`node.rs`). `fit.rs` says what of a policy a cluster cannot do.
//!
//! Nothing here has a clock or a socket: the same readings at the same times lead to the same decisions.

mod choosing;
mod director;
mod fit;
mod intake;
mod limits;
mod node;
mod reserve;
mod wished;

pub use choosing::Choosing;
pub use director::{Acted, DirectorRules, Done, Dropped};
pub use fit::Unfit;
pub use intake::{AtomSeen, NodeReading, NodeSeen, NodeStrain, RuleTimes};
pub use node::{NodeRules, SWITCHES_MAX, SessionSeen, Switch, Switched};
pub use wished::{Firings, Heeded, NodeState, WISHED_BYTES_MAX, Wish, Wished, WordError};
