//! The cluster's crate: simulated moves with every fault, real links on loopback, joining, heartbeats, gossip,
//! encodings.
// scripts/test: waits

mod encoding;
mod gossip;
mod heartbeats;
mod joining;
mod keyrings;
mod links;
mod moves;
mod placement;
mod relays;
mod simulation;
mod takeovers;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use weir_cluster::{
    Authority, ClusterSecret, Identity, LinkSettings, Member, MemberKey, Members, NodeName, Role, Trust,
};

/// How long a test waits for a state, under any load.
const PATIENCE: Duration = Duration::from_secs(30);

fn name(text: &str) -> NodeName {
    text.parse().expect("a name")
}

fn node(text: &str) -> Member {
    Member { name: name(text), role: Role::Node }
}

/// A new cluster in a directory.
fn cluster(directory: &Path) -> (Authority, Identity) {
    Authority::init(directory, &name("first"), SystemTime::now()).expect("a cluster")
}

/// An identity of the cluster, made without joining.
fn identity(authority: &Authority, member: Member) -> Identity {
    let key = MemberKey::generate().expect("random bytes");
    let certificate = authority.issue(&member, &key.public(), SystemTime::now()).expect("a certificate");
    let secret = ClusterSecret::from_bytes(&[5; 32]).expect("32 bytes");
    Identity { member, certificate, authority: authority.certificate().clone(), key, secret }
}

fn trust(authority: &Authority, member: Member, members: &Arc<Members>) -> Trust {
    Trust::new(&identity(authority, member), Arc::clone(members)).expect("TLS")
}

/// Bounds of links on a machine under any load.
fn patient() -> LinkSettings {
    LinkSettings { connect_ms: 30_000, handshake_ms: 30_000, write_ms: 30_000, ..LinkSettings::default() }
}

/// Waits until a state is reached.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
