//! The engine for many machines: etcd (3.4 or later), asked through its gateway for JSON over HTTP.
//!
//! The gateway is part of each etcd server, on the same port, and does all that the directory needs: transactions,
//! leases, and watches as a stream of lines. The crate etcd-client would bring gRPC, HTTP/2 and Protocol Buffers into
//! the program and their compiler into the build.

mod engine;
mod gateway;
mod membership;
mod message;
mod settings;
mod watching;

pub(crate) use engine::Etcd;
pub use membership::{EtcdHealth, EtcdMember, EtcdMemberState, EtcdMembership, EtcdSilence};
pub(crate) use settings::is_loopback;
pub use settings::{EtcdSettings, TlsFiles};
