//! How sockets of users are opened, and how they end.

use crate::behaviour::{Answer, AnsweredBy, Counting, SocketNews, SocketOpening, Tags, Timings, User};
use crate::metrics::Builtin;
use crate::run::director::Runner;
use crate::run::incoming::{Over, parts};
use crate::run::outgoing;
use crate::run::plan::{LINKS_OF_A_USER, TIMEOUT_MAX};
use crate::run::scripts::monotonic_ns;
use crate::run::sockets::socket::{MESSAGE_BYTES_MAX, Socket, SocketStage};
use crate::run::timers::Timer;
use crate::run::user::{Busy, LinkState, Room};
use crate::run::words::words_of;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use weir_load::Outcome;
use weir_load::directed::{Orders, Way, Ways};
use weir_load::websocket::frames::Reader;
use weir_load::websocket::handshake::{accept, check, key_text};

/// How often it is seen whether a name has been looked up, in nanoseconds.
const NAMES_NS: u64 = 500_000;
/// The code by which a user goes that does not say why (RFC 6455 7.4.1).
pub(crate) const GOING_AWAY: u16 = 1001;

/// A socket of a user, and the link that carries it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketAt {
    pub(crate) user: u32,
    pub(crate) socket: u32,
    pub(crate) link: u32,
}

impl SocketAt {
    /// The number of the link among those of all users.
    pub(crate) fn order(self) -> u32 {
        self.user * LINKS_OF_A_USER + self.link
    }
}

impl Runner {
    /// A user wants another socket.
    pub(crate) fn open_socket(&mut self, user: u32, id: u32, opening: SocketOpening, orders: &mut Orders) {
        let now_ns = monotonic_ns();
        let SocketOpening { mut ask, protocols, counting } = opening;
        let key = key_text(std::array::from_fn(|_| fastrand::u8(..)));
        let mut add = |name: &str, value: &str| ask.headers.push((name.to_owned(), value.to_owned()));
        add("Connection", "Upgrade");
        add("Upgrade", "websocket");
        add("Sec-WebSocket-Version", "13");
        add("Sec-WebSocket-Key", &key);
        if !protocols.is_empty() {
            add("Sec-WebSocket-Protocol", &protocols.join(", "));
        }
        let deadline_ns = now_ns.saturating_add(ask.timeout.min(TIMEOUT_MAX).as_nanos() as u64);
        let tags = self.tags_of_socket(user, &ask.tags, &[]);
        let socket = Socket {
            id,
            stage: SocketStage::Sought,
            ask,
            protocols,
            counting,
            accept: accept(&key),
            begun_ns: now_ns,
            deadline_ns,
            tags,
            reader: Reader::new(MESSAGE_BYTES_MAX),
            message: Vec::new(),
            pings: VecDeque::new(),
        };
        self.users[user as usize].sockets.add(socket);
        self.timers.push(deadline_ns, Timer::Socket { user, socket: id });
        self.place_socket(user, id, now_ns, orders);
    }

    /// Finds a link for a socket whose server is known by now, and asks that to switch.
    fn place_socket(&mut self, user: u32, id: u32, now_ns: u64, orders: &mut Orders) {
        let own = &mut self.users[user as usize];
        let jar = own.jar.clone();
        let Some(socket) = own.sockets.find(id) else { return };
        let server = match self.ways.find(&socket.ask.url, socket.ask.at) {
            Way::Known(server) => server,
            Way::Sought => return self.timers.push(now_ns + NAMES_NS, Timer::Socket { user, socket: id }),
            Way::None(words) => return self.not_opened(user, id, None, words),
        };
        let bytes = match outgoing::bytes(&socket.ask, &jar) {
            Ok(bytes) => bytes,
            Err(words) => return self.not_opened(user, id, None, words),
        };
        let tags = Arc::clone(&socket.tags);
        let link = match own.take_socket_link(server, id) {
            Room::Link(link) => link,
            Room::Instead(link) => {
                orders.close(user * LINKS_OF_A_USER + link);
                link
            }
            Room::None => {
                let words =
                    format!("a user has at most {LINKS_OF_A_USER} connections at a time: close a socket before");
                return self.not_opened(user, id, None, words);
            }
        };
        if let Some(socket) = own.sockets.find(id) {
            socket.stage = SocketStage::Opening(link);
        }
        self.metrics.lock().count(Builtin::DataSent, bytes.len() as f64, &tags);
        orders.upgrade(user * LINKS_OF_A_USER + link, Ways::request(server, false), &bytes);
    }

    /// A socket may have taken too long to open, or to close, or its server's name may be known by now.
    pub(crate) fn look_at_socket(&mut self, user: u32, id: u32, now_ns: u64, orders: &mut Orders) {
        let Some(socket) = self.users[user as usize].sockets.find(id) else { return };
        match (socket.stage, now_ns >= socket.deadline_ns) {
            (SocketStage::Sought, false) => self.place_socket(user, id, now_ns, orders),
            (SocketStage::Sought, true) => {
                self.not_opened(user, id, None, words_of(Outcome::ConnectTimedOut).to_owned());
            }
            (SocketStage::Opening(link), true) => {
                self.free_link(SocketAt { user, socket: id, link }, orders);
                self.not_opened(user, id, None, words_of(Outcome::TimedOut).to_owned());
            }
            (SocketStage::Closing(_), true) => {
                self.close_socket(
                    user,
                    id,
                    SocketNews::Closed { code: None, reason: String::new(), wrong: None },
                    orders,
                );
            }
            (SocketStage::Opening(_) | SocketStage::Open(_) | SocketStage::Closing(_), _) => {}
        }
        self.tell_heard(user, orders);
    }

    /// A server answered the wish to switch.
    pub(crate) fn socket_answered(&mut self, at: SocketAt, over: Over, orders: &mut Orders) {
        let own = &mut self.users[at.user as usize];
        let Some(socket) = own.sockets.find(at.socket) else { return orders.close(at.order()) };
        let checked = check(&over.raw.bytes, socket.accept, &socket.protocols);
        let parts = parts(&over.raw, false, true);
        let status = over.request.status;
        let answer = Box::new(Answer {
            by: AnsweredBy::Status(status),
            url: socket.ask.url.clone(),
            method: socket.ask.method.clone(),
            headers: parts.headers,
            body: parts.body,
            is_cut: parts.is_cut,
            timings: Timings::default(),
            latency_ns: over.request.done_ns.saturating_sub(socket.begun_ns),
            sent_bytes: u64::from(over.request.request_bytes),
            received_bytes: over.request.response_bytes,
            redirects: Vec::new(),
            is_expected: status == 101,
        });
        let own_tags = Arc::clone(&socket.ask.tags);
        self.watch.lock().give_back(over.raw.bytes);
        let agreed = checked.as_ref().ok().and_then(Option::as_deref).unwrap_or_default();
        let more = [("status", status.to_string()), ("subproto", agreed.to_owned())];
        let tags = self.tags_of_socket(at.user, &own_tags, &more);
        self.metrics.lock().count(Builtin::DataReceived, answer.received_bytes as f64, &tags);
        let own = &mut self.users[at.user as usize];
        let Some(socket) = own.sockets.find(at.socket) else { return };
        socket.tags = tags;
        match checked {
            Ok(protocol) => {
                socket.stage = SocketStage::Open(at.link);
                own.links[at.link as usize].busy = Busy::Socket(at.socket);
                self.count_opening(at.user, at.socket);
                self.users[at.user as usize].sockets.hear(at.socket, SocketNews::Opened { answer, protocol });
            }
            Err(refused) => {
                self.free_link(at, orders);
                self.not_opened(at.user, at.socket, Some(answer), refused.to_string());
            }
        }
        self.tell_heard(at.user, orders);
    }

    /// The connection of a socket ended.
    pub(crate) fn socket_ended(&mut self, at: SocketAt, outcome: Outcome, orders: &mut Orders) {
        self.free_link(at, orders);
        let words = words_of(outcome).to_owned();
        match self.users[at.user as usize].sockets.find(at.socket).map(|socket| socket.stage) {
            None => return,
            Some(SocketStage::Sought | SocketStage::Opening(_)) => self.not_opened(at.user, at.socket, None, words),
            Some(SocketStage::Open(_)) => {
                let wrong = Some(match outcome {
                    Outcome::Closed => "the server closed the connection without a close frame (1006)".to_owned(),
                    Outcome::TimedOut => "the server reads less than is sent: more than 16 MiB wait for it".to_owned(),
                    _ => words,
                });
                let news = SocketNews::Closed { code: None, reason: String::new(), wrong };
                self.close_socket(at.user, at.socket, news, orders);
            }
            Some(SocketStage::Closing(_)) => {
                let news = SocketNews::Closed { code: None, reason: String::new(), wrong: None };
                self.close_socket(at.user, at.socket, news, orders);
            }
        }
        self.tell_heard(at.user, orders);
    }

    /// A socket is not open, and is none any more.
    fn not_opened(&mut self, user: u32, id: u32, answer: Option<Box<Answer>>, words: String) {
        self.count_opening(user, id);
        let own = &mut self.users[user as usize].sockets;
        if let Some(socket) = own.remove(id).filter(|socket| socket.counting == Counting::Messages) {
            let took_ns = monotonic_ns().saturating_sub(socket.begun_ns);
            self.metrics.lock().count(Builtin::WsSessionDuration, took_ns as f64 / 1e6, &socket.tags);
        }
        let own = &mut self.users[user as usize].sockets;
        own.hear(id, SocketNews::NotOpened { answer, words });
    }

    /// Counts that a socket was to be opened, and how long that took.
    fn count_opening(&mut self, user: u32, id: u32) {
        let Some(socket) = self.users[user as usize].sockets.find(id) else { return };
        let took_ns = monotonic_ns().saturating_sub(socket.begun_ns);
        let mut metrics = self.metrics.lock();
        metrics.count(Builtin::WsSessions, 1.0, &socket.tags);
        metrics.count(Builtin::WsConnecting, took_ns as f64 / 1e6, &socket.tags);
    }

    /// The link of a socket carries nothing any more.
    pub(crate) fn free_link(&mut self, at: SocketAt, orders: &mut Orders) {
        if let Some(link) = self.users[at.user as usize].links.get_mut(at.link as usize) {
            *link = LinkState::default();
            orders.close(at.order());
        }
    }

    /// What all values of a socket are told apart by.
    fn tags_of_socket(&self, user: u32, own: &Tags, more: &[(&str, String)]) -> Tags {
        let mut all: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
        if let User::Of { scenario, .. } = self.users[user as usize].whose {
            all.extend(self.plan.scenarios[scenario].tags.iter().cloned());
        }
        all.extend(more.iter().map(|(name, value)| ((*name).into(), value.as_str().into())));
        all.extend(own.iter().cloned());
        all.into_iter().collect()
    }
}
