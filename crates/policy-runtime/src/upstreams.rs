//! How upstreams are: what rules call nodes by the names of upstreams.

use crate::monitor::Readings;
use rustc_hash::FxHashMap;
use weir_adapt::Resource;
use weir_server::UpstreamNow;

/// Upstreams as they were at the last look.
#[derive(Debug, Default)]
pub(crate) struct Upstreams {
    last: FxHashMap<String, UpstreamNow>,
}

impl Upstreams {
    /// The readings of each upstream since the last look, so many seconds ago. The first look has no rates, and no times.
    pub(crate) fn readings(&mut self, now: Vec<UpstreamNow>, seconds: f64) -> Vec<(String, Readings)> {
        let mut all = Vec::with_capacity(now.len());
        let mut next = FxHashMap::default();
        for upstream in now {
            let before = self.last.get(&upstream.name);
            all.push((upstream.name.clone(), readings_of(&upstream, before, seconds)));
            next.insert(upstream.name.clone(), upstream);
        }
        self.last = next;
        all
    }
}

fn readings_of(now: &UpstreamNow, before: Option<&UpstreamNow>, seconds: f64) -> Readings {
    let mut readings = vec![(Resource::Queue, f64::from(now.waiting)), (Resource::Active, f64::from(now.under_way))];
    let Some(before) = before else { return readings };
    let since = |of: fn(&UpstreamNow) -> u64| of(now).saturating_sub(of(before)) as f64;
    let (requests, failed, refused) = (since(|of| of.requests), since(|of| of.failed), since(|of| of.refused));
    readings.push((Resource::Rate, requests / seconds));
    readings.push((Resource::Errors, failed / seconds));
    readings.push((Resource::ErrorShare, (100.0 * failed / (requests - refused).max(1.0)).min(100.0)));
    // Where those that wait do not get on, none has told yet how long it has waited.
    let oldest_s = now.oldest_wait_ns as f64 / 1e9;
    let mean_s = since(|of| of.waited_ns) / 1e9 / (requests - refused).max(1.0);
    readings.push((Resource::Wait, mean_s.max(oldest_s)));
    let served = since(|of| of.served);
    if served > 0.0 {
        readings.push((Resource::Service, since(|of| of.served_ns) / 1e9 / served));
    }
    readings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(readings: &Readings, resource: Resource) -> Option<f64> {
        readings.iter().find(|(own, _)| *own == resource).map(|(_, value)| *value)
    }

    #[test]
    fn an_upstream_is_read_by_what_it_did_since_the_last_look() {
        let mut upstreams = Upstreams::default();
        let name = "php".to_owned();
        let first = UpstreamNow { name, places: 4, waiting: 2, under_way: 4, requests: 100, ..UpstreamNow::default() };
        let readings = upstreams.readings(vec![first.clone()], 1.0);
        assert_eq!((readings[0].0.as_str(), of(&readings[0].1, Resource::Queue)), ("php", Some(2.0)));
        assert_eq!(of(&readings[0].1, Resource::Rate), None);
        let next = UpstreamNow {
            requests: 150,
            refused: 10,
            failed: 4,
            waited_ns: 8_000_000_000,
            served: 40,
            served_ns: 2_000_000_000,
            oldest_wait_ns: 150_000_000,
            ..first
        };
        let readings = upstreams.readings(vec![next.clone()], 2.0);
        let read = |resource| of(&readings[0].1, resource).expect("a reading");
        assert_eq!((read(Resource::Rate), read(Resource::Errors), read(Resource::ErrorShare)), (25.0, 2.0, 10.0));
        assert_eq!((read(Resource::Wait), read(Resource::Service), read(Resource::Active)), (0.2, 0.05, 4.0));
        let stuck = UpstreamNow { oldest_wait_ns: 3_000_000_000, ..next };
        let readings = upstreams.readings(vec![stuck], 2.0);
        let times = (of(&readings[0].1, Resource::Wait), of(&readings[0].1, Resource::Service));
        assert_eq!(times, (Some(3.0), None));
    }
}
