//! Connections of other services are none of a run's business, though they are older than the recording; the server's
//! own to what it asks are.
// scripts/test: serves

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;
use weir_capture::{Probes, Recorder, Target};
use weir_testkit::require;
use weir_trace::{Limits, Run, RunReader};
use weir_wire::socket::{OLDER, SocketOpen};

/// Connects to a database, waits to be told, and asks something.
const SERVER: &str = r#"
exec 3<>/dev/tcp/127.0.0.1/$0
echo ready
read line
echo question >&3
echo asked
read line
"#;

#[test]
fn only_the_servers_own_older_connections_are_told() {
    if require::socket_tracepoints().is_none() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let stranger = TcpStream::connect(address).expect("a connection of another service");
    let (mut strangers_end, _) = listener.accept().expect("its other end");
    let mut server = Command::new("bash")
        .args(["-c", SERVER, &address.port().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("bash starts");
    let mut said = BufReader::new(server.stdout.take().expect("it is piped")).lines();
    let mut tell = server.stdin.take().expect("it is piped");
    assert_eq!(said.next().expect("it says").expect("text"), "ready");
    let (database, own) = listener.accept().expect("the server's connection");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = Run::create(folder.path()).expect("a run");
    let target = Target::of_pid(server.id()).expect("it waits");
    let recorder = Recorder::start(Probes::load().expect("probes"), &target, &run, Limits::default());
    let recorder = recorder.expect("a recording");
    std::thread::sleep(Duration::from_millis(100));
    strangers_end.write_all(b"not the server's").expect("it is sent");
    tell.write_all(b"ask\n").expect("it listens");
    assert_eq!(said.next().expect("it says").expect("text"), "asked");
    std::thread::sleep(Duration::from_millis(100));
    recorder.finish(Vec::new()).expect("a whole run");
    drop(tell);
    server.wait().expect("it ends");
    let (mut told, mut sent) = (Vec::new(), None);
    RunReader::open(folder.path()).expect("the run").merge().each(|sourced| {
        if let Some(open) = SocketOpen::read(&sourced.record, sourced.payload) {
            told.push((open.local, open.remote, sourced.record.flags, open.socket));
        }
        let (socket, _) = sourced.record.a_halves();
        if sourced.record.kind == weir_wire::Kind::SocketSend as u16 && sent.is_none() {
            sent = Some((socket, told.iter().any(|(.., known)| *known == socket)));
        }
        true
    });
    let of = |port: u16| told.iter().filter(move |(local, remote, ..)| local.port() == port || remote.port() == port);
    let strangers_port = stranger.local_addr().expect("its address").port();
    assert_eq!(of(strangers_port).count(), 0, "{told:?}");
    let [(local, remote, flags, socket)] = of(own.port()).collect::<Vec<_>>()[..] else {
        panic!("the server's connection is told once: {told:?}");
    };
    assert_eq!((*local, *remote, *flags), (own, address, OLDER));
    assert_eq!(sent, Some((*socket, true)), "before what the server does there");
    drop((stranger, database));
}
