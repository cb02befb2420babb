//! How a member begins to gossip, and how it is asked what it has heard.

use super::control_socket::{self, Asked, Told};
use super::members::{MembersFile, Reached};
use super::overview::{Overview, reached_members};
use super::printed::other_answer;
use anyhow::Context;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_cluster::{Gossip, GossipPeer, GossipSettings, Heartbeats, Identity, Introduction, NodeNumber};

/// Begins to gossip beside a member's heartbeats.
pub(crate) fn beside(
    heartbeats: &Heartbeats,
    members: &MembersFile,
    (own, identity): (NodeNumber, &Identity),
) -> anyhow::Result<Gossip> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let introduction = Introduction {
        role: identity.member.role,
        version: weir_terminal::VERSION.to_owned(),
        since_unix_s: since_1970.as_secs(),
    };
    let peer = |(number, reached): (NodeNumber, &Reached)| {
        (number, GossipPeer { name: reached.member.name.clone(), address: reached.address })
    };
    let all = reached_members(members).map(peer).collect();
    let settings = GossipSettings { interval: members.pace.interval(), ..GossipSettings::default() };
    Ok(Gossip::beside(heartbeats, (own, all), &identity.secret, &introduction, settings)?)
}

/// Asks the member of a directory how all stand.
pub(super) fn ask(folder: &Path) -> anyhow::Result<Overview> {
    match control_socket::ask(folder, &Asked::Members)? {
        Told::Members(overview) => Ok(overview),
        Told::Refused(why) => anyhow::bail!(why),
        _ => other_answer(),
    }
}

/// Whether a member gossips in a directory; else why not.
pub(super) fn ask_if_there(folder: &Path) -> anyhow::Result<Option<Overview>> {
    if control_socket::is_answered(folder) {
        ask(folder).map(Some).context("the member of this directory")
    } else {
        Ok(None)
    }
}
