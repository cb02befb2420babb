//! What comes and goes over sockets of users.

use crate::behaviour::{Counting, SocketNews, SocketOrder};
use crate::metrics::Builtin;
use crate::run::director::{Phase, Runner};
use crate::run::flow::Told;
use crate::run::plan::LINKS_OF_A_USER;
use crate::run::scripts::monotonic_ns;
use crate::run::sockets::opening::{GOING_AWAY, SocketAt};
use crate::run::sockets::socket::{Came, SocketStage};
use crate::run::timers::Timer;
use crate::run::user::{Busy, Doing};
use std::sync::Arc;
use weir_load::directed::Orders;
use weir_load::websocket::frames::{Opcode, Outgoing, write, write_message};

/// How long a server may take to answer a close frame, in nanoseconds.
const CLOSING_NS: u64 = 10_000_000_000;

fn mask() -> [u8; 4] {
    fastrand::u32(..).to_ne_bytes()
}

/// The content of a close frame.
fn close_content(code: u16, reason: &str) -> Vec<u8> {
    // Of a control frame at most 125 bytes (RFC 6455 5.5).
    let end = (0..=reason.len().min(123)).rev().find(|at| reason.is_char_boundary(*at)).unwrap_or(0);
    [&code.to_be_bytes()[..], &reason.as_bytes()[..end]].concat()
}

impl Runner {
    /// A user has one of its sockets do something; what is not open does nothing.
    pub(crate) fn order_socket(&mut self, user: u32, order: SocketOrder, now_ns: u64, orders: &mut Orders) {
        match order {
            SocketOrder::Open { socket, opening } => self.open_socket(user, socket, *opening, orders),
            SocketOrder::Send { socket, is_binary, content } => {
                let mut bytes = Vec::with_capacity(content.len() + 14);
                let message = Outgoing { is_binary, content: &content, fragment_bytes: usize::MAX };
                write_message(&mut bytes, message, mask);
                if self.send_frames(user, socket, &bytes, orders) {
                    self.count_message(user, socket, Builtin::WsMsgsSent);
                }
            }
            SocketOrder::Ping { socket, mut content } => {
                content.truncate(125);
                let mut bytes = Vec::new();
                write(&mut bytes, Opcode::Ping, true, mask(), &content);
                if self.send_frames(user, socket, &bytes, orders)
                    && let Some(own) = self.users[user as usize].sockets.find(socket)
                {
                    own.pinged(content, now_ns);
                    self.count_frame(user, socket);
                }
            }
            SocketOrder::Close { socket, code, reason } => {
                self.count_frame(user, socket);
                self.say_close(user, socket, &close_content(code, &reason), orders);
            }
        }
    }

    /// Says that this side sends nothing more; one that is not open yet is given up.
    fn say_close(&mut self, user: u32, id: u32, content: &[u8], orders: &mut Orders) {
        let Some(socket) = self.users[user as usize].sockets.find(id) else { return };
        match socket.stage {
            SocketStage::Closing(_) => {}
            SocketStage::Sought | SocketStage::Opening(_) => {
                let news = SocketNews::Closed { code: None, reason: String::new(), wrong: None };
                self.close_socket(user, id, news, orders);
            }
            SocketStage::Open(link) => {
                let mut bytes = Vec::new();
                write(&mut bytes, Opcode::Close, true, mask(), content);
                self.send_frames(user, id, &bytes, orders);
                let until_ns = monotonic_ns() + CLOSING_NS;
                if let Some(socket) = self.users[user as usize].sockets.find(id) {
                    (socket.stage, socket.deadline_ns) = (SocketStage::Closing(link), until_ns);
                }
                self.timers.push(until_ns, Timer::Socket { user, socket: id });
            }
        }
    }

    /// Sends frames over a socket, if it is open.
    fn send_frames(&mut self, user: u32, id: u32, bytes: &[u8], orders: &mut Orders) -> bool {
        let Some(socket) = self.users[user as usize].sockets.find(id) else { return false };
        let SocketStage::Open(link) = socket.stage else { return false };
        orders.raw(user * LINKS_OF_A_USER + link, bytes);
        self.metrics.lock().count(Builtin::DataSent, bytes.len() as f64, &socket.tags);
        true
    }

    fn count_message(&mut self, user: u32, id: u32, metric: Builtin) {
        if let Some(socket) = self.users[user as usize].sockets.find(id) {
            self.metrics.lock().count(metric, 1.0, &socket.tags);
        }
    }

    /// Counts a frame of control that a user sends over a socket, where these are counted.
    fn count_frame(&mut self, user: u32, id: u32) {
        let own = self.users[user as usize].sockets.find(id);
        if own.is_some_and(|socket| socket.counting == Counting::Frames && socket.was_open()) {
            self.count_message(user, id, Builtin::WsMsgsSent);
        }
    }

    /// Bytes came over a link that has switched.
    pub(crate) fn socket_came(&mut self, link: u32, bytes: &[u8], orders: &mut Orders) {
        let (user, place) = (link / LINKS_OF_A_USER, link % LINKS_OF_A_USER);
        let own = &mut self.users[user as usize];
        let Some(Busy::Socket(id)) = own.links.get(place as usize).map(|link| link.busy) else { return };
        let are_full = own.sockets.are_full();
        let Some(socket) = own.sockets.find(id) else { return };
        let tags = Arc::clone(&socket.tags);
        self.metrics.lock().count(Builtin::DataReceived, bytes.len() as f64, &tags);
        let mut came = Vec::new();
        let taken = socket.take(bytes, &mut came);
        for one in came {
            self.on_frame(SocketAt { user, socket: id, link: place }, one, orders);
        }
        let wrong = match taken {
            Err(malformed) => Some((malformed.code, malformed.what.to_owned())),
            Ok(()) if are_full => {
                Some((GOING_AWAY, "too much came while the script did not listen: it was closed".to_owned()))
            }
            Ok(()) => None,
        };
        if let Some((code, words)) = wrong {
            self.say_close(user, id, &close_content(code, ""), orders);
            let news = SocketNews::Closed { code: None, reason: String::new(), wrong: Some(words) };
            self.close_socket(user, id, news, orders);
        }
        self.tell_heard(user, orders);
    }

    fn on_frame(&mut self, at: SocketAt, came: Came, orders: &mut Orders) {
        let Some(socket) = self.users[at.user as usize].sockets.find(at.socket) else { return };
        let news = match came {
            Came::Message { is_binary, content } => {
                self.count_message(at.user, at.socket, Builtin::WsMsgsReceived);
                SocketNews::Message { is_binary, content }
            }
            Came::Ping(content) => {
                let mut bytes = Vec::new();
                write(&mut bytes, Opcode::Pong, true, mask(), content.content());
                self.send_frames(at.user, at.socket, &bytes, orders);
                SocketNews::Ping
            }
            Came::Pong(content) => {
                if let Some(sent_ns) = socket.ponged(content.content()) {
                    let took_ns = monotonic_ns().saturating_sub(sent_ns);
                    self.metrics.lock().count(Builtin::WsPing, took_ns as f64 / 1e6, &socket.tags);
                }
                SocketNews::Pong
            }
            Came::Close { code, reason } => {
                let content = code.map(|code| close_content(code, "")).unwrap_or_default();
                self.say_close(at.user, at.socket, &content, orders);
                let news = SocketNews::Closed { code, reason, wrong: None };
                return self.close_socket(at.user, at.socket, news, orders);
            }
        };
        self.users[at.user as usize].sockets.hear(at.socket, news);
    }

    /// A socket is closed, and is none any more.
    pub(crate) fn close_socket(&mut self, user: u32, id: u32, news: SocketNews, orders: &mut Orders) {
        let Some(socket) = self.users[user as usize].sockets.remove(id) else { return };
        if let Some(link) = socket.link() {
            self.free_link(SocketAt { user, socket: id, link }, orders);
        }
        if socket.was_open() {
            let took_ns = monotonic_ns().saturating_sub(socket.begun_ns);
            self.metrics.lock().count(Builtin::WsSessionDuration, took_ns as f64 / 1e6, &socket.tags);
        }
        self.users[user as usize].sockets.hear(id, news);
    }

    /// The iteration of a user is over, and with it its sockets.
    pub(crate) fn end_sockets(&mut self, user: u32, orders: &mut Orders) {
        for socket in self.users[user as usize].sockets.end() {
            let Some(link) = socket.link() else { continue };
            let at = SocketAt { user, socket: socket.id, link };
            if matches!(socket.stage, SocketStage::Open(_)) {
                let mut bytes = Vec::new();
                write(&mut bytes, Opcode::Close, true, mask(), &close_content(GOING_AWAY, ""));
                orders.raw(at.order(), &bytes);
            }
            if socket.was_open() {
                let took_ns = monotonic_ns().saturating_sub(socket.begun_ns);
                self.metrics.lock().count(Builtin::WsSessionDuration, took_ns as f64 / 1e6, &socket.tags);
            }
            self.free_link(at, orders);
        }
    }

    /// Tells a user what happened to its sockets, if it listens.
    pub(crate) fn tell_heard(&mut self, user: u32, orders: &mut Orders) {
        let own = &mut self.users[user as usize];
        if !matches!(own.doing, Doing::Listens) || !own.sockets.has_news() || self.phase == Phase::Over {
            return;
        }
        own.doing = Doing::Works;
        own.epoch = own.epoch.wrapping_add(1);
        let news = own.sockets.take_news();
        self.resume(user, Told::Heard(news), orders);
    }
}
