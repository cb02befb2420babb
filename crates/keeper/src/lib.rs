//! Moves TCP connections between hosts: reads, holds and restores them, and steers them to a node.
//!
//! Here is all that needs CAP_NET_ADMIN or BPF. It knows connections, not what they carry.
//!
//! On a node:
//!
//! 1. [`KeeperProcess`] attaches the filter of [`HoldFilter`] to the node's interfaces and drops its other privileges.
//! 2. A server without privileges asks it by [`KeeperClient`], and passes descriptors.
//! 3. `freeze`: the filter holds what comes in, then [`repair`] reads the connection's state by `TCP_REPAIR` (tcp(7)).
//! 4. `restore` at another node makes a socket with that state, and `activate` has it go on there.
//! 5. `discard` at the first node closes its socket without a word to the client.
//!
//! 6. `guard` and `keep`: the keeper has a second descriptor of a socket. When its server ends, the keeper ends the
//!    connection without a word to the client, drops what comes in for it, and tells it as orphaned: another node may go on.
//!
//! On the director [`FlowTable`] sends each packet for the service's address to the node that has its connection, spreads
//! new ones by [`maglev`], and notes what each client acknowledged last ([`Seen`]). [`ServiceAddress`] is at the director
//! that is active.

mod client;
mod counts;
mod encoding;
mod filter;
mod flow;
mod flow_key;
mod flow_table;
mod guarded;
mod held_flows;
mod hold;
pub mod maglev;
mod packet_cost;
mod packets;
mod privileges;
mod process;
pub mod protocol;
pub mod repair;
mod service_address;
mod socket_calls;
mod tcp_state;

pub use client::{KeeperClient, KeeperError};
pub use counts::KeeperCounts;
pub use encoding::DecodeError;
pub use filter::FilterError;
pub use flow::{Birth, Flow, Seen};
pub use flow_table::{FlowCounts, FlowTable, IdleTimes, NodePlace};

pub use hold::{Dropped, HoldFilter};
#[doc(hidden)]
pub use packet_cost::PlainRedirect;
pub use process::{KeeperOptions, KeeperProcess, KeeperStartError};
pub use repair::{Heard, RepairError};
pub use service_address::{AddressError, ServiceAddress};
pub use socket_calls::{Progress, progress};
pub use tcp_state::{Frozen, TcpState};
