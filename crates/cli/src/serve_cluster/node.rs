//! The node process: it has the keys and links of the cluster, and moves sessions of the server beside which it runs.

use super::attending;
use super::bringing::Bringing;
use super::copying::{self, CopiedSession};
use super::fetching::{ContentAnswers, Peer};
use super::gate::{self, Answer, Ask, Begin, Copies, Counted, Frame, Open, Part, Refusal};
use super::guarding::{self, Guarding};
use super::keeping::Keeping;
use super::readings;
use super::replicating::{Parts, Replicating, Server};
use super::ruled::{Arrivals, Ruling};
use super::seen::{Seen, Told as Figures, relayed};
use super::signal::Signal;
use super::sites::{self, Sites, Telling};
use super::tickets;
use crate::cluster::control_socket::{self, Asked, Told};
use crate::cluster::gossiping;
use crate::cluster::keyring::{Keys, OnTickets};
use crate::cluster::members::{DIRECTOR, MembersFile, Reached, STANDBY};
use crate::cluster::overview::{node_now, overview};
use crate::cluster::published::Published;
use crate::cluster::removed;
use crate::side_process;
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_cluster::{
    Answering, BeatIntake, Carrier, Counts, DetectorSettings, Directing, Event, Gossip, Heartbeats, Identity,
    LinkClient, LinkCounts, LinkServer, LinkSettings, Mover, MoverSettings, NodeAnswers, NodeNumber, Numbers, Outcome,
    Registry, RelaySettings, RemoteDirector, RemoteNodes, ReplicaStore, SessionError, Sessions, Span, Taken,
    TakenRelay, TicketKey, Trust,
};
use weir_keeper::{Flow, KeeperClient};
use weir_server::SessionSummary;
use zeroize::Zeroizing;

/// How long the director has for an answer.
const DIRECTOR_PATIENCE: Duration = Duration::from_millis(500);
/// How long another node has to take a session in.
const NODE_PATIENCE: Duration = Duration::from_secs(2);
/// How often the director's epoch is looked at.
const EPOCH_PAUSE: Duration = Duration::from_millis(20);
/// Moves that wait to be told.
const EVENTS_MAX: usize = 1024;

/// Runs beside a server until that ends, as the node process or as the one that keeps it running.
pub(crate) fn node() -> anyhow::Result<ExitCode> {
    let link = side_process::link().context("the socket to the server")?;
    let Some(Frame { header: begin, mut fds, .. }) =
        gate::receive::<Begin>(&link).context("the socket to the server")?
    else {
        bail!("weir serve starts this command for itself");
    };
    let process = guarding::process_of(&mut fds, begin.part);
    if begin.part == Part::Attendant {
        return attending::attend(&begin, &link, process.as_ref());
    }
    let ends = link.try_clone().context("the socket to the server")?;
    let gate = Arc::new(Gate(Mutex::new(link)));
    let [content, signal] = <[OwnedFd; 2]>::try_from(fds).ok().context("a descriptor of the server is missing")?;
    let running = Running::start(&begin, process, (&gate, signal.into()));
    let running = match running {
        Ok(running) => running,
        Err(error) => {
            gate.tell(&format!("sessions do not move: {error:#}"));
            return Ok(ExitCode::FAILURE);
        }
    };
    let replicating = Arc::clone(&running.replicating);
    std::thread::Builder::new()
        .name("weir-node-ends".to_owned())
        .spawn(move || {
            wait_for_end(&ends);
            tracing::info!("the server has ended");
            replicating.end();
            std::process::exit(0);
        })
        .context("a thread that waits for the server's end")?;
    Bringing::start(content.into(), running.sites.clone()).context("the threads that bring content")?;
    gate.tell(&format!("this is node {} of the cluster; sessions move", running.name));
    running.serve()?;
    Ok(ExitCode::SUCCESS)
}

/// Waits until the other side has closed its socket.
fn wait_for_end(link: &UnixStream) {
    let mut polled = libc::pollfd { fd: link.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    loop {
        polled.revents = 0;
        // SAFETY: the structure lives over the call, which fills it.
        let ready = unsafe { libc::poll(&raw mut polled, 1, -1) };
        if ready > 0 && polled.revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0 {
            return;
        }
    }
}

/// The parts of a node.
struct Running {
    name: String,
    number: NodeNumber,
    members: MembersFile,
    mover: Arc<Mover>,
    director: Arc<RemoteDirector>,
    gate: Arc<Gate>,
    heartbeats: Arc<Heartbeats>,
    seen: Arc<Seen>,
    gossip: Arc<Gossip>,
    control: control_socket::Listening,
    sites: Option<Arc<Sites>>,
    replicating: Arc<Replicating>,
    /// The cluster's directory, and what rules have this node do.
    ruling: (PathBuf, Ruling),
    relays: Arc<Carrier>,
    _links: LinkServer,
}

impl Running {
    fn start(begin: &Begin, process: Option<OwnedFd>, (gate, signal): (&Arc<Gate>, Signal)) -> anyhow::Result<Self> {
        let identity = Identity::load(&begin.folder).with_context(|| {
            format!("{} belongs to another user than the server's: chown -R USER it", begin.folder.display())
        })?;
        let members = MembersFile::read(&begin.folder)?;
        let number = members.number(&identity.member.name)?;
        let own = &members.nodes[&number].0;
        let keeper = Arc::new(KeeperClient::at(&begin.keeper));
        // At the start of a machine the keeper may come later: each move asks it anew.
        if let Err(error) = keeper.counts() {
            gate.tell(&format!("no session moves until the keeper answers: {error}"));
        }
        let removed = removed::follow(&begin.folder, &members, gate.teller())?;
        let trust = Trust::new(&identity, Arc::clone(&removed))?;
        let keys = Keys::open(&begin.folder, &members, &identity.member, (&trust, &removed))?;
        let (settings, counts) = (LinkSettings::default(), Arc::<LinkCounts>::default());
        let link_to = |to: &Reached| {
            LinkClient::new(to.member.clone(), to.address, trust.clone(), settings.clone(), Arc::clone(&counts))
        };
        let director = RemoteDirector::new(link_to(&members.director), DIRECTOR_PATIENCE, 0);
        let second = members.standby.as_ref().map(link_to);
        let director = Arc::new(if let Some(second) = second { director.with_second(second) } else { director });
        let (nodes, numbers) = (RemoteNodes::new(NODE_PATIENCE), Numbers::default());
        for (other, (reached, _)) in &members.nodes {
            numbers.set(reached.member.name.clone(), *other);
            if *other != number {
                nodes.set(*other, link_to(reached));
            }
        }
        let nodes = Arc::new(nodes);
        let seen = Arc::new(Seen::start(&begin.folder, number, &members, &counts, gate.teller())?);
        let (registry, events) = Registry::new(EVENTS_MAX);
        let first_move = first_move();
        let (asked, moves) = ((Arc::clone(&director), Arc::clone(&nodes)), MoverSettings::new(number, first_move));
        let (mover, relays) = moving(moves, (Arc::clone(&keeper), gate), asked, registry)?;
        let listening = |error: io::Error| {
            anyhow::Error::new(error)
                .context(format!("{} cannot be listened on; see its address in members.toml", own.address))
        };
        let listener = TcpListener::bind(own.address).map_err(listening)?;
        let answers = NodeAnswers::new(Arc::clone(&mover), Arc::new(numbers)).with_relays(Arc::clone(&relays));
        let (store, ruling) = (Arc::clone(answers.replicas()), Ruling::default());
        let (answers, sites) = with_sites(answers, begin, (&members, number, &identity), (link_to, gate, &seen))?;
        let answers = keys.answers(answers);
        let links = LinkServer::start(listener, trust.clone(), settings.clone(), Arc::clone(&counts), answers)?;
        let heartbeats = Arc::new(start_heartbeats(&members, number, &identity, (&seen, listening))?);
        let gossip = Arc::new(gossiping::beside(&heartbeats, &members, (number, &identity))?);
        keys.follow((&heartbeats, &gossip), gate.teller(), tickets_of(&members, gate))?;
        let control = control_socket::Listening::at(&begin.folder)?;
        tell_moves(Arc::clone(gate), (Arc::clone(&seen), ruling.arrivals()), events)?;
        let outliving = ((keeper, store), (Arc::clone(&mover), first_move), (Arc::clone(&director), nodes));
        let replicating = replicate((gate, &seen, signal), (number, &members), (begin.server, process), outliving)?;
        Ok(Self {
            name: identity.member.name.to_string(),
            number,
            members,
            mover,
            director,
            gate: Arc::clone(gate),
            heartbeats,
            seen,
            gossip,
            control,
            sites,
            replicating,
            ruling: (begin.folder.clone(), ruling),
            relays,
            _links: links,
        })
    }

    /// Answers what `weir cluster` asks of this node.
    fn serve(self) -> anyhow::Result<()> {
        let Self { members, mover, director, heartbeats, seen, gossip, control, name, number, gate, .. } = self;
        let Self { sites, replicating, ruling, relays, _links, .. } = self;
        sites.iter().for_each(|sites| sites.keeping.hear(Arc::clone(&gossip), Arc::clone(&director)));
        let drains = Arc::<AtomicBool>::default();
        let figures = Figures {
            mover: Arc::clone(&mover),
            director: Arc::clone(&director),
            heartbeats: Arc::clone(&heartbeats),
            replicas: Box::new({
                let replicating = Arc::clone(&replicating);
                move || replicating.counts()
            }),
            drains: Arc::clone(&drains),
            relays: Arc::clone(&relays),
            reading: Box::new({
                let (members, gossip) = (members.clone(), Arc::clone(&gossip));
                move || node_now(&members, number, &gossip)
            }),
            http3: Box::new({
                let gate = Arc::clone(&gate);
                // Where the server does not say it, it has ended.
                move || gate.http3_under_way().unwrap_or(0)
            }),
            show: gate.shower(),
        };
        let of_figures = Arc::clone(&seen);
        std::thread::Builder::new().name("weir-node-seen".to_owned()).spawn(move || of_figures.run(&figures))?;
        let (of_director, of_drains) = (Arc::clone(&director), Arc::clone(&drains));
        std::thread::Builder::new()
            .name("weir-node-epoch".to_owned())
            .spawn(move || tell_director(&heartbeats, &of_director, &of_drains))?;
        let pace = members.pace;
        let of_readings =
            (Arc::clone(&gate), Arc::clone(&gossip), Arc::clone(&drains), sites.clone(), Arc::clone(&seen));
        std::thread::Builder::new().name("weir-node-readings".to_owned()).spawn(move || {
            let (gate, gossip, drains, sites, seen) = of_readings;
            let proxied = || seen.contents.rates();
            let ask = |with_paths| gate.counted(with_paths);
            readings::gossip(pace.interval(), ask, &gossip, &drains, sites.as_ref(), proxied);
        })?;
        let (folder, ruling) = ruling;
        let own = Arc::new(Own {
            name,
            number,
            members,
            mover,
            director,
            gate,
            gossip,
            drains,
            seen,
            sites,
            replicating,
            ruling,
            relays,
        });
        let ruled = Arc::clone(&own);
        std::thread::Builder::new().name("weir-node-rules".to_owned()).spawn(move || ruled.follow_rules(&folder))?;
        control.serve(|asked| own.answer(asked).unwrap_or_else(|error| Told::Refused(format!("{error:#}"))));
        Ok(())
    }
}

/// What answers `weir cluster`.
pub(super) struct Own {
    pub(super) name: String,
    pub(super) number: NodeNumber,
    pub(super) members: MembersFile,
    pub(super) mover: Arc<Mover>,
    pub(super) director: Arc<RemoteDirector>,
    pub(super) gate: Arc<Gate>,
    pub(super) gossip: Arc<Gossip>,
    /// Whether this node wants no new connections.
    pub(super) drains: Arc<AtomicBool>,
    pub(super) seen: Arc<Seen>,
    pub(super) sites: Option<Arc<Sites>>,
    replicating: Arc<Replicating>,
    pub(super) ruling: Ruling,
    pub(super) relays: Arc<Carrier>,
}

/// The number of this start's first move, which no earlier start has given: microseconds since 1970.
fn first_move() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_micros()).unwrap_or(1)
}

/// Tells the directors that this node lives, and hears their epoch.
fn start_heartbeats(
    members: &MembersFile,
    number: NodeNumber,
    identity: &Identity,
    (seen, failed): (&Arc<Seen>, impl Fn(io::Error) -> anyhow::Error),
) -> anyhow::Result<Heartbeats> {
    let socket = UdpSocket::bind(members.nodes[&number].0.address).map_err(failed)?;
    let mut peers = BTreeMap::from([(DIRECTOR, members.director.address)]);
    peers.extend(members.standby.iter().map(|second| (STANDBY, second.address)));
    // What a node does about a director that is down is to say so.
    let settings = DetectorSettings { intake: BeatIntake::WithOwn, ..DetectorSettings::default() };
    let heard = Arc::clone(seen);
    Ok(Heartbeats::start(socket, number, &identity.secret, peers, settings, move |change| heard.changed(change))?)
}

/// What gives the server keys of tickets, where the nodes share them.
fn tickets_of(members: &MembersFile, gate: &Arc<Gate>) -> Option<OnTickets> {
    let gate = Arc::clone(gate);
    members.tickets.shared.then(|| -> OnTickets { Box::new(move |keys| gate.use_tickets(keys)) })
}

/// What moves sessions, and what carries their responses that one node goes on making.
fn moving(
    settings: MoverSettings,
    (keeper, gate): (Arc<KeeperClient>, &Arc<Gate>),
    (director, nodes): Members,
    registry: Registry,
) -> anyhow::Result<(Arc<Mover>, Arc<Carrier>)> {
    let relays = Carrier::start(Arc::<RemoteNodes>::clone(&nodes), RelaySettings::default());
    let relays = Arc::new(relays.context("threads for responses that go on at other nodes")?);
    let mover = Mover::new(settings, keeper, Arc::<Gate>::clone(gate), director, nodes, registry);
    Ok((Arc::new(mover.with_relays(Arc::<Carrier>::clone(&relays))), relays))
}

type Kept = (Arc<KeeperClient>, Arc<ReplicaStore>);
type Moving = (Arc<Mover>, u64);
type Members = (Arc<RemoteDirector>, Arc<RemoteNodes>);

/// Has sessions outlive their node.
fn replicate(
    (gate, seen, signal): (&Arc<Gate>, &Arc<Seen>, Signal),
    (number, members): (NodeNumber, &MembersFile),
    guarded: (u64, Option<OwnedFd>),
    ((keeper, store), (mover, start), (director, nodes)): (Kept, Moving, Members),
) -> io::Result<Arc<Replicating>> {
    let guarding = Guarding::new(Arc::clone(&keeper), Arc::clone(&director), guarded);
    Replicating::start(Parts {
        number,
        members: members.nodes.keys().copied().collect(),
        services: members.services.clone(),
        with_tls: members.replicas.tls,
        server: Arc::<Gate>::clone(gate),
        sessions: Arc::<Gate>::clone(gate),
        keeper,
        guarding,
        mover,
        director,
        nodes,
        store,
        seen: Arc::clone(seen),
        signal,
        start,
    })
}

/// Writes moves down, and has the server say which sessions moved away.
fn tell_moves(
    gate: Arc<Gate>,
    (seen, arrivals): (Arc<Seen>, Arc<Arrivals>),
    events: Receiver<Event>,
) -> io::Result<()> {
    let tell = move || {
        events.iter().for_each(|event| {
            seen.moved(&event);
            if event.outcome == Outcome::Taken {
                arrivals.add(&event.flow);
            }
            if event.outcome != Outcome::Given {
                return;
            }
            let (client, freeze, total) = (event.flow.client, event.freeze, event.total);
            let goes_on = if event.relays > 0 { "; what an upstream answers goes on through this node" } else { "" };
            gate.tell(&format!(
                "the session of {client} moved to node {} in {total:.1?} ({freeze:.1?} of which it stood still){goes_on}",
                event.to
            ));
        });
    };
    std::thread::Builder::new().name("weir-node-told".to_owned()).spawn(tell).map(drop)
}

/// Follows the director's epoch, and tells each director anew whether this node wants new connections: one that was
/// started again does not know it, nor does one that has outlived this node's last start.
fn tell_director(heartbeats: &Heartbeats, director: &RemoteDirector, drains: &AtomicBool) {
    let mut told = None;
    loop {
        let epoch = heartbeats.epoch();
        director.set_epoch(epoch);
        let wish = (epoch, drains.load(Ordering::Relaxed));
        if epoch > 0 && told != Some(wish) && director.drain(wish.1).is_ok() {
            told = Some(wish);
        }
        std::thread::sleep(EPOCH_PAUSE);
    }
}

/// What answers other members, and the sites that are followed.
type Followed = (Arc<dyn Answering>, Option<Arc<Sites>>);

/// Follows the published sites, if the members have a directory, and answers for their content too.
fn with_sites(
    sessions: NodeAnswers,
    begin: &Begin,
    (members, number, identity): (&MembersFile, NodeNumber, &Identity),
    (link_to, gate, seen): (impl Fn(&Reached) -> LinkClient, &Arc<Gate>, &Arc<Seen>),
) -> anyhow::Result<Followed> {
    let Some(place) = &members.directory else { return Ok((Arc::new(sessions), None)) };
    let published = match Published::open(&begin.folder, place) {
        Ok(published) => Arc::new(published),
        Err(error) => {
            gate.tell(&format!("published sites are not followed until a restart: {error:#}"));
            return Ok((Arc::new(sessions), None));
        }
    };
    let others = members.nodes.iter().filter(|(other, _)| **other != number);
    let peers = others
        .map(|(number, (reached, _))| {
            let name = reached.member.name.to_string();
            Peer { number: *number, name, link: link_to(reached) }
        })
        .collect();
    let (told, own) = (Arc::clone(gate), sites::node_of(identity, members.nodes[&number].0.address));
    let keeping = Arc::new(Keeping::new(members, number));
    let follows = Arc::clone(gate);
    let tells = Telling {
        seen: Arc::clone(seen),
        tell: Box::new(move |what| told.tell(what)),
        switched: Box::new(move || follows.follow_roots()),
    };
    let sites = Sites::start(Arc::clone(&published), (peers, Arc::clone(&keeping)), own, tells)?;
    Ok((Arc::new(ContentAnswers { sessions, published, keeping }), Some(sites)))
}

impl Own {
    fn answer(&self, asked: Asked) -> anyhow::Result<Told> {
        match asked {
            Asked::Move { client, service, to } => self.move_one(client, service, &to),
            Asked::Sessions => Ok(Told::Sessions(self.gate.sessions()?)),
            Asked::Drain { to, within_ms } => self.drain(to.as_deref(), Duration::from_millis(within_ms)),
            Asked::Undrain => {
                self.drains.store(false, Ordering::Relaxed);
                self.director.drain(false)?;
                self.gate.leave_http3(false)?;
                self.seen.drained(false);
                Ok(Told::Undrained)
            }
            Asked::Status => {
                let Counts { given, taken, not_begun, came_back, refused, lost, undecided, reasons, .. } =
                    self.mover.registry().counts();
                let node = self.name.clone();
                let draining = self.drains.load(Ordering::Relaxed);
                let published = self.sites.as_ref().map(|sites| sites.status());
                let epoch = Some(self.director.epoch()).filter(|epoch| *epoch > 0);
                let director = epoch.map(|epoch| self.members.active(epoch).member.name.to_string());
                let replicas = self.replicating.counts();
                Ok(Told::Status {
                    node,
                    draining,
                    given,
                    taken,
                    not_begun,
                    came_back,
                    refused,
                    lost,
                    undecided,
                    reasons,
                    replicas: Box::new(replicas),
                    relays: relayed(&self.relays),
                    published,
                    director,
                    rules: Box::new(self.ruling.now()),
                })
            }
            Asked::Members => Ok(Told::Members(overview(&self.members, self.number, &self.gossip))),
            Asked::Follow { site, version } => {
                let sites =
                    self.sites.as_ref().context("this node follows no directory; see what it said at its start")?;
                sites.follow(&site, version)?;
                Ok(Told::Followed)
            }
            Asked::Atoms { most } => {
                let sites = self.sites.as_ref().context("this node follows no directory; nothing is published here")?;
                Ok(Told::Atoms(sites.atoms(&self.name, most as usize)?))
            }
            Asked::Activate => bail!("this is a node; activate a director on its own machine"),
        }
    }

    fn move_one(&self, client: SocketAddr, service: Option<SocketAddr>, to: &str) -> anyhow::Result<Told> {
        let to = self.members.number(&to.parse()?)?;
        let service = match (service, &self.members.services[..]) {
            (Some(service), _) | (None, &[service]) => service,
            (None, _) => bail!("the cluster has several services; say which by --service"),
        };
        let event = self.mover.give(&Flow { client, service }, to)?;
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Ok(Told::Moved {
            freeze_us: us(event.freeze),
            total_us: us(event.total),
            remade_bytes: event.timings.remade_bytes,
        })
    }
}

/// The server's sessions, through the socket to it.
#[derive(Debug)]
pub(super) struct Gate(Mutex<UnixStream>);

impl Gate {
    /// Asks the server; an error is one of the socket, or its refusal.
    fn ask(&self, ask: &Ask, bytes: &[u8], fds: &[&OwnedFd]) -> Result<Frame<Answer>, SessionError> {
        let link = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = |error: io::Error| SessionError::Full(format!("the server does not answer: {error}"));
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        gate::send(&link, ask, bytes, &fds).map_err(gone)?;
        let answer = gate::receive::<Answer>(&link).map_err(gone)?;
        let answer = answer.ok_or_else(|| gone(io::ErrorKind::UnexpectedEof.into()))?;
        match answer.header {
            Answer::Refused(Refusal::NoSession, _) => Err(SessionError::NoSession),
            Answer::Refused(Refusal::NotMovable, why) => Err(SessionError::NotMovable(why)),
            Answer::Refused(Refusal::OtherContent, _) => Err(SessionError::OtherContent),
            Answer::Refused(Refusal::NotUnderstood, why) => Err(SessionError::NotUnderstood(why)),
            Answer::Refused(Refusal::Full, why) => Err(SessionError::Full(why)),
            _ => Ok(answer),
        }
    }

    /// The connections that are open.
    pub(super) fn sessions(&self) -> anyhow::Result<Vec<Open>> {
        Ok(serde_json::from_slice(&self.ask(&Ask::Sessions, &[], &[])?.bytes)?)
    }

    /// Has clients of HTTP/3, whose sessions do not move, go elsewhere by themselves; or not any more.
    pub(super) fn leave_http3(&self, leaves: bool) -> anyhow::Result<()> {
        Ok(self.ask(&Ask::LeaveHttp3(leaves), &[], &[]).map(drop)?)
    }

    /// How many connections of HTTP/3 have requests under way.
    pub(super) fn http3_under_way(&self) -> anyhow::Result<u64> {
        let Answer::Http3(under_way) = self.ask(&Ask::Http3, &[], &[])?.header else {
            bail!("the server does not say what goes on over HTTP/3; report this");
        };
        Ok(under_way)
    }

    /// What the server has counted, and which files it was asked for most, if that is asked too.
    pub(super) fn counted(&self, with_paths: bool) -> anyhow::Result<(Counted, Vec<gate::Asked>)> {
        let answer = self.ask(&Ask::Reading { with_paths }, &[], &[])?;
        let Answer::Reading(counted) = answer.header else { bail!("the server gives no reading; report this") };
        let paths = if with_paths { serde_json::from_slice(&answer.bytes)? } else { Vec::new() };
        Ok((counted, paths))
    }

    /// Has the server serve the version that was switched to.
    fn follow_roots(&self) {
        // A server that does not answer looks by itself, each second.
        let _ = self.ask(&Ask::FollowRoots, &[], &[]);
    }

    /// Has the server say something to its operator.
    pub(super) fn tell(&self, what: &str) {
        let link = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A server that has ended says nothing more.
        let _ = gate::send(&link, &Ask::Tell(what.to_owned()), &[], &[]);
    }

    /// The same, for another thread.
    fn teller(self: &Arc<Self>) -> impl Fn(&str) + Send + 'static {
        let gate = Arc::clone(self);
        move |what| gate.tell(what)
    }

    /// Has the server show figures, from another thread.
    fn shower(self: &Arc<Self>) -> Box<dyn Fn(&str) + Send> {
        let gate = Arc::clone(self);
        Box::new(move |figures| gate.tell_figures(figures))
    }

    /// Has the server make and read tickets by these keys.
    fn use_tickets(&self, keys: &[TicketKey]) {
        let link = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A server that has ended gives no more tickets.
        let _ = gate::send(&link, &Ask::Tickets, &tickets::framed(keys), &[]);
    }

    /// Has the server show figures.
    fn tell_figures(&self, figures: &str) {
        let link = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A server that has ended shows nothing more.
        let _ = gate::send(&link, &Ask::Figures, figures.as_bytes(), &[]);
    }
}

impl Server for Gate {
    fn copies(&self, with_tls: bool, all: bool) -> Option<(Copies, Vec<CopiedSession>)> {
        let link = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gate::send(&link, &Ask::Copy { with_tls, all }, &[], &[]).ok()?;
        let first = gate::receive::<Answer>(&link).ok()??;
        copying::receive(&link, &first).ok()
    }

    fn say(&self, what: &str) {
        self.tell(what);
    }
}

impl Sessions for Gate {
    fn flows(&self) -> Result<Vec<Flow>, SessionError> {
        let open = self.sessions().map_err(|error| SessionError::Full(format!("{error:#}")))?;
        Ok(open.iter().map(|open| Flow { client: open.client, service: open.service }).collect())
    }

    fn preview(&self, flow: &Flow) -> Result<Vec<u8>, SessionError> {
        let ask = Ask::Preview { client: flow.client, service: flow.service };
        Ok(self.ask(&ask, &[], &[])?.bytes.to_vec())
    }

    fn rewind(&self, session: &[u8], bytes: u64) -> Option<Vec<u8>> {
        weir_server::rewind_session(session, bytes)
    }

    fn place(&self, session: &[u8], offset: u64) -> Option<Zeroizing<Vec<u8>>> {
        weir_server::place_session(session, offset)
    }

    fn take(&self, flow: &Flow) -> Result<Taken, SessionError> {
        let answer = self.ask(&Ask::Take { client: flow.client, service: flow.service }, &[], &[])?;
        match &answer.header {
            Answer::Taken { known_bytes, before } if !answer.fds.is_empty() => {
                let (mut fds, mut session) = (answer.fds, answer.bytes);
                let (fd, rest) = (fds.remove(0), fds.into_iter());
                let relays = gate::take_before(&mut session, before, rest)
                    .map_err(|error| SessionError::NotMovable(format!("{error}; report this")))?;
                let relays = relays.into_iter().map(|(socket, before)| TakenRelay { socket, before }).collect();
                Ok(Taken { fd, session, known_bytes: *known_bytes, relays })
            }
            _ => Err(SessionError::NotMovable("the server gave no socket; report this".to_owned())),
        }
    }

    fn give_back(&self, taken: Taken) {
        let Taken { fd, mut session, known_bytes, relays } = taken;
        let before: Vec<&[u8]> = relays.iter().map(|relay| &*relay.before).collect();
        let before = gate::put_before(&mut session, &before);
        let fds: Vec<_> = [&fd].into_iter().chain(relays.iter().map(|relay| &relay.socket)).collect();
        if let Err(error) = self.ask(&Ask::GiveBack { known_bytes, before }, &session, &fds) {
            tracing::warn!(%error, "a session was not taken back");
        }
    }

    fn prepare(&self, session: &[u8], spans: &[Span]) -> Result<Vec<u8>, SessionError> {
        // Also where nothing is to be made again: the server says whether it has the same files.
        if !spans.iter().any(|span| matches!(span, Span::Session { .. })) {
            self.ask(&Ask::Sent { from: 0, length: 0 }, session, &[])?;
        }
        let mut sent = Vec::new();
        for span in spans {
            match span {
                Span::Raw(bytes) => sent.extend_from_slice(bytes),
                Span::Session { from, len } => {
                    let ask = Ask::Sent { from: *from, length: *len };
                    sent.extend_from_slice(&self.ask(&ask, session, &[])?.bytes);
                }
            }
        }
        Ok(sent)
    }

    fn relays(&self, session: &[u8]) -> u16 {
        // One that cannot be read was refused before; the number is far below this type's bound.
        SessionSummary::read(session).map_or(0, |read| read.relays as u16)
    }

    fn adopt(
        &self,
        session: Zeroizing<Vec<u8>>,
        fd: OwnedFd,
        relays: Vec<OwnedFd>,
        peer: SocketAddr,
    ) -> Result<(), SessionError> {
        let fds: Vec<_> = [&fd].into_iter().chain(&relays).collect();
        self.ask(&Ask::Adopt { client: peer }, &session, &fds).map(drop)
    }
}
