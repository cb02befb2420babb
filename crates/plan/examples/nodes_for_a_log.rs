//! How many nodes serve the requests of an access log in time, at 1, 10 and 100 times the traffic.
//!
//! A request takes a node 2 ms and 20 ns for each byte of its response; 95 % of the requests should take less than 50 ms.
//! For each number of requests the program prints the plan that needs the fewest nodes, and of those the least storage.
//!
//! `cargo run --release -p weir-plan --example nodes_for_a_log -- access.log`

use std::fs::File;
use weir_plan::{Cluster, Limits, Log, Scenario, Service, Within, search};

const LIMITS: Limits = Limits { share: 0.95, limit_ns: 50_000_000, nodes_max: 64 };

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: nodes_for_a_log ACCESS_LOG")?;
    let file = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
    let log = Log::read([(path, file)]).map_err(|(name, error)| format!("{name}: {error}"))?;
    println!(
        "{} requests in {} s for {} objects of {} bytes; {} lines left out",
        log.requests(),
        log.duration_s(),
        log.objects().len() - 1, // The first one stands for requests that failed.
        log.bytes(),
        log.left_out().count()
    );

    let service = Service::new(2e6, 20.0);
    let cluster = Cluster { limit_ns: Some(LIMITS.limit_ns), ..Cluster::new(1) };
    for growth in [1.0, 10.0, 100.0] {
        let scenario = Scenario::new(&log, &service, growth, Within::Random, 1..=3);
        let found = search(&scenario, &cluster, LIMITS);
        let Some(best) = found.best.map(|place| &found.tried[place]) else {
            println!("{growth:>3} times the requests: {} nodes are not enough", LIMITS.nodes_max);
            continue;
        };
        println!(
            "{growth:>3} times the requests: {} nodes, placement {}, {:.0} bytes on all of them, 95 % below {:.1} ms",
            best.nodes,
            best.policy,
            best.figures.storage.mean,
            best.figures.response_p95_ns.high / 1e6
        );
    }
    Ok(())
}
