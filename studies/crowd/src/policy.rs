//! What a policy is asked, and the two simplest ones.

/// What was read of a node in the second that has passed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct NodeReading {
    /// Requests that came.
    pub(crate) rate_per_s: f64,
    /// Share of the time in which its link was in use, 0 to 1.
    pub(crate) used: f64,
    /// Responses under way.
    pub(crate) active: f64,
}

/// A policy of growing, of limiting, or of both.
pub(crate) trait Policy {
    /// How it is called in the page.
    fn name(&self) -> &'static str;

    /// At each second: what was read of all nodes, of which the first `awake` get new connections; how many are to get
    /// them from now on.
    fn nodes(&mut self, at_s: u64, readings: &[NodeReading], awake: usize) -> usize {
        let _ = (at_s, readings);
        awake
    }

    /// Whether a node takes a request that comes now, with so many under way.
    fn admits(&mut self, now_ns: u64, node: usize, active: u32) -> bool {
        let _ = (now_ns, node, active);
        true
    }

    /// A response of a node has ended, with so many under way when it began.
    fn ended(&mut self, now_ns: u64, node: usize, latency_ns: u64, active: u32) {
        let _ = (now_ns, node, latency_ns, active);
    }

    /// What it decided on, in words, for the page: of the first time that it grew.
    fn reason(&self) -> Option<String> {
        None
    }
}

/// Always the same nodes.
pub(crate) struct Fixed(pub(crate) &'static str);

impl Policy for Fixed {
    fn name(&self) -> &'static str {
        self.0
    }
}

/// Seconds between two looks of the autoscaler: Kubernetes' HPA by default.
const LOOK_S: u64 = 15;
/// The use that it aims at, and how far from it nothing is done: HPA's usual target and its default tolerance.
const TARGET: f64 = 0.7;
const TOLERANCE: f64 = 0.1;
/// It shrinks to the largest number that it wished for in so many seconds: HPA's default.
const STABLE_S: u64 = 300;

/// An autoscaler by a threshold, as Kubernetes' HorizontalPodAutoscaler: `nodes * used / target`, rounded up.
#[derive(Default)]
pub(crate) struct Threshold {
    used: Vec<f64>,
    wished: Vec<(u64, usize)>,
    reason: Option<String>,
}

impl Policy for Threshold {
    fn name(&self) -> &'static str {
        "autoscaler, 70 % each 15 s"
    }

    fn nodes(&mut self, at_s: u64, readings: &[NodeReading], awake: usize) -> usize {
        self.used.push(readings[..awake].iter().map(|reading| reading.used).sum::<f64>() / awake as f64);
        if !at_s.is_multiple_of(LOOK_S) {
            return awake;
        }
        let used = self.used.iter().sum::<f64>() / self.used.len() as f64;
        self.used.clear();
        let ratio = used / TARGET;
        let wish = if (ratio - 1.0).abs() <= TOLERANCE { awake } else { (awake as f64 * ratio).ceil() as usize };
        let wish = wish.clamp(crate::simulation::NODES_MIN, readings.len());
        self.wished.push((at_s, wish));
        self.wished.retain(|(wished_s, _)| wished_s + STABLE_S > at_s);
        let largest = self.wished.iter().map(|(_, wish)| *wish).max().unwrap_or(wish);
        if largest > awake {
            self.reason
                .get_or_insert_with(|| format!("{:.0} % of the links were in use over {LOOK_S} s", 100.0 * used));
        }
        largest
    }

    fn reason(&self) -> Option<String> {
        self.reason.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_autoscaler_grows_by_the_ratio_and_shrinks_late() {
        let mut policy = Threshold::default();
        let readings = |used: f64| [NodeReading { used, ..NodeReading::default() }; 5];
        let mut awake = 3;
        for at_s in 1..=15 {
            awake = policy.nodes(at_s, &readings(0.9), awake);
        }
        // 3 * 0.9 / 0.7 is 3.86.
        assert_eq!(awake, 4);
        for at_s in 16..=300 {
            awake = policy.nodes(at_s, &readings(0.1), awake);
            assert_eq!(awake, 4, "{at_s}");
        }
        for at_s in 301..=315 {
            awake = policy.nodes(at_s, &readings(0.1), awake);
        }
        assert_eq!(awake, 3);
    }
}
