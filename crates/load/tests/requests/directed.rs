//! Requests that a director decides on: several connections at a time, what follows an answer, what follows a failure.

use crate::server;

use server::{Server, load};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_load::directed::{Directed, Director, Orders};
use weir_load::{Options, Outcome, Protocol, Requests, Schedule, Sockets};

/// What a director was told.
type Told = Arc<Mutex<Vec<String>>>;

/// A director made of what it does at an arrival, when a link is idle, and when it ended.
struct Play {
    told: Told,
    number: u32,
    arrives: fn(u32, &mut Orders),
    idle: fn(u32, bool, u32, &mut Orders),
    ended: fn(u32, &mut Orders),
    /// How often something was idle, ended, or woke.
    turn: u32,
}

impl Play {
    fn tell(&mut self, what: String) -> u32 {
        self.told.lock().expect("no panic").push(what);
        self.turn += 1;
        self.turn
    }
}

impl Director for Play {
    fn arrives(&mut self, _: u64, orders: &mut Orders) {
        (self.arrives)(self.number, orders);
        self.number += 1;
    }

    fn answered(&mut self, link: u32, connection: u64, status: u16) {
        assert!(connection > 0);
        self.told.lock().expect("no panic").push(format!("{link}:{status}"));
    }

    fn idle(&mut self, link: u32, kept: bool, orders: &mut Orders) {
        let turn = self.tell(format!("{link} idle{}", if kept { "" } else { ", gone" }));
        (self.idle)(link, kept, turn, orders);
    }

    fn ended(&mut self, link: u32, outcome: Outcome, orders: &mut Orders) {
        self.tell(format!("{link} {outcome:?}"));
        (self.ended)(link, orders);
    }

    fn wakes(&mut self, token: u32, orders: &mut Orders) {
        self.tell(format!("{token} wakes"));
        orders.over();
    }
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes()
}

fn options(server: &Server, arrivals: u64, play: Play) -> Options {
    let mut options = server.options(arrivals);
    options.connections = 4;
    options.hang_up = true;
    options.directed = Some(Directed { director: Box::new(play), at_a_time: 1, links_of_a_user: 0, ways: None });
    options
}

fn play(told: &Told, arrives: fn(u32, &mut Orders)) -> Play {
    let idle = |_, _, _, _: &mut Orders| {};
    Play { told: Arc::clone(told), number: 0, arrives, idle, ended: |_, orders| orders.over(), turn: 0 }
}

/// A server that answers with the path, with status 404 for `/none`, and closes after `/last`.
fn server() -> Server {
    Server::start(|peer| {
        while let Some(request) = peer.request() {
            let path = request.split(' ').nth(1).expect("a target").to_owned();
            let status = if path == "/none" { "404 No" } else { "200 OK" };
            let close = if path == "/last" { "Connection: close\r\n" } else { "" };
            let answer = format!("HTTP/1.1 {status}\r\n{close}Content-Length: {}\r\n\r\n{path}", path.len());
            if path == "/break" || !peer.send(answer.as_bytes()) || path == "/last" {
                return;
            }
        }
    })
}

#[test]
fn links_are_asked_at_a_time_and_calls_together() {
    let (server, told) = (server(), Told::default());
    let mut play = play(&told, |_, orders| {
        orders.request(0, 0, &get("/a"));
        orders.request(0, 0, &get("/none"));
        orders.request(7, 0, &get("/c"));
    });
    play.idle = |_, _, turn, orders| match turn {
        // Both are idle: one goes on, then all is over.
        2 => orders.request(7, 0, &get("/d")),
        3 => {
            orders.close(0);
            orders.close(7);
            orders.over();
        }
        _ => {}
    };
    let report = load(options(&server, 1, play));
    assert_eq!((report.requests, report.failures(), server.connections()), (4, 0, 2));
    let mut told = told.lock().expect("no panic").clone();
    assert_eq!(told[5..], ["7:200", "7 idle"], "{told:?}");
    told.truncate(5);
    told.sort();
    assert_eq!(told, ["0 idle", "0:200", "0:404", "7 idle", "7:200"]);
}

#[test]
fn a_link_that_is_closed_is_opened_anew() {
    let (server, told) = (server(), Told::default());
    let mut play = play(&told, |_, orders| orders.request(3, 0, &get("/a")));
    play.idle = |link, kept, turn, orders| match turn {
        1 => {
            orders.request(link, 0, &get("/never"));
            orders.close(link);
            orders.request(link, 0, &get("/last"));
        }
        2 => {
            assert!(!kept, "the server closes behind it");
            orders.request(link, 0, &get("/b"));
        }
        _ => orders.wake(Duration::from_millis(50), 9),
    };
    let begin = Instant::now();
    let report = load(options(&server, 2, play));
    assert_eq!((report.requests, report.failures(), server.connections()), (4, 0, 3), "{:?}", report.errors);
    assert!(begin.elapsed() >= Duration::from_millis(50));
    let told = told.lock().expect("no panic").clone();
    assert_eq!(told[..7], ["3:200", "3 idle", "3:200", "3 idle, gone", "3:200", "3 idle", "9 wakes"]);
    // The second arrival goes over the connection that is still open, as its link is.
    assert_eq!(told.len(), 10, "{told:?}");
}

#[test]
fn a_connection_that_breaks_is_told_once_and_nothing_is_repeated() {
    let (server, told) = (server(), Told::default());
    let play = play(&told, |number, orders| {
        let path = ["/a", "/break", "/c"][number.min(2) as usize];
        orders.request(number, 0, &get(path));
        orders.request(number, 0, &get("/break"));
    });
    let report = load(options(&server, 3, play));
    let told = told.lock().expect("no panic").clone();
    assert_eq!(told, ["0:200", "0 Closed", "1 Closed", "2:200", "2 Closed"], "{:?}", report.errors);
    assert_eq!((report.requests, server.connections()), (2, 3));
}

#[test]
fn more_connections_than_there_may_be_are_told_as_such() {
    let (server, told) = (server(), Told::default());
    let mut play = play(&told, |_, orders| (0..6).for_each(|link| orders.request(link, 0, &get("/a"))));
    play.ended = |_, _| {};
    play.idle = |_, _, turn, orders| {
        if turn == 6 {
            orders.over();
        }
    };
    load(options(&server, 1, play));
    let told = told.lock().expect("no panic").clone();
    assert_eq!(told.iter().filter(|told| told.ends_with("NoDescriptors")).count(), 2, "{told:?}");
}

#[test]
fn arrivals_come_at_their_times_until_they_are_stopped() {
    let (server, told) = (server(), Told::default());
    let mut play = play(&told, |number, orders| match number {
        4 => {
            orders.stop();
            orders.over();
        }
        _ => orders.request(number, 0, &get("/a")),
    });
    play.idle = |link, _, _, orders| {
        orders.close(link);
        orders.over();
    };
    let mut options = options(&server, 1000, play);
    options.schedule = Schedule::Fixed { rate_per_s: 100.0 };
    let begin = Instant::now();
    let report = load(options);
    assert_eq!((report.requests, server.connections()), (4, 4));
    assert!((Duration::from_millis(40)..Duration::from_secs(3)).contains(&begin.elapsed()), "{:?}", begin.elapsed());
}

#[test]
fn a_response_that_does_not_come_ends_its_link() {
    let silent = Server::start(|peer| while peer.request().is_some() {});
    let told = Told::default();
    let mut options = options(&silent, 1, play(&told, |_, orders| orders.request(0, 0, &get("/a"))));
    options.timeout = Duration::from_millis(200);
    load(options);
    assert_eq!(*told.lock().expect("no panic"), ["0 TimedOut"]);
}

#[test]
fn a_connection_closed_by_reset_and_one_from_any_port_work() {
    let (server, told) = (server(), Told::default());
    let mut play = play(&told, |_, orders| orders.request(0, 0, &get("/a")));
    play.idle = |link, _, _, orders| {
        orders.close(link);
        orders.over();
    };
    let mut options = options(&server, 20, play);
    options.sockets = Sockets {
        send_buffer: Some(4096),
        receive_buffer: Some(4096),
        reset: true,
        all_ports: true,
        connect_timeout: Some(Duration::from_secs(1)),
    };
    let report = load(options);
    assert_eq!((report.requests, report.failures(), server.connections()), (20, 0, 20), "{:?}", report.errors);
}

#[test]
fn what_does_not_fit_a_director_is_refused() {
    let server = server();
    let fresh = || options(&server, 1, play(&Told::default(), |_, _| {}));
    assert!(fresh().check().is_ok());
    let refused: [fn(&mut Options); 7] = [
        |options| (options.threads, options.connections) = (2, 4),
        |options| options.protocol = Protocol::Http2 { streams: 1 },
        |options| options.requests = Requests { cookie_jar: true, ..Requests::default() },
        |options| options.verbatim = Some(b"x".to_vec()),
        |options| options.keep_alive = false,
        |options| options.pipeline = 2,
        |options| options.directed.as_mut().expect("there").at_a_time = 0,
    ];
    for change in refused {
        let mut options = fresh();
        change(&mut options);
        assert!(options.check().is_err());
    }
}

/// Arrivals that are over as they begin take turns with what else the loop does: it ends at its time.
#[test]
fn arrivals_without_a_request_do_not_hold_the_loop_up() {
    let (server, told) = (server(), Told::default());
    let mut timed = options(&server, 1, play(&told, |_, orders| orders.over()));
    timed.stop = weir_load::StopRule::Duration(Duration::from_millis(200));
    let begin = Instant::now();
    let report = load(timed);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!((report.requests, report.failures()), (0, 0));
    // By their number they end, too, though it is more than one turn begins.
    let begin = Instant::now();
    let report = load(options(&server, 100_000, play(&told, |_, orders| orders.over())));
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!((report.requests, server.connections()), (0, 0));
}
