//! Connections and their bytes, with sequence numbers that wrap and addresses that come again.

use super::engine::{Happening, Tid, Want, World};
use super::server::Step;
use std::collections::VecDeque;
use std::net::SocketAddr;
use weir_wire::Kind;
use weir_wire::client::ClientConnection;
use weir_wire::socket::{END_OF_STREAM, NOT_ACCEPTED, SocketOpen};

/// A socket of the server's host.
#[derive(Debug, Clone, Copy)]
pub struct Socket {
    pub id: u32,
    pub receive_base: u32,
    pub send_base: u32,
}

/// A request and what became of it.
#[derive(Debug, Clone)]
pub struct Request {
    pub connection: usize,
    pub offset: u64,
    pub bytes: u64,
    pub response_offset: u64,
    pub response_bytes: u64,
    pub intended: u64,
    pub started: u64,
    pub sent: u64,
    pub done: u64,
    pub first_byte: u64,
    pub opened: bool,
    /// What the server has to do for it.
    pub steps: Vec<Step>,
    pub arrived: u64,
    pub not_accepted: bool,
    pub picked: u64,
    pub picker: Tid,
    pub answered: u64,
    pub answerer: Tid,
    /// When a thread handed it to the one that answered.
    pub handed: Option<u64>,
    /// Times at which a peer was asked and at which its answer was taken.
    pub asked: Vec<(u64, u64)>,
}

/// A client's connection.
#[derive(Debug)]
pub struct Connection {
    pub socket: Socket,
    pub local: SocketAddr,
    pub connect_start: u64,
    pub connected: u64,
    pub arrived: u64,
    pub taken: u64,
    pub sent: u64,
    pub accepted: bool,
    /// The client's end of stream has come.
    pub closed: bool,
    /// The server has closed it.
    pub ended: bool,
    /// The poller knows that something waits on it.
    pub queued: bool,
    /// The task that waits for it or has it; `None` while the poller watches it.
    pub owner: Option<Tid>,
    /// Requests that are not yet taken.
    pub coming: VecDeque<usize>,
    /// Requests that are taken and not yet begun.
    pub taken_up: VecDeque<usize>,
    pub client_arrived: u64,
    pub client_taken: u64,
}

#[derive(Default)]
pub struct Network {
    pub connections: Vec<Connection>,
    pub requests: Vec<Request>,
    pub backlog: VecDeque<usize>,
    cookies: u64,
}

pub fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 80))
}

impl World {
    pub fn new_socket(&mut self) -> (Socket, u64) {
        if self.network.cookies == 0 {
            // The short id is the cookie's low half: let it wrap in some worlds.
            self.network.cookies = if self.plan.chance(50) { (1 << 33) - 3 } else { 1 << 32 };
        }
        self.network.cookies += 1;
        // Id 0 stands for a socket without a cookie; one in four billion has it nevertheless.
        self.network.cookies += u64::from(self.network.cookies as u32 == 0);
        // Both streams wrap within a few requests in half of the worlds.
        let mut base = || {
            if self.plan.chance(50) {
                0u32.wrapping_sub(self.plan.between(1, 3000) as u32)
            } else {
                self.plan.choice.next_u64() as u32
            }
        };
        let (receive_base, send_base) = (base(), base());
        let cookie = self.network.cookies;
        (Socket { id: cookie as u32, receive_base, send_base }, cookie)
    }

    /// The client calls connect.
    pub fn connect(&mut self) -> usize {
        // The lowest free port: an address pair comes again as soon as its connection has closed.
        let in_use = |port: &u16| self.network.connections.iter().any(|open| open.local.port() == *port && !open.ended);
        let port = (40_000..).find(|port| !in_use(port)).expect("fewer connections than ports");
        let local = SocketAddr::from(([10, 0, 0, 2], port));
        let number = self.network.connections.len();
        self.network.connections.push(Connection {
            socket: Socket { id: 0, receive_base: 0, send_base: 0 },
            local,
            connect_start: self.now,
            connected: 0,
            arrived: 0,
            taken: 0,
            sent: 0,
            accepted: false,
            closed: false,
            ended: false,
            queued: false,
            owner: None,
            coming: VecDeque::new(),
            taken_up: VecDeque::new(),
            client_arrived: 0,
            client_taken: 0,
        });
        let delay = self.plan.between(2_000, 30_000);
        self.after(delay, Happening::ServerEstablished { connection: number });
        number
    }

    pub fn established(&mut self, number: usize) {
        let (socket, cookie) = self.new_socket();
        self.network.connections[number].socket = socket;
        let open = SocketOpen {
            socket: socket.id,
            receive_base: socket.receive_base,
            send_base: socket.send_base,
            cookie,
            netns: 1,
            local: server_address(),
            remote: self.network.connections[number].local,
        };
        let (record, slots) = open.write(self.now, 0);
        self.events.push((record, slots.to_vec()));
        self.network.backlog.push_back(number);
        let delay = self.plan.between(1_000, 20_000);
        self.after(delay, Happening::ClientEstablished { connection: number });
        self.connection_waits(number);
    }

    pub fn connected(&mut self, number: usize) {
        self.network.connections[number].connected = self.now;
        let connection = &self.network.connections[number];
        let told = ClientConnection {
            connection: number as u64,
            connect_start_ns: connection.connect_start,
            connected_ns: self.now,
            failed: false,
            local: connection.local,
            remote: server_address(),
        };
        let (record, slots) = told.write(0);
        self.events.push((record, slots.to_vec()));
        self.client.established.push_back(number);
        let client = self.client.task;
        self.wake(client, Want::Client, None);
    }

    /// Bytes of the client reach the server's socket.
    pub fn arrival(&mut self, number: usize, position: u64) {
        let connection = &mut self.network.connections[number];
        connection.arrived = position;
        let (socket, not_accepted, owner) = (connection.socket, !connection.accepted, connection.owner);
        let lane = self.plan.choice.below(u64::from(self.plan.cpus)) as u32;
        let flags = if not_accepted { NOT_ACCEPTED } else { 0 };
        for request in &mut self.network.requests {
            if request.connection == number && request.arrived == 0 && position > request.offset {
                (request.arrived, request.not_accepted) = (self.now, not_accepted);
            }
        }
        self.emit_socket(lane, Kind::SocketReady, flags, socket, socket.receive_base.wrapping_add(position as u32));
        if !not_accepted {
            self.data_waits(number, owner);
        }
    }

    /// The running task takes all that has arrived; returns the bytes, 0 at the end of the stream.
    pub fn receive(&mut self, number: usize, me: Tid) -> u64 {
        let connection = &mut self.network.connections[number];
        let bytes = connection.arrived - connection.taken;
        connection.taken = connection.arrived;
        let (socket, taken) = (connection.socket, connection.taken);
        let lane = self.lane(me);
        let flags = if bytes == 0 { END_OF_STREAM } else { 0 };
        self.turn(me, Some(number));
        self.emit_socket(lane, Kind::SocketRecv, flags, socket, socket.receive_base.wrapping_add(taken as u32));
        let (mut at, coming) = (0, self.network.connections[number].coming.clone());
        for request in coming {
            let told = &mut self.network.requests[request];
            if told.offset >= taken {
                break;
            }
            if told.picked == 0 {
                (told.picked, told.picker) = (self.now, me);
            }
            if told.offset + told.bytes <= taken {
                at += 1;
            }
        }
        for _ in 0..at {
            let connection = &mut self.network.connections[number];
            let whole = connection.coming.pop_front().expect("counted above");
            connection.taken_up.push_back(whole);
        }
        bytes
    }

    /// The running task gives bytes of a response.
    pub fn send(&mut self, number: usize, me: Tid, bytes: u64) {
        let connection = &mut self.network.connections[number];
        connection.sent += bytes;
        let (socket, position) = (connection.socket, connection.sent);
        let lane = self.lane(me);
        self.emit_socket(lane, Kind::SocketSend, 0, socket, socket.send_base.wrapping_add(position as u32));
        let delay = self.plan.between(500, 15_000);
        self.after(delay, Happening::Response { connection: number, position });
    }

    pub fn response(&mut self, number: usize, position: u64) {
        let connection = &mut self.network.connections[number];
        // Segments may overtake each other in this network; the stream does not run back.
        connection.client_arrived = connection.client_arrived.max(position);
        if !self.client.readable.contains(&number) {
            self.client.readable.push_back(number);
        }
        let client = self.client.task;
        self.wake(client, Want::Client, None);
    }

    /// The client's end of stream reaches the server.
    pub fn closed(&mut self, number: usize) {
        let connection = &mut self.network.connections[number];
        connection.closed = true;
        let owner = connection.owner;
        if connection.accepted {
            self.data_waits(number, owner);
        }
    }
}
