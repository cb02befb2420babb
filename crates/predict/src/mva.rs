//! Closed queueing networks in product form, solved exactly or approximately.
//!
//! Sources: Reiser and Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks", JACM 27 (1980); Buzen,
//! "Computational Algorithms for Closed Queueing Networks", CACM 16 (1973), for stations with several servers, which
//! the recursion over means solves unstably; Schweitzer (1979) and Bard (1979) for the approximation.

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
