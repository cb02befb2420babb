//! What the director tells of itself: its decisions as events in its directory, and figures for Prometheus.

use super::figures;
use super::members::MembersFile;
use super::overview::MemberNow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_adapt::nodes::{Choosing, Dropped};
use weir_cluster::{
    Answering, BeatCounts, Change, DirectorAnswers, DirectorCounts, EventEntry, EventHeader, EventLog, Health,
    LinkCounts, Member, Message, MoveId, NodeNumber, Owner, What,
};
use weir_exposition::{Families, Kind};
use weir_keeper::{Flow, FlowCounts};
use weir_trace::Host;

/// What the director tells.
#[derive(Debug)]
pub(super) struct DirectorSeen {
    log: EventLog,
    names: BTreeMap<NodeNumber, String>,
    /// Nodes whose heartbeats come.
    up: Mutex<BTreeSet<NodeNumber>>,
    links: Arc<LinkCounts>,
    /// What had no room with the rules over nodes, and words of them that were too long.
    rules_dropped: Mutex<(Dropped, u64)>,
}

/// A node, as the director has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NodeNow {
    /// For new connections; 0 where it gets none.
    pub(super) weight: u16,
    /// Packets sent on to it since the filter was attached first.
    pub(super) packets: u64,
    pub(super) packets_per_s: f64,
}

/// What its figures are of, beside what it has seen.
pub(super) struct Figures {
    pub(super) epoch: u64,
    pub(super) decided: DirectorCounts,
    pub(super) draining: BTreeSet<NodeNumber>,
    pub(super) heartbeats: BeatCounts,
    /// The flow table of each address of the service; what cannot be read is left out.
    pub(super) tables: Vec<(SocketAddr, FlowCounts)>,
    pub(super) nodes: BTreeMap<NodeNumber, NodeNow>,
    /// How they stand by what they gossip.
    pub(super) members: Vec<MemberNow>,
}

impl DirectorSeen {
    /// Begins to write events.
    pub(super) fn start(folder: &Path, members: &MembersFile, links: &Arc<LinkCounts>) -> io::Result<Self> {
        let names = members.nodes.iter().map(|(number, (reached, _))| (*number, reached.member.name.to_string()));
        let header = EventHeader::new(members.director.member.name.as_str(), &Host::this().boot_id);
        let log = EventLog::start(folder, header, |fault| eprintln!("weir cluster director: {fault}"))?;
        Ok(Self {
            log,
            names: names.collect(),
            up: Mutex::default(),
            links: Arc::clone(links),
            rules_dropped: Mutex::default(),
        })
    }

    /// A node is heard, or is heard no more.
    pub(super) fn changed(&self, change: Change) {
        let is_up = change.health == Health::Up;
        if is_up {
            self.up().insert(change.node)
        } else {
            self.up().remove(&change.node)
        };
        self.log.note(EventEntry::now(if is_up { What::Up } else { What::Down }).of(self.name(change.node)));
    }

    /// Whether the heartbeats of a node come.
    pub(super) fn is_up(&self, node: NodeNumber) -> bool {
        self.up().contains(&node)
    }

    /// A node wants no new connections, or wants some again.
    pub(super) fn drained(&self, node: NodeNumber, is_draining: bool) {
        let what = if is_draining { What::Draining } else { What::Undrained };
        self.log.note(EventEntry::now(what).of(self.name(node)));
    }

    /// A rule over nodes has decided.
    pub(super) fn ruled(&self, epoch: u64, rule: String, done: &str, readings: &str) {
        let mut entry = EventEntry::now(What::Decided).because(readings);
        (entry.rule, entry.epoch, entry.done) = (Some(rule), Some(epoch), Some(done.to_owned()));
        self.log.note(entry);
    }

    /// Another rule says which nodes get new connections, or none does any more.
    pub(super) fn chooses(&self, epoch: u64, choosing: Option<&Choosing>) {
        let Some(Choosing { rule, file, line, by, nodes, readings }) = choosing else {
            let mut entry = EventEntry::now(What::Decided);
            (entry.epoch, entry.done) = (Some(epoch), Some("new connections by the usual weights".to_owned()));
            eprintln!("weir cluster director: no rule chooses nodes for new connections");
            return self.log.note(entry);
        };
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let done = format!("new connections to the best by {} of {}", by.name(), nodes.join(" and "));
        eprintln!("weir cluster director: {rule}: {done}");
        let readings: Vec<String> = readings.iter().map(ToString::to_string).collect();
        self.ruled(epoch, format!("{file}:{line} {rule}"), &done, &readings.join("; "));
    }

    /// What had no room with the rules over nodes so far.
    pub(super) fn rules_dropped(&self, dropped: Dropped, unsaid: u64) {
        *self.rules_dropped.lock().unwrap_or_else(PoisonError::into_inner) = (dropped, unsaid);
    }

    /// A node has another weight for new connections.
    pub(super) fn weighed(&self, node: NodeNumber, why: &str) {
        self.log.note(EventEntry::now(What::Weighed).of(self.name(node)).because(why));
    }

    /// All families.
    pub(super) fn text(&self, figures: &Figures) -> String {
        use Kind::{Counter, Gauge};
        let mut out = Families::new();
        let decided = &figures.decided;
        let decisions = [
            ("steered", decided.steered),
            ("confirmed", decided.confirmed),
            ("reclaimed", decided.reclaimed),
            ("declined", decided.declined),
            ("unknown", decided.unknown),
        ];
        let help = "Decisions about moves: packets sent to the new node, the new node let go on, the old node let go on, \
                    requests declined, questions that could not be answered.";
        out.by("weir_cluster_decisions_total", Counter, help, "decision", &decisions);
        out.one("weir_cluster_epoch", Gauge, "The director's epoch.", figures.epoch);
        let up = self.up().clone();
        let members: Vec<(&str, bool)> =
            self.names.iter().map(|(number, name)| (name.as_str(), up.contains(number))).collect();
        figures::members(&mut out, &members);
        let draining: Vec<(&str, u8)> = self
            .names
            .iter()
            .map(|(number, name)| (name.as_str(), u8::from(figures.draining.contains(number))))
            .collect();
        let help = "Whether a node wants no new connections.";
        out.by("weir_cluster_node_draining", Gauge, help, "member", &draining);
        tables(&mut out, &figures.tables);
        let of = |of: fn(&NodeNow) -> u64| {
            figures.nodes.iter().map(|(number, now)| (self.name(*number), of(now))).collect::<Vec<_>>()
        };
        let weights = of(|now| now.weight.into());
        let weights: Vec<(&str, u64)> = weights.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
        let help = "The node's weight for new connections; 0 where it gets none.";
        out.by("weir_cluster_node_weight", Gauge, help, "member", &weights);
        let packets = of(|now| now.packets);
        let packets: Vec<(&str, u64)> = packets.iter().map(|(name, packets)| (name.as_str(), *packets)).collect();
        out.by("weir_cluster_node_packets_total", Counter, "Packets sent on to the node.", "member", &packets);
        let (Dropped { wishes, atoms, limits }, unsaid) =
            *self.rules_dropped.lock().unwrap_or_else(PoisonError::into_inner);
        let dropped = [("wishes", wishes), ("atoms", atoms), ("limits", limits), ("words", unsaid)];
        let help = "What had no room with the rules over nodes: wishes for atoms, atoms whose rates were not followed, \
                    firings that the next director is not told of, words that were too long to be gossiped.";
        out.by("weir_cluster_rules_dropped_total", Counter, help, "what", &dropped);
        figures::readings(&mut out, &figures.members);
        figures::links(&mut out, &self.links.now());
        figures::heartbeats(&mut out, &figures.heartbeats);
        figures::events(&mut out, &self.log.counts());
        out.into_text()
    }

    fn name(&self, number: NodeNumber) -> String {
        self.names.get(&number).cloned().unwrap_or_else(|| number.to_string())
    }

    fn up(&self) -> MutexGuard<'_, BTreeSet<NodeNumber>> {
        // A set is whole also where another thread panicked.
        self.up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down what was decided.
    fn decided(&self, asked: &Asked, peer: &Member, answer: &Message) {
        let (what, why) = match answer {
            Message::Steered { .. } => (What::Steered, None),
            Message::Confirmed { .. } => (What::Confirmed, None),
            Message::Owned { owner: Owner::Giver, .. } => (What::Reclaimed, None),
            Message::Declined { why, .. } => (What::Declined, Some(why.to_string())),
            _ => return,
        };
        let mut entry = EventEntry::now(what).of(peer.name.to_string());
        (entry.client, entry.service) = (Some(asked.flow.client), Some(asked.flow.service));
        entry.move_id = Some(format!("{}.{}", asked.id.giver, asked.id.number));
        entry.from = Some(self.name(asked.id.giver));
        entry.to = Some(asked.taker.map_or_else(|| peer.name.to_string(), |taker| self.name(taker)));
        self.log.note(match why {
            Some(why) => entry.because(&why),
            None => entry,
        });
    }
}

fn tables(out: &mut Families, tables: &[(SocketAddr, FlowCounts)]) {
    type Of = fn(&FlowCounts) -> u64;
    let families: [(&str, &str, Of); 6] = [
        ("weir_cluster_connections_total", "New connections at an address of the service.", |of| of.new_flows),
        ("weir_cluster_packets_total", "Packets sent on to nodes.", |of| of.packets),
        (
            "weir_cluster_table_full_packets_total",
            "Packets whose connection found no room in the table: it cannot be moved.",
            |of| of.table_full,
        ),
        ("weir_cluster_no_node_packets_total", "Packets dropped, as there was no node.", |of| of.no_node),
        ("weir_cluster_quic_packets_total", "Datagrams of QUIC sent on to nodes.", |of| of.datagrams),
        (
            "weir_cluster_icmp_packets_total",
            "What routers said about packets of nodes, sent on to the node: \"packet too big\" and its like.",
            |of| of.icmp_errors,
        ),
    ];
    for (name, help, of) in families {
        out.begin(name, Kind::Counter, help);
        for (service, counts) in tables {
            out.sample(name, &[("service", &service.to_string())], of(counts));
        }
    }
}

/// What a node asks about a move.
struct Asked {
    id: MoveId,
    flow: Flow,
    taker: Option<NodeNumber>,
}

impl Asked {
    fn of(request: &Message) -> Option<Self> {
        match request {
            Message::Steer { id, flow, .. } | Message::Confirm { id, flow } => {
                Some(Self { id: *id, flow: *flow, taker: None })
            }
            Message::Reclaim(claim) => Some(Self { id: claim.id, flow: claim.flow, taker: Some(claim.taker) }),
            _ => None,
        }
    }
}

/// The director's answers, of which its decisions are written down.
pub(super) struct SeenAnswers {
    pub(super) answers: DirectorAnswers,
    pub(super) seen: Arc<DirectorSeen>,
}

impl Answering for SeenAnswers {
    fn answer(&self, peer: &Member, request: Message) -> Message {
        let asked = Asked::of(&request);
        let answer = self.answers.answer(peer, request);
        if let Some(asked) = asked {
            self.seen.decided(&asked, peer, &answer);
        }
        answer
    }

    fn is_quick(&self, request: &Message) -> bool {
        self.answers.is_quick(request)
    }
}
