//! `weir cluster front`: a director without privileges, which sees no packets: it names a node to each client by DNS or by
//! a redirect, or stands as a proxy before the nodes.

use super::choice::{self, Away, Choice};
use super::director::{MISSES, changes, first_epoch, link_settings, numbers_of};
use super::director_rules::{self, StandingBy};
use super::director_seen::{DirectorSeen, NodeNow, SeenAnswers};
use super::front_names::Names;
use super::front_web::{Spread, Way, Web};
use super::keyring::Keys;
use super::members::{FILE, MembersFile};
use super::pair::{self, lock};
use super::tables::Tables;
use super::{control_socket, gossiping, keys, removed};
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_cluster::{
    Control, DetectorSettings, Director, DirectorAnswers, Gossip, Heartbeats, LinkCounts, LinkServer, NodeNumber, Role,
    Seat, ServiceName, Steering, TableFault, Trust,
};
use weir_keeper::{Flow, Seen};
use weir_server::{CertificateFiles, ListenAddr};
use weir_terminal::stop::Stop;

const PAUSE: Duration = Duration::from_millis(50);
/// How often readings are weighed.
const WEIGH: Duration = Duration::from_secs(1);
/// Seconds that a resolver keeps an answer.
const TTL_S: u32 = 5;

const EXAMPLES: &str = "\
Examples:
  weir cluster front /etc/weir/cluster --proxy 10.0.0.1:80
      a proxy before the nodes; it asks another one where a node took no request
  weir cluster front /etc/weir/cluster --redirect 10.0.0.1:443 \\
      --tls-cert site.pem --tls-key site.key
      answers each request with 307 to the url of a node, by the path
  weir cluster front /etc/weir/cluster --dns 10.0.0.1:53 \\
      --dns-name www.example.org
      answers DNS with the addresses of nodes that live, for 5 seconds

It runs on the machine of [director] in members.toml in place of weir cluster
director, as any user, and each node has a url there. No packets are steered:
sessions do not move, and those of a node that dies end with it. A second one
runs on the machine of [standby]: both serve clients at the same time.

Exit status: 0 if it was asked to end, 1 if it failed, 2 for wrong usage.";

/// Send clients to nodes without privileges: by a proxy, by redirects or by DNS.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("way").required(true).multiple(true).args(["proxy", "redirect", "dns"])))]
pub(super) struct Args {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Pass requests at this address on to the nodes
    #[arg(long, value_name = "ADDR")]
    proxy: Option<ListenAddr>,

    /// Answer requests at this address with 307 to the url of a node
    #[arg(long, value_name = "ADDR")]
    redirect: Option<ListenAddr>,

    /// Answer DNS at this address (UDP)
    #[arg(long, value_name = "ADDR", requires = "dns_name")]
    dns: Option<SocketAddr>,

    /// The name that DNS is answered for
    #[arg(long, value_name = "NAME", requires = "dns")]
    dns_name: Option<String>,

    /// Certificate chain in PEM, for --proxy and --redirect
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// There are no packets to steer.
struct NoPackets;

impl Steering for NoPackets {
    fn steer(&mut self, _: &Flow, _: NodeNumber, _: u64) -> Result<Option<Seen>, TableFault> {
        Err(TableFault("a front steers no packets, so that no session moves; a director does".to_owned()))
    }

    fn owner(&self, _: &Flow) -> Option<NodeNumber> {
        None
    }
}

fn tell(what: &str) {
    eprintln!("weir cluster front: {what}");
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let identity = keys::identity(&args.folder, Role::Director)?;
    let members = MembersFile::read(&args.folder)?;
    let (seat, own) = pair::seat_of(&members, &identity.member.name)?;
    let number = pair::number_of(seat);
    let urls = urls(args, &members)?;
    let address = own.address;
    let bound = || format!("{address} cannot be listened on; end the director that runs, or see its address in {FILE}");
    let listener = TcpListener::bind(address).with_context(bound)?;
    let socket = UdpSocket::bind(address).with_context(bound)?;
    let epoch = first_epoch(&args.folder, &members, seat);
    let control = Control::new(epoch, members.nodes.keys().copied());
    let director = Arc::new(Director::new(control, Box::new(NoPackets)));
    let numbers = numbers_of(&members);
    let stop = Stop::on_signals().context("handling signals")?;
    let counts = Arc::<LinkCounts>::default();
    let seen = Arc::new(DirectorSeen::start(&args.folder, &members, &counts).context("a thread for events")?);
    let answers = DirectorAnswers::new(Arc::clone(&director), Arc::new(numbers));
    let answers = Arc::new(SeenAnswers { answers, seen: Arc::clone(&seen) });
    let removed = removed::follow(&args.folder, &members, tell)?;
    let trust = Trust::new(&identity, Arc::clone(&removed))?;
    let keys = Keys::open(&args.folder, &members, &identity.member, (&trust, &removed))?;
    let _links = LinkServer::start(listener, trust, link_settings(), counts, keys.answers(answers))?;
    let choice = Arc::new(Mutex::new(Choice::new(Arc::new(Tables::none()), members.clone(), Arc::clone(&seen))));
    let peers = members.nodes.iter().map(|(number, (reached, _))| (*number, reached.address)).collect();
    let changed = changes(&members, (Arc::clone(&choice), Arc::clone(&seen), Arc::clone(&director)), None);
    let settings = DetectorSettings { misses: MISSES, ..DetectorSettings::default() };
    let heartbeats = Arc::new(Heartbeats::start(socket, number, &identity.secret, peers, settings, changed)?);
    // Nodes tell one front that they drain, and follow the rules of one: the first.
    let decides = seat == Seat::First;
    if decides {
        heartbeats.set_epoch(epoch);
    }
    let gossip = Arc::new(gossiping::beside(&heartbeats, &members, (number, &identity))?);
    let ruled = director_rules::Parts {
        members: members.clone(),
        gossip: Arc::clone(&gossip),
        seen,
        epoch: Box::new(move || decides.then_some(epoch)),
        connections: Arc::<Mutex<Choice>>::clone(&choice),
        standing_by: StandingBy::Chooses,
    };
    director_rules::start(&args.folder, ruled)?;
    keys.follow((&heartbeats, &gossip), tell, None)?;
    let heard = choice::overview_of(&choice, (number, &gossip));
    let name = identity.member.name.to_string();
    let told = control_socket::Listening::at(&args.folder)?;
    control_socket::serve_director(told, Arc::clone(&director), None, name, heard)?;
    let mut ways = Ways::start(args, &members, &urls)?;
    ways.follow(&lock(&choice).now());
    eprintln!(
        "weir cluster front: {} nodes by {}; members ask at {address}. No packets are steered: sessions do not move, and \
         those of a node that dies end with it",
        members.nodes.len(),
        ways.words(args)
    );
    run_until(&stop, (&director, &gossip), &choice, &mut ways);
    ways.end();
    Ok(ExitCode::SUCCESS)
}

/// The urls of the nodes, which redirects and proxies need of each.
fn urls(args: &Args, members: &MembersFile) -> anyhow::Result<BTreeMap<NodeNumber, String>> {
    if args.proxy.is_some() || args.redirect.is_some() {
        for (number, (reached, _)) in &members.nodes {
            ensure!(
                members.urls.contains_key(number),
                "node {} has no url in {FILE}; add one such as url = \"http://10.0.0.11:8080\"",
                reached.member.name
            );
        }
    }
    Ok(members.urls.clone())
}

/// Follows which nodes are there, and how they stand, until it is to end.
fn run_until(stop: &Stop, (director, gossip): (&Director, &Gossip), choice: &Mutex<Choice>, ways: &mut Ways) {
    let nodes = lock(choice).nodes();
    let mut weighed_at = Instant::now();
    while !stop.flag().load(Ordering::Relaxed) {
        let mut draining = director.with(|control, _| control.draining().clone());
        let heard = gossip.heard();
        let mut choice = lock(choice);
        // A node says it to one of two fronts, and the other hears it a second later.
        draining.extend(choice.draining_by(&heard));
        nodes.iter().for_each(|node| choice.set(*node, Away::Draining, draining.contains(node)));
        if weighed_at.elapsed() >= WEIGH {
            weighed_at = Instant::now();
            choice.look_for_unheard();
            choice.balance(&heard);
        }
        let now = choice.now();
        drop(choice);
        ways.follow(&now);
        std::thread::sleep(PAUSE);
    }
}

/// What sends clients to nodes.
struct Ways {
    spread: Arc<Spread>,
    webs: Vec<Web>,
    names: Option<Names>,
    addresses: BTreeMap<NodeNumber, IpAddr>,
    before: BTreeMap<NodeNumber, u16>,
}

impl Ways {
    fn start(args: &Args, members: &MembersFile, urls: &BTreeMap<NodeNumber, String>) -> anyhow::Result<Self> {
        let spread = Arc::new(Spread::new(urls.clone()));
        let certificate = args.tls_cert.iter().zip(&args.tls_key);
        let certificates: Vec<CertificateFiles> =
            certificate.map(|(certificate, key)| CertificateFiles::new(certificate.clone(), key.clone())).collect();
        let asked = [(Way::Proxy, &args.proxy), (Way::Redirect, &args.redirect)];
        let webs = asked.into_iter().filter_map(|(way, listen)| Some((way, listen.clone()?)));
        let webs = webs
            .map(|(way, listen)| Web::start(way, listen, certificates.clone(), (&args.folder, &spread)))
            .collect::<anyhow::Result<_>>()?;
        let names = args.dns.iter().zip(&args.dns_name).next().map(|(at, name)| {
            let service = ServiceName::new(name, TTL_S)?;
            Names::start(*at, service).with_context(|| format!("--dns {at}"))
        });
        let addresses = members.nodes.iter().map(|(number, (reached, _))| {
            (*number, members.urls.get(number).and_then(|url| host_of(url)).unwrap_or_else(|| reached.address.ip()))
        });
        Ok(Self { spread, webs, names: names.transpose()?, addresses: addresses.collect(), before: BTreeMap::new() })
    }

    /// Sends clients by these weights from now on.
    fn follow(&mut self, now: &BTreeMap<NodeNumber, NodeNow>) {
        let weights: BTreeMap<NodeNumber, u16> = now.iter().map(|(node, now)| (*node, now.weight)).collect();
        if weights == self.before {
            return;
        }
        self.spread.set(&weights);
        self.webs.iter_mut().for_each(|web| web.follow(&weights));
        if let Some(names) = &self.names {
            let nodes: Vec<(IpAddr, u16)> =
                weights.iter().filter_map(|(node, weight)| Some((*self.addresses.get(node)?, *weight))).collect();
            names.set_nodes(&nodes);
        }
        self.before = weights;
    }

    fn words(&self, args: &Args) -> String {
        let webs = self.webs.iter().map(Web::words);
        let names = args.dns.iter().zip(&args.dns_name).map(|(at, name)| format!("DNS for {name} at {at}"));
        webs.chain(names).collect::<Vec<_>>().join(" and ")
    }

    fn end(self) {
        self.webs.into_iter().for_each(Web::end);
        if let Some(names) = self.names {
            let counts = names.end();
            eprintln!(
                "weir cluster front: {} questions answered, {} refused, {} dropped",
                counts.told, counts.refused, counts.dropped
            );
        }
    }
}

/// The address in a url, if its host is one.
fn host_of(url: &str) -> Option<IpAddr> {
    let authority = url.split_once("://")?.1;
    let address = authority.parse::<SocketAddr>().map(|address| address.ip());
    address.or_else(|_| authority.trim_matches(['[', ']']).parse()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_may_name_an_address() {
        let of = |url| host_of(url).map(|ip| ip.to_string());
        assert_eq!(of("http://10.0.0.11:8080").as_deref(), Some("10.0.0.11"));
        assert_eq!(of("https://[2001:db8::1]").as_deref(), Some("2001:db8::1"));
        assert_eq!(of("https://n1.example.org:8443"), None);
    }
}
