//! Limits of concurrency by others: what they do with a crowd that one can only refuse or outgrow.

use crate::policy::Policy;

/// Envoy's gradient controller (its documentation, "Adaptive Concurrency", with the values of its example and defaults):
/// `gradient = (minRTT + 25 %) / sampleRTT` within 0.5 and 2, `limit = gradient * limit + sqrt(limit)`.
pub(crate) struct Gradient {
    nodes: Vec<GradientNode>,
}

/// Nanoseconds between two updates of a limit, and between two measurements of the smallest latency.
const UPDATE_NS: u64 = 100_000_000;
const MIN_RTT_EVERY_NS: u64 = 60_000_000_000;
/// Requests by which it is measured, and how many may be under way meanwhile; this is the smallest limit as well.
const MIN_RTT_REQUESTS: usize = 50;
const MIN_CONCURRENCY: f64 = 3.0;
const MAX_CONCURRENCY: f64 = 1000.0;
const BUFFER: f64 = 0.25;
/// Updates at the smallest limit in a row after which the smallest latency is measured anew.
const AT_MINIMUM_MAX: u32 = 5;

struct GradientNode {
    limit: f64,
    /// The smallest latency, nanoseconds; none while it is measured.
    min_rtt_ns: Option<f64>,
    measured_ns: u64,
    updated_ns: u64,
    samples: Vec<u64>,
    at_minimum: u32,
}

impl Gradient {
    pub(crate) fn new(nodes: usize) -> Self {
        let node = || GradientNode {
            limit: MIN_CONCURRENCY,
            min_rtt_ns: None,
            measured_ns: 0,
            updated_ns: 0,
            samples: Vec::new(),
            at_minimum: 0,
        };
        Self { nodes: (0..nodes).map(|_| node()).collect() }
    }
}

/// The middle one.
fn median(samples: &mut [u64]) -> f64 {
    samples.sort_unstable();
    samples[samples.len() / 2] as f64
}

impl GradientNode {
    fn ended(&mut self, now_ns: u64, latency_ns: u64) {
        self.samples.push(latency_ns);
        let Some(min_rtt_ns) = self.min_rtt_ns else {
            if self.samples.len() >= MIN_RTT_REQUESTS {
                self.min_rtt_ns = Some(median(&mut self.samples));
                (self.measured_ns, self.updated_ns) = (now_ns, now_ns);
                self.samples.clear();
            }
            return;
        };
        if now_ns - self.updated_ns < UPDATE_NS {
            return;
        }
        let sample_ns = median(&mut self.samples);
        self.samples.clear();
        self.updated_ns = now_ns;
        let gradient = (min_rtt_ns * (1.0 + BUFFER) / sample_ns).clamp(0.5, 2.0);
        let limit = gradient * self.limit;
        self.limit = (limit + limit.sqrt()).clamp(MIN_CONCURRENCY, MAX_CONCURRENCY);
        self.at_minimum = if self.limit <= MIN_CONCURRENCY { self.at_minimum + 1 } else { 0 };
        if now_ns - self.measured_ns >= MIN_RTT_EVERY_NS || self.at_minimum >= AT_MINIMUM_MAX {
            (self.min_rtt_ns, self.at_minimum) = (None, 0);
        }
    }

    fn limit(&self) -> u32 {
        if self.min_rtt_ns.is_some() { self.limit as u32 } else { MIN_CONCURRENCY as u32 }
    }
}

impl Policy for Gradient {
    fn name(&self) -> &'static str {
        "Envoy's gradient"
    }

    fn admits(&mut self, _: u64, node: usize, active: u32) -> bool {
        active < self.nodes[node].limit()
    }

    fn ended(&mut self, now_ns: u64, node: usize, latency_ns: u64, _: u32) {
        self.nodes[node].ended(now_ns, latency_ns);
    }
}

/// Netflix's `Gradient2Limit` with its defaults, over windows of a second as its `WindowedLimit` has them: the latency
/// of a window against a long mean of them, `limit * gradient + 4`, smoothed by a fifth.
pub(crate) struct Gradient2 {
    nodes: Vec<Gradient2Node>,
}

const INITIAL: f64 = 20.0;
const LIMITS: (f64, f64) = (20.0, 200.0);
const QUEUE: f64 = 4.0;
const SMOOTHING: f64 = 0.2;
const TOLERANCE: f64 = 1.5;
const LONG_WINDOW: f64 = 600.0;
const WARM_UP: u32 = 10;
const WINDOW_NS: u64 = 1_000_000_000;
const WINDOW_SAMPLES: u64 = 10;

struct Gradient2Node {
    limit: f64,
    long_ns: f64,
    windows: u32,
    began_ns: u64,
    sum_ns: u64,
    samples: u64,
    active_max: u32,
}

impl Gradient2 {
    pub(crate) fn new(nodes: usize) -> Self {
        let node = || Gradient2Node {
            limit: INITIAL,
            long_ns: 0.0,
            windows: 0,
            began_ns: 0,
            sum_ns: 0,
            samples: 0,
            active_max: 0,
        };
        Self { nodes: (0..nodes).map(|_| node()).collect() }
    }
}

impl Gradient2Node {
    fn ended(&mut self, now_ns: u64, latency_ns: u64, active: u32) {
        self.sum_ns += latency_ns;
        self.samples += 1;
        self.active_max = self.active_max.max(active);
        if now_ns - self.began_ns < WINDOW_NS || self.samples < WINDOW_SAMPLES {
            return;
        }
        let short_ns = self.sum_ns as f64 / self.samples as f64;
        let active = f64::from(self.active_max);
        (self.began_ns, self.sum_ns, self.samples, self.active_max) = (now_ns, 0, 0, 0);
        self.windows += 1;
        if self.windows <= WARM_UP {
            // The plain mean until there are enough of them.
            self.long_ns += (short_ns - self.long_ns) / f64::from(self.windows);
        } else {
            self.long_ns += (short_ns - self.long_ns) * 2.0 / (LONG_WINDOW + 1.0);
        }
        if self.long_ns / short_ns > 2.0 {
            self.long_ns *= 0.95;
        }
        // It is not raised where it is not used.
        if active < self.limit / 2.0 {
            return;
        }
        let gradient = (TOLERANCE * self.long_ns / short_ns).clamp(0.5, 1.0);
        let wish = self.limit * gradient + QUEUE;
        self.limit = (self.limit * (1.0 - SMOOTHING) + wish * SMOOTHING).clamp(LIMITS.0, LIMITS.1);
    }
}

impl Policy for Gradient2 {
    fn name(&self) -> &'static str {
        "Netflix's gradient2"
    }

    fn admits(&mut self, _: u64, node: usize, active: u32) -> bool {
        active < self.nodes[node].limit as u32
    }

    fn ended(&mut self, now_ns: u64, node: usize, latency_ns: u64, active: u32) {
        self.nodes[node].ended(now_ns, latency_ns, active);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Tells a policy latencies of its first node, one each millisecond from a time on.
    fn tell(policy: &mut dyn Policy, from_ms: u64, count: u64, latency_ms: u64, active: u32) {
        for at_ms in from_ms..from_ms + count {
            policy.ended(at_ms * MS, 0, latency_ms * MS, active);
        }
    }

    #[test]
    fn envoys_limit_rises_while_latencies_are_as_small_as_they_can_be_and_falls_behind() {
        let mut policy = Gradient::new(1);
        assert!(policy.admits(0, 0, 2) && !policy.admits(0, 0, 3), "while the smallest latency is measured");
        tell(&mut policy, 0, 50, 10, 1);
        tell(&mut policy, 50, 101, 10, 1);
        // 3 * 1.25 is 3.75, and its root 1.94.
        assert!(policy.admits(0, 0, 4) && !policy.admits(0, 0, 5), "{}", policy.nodes[0].limit);
        tell(&mut policy, 151, 1000, 10, 1);
        let before = policy.nodes[0].limit;
        tell(&mut policy, 1151, 1000, 40, 1);
        assert!(before > 20.0 && policy.nodes[0].limit < before / 2.0, "{before} {}", policy.nodes[0].limit);
    }

    #[test]
    fn netflix_limit_rises_where_it_is_used_and_falls_with_latencies_over_the_long_mean() {
        let mut policy = Gradient2::new(1);
        tell(&mut policy, 0, 5000, 10, 1);
        assert_eq!(policy.nodes[0].limit, INITIAL, "it is not used");
        tell(&mut policy, 5000, 20_000, 10, 100);
        let before = policy.nodes[0].limit;
        // A fifth of 4 each window.
        assert!((before - 36.0).abs() < 2.0, "{before}");
        tell(&mut policy, 25_000, 5000, 40, 100);
        assert!(policy.nodes[0].limit < before, "{}", policy.nodes[0].limit);
    }
}
