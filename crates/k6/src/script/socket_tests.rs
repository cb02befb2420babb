//! Scripts with sockets whose server is the test: it sends back what comes.

use super::tests::{iteration, world};
use super::{Bounds, ScriptUser, Session};
use std::time::Duration;
use weir_scenario::behaviour::{
    Answer, AnsweredBy, Ask, Behaviour, News, SocketEvent, SocketNews, SocketOrder, Timings, Wants,
};

fn switched(ask: &Ask) -> Answer {
    Answer {
        by: AnsweredBy::Status(101),
        url: ask.url.clone(),
        method: ask.method.clone(),
        headers: [("upgrade", "websocket")].into_iter().collect(),
        body: Vec::new(),
        is_cut: false,
        timings: Timings::default(),
        latency_ns: 0,
        sent_bytes: 0,
        received_bytes: 0,
        redirects: Vec::new(),
        is_expected: true,
    }
}

/// What the server says to an order.
fn echoed(order: &SocketOrder, asked: &mut Vec<Ask>) -> Vec<SocketEvent> {
    let (socket, news) = match order {
        SocketOrder::Open { socket, opening } => {
            asked.push(opening.ask.clone());
            let protocol = opening.protocols.first().cloned();
            (*socket, SocketNews::Opened { answer: Box::new(switched(&opening.ask)), protocol })
        }
        SocketOrder::Send { socket, is_binary, content } => {
            (*socket, SocketNews::Message { is_binary: *is_binary, content: content.clone() })
        }
        SocketOrder::Ping { socket, .. } => (*socket, SocketNews::Pong),
        SocketOrder::Close { socket, code, reason } => {
            (*socket, SocketNews::Closed { code: Some(*code), reason: reason.clone(), wrong: None })
        }
    };
    vec![SocketEvent { socket, news }]
}

/// Plays an iteration; its result, the checks that failed, how many held, and what was asked.
fn play(script: &str, bounds: Bounds) -> (Result<(), String>, Vec<String>, u64, Vec<Ask>) {
    let folder = tempfile::tempdir().unwrap();
    let world = world(folder.path(), script, bounds);
    let mut user = ScriptUser::begin(world.clone(), Session::Iterations, 1).map_err(|(wrong, _)| wrong).unwrap();
    let (mut asked, mut heard) = (Vec::new(), Vec::new());
    let mut wants = user.resume(News::Begins(iteration(0)));
    let result = loop {
        wants = match wants {
            Wants::Order(order) => {
                heard.extend(echoed(&order, &mut asked));
                user.resume(News::Woke)
            }
            Wants::Listen(_) if !heard.is_empty() => user.resume(News::Heard(std::mem::take(&mut heard))),
            Wants::Listen(Some(time)) => {
                std::thread::sleep(time.min(Duration::from_millis(100)));
                user.resume(News::Woke)
            }
            Wants::Over(result) => break result.map_err(|failure| failure.words.to_string()),
            other => panic!("{other:?}"),
        };
    };
    let metrics = world.metrics();
    let checks = metrics.checks.list();
    let failed = checks.iter().filter(|check| check.fails > 0).map(|check| check.name.to_string()).collect();
    (result, failed, checks.iter().map(|check| check.passes).sum(), asked)
}

#[test]
fn a_session_runs_until_its_script_ends_it() {
    let (result, failed, passed, asked) = play(
        "import ws from 'k6/ws';
         import { check } from 'k6';
         export default function () {
           const told = [];
           const response = ws.connect('wss://h:9/chat', { headers: { 'X-A': 'b' }, tags: { t: 'u' } }, (socket) => {
             socket.on('open', () => { told.push('open'); socket.send(7); socket.ping(); });
             socket.on('message', (text) => { told.push(text); socket.sendBinary(new Uint8Array([1]).buffer); });
             socket.on('binaryMessage', (data) => told.push(data.byteLength));
             socket.on('pong', () => told.push('pong'));
             socket.on('close', (code) => told.push(code));
             socket.setTimeout(() => socket.close(), 30);
           });
           check(told.join(), { order: (t) => t === 'open,7,pong,1,1001' });
           check(response, { status: (r) => r.status === 101 && r.headers.Upgrade === 'websocket' && r.error === '' });
         }",
        Bounds::default(),
    );
    assert_eq!((result, failed, passed), (Ok(()), Vec::new(), 2));
    assert_eq!(asked[0].url.to_string(), "https://h:9/chat");
    assert_eq!(
        (asked[0].tag("url"), asked[0].tag("name"), asked[0].tag("t")),
        (Some("wss://h:9/chat"), None, Some("u"))
    );
    assert!(asked[0].headers.contains(&("X-A".to_owned(), "b".to_owned())));
}

#[test]
fn sockets_are_told_of_in_the_loop_of_an_iteration() {
    let (result, failed, passed, asked) = play(
        "import { WebSocket, Blob } from 'k6/websockets';
         import { check } from 'k6';
         export default async function () {
           const socket = new WebSocket('ws://h/', ['chat', 'other']);
           await new Promise((resolve) => socket.addEventListener('open', resolve));
           socket.send(new Blob(['ab', new Uint8Array([99])]));
           const event = await new Promise((resolve) => { socket.onmessage = resolve; });
           check(await event.data.text(), { blob: (t) => t === 'abc' });
           check(socket, { protocol: (s) => s.protocol === 'chat' && s.readyState === 1 });
           setTimeout(() => socket.close(3000, 'words'), 20);
           const end = await new Promise((resolve) => { socket.onclose = resolve; });
           check(end, { end: (e) => e.code === 3000 && e.reason === 'words' && socket.readyState === 3 });
         }",
        Bounds::default(),
    );
    assert_eq!((result, failed, passed), (Ok(()), Vec::new(), 3));
    assert_eq!(asked[0].tag("name"), Some("ws://h/"));
}

#[test]
fn a_script_that_sends_without_end_is_stopped() {
    let bounds = Bounds { turn: Duration::from_millis(100), ..Bounds::default() };
    let (result, ..) = play(
        "import ws from 'k6/ws';
         export default function () {
           ws.connect('ws://h/', (socket) => socket.on('open', () => { for (;;) socket.send('x'); }));
         }",
        bounds,
    );
    assert!(result.as_ref().is_err_and(|words| words.contains("computed for 100ms")), "{result:?}");
}

#[test]
fn what_a_socket_cannot_do_is_thrown() {
    let (result, failed, passed, _) = play(
        "import ws from 'k6/ws';
         import { WebSocket } from 'k6/websockets';
         import { check } from 'k6';
         const thrown = (call) => { try { call(); } catch (error) { return String(error); } return 'nothing'; };
         export default function () {
           check(null, {
             scheme: () => thrown(() => new WebSocket('http://h/')).includes('scheme ws or wss'),
             option: () => thrown(() => new WebSocket('ws://h/', null, { none: 1 })).includes('unknown WebSocket'),
             compression: () => thrown(() => ws.connect('ws://h/', { compression: 'deflate' }, () => {})).includes('not compressed'),
             function: () => thrown(() => ws.connect('ws://h/', {})).includes('must be a function'),
             timeout: () => thrown(() => ws.connect('ws://h/', (s) => s.setTimeout(() => {}, 0))).includes('>0'),
           });
         }",
        Bounds::default(),
    );
    assert_eq!((result, failed, passed), (Ok(()), Vec::new(), 5));
}
