//! `weir cluster director`: it sends the packets of each connection to a node, and decides which node has a session that
//! moves.

use super::keys;
use super::members::{DIRECTOR, FILE, MembersFile};
use anyhow::{Context, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_cluster::{
    Change, Control, DetectorSettings, Director, DirectorAnswers, Health, Heartbeats, Known, LinkCounts, LinkServer,
    LinkSettings, NodeNumber, Numbers, Role, Steering, TableFault, Trust,
};
use weir_keeper::{Flow, FlowTable, IdleTimes, NodePlace, Seen};
use weir_terminal::stop::Stop;

/// How often connections that are over are removed from the table, and whether it is to end is looked at.
const SWEEP: Duration = Duration::from_secs(1);
/// After which connections leave the table. One that was steered stays longer than TCP keeps trying: without its entry
/// its packets would come to another node.
const IDLE: IdleTimes = IdleTimes {
    finished: Duration::from_secs(60),
    idle: Duration::from_secs(3600),
    steered: Duration::from_secs(86_400),
};
/// Heartbeats in a row that are missed of a node that is down: 0.2 s, so that a busy machine is not taken for a dead one.
const MISSES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

const EXAMPLES: &str = "\
Examples:
  weir cluster director /etc/weir/cluster --interface eth0
      as root, on the machine that has the addresses of the service";

/// Send each connection to a node, and where it moves.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The network interface that has the addresses of the service
    #[arg(long, value_name = "NAME")]
    interface: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let identity = keys::identity(&args.folder, Role::Director)?;
    let members = MembersFile::read(&args.folder)?;
    let address = members.director.address;
    let own = &members.director.member.name;
    ensure!(
        *own == identity.member.name,
        "the director in {FILE} is {own}, and this one has joined as {}; correct one of both",
        identity.member.name
    );
    // First: a director that runs here already keeps its filter.
    let bound = || format!("{address} cannot be listened on; end the director that runs, or see its address in {FILE}");
    let listener = TcpListener::bind(address).with_context(bound)?;
    let socket = UdpSocket::bind(address).with_context(bound)?;
    let places: Vec<NodePlace> = members.nodes.values().map(|(_, place)| *place).collect();
    let tables = members.services.iter().map(|service| {
        let table = FlowTable::attach(&args.interface, *service, &places);
        Ok((*service, table.with_context(|| format!("the flow table of {service}"))?))
    });
    let tables = Arc::new(Tables(tables.collect::<anyhow::Result<_>>()?));
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let epoch = u64::try_from(epoch).unwrap_or(u64::MAX);
    let control = Control::new(epoch, members.nodes.keys().copied());
    let director = Arc::new(Director::new(control, Box::new(OfDirector(Arc::clone(&tables)))));
    let numbers = Numbers::default();
    members.nodes.iter().for_each(|(number, (reached, _))| numbers.set(reached.member.name.clone(), *number));
    let stop = Stop::on_signals().context("handling signals")?;
    let answers = Arc::new(DirectorAnswers::new(Arc::clone(&director), Arc::new(numbers)));
    let trust = Trust::new(&identity, Arc::default())?;
    let _links = LinkServer::start(listener, trust, LinkSettings::default(), Arc::<LinkCounts>::default(), answers)?;
    let peers: BTreeMap<NodeNumber, SocketAddr> =
        members.nodes.iter().map(|(number, (reached, _))| (*number, reached.address)).collect();
    let choice = Choice { tables: Arc::clone(&tables), members: members.clone(), away: BTreeMap::new() };
    let choice = Arc::new(Mutex::new(choice));
    let (of_heartbeats, of_nodes) = (Arc::clone(&choice), Arc::clone(&director));
    let changed = move |change: Change| {
        of_nodes.with(|control, _| control.set_down(change.node, change.health == Health::Down));
        lock(&of_heartbeats).set(change.node, Away::Down, change.health == Health::Down);
    };
    let settings = DetectorSettings { misses: MISSES, ..DetectorSettings::default() };
    let heartbeats = Heartbeats::start(socket, DIRECTOR, &identity.secret, peers, settings, changed)?;
    heartbeats.set_epoch(epoch);
    let services: Vec<String> = members.services.iter().map(SocketAddr::to_string).collect();
    eprintln!(
        "weir cluster director: {} at {} of {} nodes; members ask at {address}",
        services.join(" and "),
        args.interface,
        members.nodes.len()
    );
    let mut pauses = 0;
    while !stop.flag().load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE);
        let draining = director.with(|control, _| control.draining().clone());
        for node in members.nodes.keys() {
            lock(&choice).set(*node, Away::Draining, draining.contains(node));
        }
        pauses += 1;
        if SWEEP <= PAUSE * pauses {
            pauses = 0;
            tables.sweep();
        }
    }
    let counts = director.with(|control, _| control.counts());
    eprintln!(
        "weir cluster director: ends; {} flows were steered, {} moves confirmed, {} taken back. Connections go on to \
         their nodes, and new ones by the table, until the filter is removed (tc filter del dev {} ingress)",
        counts.steered, counts.confirmed, counts.reclaimed, args.interface
    );
    Ok(ExitCode::SUCCESS)
}

/// The flow tables, one for each address of the service.
struct Tables(Vec<(SocketAddr, FlowTable)>);

impl Tables {
    fn of(&self, flow: &Flow) -> Result<&FlowTable, TableFault> {
        let found = self.0.iter().find(|(service, _)| *service == flow.service);
        found
            .map(|(_, table)| table)
            .ok_or_else(|| TableFault(format!("{} is no address of the service", flow.service)))
    }

    fn sweep(&self) {
        for (service, table) in &self.0 {
            if let Err(error) = table.sweep(&IDLE) {
                tracing::warn!(%service, %error, "the flow table was not swept");
            }
        }
    }

    fn set_nodes(&self, places: &[NodePlace]) {
        for (service, table) in &self.0 {
            if let Err(error) = table.set_nodes(places) {
                eprintln!("weir cluster director: the nodes of {service} stay as they were: {error}");
            }
        }
    }
}

/// The same for the decisions of the director.
struct OfDirector(Arc<Tables>);

impl Steering for OfDirector {
    fn steer(&mut self, flow: &Flow, node: NodeNumber, epoch: u64) -> Result<Option<Seen>, TableFault> {
        self.0.of(flow)?.steer(flow, node, epoch).map_err(|error| TableFault(error.to_string()))
    }

    fn owner(&self, flow: &Flow) -> Option<NodeNumber> {
        self.0.of(flow).ok()?.node(flow).ok()?
    }

    fn known(&self, flow: &Flow) -> Option<Known> {
        let table = self.0.of(flow).ok()?;
        Some(Known { seen: table.seen(flow).ok()?, birth: table.birth(flow).ok()? })
    }
}

/// Why a node gets no new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Away {
    Down,
    Draining,
}

/// Which nodes get new connections.
struct Choice {
    tables: Arc<Tables>,
    members: MembersFile,
    away: BTreeMap<NodeNumber, BTreeSet<Away>>,
}

impl Choice {
    /// Notes whether a node is away for a reason.
    fn set(&mut self, node: NodeNumber, why: Away, is_so: bool) {
        let reasons = self.away.entry(node).or_default();
        let has_changed = if is_so { reasons.insert(why) } else { reasons.remove(&why) };
        if !has_changed {
            return;
        }
        let is_there = |number: &NodeNumber| self.away.get(number).is_none_or(BTreeSet::is_empty);
        let there = self.members.nodes.iter().filter(|(number, _)| is_there(number));
        let there: Vec<NodePlace> = there.map(|(_, (_, place))| *place).collect();
        let name = self.members.nodes.get(&node).map_or("", |(reached, _)| reached.member.name.as_str());
        let what = match (why, is_so) {
            (Away::Down, true) => "is down: new connections go to the others",
            (Away::Down, false) => "is alive",
            (Away::Draining, true) => "is drained: new connections go to the others",
            (Away::Draining, false) => "takes new connections again",
        };
        eprintln!("weir cluster director: node {name} {what}");
        // With none left, connections go where they went: a node that comes back still has them.
        if !there.is_empty() {
            self.tables.set_nodes(&there);
        }
    }
}

fn lock(choice: &Mutex<Choice>) -> MutexGuard<'_, Choice> {
    choice.lock().unwrap_or_else(PoisonError::into_inner)
}
