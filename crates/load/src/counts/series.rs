//! What a run did over time: a point for each interval, and never more points than were agreed.

use crate::LoadError;
use crate::carried::{COUNT_MAX, carried};
use crate::counts::histogram::Histogram;
use crate::counts::packed::Packed;
use std::time::Duration;
use weir_measure::summary::Summary;
use weir_wire::client::Outcome;

/// How finely a run is told over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// The time of a point; 10 ms to an hour.
    pub interval: Duration,
    /// The most points; where a run has more intervals, neighbours are merged two by two, so that a point then tells of
    /// twice the time. 2 to 100,000.
    pub points_max: usize,
}

impl Default for Sampling {
    /// A point each second, and at most 512.
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), points_max: 512 }
    }
}

impl Sampling {
    pub(crate) fn check(self) -> Result<(), LoadError> {
        if !(Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&self.interval) {
            return Err(LoadError::Options("the interval of the time series lies between 10 ms and an hour"));
        }
        if !(2..=100_000).contains(&self.points_max) {
            return Err(LoadError::Options("the time series has between 2 and 100000 points"));
        }
        Ok(())
    }

    pub(crate) fn interval_ns(self) -> u64 {
        u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// What was counted in a stretch of time, over all loops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Whole responses of any status.
    pub requests: u64,
    /// Those of them whose status is not expected.
    pub unexpected: u64,
    /// Failed requests by [`Outcome`]'s number.
    pub errors: [u64; Outcome::ALL.len()],
    /// Bytes received: heads and bodies, decrypted.
    pub bytes: u64,
    /// Arrivals that found the generator's queue full.
    pub dropped: u64,
    /// Arrivals that waited in the generator for a connection.
    pub queued: u64,
    /// Arrivals that were taken up more than 1 ms after their time.
    pub late: u64,
}

impl Counts {
    /// Whole responses whose status is expected.
    #[must_use]
    pub fn successes(&self) -> u64 {
        self.requests - self.unexpected
    }

    /// The share of the requests that succeeded, 0 to 1, of all that were answered, failed or dropped; `None` without any.
    #[must_use]
    pub fn success_rate(&self) -> Option<f64> {
        let all = self.requests + self.failures() + self.dropped;
        (all > 0).then(|| self.successes() as f64 / all as f64)
    }

    /// All failed requests.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.errors.iter().sum::<u64>() - self.stopped()
    }

    /// Requests whose users clicked stop; they have a place among the errors, and are none.
    #[must_use]
    pub fn stopped(&self) -> u64 {
        self.errors[Outcome::Stopped as usize]
    }

    /// Whether each count is one that a run can have.
    pub(crate) fn are_possible(&self) -> bool {
        let errors = self.errors.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        let others = [self.requests, self.bytes, self.dropped, self.queued, self.late];
        errors <= COUNT_MAX && others.into_iter().all(|count| count <= COUNT_MAX)
    }

    /// The same operation on each count of two.
    pub(crate) fn with(&self, other: &Self, each: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            requests: each(self.requests, other.requests),
            unexpected: each(self.unexpected, other.unexpected),
            errors: std::array::from_fn(|code| each(self.errors[code], other.errors[code])),
            bytes: each(self.bytes, other.bytes),
            dropped: each(self.dropped, other.dropped),
            queued: each(self.queued, other.queued),
            late: each(self.late, other.late),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.with(other, |one, two| one + two)
    }
}

/// How the generator fared in a stretch of time: of its busiest loop.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Strain {
    /// Share of the time that it ran, 0 to 1.
    pub cpu_share: f64,
    /// Share of the time that it could have run but waited for the CPU, 0 to 1.
    pub runnable_share: f64,
}

impl Strain {
    fn and(self, other: Self) -> Self {
        let demand = |strain: Self| strain.cpu_share + strain.runnable_share;
        if demand(other) > demand(self) { other } else { self }
    }
}

/// What one interval held.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Point {
    /// What was counted.
    pub counts: Counts,
    /// The latencies of its successes, from the intended time, in nanoseconds.
    pub latency: Packed,
    /// The same in figures; `None` where there was none.
    pub summary: Option<Summary>,
    /// Connections that were open at its end.
    pub connections: u64,
    /// The largest strain of any of its intervals.
    pub strain: Strain,
}

impl Point {
    fn and(&self, later: &Self) -> Self {
        let latency = self.latency.and(&later.latency);
        Self {
            counts: self.counts.and(&later.counts),
            summary: Summary::of(&latency.histogram()),
            latency,
            connections: later.connections,
            strain: self.strain.and(later.strain),
        }
    }
}

/// What one loop hands out of one interval, or of several that it could not hand out at their time.
#[derive(Debug)]
pub(crate) struct Slice<'a> {
    /// Begin and end, from the start of the run.
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) counts: Counts,
    pub(crate) latency: &'a Histogram,
    /// Connections that came to be open in it, or ceased to.
    pub(crate) connections: i64,
    pub(crate) strain: Strain,
}

/// The points of a run, from its start and without gaps.
///
/// Their sum is the whole run exactly: nothing is counted twice or left out, however neighbours were merged.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    base_ns: u64,
    interval_ns: u64,
    points_max: usize,
    points: Vec<Point>,
    whole: Histogram,
    connections: i64,
    end_ns: u64,
}

impl Default for Series {
    fn default() -> Self {
        Self::new(Sampling::default())
    }
}

impl Series {
    /// An empty series.
    #[must_use]
    pub fn new(sampling: Sampling) -> Self {
        let interval_ns = sampling.interval_ns().max(1);
        let points_max = sampling.points_max.max(2);
        Self {
            base_ns: interval_ns,
            interval_ns,
            points_max,
            points: Vec::new(),
            whole: crate::counts::histogram::histogram(),
            connections: 0,
            end_ns: 0,
        }
    }

    /// The time of a point: the interval that was asked for, or a power of two times that.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval_ns)
    }

    /// Whether neighbours had to be merged to stay within the bound.
    #[must_use]
    pub fn is_merged(&self) -> bool {
        self.interval_ns > self.base_ns
    }

    /// The points, in the order of time.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The points with their begin and their length in seconds; the last may be shorter or somewhat longer than others.
    pub fn timed(&self) -> impl Iterator<Item = (f64, f64, &Point)> {
        let last = self.points.len().saturating_sub(1);
        self.points.iter().enumerate().map(move |(index, point)| {
            let begin_ns = index as u64 * self.interval_ns;
            let length_ns = if index == last { self.end_ns.saturating_sub(begin_ns).max(1) } else { self.interval_ns };
            (begin_ns as f64 / 1e9, length_ns as f64 / 1e9, point)
        })
    }

    /// What was counted in all points.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.points.iter().fold(Counts::default(), |sum, point| sum.and(&point.counts))
    }

    /// The latencies of successes in the whole run so far.
    #[must_use]
    pub fn whole(&self) -> &Histogram {
        &self.whole
    }

    /// The latencies of all points, added up from them: the same as [`Series::whole`], in more time.
    #[must_use]
    pub fn latency(&self) -> Histogram {
        let mut whole = crate::counts::histogram::histogram();
        for point in &self.points {
            point.latency.add_to(&mut whole);
        }
        whole
    }

    /// Adds what a loop handed out to the point in which it began.
    pub(crate) fn add(&mut self, slice: &Slice<'_>) {
        let of_base = slice.begin_ns / self.base_ns;
        // What is left at the very end of a run is no interval of its own.
        let is_rest = slice.end_ns.saturating_sub(slice.begin_ns) < self.base_ns / 10;
        let of_base = if is_rest { of_base.saturating_sub(1) } else { of_base };
        while of_base * self.base_ns / self.interval_ns >= self.points_max as u64 {
            self.merge_neighbours();
        }
        let index = (of_base * self.base_ns / self.interval_ns) as usize;
        if self.points.len() <= index {
            let connections = self.connections.max(0) as u64;
            self.points.resize_with(index + 1, || Point { connections, ..Point::default() });
        }
        self.connections += slice.connections;
        // All have the same bounds, so adding cannot fail.
        self.whole.add(slice.latency).expect("histograms of the same bounds");
        self.end_ns = self.end_ns.max(slice.end_ns);
        let connections = self.connections.max(0) as u64;
        let latency = Packed::of(slice.latency);
        let summary = Summary::of(slice.latency);
        let own = Point { counts: slice.counts, latency, summary, connections, strain: slice.strain };
        let point = &mut self.points[index];
        *point = if point.latency.is_empty() && point.counts == Counts::default() {
            Point { strain: point.strain.and(own.strain), ..own }
        } else {
            point.and(&own)
        };
    }

    /// Both together, on one time line: the intervals of both are the same, or become so.
    pub(crate) fn and(mut self, mut other: Self) -> Self {
        while self.interval_ns < other.interval_ns {
            self.merge_neighbours();
        }
        while other.interval_ns < self.interval_ns {
            other.merge_neighbours();
        }
        let length = self.points.len().max(other.points.len());
        let (last, more_last) = (self.connections.max(0) as u64, other.connections.max(0) as u64);
        self.points.resize_with(length, || Point { connections: last, ..Point::default() });
        other.points.resize_with(length, || Point { connections: more_last, ..Point::default() });
        for (point, more) in self.points.iter_mut().zip(&other.points) {
            let connections = point.connections + more.connections;
            *point = Point { connections, ..point.and(more) };
        }
        // All have the same bounds, so adding cannot fail.
        self.whole.add(&other.whole).expect("histograms of the same bounds");
        self.connections += other.connections;
        self.end_ns = self.end_ns.max(other.end_ns);
        self
    }

    fn merge_neighbours(&mut self) {
        self.interval_ns = self.interval_ns.saturating_mul(2);
        self.points = self
            .points
            .chunks(2)
            .map(|pair| match pair {
                [one, two] => one.and(two),
                rest => rest[0].clone(),
            })
            .collect();
    }
}

carried!(Counts { requests, unexpected, errors, bytes, dropped, queued, late });
carried!(Strain { cpu_share, runnable_share });

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn histogram(values: &[u64]) -> Histogram {
        let mut histogram = crate::counts::histogram::histogram();
        for value in values {
            histogram.saturating_record(*value);
        }
        histogram
    }

    /// A slice of 99 ms.
    fn slice(end_ns: u64, latency: &Histogram) -> Slice<'_> {
        let begin_ns = end_ns.saturating_sub(99_000_000);
        let mut errors = [0; Outcome::ALL.len()];
        errors[4] = end_ns % 3;
        let counts = Counts { requests: latency.len(), errors, bytes: end_ns % 1000, ..Counts::default() };
        Slice { begin_ns, end_ns, counts, latency, connections: 0, strain: Strain::default() }
    }

    fn sampling(points_max: usize) -> Sampling {
        Sampling { interval: Duration::from_millis(100), points_max }
    }

    #[test]
    fn slices_of_several_loops_share_their_point() {
        let mut series = Series::new(sampling(8));
        for (end_ns, values) in
            [(100_050_000, &[10, 20][..]), (103_000_000, &[30]), (200_010_000, &[40]), (204_000_000, &[])]
        {
            series.add(&Slice { connections: 2, ..slice(end_ns, &histogram(values)) });
        }
        let requests: Vec<_> = series.points().iter().map(|point| point.counts.requests).collect();
        assert_eq!((requests, series.points()[0].connections, series.points()[1].connections), (vec![3, 1], 4, 8));
        assert_eq!(series.points()[0].summary.map(|summary| (summary.min, summary.max)), Some((10, 30)));
        let times: Vec<_> = series.timed().map(|(begin_s, length_s, _)| (begin_s, length_s)).collect();
        assert_eq!(times, [(0.0, 0.1), (0.1, 0.104)]);
    }

    #[test]
    fn a_rest_belongs_to_the_last_interval() {
        let mut series = Series::new(sampling(8));
        series.add(&slice(100_000_000, &histogram(&[10])));
        series.add(&Slice { begin_ns: 100_000_000, ..slice(101_000_000, &histogram(&[20])) });
        let times: Vec<_> =
            series.timed().map(|(begin_s, length_s, point)| (begin_s, length_s, point.counts.requests)).collect();
        assert_eq!(times, [(0.0, 0.101, 2)]);
    }

    #[test]
    fn an_interval_without_anything_is_a_point_without_anything() {
        let mut series = Series::new(sampling(8));
        series.add(&slice(100_000_000, &histogram(&[10])));
        series.add(&slice(400_000_000, &histogram(&[20])));
        let requests: Vec<_> = series.points().iter().map(|point| point.counts.requests).collect();
        assert_eq!(requests, [1, 0, 0, 1]);
        assert_eq!(series.points()[1].summary, None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn two_series_are_both_together(
            given in proptest::collection::vec((any::<bool>(), 1..9_000_000_000u64, 1..10_000_000u64), 1..60),
            points_max in 2..20usize,
        ) {
            let (mut one, mut two, mut all) =
                (Series::new(sampling(points_max)), Series::new(sampling(points_max)), Series::new(sampling(points_max)));
            for (is_first, end_ns, value) in given {
                let latency = histogram(&[value]);
                let slice = slice(end_ns, &latency);
                all.add(&slice);
                if is_first { one.add(&slice) } else { two.add(&slice) }
            }
            let both = one.and(two);
            prop_assert_eq!(both.whole(), all.whole());
            prop_assert_eq!(both.counts(), all.counts());
            prop_assert_eq!(both.interval(), all.interval());
            let of = |series: &Series| -> Vec<_> {
                series.points().iter().map(|point| (point.counts, point.latency.clone(), point.summary)).collect()
            };
            prop_assert_eq!(of(&both), of(&all));
        }
    }

    proptest! {
        #[test]
        fn the_sum_of_the_points_is_the_whole(
            slices in proptest::collection::vec(
                (1..60_000_000_000u64, proptest::collection::vec((0..42u32, any::<u64>()), 0..20)),
                1..60,
            ),
            points_max in 2..40usize,
        ) {
            let mut series = Series::new(sampling(points_max));
            let (mut whole, mut counts) = (Vec::new(), Counts::default());
            for (end_ns, values) in slices {
                let values: Vec<_> = values.into_iter().map(|(bits, value)| value >> (63 - bits)).collect();
                let latency = histogram(&values);
                let slice = slice(end_ns, &latency);
                counts = counts.and(&slice.counts);
                series.add(&slice);
                whole.extend(values);
            }
            prop_assert!(series.points().len() <= points_max);
            prop_assert_eq!(&series.latency(), series.whole());
            prop_assert_eq!(series.whole(), &histogram(&whole));
            prop_assert_eq!(series.counts(), counts);
            for point in series.points() {
                prop_assert_eq!(point.summary, Summary::of(&point.latency.histogram()));
            }
        }
    }
}
