//! Arrivals whose rate changes, that come in bursts, or that were recorded: as they were sent.
// scripts/test: punctual

mod server;

use server::{Server, load_with_events};
use std::sync::Arc;
use std::time::Duration;
use weir_load::{ListedRequest, Options, Order, Profile, Request, Schedule, StopRule, Stretch};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// The intended times of all requests, from the first one on, in milliseconds, and their names.
fn sent(options: Options) -> Vec<(u64, u32)> {
    let (report, _, requests) = load_with_events(options);
    assert_eq!((report.requests, report.failures(), report.dropped), (requests.len() as u64, 0, 0));
    let mut times: Vec<_> = requests.iter().map(|request| (request.intended_ns, request.name)).collect();
    times.sort_unstable();
    let first = times[0].0;
    times.iter().map(|(time_ns, name)| ((time_ns - first) / 1_000_000, *name)).collect()
}

#[test]
fn rates_change_when_they_are_to() {
    let server = Server::answering(OK);
    let stretch = |from_per_s, to_per_s| Stretch { from_per_s, to_per_s, duration: Duration::from_millis(500) };
    let profile = Profile::new(&[stretch(100.0, 100.0), stretch(0.0, 0.0), stretch(100.0, 300.0)]).expect("a profile");
    let mut options = server.options(1);
    options.connections = 10;
    options.stop = StopRule::Duration(profile.duration());
    options.schedule = Schedule::Changing { profile: Arc::new(profile), poisson: None };
    let times = sent(options);
    let within = |from, to| times.iter().filter(|(time, _)| (from..to).contains(time)).count();
    // In its first quarter of a second the ramp has 100 * 0.25 + 400 / 2 * 0.25^2 = 37.5 arrivals.
    assert_eq!((times.len(), within(0, 500), within(500, 1000)), (150, 50, 0));
    assert!((37..=38).contains(&within(1000, 1250)), "{}", within(1000, 1250));
}

#[test]
fn bursts_are_sent_together() {
    let server = Server::answering(OK);
    let mut options = server.options(10);
    options.connections = 10;
    options.schedule = Schedule::Bursts { size: 4, every: Duration::from_millis(100) };
    let times: Vec<_> = sent(options).into_iter().map(|(time, _)| time).collect();
    assert_eq!(times, [0, 0, 0, 0, 100, 100, 100, 100, 200, 200]);
}

#[test]
fn what_was_recorded_is_asked_at_its_time() {
    for threads in [1, 2] {
        let server = Server::answering(OK);
        let mut options = server.options(1000);
        options.connections = 4;
        options.threads = threads;
        let listed =
            |name| ListedRequest { url: server.url(), request: Request { name, ..Request::default() }, weight: 1 };
        options.requests.list = vec![listed(7), listed(8)];
        options.requests.order = Order::Listed([0, 1, 1, 0].into());
        options.schedule = Schedule::Recorded([0, 50_000_000, 50_000_000, 300_000_000].into());
        // It ends with the recording, although more was allowed.
        if threads == 1 {
            assert_eq!(sent(options), [(0, 7), (50, 8), (50, 8), (300, 7)]);
        } else {
            assert_eq!(server::load(options).requests, 4);
        }
    }
}
