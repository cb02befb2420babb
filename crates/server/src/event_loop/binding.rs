//! What a server opens before it runs: the log, certificates, sockets, rings.

use crate::certificates::Certificates;
use crate::config::options::Options;
use crate::error::{BindError, TlsError};
use crate::event_loop::role::LoopRole;
use crate::files::root::Root;
use crate::files::root::place::Place;
use crate::http::limits::Limits;
use crate::io::epoll::{Epoll, Waker};
use crate::io::listen::{self, ListenAddr, Listener, Local, LocalAddr};
use crate::io::user::{User, give_to};
use crate::io::way::Io;
use crate::process::succession::Succession;
use crate::quic::QUIC_MAX;
use crate::quic::predecessor::Predecessor;
use crate::quic::{self, Former, Opened, QuicSocket};
use crate::telemetry::access_log::LogWriter;
use crate::telemetry::activity::file::ActivityFile;
use crate::telemetry::activity::format::Geometry;
use crate::telemetry::activity::keeper::ActivityKept;
use crate::telemetry::admin::AdminServer;
use crate::telemetry::recent::Recent;
use crate::tls::TrafficSecrets;
use crate::transport::ring::{self, Ring};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Descriptors that are neither connections nor cached files.
const SPARE_DESCRIPTORS: usize = 64;

/// What is set up for a loop before its thread starts.
#[derive(Debug)]
pub(super) struct LoopParts {
    pub(super) epoll: Epoll,
    pub(super) ring: Option<Ring>,
    pub(super) waker: Waker,
    pub(super) listeners: Vec<Listener>,
    pub(super) quic: Vec<QuicSocket>,
    pub(super) root: Root,
    pub(super) role: LoopRole,
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

/// Sockets of a server, and what it found out about them.
pub(super) struct Sockets {
    /// Those of TCP and of the Unix domain, by loops.
    pub(super) tcp: Vec<Vec<Listener>>,
    /// Those of QUIC, by loops.
    pub(super) quic: Vec<Vec<QuicSocket>>,
    /// Where the server listens, without repetitions.
    pub(super) locals: Vec<Local>,
    pub(super) admin: Option<AdminServer>,
    pub(super) predecessor: Option<Predecessor>,
    pub(super) former: Former,
    pub(super) succession: Arc<Succession>,
}

/// Brings options within their bounds, and refuses those that contradict each other.
pub(super) fn check(options: &mut Options) -> Result<(), BindError> {
    options.loops = options.loops.max(1);
    let bounds = 1 << 10..=1 << 20;
    options.limits.head_bytes_max = options.limits.head_bytes_max.clamp(*bounds.start(), *bounds.end());
    if options.sandbox == Some(true) && options.leads_anywhere() {
        return Err(BindError::LinksOutOfReach);
    }
    Ok(())
}

/// Opens the access log, and finds the user as whom the server is to run.
pub(super) fn open_log(
    options: &Options,
    reopen: &Arc<AtomicBool>,
) -> Result<(Option<LogWriter>, Option<User>), BindError> {
    let log = options.access_log.as_ref().map(|log| LogWriter::open(log, Arc::clone(reopen), options.notice));
    let log = log.transpose()?;
    let named = |name: &String| User::named(name).map_err(|source| BindError::User { name: name.clone(), source });
    let user = options.user.as_ref().map(named).transpose()?;
    if let (Some(log), Some(user)) = (&log, &user) {
        log.give_to(user);
    }
    Ok((log, user))
}

/// Opens the file of activity, as root where the server was started so: the user who will write it gets it.
pub(super) fn open_activity(options: &Options, user: Option<&User>) -> Result<Option<Arc<ActivityKept>>, BindError> {
    let Some(path) = options.activity.as_ref() else { return Ok(None) };
    let failed = |source| BindError::Activity { path: path.clone(), source };
    let file = ActivityFile::open(path, Geometry::USUAL).map_err(failed)?;
    if let Some(user) = user {
        // Where that is refused, what is open stays open.
        let _ = give_to(file.as_file(), user);
    }
    Ok(Some(Arc::new(ActivityKept::new(path.clone(), file))))
}

/// The history of requests that the admin address tells of.
pub(super) fn history(options: &Options) -> Option<Arc<Recent>> {
    (options.admin.is_some() && options.history > 0).then(|| Arc::new(Recent::new(options.history)))
}

/// Certificates, and what TLS does with them.
pub(super) type Keys = (Option<Certificates>, Option<Arc<rustls::ServerConfig>>);

/// Loads the certificates, where there are some.
pub(super) fn load_certificates(options: &Options) -> Result<Keys, BindError> {
    let is_secure = !options.certificates.is_empty();
    let certificates = is_secure.then(|| Certificates::load(&options.certificates, &options.challenges)).transpose()?;
    if let Some(certificates) = &certificates {
        certificates.keys().ask(options.hosts.as_ref().and_then(|hosts| hosts.0.asked_hosts()));
    }
    let tls = certificates.as_ref().map(|it| it.config(&options.tickets)).transpose();
    let mut tls = tls.map_err(|source| TlsError::Setup { source })?;
    if let Some(tls) = tls.as_mut().filter(|_| options.moves_sessions) {
        tls.enable_secret_extraction = true;
        tls.key_log = Arc::new(TrafficSecrets);
    }
    Ok((certificates, tls.map(Arc::new)))
}

/// Opens all sockets, or takes those of the server that is to end.
pub(super) fn open_sockets(options: &Options) -> Result<Sockets, BindError> {
    let is_secure = !options.certificates.is_empty();
    let mut predecessor = options.take_over.map(Predecessor::of).transpose()?;
    let is_passed_on = |addr: &ListenAddr| options.proxy_protocol.contains(addr);
    let listen = options.listen.iter().map(|addr| (addr, is_secure, is_passed_on(addr)));
    let listen = listen.chain(options.listen_clear.iter().map(|addr| (addr, false, is_passed_on(addr))));
    let tcp = listen::open(&listen.collect::<Vec<_>>(), options.loops, &mut predecessor)?;
    let admin = options.admin.as_ref().map(|admin| AdminServer::bind(admin, predecessor.as_mut())).transpose()?;
    let mut locals: Vec<Local> = Vec::new();
    // A loop may have several sockets of one address.
    let know = |locals: &mut Vec<Local>, local: Local| {
        if !locals.contains(&local) {
            locals.push(local);
        }
    };
    let of_tcp = tcp.first().into_iter().flatten().filter_map(Listener::local_addr);
    of_tcp.for_each(|local| know(&mut locals, local));
    let Opened { of_loops: quic, former } =
        quic::open(&quic_addresses(options, &locals)?, options.loops, &mut predecessor, options.cluster_node)?;
    let succession = Succession::new(predecessor.as_mut().map(Predecessor::records).unwrap_or_default());
    succession.promise(&options.timeouts);
    if let Some(predecessor) = &mut predecessor {
        let kept = succession.tunnels_kept(predecessor.pid());
        let kept = kept.map_or_else(String::new, |kept| format!("; it keeps its tunnels for {} at most", words(kept)));
        (options.notice)(&format!("{}{kept}", predecessor.finish()?));
    }
    let of_quic = quic.first().into_iter().flatten().filter_map(QuicSocket::local_addr);
    let local = |addr| Local { addr: LocalAddr::Tcp(addr), is_secure: true, is_quic: true };
    of_quic.map(local).for_each(|local| know(&mut locals, local));
    Ok(Sockets { tcp, quic, locals, admin, predecessor, former, succession: Arc::new(succession) })
}

/// A time as a configuration has it.
fn words(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds % 3600 == 0 => format!("{} h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

/// What the endpoints of QUIC have in common; none where HTTP/3 is not spoken.
pub(super) fn quic_config(
    certificates: Option<&Certificates>,
    locals: &[Local],
    options: &Options,
) -> Result<Option<Arc<quinn_proto::ServerConfig>>, BindError> {
    let speaks_quic = locals.iter().any(|local| local.is_quic);
    let Some(certificates) = certificates.filter(|_| speaks_quic) else { return Ok(None) };
    let config = certificates.quic_config(&options.tickets).map_err(|source| TlsError::Setup { source })?;
    // It fails only without the cipher suite that every handshake begins with, which the provider has.
    let unsupported = |_| TlsError::Setup { source: rustls::Error::General("no AES-128-GCM".into()) };
    Ok(Some(quic::config(config, options).map_err(unsupported)?))
}

/// Sets up all loops; beside them why io_uring is not used although it would have been.
pub(super) fn loop_parts(
    options: &Options,
    place: &Place,
    tcp: Vec<Vec<Listener>>,
    quic: Vec<Vec<QuicSocket>>,
) -> Result<(Vec<LoopParts>, Option<io::Error>), BindError> {
    let failed = |source| BindError::EventLoop { source };
    let root = place.directory();
    let reserve = listen::open_reserve(tcp.first().map_or(&[], Vec::as_slice), options.reserve_loops)?;
    // At most as many as there can be descriptors.
    let resting = (0..reserve.len()).map(|number| LoopRole::Resting(number as u32));
    let roles = std::iter::repeat_n(LoopRole::Steady, tcp.len()).chain(resting);
    let sockets = tcp.into_iter().zip(quic).chain(reserve.into_iter().map(|of| (of, Vec::new())));
    let instances = (0..options.all_loops()).map(|_| Epoll::new()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
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
    let parts = sockets.zip(roles).zip(instances.into_iter().zip(rings));
    let parts = parts.map(|(((listeners, quic), role), (epoll, ring))| {
        let root = root.try_clone().map(Root::of).map_err(failed)?;
        Ok(LoopParts { epoll, ring, waker: Waker::new().map_err(failed)?, listeners, quic, root, role })
    });
    Ok((parts.collect::<Result<Vec<_>, BindError>>()?, without_ring))
}

/// Connections of the server, and open files of each loop, that the descriptors of the process allow.
pub(super) fn maxima(options: &Options) -> (usize, usize) {
    let descriptors = open_files_max();
    let files_max = (descriptors / 8 / options.all_loops()).clamp(4, 8192);
    (connections_max(&options.limits, descriptors, files_max * options.all_loops()), files_max)
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
