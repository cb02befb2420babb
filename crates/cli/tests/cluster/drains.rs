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
    let (begun, before) = (Instant::now(), usage(&stand));
    let drain = std::thread::scope(|scope| {
        let drain = scope.spawn(|| stand::weir(&["cluster", "drain", &n1, "--within", "600s"], None));
        while !drain.is_finished() {
            downloads.iter_mut().for_each(|download| assert!(!download.read(200).expect("it goes on")));
            std::thread::sleep(Duration::from_millis(200));
        }
        drain.join().expect("no panic")
    });
    let took = begun.elapsed();
    eprintln!("the drain: {}", drain.trim_end());
    assert!(drain.starts_with(&format!("{count} sessions moved")) && drain.contains(" 0 left"), "{drain}");
    eprintln!("with the command's start and end {took:.2?}; {}", shown(&before, &usage(&stand)));
    assert_eq!((stand.connected(1), stand.connected(2)), (0, count));
    let deadline = Instant::now() + 10 * PATIENCE;
    while !downloads.is_empty() {
        assert!(Instant::now() < deadline, "{} do not end", downloads.len());
        downloads.retain_mut(|download| !download.read(16 << 10).expect("it goes on"));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a process has used.
#[derive(Clone)]
struct Usage {
    name: String,
    memory_mib: u64,
    cpu_ms: u64,
}

/// What the nodes' processes and the director have used.
fn usage(stand: &Stand) -> Vec<Usage> {
    let of = |process: u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let resident = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        let memory_mib = resident.split_whitespace().nth(1)?.parse::<u64>().ok()? >> 10;
        let arguments = std::fs::read_to_string(format!("/proc/{process}/cmdline")).ok()?;
        let name = arguments.split('\0').skip(1).take(2).collect::<Vec<_>>().join(" ");
        // Behind the name, which may hold anything: the times of the process are the 12th and the 13th, in 10 ms.
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let times = stat.rsplit(')').next()?.split_whitespace().skip(11).take(2);
        let cpu_ms = times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10;
        Some(Usage { name, memory_mib, cpu_ms })
    };
    let nodes = (1..=2).flat_map(|node| stand.processes_of(node));
    nodes.chain([stand.director_process()]).filter_map(of).collect()
}

/// What was used since then.
fn shown(before: &[Usage], after: &[Usage]) -> String {
    let one = |(before, after): (&Usage, &Usage)| {
        format!("{} {} MiB, {} ms CPU", after.name, after.memory_mib, after.cpu_ms - before.cpu_ms)
    };
    before.iter().zip(after).map(one).collect::<Vec<_>>().join("; ")
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
