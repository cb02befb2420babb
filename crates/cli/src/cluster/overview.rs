//! How all members of a cluster stand, by what they gossip, as `weir cluster nodes` and `top` show it.

use super::members::{DIRECTOR, MembersFile, Reached, STANDBY};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use weir_adapt::nodes::{Heeded, NodeState};
use weir_cluster::{Gossip, HeardMember, NodeNumber, Reading};

/// Paths of the whole cluster that are told.
const PATHS_MAX: usize = 100;
/// Nodes of a path that are named.
const NAMES_MAX: usize = 8;

/// How all members stand, as one of them has heard it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Overview {
    /// The member that tells it.
    pub(crate) told_by: String,
    pub(crate) members: Vec<MemberNow>,
    /// What living members are asked for most.
    pub(crate) paths: Vec<PathNow>,
    /// Bytes that this member has gossiped, and for how long.
    pub(crate) gossip: GossipNow,
}

/// What gossip costs this member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GossipNow {
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) forged: u64,
    pub(crate) replayed: u64,
    /// Refused otherwise: too large, of another form, or of no member.
    pub(crate) refused: u64,
}

/// The state of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Alive,
    Draining,
    /// It is of the reserve, and no rule has woken it.
    Asleep,
    Silent,
    /// Nothing was heard of it since this member started.
    Unheard,
}

impl State {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Draining => "draining",
            Self::Asleep => "asleep",
            Self::Silent => "silent",
            Self::Unheard => "unheard",
        }
    }

    pub(crate) fn is_there(self) -> bool {
        matches!(self, Self::Alive | Self::Draining | Self::Asleep)
    }
}

/// A member as it was heard last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemberNow {
    /// 0 for the director.
    pub(crate) number: NodeNumber,
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) state: State,
    /// How long ago its reading came.
    pub(crate) age_s: Option<f64>,
    /// How long ago a sign of life came.
    pub(crate) silence_s: Option<f64>,
    pub(crate) version: Option<String>,
    pub(crate) up_since_unix_s: Option<u64>,
    pub(crate) reading: Option<ReadingNow>,
    pub(crate) sites: BTreeMap<String, u64>,
    /// Its weight for new connections; only a director tells it, as it does the packets that it sends on to the node.
    #[serde(default)]
    pub(crate) weight: Option<u16>,
    #[serde(default)]
    pub(crate) packets_per_s: Option<f64>,
}

/// A reading of a node.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReadingNow {
    pub(crate) requests_per_s: f64,
    pub(crate) open_connections: u64,
    pub(crate) sending_sessions: u64,
    pub(crate) sent_bytes_per_s: u64,
    /// Of the CPUs that the server may use.
    pub(crate) cpu_share: f64,
    /// None of a node that has just begun, or runs an earlier version.
    #[serde(default)]
    pub(crate) strain: Option<StrainNow>,
}

/// What a node's requests wait for, how many fail, and how full its memory is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct StrainNow {
    /// Requests that wait.
    pub(crate) queue: f64,
    pub(crate) wait_s: f64,
    pub(crate) mem_bytes: u64,
    pub(crate) mem_share: f64,
    pub(crate) errors_per_s: f64,
    pub(crate) error_share: f64,
}

/// A path that the cluster is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PathNow {
    pub(crate) path: String,
    pub(crate) requests_per_s: f64,
    /// Of all requests of the cluster.
    pub(crate) share: f64,
    /// Where it is asked for, the node with most requests first; at most 8.
    pub(crate) nodes: Vec<String>,
    /// How many nodes are not named.
    pub(crate) more_nodes: u64,
}

/// The director and the nodes.
pub(super) fn reached_members(members: &MembersFile) -> impl Iterator<Item = (NodeNumber, &Reached)> {
    let nodes = members.nodes.iter().map(|(number, (reached, _))| (*number, reached));
    let standby = members.standby.iter().map(|second| (STANDBY, second));
    [(DIRECTOR, &members.director)].into_iter().chain(standby).chain(nodes)
}

/// How all members stand, as this one has heard it.
pub(crate) fn overview(members: &MembersFile, own: NodeNumber, gossip: &Gossip) -> Overview {
    let heard = gossip.heard();
    let of = |reached: &Reached| heard.iter().find(|heard| heard.name == reached.member.name);
    let now: Vec<MemberNow> =
        reached_members(members).map(|(number, reached)| member_now(number, reached, of(reached))).collect();
    let counts = gossip.counts();
    Overview {
        told_by: now.iter().find(|member| member.number == own).map_or_else(String::new, |member| member.name.clone()),
        paths: paths_now(&now, &heard),
        members: now,
        gossip: GossipNow {
            sent_bytes: counts.sent_bytes,
            received_bytes: counts.received_bytes,
            forged: counts.forged,
            replayed: counts.replayed,
            refused: counts.oversized + counts.other + counts.broken,
        },
    }
}

/// How one node stands, as this member has heard it; none if there is no such node.
pub(crate) fn node_now(members: &MembersFile, node: NodeNumber, gossip: &Gossip) -> Option<MemberNow> {
    let (reached, _) = members.nodes.get(&node)?;
    let heard = gossip.heard().into_iter().find(|heard| heard.name == reached.member.name);
    Some(member_now(node, reached, heard.as_ref()))
}

fn member_now(number: NodeNumber, reached: &Reached, heard: Option<&HeardMember>) -> MemberNow {
    let state = match heard {
        None => State::Unheard,
        Some(heard) if !heard.is_alive => State::Silent,
        Some(heard) if heard.reading.is_some_and(|reading| reading.is_draining) => State::Draining,
        Some(heard) => match Heeded::parse(&heard.rules).map(|heeded| heeded.state) {
            Ok(NodeState::Draining) => State::Draining,
            Ok(NodeState::Asleep) => State::Asleep,
            // A director says something else there.
            Ok(NodeState::Awake) | Err(_) => State::Alive,
        },
    };
    let introduction = heard.and_then(|heard| heard.introduction.as_ref());
    MemberNow {
        number,
        name: reached.member.name.to_string(),
        role: reached.member.role.word().to_owned(),
        state,
        age_s: heard.filter(|heard| heard.reading.is_some()).map(|heard| heard.age.as_secs_f64()),
        silence_s: heard.map(|heard| heard.silence.as_secs_f64()),
        version: introduction.map(|introduction| introduction.version.clone()),
        up_since_unix_s: introduction.map(|introduction| introduction.since_unix_s),
        reading: heard.and_then(|heard| heard.reading.as_ref()).map(ReadingNow::of),
        sites: heard.map(|heard| heard.sites.clone()).unwrap_or_default(),
        weight: None,
        packets_per_s: None,
    }
}

impl ReadingNow {
    fn of(reading: &Reading) -> Self {
        Self {
            requests_per_s: reading.requests_per_s,
            open_connections: reading.open,
            sending_sessions: reading.sending,
            sent_bytes_per_s: reading.sent_bytes_per_s,
            cpu_share: reading.cpu_share,
            strain: reading.strain.map(|strain| StrainNow {
                queue: strain.queue,
                wait_s: strain.wait_s,
                mem_bytes: strain.mem_bytes,
                mem_share: strain.mem_share,
                errors_per_s: strain.errors_per_s,
                error_share: strain.error_share,
            }),
        }
    }
}

/// What is asked for most of the members that are there.
fn paths_now(members: &[MemberNow], heard: &[HeardMember]) -> Vec<PathNow> {
    let is_there = |name: &str| members.iter().any(|member| member.name == name && member.state.is_there());
    let mut paths: HashMap<&str, Vec<(f64, &str)>> = HashMap::new();
    for heard in heard.iter().filter(|heard| is_there(heard.name.as_str())) {
        for asked in &heard.popular {
            paths.entry(&asked.path).or_default().push((asked.requests_per_s, heard.name.as_str()));
        }
    }
    let sum = |nodes: &[(f64, &str)]| nodes.iter().map(|(rate, _)| rate).sum::<f64>();
    let of_paths: f64 = paths.values().map(|nodes| sum(nodes)).sum();
    let readings = members.iter().filter(|member| member.state.is_there()).filter_map(|member| member.reading);
    // Rates of paths are evened out over some seconds, so that they may be more than the requests of the last one.
    let all = readings.map(|reading| reading.requests_per_s).sum::<f64>().max(of_paths);
    let mut now: Vec<PathNow> = paths
        .into_iter()
        .map(|(path, mut nodes)| {
            nodes.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
            let requests_per_s = sum(&nodes);
            PathNow {
                path: path.to_owned(),
                requests_per_s,
                share: if all > 0.0 { requests_per_s / all } else { 0.0 },
                more_nodes: nodes.len().saturating_sub(NAMES_MAX) as u64,
                nodes: nodes.iter().take(NAMES_MAX).map(|(_, name)| (*name).to_owned()).collect(),
            }
        })
        .collect();
    now.sort_by(|one, other| {
        other.requests_per_s.total_cmp(&one.requests_per_s).then_with(|| one.path.cmp(&other.path))
    });
    now.truncate(PATHS_MAX);
    now
}

/// The cells of a member's reading: requests, connections, sending sessions, bytes a second, CPU, age.
pub(super) fn cells(member: &MemberNow) -> [String; 6] {
    let none = || "-".to_owned();
    let age = member.age_s.map_or_else(none, |age| format!("{age:.1} s"));
    let Some(reading) = &member.reading else { return [none(), none(), none(), none(), none(), age] };
    [
        rate(reading.requests_per_s),
        weir_report::count(reading.open_connections),
        weir_report::count(reading.sending_sessions),
        format!("{}/s", weir_report::bytes(reading.sent_bytes_per_s)),
        format!("{:.1} %", reading.cpu_share * 100.0),
        age,
    ]
}

/// The cells of what strains a member: requests that wait, for how long, those that fail, memory.
pub(super) fn strain_cells(member: &MemberNow) -> [String; 4] {
    let Some(strain) = member.reading.as_ref().and_then(|reading| reading.strain) else {
        return std::array::from_fn(|_| "-".to_owned());
    };
    [
        rate(strain.queue),
        weir_report::nanoseconds(strain.wait_s * 1e9),
        rate(strain.errors_per_s),
        format!("{:.0} %", strain.mem_share * 100.0),
    ]
}

pub(super) fn rate(requests_per_s: f64) -> String {
    if requests_per_s < 9.95 {
        format!("{requests_per_s:.1}")
    } else {
        weir_report::count(requests_per_s.round() as u64)
    }
}

/// A state in words; of a silent member since when.
pub(super) fn state_words(member: &MemberNow) -> String {
    match (member.state, member.silence_s) {
        (State::Silent, Some(silence)) => format!("silent for {silence:.0} s"),
        (state, _) => state.word().to_owned(),
    }
}

/// What `weir cluster nodes` and `top` say of the sites of a member.
pub(super) fn site_words(sites: &BTreeMap<String, u64>) -> String {
    sites.iter().map(|(site, version)| format!("{site} {version}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weir_cluster::Asked as AskedFor;

    fn heard(name: &str, is_alive: bool, popular: &[(&str, f64)]) -> HeardMember {
        let asked = |(path, rate): &(&str, f64)| AskedFor { path: (*path).to_owned(), requests_per_s: *rate };
        HeardMember {
            name: name.parse().expect("a name"),
            introduction: None,
            is_alive,
            reading: Some(Reading { requests_per_s: 10.0, ..Reading::default() }),
            age: Duration::from_secs(5),
            silence: Duration::from_secs(3),
            sites: BTreeMap::new(),
            popular: popular.iter().map(asked).collect(),
            rules: String::new(),
        }
    }

    #[test]
    fn paths_of_living_members_are_added_up() {
        let all = [
            heard("n1", true, &[("/a", 4.0), ("/b", 1.0)]),
            heard("n2", true, &[("/a", 6.0)]),
            heard("n3", false, &[("/a", 100.0)]),
        ];
        let now: Vec<MemberNow> = all
            .iter()
            .map(|heard| {
                let member = weir_cluster::Member { name: heard.name.clone(), role: weir_cluster::Role::Node };
                let reached = Reached { member, address: "10.0.0.1:1".parse().expect("an address") };
                member_now(1, &reached, Some(heard))
            })
            .collect();
        assert_eq!(now.iter().map(state_words).collect::<Vec<_>>(), ["alive", "alive", "silent for 3 s"]);
        let paths = paths_now(&now, &all);
        assert_eq!((paths[0].path.as_str(), paths[0].requests_per_s, paths[0].share), ("/a", 10.0, 0.5));
        assert_eq!((paths[0].nodes.join(" "), paths[1].nodes.join(" ")), ("n2 n1".to_owned(), "n1".to_owned()));
    }
}
