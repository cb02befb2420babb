//! `weir cluster director`: it sends the packets of each connection to a node, and decides which node has a session that
//! moves.

use super::choice::{Away, Choice};
use super::director_rules::StandingBy;
use super::director_seen::{DirectorSeen, Figures, SeenAnswers};
use super::keyring::Keys;
use super::last_word::LastWord;
use super::members::{FILE, MembersFile, Reached};
use super::overview::Overview;
use super::pair::{self, Pair, lock};
use super::pair_replica::{self, PairAnswers, STEERED_MAX};
use super::tables::Tables;
use super::{choice, control_socket, director_rules, gossiping, keys, removed};
use crate::metrics_endpoint;
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_cluster::{
    Answering, Change, Control, DetectorSettings, Director, DirectorAnswers, Gossip, Health, Heartbeats, Known,
    LinkClient, LinkCounts, LinkServer, LinkSettings, NodeNumber, Numbers, Role, Seat, Steering, TableFault, Trust,
};
use weir_endpoint::Endpoint;
use weir_keeper::{Flow, Seen};
use weir_terminal::stop::Stop;

/// How often connections that are over are removed from the table, and whether it is to end is looked at.
const SWEEP: Duration = Duration::from_secs(1);
/// Heartbeats in a row that are missed of a node that is down: 0.2 s, so that a busy machine is not taken for a dead one.
pub(super) const MISSES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

const EXAMPLES: &str = "\
Examples:
  weir cluster director /etc/weir/cluster --interface eth0
      as root, on the machine that has the addresses of the service, or on each
      of the two machines that can have them: one is active, one stands by
  weir cluster director /etc/weir/cluster --interface eth0 \\
      --metrics 10.0.0.1:9100
      with figures for Prometheus at http://10.0.0.1:9100/metrics";

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

    /// Answer Prometheus at this address, at /metrics; all who reach it may read the figures
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
}

fn tell(what: &str) {
    eprintln!("weir cluster director: {what}");
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let identity = keys::identity(&args.folder, Role::Director)?;
    let members = MembersFile::read(&args.folder)?;
    let (seat, own) = pair::seat_of(&members, &identity.member.name)?;
    let address = own.address;
    // First: a director that runs here already keeps its filter.
    let (listener, socket, told) = listen(address, &args.folder)?;
    let tables = Arc::new(Tables::attach(&args.interface, &members)?);
    let (steered, flows) = sync_channel(STEERED_MAX);
    let epoch = first_epoch(&args.folder, &members, seat);
    let control = Control::new(epoch, members.nodes.keys().copied());
    let of_director = OfDirector { tables: Arc::clone(&tables), steered: members.standby.is_some().then_some(steered) };
    let director = Arc::new(Director::new(control, Box::new(of_director)));
    let numbers = numbers_of(&members);
    let stop = Stop::on_signals().context("handling signals")?;
    let of_tables = Arc::clone(&tables);
    let differing = Box::new(move || of_tables.differing());
    let pair = Pair::new(&args.folder, &members, (seat, &args.interface), (Arc::clone(&director), differing))?;
    let counts = Arc::<LinkCounts>::default();
    let seen = Arc::new(DirectorSeen::start(&args.folder, &members, &counts).context("a thread for events")?);
    let answers = DirectorAnswers::new(Arc::clone(&director), Arc::new(numbers));
    let nodes = SeenAnswers { answers, seen: Arc::clone(&seen) };
    let answers: Arc<dyn Answering> = match &pair {
        Some(pair) => Arc::new(PairAnswers { pair: Arc::clone(pair), nodes }),
        None => Arc::new(nodes),
    };
    let removed = removed::follow(&args.folder, &members, tell)?;
    let trust = Trust::new(&identity, Arc::clone(&removed))?;
    let keys = Keys::open(&args.folder, &members, &identity.member, (&trust, &removed))?;
    let link_to = |to: &Reached| {
        LinkClient::new(to.member.clone(), to.address, trust.clone(), link_settings(), Arc::clone(&counts))
    };
    let (settings, answers, peers) = (LinkSettings::default(), keys.answers(answers), peers_of(&members, seat));
    let _links = LinkServer::start(listener, trust.clone(), settings, Arc::clone(&counts), answers)?;
    let choice = Arc::new(Mutex::new(Choice::new(Arc::clone(&tables), members.clone(), Arc::clone(&seen))));
    let changed = changes(&members, (Arc::clone(&choice), Arc::clone(&seen), Arc::clone(&director)), pair.clone());
    let settings = DetectorSettings { misses: MISSES, ..DetectorSettings::default() };
    let heartbeats = Heartbeats::start(socket, pair::number_of(seat), &identity.secret, peers, settings, changed)?;
    let heartbeats = Arc::new(heartbeats);
    let figured = (Arc::clone(&director), Arc::clone(&tables), Arc::clone(&heartbeats), Arc::clone(&choice));
    tell_begin(&members, address, &args.interface);
    let gossip = Arc::new(gossiping::beside(&heartbeats, &members, (pair::number_of(seat), &identity))?);
    let heard = choice::overview_of(&choice, (pair::number_of(seat), &gossip));
    let metrics = |at| answer_metrics(at, Arc::clone(&seen), figured.clone(), heard.clone());
    let _metrics = args.metrics.map(metrics).transpose()?;
    let ruled = director_rules::Parts {
        members: members.clone(),
        gossip: Arc::clone(&gossip),
        seen: Arc::clone(&seen),
        epoch: epoch_of(epoch, pair.clone()),
        connections: Arc::<Mutex<Choice>>::clone(&choice),
        standing_by: StandingBy::HasWeights,
    };
    director_rules::start(&args.folder, ruled)?;
    control_socket::serve_director(told, Arc::clone(&director), pair.clone(), own.member.name.to_string(), heard)?;
    keys.follow((&heartbeats, &gossip), tell, None)?;
    match &pair {
        Some(pair) => {
            pair_replica::start(pair, link_to(&pair.other), flows)?;
            pair.start(&members, Arc::clone(&heartbeats), link_to)?;
        }
        None => {
            heartbeats.set_epoch(epoch);
            pair::add(&pair::addresses(&args.interface, &members)?);
        }
    }
    run_until(&stop, (&director, &gossip), pair.as_deref(), &choice);
    let is_handed_over = pair.as_ref().is_some_and(|pair| pair.hand_over(&link_to(&pair.other)));
    tell_end(&director, &args.interface, is_handed_over);
    Ok(ExitCode::SUCCESS)
}

/// The epoch that a director begins: above the one that it began before, also where the clock was set back. Of two
/// directors it counts only until one of them is active.
pub(super) fn first_epoch(folder: &Path, members: &MembersFile, seat: Seat) -> u64 {
    let last = LastWord::of(folder);
    let before = last.read().map_or(0, |remembered| remembered.epoch);
    let epoch = seat.by_hand(if members.standby.is_none() { before } else { 0 }, pair::now_unix_ms());
    if members.standby.is_none() {
        last.begin(epoch);
    }
    epoch
}

/// The numbers of the nodes by their names.
pub(super) fn numbers_of(members: &MembersFile) -> Numbers {
    let numbers = Numbers::default();
    members.nodes.iter().for_each(|(number, (reached, _))| numbers.set(reached.member.name.clone(), *number));
    numbers
}

/// The sockets of a director: TCP for what members ask, UDP for heartbeats, and that for commands, which wait for their
/// answers from then on.
fn listen(address: SocketAddr, folder: &Path) -> anyhow::Result<(TcpListener, UdpSocket, control_socket::Listening)> {
    let bound = || format!("{address} cannot be listened on; end the director that runs, or see its address in {FILE}");
    let listener = TcpListener::bind(address).with_context(bound)?;
    let socket = UdpSocket::bind(address).with_context(bound)?;
    Ok((listener, socket, control_socket::Listening::at(folder)?))
}

/// The members that a director hears: the nodes, and the other director.
fn peers_of(members: &MembersFile, seat: Seat) -> BTreeMap<NodeNumber, SocketAddr> {
    let nodes = members.nodes.iter().map(|(number, (reached, _))| (*number, reached.address));
    nodes.chain(pair::other_of(members, seat).map(|(number, other)| (number, other.address))).collect()
}

/// Tells the epoch in which this director is active; none while it stands by.
fn epoch_of(alone: u64, pair: Option<Arc<Pair>>) -> Box<dyn Fn() -> Option<u64> + Send> {
    Box::new(move || pair.as_ref().map_or(Some(alone), |pair| pair.active()))
}

/// Follows which nodes are drained, and removes connections that are over, until it is to end.
fn run_until(stop: &Stop, (director, gossip): (&Director, &Gossip), pair: Option<&Pair>, choice: &Mutex<Choice>) {
    let (nodes, tables) = {
        let choice = lock(choice);
        (choice.nodes(), choice.tables())
    };
    let mut pauses = 0;
    while !stop.flag().load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE);
        let draining = director.with(|control, _| control.draining().clone());
        for node in &nodes {
            lock(choice).set(*node, Away::Draining, draining.contains(node));
        }
        let is_active = pair.is_none_or(|pair| pair.active().is_some());
        if let Some(pair) = pair.filter(|_| !is_active) {
            lock(choice).follow(&lock(&pair.weights));
        }
        pauses += 1;
        if SWEEP > PAUSE * pauses {
            continue;
        }
        pauses = 0;
        lock(choice).look_for_unheard();
        // Packets that keep an entry do not come to a director that stands by, and readings are weighed by one alone.
        if is_active {
            tables.sweep();
            let mut choice = lock(choice);
            choice.balance(&gossip.heard());
            choice.look_at_packets();
            if let Some(pair) = pair {
                lock(&pair.weights).clone_from(choice.weights());
            }
        }
    }
}

/// A member that is gone makes a link wait no longer than a takeover may take.
pub(super) fn link_settings() -> LinkSettings {
    LinkSettings { connect_ms: 300, retry_max_ms: 200, ..LinkSettings::default() }
}

/// What is done where heartbeats of a member come or stay away.
pub(super) fn changes(
    members: &MembersFile,
    (choice, seen, director): (Arc<Mutex<Choice>>, Arc<DirectorSeen>, Arc<Director>),
    pair: Option<Arc<Pair>>,
) -> impl FnMut(Change) + Send + 'static {
    let nodes: BTreeSet<NodeNumber> = members.nodes.keys().copied().collect();
    move |change: Change| {
        seen.changed(change);
        let is_up = change.health == Health::Up;
        match &pair {
            Some(pair) if !nodes.contains(&change.node) => pair.is_other_up.store(is_up, Ordering::Release),
            _ => {
                director.with(|control, _| control.set_down(change.node, !is_up));
                lock(&choice).set(change.node, Away::Down, !is_up);
            }
        }
    }
}

fn tell_begin(members: &MembersFile, address: SocketAddr, interface: &str) {
    let services: Vec<String> = members.services.iter().map(SocketAddr::to_string).collect();
    eprintln!(
        "weir cluster director: {} at {interface} of {} nodes; members ask at {address}",
        services.join(" and "),
        members.nodes.len()
    );
}

fn tell_end(director: &Director, interface: &str, is_handed_over: bool) {
    let counts = director.with(|control, _| control.counts());
    let steered = format!(
        "{} flows were steered, {} moves confirmed, {} taken back",
        counts.steered, counts.confirmed, counts.reclaimed
    );
    if is_handed_over {
        eprintln!("weir cluster director: ends; {steered}. The other director is active");
        return;
    }
    eprintln!(
        "weir cluster director: ends; {steered}. Connections go on to their nodes, and new ones by the table, until the \
         filter is removed (tc filter del dev {interface} ingress)"
    );
}

/// Answers Prometheus at an address, as long as what is returned lives.
fn answer_metrics(
    at: SocketAddr,
    seen: Arc<DirectorSeen>,
    (director, tables, heartbeats, choice): (Arc<Director>, Arc<Tables>, Arc<Heartbeats>, Arc<Mutex<Choice>>),
    heard: impl Fn() -> Overview + Send + Sync + 'static,
) -> anyhow::Result<Endpoint> {
    let text = move || {
        let (epoch, decided, draining) =
            director.with(|control, _| (control.epoch(), control.counts(), control.draining().clone()));
        let heartbeats = heartbeats.counts();
        let nodes = lock(&choice).now();
        // It asks the choice as well.
        let members = heard().members;
        seen.text(&Figures { epoch, decided, draining, heartbeats, tables: tables.counts(), nodes, members })
    };
    metrics_endpoint::answering(at, text).context("--metrics")
}

/// The flow tables, for the decisions of the director.
struct OfDirector {
    tables: Arc<Tables>,
    /// To the other director, if there is one.
    steered: Option<SyncSender<(Flow, NodeNumber)>>,
}

impl Steering for OfDirector {
    fn steer(&mut self, flow: &Flow, node: NodeNumber, epoch: u64) -> Result<Option<Seen>, TableFault> {
        let steered = self.tables.of(flow)?.steer(flow, node, epoch).map_err(|error| TableFault(error.to_string()))?;
        if let Some(told) = &self.steered {
            // One that does not fit is told by the next comparison of the whole table.
            let _ = told.try_send((*flow, node));
        }
        Ok(steered)
    }

    fn owner(&self, flow: &Flow) -> Option<NodeNumber> {
        self.tables.of(flow).ok()?.node(flow).ok()?
    }

    fn goes_to(&self, flow: &Flow) -> Option<NodeNumber> {
        self.tables.of(flow).ok()?.goes_to(flow).ok()?
    }

    fn forget(&mut self, flow: &Flow) {
        // One of another address stands in no table.
        if let Ok(table) = self.tables.of(flow)
            && let Err(error) = table.forget(flow)
        {
            tracing::warn!(%error, "a connection stays in the flow table");
        }
    }

    fn known(&self, flow: &Flow) -> Option<Known> {
        let table = self.tables.of(flow).ok()?;
        Some(Known { seen: table.seen(flow).ok()?, birth: table.birth(flow).ok()? })
    }
}
