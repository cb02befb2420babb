//! Users with WebSockets against a server that sends back what comes.

use crate::server::{Server, answer};
use crate::{plan, shared};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_load::Url;
use weir_scenario::behaviour::{
    Ask, Behaviour, Counting, Failure, Maker, News, SocketNews, SocketOpening, SocketOrder, User, Wants,
};
use weir_scenario::metrics::{Builtin, Shared};
use weir_scenario::run::{Handle, run};
use weir_testkit::websocket::Echo;

/// Gives its orders, then listens until it was told so often; what it was told is kept.
struct Talker {
    url: String,
    orders: Vec<SocketOrder>,
    /// Given when the socket is open.
    later: Vec<SocketOrder>,
    told_max: usize,
    told: Arc<Mutex<Vec<String>>>,
}

impl Talker {
    fn next(&mut self) -> Wants {
        match self.orders.pop() {
            Some(order) => Wants::Order(order),
            None if self.told.lock().unwrap().len() < self.told_max => Wants::Listen(Some(Duration::from_secs(10))),
            None => Wants::Over(Ok(())),
        }
    }
}

impl Behaviour for Talker {
    fn resume(&mut self, news: News<'_>) -> Wants {
        match news {
            News::Begins(_) => {
                let ask = Ask::get(Url::parse(&self.url).unwrap());
                let opening = Box::new(SocketOpening { ask, protocols: Vec::new(), counting: Counting::Frames });
                Wants::Order(SocketOrder::Open { socket: 1, opening })
            }
            News::Heard(events) => {
                for event in events {
                    if matches!(event.news, SocketNews::Opened { .. }) {
                        self.orders.append(&mut self.later);
                    }
                    self.told.lock().unwrap().push(match event.news {
                        SocketNews::Opened { answer, .. } => format!("open {}", answer.status()),
                        SocketNews::NotOpened { answer, words } => {
                            format!("not open {:?} {words}", answer.map(|answer| answer.status()))
                        }
                        SocketNews::Message { content, .. } => format!("message {}", content.len()),
                        SocketNews::Ping => "ping".to_owned(),
                        SocketNews::Pong => "pong".to_owned(),
                        SocketNews::Closed { code, wrong, .. } => format!("closed {code:?} {wrong:?}"),
                    });
                }
                self.next()
            }
            _ => self.next(),
        }
    }
}

struct One(Option<Talker>);

impl Maker for One {
    fn make(&mut self, _: User) -> Result<Box<dyn Behaviour>, Failure> {
        Ok(Box::new(self.0.take().ok_or_else(|| Failure::new("one user"))?))
    }
}

/// Plays one user; what it was told, and the metrics.
fn talk(url: String, later: Vec<SocketOrder>, told_max: usize) -> (Vec<String>, Shared) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let talker = Talker { url, orders: Vec::new(), later, told_max, told: Arc::clone(&told) };
    let (metrics, handle) = (Shared::default(), Arc::new(Handle::default()));
    let (report, _) = run(plan(shared(1, 1)), Box::new(One(Some(talker))), &metrics, &handle).expect("a run");
    assert_eq!(report.scenarios[0].finished, 1, "{report:?}");
    let told = told.lock().unwrap().clone();
    (told, metrics)
}

fn count(metrics: &Shared, of: Builtin) -> f64 {
    let metrics = metrics.lock();
    match &metrics[of.id()].whole {
        weir_scenario::metrics::Sink::Counter { sum } => *sum,
        weir_scenario::metrics::Sink::Trend(trend) => trend.count() as f64,
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_of_any_size_come_back() {
    let echo = Echo::start(([127, 0, 0, 1], 0).into()).unwrap();
    let send = |length: usize| SocketOrder::Send { socket: 1, is_binary: true, content: vec![7; length] };
    // The last is given first.
    let close = SocketOrder::Close { socket: 1, code: 1000, reason: "enough".to_owned() };
    let ping = SocketOrder::Ping { socket: 1, content: b"1".to_vec() };
    // Sockets take less at once.
    let large = std::iter::repeat_with(|| send(60_000)).take(100);
    let later = std::iter::once(ping).chain(large).chain([send(0)]).collect();
    let (told, metrics) = talk(format!("http://{}/", echo.addr()), later, 103);
    assert_eq!((told[0].as_str(), told[1].as_str(), told[102].as_str()), ("open 101", "message 0", "pong"));
    assert!(told[2..102].iter().all(|one| one == "message 60000"), "{told:?}");
    for (of, wanted) in [
        (Builtin::WsSessions, 1.0),
        (Builtin::WsConnecting, 1.0),
        // With the ping.
        (Builtin::WsMsgsSent, 102.0),
        (Builtin::WsMsgsReceived, 101.0),
        (Builtin::WsPing, 1.0),
        (Builtin::WsSessionDuration, 1.0),
    ] {
        assert_eq!(count(&metrics, of), wanted, "{of:?}");
    }
    let (told, _) = talk(format!("http://{}/", echo.addr()), vec![close], 2);
    assert_eq!(told, ["open 101", "closed Some(1000) None"]);
}

#[test]
fn what_is_no_websocket_is_told() {
    let (told, metrics) = talk("http://127.0.0.1:1/".to_owned(), Vec::new(), 1);
    assert_eq!(told, ["not open None the server refused the connection"]);
    assert_eq!((count(&metrics, Builtin::WsSessions), count(&metrics, Builtin::WsSessionDuration)), (1.0, 0.0));
    let server = Server::start(|_| answer("404 Not Found", &[], "none"));
    let (told, _) = talk(server.url("/").to_string(), Vec::new(), 1);
    assert!(told[0].starts_with("not open Some(404) "), "{told:?}");
}
