//! The socket of a front at which DNS is answered.

use super::pair::lock;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_cluster::{NameAnswer, ServiceName};

/// How soon the thread hears that it is to end.
const LOOK: Duration = Duration::from_millis(200);
/// Larger questions are cut, and then dropped.
const QUESTION_BYTES: usize = 1 << 10;

/// What became of the questions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NameCounts {
    pub(super) told: u64,
    pub(super) refused: u64,
    /// No questions, and answers that could not be sent.
    pub(super) dropped: u64,
}

#[derive(Debug, Default)]
struct Counting {
    told: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
}

/// Answers at a socket until it is ended.
pub(super) struct Names {
    service: Arc<Mutex<ServiceName>>,
    counting: Arc<Counting>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Names {
    pub(super) fn start(at: SocketAddr, service: ServiceName) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind(at)?;
        socket.set_read_timeout(Some(LOOK))?;
        let service = Arc::new(Mutex::new(service));
        let (counting, ends) = (Arc::<Counting>::default(), Arc::<AtomicBool>::default());
        let of_thread = (Arc::clone(&service), Arc::clone(&counting), Arc::clone(&ends));
        let answer = move || answer(&socket, &of_thread.0, &of_thread.1, &of_thread.2);
        let thread = std::thread::Builder::new().name("weir-front-dns".to_owned()).spawn(answer)?;
        Ok(Self { service, counting, ends, thread })
    }

    pub(super) fn set_nodes(&self, nodes: &[(IpAddr, u16)]) {
        lock(&self.service).set_nodes(nodes);
    }

    pub(super) fn end(self) -> NameCounts {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counting { told, refused, dropped } = &*self.counting;
        NameCounts { told: count(told), refused: count(refused), dropped: count(dropped) }
    }
}

fn answer(socket: &UdpSocket, service: &Mutex<ServiceName>, counting: &Counting, ends: &AtomicBool) {
    let mut question = [0; QUESTION_BYTES];
    // Two fronts that start at different moments draw differently.
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut draw = u64::from(since_1970.subsec_nanos());
    while !ends.load(Ordering::Relaxed) {
        let (length, client) = match socket.recv_from(&mut question) {
            Ok(received) => received,
            // An error of an earlier answer is told here as well: the client is gone.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) => {
                continue;
            }
            Err(error) => {
                tracing::warn!(%error, "a question was not received");
                std::thread::sleep(LOOK);
                continue;
            }
        };
        draw = draw.wrapping_add(1);
        let (bytes, counter) = match lock(service).answer(&question[..length], draw) {
            NameAnswer::Told(bytes) => (bytes, &counting.told),
            NameAnswer::Refused(bytes) => (bytes, &counting.refused),
            NameAnswer::Dropped => (Vec::new(), &counting.dropped),
        };
        let is_sent = bytes.is_empty() || socket.send_to(&bytes, client).is_ok();
        let counter = if is_sent { counter } else { &counting.dropped };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
