//! Pools above CPUs, solved layer by layer until the layers agree.
//!
//! After Rolia and Sevcik, "The Method of Layers", IEEE Transactions on Software Engineering 21 (1995): the upper
//! layer has requests that wait for workers, whose service is what the lower one takes for those that have one; the
//! lower layer has as many customers as workers are busy, at the CPUs and in delays.

use crate::demand::{Demand, Station, demand};
use crate::mva::{MOST_CUSTOMERS, Servers, convolution};
use crate::trace::Trace;
use weir_measure::queueing::erlang_c;

const MOST_ROUNDS: usize = 200;

/// What the layers agree on.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Solved {
    /// Responses a second.
    pub throughput_per_s: f64,
    /// The mean response, nanoseconds; infinite where more comes than is served.
    pub mean_ns: f64,
    /// Utilisation of the CPUs, 0 to 1.
    pub cpu: f64,
}

/// Solves a trace for a rate, or for its clients where that is `None`.
pub(crate) fn solve(trace: &Trace, rate_per_s: Option<f64>) -> Solved {
    let demand = demand(trace);
    match (rate_per_s, trace.clients) {
        (Some(rate), _) => open(trace, &demand, rate),
        (None, clients) => closed(trace, &demand, clients.unwrap_or(1)),
    }
}

/// A limit above the CPUs.
struct Limit {
    servers: u32,
    /// Its service where nothing waits for a CPU, in nanoseconds.
    alone_ns: f64,
    /// How much of its service waits for CPUs stretch, 0 to 1.
    share: f64,
}

impl Limit {
    /// The service while each nanosecond at the CPUs takes so many.
    fn service_ns(&self, stretch: f64) -> f64 {
        self.alone_ns * (1.0 + self.share * (stretch - 1.0))
    }
}

fn limits(trace: &Trace, demand: &Demand) -> Vec<Limit> {
    let above = demand.stations.iter().filter(|station| station.name != "CPU");
    let limit = |station: &Station| {
        // A disk works without CPUs.
        let is_disk = trace.disks.iter().any(|disk| disk.name == station.name);
        let share = if is_disk { 0.0 } else { (demand.cpu_ns() / station.demand_ns.max(1.0)).min(1.0) };
        Limit { servers: station.servers, alone_ns: station.demand_ns, share }
    };
    above.map(limit).collect()
}

fn open(trace: &Trace, demand: &Demand, rate_per_s: f64) -> Solved {
    let rate = rate_per_s / 1e9;
    let cpus = trace.cpus.max(1);
    let load = rate * demand.cpu_ns();
    let cpu = load / f64::from(cpus);
    let full =
        Solved { throughput_per_s: demand.most_per_s().min(rate_per_s), mean_ns: f64::INFINITY, cpu: cpu.min(1.0) };
    if load >= f64::from(cpus) {
        return full;
    }
    // Each nanosecond at the CPUs takes so many, as at a station that serves in turns.
    let stretch = 1.0 + erlang_c(cpus, load) / (f64::from(cpus) - load);
    let mut mean_ns = demand.alone_ns() + (stretch - 1.0) * (demand.on_the_way_ns + demand.client_ns / 2.0);
    let variation = variation(trace);
    for limit in limits(trace, demand) {
        let (servers, service_ns) = (limit.servers, limit.service_ns(stretch));
        let busy = rate * service_ns;
        if busy >= f64::from(servers) {
            return full;
        }
        mean_ns += variation * erlang_c(servers, busy) * service_ns / (f64::from(servers) - busy);
    }
    Solved { throughput_per_s: rate_per_s, mean_ns, cpu }
}

/// What a wait at workers is of one with exponential service, for Poisson arrivals: half of one and the squared
/// coefficient of variation of the requests' own times (Allen and Cunneen; exact for one worker, by Pollaczek and
/// Khinchine).
fn variation(trace: &Trace) -> f64 {
    let count = trace.requests.len().max(1) as f64;
    let times = trace.requests.iter().map(|request| request.visits.iter().map(|visit| visit.ns).sum::<f64>());
    let (sum, squares) = times.fold((0.0, 0.0), |(sum, squares), ns| (sum + ns, squares + ns * ns));
    let mean = sum / count;
    if mean > 0.0 { (1.0 + (squares / count / (mean * mean) - 1.0).max(0.0)) / 2.0 } else { 1.0 }
}

fn closed(trace: &Trace, demand: &Demand, clients: u32) -> Solved {
    let clients = (clients as usize).min(MOST_CUSTOMERS);
    let cpus = trace.cpus.max(1);
    let cpu_ns = demand.cpu_ns();
    let delay_ns = demand.delay_ns + demand.others_ns + trace.think_ns;
    // Within all workers requests contend for CPUs; above them they wait for workers.
    let limits = limits(trace, demand);
    let fewest = limits.iter().map(|limit| limit.servers as usize).min();
    let inner = fewest.unwrap_or(clients).clamp(1, clients.max(1));
    let mut busy = inner as f64;
    let mut solved = Solved { throughput_per_s: 0.0, mean_ns: 0.0, cpu: 0.0 };
    for _ in 0..MOST_ROUNDS {
        let customers = busy.round().clamp(1.0, clients.max(1) as f64) as usize;
        let stations =
            [Servers { demand_ns: cpu_ns, servers: Some(cpus) }, Servers { demand_ns: delay_ns, servers: None }];
        let lower = convolution(customers, &stations);
        let stretch = (lower.residence_ns[0][0] / demand.cpu_ns().max(1e-9)).max(1.0);
        let mut upper: Vec<Servers> = Vec::new();
        let mut within_ns = 0.0f64;
        for limit in &limits {
            let demand_ns = limit.service_ns(stretch);
            if (limit.servers as usize) < clients {
                within_ns = within_ns.max(demand_ns);
                upper.push(Servers { demand_ns, servers: Some(limit.servers) });
            }
        }
        let alone_ns = lower.residence_ns[0][0] + delay_ns;
        upper.push(Servers { demand_ns: (alone_ns - within_ns).max(0.0), servers: None });
        let above = convolution(clients, &upper);
        let throughput = above.throughput[0];
        let next = (throughput * alone_ns).clamp(1.0, clients.max(1) as f64);
        let mean_ns = clients as f64 / throughput - trace.think_ns - demand.behind_ns - demand.client_ns / 2.0;
        solved = Solved {
            throughput_per_s: throughput * 1e9,
            mean_ns: mean_ns.max(0.0),
            cpu: (throughput * cpu_ns / f64::from(cpus)).min(1.0),
        };
        if (next - busy).abs() < 1e-3 {
            break;
        }
        busy = busy.midpoint(next);
    }
    solved
}
