//! What a request costs the generator in allocations and system calls, which no busy machine changes.
// scripts/test: waits

#[path = "http3/quic_server.rs"]
mod quic_server;
mod server;

use quic_server::{QuicServer, Setup};
use server::Server;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weir_load::sessions::{Session, Sessions, Think};
use weir_load::workload::{FileSet, Mix, Surge};
use weir_load::{
    Calls, ClientRequest, Control, Io, ListedRequest, LoadReport, Observer, Options, Order, Protocol, Request,
    Schedule, StopRule,
};

/// Counts the allocations of the generator's own threads.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// One run at a time: the counter is everybody's.
static TURN: Mutex<()> = Mutex::new(());

fn count() {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes into the buffer.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    if name.starts_with(b"weir-load-") {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Looks at everything and keeps nothing.
struct Bytes(usize);

impl Observer for Bytes {
    fn received(&mut self, _connection: u64, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn request(&mut self, _request: &ClientRequest) {}
}

/// Runs a load and returns its report and the allocations that its threads made.
fn counted(options: Options) -> (LoadReport, u64) {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let report = weir_load::run(options, &Control::default()).expect("the run is made");
    assert_eq!(report.failures(), 0, "{:?}", report.errors);
    (report, ALLOCATIONS.load(Ordering::Relaxed) - before)
}

fn options(server: &Server, requests: u64, events: bool) -> Options {
    let mut options = server.options(requests);
    options.connections = 10;
    if events {
        options.events = vec![weir_wire::ring(1 << 16).0];
    }
    options
}

fn server() -> Server {
    Server::answering("HTTP/1.1 200 OK\r\nServer: test\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello")
}

/// A thousand different requests with weights.
fn ask_a_thousand(options: &mut Options, order: Order) {
    let listed = |number: u32| ListedRequest {
        url: options.url.with_target(&format!("/{number}/{}", "x".repeat(number as usize % 100))),
        request: Request::default(),
        weight: number,
    };
    options.requests.list = (1..=1000).map(listed).collect();
    options.requests.order = order;
}

/// The mix of a file set with a million files.
fn ask_a_million(options: &mut Options, directories_zipf: Option<f64>) {
    let files = FileSet::SpecWeb96 { directories: 27_778, seed: 1 };
    assert!(files.len() > 1_000_000);
    let mix = Mix { files, seed: 3, directories_zipf, crowd: None };
    options.requests.list = mix.requests(&options.url, &options.request);
    options.requests.mix = Some(mix);
}

#[test]
fn a_request_allocates_nothing() {
    let _turn = TURN.lock();
    let server = server();
    for change in [
        |_: &mut Options| {},
        |options: &mut Options| options.pipeline = 4,
        |options: &mut Options| options.reach.sources = vec!["127.0.0.2".parse().expect("an address")],
        // What is told of each interval, however often, is told without an allocation.
        |options: &mut Options| options.sampling.interval = Duration::from_millis(10),
        |options: &mut Options| options.schedule = Schedule::Fixed { rate_per_s: 20_000.0 },
        |options: &mut Options| options.schedule = Schedule::Poisson { rate_per_s: 20_000.0, seed: 1 },
        |options: &mut Options| ask_a_thousand(options, Order::InTurn),
        |options: &mut Options| ask_a_thousand(options, Order::Weighted { seed: 3 }),
        |options: &mut Options| {
            ask_a_thousand(options, Order::Weighted { seed: 3 });
            options.schedule = Schedule::Fixed { rate_per_s: 20_000.0 };
        },
        |options: &mut Options| ask_a_million(options, None),
        |options: &mut Options| ask_a_million(options, Some(1.0)),
        |options: &mut Options| options.observers = vec![Box::new(Bytes(0))],
    ] {
        for events in [false, true] {
            let run = |requests| {
                let mut options = options(&server, requests, events);
                change(&mut options);
                counted(options).1
            };
            // Starting and connecting allocate, and an open loop connects as often as it needs to; requests do not.
            let (few, many) = (run(100), run(10_000));
            assert!(few > 0, "the counter counts");
            let of_connections = 2 * 10;
            assert!(many <= few + of_connections, "9900 more requests cost {} more allocations", many - few);
        }
    }
}

#[test]
fn a_request_is_one_send_and_one_receive() {
    let _turn = TURN.lock();
    let server = server();
    let requests = 10_000;
    let mut options = options(&server, requests, true);
    options.io = Io::Epoll;
    let (report, _) = counted(options);
    let Calls { wait, receive, send, other } = report.calls;
    assert_eq!((receive, send), (requests, requests));
    // Waits serve all connections that are ready; at the worst each request has one of its own.
    assert!(wait <= requests + 100, "{wait}");
    // Made, set up, connected and watched, and its own address asked for: 5 a connection, for any number of requests.
    assert!(is_of_connections(&report, other, 5 * 10), "{other}");
    // A source is two calls more a connection, and none a request.
    let mut sourced = self::options(&server, requests, true);
    sourced.io = Io::Epoll;
    sourced.reach.sources = vec!["127.0.0.2".parse().expect("an address")];
    let report = counted(sourced).0;
    let Calls { receive, send, other, .. } = report.calls;
    assert_eq!((receive, send), (requests, requests));
    assert!(is_of_connections(&report, other, 7 * 10), "{other}");
}

/// Whether so many calls are those of the connections. A response that took a tick of the kernel's or longer, which is
/// a millisecond at least, may be one of the slowest: then the kernel is asked once how long it lay there.
fn is_of_connections(report: &LoadReport, other: u64, of_connections: u64) -> bool {
    let slow = report.latency.len() - report.latency.count_between(0, 999_999).min(report.latency.len());
    (of_connections..=of_connections + slow).contains(&other)
}

/// Through io_uring there is only one sort of call: it hands over what goes out and waits for what comes.
#[test]
fn through_io_uring_a_request_is_at_most_one_call() {
    let _turn = TURN.lock();
    let server = server();
    let requests = 10_000;
    let mut options = options(&server, requests, true);
    options.io = Io::Uring;
    let (report, _) = counted(options);
    assert_eq!(report.generator.io, Io::Uring);
    let Calls { wait, receive, send, other } = report.calls;
    assert_eq!((receive, send), (0, 0));
    // Each serves all connections that are ready; at the worst each request has one of its own.
    assert!(wait <= requests + 100, "{wait}");
    // Those of a connection by epoll, and its move to the ring and back.
    assert!(is_of_connections(&report, other.max(7 * 10), 7 * 10), "{other}");
}

#[test]
fn a_thousand_requests_cost_the_calls_of_one() {
    let _turn = TURN.lock();
    let server = server();
    let mut options = options(&server, 10_000, true);
    options.io = Io::Epoll;
    ask_a_thousand(&mut options, Order::Weighted { seed: 3 });
    let (report, _) = counted(options);
    assert_eq!((report.calls.receive, report.calls.send), (10_000, 10_000));
    assert!(is_of_connections(&report, report.calls.other, 5 * 10), "{}", report.calls.other);
    let mut options = self::options(&server, 8000, false);
    ask_a_thousand(&mut options, Order::InTurn);
    options.pipeline = 8;
    assert_eq!(counted(options).0.calls.send, 1000);
}

#[test]
fn a_pipeline_shares_its_calls() {
    let _turn = TURN.lock();
    let server = server();
    let mut options = options(&server, 8000, false);
    options.pipeline = 8;
    options.io = Io::Epoll;
    let (report, _) = counted(options);
    assert_eq!(report.calls.send, 1000);
    // Eight responses may come in eight pieces, but not in more.
    assert!(report.calls.receive <= 8000, "{:?}", report.calls);
}

#[test]
fn a_burst_of_a_session_allocates_nothing() {
    let _turn = TURN.lock();
    let server = server();
    let run = |bursts: u32| {
        let mut options = options(&server, 10, true);
        ask_a_thousand(&mut options, Order::InTurn);
        let think =
            |burst: u32| if burst.is_multiple_of(100) { Think::Fixed(Duration::from_micros(50)) } else { Think::None };
        let session = (0..bursts).fold(Session::new(), |session, burst| {
            session
                .burst(&[burst % 1000, (burst + 7) % 1000, (burst + 9) % 1000][..1 + burst as usize % 3])
                .think(think(burst))
        });
        options.requests.sessions = Some(Sessions { list: vec![session], seed: 1 });
        let (report, allocations) = counted(options);
        assert_eq!(report.sessions.expect("sessions").completed, 10);
        allocations
    };
    let (few, many) = (run(100), run(2000));
    // A batch's buffer grows to the longest batch that a connection has carried.
    assert!(many <= few + 10 * 10, "19000 more bursts cost {} more allocations", many.saturating_sub(few));
}

/// Users ask for page after page: what they ask and how long they wait is drawn without an allocation.
#[test]
fn a_page_of_a_user_allocates_nothing() {
    let _turn = TURN.lock();
    let server = server();
    let run = |seconds: u64| {
        let mut options = options(&server, 1, true);
        options.connections = 200;
        options.stop = StopRule::Duration(Duration::from_secs(seconds));
        let mix = Mix { files: FileSet::Surge(Surge::new(100_000, 1)), seed: 3, directories_zipf: None, crowd: None };
        options.requests.list = mix.requests(&options.url, &options.request);
        options.requests.mix = Some(mix);
        let (report, allocations) = counted(options);
        (report.requests, allocations)
    };
    let ((few, before), (many, after)) = (run(1), run(6));
    assert!(many > few + 300, "{few}, {many}");
    // The first round is drawn once, and a connection's buffer grows to its longest request.
    assert!(after <= before + 200, "{} more requests cost {} more allocations", many - few, after - before);
}

#[test]
fn waiting_for_arrivals_costs_no_calls_of_its_own() {
    let _turn = TURN.lock();
    let server = server();
    for (io, calls) in [(Io::Epoll, 500), (Io::Uring, 0)] {
        let mut options = options(&server, 1, false);
        options.schedule = Schedule::Fixed { rate_per_s: 500.0 };
        options.stop = StopRule::Duration(Duration::from_secs(1));
        options.io = io;
        let (report, _) = counted(options);
        assert_eq!((report.requests, report.calls.receive, report.calls.send), (500, calls, calls));
        // A wait for the arrival, one for its response, and the sweeps.
        assert!(report.calls.wait <= 2 * 500 + 50, "{:?}", report.calls);
    }
}

/// A server of HTTP/2 that answers each request that came by now in one write, and allocates for none of them.
fn server_of_http2() -> Server {
    Server::start(|peer| {
        use std::io::Read;
        peer.greet(&[]);
        let (mut buffer, mut kept, mut out) = (vec![0; 1 << 16], 0, Vec::new());
        while let Ok(count) = peer.stream.read(&mut buffer[kept..]) {
            if count == 0 {
                return;
            }
            let (end, mut at) = (kept + count, 0);
            out.clear();
            while let Some(head) = buffer[at..end].first_chunk::<9>() {
                let length = usize::from(head[1]) << 8 | usize::from(head[2]);
                if end - at < 9 + length {
                    break;
                }
                let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                if head[3] == server::http2::DATA {
                    let more = [0, head[0], head[1], head[2]];
                    out.extend(server::http2::frame(server::http2::WINDOW_UPDATE, 0, 0, &more));
                }
                match (head[3], head[4]) {
                    (server::http2::SETTINGS, 0) => out.extend([0, 0, 0, server::http2::SETTINGS, 1, 0, 0, 0, 0]),
                    (kind, flags) if kind <= 1 && flags & 1 != 0 => out.extend(server::http2::answer(stream, b"hello")),
                    _ => {}
                }
                at += 9 + length;
            }
            buffer.copy_within(at..end, 0);
            kept = end - at;
            if !peer.send(&out) {
                return;
            }
        }
    })
}

#[test]
fn a_stream_allocates_nothing_and_shares_its_calls() {
    let _turn = TURN.lock();
    let server = server_of_http2();
    for change in [
        |_: &mut Options| {},
        |options: &mut Options| options.request.body = vec![b'x'; 2000],
        |options: &mut Options| options.schedule = Schedule::Fixed { rate_per_s: 20_000.0 },
        |options: &mut Options| options.schedule = Schedule::Poisson { rate_per_s: 20_000.0, seed: 1 },
    ] {
        for events in [false, true] {
            let run = |requests| {
                let mut options = options(&server, requests, events);
                options.protocol = Protocol::Http2 { streams: 20 };
                options.connections = 2;
                change(&mut options);
                counted(options)
            };
            // What is under way at most differs with chance, and with it how far the buffers grow once: by doubling.
            let ((_, few), (report, many)) = (run(1000), run(20_000));
            assert!(few > 0, "the counter counts");
            assert!(many <= few + 60, "19000 more requests cost {} more allocations", many.saturating_sub(few));
            let Calls { receive, send, .. } = report.calls;
            assert!(receive <= report.requests + 10 && send <= report.requests + 10, "{:?}", report.calls);
        }
    }
    // Twenty streams of one connection: what is ready together goes out together, and comes in together.
    let mut options = options(&server, 20_000, false);
    options.protocol = Protocol::Http2 { streams: 20 };
    options.connections = 1;
    let (report, _) = counted(options);
    assert!(report.calls.send <= 20_000 / 4 && report.calls.receive <= 20_000 / 4, "{:?}", report.calls);
}

/// QUIC keeps each packet until it is acknowledged, and has its own memory for each stream.
#[test]
fn a_request_of_http3_allocates_little_and_shares_its_calls() {
    let _turn = TURN.lock();
    let server = QuicServer::start(Setup::default(), |_| quic_server::ok(b"hello"));
    let run = |requests| {
        let url = weir_load::Url::parse(&server.url("/")).expect("a URL");
        let mut options = Options::new(url);
        options.protocol = Protocol::Http3 { streams: 20, early_data: false, migrate_every: None };
        (options.connections, options.stop) = (2, StopRule::Requests(requests));
        options.trust = weir_load::Trust::Anything;
        options.events = vec![weir_wire::ring(1 << 16).0];
        counted(options)
    };
    let ((_, few), (report, many)) = (run(1000), run(11_000));
    let each = many.saturating_sub(few) as f64 / 10_000.0;
    println!("{each:.2} allocations a request, {:?}", report.calls);
    assert!(each < 8.0, "{each} allocations a request");
    assert!(report.calls.send < report.requests && report.calls.receive < 2 * report.requests, "{:?}", report.calls);
}
