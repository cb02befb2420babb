//! Requests, cookies, redirects, failures, phases.

use crate::server::{Server, answer};
use crate::{Told, go, go_through, plan, shared};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_load::Outcome;
use weir_scenario::behaviour::{AnsweredBy, Ask, Failure, Wants};
use weir_scenario::executors::Executor;
use weir_scenario::metrics::{Builtin, Sink};
use weir_scenario::run::Ended;

#[test]
fn cookies_and_redirects_are_as_in_a_browser() {
    let server = Server::start(|request| match request.target.as_str() {
        "/login" => answer("302 Found", &["Set-Cookie: sid=42; Path=/", "Location: /home"], ""),
        "/home" => answer("200 OK", &[], &format!("{} {}", request.method, request.header("cookie").unwrap_or("none"))),
        _ => answer("404 Not Found", &[], "no"),
    });
    let mut login = Ask::get(server.url("/login"));
    login.method = "POST".to_owned();
    login.body = b"name=a".to_vec();
    let (report, seen, metrics) = go_through(plan(shared(1, 2)), vec![login, Ask::get(server.url("/nothing"))]);
    assert_eq!(report.scenarios[0].finished, 2);
    let texts: Vec<_> = seen.iter().map(|answer| String::from_utf8_lossy(&answer.body).into_owned()).collect();
    assert_eq!(texts, ["GET sid=42", "no", "GET sid=42", "no"]);
    assert_eq!((seen[0].redirects.len(), seen[0].redirects[0].status), (1, 302));
    assert_eq!(seen[0].url.target, "/home");
    assert!(seen[1].is_failed() && !seen[0].is_failed());
    assert!(seen[0].latency_ns > 0 && seen[0].timings.waiting_ns > 0);
    let metrics = metrics.lock();
    assert!(matches!(metrics[Builtin::HttpReqs.id()].whole, Sink::Counter { sum: 6.0 }));
    assert!(matches!(metrics[Builtin::HttpReqFailed.id()].whole, Sink::Rate { passes: 2, total: 6 }));
    assert_eq!(server.connections(), 1, "the connection is kept");
}

#[test]
fn a_batch_goes_over_several_connections_and_comes_in_order() {
    let server = Server::start(|request| {
        std::thread::sleep(Duration::from_millis(100));
        answer("200 OK", &[], &request.target)
    });
    let asks: Vec<_> = (0..10).map(|number| Ask::get(server.url(&format!("/{number}")))).collect();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let begin = std::time::Instant::now();
    go(plan(shared(1, 1)), move |news| match news {
        Told::Answered(_, answers) => {
            told.lock().expect("no panic").extend(answers.iter().map(|answer| answer.body.clone()));
            Wants::Over(Ok(()))
        }
        _ => Wants::Ask(asks.clone()),
    });
    let took = begin.elapsed();
    let right: Vec<_> = (0..10).map(|number| format!("/{number}").into_bytes()).collect();
    assert_eq!(*seen.lock().expect("no panic"), right);
    // Six at a time: two rounds of 100 ms.
    assert!(took < Duration::from_millis(800) && took > Duration::from_millis(190), "{took:?}");
    assert_eq!(server.connections(), 6);
}

#[test]
fn failures_are_told_and_end_no_run() {
    let server = Server::start(|request| match request.target.as_str() {
        "/slow" => {
            std::thread::sleep(Duration::from_secs(2));
            answer("200 OK", &[], "late")
        }
        _ => answer("200 OK", &[], "fine"),
    });
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let mut slow = Ask::get(server.url("/slow"));
    slow.timeout = Duration::from_millis(100);
    let refused = Ask::get(weir_load::Url::parse(&format!("http://{closed}/")).expect("a URL"));
    let unknown = Ask::get(weir_load::Url::parse("http://no-such-host.invalid/").expect("a URL"));
    let mut wrong = Ask::get(server.url("/"));
    wrong.headers.push(("X".into(), "a\r\nb".into()));
    let (report, seen, _) =
        go_through(plan(shared(1, 1)), vec![slow, refused, unknown, wrong, Ask::get(server.url("/"))]);
    let outcomes: Vec<_> = seen
        .iter()
        .map(|answer| match &answer.by {
            AnsweredBy::Status(_) => None,
            AnsweredBy::Nothing(failing) => Some(failing.outcome),
        })
        .collect();
    let (timed_out, other) = (Some(Outcome::TimedOut), Some(Outcome::Other));
    assert_eq!(outcomes, [timed_out, Some(Outcome::Refused), Some(Outcome::ConnectFailed), other, None]);
    assert_eq!(seen[4].body, b"fine");
    assert_eq!(report.unanswered.len(), 4);
}

#[test]
fn a_kept_connection_that_the_server_closes_costs_no_request() {
    let server = Server::start(|_| answer("200 OK", &["Connection: close"], "x"));
    let asks = vec![Ask::get(server.url("/")); 20];
    let (_, seen, _) = go_through(plan(shared(2, 10)), asks);
    assert!(seen.iter().all(|answer| answer.status() == 200));
}

#[test]
fn sleeps_take_their_time_and_failed_iterations_their_reason() {
    let server = Server::start(|_| answer("200 OK", &[], "x"));
    let ask = Ask::get(server.url("/"));
    let executor = Executor::Constant { users: 5, duration: Duration::from_millis(700) };
    let (report, _, _) = go(plan(executor), move |news| match news {
        Told::Begins(_) => Wants::Ask(vec![ask.clone()]),
        Told::Answered(..) => Wants::Sleep(Duration::from_millis(100)),
        Told::Woke => Wants::Over(Err(Failure::new("tired"))),
    });
    let counts = &report.scenarios[0];
    assert!((25..=35).contains(&counts.begun), "{counts:?}");
    assert_eq!((counts.failed, counts.finished, counts.users_max), (counts.begun, 0, 5));
    assert_eq!((&*report.causes[0].words, report.causes[0].count), ("tired", counts.begun));
}

#[test]
fn time_of_behaviours_is_apart_from_latencies() {
    let server = Server::start(|_| answer("200 OK", &[], "x"));
    let ask = Ask::get(server.url("/"));
    let (report, _, metrics) = go(plan(shared(10, 100)), move |news| match news {
        Told::Begins(_) => Wants::Ask(vec![ask.clone()]),
        _ => {
            let begin = std::time::Instant::now();
            while begin.elapsed() < Duration::from_millis(5) {}
            Wants::Over(Ok(()))
        }
    });
    assert!(report.scripts >= Duration::from_millis(500), "{:?}", report.scripts);
    let metrics = metrics.lock();
    let trend = metrics[Builtin::HttpReqLatency.id()].whole.trend().expect("a trend");
    assert_eq!(trend.count(), 100);
    // Nine other users' 5 ms each would be 45.
    assert!(trend.percentile(50.0) < 5.0, "{}", trend.percentile(50.0));
}

#[test]
fn setup_and_teardown_run_once_and_a_failed_setup_ends_all() {
    let mut all = plan(shared(1, 3));
    (all.setup, all.teardown) = (true, true);
    let begun = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&begun);
    let (report, _, _) = go(all.clone(), move |news| {
        if let Told::Begins(iteration) = news {
            told.lock().expect("no panic").push(iteration.user);
        }
        Wants::Over(Ok(()))
    });
    assert_eq!((report.ended, report.scenarios[0].finished), (Ended::Planned, 3));
    assert_eq!(*begun.lock().expect("no panic"), [0, 1, 1, 1, 0]);
    let (report, _, _) = go(all, |_| Wants::Over(Err(Failure::new("no database"))));
    assert_eq!((report.ended, report.scenarios[0].begun), (Ended::Setup(Failure::new("no database")), 0));
}

#[test]
fn iterations_are_cut_when_their_time_is_over() {
    let mut one = plan(Executor::Constant { users: 2, duration: Duration::from_millis(100) });
    one.scenarios[0].graceful_stop = Duration::from_millis(100);
    let begin = std::time::Instant::now();
    let (report, _, _) = go(one, |_| Wants::Sleep(Duration::from_secs(60)));
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert_eq!((report.scenarios[0].cut, report.scenarios[0].finished), (2, 0));
}
