//! OTLP against a receiver that refuses, comes late or is not there: pushing never waits, and every span is counted.

use crate::receiver::{Answer, Receiver, spans, within};
use crate::{transaction, until};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use weir_agent::export::{Exports, Options, OtlpOptions, OtlpReport, fields};

fn exports(url: &str) -> Exports {
    let headers = vec![("x-api-key".to_owned(), "secret".to_owned())];
    let otlp = Some(OtlpOptions { endpoint: url.parse().expect("a URL"), headers });
    Exports::start(Options { otlp, ..Options::default() }, "web1").expect("it starts")
}

fn told(exports: &Exports) -> OtlpReport {
    exports.report().otlp.expect("there is a receiver")
}

#[test]
fn a_span_has_the_ids_of_the_header_and_says_no_query() {
    let receiver = Receiver::start([]);
    let exports = exports(&receiver.url());
    let root = transaction(0, None);
    let child = transaction(1, Some(&root));
    [&root, &child].into_iter().for_each(|one| exports.push(one));
    let report = exports.finish().otlp.expect("there is a receiver");
    assert_eq!((report.sent, report.waiting, report.failures), (2, 0, 0), "{report:?}");
    let spans = spans(&receiver.bodies("/v1/traces"));
    let span = &spans[&child.id.span.to_be_bytes().to_vec()];
    let has = |line: &str| assert!(span.iter().any(|one| one == line), "no {line} in {span:#?}");
    let trace = [child.id.trace[0].to_be_bytes(), child.id.trace[1].to_be_bytes()].concat();
    has(&format!("1 {}", trace.escape_ascii()));
    has(&format!("4 {}", root.id.span.to_be_bytes().escape_ascii()));
    has("5 look");
    has("6 Varint(1)");
    has("7 Fixed64(1790000000000000001)");
    has("8 Fixed64(1790000000020000002)");
    has("16 Fixed32(257)");
    has("resource service.name = \\n\\x04shop");
    has("url.full = \\n\\x17http://shop.example/buy");
    has("arm.metric.bytes = \\x18\\xfd\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x01");
    assert!(span.iter().all(|line| !line.contains("secret")), "{span:#?}");
    let root = &spans[&root.id.span.to_be_bytes().to_vec()];
    assert!(root.contains(&"6 Varint(2)".to_owned()) && !root.iter().any(|line| line.starts_with("4 ")));
    assert!(receiver.heads().iter().all(|head| head.contains("x-api-key: secret")));
    // What is counted is what was pushed.
    let metrics = receiver.bodies("/v1/metrics");
    let names: Vec<&[u8]> = metrics
        .iter()
        .flat_map(|body| within(body, 1))
        .flat_map(|group| within(within(group, 2)[0], 2))
        .map(|metric| within(metric, 1)[0])
        .collect();
    assert!(names.contains(&&b"arm.transaction.duration"[..]), "{} metrics", names.len());
}

#[test]
fn what_a_receiver_cannot_take_now_is_tried_again_and_what_it_will_not_is_counted() {
    let mut partial = vec![0x0a, 9, 8, 3, 0x12, 5];
    partial.extend(b"stale");
    let [later, never] = [Answer { headers: "Retry-After: 0\r\n", ..Answer::status(503) }, Answer::status(400)];
    let receiver = Receiver::start([later.clone(), later, Answer { content: partial, ..Answer::status(200) }, never]);
    let exports = exports(&receiver.url());
    (0..5).for_each(|number| exports.push(&transaction(number, None)));
    until("two are taken of five", Duration::from_secs(10), || told(&exports).sent == 2);
    let report = told(&exports);
    assert_eq!((report.refused, report.failures, report.given_up), (3, 2, 0), "{report:?}");
    assert!(report.error.is_some_and(|why| why.contains("stale")));
    exports.push(&transaction(9, None));
    until("it is refused", Duration::from_secs(10), || told(&exports).refused == 4);
    assert!(told(&exports).error.is_some_and(|why| why.contains("status 400")));
}

#[test]
fn the_agent_does_not_wait_for_a_receiver_that_is_absent_or_never_answers() {
    // One listens and says nothing, the other is not there at all.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let silent = format!("http://{}", silent.local_addr().expect("its address"));
    for url in ["http://127.0.0.1:9", &silent] {
        let exports = exports(url);
        let (one, pushed) = (transaction(1, None), 60_000);
        let begin = Instant::now();
        let mut longest = Duration::ZERO;
        for _ in 0..pushed {
            let before = Instant::now();
            exports.push(&one);
            longest = longest.max(before.elapsed());
        }
        // Never as long as any of the network's patience, on however busy a machine.
        assert!(longest < Duration::from_millis(900), "{longest:?} of {:?}", begin.elapsed());
        let report = told(&exports);
        assert!(report.dropped > 0 && report.sent == 0, "{report:?}");
        if url != silent {
            let begin = Instant::now();
            let report = exports.finish().otlp.expect("there is a receiver");
            assert_eq!(report.dropped + report.given_up + report.waiting, pushed, "{report:?}");
            assert!(report.error.is_some_and(|why| why.contains("nothing listens there")));
            assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        } else {
            // Its try may still last: the test does not wait for it.
            std::mem::forget(exports);
        }
    }
    assert_eq!(fields(&[]).count(), 0);
}
