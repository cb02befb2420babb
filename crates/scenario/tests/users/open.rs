//! Iterations that begin at times of their own keep to them even if the server stalls.

use crate::server::{Server, answer};
use crate::{Told, go, plan};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_load::{Profile, Stretch};
use weir_scenario::behaviour::{Ask, Wants};
use weir_scenario::executors::Executor;
use weir_scenario::metrics::Builtin;

fn arrivals(rate_per_s: f64, seconds: f64, users_max: u32) -> Executor {
    let duration = Duration::from_secs_f64(seconds);
    let stretch = Stretch { from_per_s: rate_per_s, to_per_s: rate_per_s, duration };
    let profile = Arc::new(Profile::new(&[stretch]).expect("a profile"));
    Executor::Arrivals { profile, users: users_max, users_max }
}

/// A server that answers at once, but for a second in the middle: 200 arrivals a second, of which those within the stall
/// wait for its end. So of 600 latencies 200 lie evenly between 0 and 1 s.
#[test]
fn a_stall_is_told_as_long_as_it_was() {
    let mut seen = Vec::new();
    for _ in 0..5 {
        let begin: Arc<Mutex<Option<Instant>>> = Arc::default();
        let server = Server::start({
            let begin = Arc::clone(&begin);
            move |_| {
                let since = begin.lock().expect("no panic").get_or_insert_with(Instant::now).elapsed();
                let (from, to) = (Duration::from_secs(1), Duration::from_secs(2));
                if (from..to).contains(&since) {
                    std::thread::sleep(to - since);
                }
                answer("200 OK", &[], "x")
            }
        });
        let ask = Ask::get(server.url("/"));
        let (report, _, metrics) = go(plan(arrivals(200.0, 3.0, 600)), move |news| match news {
            Told::Begins(_) => Wants::Ask(vec![ask.clone()]),
            _ => Wants::Over(Ok(())),
        });
        assert_eq!((report.scenarios[0].finished, report.scenarios[0].dropped), (600, 0));
        let metrics = metrics.lock();
        let trend = metrics[Builtin::HttpReqLatency.id()].whole.trend().expect("a trend");
        // A share q of all lies above: the stall's part is a third, evenly spread.
        let wanted: Vec<f64> = [80.0, 90.0, 95.0, 99.0].map(|p: f64| 1000.0 * (1.0 - (100.0 - p) * 3.0 / 100.0)).into();
        let told: Vec<f64> = [80.0, 90.0, 95.0, 99.0].map(|p| trend.percentile(p)).into();
        let right = wanted.iter().zip(&told).all(|(wanted, told)| (told - wanted).abs() <= wanted * 0.05);
        if right && trend.percentile(50.0) < 50.0 {
            return;
        }
        seen.push((wanted, told, trend.percentile(50.0)));
    }
    panic!("{seen:?}");
}

#[test]
fn iterations_without_a_user_are_counted() {
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_millis(500));
        answer("200 OK", &[], "x")
    });
    let ask = Ask::get(server.url("/"));
    let (report, _, _) = go(plan(arrivals(100.0, 0.5, 5)), move |news| match news {
        Told::Begins(_) => Wants::Ask(vec![ask.clone()]),
        _ => Wants::Over(Ok(())),
    });
    let counts = &report.scenarios[0];
    assert_eq!((counts.begun + counts.dropped, counts.begun), (50, 5));
}
