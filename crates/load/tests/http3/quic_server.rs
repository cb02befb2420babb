//! A server of HTTP/3 as tests want it: QUIC by quinn-proto, frames as the test says, one thread.
// Each test binary uses its own part of this.
#![allow(dead_code)]

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ServerConfig, StreamEvent,
    StreamId, TransportConfig, VarInt,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::{BTreeSet, HashMap};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_testkit::Certificate;

/// A request that is all there.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// 0 for the first connection.
    pub(crate) connection: usize,
    pub(crate) stream: u64,
    /// Everything that came on its stream.
    pub(crate) bytes: Vec<u8>,
}

/// What is done about a request.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// These bytes on its stream.
    Send(Vec<u8>),
    Finish,
    Reset(u64),
    /// Its body is not wanted.
    Stop(u64),
    /// The connection ends with this code.
    Close(u64),
    /// These bytes on the control stream.
    Control(Vec<u8>),
    /// These bytes on a stream of the server's own.
    Own(Vec<u8>),
}

/// What a server does.
pub(crate) struct Setup {
    /// Streams that it lets a client have at a time.
    pub(crate) streams: u32,
    /// Bytes that it takes of a stream ahead.
    pub(crate) window: u32,
    /// Bytes of its control stream behind the type.
    pub(crate) settings: Vec<u8>,
    /// Whether it takes 0-RTT on the connection of this number.
    pub(crate) takes_early: fn(usize) -> bool,
    /// Whether it answers before a request is all there.
    pub(crate) at_once: bool,
    /// The protocols that it speaks.
    pub(crate) alpn: Vec<u8>,
    /// It refuses every connection.
    pub(crate) refuses: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            streams: 100,
            window: 1 << 20,
            settings: vec![4, 0],
            takes_early: |_| false,
            at_once: false,
            alpn: b"h3".to_vec(),
            refuses: false,
        }
    }
}

/// What a server saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    /// Where its clients' datagrams came from.
    pub(crate) ports: BTreeSet<u16>,
    /// How clients ended connections, in words.
    pub(crate) ends: Vec<String>,
    /// The codes by which clients said that they want no more of a response.
    pub(crate) stopped: Vec<u64>,
}

/// A running server; it ends with the value.
pub(crate) struct QuicServer {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: Certificate,
    pub(crate) seen: Arc<Mutex<Seen>>,
    over: Arc<AtomicBool>,
}

impl QuicServer {
    pub(crate) fn start(setup: Setup, answer: impl FnMut(&Asked) -> Vec<Act> + Send + 'static) -> Self {
        let certificate = Certificate::self_signed().expect("a certificate");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("its address");
        // A stalling server's datagrams wait there.
        let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(8 << 20);
        let (seen, over) = (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicBool::new(false)));
        // Both know the same sessions.
        let (late, tls) = config(&certificate, &setup, false, None);
        let early = config(&certificate, &setup, true, Some(tls.session_storage)).0;
        let mut running = Running {
            socket,
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::clone(&late)), true, None),
            configs: [late, early],
            connections: HashMap::new(),
            setup,
            answer: Box::new(answer),
            seen: Arc::clone(&seen),
        };
        let end = Arc::clone(&over);
        std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                running.turn();
            }
        });
        Self { address, certificate, seen, over }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.address.port())
    }
}

impl Drop for QuicServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

type Sessions = Arc<dyn rustls::server::StoresServerSessions>;

fn config(
    certificate: &Certificate,
    setup: &Setup,
    takes_early: bool,
    sessions: Option<Sessions>,
) -> (Arc<ServerConfig>, rustls::ServerConfig) {
    let chain = CertificateDer::pem_file_iter(certificate.certificate()).expect("it is there");
    let chain = chain.collect::<Result<Vec<_>, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_file(certificate.key()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3");
    let mut tls = builder.with_no_client_auth().with_single_cert(chain, key).expect("they fit");
    tls.alpn_protocols = vec![setup.alpn.clone()];
    tls.max_early_data_size = if takes_early { u32::MAX } else { 0 };
    if let Some(sessions) = sessions {
        tls.session_storage = sessions;
    }
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(setup.streams.into())
        .stream_receive_window(setup.window.into())
        .max_idle_timeout(None);
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls.clone()).expect("a suite")));
    config.transport_config(Arc::new(transport));
    (Arc::new(config), tls)
}

/// A connection with what its streams have brought so far.
struct Peer {
    quic: Connection,
    number: usize,
    control: Option<StreamId>,
    requests: HashMap<StreamId, Vec<u8>>,
    /// What there was no room for yet, and whether the stream ends behind it.
    unsent: HashMap<StreamId, (Vec<u8>, bool)>,
}

/// What a test does about each request.
type Answer = Box<dyn FnMut(&Asked) -> Vec<Act> + Send>;

struct Running {
    socket: UdpSocket,
    endpoint: Endpoint,
    /// Without and with 0-RTT.
    configs: [Arc<ServerConfig>; 2],
    connections: HashMap<ConnectionHandle, Peer>,
    setup: Setup,
    answer: Answer,
    seen: Arc<Mutex<Seen>>,
}

impl Running {
    /// Waits for a datagram or for the time of a connection, and does what follows from it.
    fn turn(&mut self) {
        let timers = self.connections.values_mut().filter_map(|peer| peer.quic.poll_timeout());
        let wait = timers.min().map_or(Duration::from_millis(20), |at| at.saturating_duration_since(Instant::now()));
        let wait = wait.clamp(Duration::from_micros(100), Duration::from_millis(20));
        self.socket.set_read_timeout(Some(wait)).expect("a socket");
        let mut buffer = [0; 65_536];
        let mut wait_is_over = false;
        while let Ok((bytes, from)) = self.socket.recv_from(&mut buffer) {
            self.take_in(&buffer[..bytes], from);
            if !wait_is_over {
                self.socket.set_nonblocking(true).expect("a socket");
                wait_is_over = true;
            }
        }
        if wait_is_over {
            self.socket.set_nonblocking(false).expect("a socket");
        }
        let now = Instant::now();
        let handles: Vec<_> = self.connections.keys().copied().collect();
        for handle in handles {
            self.serve(handle, now);
        }
    }

    fn take_in(&mut self, bytes: &[u8], from: SocketAddr) {
        self.seen.lock().expect("no panic").ports.insert(from.port());
        let (now, mut out) = (Instant::now(), Vec::new());
        match self.endpoint.handle(now, from, None, None, BytesMut::from(bytes), &mut out) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(peer) = self.connections.get_mut(&handle) {
                    peer.quic.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.setup.refuses => {
                let transmit = self.endpoint.refuse(incoming, &mut out);
                let _ = self.socket.send_to(&out[..transmit.size], transmit.destination);
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let number = self.seen.lock().expect("no panic").connections;
                let config = Arc::clone(&self.configs[usize::from((self.setup.takes_early)(number))]);
                match self.endpoint.accept(incoming, now, &mut out, Some(config)) {
                    Ok((handle, quic)) => {
                        let (requests, unsent) = (HashMap::new(), HashMap::new());
                        self.connections.insert(handle, Peer { quic, number, control: None, requests, unsent });
                        self.seen.lock().expect("no panic").connections += 1;
                    }
                    Err(error) => {
                        if let Some(transmit) = error.response {
                            let _ = self.socket.send_to(&out[..transmit.size], transmit.destination);
                        }
                    }
                }
            }
            Some(DatagramEvent::Response(transmit)) => {
                let _ = self.socket.send_to(&out[..transmit.size], transmit.destination);
            }
            None => {}
        }
    }

    fn serve(&mut self, handle: ConnectionHandle, now: Instant) {
        let Some(mut peer) = self.connections.remove(&handle) else { return };
        if peer.quic.poll_timeout().is_some_and(|at| at <= now) {
            peer.quic.handle_timeout(now);
        }
        let mut asked = Vec::new();
        loop {
            while let Some(event) = peer.quic.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(handle, event) {
                    peer.quic.handle_event(event);
                }
            }
            let Some(event) = peer.quic.poll() else { break };
            match event {
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(stream) = peer.quic.streams().accept(dir) {
                        peer.read(stream, &mut asked, self.setup.at_once);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => peer.read(id, &mut asked, self.setup.at_once),
                Event::Stream(StreamEvent::Writable { id }) => peer.send(id, &[], false),
                Event::Stream(StreamEvent::Stopped { error_code, .. }) => {
                    self.seen.lock().expect("no panic").stopped.push(error_code.into_inner());
                }
                Event::ConnectionLost { reason } => {
                    self.seen.lock().expect("no panic").ends.push(reason.to_string());
                }
                _ => {}
            }
        }
        if peer.control.is_none() && !peer.quic.is_closed() {
            peer.control = peer.quic.streams().open(Dir::Uni);
            let settings = [&[0], self.setup.settings.as_slice()].concat();
            if let Some(control) = peer.control {
                peer.send(control, &settings, false);
            }
        }
        for (stream, bytes) in asked {
            self.seen.lock().expect("no panic").requests += 1;
            let acts = (self.answer)(&Asked { connection: peer.number, stream: stream.into(), bytes });
            acts.into_iter().for_each(|act| peer.act(stream, act));
            self.flush(&mut peer);
        }
        self.flush(&mut peer);
        if !peer.quic.is_drained() {
            self.connections.insert(handle, peer);
        }
    }

    fn flush(&self, peer: &mut Peer) {
        let mut out = Vec::new();
        while let Some(transmit) = peer.quic.poll_transmit(Instant::now(), 1, &mut out) {
            let _ = self.socket.send_to(&out[..transmit.size], transmit.destination);
            out.clear();
        }
    }
}

impl Peer {
    /// Reads what has come of a stream; a request that is all there is asked.
    fn read(&mut self, stream: StreamId, asked: &mut Vec<(StreamId, Vec<u8>)>, at_once: bool) {
        let mut receive = self.quic.recv_stream(stream);
        let Ok(mut chunks) = receive.read(true) else { return };
        let known = self.requests.entry(stream).or_default();
        let is_new = known.is_empty();
        let ended = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => known.extend_from_slice(&chunk.bytes),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        let _ = chunks.finalize();
        if stream.dir() == Dir::Bi && (ended && !at_once || at_once && is_new) {
            asked.push((stream, known.clone()));
        }
    }

    fn act(&mut self, stream: StreamId, act: Act) {
        let code = |code| VarInt::from_u64(code).expect("a code");
        match act {
            Act::Send(bytes) => self.send(stream, &bytes, false),
            Act::Finish => self.send(stream, &[], true),
            Act::Reset(number) => drop(self.quic.send_stream(stream).reset(code(number))),
            Act::Stop(number) => drop(self.quic.recv_stream(stream).stop(code(number))),
            Act::Close(number) => self.quic.close(Instant::now(), code(number), Bytes::new()),
            Act::Control(bytes) => {
                if let Some(control) = self.control {
                    self.send(control, &bytes, false);
                }
            }
            Act::Own(bytes) => {
                if let Some(own) = self.quic.streams().open(Dir::Uni) {
                    self.send(own, &bytes, false);
                }
            }
        }
    }

    /// Sends on a stream, behind what waits for room there.
    fn send(&mut self, stream: StreamId, bytes: &[u8], ends: bool) {
        let (mut waiting, ended) = self.unsent.remove(&stream).unwrap_or_default();
        waiting.extend_from_slice(bytes);
        let ends = ends || ended;
        let mut send = self.quic.send_stream(stream);
        while !waiting.is_empty() {
            match send.write(&waiting) {
                Ok(taken) => drop(waiting.drain(..taken)),
                Err(_) => break,
            }
        }
        if waiting.is_empty() && ends {
            let _ = send.finish();
        } else if !waiting.is_empty() {
            self.unsent.insert(stream, (waiting, ends));
        }
    }
}

/// A frame of HTTP/3 with less than 16 KiB in it.
pub(crate) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16 | 0x4000).to_be_bytes();
    [&[kind], &length[..], payload].concat()
}

/// A whole response of status 200.
pub(crate) fn ok(content: &[u8]) -> Vec<Act> {
    let mut bytes = frame(1, b"\0\0\xd9");
    content.chunks(10_000).for_each(|piece| bytes.extend(frame(0, piece)));
    vec![Act::Send(bytes), Act::Finish]
}
