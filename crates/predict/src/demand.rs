//! Service demands, the bottleneck, and where it saturates.

use crate::trace::{Service, Trace, Work};
use std::collections::BTreeMap;

/// A station of the model.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Station {
    /// What it is: `CPU`, a pool, a lock, a disk, the client's connections or threads.
    pub name: String,
    /// How many requests it serves at once.
    pub servers: u32,
    /// How long a request has one of these without any wait, nanoseconds.
    pub demand_ns: f64,
    /// Requests a second that it serves at most; it grows without end with a demand of 0.
    pub most_per_s: f64,
}

/// The station that is full first.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Bottleneck {
    /// Its name.
    pub name: String,
    /// Requests a second that it serves at most: the saturation point.
    pub most_per_s: f64,
    /// Its utilisation at the predicted rate, 0 to 1; with clients that ask one after the other at the predicted
    /// throughput.
    pub utilisation: f64,
}

/// Demands of a mean request.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Demand {
    /// Stations with a limit, the one that is full first in front.
    pub stations: Vec<Station>,
    /// CPU time of the request on its way, nanoseconds.
    pub on_the_way_ns: f64,
    /// CPU time behind responses, nanoseconds.
    pub behind_ns: f64,
    /// CPU time of the client, nanoseconds.
    pub client_ns: f64,
    /// How long the request waits for CPUs that other programs have, nanoseconds.
    pub others_ns: f64,
    /// Time of disks, and time that passes by itself, nanoseconds.
    pub delay_ns: f64,
    /// The same by request class, object and phase, the class with the most work in front.
    pub classes: Vec<OfClass>,
}

/// Demands of a mean request of a class.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct OfClass {
    /// The class.
    pub class: String,
    /// Its requests in the run.
    pub requests: usize,
    /// What it asks of which object, the largest in front; at most [`MOST_OBJECTS`], and the rest together.
    pub of: Vec<OfObject>,
}

/// What a mean request of a class asks of an object.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct OfObject {
    /// The process, or the client.
    pub object: String,
    /// The part of its time, and the phase, query, lock or file behind a bar: `run|php:Shop::prices`.
    pub part: String,
    /// The lock that it has meanwhile, if other requests waited for that.
    pub lock: Option<String>,
    /// CPU time, a wait for other programs that have the CPU, a disk's work, or time that passes by itself.
    pub work: Work,
    /// Nanoseconds of a request of this class, without waits for CPUs, workers and known locks.
    pub demand_ns: f64,
}

/// Objects and phases that are told of a class.
pub const MOST_OBJECTS: usize = 40;

impl Demand {
    /// All CPU time, nanoseconds.
    #[must_use]
    pub fn cpu_ns(&self) -> f64 {
        self.on_the_way_ns + self.behind_ns + self.client_ns
    }

    /// The response of a request that finds nothing to wait for, nanoseconds.
    #[must_use]
    pub fn alone_ns(&self) -> f64 {
        self.on_the_way_ns + self.client_ns / 2.0 + self.others_ns + self.delay_ns
    }

    /// Requests a second at which the first station is full.
    #[must_use]
    pub fn most_per_s(&self) -> f64 {
        self.stations.first().map_or(f64::INFINITY, |station| station.most_per_s)
    }
}

/// Adds up a trace.
#[must_use]
pub fn demand(trace: &Trace) -> Demand {
    let count = trace.requests.len().max(1) as f64;
    let mut sums = Sums { held_ns: vec![0.0; trace.pools.len()], ..Sums::default() };
    sums.locks_ns = vec![0.0; trace.locks.len()];
    sums.disks_ns = vec![0.0; trace.disks.len()];
    trace.requests.iter().for_each(|request| sums.add(trace, &request.visits));
    let visits = trace.visits_of_pools();
    let behind_ns: f64 = trace.pools.iter().zip(&visits).map(|(pool, visits)| pool.after_ns * visits / count).sum();
    let (on_the_way_ns, delay_ns, client_ns) = (sums.cpu_ns / count, sums.delay_ns / count, trace.client_ns);
    let others_ns = trace.others_ns();
    let cpu_ns = on_the_way_ns + behind_ns + client_ns;
    let most = |servers: f64, demand_ns: f64| if demand_ns > 0.0 { servers * 1e9 / demand_ns } else { f64::INFINITY };
    let mut stations = vec![Station {
        name: "CPU".to_owned(),
        servers: trace.cpus,
        demand_ns: cpu_ns,
        most_per_s: most(f64::from(trace.cpus), cpu_ns),
    }];
    let mut station = |name: &str, servers: u32, demand_ns: f64| {
        let most_per_s = most(f64::from(servers), demand_ns);
        stations.push(Station { name: name.to_owned(), servers, demand_ns, most_per_s });
    };
    for ((pool, held_ns), visits) in trace.pools.iter().zip(&sums.held_ns).zip(&visits) {
        if pool.is_limit {
            station(&pool.name, pool.workers, (held_ns + pool.behind_ns() * visits) / count);
        }
    }
    for (lock, ns) in trace.locks.iter().zip(&sums.locks_ns) {
        station(lock, 1, ns / count);
    }
    for (disk, ns) in trace.disks.iter().zip(&sums.disks_ns) {
        station(&disk.name, disk.servers, ns / count);
    }
    if let Some(cores) = trace.server_cpus {
        station("the server's CPUs", cores, on_the_way_ns + behind_ns);
    }
    if client_ns > 0.0 {
        station("the client's threads", trace.client_threads.max(1), client_ns);
    }
    if let (Some(connections), None) = (trace.connections, trace.clients) {
        station("the client's connections", connections, on_the_way_ns + delay_ns + client_ns + others_ns);
    }
    stations.sort_by(|one, other| one.most_per_s.total_cmp(&other.most_per_s));
    Demand { stations, on_the_way_ns, behind_ns, client_ns, others_ns, delay_ns, classes: by_class(trace) }
}

/// Nanoseconds by label, lock and work.
type Objects = BTreeMap<(u16, Option<u16>, Work), f64>;

fn by_class(trace: &Trace) -> Vec<OfClass> {
    let mut sums: BTreeMap<u16, (usize, Objects)> = BTreeMap::new();
    for request in &trace.requests {
        let (count, of) = sums.entry(request.class).or_default();
        *count += 1;
        for visit in &request.visits {
            *of.entry((visit.label, visit.lock, visit.work)).or_default() += visit.ns;
        }
    }
    let mut classes: Vec<(f64, OfClass)> = Vec::new();
    for (class, (requests, of)) in sums {
        let all_ns = of.values().sum();
        let mut of: Vec<OfObject> = of
            .into_iter()
            .map(|((label, lock, work), ns)| {
                let label = trace.labels.get(usize::from(label)).map_or("", String::as_str);
                let (object, part) = label.split_once(':').unwrap_or((label, ""));
                let lock = lock.and_then(|lock| trace.locks.get(usize::from(lock)).cloned());
                let demand_ns = ns / requests as f64;
                OfObject { object: object.to_owned(), part: part.to_owned(), lock, work, demand_ns }
            })
            .collect();
        of.sort_by(|one, other| other.demand_ns.total_cmp(&one.demand_ns));
        if of.len() > MOST_OBJECTS {
            let demand_ns = of.drain(MOST_OBJECTS..).map(|of| of.demand_ns).sum();
            let (object, part) = ("others".to_owned(), "all".to_owned());
            of.push(OfObject { object, part, lock: None, work: Work::Delay, demand_ns });
        }
        let class = trace.classes.get(usize::from(class)).cloned().unwrap_or_default();
        classes.push((all_ns, OfClass { class, requests, of }));
    }
    classes.sort_by(|one, other| other.0.total_cmp(&one.0));
    classes.into_iter().map(|(_, class)| class).collect()
}

#[derive(Debug, Default)]
struct Sums {
    cpu_ns: f64,
    delay_ns: f64,
    /// How long pools have requests: of loops the CPU time, of others all.
    held_ns: Vec<f64>,
    locks_ns: Vec<f64>,
    disks_ns: Vec<f64>,
}

impl Sums {
    fn add(&mut self, trace: &Trace, visits: &[crate::trace::Visit]) {
        for visit in visits {
            match visit.work {
                Work::Cpu => self.cpu_ns += visit.ns,
                Work::Others => {}
                Work::Disk(disk) => {
                    self.delay_ns += visit.ns;
                    self.disks_ns.get_mut(usize::from(disk)).into_iter().for_each(|sum| *sum += visit.ns);
                }
                Work::Delay => self.delay_ns += visit.ns,
            }
            if let Some(sum) = visit.lock.and_then(|lock| self.locks_ns.get_mut(usize::from(lock))) {
                *sum += visit.ns;
            }
            let stack = trace.stacks.get(usize::from(visit.stack)).map_or(&[][..], Vec::as_slice);
            for (depth, pool) in stack.iter().enumerate() {
                let at = usize::from(*pool);
                let is_its_work = depth + 1 == stack.len() && matches!(visit.work, Work::Cpu | Work::Disk(_));
                if trace.pools[at].service == Service::Holding || is_its_work {
                    self.held_ns[at] += visit.ns;
                }
            }
        }
    }
}
