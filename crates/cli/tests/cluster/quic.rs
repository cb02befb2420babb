//! Clients of HTTP/3 stay with their node by the ids of their connections, and leave one that is drained.

use crate::stand::{PATIENCE, SERVICE, Stand, wait_for, weir};
use crate::upstream::{UPSTREAM, Upstream, so_many_events};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weir_testkit::require;

/// A client that asks over one connection from port after port, as behind a router that forgets, and makes another
/// connection once it is told to go.
const CLIENT: &str = r#"
import asyncio, contextlib, ssl, sys
from aioquic.buffer import Buffer, BufferReadError
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection, FrameType
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import StreamDataReceived

class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http, self.waiting, self.told = H3Connection(self._quic), {}, asyncio.Event()
        self.control = b""

    def listen(self, data):
        # aioquic passes over GOAWAY. The server opens its control stream first.
        self.control += data
        buffer = Buffer(data=self.control)
        with contextlib.suppress(BufferReadError):
            buffer.pull_uint_var()
            while not buffer.eof():
                kind, _ = buffer.pull_uint_var(), buffer.pull_bytes(buffer.pull_uint_var())
                if kind == FrameType.GOAWAY:
                    self.told.set()

    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived) and event.stream_id == 3:
            self.listen(event.data)
        for got in self.http.handle_event(event):
            body, done = self.waiting[got.stream_id]
            if isinstance(got, DataReceived):
                body.extend(got.data)
            if got.stream_ended and not done.done():
                done.set_result(bytes(body))

    async def get(self, path):
        stream = self._quic.get_next_available_stream_id()
        done = asyncio.get_running_loop().create_future()
        self.waiting[stream] = (bytearray(), done)
        fields = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", path)]
        self.http.send_headers(stream, [(n.encode(), v.encode()) for n, v in fields], end_stream=True)
        self.transmit()
        return await asyncio.wait_for(done, 20)

async def ask(host, path):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE)
    async with connect(host, 443, configuration=configuration, create_protocol=Client) as client:
        sys.stdout.buffer.write(await client.get(path))

async def main(host):
    loop = asyncio.get_running_loop()
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE)
    async with connect(host, 443, configuration=configuration, create_protocol=Client) as client:
        assert await client.get("/first.txt") == b"hello"
        # Each port is another one to the director.
        for _ in range(8):
            await loop.create_datagram_endpoint(lambda: client, local_addr=("::ffff:10.79.0.2", 0))
            assert await client.get("/moved.txt") == b"hello"
        print("moved", flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)
        await asyncio.wait_for(client.told.wait(), 20)
        await asyncio.wait_for(client.wait_closed(), 20)
        print("left", flush=True)
    async with connect(host, 443, configuration=configuration, create_protocol=Client) as client:
        assert await client.get("/second.txt") == b"hello"
    print("done", flush=True)

asyncio.run(ask(*sys.argv[1:]) if len(sys.argv) > 2 else main(sys.argv[1]))
"#;

/// The node that has logged so many requests of this path.
fn logged(stand: &Stand, path: &str, count: usize) -> usize {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        if let Some(node) = [1, 2].into_iter().find(|node| stand.logged(*node, path) == count) {
            return node;
        }
        let by_node = [1, 2].map(|node| stand.logged(node, path));
        assert!(std::time::Instant::now() < deadline, "{path}: {by_node:?} of {count}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

fn client(stand: &Stand, python: &Path) -> Child {
    let mut command = Command::new(python);
    command.args(["-c", CLIENT, SERVICE]).stdin(Stdio::piped()).stdout(Stdio::piped());
    stand.client.within(move || command.spawn().expect("python starts"))
}

#[test]
fn http3_goes_by_the_ids_of_connections_and_leaves_a_drained_node() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let Some(python) = require::aioquic() else { return };
    let files: Vec<(&str, &[u8])> =
        ["first.txt", "moved.txt", "second.txt"].iter().map(|name| (*name, &b"hello"[..])).collect();
    let stand = Stand::quic(&files);
    let mut client = client(&stand, &python);
    let mut lines = BufReader::new(client.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().map(|line| line.expect("is text"));
    assert_eq!(next().as_deref(), Some("moved"), "a request from another port was lost");
    let node = logged(&stand, "/first.txt", 1);
    assert_eq!(logged(&stand, "/moved.txt", 8), node, "all came to the node of the connection");
    let folder = stand.path(&format!("n{node}"));
    weir(&["cluster", "drain", folder.to_str().expect("is text"), "--within", "5s"], None);
    writeln!(client.stdin.take().expect("piped"), "drained").expect("it reads");
    assert_eq!(next().as_deref(), Some("left"), "GOAWAY, and the end of the connection");
    assert_eq!(next().as_deref(), Some("done"));
    let deadline = std::time::Instant::now() + PATIENCE;
    while client.try_wait().expect("is ours").is_none() {
        assert!(std::time::Instant::now() < deadline, "it does not end");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(logged(&stand, "/second.txt", 1), 3 - node, "the next connection goes to the other node");
    let figures = stand.director_metrics("127.0.0.1:9100");
    assert!(figures.contains("weir_cluster_quic_packets_total"), "{figures}");
}

#[test]
fn a_drain_waits_for_requests_over_http3_and_counts_what_is_left() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let Some(python) = require::aioquic() else { return };
    let configuration =
        format!("[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/up\"\nproxy = \"http://{UPSTREAM}\"\n");
    let stand = Stand::quic_configured(&configuration);
    let upstream = Upstream::start(&stand.client);
    let folder = |node: usize| stand.path(&format!("n{node}")).to_str().expect("is text").to_owned();
    let (n1, n2) = (folder(1), folder(2));
    // It goes to the first node.
    weir(&["cluster", "drain", &n2], None);
    wait_for(&stand.path("director.log"), "node n2 is drained");
    let mut command = Command::new(python);
    command.args(["-c", CLIENT, SERVICE, "/up/800"]).stdout(Stdio::piped());
    let client = stand.client.within(move || command.spawn().expect("python starts"));
    let deadline = std::time::Instant::now() + PATIENCE;
    while upstream.asked() == 0 {
        assert!(std::time::Instant::now() < deadline, "the upstream is not asked");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    weir(&["cluster", "drain", &n2, "--undo"], None);
    let drain = ["cluster", "drain", &n1, "--within", "300ms"];
    let drained = Command::new(env!("CARGO_BIN_EXE_weir")).args(drain).output().expect("weir starts");
    let told = String::from_utf8_lossy(&drained.stdout).into_owned();
    assert!(!drained.status.success(), "{told}");
    assert!(told.contains("1  connection of HTTP/3 has requests under way"), "{told}");
    let mut figures = String::new();
    while !figures.contains("weir_cluster_draining_http3 1\n") {
        assert!(std::time::Instant::now() < deadline, "{figures}");
        figures = stand.metrics(1);
    }
    let told = weir(&["cluster", "drain", &n1, "--within", "30s"], None);
    assert!(told.contains(" 0 left") && !told.contains("HTTP/3"), "{told}");
    let output = client.wait_with_output().expect("is ours");
    assert!(
        output.status.success() && output.stdout == so_many_events(800).as_bytes(),
        "{} bytes",
        output.stdout.len()
    );
}

/// Asks over one connection, with the ticket of a file if it is there, and keeps the one that it gets.
const RESUMING: &str = r#"
import asyncio, os, pickle, ssl, sys
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.quic.configuration import QuicConfiguration

async def main(host, kept):
    tickets, configuration = [], QuicConfiguration(is_client=True, alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE)
    if os.path.exists(kept):
        with open(kept, "rb") as file:
            configuration.session_ticket = pickle.load(file)
    async with connect(host, 443, configuration=configuration, session_ticket_handler=tickets.append) as client:
        await client.ping()
        for _ in range(100):
            if tickets:
                break
            await asyncio.sleep(0.02)
        print("resumed" if client._quic.tls.session_resumed else "new")
    with open(kept, "wb") as file:
        pickle.dump(tickets[-1], file)

asyncio.run(main(*sys.argv[1:]))
"#;

/// How a connection of a node's own machine began: `new` or `resumed`, by the ticket of a file.
fn begins(stand: &Stand, python: &Path, node: usize, kept: &Path) -> String {
    let mut command = Command::new(python);
    command.args(["-c", RESUMING, SERVICE]).arg(kept);
    let output = stand.nodes[node - 1].within(move || command.output().expect("python starts"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn a_session_over_quic_is_resumed_at_another_node_that_shares_its_keys() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let Some(python) = require::aioquic() else { return };
    let stand = Stand::keyed_quic(&[("a.txt", b"hello")]);
    let deadline = std::time::Instant::now() + PATIENCE;
    // Until the nodes have told each other their keys.
    for round in 0.. {
        let kept = stand.path(&format!("ticket{round}"));
        assert_eq!(begins(&stand, &python, 1, &kept), "new");
        if begins(&stand, &python, 2, &kept) == "resumed" {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "no ticket of node 1 is read by node 2");
    }
    // Without the option it is resumed at its own node alone: what is above is not by chance.
    let stand = Stand::quic(&[("a.txt", b"hello")]);
    let kept = stand.path("ticket");
    assert_eq!(begins(&stand, &python, 1, &kept), "new");
    assert_eq!(begins(&stand, &python, 1, &kept), "resumed");
    assert_eq!(begins(&stand, &python, 2, &kept), "new");
}
