//! Closed queueing networks in product form, solved exactly or approximately.
//!
//! Sources: Reiser and Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks", JACM 27 (1980); Buzen,
//! "Computational Algorithms for Closed Queueing Networks", CACM 16 (1973), for stations with several servers, which
//! the recursion over means solves unstably; Schweitzer (1979) and Bard (1979) for the approximation; Chandy and Neuse,
//! "Linearizer: A Heuristic Algorithm for Queueing Network Models of Computing Systems", CACM 25 (1982), for the better
//! one.

/// What a network does.
#[derive(Debug, Clone, PartialEq)]
pub struct Closed {
    /// Throughput of each class, passes a nanosecond.
    pub throughput: Vec<f64>,
    /// Residence of each class at each station, nanoseconds of each pass.
    pub residence_ns: Vec<Vec<f64>>,
}

/// Steps of an exact solution, at most: populations times stations.
pub const MOST_STEPS: usize = 4_000_000;
const MOST_ROUNDS: usize = 10_000;
/// Customers of one class, at most.
pub const MOST_CUSTOMERS: usize = 2_000;

/// Exact mean-value analysis of classes with so many customers, think times and demands at single-server stations,
/// nanoseconds; `None` where that takes more than [`MOST_STEPS`].
///
/// The demands are by class, then by station.
#[must_use]
pub fn exact(customers: &[usize], think_ns: &[f64], demands_ns: &[Vec<f64>]) -> Option<Closed> {
    let stations = demands_ns.first().map_or(0, Vec::len);
    let sizes: Vec<usize> = customers.iter().map(|count| count + 1).collect();
    let states = sizes.iter().try_fold(1usize, |all, size| all.checked_mul(*size))?;
    let steps = states.checked_mul(stations.max(1))?.checked_mul(customers.len().max(1))?;
    if steps > MOST_STEPS {
        return None;
    }
    // The mean queues at every population, which is counted as a number of mixed radix.
    let mut queues = vec![0.0; states * stations];
    let mut last =
        Closed { throughput: vec![0.0; customers.len()], residence_ns: vec![vec![0.0; stations]; customers.len()] };
    for state in 1..states {
        let (mut rest, mut weight) = (state, 1);
        let mut queue = vec![0.0; stations];
        for (class, size) in sizes.iter().enumerate() {
            let count = rest % size;
            if count > 0 {
                let before = &queues[(state - weight) * stations..(state - weight + 1) * stations];
                let residence: Vec<f64> =
                    demands_ns[class].iter().zip(before).map(|(demand, queue)| demand * (1.0 + queue)).collect();
                let whole = think_ns[class] + residence.iter().sum::<f64>();
                let throughput = if whole > 0.0 { count as f64 / whole } else { 0.0 };
                queue.iter_mut().zip(&residence).for_each(|(queue, ns)| *queue += throughput * ns);
                (last.throughput[class], last.residence_ns[class]) = (throughput, residence);
            }
            (rest, weight) = (rest / size, weight * size);
        }
        queues[state * stations..(state + 1) * stations].copy_from_slice(&queue);
    }
    Some(last)
}

/// The exact solution, or Linearizer's where that takes more than [`MOST_STEPS`].
#[must_use]
pub fn solved(customers: &[usize], think_ns: &[f64], demands_ns: &[Vec<f64>]) -> Closed {
    exact(customers, think_ns, demands_ns).unwrap_or_else(|| linearizer(customers, think_ns, demands_ns))
}

/// The approximation of Bard and Schweitzer for the same networks, for any number of customers.
#[must_use]
pub fn approximate(customers: &[f64], think_ns: &[f64], demands_ns: &[Vec<f64>]) -> Closed {
    let stations = demands_ns.first().map_or(0, Vec::len);
    let classes = customers.len();
    let mut queue: Vec<Vec<f64>> =
        customers.iter().map(|count| vec![count / stations.max(1) as f64; stations]).collect();
    let mut solved = Closed { throughput: vec![0.0; classes], residence_ns: vec![vec![0.0; stations]; classes] };
    for _ in 0..MOST_ROUNDS {
        let mut moved = 0.0f64;
        let all: Vec<f64> = (0..stations).map(|at| queue.iter().map(|queue| queue[at]).sum()).collect();
        for class in 0..classes {
            let count = customers[class].max(1e-12);
            for at in 0..stations {
                let seen = (all[at] - queue[class][at] / count).max(0.0);
                solved.residence_ns[class][at] = demands_ns[class][at] * (1.0 + seen);
            }
            let whole = think_ns[class] + solved.residence_ns[class].iter().sum::<f64>();
            solved.throughput[class] = if whole > 0.0 { customers[class] / whole } else { 0.0 };
        }
        for ((queue, residence), throughput) in queue.iter_mut().zip(&solved.residence_ns).zip(&solved.throughput) {
            for (queue, ns) in queue.iter_mut().zip(residence) {
                let new = throughput * ns;
                moved = moved.max((new - *queue).abs());
                *queue = new;
            }
        }
        if moved < 1e-9 {
            break;
        }
    }
    solved
}

/// Rounds in which Linearizer corrects what one customer fewer changes; its authors found three to suffice.
const CORRECTIONS: usize = 3;

/// Chandy and Neuse's Linearizer for the same networks: as [`approximate`], but what each class's share of a queue
/// becomes with one customer fewer is itself found out, not taken as the same.
#[must_use]
pub fn linearizer(customers: &[usize], think_ns: &[f64], demands_ns: &[Vec<f64>]) -> Closed {
    let (classes, stations) = (customers.len(), demands_ns.first().map_or(0, Vec::len));
    let network = Network { think_ns, demands_ns };
    // By the class that has one customer fewer, then by class, then by station: how its share of the queue differs.
    let mut changes = vec![vec![vec![0.0; stations]; classes]; classes];
    let evenly = |customers: &[usize]| -> Vec<Vec<f64>> {
        customers.iter().map(|count| vec![*count as f64 / stations.max(1) as f64; stations]).collect()
    };
    let fewer: Vec<Vec<usize>> = (0..classes)
        .map(|one| {
            customers.iter().enumerate().map(|(at, count)| count.saturating_sub(usize::from(at == one))).collect()
        })
        .collect();
    let mut whole = evenly(customers);
    let mut parts: Vec<Vec<Vec<f64>>> = fewer.iter().map(|customers| evenly(customers)).collect();
    for _ in 0..CORRECTIONS {
        network.core(customers, &changes, &mut whole);
        for (customers, queues) in fewer.iter().zip(&mut parts) {
            network.core(customers, &changes, queues);
        }
        for ((change, customers_then), queues) in changes.iter_mut().zip(&fewer).zip(&parts) {
            for (class, change) in change.iter_mut().enumerate() {
                let share = |queues: &[Vec<f64>], count: usize, at: usize| {
                    if count > 0 { queues[class][at] / count as f64 } else { 0.0 }
                };
                let (now, then) = (customers[class], customers_then[class]);
                for (at, change) in change.iter_mut().enumerate() {
                    *change = if then > 0 { share(queues, then, at) - share(&whole, now, at) } else { 0.0 };
                }
            }
        }
    }
    network.core(customers, &changes, &mut whole)
}

struct Network<'a> {
    think_ns: &'a [f64],
    demands_ns: &'a [Vec<f64>],
}

impl Network<'_> {
    /// Queues of so many customers, given what their shares become with one customer fewer.
    fn core(&self, customers: &[usize], changes: &[Vec<Vec<f64>>], queues: &mut [Vec<f64>]) -> Closed {
        let (classes, stations) = (customers.len(), self.demands_ns.first().map_or(0, Vec::len));
        let mut solved = Closed { throughput: vec![0.0; classes], residence_ns: vec![vec![0.0; stations]; classes] };
        for _ in 0..MOST_ROUNDS {
            let mut moved = 0.0f64;
            for (class, change) in changes.iter().enumerate().take(classes) {
                for at in 0..stations {
                    // What a customer that comes finds: the queue of all others.
                    let found: f64 = (0..classes)
                        .filter(|other| customers[*other] > 0)
                        .map(|other| {
                            let count = customers[other] as f64;
                            let others = count - f64::from(u8::from(other == class));
                            (others * (queues[other][at] / count + change[other][at])).max(0.0)
                        })
                        .sum();
                    solved.residence_ns[class][at] = self.demands_ns[class][at] * (1.0 + found);
                }
                let whole_ns = self.think_ns[class] + solved.residence_ns[class].iter().sum::<f64>();
                solved.throughput[class] = if whole_ns > 0.0 { customers[class] as f64 / whole_ns } else { 0.0 };
            }
            for ((queues, residence), throughput) in queues.iter_mut().zip(&solved.residence_ns).zip(&solved.throughput)
            {
                for (queue, ns) in queues.iter_mut().zip(residence) {
                    let new = throughput * ns;
                    moved = moved.max((new - *queue).abs());
                    *queue = new;
                }
            }
            if moved < 1e-9 {
                break;
            }
        }
        solved
    }
}

/// A station of [`convolution`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Servers {
    /// Service of each pass, nanoseconds.
    pub demand_ns: f64,
    /// Servers; `None`: as many as are needed, a pure delay.
    pub servers: Option<u32>,
}

/// One class with stations of any number of servers, by convolution; exact. Customers beyond [`MOST_CUSTOMERS`] are not
/// counted.
#[must_use]
pub fn convolution(customers: usize, stations: &[Servers]) -> Closed {
    let customers = customers.min(MOST_CUSTOMERS);
    // Demands by their largest, so that no product leaves what a number holds before it is scaled again.
    let scale = stations.iter().map(|station| station.demand_ns).fold(0.0, f64::max).max(1e-300);
    let factors: Vec<Scaled> = stations.iter().map(|station| factors(customers, *station, scale)).collect();
    let mut before = vec![Scaled::one(customers)];
    for factor in &factors {
        let next = before[before.len() - 1].convolved(factor);
        before.push(next);
    }
    let mut after = Scaled::one(customers);
    let whole = before[before.len() - 1].clone();
    let throughput = if customers == 0 { 0.0 } else { whole.ratio(customers - 1, customers) / scale };
    let mut residence = vec![0.0; stations.len()];
    for (at, factor) in factors.iter().enumerate().rev() {
        let others = before[at].convolved(&after);
        let mut queue = 0.0;
        for count in 1..=customers {
            let log = factor.logs[count] + others.logs[customers - count] - whole.logs[customers];
            queue += count as f64 * log.exp();
        }
        residence[at] = if throughput > 0.0 { queue / throughput } else { 0.0 };
        after = after.convolved(factor);
    }
    Closed { throughput: vec![throughput], residence_ns: vec![residence] }
}

/// Numbers by their logarithms.
#[derive(Debug, Clone)]
struct Scaled {
    logs: Vec<f64>,
}

impl Scaled {
    fn one(customers: usize) -> Self {
        let mut logs = vec![f64::NEG_INFINITY; customers + 1];
        logs[0] = 0.0;
        Self { logs }
    }

    fn ratio(&self, above: usize, below: usize) -> f64 {
        (self.logs[above] - self.logs[below]).exp()
    }

    fn convolved(&self, other: &Self) -> Self {
        let logs = (0..self.logs.len()).map(|count| {
            let terms = (0..=count).map(|part| self.logs[part] + other.logs[count - part]);
            let most = terms.clone().fold(f64::NEG_INFINITY, f64::max);
            if most == f64::NEG_INFINITY {
                return most;
            }
            most + terms.map(|term| (term - most).exp()).sum::<f64>().ln()
        });
        Self { logs: logs.collect() }
    }
}

fn factors(customers: usize, station: Servers, scale: f64) -> Scaled {
    let log_demand = (station.demand_ns / scale).ln();
    let (mut log, mut logs) = (0.0, Vec::with_capacity(customers + 1));
    logs.push(0.0);
    for count in 1..=customers {
        let busy = station.servers.map_or(count, |servers| count.min(servers.max(1) as usize));
        log += log_demand - (busy as f64).ln();
        logs.push(log);
    }
    Scaled { logs }
}
