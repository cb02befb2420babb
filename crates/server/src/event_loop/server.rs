//! A server. It is bound first, so that all errors of set-up are reported, and then run.

use crate::certificates::Certificates;
use crate::config::HostRules;
use crate::config::options::Options;
use crate::counters::host_counts::{HostLedger, HostTable};
use crate::counters::rounds::Rounds;
use crate::counters::{Counters, Counts, LoopCounters};
use crate::error::{BindError, RunError, TlsError};
use crate::event_loop::{EventLoop, LoopRole};
use crate::exchange::wakes::Wakes;
use crate::files::root::Root;
use crate::files::root::place::Place;
use crate::files::shared_content::SharedContent;
use crate::files::watcher::Watcher;
use crate::http::limits::Limits;
use crate::io::epoll::{Epoll, Waker};
use crate::io::listen::{self, ListenAddr, Listener, Local, LocalAddr};
use crate::io::open::Open;
use crate::io::per_address::PerAddress;
use crate::io::user::User;
use crate::io::way::Io;
use crate::loop_state::LoopState;
use crate::policy::control::{Control, Controls};
use crate::policy::insight::{Contents, Insight};
use crate::policy::link_prior::Priors;
use crate::policy::policy_client::PolicyClient;
use crate::policy::throttle::Throttles;
use crate::process::confine::{self, Confinement};
use crate::process::reload::{Reloader, Reloads};
use crate::quic::predecessor::Predecessor;
use crate::quic::{self, Former, Opened, QUIC_MAX, QuicSocket};
use crate::routing::fields::Fields;
use crate::routing::{Hosts, Router};
use crate::site::{Share, Site};
use crate::telemetry::access_log::{LogBuffer, LogWriter};
use crate::telemetry::admin::{AdminServer, Process, View};
use crate::telemetry::arm_requests::{ArmRequests, Names};
use crate::transport::ring::{self, Ring};
use std::hash::RandomState;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How often the caller's stop flag is looked at.
const STOP_POLL: Duration = Duration::from_millis(50);
/// Looks at the caller's stop flag from one look at the files of certificates to the next: a second.
const CERTIFICATE_POLLS: u32 = 20;
/// The same for the paths of the roots.
const ROOT_POLLS: u32 = 20;
/// Descriptors that are neither connections nor cached files.
const SPARE_DESCRIPTORS: usize = 64;

/// A static web server that listens already.
#[derive(Debug)]
pub struct Server {
    options: Arc<Options>,
    locals: Vec<Local>,
    parts: Vec<LoopParts>,
    certificates: Option<Certificates>,
    tls: Option<Arc<rustls::ServerConfig>>,
    quic: Option<Arc<quinn_proto::ServerConfig>>,
    log: Option<LogWriter>,
    admin: Option<AdminServer>,
    predecessor: Option<Predecessor>,
    former: Arc<Former>,
    user: Option<User>,
    started: (Instant, SystemTime),
    counters: Counters,
    reopen: Arc<AtomicBool>,
    reloader: Reloader,
    controls: Arc<Controls>,
    insight: Insight,
    connections_max: usize,
    files_max: usize,
    /// Why io_uring is not used although it would have been.
    without_ring: Option<std::io::Error>,
}

/// What is set up for a loop before its thread starts.
#[derive(Debug)]
struct LoopParts {
    epoll: Epoll,
    ring: Option<Ring>,
    waker: Waker,
    listeners: Vec<Listener>,
    quic: Vec<QuicSocket>,
    root: Root,
    role: LoopRole,
}

impl Server {
    /// Opens the root directory, the access log and the listening sockets. Clients can connect from then on, and
    /// are answered once [`run`](Self::run) is called.
    ///
    /// # Errors
    ///
    /// Everything in [`BindError`]; nothing stays open then.
    pub fn bind(mut options: Options) -> Result<Self, BindError> {
        options.loops = options.loops.max(1);
        let bounds = 1 << 10..=1 << 20;
        options.limits.head_bytes_max = options.limits.head_bytes_max.clamp(*bounds.start(), *bounds.end());
        if options.sandbox == Some(true) && options.leads_anywhere() {
            return Err(BindError::LinksOutOfReach);
        }
        let unopened = |source| BindError::of_root(&options.root, source);
        let place = Arc::new(Place::open(&options.root).map_err(unopened)?);
        let root = place.directory();
        let reopen = Arc::new(AtomicBool::new(false));
        let log = options.access_log.as_ref().map(|log| LogWriter::open(log, Arc::clone(&reopen), options.notice));
        let log = log.transpose()?;
        let named = |name: &String| User::named(name).map_err(|source| BindError::User { name: name.clone(), source });
        let user = options.user.as_ref().map(named).transpose()?;
        if let (Some(log), Some(user)) = (&log, &user) {
            log.give_to(user);
        }
        let is_secure = !options.certificates.is_empty();
        let certificates = is_secure.then(|| Certificates::load(&options.certificates)).transpose()?;
        let tls = certificates.as_ref().map(|certificates| certificates.config().map(Arc::new)).transpose();
        let tls = tls.map_err(|source| TlsError::Setup { source })?;
        let mut predecessor = options.take_over.map(Predecessor::of).transpose()?;
        let listen = options.listen.iter().map(|addr| (addr, is_secure));
        let listen = listen.chain(options.listen_clear.iter().map(|addr| (addr, false)));
        let sockets = listen::open(&listen.collect::<Vec<_>>(), options.loops, &mut predecessor)?;
        let admin = options.admin.as_ref().map(|admin| AdminServer::bind(admin, predecessor.as_mut())).transpose()?;
        let mut locals: Vec<Local> = Vec::new();
        // A loop may have several sockets of one address.
        let know = |locals: &mut Vec<Local>, local: Local| {
            if !locals.contains(&local) {
                locals.push(local);
            }
        };
        let of_tcp = sockets.first().into_iter().flatten().filter_map(Listener::local_addr);
        of_tcp.for_each(|local| know(&mut locals, local));
        let Opened { of_loops: quic_sockets, former } =
            quic::open(&quic_addresses(&options, &locals)?, options.loops, &mut predecessor)?;
        if let Some(predecessor) = &mut predecessor {
            (options.notice)(&predecessor.finish()?);
        }
        let of_quic = quic_sockets.first().into_iter().flatten().filter_map(QuicSocket::local_addr);
        let local = |addr| Local { addr: LocalAddr::Tcp(addr), is_secure: true, is_quic: true };
        of_quic.map(local).for_each(|local| know(&mut locals, local));
        let speaks_quic = locals.iter().any(|local| local.is_quic);
        let quic = match certificates.as_ref().filter(|_| speaks_quic) {
            Some(certificates) => {
                let config = certificates.quic_config().map_err(|source| TlsError::Setup { source })?;
                // It fails only without the cipher suite that every handshake begins with, which the provider has.
                let unsupported = |_| TlsError::Setup { source: rustls::Error::General("no AES-128-GCM".into()) };
                Some(quic::config(config, &options).map_err(unsupported)?)
            }
            None => None,
        };
        let failed = |source| BindError::EventLoop { source };
        let reserve = listen::open_reserve(sockets.first().map_or(&[], Vec::as_slice), options.reserve_loops)?;
        // At most as many as there can be descriptors.
        let resting = (0..reserve.len()).map(|number| LoopRole::Resting(number as u32));
        let posts = std::iter::repeat_n(LoopRole::Steady, sockets.len()).chain(resting);
        let sockets = sockets.into_iter().zip(quic_sockets).chain(reserve.into_iter().map(|of| (of, Vec::new())));
        let instances =
            (0..options.all_loops()).map(|_| Epoll::new()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let rings = match options.io {
            Io::Epoll => Ok(Vec::new()),
            Io::Auto | Io::Uring => ring::for_each(&instances),
        };
        let (rings, without_ring) = match rings {
            Ok(rings) => (rings, None),
            Err(source) if options.io == Io::Uring => return Err(BindError::Ring { source }),
            Err(source) => (Vec::new(), Some(source)),
        };
        let rings = rings.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        let parts = sockets.zip(posts).zip(instances.into_iter().zip(rings));
        let parts = parts.map(|(((listeners, quic), role), (epoll, ring))| {
            let root = root.try_clone().map(Root::of).map_err(failed)?;
            Ok(LoopParts { epoll, ring, waker: Waker::new().map_err(failed)?, listeners, quic, root, role })
        });
        let parts = parts.collect::<Result<Vec<_>, BindError>>()?;
        let counters = Counters((0..options.all_loops()).map(|_| LoopCounters::default()).collect());
        let descriptors = open_files_max();
        let files_max = (descriptors / 8 / options.all_loops()).clamp(4, 8192);
        let connections_max = connections_max(&options.limits, descriptors, files_max * options.all_loops());
        let insight = Insight {
            priors: Arc::default(),
            contents: Arc::default(),
            is_whole: options.access_log.as_ref().is_some_and(|log| log.addresses),
            key: RandomState::new(),
        };
        let options = Arc::new(options);
        let reloader = Reloader::new(&options, place);
        Ok(Self {
            insight,
            reloader,
            controls: Arc::default(),
            options,
            locals,
            parts,
            certificates,
            tls,
            quic,
            log,
            admin,
            predecessor,
            former: Arc::new(former),
            user,
            started: (Instant::now(), SystemTime::now()),
            counters,
            reopen,
            connections_max,
            files_max,
            without_ring,
        })
    }

    /// The addresses of TCP that the server listens on, with the ports that the system chose for port 0.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.locals.iter().filter(|local| !local.is_quic).filter_map(Local::ip).collect()
    }

    /// The addresses of UDP that the server speaks HTTP/3 at, with the ports that the system chose for port 0.
    pub fn quic_addrs(&self) -> Vec<SocketAddr> {
        self.locals.iter().filter(|local| local.is_quic).filter_map(Local::ip).collect()
    }

    /// Everything that the server listens on.
    pub fn locals(&self) -> &[Local] {
        &self.locals
    }

    /// Where the server tells of itself, if it does.
    pub fn admin_local(&self) -> Option<Local> {
        self.admin.as_ref().and_then(AdminServer::local)
    }

    /// How bytes of plain-text connections that are kept come and go: `io_uring` or `epoll`.
    pub fn io(&self) -> &'static str {
        if self.has_ring() { "io_uring" } else { "epoll" }
    }

    /// Why that is epoll where io_uring would have been used.
    pub fn without_ring(&self) -> Option<&std::io::Error> {
        self.without_ring.as_ref()
    }

    fn has_ring(&self) -> bool {
        self.parts.iter().any(|part| part.ring.is_some())
    }

    /// The number of event loops.
    pub fn loops(&self) -> usize {
        self.options.loops
    }

    /// The directory that is served, as it was given.
    pub fn root(&self) -> &std::path::Path {
        &self.options.root
    }

    /// The hosts of the configuration, each by its first name; none without one.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.options.hosts.iter().flat_map(HostRules::names)
    }

    /// The counts, which can be read while the server runs and after it.
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// Set this to have the access log opened again, within a second, after it was renamed.
    pub fn reopen_log_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.reopen)
    }

    /// What gives orders to the server while it runs.
    pub fn control(&self) -> Control {
        Control(Arc::clone(&self.controls))
    }

    /// A look into the server while it runs.
    pub fn insight(&self) -> Insight {
        self.insight.clone()
    }

    /// What hands another configuration to the server while it runs.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Serves until `stop` is set. Then nothing more is accepted, idle connections are closed, and responses in
    /// flight are finished within the stop timeout.
    ///
    /// # Errors
    ///
    /// Everything in [`RunError`]; the other loops are stopped in the same way first.
    pub fn run(self, stop: &AtomicBool) -> Result<Counts, RunError> {
        self.run_with(stop, || {})
    }

    /// The same, with something that is done about twenty times a second beside it, such as looking for signals.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub fn run_with(self, stop: &AtomicBool, mut beside: impl FnMut()) -> Result<Counts, RunError> {
        let alt_svc = alt_svc(&self.quic_addrs());
        let (io, has_ring) = (self.io(), self.has_ring());
        let Self { options, parts, mut certificates, tls, quic, mut log, admin, counters, reopen, reloader, .. } = self;
        let Insight { priors, contents, .. } = self.insight;
        let (connections_max, files_max) = (self.connections_max, self.files_max);
        if let Some(predecessor) = self.predecessor {
            // This comes before the server drops the rights that it needs to signal the predecessor. Clients that
            // connect from here on wait in sockets that both servers have.
            let pid = predecessor.pid();
            let refused = |source| RunError::Predecessor { pid, source };
            predecessor.may_end().map_err(refused)?;
            // First of all, so that no new client reaches the old server, which would refuse it because it is about to
            // end.
            self.former.tell();
            predecessor.end().map_err(refused)?;
        }
        for socket in parts.iter().flat_map(|part| &part.quic) {
            socket.lead().map_err(|source| RunError::Quic { source })?;
        }
        // Before ARM begins, because it records the user of the process whose memory agents read.
        let mut confinement = Confinement::default();
        confine::make_arm_folder(&options);
        confinement.drop_rights(self.user.as_ref()).map_err(|source| RunError::Rights { source })?;
        let log_wanted = log.as_ref().map(LogWriter::wanted);
        let buffers: Vec<_> = parts.iter().map(|_| log.as_ref().map(LogWriter::buffer)).collect();
        let per_address = PerAddress::new(options.limits.connections_per_address_max, connections_max);
        let open = Arc::new(Open::new(connections_max, per_address));
        // A socket that closes gives its place among those of its address to another one, and its loop's clients with
        // it.
        let _kept: Vec<_> = parts.iter().flat_map(|part| &part.quic).map(QuicSocket::keep).collect();
        let hosts = Arc::new(HostTable::default());
        let view = View {
            counters: counters.clone(),
            open: Arc::clone(&open),
            hosts: Arc::clone(&hosts),
            reloads: Arc::<Reloads>::clone(&reloader.0),
            keys: certificates.as_ref().map(Certificates::keys),
            process: Process::open(),
            started: self.started,
            listen: self.locals.iter().map(ToString::to_string).collect(),
            io,
            connections_max,
            cache_bytes_max: options.cache_bytes_max,
            has_log: log_wanted.is_some(),
            has_arm: options.arm.is_some(),
            teller: options.teller.clone(),
            priors: Arc::clone(&priors),
            loops_reserve: options.reserve_loops,
        };
        let names = Arc::new(Names::default());
        let shared_content = Arc::new(SharedContent::new());
        let rules = options.arm.clone().map(Arc::new);
        let stopping = AtomicBool::new(false);
        let (mut wakers, mut threads) = (Vec::new(), Vec::new());
        for (index, (part, log)) in parts.into_iter().zip(buffers).enumerate() {
            let LoopParts { epoll, ring, waker, listeners, quic: quic_sockets, root, role } = part;
            let waker = Arc::new(waker);
            wakers.push(Arc::clone(&waker));
            let arm = rules.as_ref().and_then(|rules| ArmRequests::new(rules, &names));
            let reloads = Arc::clone(&reloader.0);
            let (tls, shared_content) = (tls.clone(), Arc::clone(&shared_content));
            let quic = (quic_sockets, quic.clone(), Arc::clone(&self.former), alt_svc.clone());
            let hosts = HostLedger { table: Arc::clone(&hosts), index };
            let (priors, contents) = (Arc::clone(&priors), Arc::clone(&contents));
            threads.push(Start {
                reloads,
                hosts,
                epoll,
                ring,
                waker,
                listeners,
                quic,
                root,
                tls,
                log,
                arm,
                shared_content,
                priors,
                contents,
                role,
                controls: Arc::clone(&self.controls),
            });
        }
        self.controls.know(wakers.clone());
        confinement.take_hold(&options, has_ring);
        // No thread was started before, so that all of them are confined.
        let log_thread = log.take().map(|log| log.start(counters.clone())).transpose();
        let log_thread = log_thread.map_err(|source| RunError::Thread { source })?;
        shared_content.start().map_err(|source| RunError::Thread { source })?;
        let admin_thread = admin.map(|admin| admin.start(view)).transpose();
        let admin_thread = admin_thread.map_err(|source| RunError::Thread { source })?;
        let outcome = std::thread::scope(|scope| {
            let mut running = Vec::new();
            let mut outcome = Ok(());
            for start in threads {
                let (options, counters, open, stopping) = (&options, &counters, &open, &stopping);
                let name = format!("weir-loop-{}", start.hosts.index);
                let body = move || start.run(options, counters, open, stopping, files_max);
                match std::thread::Builder::new().name(name).spawn_scoped(scope, body) {
                    Ok(thread) => running.push(thread),
                    Err(source) => outcome = Err(RunError::Thread { source }),
                }
            }
            // A loop that ends early has failed, and half a server is worse than a clear end.
            let is_running = || running.iter().all(|thread| !thread.is_finished());
            let (mut polls, mut generation) = (0_u32, 0);
            while outcome.is_ok() && !stop.load(Ordering::Relaxed) && is_running() {
                std::thread::park_timeout(STOP_POLL);
                beside();
                if let Some(newer) = reloader.0.newer(&mut generation) {
                    if let (Some(wanted), Some(log)) = (&log_wanted, &newer.access_log) {
                        wanted.lock().unwrap_or_else(PoisonError::into_inner).clone_from(log);
                        reopen.store(true, Ordering::Relaxed);
                    }
                    let replaced = certificates.as_mut().and_then(|used| used.replace(&newer.certificates));
                    tell_of_certificates(replaced, &reloader, newer.notice);
                    wakers.iter().for_each(|waker| waker.wake());
                }
                polls = polls.wrapping_add(1);
                if polls.is_multiple_of(ROOT_POLLS) {
                    reloader.0.follow_roots(false).iter().for_each(|told| (options.notice)(told));
                }
                if let Some(certificates) = certificates.as_mut().filter(|_| polls.is_multiple_of(CERTIFICATE_POLLS)) {
                    tell_of_certificates(certificates.reload(), &reloader, options.notice);
                    for file in certificates.outdated() {
                        let remedy = "put a newer one in its place";
                        (options.notice)(&format!("{} is out of date and not sent any more; {remedy}", file.display()));
                    }
                }
            }
            stopping.store(true, Ordering::Relaxed);
            wakers.iter().for_each(|waker| waker.wake());
            for thread in running {
                let ended = thread.join().map_err(|_| RunError::Panicked);
                let ended = ended.and_then(|ended| ended.map_err(|source| RunError::Wait { source }));
                outcome = outcome.and(ended);
            }
            outcome
        });
        if let Some(thread) = admin_thread {
            thread.end();
        }
        if let Some(thread) = log_thread {
            thread.join();
        }
        outcome.map(|()| counters.read())
    }
}

fn tell_of_certificates(changed: Option<Result<(), TlsError>>, reloader: &Reloader, notice: fn(&str)) {
    if let Some(outcome) = &changed {
        reloader.0.note_certificates(outcome);
    }
    match changed {
        Some(Ok(())) => notice("certificates were changed and are in use"),
        Some(Err(error)) => notice(&format!("changed certificates are not used: {error}")),
        None => {}
    }
}

/// Where HTTP/3 is spoken, the ports of `listen` as the system chose them.
fn quic_addresses(options: &Options, locals: &[Local]) -> Result<Vec<ListenAddr>, BindError> {
    let mut addresses = options.listen_quic.clone();
    if (options.http3 || !addresses.is_empty()) && options.certificates.is_empty() {
        return Err(BindError::QuicWithoutTls);
    }
    if options.http3 {
        let secure = locals.iter().filter(|local| local.is_secure).filter_map(Local::ip);
        let same = secure.map(ListenAddr::from).collect::<Vec<_>>();
        if same.is_empty() {
            let addr = options.listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            return Err(BindError::NotForQuic { addr });
        }
        addresses.extend(same);
    }
    addresses.truncate(QUIC_MAX);
    Ok(addresses)
}

/// What responses elsewhere say of HTTP/3 (RFC 7838): its ports, for a day.
fn alt_svc(addrs: &[SocketAddr]) -> Fields {
    let mut ports: Vec<u16> = addrs.iter().map(SocketAddr::port).collect();
    ports.dedup();
    if ports.is_empty() {
        return Fields::default();
    }
    let ports: Vec<String> = ports.iter().map(|port| format!("h3=\":{port}\"; ma=86400")).collect();
    Fields::line(format!("Alt-Svc: {}\r\n", ports.join(", ")))
}

/// A loop on its way into its thread.
struct Start {
    reloads: Arc<Reloads>,
    /// With the loop's number.
    hosts: HostLedger,
    epoll: Epoll,
    ring: Option<Ring>,
    waker: Arc<Waker>,
    listeners: Vec<Listener>,
    /// Sockets, what they need, and what is said of them elsewhere.
    quic: (Vec<QuicSocket>, Option<Arc<quinn_proto::ServerConfig>>, Arc<Former>, Fields),
    root: Root,
    tls: Option<Arc<rustls::ServerConfig>>,
    log: Option<LogBuffer>,
    arm: Option<ArmRequests>,
    shared_content: Arc<SharedContent>,
    /// What is expected of clients.
    priors: Arc<Priors>,
    contents: Arc<Contents>,
    role: LoopRole,
    controls: Arc<Controls>,
}

impl Start {
    fn run(
        self,
        options: &Options,
        counters: &Counters,
        open: &Arc<Open>,
        stopping: &AtomicBool,
        files_max: usize,
    ) -> std::io::Result<()> {
        let watcher = Rc::new(if options.watches_max > 0 { Watcher::new() } else { Watcher::deaf() });
        let index = self.hosts.index;
        let policy_client = options.adviser.as_ref().map(|adviser| {
            let known = (Arc::clone(&self.priors), Arc::clone(&self.contents), Arc::clone(&self.shared_content));
            Rc::new(PolicyClient::new(Arc::clone(adviser), known, counters.clone(), index))
        });
        let (shared_content, hosts) = (self.shared_content, self.hosts);
        let share = Share { shared_content, watcher: Rc::clone(&watcher), hosts, files_max, policy_client };
        let router = match &options.hosts {
            None => Router::Plain(Site::new(self.root, &options.site_kind(), &options.site_bounds(), &share)),
            Some(rules) => {
                let (bounds, word) = (options.site_bounds(), &options.site_word);
                Router::Hosts(Box::new(Hosts::new(
                    Arc::clone(&rules.0),
                    Arc::clone(&self.waker),
                    &bounds,
                    word,
                    share,
                )?))
            }
        };
        let others = (self.reloads, watcher, Wakes::new(Arc::clone(&self.waker)));
        let mut state = LoopState::new(router, self.log, self.arm, options, counters.clone(), index, others);
        let (sockets, config, former, alt_svc) = self.quic;
        state.alt_svc = alt_svc;
        state.throttles = Throttles::new(&options.throttles, Arc::clone(&self.controls), index);
        state.controls = self.controls;
        self.ring.as_ref().map_or(Ok(()), Ring::enable)?;
        state.ring = self.ring;
        let endpoint = |(config, socket)| quic::Endpoint::new(socket, config, &former);
        let quic = config.iter().cycle().zip(sockets).map(endpoint).collect();
        let role = (self.role, options.adviser.is_some().then(Rounds::default));
        let event_loop = EventLoop::new(self.epoll, self.listeners, quic, self.tls, state, Arc::clone(open), role);
        event_loop.run(&self.waker, stopping)
    }
}

fn connections_max(limits: &Limits, descriptors: usize, files: usize) -> usize {
    limits.connections_max.min(descriptors.saturating_sub(files + SPARE_DESCRIPTORS)).max(1)
}

fn open_files_max() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills the structure, which lives over it.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if result == 0 { usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX) } else { 1024 }
}
