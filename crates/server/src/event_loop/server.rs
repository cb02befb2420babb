//! A server. It is bound first, so that all errors of set-up are reported, and then run.

use super::binding::{self, LoopParts};
use super::sessions::Sessions;
use super::start::Start;
use super::supervision::{RunningLoops, Supervision};
use crate::certificates::Certificates;
use crate::config::HostRules;
use crate::config::options::Options;
use crate::counters::host_counts::{HostLedger, HostTable};
use crate::counters::{Counters, Counts, LoopCounters};
use crate::error::{BindError, RunError};
use crate::files::root::place::Place;
use crate::files::shared_content::SharedContent;
use crate::io::listen::Local;
use crate::io::open::Open;
use crate::io::per_address::PerAddress;
use crate::io::user::User;
use crate::policy::control::{Control, Controls};
use crate::policy::insight::Insight;
use crate::process::confine::{self, Confinement};
use crate::process::reload::{Reloader, Reloads};
use crate::process::succession::Succession;
use crate::quic::predecessor::Predecessor;
use crate::quic::{Former, QuicSocket};
use crate::routing::fields::Fields;
use crate::telemetry::access_log::LogWriter;
use crate::telemetry::activity::durations::Durations;
use crate::telemetry::activity::keeper::{ActivityKept, Sources};
use crate::telemetry::admin::{AdminServer, Process, View};
use crate::telemetry::arm_requests::{ArmRequests, Names};
use crate::telemetry::recent::{Recent, RecentNotes};
use crate::telemetry::response_log::ResponseLog;
use crate::telemetry::watching::Hub;
use crate::upstream::cache::store::Cache;
use crate::upstream::context::UpstreamContext;
use std::hash::RandomState;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime};

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
    activity: Option<Arc<ActivityKept>>,
    recent: Option<Arc<Recent>>,
    /// Times of requests, by loops.
    durations: Vec<Arc<Durations>>,
    predecessor: Option<Predecessor>,
    former: Arc<Former>,
    succession: Arc<Succession>,
    user: Option<User>,
    started: (Instant, SystemTime),
    counters: Counters,
    reopen: Arc<AtomicBool>,
    opens_log: Arc<AtomicBool>,
    is_followed: Arc<AtomicBool>,
    reloader: Reloader,
    controls: Arc<Controls>,
    /// Requests that an operator watches.
    watching: Arc<Hub>,
    sessions: Arc<Sessions>,
    insight: Insight,
    connections_max: usize,
    files_max: usize,
    /// Why io_uring is not used although it would have been.
    without_ring: Option<std::io::Error>,
}

impl Server {
    /// Opens the root directory, the access log and the listening sockets. Clients can connect from then on, and
    /// are answered once [`run`](Self::run) is called.
    ///
    /// # Errors
    ///
    /// Everything in [`BindError`]; nothing stays open then.
    pub fn bind(mut options: Options) -> Result<Self, BindError> {
        binding::check(&mut options)?;
        let unopened = |source| BindError::of_root(&options.root, source);
        let place = Arc::new(Place::open(&options.root).map_err(unopened)?);
        let reopen = Arc::new(AtomicBool::new(false));
        let opens_log = Arc::new(AtomicBool::new(false));
        let (log, user) = binding::open_log(&options, &opens_log)?;
        let activity = binding::open_activity(&options, user.as_ref())?;
        let recent = binding::history(&options);
        let (certificates, tls) = binding::load_certificates(&options)?;
        let sockets = binding::open_sockets(&options)?;
        let quic = binding::quic_config(certificates.as_ref(), &sockets.locals, &options)?;
        let (parts, without_ring) = binding::loop_parts(&options, &place, sockets.tcp, sockets.quic)?;
        let counters = Counters((0..options.all_loops()).map(|_| LoopCounters::default()).collect());
        let (connections_max, files_max) = binding::maxima(&options);
        let options = Arc::new(options);
        let reloader = Reloader::new(&options, place);
        let insight = Insight {
            priors: Arc::default(),
            contents: Arc::default(),
            is_whole: options.access_log.as_ref().is_some_and(|log| log.addresses),
            key: RandomState::new(),
            upstreams: Arc::<Reloads>::clone(&reloader.0),
        };
        let controls: Arc<Controls> = Arc::default();
        let sessions = Arc::new(Sessions::new(parts.len(), Arc::clone(&controls)));
        let watching = Arc::new(Hub::new(parts.len(), Arc::clone(&controls)));
        Ok(Self {
            insight,
            reloader,
            controls,
            sessions,
            watching,
            options,
            locals: sockets.locals,
            parts,
            certificates,
            tls,
            quic,
            log,
            admin: sockets.admin,
            activity,
            recent,
            durations: (0..counters.0.len()).map(|_| Arc::default()).collect(),
            predecessor: sockets.predecessor,
            former: Arc::new(sockets.former),
            succession: sockets.succession,
            user,
            started: (Instant::now(), SystemTime::now()),
            counters,
            reopen,
            opens_log,
            is_followed: Arc::default(),
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

    /// Set once another server has taken over from this one, which only keeps its tunnels from then on.
    pub fn followed_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_followed)
    }

    /// What gives orders to the server while it runs.
    pub fn control(&self) -> Control {
        let sessions = Arc::<Sessions>::clone(&self.sessions);
        Control(Arc::clone(&self.controls), Arc::<Reloads>::clone(&self.reloader.0), sessions)
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

    /// The same, with something that is done about twenty times a second beside it, such as looking for signals; also
    /// once more when another server has followed this one, see [`followed_flag`](Self::followed_flag).
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub fn run_with(mut self, stop: &AtomicBool, beside: impl FnMut()) -> Result<Counts, RunError> {
        let (alt_svc, has_ring) = (alt_svc(&self.quic_addrs()), self.has_ring());
        self.end_predecessor()?;
        for socket in self.parts.iter().flat_map(|part| &part.quic) {
            socket.lead().map_err(|source| RunError::Quic { source })?;
        }
        // Before ARM begins, because it records the user of the process whose memory agents read.
        let mut confinement = Confinement::default();
        confine::make_arm_folder(&self.options);
        confinement.drop_rights(self.user.as_ref()).map_err(|source| RunError::Rights { source })?;
        self.open_caches()?;
        let log_wanted = self.log.as_ref().map(LogWriter::wanted);
        let per_address = PerAddress::new(self.options.limits.connections_per_address_max, self.connections_max);
        let open = Arc::new(Open::new(self.connections_max, per_address));
        // A socket that closes gives its place among those of its address to another one, and its loop's clients with
        // it.
        let _kept: Vec<_> = self.parts.iter().flat_map(|part| &part.quic).map(QuicSocket::keep).collect();
        let hosts = Arc::new(HostTable::default());
        let view = self.view(&open, &hosts);
        let shared_content = Arc::new(SharedContent::new());
        let upstreams = self.upstream_context()?;
        let starts = self.starts(&alt_svc, &hosts, &shared_content, &upstreams);
        let wakers: Vec<_> = starts.iter().map(|start| Arc::clone(&start.waker)).collect();
        self.controls.know(wakers.clone());
        confinement.take_hold(&self.options, has_ring);
        // No thread was started before, so that all of them are confined.
        let failed = |source| RunError::Thread { source };
        let log_thread = self.log.take().map(|log| log.start(self.counters.clone())).transpose().map_err(failed)?;
        shared_content.start().map_err(failed)?;
        self.caches().try_for_each(|cache| cache.clean()).map_err(failed)?;
        let admin_thread = self.admin.take().map(|admin| admin.start(view)).transpose().map_err(failed)?;
        let activity = self.activity.as_ref().map(|activity| activity.start(self.activity_sources(&open)));
        let activity_thread = activity.transpose().map_err(failed)?;
        let supervision = Supervision {
            options: &self.options,
            counters: &self.counters,
            succession: &self.succession,
            admin: admin_thread,
            is_followed: &self.is_followed,
            reloader: &self.reloader,
            certificates: self.certificates.take(),
            log_wanted,
            reopen: &self.reopen,
            opens_log: &self.opens_log,
            log_openings: 0,
            wakers,
            notices: Arc::clone(&upstreams.notices),
            polls: 0,
            generation: 0,
        };
        let loops =
            RunningLoops { options: &self.options, counters: &self.counters, open: &open, files_max: self.files_max };
        let outcome = loops.run(starts, supervision, stop, beside);
        if let Some(thread) = log_thread {
            thread.join();
        }
        if let Some(thread) = activity_thread {
            thread.end();
        }
        outcome.map(|()| self.counters.read())
    }

    /// Has the server end whose sockets were taken over.
    fn end_predecessor(&mut self) -> Result<(), RunError> {
        let Some(predecessor) = self.predecessor.take() else { return Ok(()) };
        // This comes before the server drops the rights that it needs to signal the predecessor. Clients that
        // connect from here on wait in sockets that both servers have.
        let pid = predecessor.pid();
        let refused = |source| RunError::Predecessor { pid, source };
        predecessor.may_end().map_err(refused)?;
        // The signal that follows does not end tunnels then.
        self.succession.follow(pid);
        // First of all, so that no new client reaches the old server, which would refuse it because it is about to
        // end.
        self.former.tell();
        predecessor.end().map_err(refused)
    }

    /// Opens what responses of upstreams are kept in: as the user that the server runs as, and while it may still make
    /// directories.
    fn open_caches(&self) -> Result<(), RunError> {
        let rules = self.options.hosts.as_ref();
        for cache in rules.into_iter().flat_map(|rules| &rules.0.caches) {
            let directory = cache.rules.disk.as_ref().map(|disk| disk.directory.clone());
            let directory = directory.unwrap_or_default();
            cache.open().map_err(|source| RunError::Cache { directory, source })?;
        }
        Ok(())
    }

    /// The caches that are open.
    fn caches(&self) -> impl Iterator<Item = &Arc<Cache>> {
        let rules = self.options.hosts.iter().flat_map(|rules| &rules.0.caches);
        rules.filter_map(|cache| cache.cache())
    }

    /// What upstreams need of the process. A thread looks their names up if they have any.
    fn upstream_context(&self) -> Result<Arc<UpstreamContext>, RunError> {
        let upstreams = self.options.hosts.as_ref().map_or(&[][..], |rules| &rules.0.upstreams);
        let watches = [self.options.php.clone(), self.options.scripts.clone()];
        UpstreamContext::new(upstreams, self.options.notice, watches).map_err(|source| RunError::Thread { source })
    }

    /// What the admin address reads.
    fn view(&self, open: &Arc<Open>, hosts: &Arc<HostTable>) -> View {
        View {
            counters: self.counters.clone(),
            open: Arc::clone(open),
            hosts: Arc::clone(hosts),
            reloads: Arc::<Reloads>::clone(&self.reloader.0),
            former: Arc::<Succession>::clone(&self.succession),
            connected: Arc::<Sessions>::clone(&self.sessions),
            rights: self.options.admin_rights,
            recent: self.recent.clone(),
            activity: self.activity.clone(),
            challenges: self.options.challenges.clone(),
            keys: self.certificates.as_ref().map(Certificates::keys),
            process: Process::open(),
            started: self.started,
            listen: self.locals.iter().map(ToString::to_string).collect(),
            io: self.io(),
            connections_max: self.connections_max,
            cache_bytes_max: self.options.cache_bytes_max,
            has_log: self.log.is_some(),
            has_arm: self.options.arm.is_some(),
            teller: self.options.teller.clone(),
            pages: self.options.admin_pages.clone(),
            durations: self.durations.clone(),
            priors: Arc::clone(&self.insight.priors),
            loops_reserve: self.options.reserve_loops,
            php: self.options.php.clone(),
            scripts: self.options.scripts.clone(),
            watching: Arc::clone(&self.watching),
        }
    }

    /// What a loop notes of requests, where there is a history.
    fn notes(&self, index: usize) -> Option<RecentNotes> {
        Some(RecentNotes::new(Arc::clone(self.recent.as_ref()?), Arc::clone(self.durations.get(index)?)))
    }

    /// What the activity is made of.
    fn activity_sources(&self, open: &Arc<Open>) -> Sources {
        Sources {
            counters: self.counters.clone(),
            open: Arc::clone(open),
            durations: self.durations.clone(),
            reloads: Arc::<Reloads>::clone(&self.reloader.0),
            is_followed: Arc::clone(&self.is_followed),
            took_over: self.options.take_over,
            notice: self.options.notice,
        }
    }

    /// All loops before their threads; the server gives them what it has set up for them.
    fn starts(
        &mut self,
        alt_svc: &Fields,
        hosts: &Arc<HostTable>,
        shared_content: &Arc<SharedContent>,
        upstreams: &Arc<UpstreamContext>,
    ) -> Vec<Start> {
        let parts = std::mem::take(&mut self.parts);
        let names = Arc::new(Names::default());
        let rules = self.options.arm.clone().map(Arc::new);
        let start = |(index, part): (usize, LoopParts)| Start {
            reloads: Arc::clone(&self.reloader.0),
            hosts: HostLedger { table: Arc::clone(hosts), index },
            epoll: part.epoll,
            ring: part.ring,
            waker: Arc::new(part.waker),
            listeners: part.listeners,
            quic: (part.quic, self.quic.clone(), Arc::clone(&self.former), alt_svc.clone()),
            root: part.root,
            tls: self.tls.clone(),
            log: ResponseLog::new(self.log.as_ref().map(LogWriter::buffer), self.notes(index)),
            arm: rules.as_ref().and_then(|rules| ArmRequests::new(rules, &names)),
            shared_content: Arc::clone(shared_content),
            priors: Arc::clone(&self.insight.priors),
            contents: Arc::clone(&self.insight.contents),
            role: part.role,
            controls: Arc::clone(&self.controls),
            watching: Arc::clone(&self.watching),
            upstreams: Arc::clone(upstreams),
            sessions: Arc::clone(&self.sessions),
        };
        parts.into_iter().enumerate().map(start).collect()
    }
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
