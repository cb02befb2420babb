//! `members.toml`: who takes part in a cluster and at which address clients reach it. The file is the same on all
//! members.

use super::directory_place::DirectoryPlace;
use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;
use weir_adapt::nodes::RuleTimes;
use weir_cluster::{CONFIGURED_DEFAULT, CONFIGURED_MAX, Member, NodeName, NodeNumber, Role, Seat};
use weir_keeper::NodePlace;
use weir_terminal::text_file;

/// The name of the file in a cluster's directory.
pub(crate) const FILE: &str = "members.toml";
/// Bytes of the file: thousands of nodes.
const BYTES_MAX: u64 = 1 << 20;
/// The number of the director in heartbeats; nodes count from 1.
pub(crate) const DIRECTOR: NodeNumber = 0;
/// That of the director that stands by.
pub(crate) const STANDBY: NodeNumber = NodeNumber::MAX;

/// What `weir cluster init` writes; the lines are to be filled in.
pub(crate) const EXAMPLE: &str = r#"# The members of the cluster. Fill this in, and copy it to all of them.

# The addresses that clients know: on the director's interface, and on the
# loopback interface of each node (with arp_ignore = 1 and arp_announce = 2).
service = ["10.0.0.80:80", "10.0.0.80:443"]

# New connections go where CPU is to spare and few responses are under way. With
# "weights" they go by the weights of the nodes alone.
# balance = "weights"

# So often members gossip how they stand: 500 to 30000.
# gossip_ms = 1000

# It sends each connection's packets to a node.
[director]
name = "front"
# TCP for what members ask, UDP for heartbeats.
address = "10.0.0.1:7700"

# A second one takes over when the first is gone, and then stands the first one
# by. Who is active is agreed on by [directory], or said by weir cluster activate.
# [standby]
# name = "front2"
# address = "10.0.0.2:7700"

# The nodes, numbered from 1; mac is that of the interface in the director's
# network (ip link show). weight is 100 unless it is said: 0 is for a node that
# gets no new connections, 200 for one that is to get twice as many as the others.
# url, such as "http://10.0.0.11:8080", is for weir cluster front.
[[node]]
name = "n1"
number = 1
address = "10.0.0.11:7700"
mac = "02:00:00:00:00:11"

# A node gives the next one a replica of each download that takes long, so that it
# goes on there if its node dies. Over TLS a replica holds the connection's keys.
# With tls = false keys stay on their node, and downloads over TLS end with it.
# [replicas]
# tls = true

# With shared = true a TLS session that one node has begun is resumed at any other.
# The nodes then have keys of session tickets in common, in memory and for a day at
# most: of a node that is taken over in that time, recorded TLS 1.2 sessions that
# were begun or resumed with a ticket at any node can be read. Without it each node
# has keys of its own.
# [tickets]
# shared = true

# Where weir cluster publish keeps which versions of sites there are: a file, for
# nodes of one machine (below this directory, unless it begins with /), or etcd.
# [directory]
# etcd = ["https://10.0.0.11:2379", "https://10.0.0.12:2379"]
# ca = "etcd-ca.crt"
# certificate = "etcd-client.crt"
# key = "etcd-client.key"
# Bytes of content that each node keeps; without it each keeps everything.
# keeps_bytes = 50000000000
"#;

/// The same with other lines for the directory.
pub(super) fn example(directory: &str) -> String {
    let head = EXAMPLE.split_once("# [directory]").map_or(EXAMPLE, |(head, _)| head);
    format!("{head}{directory}")
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    service: Vec<SocketAddr>,
    #[serde(default)]
    balance: BalanceBy,
    gossip_ms: Option<u64>,
    director: Place,
    standby: Option<Place>,
    #[serde(default)]
    node: Vec<WrittenNode>,
    directory: Option<DirectoryPlace>,
    #[serde(default)]
    replicas: Replicas,
    #[serde(default)]
    tickets: Tickets,
}

/// How tickets of TLS sessions are sealed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Tickets {
    /// Whether by keys that all nodes have.
    pub(crate) shared: bool,
}

/// What is replicated of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Replicas {
    /// Whether those over TLS are, with their keys.
    pub(crate) tls: bool,
}

impl Default for Replicas {
    /// A node has the key of the site's certificate, and gets the keys of each session that moves to it anyway.
    fn default() -> Self {
        Self { tls: true }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    name: String,
    address: SocketAddr,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenNode {
    name: String,
    number: NodeNumber,
    address: SocketAddr,
    mac: String,
    keeps_bytes: Option<u64>,
    weight: Option<u16>,
    url: Option<String>,
}

/// How often members gossip, and how long what they say holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GossipPace(Duration);

impl GossipPace {
    const MS: RangeInclusive<u64> = 500..=30_000;
    /// Readings that may be missing before what was heard is too old, or a node is gone.
    const MISSES: u32 = 5;

    fn of(written_ms: Option<u64>) -> anyhow::Result<Self> {
        let ms = written_ms.unwrap_or(1_000);
        let (least, most) = Self::MS.into_inner();
        ensure!(Self::MS.contains(&ms), "gossip_ms is {ms}; write a number of milliseconds from {least} to {most}");
        Ok(Self(Duration::from_millis(ms)))
    }

    /// From one reading to the next.
    pub(crate) fn interval(self) -> Duration {
        self.0
    }

    /// How long something holds that holds for so long where members gossip each second.
    pub(crate) fn stretched(self, usual: Duration) -> Duration {
        usual.max(self.0 * Self::MISSES)
    }

    /// How long what rules read holds.
    pub(crate) fn rule_times(self) -> RuleTimes {
        let RuleTimes { node_valid_ms, atom_valid_ms } = RuleTimes::default();
        let stretched = |ms| u64::try_from(self.stretched(Duration::from_millis(ms)).as_millis()).unwrap_or(u64::MAX);
        RuleTimes { node_valid_ms: stretched(node_valid_ms), atom_valid_ms: stretched(atom_valid_ms) }
    }
}

/// By what new connections are spread over the nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BalanceBy {
    /// By their weights and readings.
    #[default]
    Load,
    /// By their weights alone.
    Weights,
}

/// A member and where it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) member: Member,
    /// TCP for links, UDP for heartbeats.
    pub(crate) address: SocketAddr,
}

/// The members of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MembersFile {
    pub(crate) services: Vec<SocketAddr>,
    pub(crate) director: Reached,
    /// The second director, if there is one.
    pub(crate) standby: Option<Reached>,
    pub(crate) nodes: BTreeMap<NodeNumber, (Reached, NodePlace)>,
    /// The configured weights of all nodes.
    pub(crate) weights: BTreeMap<NodeNumber, u16>,
    pub(crate) balance: BalanceBy,
    pub(crate) pace: GossipPace,
    /// Where clients reach single nodes, for a front; without a slash at the end.
    pub(crate) urls: BTreeMap<NodeNumber, String>,
    /// Where versions of sites are published, if they are.
    pub(crate) directory: Option<DirectoryPlace>,
    /// Bytes of published content that nodes keep, of those that do not keep all.
    pub(crate) keeps_bytes: BTreeMap<NodeNumber, u64>,
    pub(crate) replicas: Replicas,
    pub(crate) tickets: Tickets,
}

impl MembersFile {
    /// Reads the file of a cluster's directory.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(FILE);
        let text = text_file::read(&path, BYTES_MAX)
            .with_context(|| format!("{}: write it as `weir cluster init` shows", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let written: Written = toml::from_str(text)?;
        let services = services_of(&written.service)?;
        let reached = |name: &str, role, address: SocketAddr| -> anyhow::Result<Reached> {
            let is_one = address.port() != 0 && !address.ip().is_unspecified();
            ensure!(is_one, "{name} is at {address}, where others cannot reach it; name its address and port");
            Ok(Reached { member: Member { name: name.parse::<NodeName>()?, role }, address })
        };
        let director = reached(&written.director.name, Role::Director, written.director.address)?;
        let standby =
            written.standby.iter().map(|it| reached(&it.name, Role::Director, it.address)).next().transpose()?;
        ensure!(
            standby.as_ref().is_none_or(|it| it.member.name != director.member.name && it.address != director.address),
            "[standby] has the name or address of [director]; name the second director, or remove [standby]"
        );
        let (mut nodes, mut weights, mut urls) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for node in &written.node {
            let WrittenNode { name, number, address, mac, weight, url, .. } = node;
            if let Some(url) = url {
                urls.insert(*number, url_of(url).with_context(|| format!("node {name}"))?);
            }
            ensure!(
                weight.is_none_or(|weight| weight <= CONFIGURED_MAX),
                "node {name} has a weight above {CONFIGURED_MAX}; give weights from 0 to {CONFIGURED_MAX}"
            );
            weights.insert(*number, weight.unwrap_or(CONFIGURED_DEFAULT));
            ensure!(*number != DIRECTOR, "node {name} has the number 0; number the nodes from 1");
            ensure!(*number != STANDBY, "node {name} has the number {STANDBY}; number the nodes from 1");
            let place = NodePlace { number: *number, mac: mac_of(mac).with_context(|| format!("node {name}"))? };
            let entry = (reached(name, Role::Node, *address)?, place);
            let is_same =
                |known: &Reached| known.member.name == entry.0.member.name || known.address == entry.0.address;
            let is_doubled = is_same(&director)
                || standby.as_ref().is_some_and(is_same)
                || nodes.values().any(|(known, _): &(Reached, NodePlace)| is_same(known));
            if is_doubled || nodes.insert(*number, entry).is_some() {
                bail!("node {name} has the number, name or address of another member; give it its own");
            }
        }
        ensure!(!nodes.is_empty(), "there is no [[node]]; name at least one");
        ensure!(weights.values().any(|weight| *weight > 0), "all nodes have the weight 0; give one of them another");
        written.directory.iter().try_for_each(DirectoryPlace::check)?;
        let keeps_bytes = keeps_bytes_of(&written)?;
        let pace = GossipPace::of(written.gossip_ms)?;
        let Written { balance, directory, replicas, tickets, .. } = written;
        Ok(Self {
            services,
            director,
            standby,
            nodes,
            weights,
            balance,
            pace,
            urls,
            directory,
            keeps_bytes,
            replicas,
            tickets,
        })
    }

    /// The director that has begun an epoch; the only one, where there is one.
    pub(crate) fn active(&self, epoch: u64) -> &Reached {
        self.standby.as_ref().filter(|_| Seat::of(epoch) == Seat::Second).unwrap_or(&self.director)
    }

    /// The node of this name.
    pub(crate) fn number(&self, name: &NodeName) -> anyhow::Result<NodeNumber> {
        let found = self.nodes.iter().find(|(_, (reached, _))| reached.member.name == *name);
        found.map(|(number, _)| *number).with_context(|| {
            let known: Vec<&str> = self.nodes.values().map(|(reached, _)| reached.member.name.as_str()).collect();
            format!("there is no node {name} in {FILE}, which has {}", known.join(", "))
        })
    }
}

/// The budgets of nodes, each its own or that of all.
fn keeps_bytes_of(written: &Written) -> anyhow::Result<BTreeMap<NodeNumber, u64>> {
    let mut budgets = BTreeMap::new();
    for WrittenNode { name, number, keeps_bytes: own, .. } in &written.node {
        let Some(directory) = &written.directory else {
            ensure!(own.is_none(), "node {name} has keeps_bytes, and there is no [directory]; add it, or remove this");
            continue;
        };
        let Some(keeps_bytes) = own.or(directory.keeps_bytes()) else { continue };
        let most = directory.content_bytes_max();
        ensure!(keeps_bytes > 0, "keeps_bytes of node {name} is 0; leave it away, or name bytes");
        ensure!(
            keeps_bytes <= most,
            "node {name} has keeps_bytes = {keeps_bytes}, and content may take {most} bytes; raise content_bytes_max"
        );
        budgets.insert(*number, keeps_bytes);
    }
    Ok(budgets)
}

/// The addresses of the service, those of IPv4 as such.
fn services_of(written: &[SocketAddr]) -> anyhow::Result<Vec<SocketAddr>> {
    ensure!(!written.is_empty(), "service is empty; name the address that clients know");
    let mut services = Vec::new();
    for service in written {
        let is_one = service.port() != 0 && !service.ip().is_unspecified();
        ensure!(
            is_one,
            "service has {service}, to which no client connects; name the address and port that clients know"
        );
        let service = SocketAddr::new(service.ip().to_canonical(), service.port());
        ensure!(!services.contains(&service), "service has {service} twice; name it once");
        services.push(service);
    }
    Ok(services)
}

/// The scheme and the authority of a node's url.
fn url_of(text: &str) -> anyhow::Result<String> {
    let url = text.strip_suffix('/').unwrap_or(text);
    let authority = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let is_one = |authority: &str| {
        !authority.is_empty() && authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
    };
    ensure!(
        authority.is_some_and(is_one),
        "{text:?} is no url of a node; write a scheme and an address such as http://10.0.0.11:8080, without a path"
    );
    Ok(url.to_owned())
}

/// The six bytes of an Ethernet address.
fn mac_of(text: &str) -> anyhow::Result<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2 && !part.starts_with('+')))
        .collect();
    let bytes = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
    // The lowest bit of the first byte marks a group (IEEE 802).
    let bytes = bytes.filter(|bytes| bytes[0] & 1 == 0 && *bytes != [0; 6]);
    bytes.with_context(|| {
        format!("{text:?} is no Ethernet address of an interface; write six bytes such as 02:00:00:00:00:11")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_can_be_read() {
        let read = MembersFile::parse(EXAMPLE).expect("is right");
        assert_eq!((read.services.len(), read.nodes.len()), (2, 1));
        assert!(read.directory.is_none());
        let with = example(&super::super::directory_place::directory_lines(&[]));
        assert!(MembersFile::parse(&with).expect("is right").directory.is_some());
        assert_eq!(read.nodes[&1].1.mac, [2, 0, 0, 0, 0, 0x11]);
        assert_eq!(read.number(&"n1".parse().expect("a name")).expect("is there"), 1);
        assert!(read.number(&"n2".parse().expect("a name")).expect_err("is not").to_string().contains("which has n1"));
    }

    #[test]
    fn what_is_gossiped_seldom_holds_for_longer() {
        let pace = |ms: u64| {
            let text = EXAMPLE.replace("# gossip_ms = 1000", &format!("gossip_ms = {ms}"));
            MembersFile::parse(&text).expect("is right").pace
        };
        let times = |ms| {
            let RuleTimes { node_valid_ms, atom_valid_ms } = pace(ms).rule_times();
            (pace(ms).interval().as_millis(), node_valid_ms, atom_valid_ms)
        };
        assert_eq!(times(500), (500, 5_000, 45_000));
        assert_eq!(times(1_000), (1_000, 5_000, 45_000));
        assert_eq!(times(30_000), (30_000, 150_000, 150_000));
        assert_eq!(MembersFile::parse(EXAMPLE).expect("is right").pace, pace(1_000));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let changed = |from: &str, to: &str| {
            assert!(EXAMPLE.contains(from), "{from}");
            format!("{:#}", MembersFile::parse(&EXAMPLE.replace(from, to)).expect_err("is wrong"))
        };
        assert!(changed("number = 1", "number = 0").contains("number the nodes from 1"));
        assert!(changed("02:00:00:00:00:11", "02:00:00:00:11").contains("no Ethernet address"));
        assert!(changed("name = \"n1\"", "name = \"N1\"").contains("is no name of a node"));
        assert!(changed("[\"10.0.0.80:80\", \"10.0.0.80:443\"]", "[]").contains("service is empty"));
        assert!(changed("number = 1", "nmber = 1").contains("nmber"));
        assert!(changed("number = 1", "number = 1\nweight = 1001").contains("give weights from 0 to 1000"));
        for wrong in ["499", "30001"] {
            let why = changed("# gossip_ms = 1000", &format!("gossip_ms = {wrong}"));
            assert!(why.contains("from 500 to 30000"), "{why}");
        }
        assert!(changed("number = 1", "number = 1\nurl = \"ftp://a\"").contains("no url of a node"));
        assert!(changed("number = 1", "number = 1\nurl = \"http://a/b\"").contains("without a path"));
        assert!(changed("number = 1", "number = 1\nweight = 0").contains("all nodes have the weight 0"));
        assert!(changed("02:00:00:00:00:11", "01:00:00:00:00:11").contains("no Ethernet address"));
        assert!(changed("02:00:00:00:00:11", "00:00:00:00:00:00").contains("no Ethernet address"));
        assert!(changed("10.0.0.80:443", "10.0.0.80:0").contains("to which no client connects"));
        assert!(changed("10.0.0.80:443", "[::ffff:10.0.0.80]:80").contains("10.0.0.80:80 twice"));
        assert!(changed("10.0.0.80:80\"", "0.0.0.0:80\"").contains("to which no client connects"));
        assert!(changed("10.0.0.11:7700", "0.0.0.0:7700").contains("cannot reach it"));
        assert!(changed("10.0.0.1:7700", "10.0.0.1:0").contains("cannot reach it"));
        assert!(changed("10.0.0.11:7700", "10.0.0.1:7700").contains("give it its own"));
        assert!(changed("name = \"n1\"", "name = \"front\"").contains("give it its own"));
        let pair = EXAMPLE
            .replace("# [standby]\n# name = \"front2\"\n# address = ", "[standby]\nname = \"front2\"\naddress = ");
        let read = MembersFile::parse(&pair).expect("is right");
        assert_eq!(read.active(4).member.name.as_str(), "front");
        assert_eq!(read.active(5).member.name.as_str(), "front2");
        let same = pair.replace("10.0.0.2:7700", "10.0.0.1:7700");
        let same = format!("{:#}", MembersFile::parse(&same).expect_err("is wrong"));
        assert!(same.contains("name the second director"), "{same}");
        let is_replicated = |text: &str| MembersFile::parse(text).expect("is right").replicas.tls;
        assert!(is_replicated(EXAMPLE) && !is_replicated(&format!("{EXAMPLE}[replicas]\ntls = false\n")));
        assert!(changed("# [replicas]\n# tls = true", "[replicas]\nssl = true").contains("ssl"));
        let twice = format!(
            "{EXAMPLE}\n[[node]]\nname = \"n2\"\nnumber = 1\naddress = \"10.0.0.12:7700\"\nmac = \"02:00:00:00:00:12\"\n"
        );
        assert!(format!("{:#}", MembersFile::parse(&twice).expect_err("is wrong")).contains("give it its own"));
    }
}
