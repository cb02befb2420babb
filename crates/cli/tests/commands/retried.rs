//! A request that is sent again, because its kept-alive connection ended without an answer: where that time went.

use crate::support;

use support::planted::{explained, first, said};
use support::{alone, number};
use weir_testkit::{Faulty, require};

#[test]
fn the_time_on_a_connection_that_ended_is_not_the_generators() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("misbehave").args(["close-unanswered"]).start().expect("the server starts");
    let port = server.port.to_string();
    let report = explained(&server.url("/"), &["--port", &port, "-c", "1", "-n", "300"]);
    // Each connection answers two, and takes in a third.
    assert_eq!((number(&report, "/requests"), number(&report, "/retried")), (300.0, 149.0), "{report:#}");
    assert!(report["errors"].as_object().is_some_and(serde_json::Map::is_empty), "{}", report["errors"]);
    // The server held each of the 149 for 10 ms.
    let held_ns = 149.0 * 10e6 / 300.0;
    let (connect, generator) = (number(&report, "/parts_ns/connect"), number(&report, "/parts_ns/generator"));
    assert!(connect > held_ns && generator < 0.1 * held_ns, "connect {connect}, generator {generator}");
    let (part, who) = first(&report);
    assert_eq!(part, "connect", "{}", said(&report));
    assert!(who.contains("connection that ended"), "{}", said(&report));
    assert!((number(&report, "/sum_of_parts_over_response/mean") - 1.0).abs() < 1e-9);
}
