//! The keeper: a small process with CAP_NET_ADMIN that does for a server without privileges what needs it.
//!
//! It attaches the filter of held connections, opens its socket for one user, and then drops all other privileges. A
//! thread serves each client, and one ends holds whose time is over.

use crate::counts::KeeperCounts;
use crate::filter::FilterError;
use crate::flow::{Flow, canonical};
use crate::guarded::{Guarded, NotGuarded};
use crate::held_flows::{Held, HeldFlows};
use crate::hold::HoldFilter;
use crate::packets::{self, Message};
use crate::protocol::{Orphans, Refusal, Reply, Request};
use crate::repair::Heard;
use crate::tcp_state::TcpState;
use crate::{privileges, repair, socket_calls};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Clients at a time: a server, and the one that takes its place.
const CLIENTS_MAX: usize = 64;
const BACKLOG: i32 = 64;
/// A client that does not take its answer is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// How exactly holds end in the keeper's own list; the filter ends them to the nanosecond.
const SWEEP: Duration = Duration::from_millis(250);
/// After a failed accept, such as for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// How long packets of a connection are dropped whose server has ended, unless another node goes on with it.
const ORPHAN_TIME: Duration = Duration::from_secs(8);
/// It is told as orphaned only while it is held for longer than this: no new connection of these ends may begin here while
/// another node still asks for it.
const ORPHAN_REST: Duration = Duration::from_secs(2);

/// How a keeper is started.
#[derive(Debug, Clone)]
pub struct KeeperOptions {
    /// Its Unix socket.
    pub socket: PathBuf,
    /// The network interfaces by which clients' packets come in.
    pub interfaces: Vec<String>,
    /// The addresses of the services whose connections it may touch.
    pub services: Vec<SocketAddr>,
    /// The user whose processes may ask it.
    pub allowed_uid: u32,
    /// User and group that it becomes; it stays what it is without.
    pub run_as: Option<(u32, u32)>,
    /// Orders of an older epoch are refused from the beginning.
    pub oldest_epoch: u64,
    /// The mark (`SO_MARK`) of restored sockets, by which a route with a larger first window can be chosen; 0 for none.
    pub mark: u32,
    /// Connections held at a time, at most 10,000.
    pub holds_max: usize,
    /// After which a hold ends by itself.
    pub hold_time: Duration,
    /// How long late packets of a connection that has left are dropped.
    pub tombstone_time: Duration,
}

impl KeeperOptions {
    /// Those with the usual bounds: 10,000 holds of 5 s, tombstones of 2 s.
    #[must_use]
    pub fn new(socket: &Path, interfaces: &[&str], services: &[SocketAddr], allowed_uid: u32) -> Self {
        Self {
            socket: socket.to_owned(),
            interfaces: interfaces.iter().map(|&name| name.to_owned()).collect(),
            services: services.to_vec(),
            allowed_uid,
            run_as: None,
            oldest_epoch: 0,
            mark: 0,
            holds_max: HOLDS_MAX,
            hold_time: Duration::from_secs(5),
            tombstone_time: Duration::from_secs(2),
        }
    }
}

/// The filter's table has room for these and for tombstones.
const HOLDS_MAX: usize = 10_000;

/// Why a keeper does not start.
#[derive(Debug, thiserror::Error)]
pub enum KeeperStartError {
    /// Without an interface or a service it has nothing to do.
    #[error("the keeper needs at least one {0}; name it")]
    Nothing(&'static str),
    /// The bound is too large.
    #[error("a keeper holds at most {HOLDS_MAX} connections, and {0} are asked for; ask for fewer")]
    HoldsMax(usize),
    /// The filter cannot be attached.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The socket cannot be made.
    #[error(
        "the keeper's socket {path} cannot be made ({source}); name a path in a directory that exists, where nothing else stands"
    )]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is another one.
    #[error("a keeper answers at {0} already; end it first, or name another socket")]
    RunsAlready(PathBuf),
    /// Privileges cannot be dropped.
    #[error("{doing} fails ({source}); start the keeper as root, or with CAP_SETPCAP besides what it keeps")]
    Privileges {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The thread that ends holds cannot be started.
    #[error("no thread can be started ({0}); raise the limit of the keeper's tasks")]
    Thread(io::Error),
    /// Without privileges the table cannot be used.
    #[error(
        "the keeper may not use the filter's table once it has dropped CAP_BPF: use Linux 5.19 or later, or set kernel.unprivileged_bpf_disabled to 0"
    )]
    TableNeedsPrivilege,
}

/// A keeper that is ready to serve.
#[derive(Debug)]
pub struct KeeperProcess {
    listener: Socket,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: KeeperOptions,
    filter: HoldFilter,
    held: Mutex<HeldFlows>,
    guarded: Mutex<Guarded>,
    /// Something is held.
    begun: Condvar,
    clients: AtomicUsize,
}

impl KeeperProcess {
    /// Attaches the filter, makes the socket, and drops privileges: of the calling thread, and of those that it starts
    /// from now on. It is called before a process has other threads.
    ///
    /// # Errors
    /// [`KeeperStartError`].
    pub fn start(options: &KeeperOptions) -> Result<Self, KeeperStartError> {
        let mut options = options.clone();
        for service in &mut options.services {
            *service = canonical(*service);
        }
        if options.interfaces.is_empty() {
            return Err(KeeperStartError::Nothing("network interface"));
        }
        if options.services.is_empty() {
            return Err(KeeperStartError::Nothing("address of a service"));
        }
        if options.holds_max > HOLDS_MAX {
            return Err(KeeperStartError::HoldsMax(options.holds_max));
        }
        let filter = HoldFilter::attach(&options.interfaces)?;
        let listener = listen(&options)?;
        let ports: Vec<u16> = options.services.iter().map(SocketAddr::port).collect();
        privileges::give_up(&ports, options.run_as)
            .map_err(|(doing, source)| KeeperStartError::Privileges { doing, source })?;
        filter.check().map_err(|_| KeeperStartError::TableNeedsPrivilege)?;
        tracing::info!(socket = %options.socket.display(), "the keeper is ready");
        let mut held = HeldFlows::new(options.holds_max, options.oldest_epoch.max(filter.epoch()));
        for (flow, left) in filter.held() {
            held.inherit(flow, Instant::now() + left);
        }
        let held = Mutex::new(held);
        let guarded = Mutex::new(Guarded::new());
        let shared = Shared { options, filter, held, guarded, begun: Condvar::new(), clients: AtomicUsize::new(0) };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Serves clients until the process ends. The filter stays: holds end by themselves, and a successor takes it over.
    ///
    /// # Errors
    /// [`KeeperStartError::Thread`].
    pub fn serve(&self) -> Result<(), KeeperStartError> {
        let sweeper = Arc::clone(&self.shared);
        let started = std::thread::Builder::new().name("keeper-sweep".to_owned()).spawn(move || sweeper.sweep());
        started.map_err(KeeperStartError::Thread)?;
        loop {
            let Ok((client, _)) = self.listener.accept() else {
                std::thread::sleep(PAUSE);
                continue;
            };
            if !self.shared.admits(&client) {
                continue;
            }
            let shared = Arc::clone(&self.shared);
            shared.clients.fetch_add(1, Ordering::Relaxed);
            let serve = move || {
                shared.serve(&client);
                shared.clients.fetch_sub(1, Ordering::Relaxed);
            };
            if let Err(error) = std::thread::Builder::new().name("keeper-client".to_owned()).spawn(serve) {
                // The client sees its socket closed.
                self.shared.clients.fetch_sub(1, Ordering::Relaxed);
                tracing::warn!("no thread for a client of the keeper: {error}");
            }
        }
    }
}

/// The keeper's socket, which only the allowed user can open.
fn listen(options: &KeeperOptions) -> Result<Socket, KeeperStartError> {
    let path = &options.socket;
    let failed = |source| KeeperStartError::Socket { path: path.clone(), source };
    let address = SockAddr::unix(path).map_err(failed)?;
    let open = || Socket::new(Domain::UNIX, Type::SEQPACKET, None).map_err(failed);
    if std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
        if open()?.connect(&address).is_ok() {
            return Err(KeeperStartError::RunsAlready(path.clone()));
        }
        // What a keeper that was killed has left.
        std::fs::remove_file(path).map_err(failed)?;
    }
    let listener = open()?;
    listener.bind(&address).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    std::os::unix::fs::chown(path, Some(options.allowed_uid), None).map_err(failed)?;
    listener.listen(BACKLOG).map_err(failed)?;
    Ok(listener)
}

impl Shared {
    /// Whether a client may ask: by its user (`SO_PEERCRED`, unix(7)), and if there are not too many.
    fn admits(&self, client: &Socket) -> bool {
        let uid = uid_of(client);
        let is_allowed = uid == Some(self.options.allowed_uid);
        let admits = is_allowed && self.clients.load(Ordering::Relaxed) < CLIENTS_MAX;
        if !admits {
            tracing::warn!(?uid, is_allowed, "a client of the keeper is turned away");
            self.held().counts.turned_away += 1;
        }
        admits && client.set_write_timeout(Some(PATIENCE)).is_ok()
    }

    fn serve(self: &Arc<Self>, client: &Socket) {
        while let Ok(Some(Message { bytes, descriptor })) = packets::receive(client.as_fd()) {
            let request = Request::decode(&bytes);
            drop(bytes);
            let answer = request.map_err(Refusal::Malformed).and_then(|request| self.answer(request, descriptor));
            let (reply, socket) = answer.unwrap_or_else(|refusal| {
                tracing::debug!("refused: {refusal}");
                self.held().counts.refused += 1;
                (Reply::Refused(refusal), None)
            });
            if packets::send(client.as_fd(), &reply.encode(), socket.as_ref().map(AsFd::as_fd)).is_err() {
                return;
            }
        }
    }

    fn answer(self: &Arc<Self>, request: Request, fd: Option<OwnedFd>) -> Result<(Reply, Option<OwnedFd>), Refusal> {
        let fd = || fd.ok_or(Refusal::NoDescriptor);
        let reply = match request {
            Request::Freeze { epoch } => self.freeze(fd()?, epoch)?,
            Request::SendQueue { bytes } => {
                let fd = fd()?;
                self.flow_of(fd.as_fd())?;
                Reply::Bytes(repair::send_queue(fd.as_fd(), bytes)?)
            }
            Request::Thaw => self.thaw(fd()?.as_fd())?,
            Request::Discard => self.discard(fd()?.as_fd())?,
            Request::Hold { flow, epoch } => self.hold(flow, epoch)?,
            Request::Renew { flow } => self.renew(&flow.canonical())?,
            Request::Release { flow } => self.release(&flow.canonical())?,
            Request::Restore { tcp, unread, sent, epoch } => {
                return self.restore(&tcp, &unread, &sent, epoch).map(|socket| (Reply::Restored, Some(socket)));
            }
            Request::Activate => self.activate(fd()?.as_fd())?,
            Request::Counts => Reply::Counts(KeeperCounts { guarded: self.guarded().count(), ..self.held().counted() }),
            Request::Guard { server } => self.guard(fd()?, server)?,
            Request::Keep { server } => self.keep(fd()?, server)?,
            Request::LetGo { flows } => {
                let flows: Vec<Flow> = flows.into_iter().map(Flow::canonical).collect();
                self.guarded().let_go(&flows);
                Reply::Done
            }
            Request::Orphans => {
                // The servers first: of one that is not there any more all connections are in the list.
                let servers = self.guarded().servers();
                Reply::Orphans(Orphans { servers, flows: self.held().orphans(Instant::now(), ORPHAN_REST) })
            }
            Request::Adopted { flow } => self.adopted(flow.canonical()),
        };
        Ok((reply, None))
    }

    /// Guards a server's sockets from now on: a thread waits for the end of its process.
    fn guard(self: &Arc<Self>, process: OwnedFd, server: u64) -> Result<Reply, Refusal> {
        if self.guarded().begin(server).map_err(|why| not_guarded(why, server))? {
            let shared = Arc::clone(self);
            let watch = move || {
                wait_for_end(process.as_fd());
                shared.orphan_all(server);
            };
            if let Err(error) = std::thread::Builder::new().name("keeper-guard".to_owned()).spawn(watch) {
                tracing::warn!("no thread that waits for a server's end: {error}");
                self.guarded().take(server);
                return Err(Refusal::GuardedFull(0));
            }
        }
        Ok(Reply::Done)
    }

    fn keep(&self, fd: OwnedFd, server: u64) -> Result<Reply, Refusal> {
        let flow = self.flow_of(fd.as_fd())?;
        let put = repair::check_established(fd.as_fd())
            .map_err(Refusal::from)
            .and_then(|()| self.guarded().put(server, flow, fd).map_err(|why| not_guarded(why, server)));
        if put.is_err() {
            self.held().counts.not_guarded += 1;
        }
        put.map(|()| Reply::Done)
    }

    /// A server has ended: its connections are ended here without a word to their clients, as others may go on with them.
    fn orphan_all(&self, server: u64) {
        loop {
            let sockets = self.guarded().take(server);
            if sockets.is_empty() {
                return;
            }
            tracing::info!(server, connections = sockets.len(), "a server has ended");
            for (flow, socket) in sockets {
                // Closed as it is, it ends as the connections of a server that is not guarded.
                if let Err(why) = self.orphan(flow, socket.as_fd()) {
                    tracing::debug!(%flow, %why, "a connection ends with its server");
                }
            }
        }
    }

    fn orphan(&self, flow: Flow, socket: BorrowedFd<'_>) -> Result<(), Refusal> {
        repair::check_established(socket)?;
        {
            let mut held = self.held();
            held.begin(flow, Held::Orphaned, Instant::now() + ORPHAN_TIME)?;
            if let Err(error) = self.filter.hold(&flow, ORPHAN_TIME) {
                held.remove(&flow);
                return Err(filter_refusal(&error));
            }
        }
        self.begun.notify_one();
        let abandoned = repair::abandon(socket);
        let mut held = self.held();
        match abandoned {
            Ok(()) => held.counts.orphaned += 1,
            Err(_) => drop(self.end(&mut held, &flow)),
        }
        Ok(abandoned?)
    }

    /// Another node goes on with what had lost its server: late packets are dropped for a while.
    fn adopted(&self, flow: Flow) -> Reply {
        let mut held = self.held();
        if matches!(held.get(&flow), Some(Held::Orphaned)) {
            let time = self.options.tombstone_time;
            if let Some(oldest) = held.bury(flow, Instant::now() + time) {
                self.let_pass(&mut held, &oldest);
            }
            if let Err(error) = self.filter.hold(&flow, time) {
                tracing::warn!(%flow, "a hold of a connection that has left is not shortened: {error}");
            }
        }
        Reply::Done
    }

    fn freeze(&self, fd: OwnedFd, epoch: u64) -> Result<Reply, Refusal> {
        let fd = Arc::new(fd);
        // One that is not established may have no other end.
        repair::check_established(fd.as_fd())?;
        let flow = self.flow_of(fd.as_fd())?;
        {
            let mut held = self.held();
            self.check_epoch(&mut held, epoch)?;
            self.begin(&mut held, flow, Held::Frozen { socket: Arc::clone(&fd), window: None })?;
        }
        let frozen = repair::freeze(fd.as_fd());
        let mut held = self.held();
        match frozen {
            Ok(frozen) => {
                held.frozen(&flow, frozen.tcp.window);
                Ok(Reply::Frozen(frozen))
            }
            Err(error) => {
                self.end(&mut held, &flow);
                Err(error.into())
            }
        }
    }

    /// Refuses an order of an older director than the newest one seen, also by a keeper before this one.
    fn check_epoch(&self, held: &mut HeldFlows, epoch: u64) -> Result<(), Refusal> {
        if held.check_epoch(epoch)?
            && let Err(error) = self.filter.note_epoch(epoch)
        {
            tracing::warn!("a keeper after this one will not know the epoch: {error}");
        }
        Ok(())
    }

    fn thaw(&self, fd: BorrowedFd<'_>) -> Result<Reply, Refusal> {
        let flow = self.flow_of(fd)?;
        let window = match self.held().get(&flow) {
            Some(Held::Frozen { window, .. }) => *window,
            _ => None,
        };
        repair::thaw(fd, window, || {
            let mut held = self.held();
            held.counts.thawed += 1;
            self.end(&mut held, &flow)
        })?;
        Ok(Reply::Done)
    }

    fn discard(&self, fd: BorrowedFd<'_>) -> Result<Reply, Refusal> {
        let flow = self.flow_of(fd)?;
        repair::require_frozen(fd)?;
        {
            let mut held = self.held();
            if let Some(oldest) = held.bury(flow, Instant::now() + self.options.tombstone_time) {
                self.let_pass(&mut held, &oldest);
            }
            self.filter.hold(&flow, self.options.tombstone_time).map_err(|error| filter_refusal(&error))?;
            held.counts.discarded += 1;
        }
        self.guarded().let_go(&[flow]);
        self.begun.notify_one();
        repair::discard(fd)?;
        Ok(Reply::Done)
    }

    fn hold(&self, flow: Flow, epoch: u64) -> Result<Reply, Refusal> {
        let flow = flow.canonical();
        self.check_service(flow.service)?;
        let mut held = self.held();
        self.check_epoch(&mut held, epoch)?;
        self.begin(&mut held, flow, Held::Expected)?;
        Ok(Reply::Done)
    }

    fn renew(&self, flow: &Flow) -> Result<Reply, Refusal> {
        let time = self.options.hold_time;
        let mut held = self.held();
        // The list first: what it does not hold, the filter must not hold for longer.
        held.renew(flow, Instant::now() + time)?;
        self.filter.renew(flow, time).map_err(|error| filter_refusal(&error))?;
        Ok(Reply::Done)
    }

    fn release(&self, flow: &Flow) -> Result<Reply, Refusal> {
        let mut held = self.held();
        match held.get(flow) {
            // Its server asks for it to be thawed or discarded; a tombstone ends by itself.
            Some(Held::Frozen { .. }) => return Err(Refusal::Busy(*flow)),
            Some(Held::Orphaned | Held::Tombstone) | None => {}
            Some(Held::Expected | Held::Inherited | Held::Restored { .. }) => {
                self.end(&mut held, flow);
            }
        }
        Ok(Reply::Done)
    }

    fn restore(&self, tcp: &TcpState, unread: &[u8], sent: &[u8], epoch: u64) -> Result<OwnedFd, Refusal> {
        let flow = tcp.flow().canonical();
        self.check_service(flow.service)?;
        {
            let mut held = self.held();
            self.check_epoch(&mut held, epoch)?;
            self.begin(&mut held, flow, Held::Expected)?;
        }
        let tcp = TcpState { local: flow.service, peer: flow.client, ..tcp.clone() };
        let restored = repair::restore(&tcp, unread, sent, self.options.mark)?;
        let own = restored.socket.try_clone().map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::EMFILE);
            Refusal::Repair(repair::RepairError::System { step: repair::Step::Open, errno })
        })?;
        let until = Instant::now() + self.options.hold_time;
        self.held().restored(flow, own, restored.unsent, until)?;
        Ok(restored.socket)
    }

    fn activate(&self, fd: BorrowedFd<'_>) -> Result<Reply, Refusal> {
        let flow = self.flow_of(fd)?;
        repair::require_frozen(fd)?;
        let unsent = {
            let mut held = self.held();
            if !matches!(held.get(&flow), Some(Held::Restored { .. })) {
                return Err(Refusal::HoldIsOver(flow));
            }
            held.counts.activated += 1;
            match held.remove(&flow) {
                Some(Held::Restored { unsent, .. }) => unsent,
                _ => Vec::new(),
            }
        };
        repair::activate(fd, &unsent, || self.let_pass(&mut self.held(), &flow))?;
        Ok(Reply::Done)
    }

    /// Begins a hold in the list and in the filter.
    fn begin(&self, held: &mut HeldFlows, flow: Flow, why: Held) -> Result<(), Refusal> {
        let time = self.options.hold_time;
        held.begin(flow, why, Instant::now() + time)?;
        if let Err(error) = self.filter.hold(&flow, time) {
            held.remove(&flow);
            return Err(filter_refusal(&error));
        }
        self.begun.notify_one();
        Ok(())
    }

    fn end(&self, held: &mut HeldFlows, flow: &Flow) -> Option<Heard> {
        held.remove(flow);
        self.let_pass(held, flow)
    }

    /// Ends a hold in the filter, where it ends by itself if that should fail.
    fn let_pass(&self, held: &mut HeldFlows, flow: &Flow) -> Option<Heard> {
        match self.filter.release(flow) {
            Ok(dropped) => {
                held.counts.dropped_packets += dropped.packets;
                dropped.heard
            }
            Err(error) => {
                tracing::warn!("a hold is not released: {error}");
                None
            }
        }
    }

    fn sweep(&self) {
        loop {
            let held = self.held();
            let mut held = self.begun.wait_while(held, |held| held.is_empty()).unwrap_or_else(PoisonError::into_inner);
            for flow in held.expire(Instant::now()) {
                self.let_pass(&mut held, &flow);
            }
            drop(held);
            std::thread::sleep(SWEEP);
        }
    }

    fn held(&self) -> MutexGuard<'_, HeldFlows> {
        // Each change is whole before the next one begins.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guarded(&self) -> MutexGuard<'_, Guarded> {
        // As above.
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection of a descriptor, if it is one of a service.
    fn flow_of(&self, fd: BorrowedFd<'_>) -> Result<Flow, Refusal> {
        let (local, peer) = socket_calls::ends(fd).map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::EOPNOTSUPP);
            repair::RepairError::System { step: repair::Step::Read, errno }
        })?;
        let flow = Flow { client: peer, service: local }.canonical();
        self.check_service(flow.service).map(|()| flow)
    }

    /// The keeper makes no sockets for other addresses than its services'.
    fn check_service(&self, service: SocketAddr) -> Result<(), Refusal> {
        if self.options.services.contains(&service) { Ok(()) } else { Err(Refusal::NotAService(service)) }
    }
}

fn not_guarded(why: NotGuarded, server: u64) -> Refusal {
    match why {
        NotGuarded::UnknownServer => Refusal::UnknownServer(server),
        NotGuarded::Full(bound) => Refusal::GuardedFull(bound),
    }
}

/// Waits until the process of a descriptor has ended, with all of its threads (pidfd_open(2)).
fn wait_for_end(process: BorrowedFd<'_>) {
    let mut polled = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: the structure lives over the call, which fills it.
        let ready = unsafe { libc::poll(&raw mut polled, 1, -1) };
        // An interrupted call is the only other answer: the arguments are right.
        if ready > 0 {
            return;
        }
    }
}

fn filter_refusal(error: &FilterError) -> Refusal {
    Refusal::Filter(error.to_string())
}

/// The user of the process at the other end, as the kernel noted it when that connected.
fn uid_of(client: &Socket) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the kernel writes at most `bytes` to the structure, which is that long and lives through the call.
    let told = unsafe { libc::getsockopt(client.as_raw_fd(), level, option, (&raw mut peer).cast(), &raw mut bytes) };
    (told == 0).then_some(peer.uid)
}
