//! What requests did, without their waits for what other requests had.

/// How a pool's tasks serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// A task has one request from its beginning to its end: worker processes, threads of a pool.
    Holding,
    /// A task has many requests at once and works on one at a time: event loops.
    Looping,
}

/// Tasks of one name that serve requests.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Pool {
    /// Their name.
    pub name: String,
    /// How they serve.
    pub service: Service,
    /// How many there are, at least 1.
    pub workers: u32,
    /// Whether more requests than workers have to wait; otherwise workers are made as they are needed.
    pub is_limit: bool,
    /// CPU time that each visit costs a task after its response, nanoseconds.
    pub after_ns: f64,
    /// How long a visit keeps a task behind its response although it needs no CPU, nanoseconds: the client's last word on
    /// a connection, a slow log.
    pub held_ns: f64,
}

impl Pool {
    /// How long a visit has a task behind its response, nanoseconds: CPU time of loops, whose tasks serve others
    /// meanwhile.
    pub(crate) fn behind_ns(&self) -> f64 {
        if self.service == Service::Holding { self.after_ns + self.held_ns } else { self.after_ns }
    }
}

/// A disk that requests wait for.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// On how many requests it works at once, at least 1.
    pub servers: u32,
}

/// What a visit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A task runs; how long it waits for a CPU is the model's matter.
    Cpu,
    /// A task waits for a CPU that another program has: as long as it had it, which its priority tells better than what
    /// else it used. A worker serves no other request meanwhile.
    Others,
    /// A disk works: a number of [`Trace::disks`]. The task serves no other request meanwhile.
    Disk(u16),
    /// Time that passes by itself: a sleep, the network, a process that was not recorded, a disk of which no queue was
    /// seen.
    Delay,
}

/// A stretch of a request's way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Visit {
    /// The pools that the request is in meanwhile, the outermost first, as a number of [`Trace::stacks`].
    pub stack: u16,
    /// What it is.
    pub work: Work,
    /// The lock that it holds and other requests wait for: a number of [`Trace::locks`].
    pub lock: Option<u16>,
    /// How long it takes alone, nanoseconds.
    pub ns: f64,
    /// What it was called: a number of [`Trace::labels`].
    pub label: u16,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    /// When it was intended, nanoseconds.
    pub at_ns: u64,
    /// What its response took, nanoseconds.
    pub response_ns: f64,
    /// Its class: a number of [`Trace::classes`].
    pub class: u16,
    /// Its way.
    pub visits: Vec<Visit>,
}

/// What a trace tells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// CPUs that the server and its client had, at least 1.
    pub cpus: u32,
    /// CPUs of these that the server's tasks are kept to; `None`: all.
    pub server_cpus: Option<u32>,
    /// Pools.
    pub pools: Vec<Pool>,
    /// The stacks of pools that visits are in; 0 is the empty one.
    pub stacks: Vec<Vec<u16>>,
    /// Labels of visits, such as `postgres:run`.
    pub labels: Vec<String>,
    /// Locks.
    pub locks: Vec<String>,
    /// Disks that had a queue.
    pub disks: Vec<Disk>,
    /// Classes of requests.
    pub classes: Vec<String>,
    /// Requests by the time at which they were intended.
    pub requests: Vec<Request>,
    /// Clients that ask one request after the other; `None` where requests come by a schedule.
    pub clients: Option<u32>,
    /// How long such a client pauses between a response and its next request, nanoseconds.
    pub think_ns: f64,
    /// Connections of the client, each with one request at a time; `None` where that is no limit.
    pub connections: Option<u32>,
    /// Whether a request of a kept-alive connection waits for the task that has the connection.
    pub kept_alive: bool,
    /// CPU time of the client on these CPUs, nanoseconds of each request, and its threads.
    pub client_ns: f64,
    /// Threads of that client.
    pub client_threads: u32,
    /// Requests that failed or were not joined.
    pub left_out: u64,
    /// Requests of disks of which only the whole time is known, as more had come before than are kept.
    pub untold_disk_requests: u64,
}

/// Waits for other programs matter from this share of the responses on: a server whose requests lose less to them is no
/// other server without them, as far as the runs of `studies/predict` repeat.
const OF_OTHERS: f64 = 0.05;

impl Trace {
    /// Requests of each disk whose queue is told; those that come later are counted.
    pub const DISK_REQUESTS_MAX: usize = 1 << 18;

    /// Whether waits of so many nanoseconds of each request, for CPUs that other programs had, matter beside the responses.
    pub(crate) fn others_matter(&self, others_ns: f64) -> bool {
        let responses_ns: f64 = self.requests.iter().map(|request| request.response_ns).sum();
        others_ns * self.requests.len() as f64 > OF_OTHERS * responses_ns
    }

    /// The number of a stack of pools; 0, the empty one, when there are too many.
    pub fn stack(&mut self, pools: &[u16]) -> u16 {
        number_of(&mut self.stacks, pools, |known, pools| known.as_slice() == pools, <[u16]>::to_vec)
    }

    /// The number of a label; 0 when there are too many.
    pub fn label(&mut self, text: &str) -> u16 {
        number_of(&mut self.labels, text, |known, text| known == text, str::to_owned)
    }

    /// The number of a class; 0 when there are too many.
    pub fn class(&mut self, text: &str) -> u16 {
        number_of(&mut self.classes, text, |known, text| known == text, str::to_owned)
    }

    /// How long a mean request waits for CPUs that other programs have, nanoseconds.
    #[must_use]
    pub fn others_ns(&self) -> f64 {
        let visits = self.requests.iter().flat_map(|request| &request.visits);
        let waits = visits.filter(|visit| visit.work == Work::Others).map(|visit| visit.ns);
        waits.sum::<f64>() / self.requests.len().max(1) as f64
    }

    /// How often requests entered each pool, all together.
    #[must_use]
    pub fn visits_of_pools(&self) -> Vec<f64> {
        let mut entered = vec![0.0; self.pools.len()];
        for request in &self.requests {
            let mut before: &[u16] = &[];
            for visit in &request.visits {
                let stack = self.stacks.get(usize::from(visit.stack)).map_or(&[][..], Vec::as_slice);
                let common = before.iter().zip(stack).take_while(|(one, other)| one == other).count();
                for pool in &stack[common..] {
                    entered.get_mut(usize::from(*pool)).into_iter().for_each(|count| *count += 1.0);
                }
                before = stack;
            }
        }
        entered
    }

    /// Seconds from the first to the last request.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let ends = self.requests.first().zip(self.requests.last());
        ends.map_or(0.0, |(first, last)| last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9)
    }

    /// Requests a second.
    #[must_use]
    pub fn rate_per_s(&self) -> f64 {
        let seconds = self.seconds();
        if seconds > 0.0 { (self.requests.len() - 1) as f64 / seconds } else { 0.0 }
    }
}

/// At most so many of each sort.
const MOST: usize = 4096;

fn number_of<T, Q: ?Sized>(all: &mut Vec<T>, one: &Q, is: impl Fn(&T, &Q) -> bool, own: impl Fn(&Q) -> T) -> u16 {
    if let Some(at) = all.iter().position(|known| is(known, one)) {
        return at as u16;
    }
    if all.len() >= MOST {
        return 0;
    }
    all.push(own(one));
    (all.len() - 1) as u16
}
