//! What the loops of a run share, and what each is given.

use crate::checks::Keeps;
use crate::counts::answered::Answered;
use crate::counts::slices::Slices;
use crate::directed::director::Directed;
use crate::options::call::Grpc;
use crate::options::means::Means;
use crate::options::settings::{Io, Options};
use crate::plan::chooser::Chooser;
use crate::plan::followed::Followed;
use crate::plan::host::{Host, Hosts};
use crate::plan::table::Table;
use crate::reach::Select;
use crate::schedule::arrivals::{Arrivals, Part};
use crate::sessions::session::{Session, Sessions};
use crate::workload::mix::Mix;
use crate::{Form, LoadError, Observer, Protocol, SlowClient, Sockets, Statuses, Streaming};
use std::time::Duration;
use weir_wire::Producer;

/// Descriptors that the process needs beside the connections'.
const OTHER_FILES: u64 = 64;

/// The constant side of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) requests: Table,
    /// What is looked at of responses beside their status, if anything is.
    pub(crate) followed: Option<Followed>,
    /// Whether a whole response has more to it than to be counted: it is looked at, or cookies and files are.
    pub(crate) has_more: bool,
    /// Whether the bytes of responses are wanted, by observers or for checks.
    pub(crate) is_watched: bool,
    pub(crate) sessions: Option<Sessions>,
    /// Users whose steps are computed, in place of sessions.
    pub(crate) users: Option<Mix>,
    /// How many source addresses connections come from.
    pub(crate) sources: usize,
    pub(crate) pipeline: u32,
    /// Whether receptions and transmissions go through io_uring.
    pub(crate) ring: RingWish,
    pub(crate) timeout_ns: u64,
    /// Which statuses count as success.
    pub(crate) expected: Statuses,
    pub(crate) slow: SlowClient,
    /// The seed of the traces that requests say that they are of, if they do.
    pub(crate) traces: Option<u64>,
    /// Whether connections that are done with are closed by this side.
    pub(crate) hang_up: bool,
    /// How long a connection may take to be made.
    pub(crate) connect_timeout_ns: u64,
    /// Whether a director decides what is asked.
    pub(crate) directed: bool,
    /// How answers that come bit by bit are looked at, if they are.
    pub(crate) streaming: Option<Streaming>,
    /// What calls of gRPC send, if those are made.
    pub(crate) grpc: Option<Grpc>,
    pub(crate) sockets: Sockets,
    /// Which of a host's addresses connections go to.
    pub(crate) select: Select,
    /// Where the requests go; one at least.
    pub(crate) hosts: Hosts,
}

/// Whether bytes go through io_uring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RingWish {
    Never,
    /// If the kernel has it, until long responses come.
    WhereCheaper,
    /// Always; the run is not made where the kernel has none.
    Only,
}

/// One loop's part of the connections, requests and arrivals.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) lane: u32,
    /// How many loops there are.
    pub(crate) lanes: u32,
    pub(crate) connections: u32,
    /// The most requests.
    pub(crate) limit: u64,
    pub(crate) queue: usize,
    /// When nothing more is begun.
    pub(crate) end_ns: u64,
    pub(crate) arrivals: Option<Arrivals>,
    pub(crate) chooser: Chooser,
    pub(crate) events: Option<Producer>,
    pub(crate) observer: Option<Box<dyn Observer>>,
    pub(crate) directed: Option<Directed>,
    pub(crate) slices: Slices,
}

impl Plan {
    /// How many different sessions there are.
    pub(crate) fn session_count(&self) -> usize {
        self.sessions.as_ref().map_or(0, |sessions| sessions.list.len())
    }

    /// A session of the list; only asked for where there are some.
    pub(crate) fn session(&self, place: u32) -> &Session {
        static NONE: Session = Session::new();
        self.sessions.as_ref().map_or(&NONE, |sessions| &sessions.list[place as usize])
    }

    /// Whether a whole response is a success.
    #[inline]
    pub(crate) fn is_success(&self, answered: Answered) -> bool {
        self.expected.contains(answered.status()) && answered.is_fit()
    }

    /// What an event is of an answer with these lines of its head.
    pub(crate) fn form_of(&self, head: &[u8]) -> Form {
        let named = |line: &&[u8]| line.get(..13).is_some_and(|name| name.eq_ignore_ascii_case(b"content-type:"));
        let told = || head.split(|byte| *byte == b'\n').find(named).map_or(&[][..], |line| &line[13..]);
        self.streaming.and_then(|streaming| streaming.form).unwrap_or_else(|| Form::of(told()))
    }

    /// What is kept of responses.
    pub(crate) fn keeps(&self) -> Keeps {
        let keeps = self.followed.as_ref().map_or_else(Keeps::default, |followed| followed.keeps);
        // The head says what an event is.
        Keeps { head: keeps.head || self.streaming.is_some(), ..keeps }
    }

    /// Checks the options, resolves the host and builds the bytes.
    pub(crate) fn new(options: &Options) -> Result<Self, LoadError> {
        options.check()?;
        let urls = match options.requests.hosts() {
            none if none.is_empty() => vec![&options.url],
            hosts => hosts,
        };
        let closed_slowly = options.protocol != Protocol::Http1 && !options.keep_alive;
        let lingering = match options.threads {
            _ if !closed_slowly => lingering_max(options.connections, true),
            threads => threads * lingering_max(options.connections.div_ceil(threads), false),
        };
        let ways = options.directed.as_ref().and_then(|directed| directed.ways.clone());
        raise_open_files(options.connections, lingering, urls.len())?;
        let requests = Table::new(options)?;
        let encrypted = urls.iter().any(|url| url.encrypted);
        let followed = Followed::new(options);
        let keeps_any = followed.as_ref().is_some_and(|followed| followed.keeps.any());
        // What checks take must not be in the times of other connections' responses, which a ring brings at one time.
        let suits = options.directed.is_none()
            && options.checks.is_empty()
            && options.streaming.is_none()
            && options.requests.are_ready_made(options.pipeline)
            && requests.entries.iter().all(|entry| entry.keep_alive);
        let means = Means::of(options);
        let hosts = match ways {
            Some(ways) => Hosts::found(&ways, means)?,
            None => Hosts::Listed(urls.into_iter().map(|url| Host::new(&means, url)).collect::<Result<_, _>>()?),
        };
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
        Ok(Self {
            has_more: requests.is_composed
                || followed.is_some()
                || options.streaming.is_some()
                || options.grpc.is_some(),
            is_watched: keeps_any
                || options.streaming.is_some()
                || options.grpc.is_some()
                || !options.observers.is_empty(),
            requests,
            followed,
            sessions: options.requests.sessions.clone(),
            users: options.requests.mix.clone().filter(Mix::has_users),
            sources: options.reach.sources.len(),
            ring: match options.io {
                Io::Uring => RingWish::Only,
                Io::Auto if suits && !encrypted && !options.slow.is_slow() => RingWish::WhereCheaper,
                Io::Auto | Io::Epoll => RingWish::Never,
            },
            pipeline: options.pipeline,
            slow: options.slow,
            traces: options.requests.traces,
            timeout_ns: ns(options.timeout),
            expected: options.expected.clone(),
            connect_timeout_ns: ns(options.sockets.connect_timeout.unwrap_or(options.timeout)),
            directed: options.directed.is_some(),
            streaming: options.streaming,
            grpc: options.grpc.clone(),
            sockets: options.sockets.clone(),
            hang_up: options.hang_up,
            select: options.reach.select,
            hosts,
        })
    }
}

/// Divides the options among the loops; all begin at `start_ns`, and each has its end of `slices`.
///
/// Where several workers share the run, the loops are numbered over all of them; connections and queue were divided
/// before.
pub(crate) fn shares(options: &mut Options, start_ns: u64, worker: Part, slices: Vec<Slices>) -> Vec<Share> {
    let lanes = options.threads;
    let part = |whole: u64, lane: u32| {
        let (lane, lanes) = (u64::from(lane), u64::from(lanes));
        whole / lanes + u64::from(lane < whole % lanes)
    };
    let mut rings = std::mem::take(&mut options.events).into_iter();
    let mut observers = std::mem::take(&mut options.observers).into_iter();
    (0..lanes)
        .zip(slices)
        .map(|(lane, slices)| {
            let limit = options.stop.requests().map_or(u64::MAX, |requests| worker.of(part(requests, lane)));
            let time_ns = options.stop.time().map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            let end_ns = time_ns.map_or(u64::MAX, |time_ns| start_ns.saturating_add(time_ns));
            // Unlike any other's of the run: seeds of what is drawn differ by it.
            let number = worker.worker * lanes + lane;
            let in_all = lanes * worker.workers;
            Share {
                lane: number,
                lanes: in_all,
                connections: part(u64::from(options.connections), lane) as u32,
                limit,
                queue: part(options.queue as u64, lane) as usize,
                end_ns,
                arrivals: Arrivals::of_part(&options.schedule, start_ns, (lane, lanes), worker),
                chooser: Chooser::new(&options.requests, number, in_all),
                events: rings.next(),
                observer: observers.next(),
                directed: options.directed.take(),
                slices,
            }
        })
        .collect()
}

/// How many connections may wait for the server to close them, beside so many that are open: as many again, as a rule,
/// since it closes them with its response.
///
/// Over HTTP/2 it learns only behind its response that it may, which takes it a turn more: without keep-alive there is
/// room for more where few are open.
pub(crate) fn lingering_max(connections: u32, keep_alive: bool) -> u32 {
    connections.max(if keep_alive { 0 } else { 64 }).min(1024)
}

/// Raises the limit on open files to what the connections need.
fn raise_open_files(connections: u32, lingering: u32, hosts: usize) -> Result<(), LoadError> {
    let needed = u64::from(connections) * hosts as u64 + u64::from(lingering) + OTHER_FILES;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the result.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 || limit.rlim_cur >= needed {
        return Ok(());
    }
    if limit.rlim_max < needed {
        return Err(LoadError::OpenFiles { connections, needed, limit: limit.rlim_max });
    }
    limit.rlim_cur = needed;
    // SAFETY: `limit` outlives the call. It stays within the hard limit, so it is allowed; if not, connections that
    // cannot be opened are counted as such.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    Ok(())
}
