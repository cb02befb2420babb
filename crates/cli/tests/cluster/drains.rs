//! A node with many slow downloads is drained: 200 in each run of the tests, 5,000 by `make soak-drain`.

use crate::stand::{self, PATIENCE, SERVICE, Stand};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Downloads, in place of a few.
const DOWNLOADS: &str = "WEIR_SOAK_DRAIN";
const FEW: usize = 200;
/// A client that reads little leaves the rest of this with the server.
const CONTENT_BYTES: usize = 256 << 10;
/// Connections that each address of the client makes.
const PER_ADDRESS: usize = 2_000;

fn byte(at: usize) -> u8 {
    ((at as u32).wrapping_mul(2_654_435_761) >> 24) as u8
}

/// A download, of which bytes are checked as they come.
struct Download {
    socket: TcpStream,
    head: Vec<u8>,
    body: usize,
}

impl Download {
    fn begin(from: IpAddr) -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(4096).expect("sets");
        socket.bind(&SocketAddr::new(from, 0).into()).expect("binds");
        let service: SocketAddr = format!("{SERVICE}:80").parse().expect("an address");
        socket.connect(&service.into()).expect("connects");
        let mut socket = TcpStream::from(socket);
        write!(socket, "GET /slow.bin HTTP/1.1\r\nHost: {SERVICE}\r\nConnection: close\r\n\r\n").expect("sends");
        socket.set_nonblocking(true).expect("sets");
        Self { socket, head: Vec::new(), body: 0 }
    }

    /// Reads at most so many bytes; whether it is over.
    fn read(&mut self, most: usize) -> Result<bool, String> {
        let mut buffer = [0; 16 << 10];
        let most = most.min(buffer.len());
        let read = match self.socket.read(&mut buffer[..most]) {
            Ok(0) if self.body == CONTENT_BYTES => return Ok(true),
            Ok(0) => return Err(format!("it ended after {} bytes", self.body)),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(format!("{error} after {} bytes", self.body)),
        };
        let mut bytes = &buffer[..read];
        while !self.head.ends_with(b"\r\n\r\n") {
            let Some((first, rest)) = bytes.split_first() else { return Ok(false) };
            self.head.push(*first);
            bytes = rest;
        }
        for come in bytes {
            if *come != byte(self.body) {
                return Err(format!("byte {} is another one", self.body));
            }
            self.body += 1;
        }
        Ok(false)
    }
}

#[test]
fn a_node_with_many_slow_downloads_is_drained_without_an_error() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let count = std::env::var(DOWNLOADS).map_or(FEW, |count| count.parse().expect("WEIR_SOAK_DRAIN is a number"));
    allow_descriptors(count + 1_000);
    let content: Vec<u8> = (0..CONTENT_BYTES).map(byte).collect();
    let stand = Stand::new(2, &[("slow.bin", &content)]);
    let addresses = stand.more_clients(count.div_ceil(PER_ADDRESS) as u8);
    let [n1, n2] = [1, 2].map(|node| stand.path(&format!("n{node}")).to_str().expect("is text").to_owned());
    // All of them go to the first node.
    stand::weir(&["cluster", "drain", &n2], None);
    stand::wait_for(&stand.path("director.log"), "node n2 is drained");
    let begun = Instant::now();
    let mut downloads: Vec<Download> =
        stand.client.within(|| (0..count).map(|number| Download::begin(addresses[number / PER_ADDRESS])).collect());
    stand::weir(&["cluster", "drain", &n2, "--undo"], None);
    let deadline = Instant::now() + 4 * PATIENCE;
    while downloads.iter().any(|download| download.body == 0) {
        assert!(Instant::now() < deadline, "they do not begin");
        downloads.iter_mut().for_each(|download| assert!(!download.read(1_000).expect("it goes on")));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(stand.connected(1), count);
    eprintln!("{count} downloads have begun in {:.1?}", begun.elapsed());
    let begun = Instant::now();
    let drain = std::thread::scope(|scope| {
        let drain = scope.spawn(|| stand::weir(&["cluster", "drain", &n1, "--within", "120s"], None));
        while !drain.is_finished() {
            downloads.iter_mut().for_each(|download| assert!(!download.read(200).expect("it goes on")));
            std::thread::sleep(Duration::from_millis(200));
        }
        drain.join().expect("no panic")
    });
    let took = begun.elapsed();
    eprintln!("the drain: {}", drain.trim_end());
    assert!(drain.starts_with(&format!("{count} sessions moved")) && drain.contains(" 0 left"), "{drain}");
    eprintln!("as the client of the command sees it: {took:.2?}; memory of the nodes: {}", memory(&stand));
    assert_eq!((stand.connected(1), stand.connected(2)), (0, count));
    let deadline = Instant::now() + 10 * PATIENCE;
    while !downloads.is_empty() {
        assert!(Instant::now() < deadline, "{} do not end", downloads.len());
        downloads.retain_mut(|download| !download.read(16 << 10).expect("it goes on"));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Resident memory of the nodes' processes, in MiB.
fn memory(stand: &Stand) -> String {
    let of = |process: u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let value = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            Some(line.split_whitespace().nth(1)?.to_owned())
        };
        let mib = value("VmRSS:")?.parse::<u64>().ok()? >> 10;
        Some(format!("{} {mib} MiB", value("Name:")?))
    };
    let all: Vec<String> = (1..=2).flat_map(|node| stand.processes_of(node)).filter_map(of).collect();
    all.join(", ")
}

/// Lets this process have so many descriptors.
fn allow_descriptors(wanted: usize) {
    let wanted = wanted as libc::rlim_t;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the calls fill and read the structure, which lives over them.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        assert!(limit.rlim_max >= wanted, "the hard limit of descriptors is below {wanted}");
        limit.rlim_cur = limit.rlim_cur.max(wanted);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
}
