//! Families of metrics as an `ExportMetricsServiceRequest` of OTLP.

use super::classes::APPLICATION;
use super::families::{BOUNDS_S, Data, Family, Labels};
use super::protobuf::Writer;
use super::resource::{SCHEMA, of_application, scope, text};
use std::collections::BTreeMap;

/// Sums count from the begin, not from the last time.
const CUMULATIVE: u64 = 2;
/// Where attributes stand in a `HistogramDataPoint`, and in a `NumberDataPoint`.
const OF_HISTOGRAM: u32 = 9;
const OF_NUMBER: u32 = 7;

/// From when to when the figures are, nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    /// The begin of all sums.
    pub(crate) from_unix_ns: u64,
    /// Now.
    pub(crate) to_unix_ns: u64,
}

/// Which part of a family's series belongs to an application.
fn of<'a, T>(series: &'a [(Labels, T)], application: &'a str) -> impl Iterator<Item = &'a (Labels, T)> {
    series.iter().filter(move |(labels, _)| application_of(labels) == application)
}

fn application_of(labels: &Labels) -> &str {
    labels.iter().find(|(name, _)| *name == APPLICATION).map_or("", |(_, value)| value)
}

fn applications(family: &Family) -> Vec<&str> {
    match &family.data {
        Data::Histogram(series) => series.iter().map(|(labels, _)| application_of(labels)).collect(),
        Data::Sum(series) | Data::Gauge(series) => series.iter().map(|(labels, _)| application_of(labels)).collect(),
    }
}

/// The request: a resource for each application, and one for the agent itself.
pub(crate) fn request(families: &[Family], host: &str, span: Span) -> Vec<u8> {
    let mut by_application: BTreeMap<&str, Vec<&Family>> = BTreeMap::new();
    for family in families {
        let mut names = applications(family);
        names.sort_unstable();
        names.dedup();
        names.into_iter().for_each(|name| by_application.entry(name).or_default().push(family));
    }
    let mut request = Writer::default();
    for (application, families) in by_application {
        request.message(1, |group| {
            group.whole(1, &of_application(if application.is_empty() { "weir-agent" } else { application }, host));
            group.message(2, |metrics| {
                scope(metrics);
                families
                    .iter()
                    .for_each(|family| metrics.message(2, |metric| write(metric, family, application, span)));
            });
            group.text(3, SCHEMA);
        });
    }
    request.into_bytes()
}

fn write(metric: &mut Writer, family: &Family, application: &str, span: Span) {
    metric.text(1, &family.name);
    metric.text(2, &family.help);
    metric.text(3, family.unit);
    let times = |point: &mut Writer, from_unix_ns| {
        point.fixed64(2, from_unix_ns);
        point.fixed64(3, span.to_unix_ns);
    };
    let numbers = |data: &mut Writer, series: &[(Labels, f64)], from_unix_ns| {
        for (labels, value) in of(series, application) {
            data.message(1, |point| {
                times(point, from_unix_ns);
                point.double(4, *value);
                labels.iter().for_each(|(name, value)| text(point, OF_NUMBER, name, value));
            });
        }
    };
    match &family.data {
        Data::Gauge(series) => metric.message(5, |gauge| numbers(gauge, series, 0)),
        Data::Sum(series) => metric.message(7, |sum| {
            numbers(sum, series, span.from_unix_ns);
            sum.unsigned(2, CUMULATIVE);
            sum.unsigned(3, 1);
        }),
        Data::Histogram(series) => metric.message(9, |data| {
            for (labels, histogram) in of(series, application) {
                data.message(1, |point| {
                    times(point, span.from_unix_ns);
                    point.fixed64(4, histogram.count());
                    point.double(5, histogram.sum_s());
                    point.packed(6, histogram.buckets.iter().copied());
                    point.packed(7, BOUNDS_S.iter().map(|bound| bound.to_bits()));
                    if let Some(exemplar) = histogram.exemplar {
                        point.message(8, |example| {
                            example.fixed64(2, exemplar.unix_ns);
                            example.double(3, exemplar.value);
                            example.content(4, &exemplar.span.to_be_bytes());
                            let trace = exemplar.trace.map(u64::to_be_bytes).concat();
                            example.content(5, &trace);
                        });
                    }
                    labels.iter().for_each(|(name, value)| text(point, OF_HISTOGRAM, name, value));
                });
            }
            data.unsigned(2, CUMULATIVE);
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::classes::Classes;
    use crate::export::protobuf::{Content, fields};
    use crate::export::testing::transaction;

    /// The messages in a field of a message.
    fn within<'a>(message: &'a [u8], field: u32) -> Vec<&'a [u8]> {
        let bytes = |(number, content): (u32, Content<'a>)| match content {
            Content::Bytes(bytes) if number == field => Some(bytes),
            _ => None,
        };
        fields(message).filter_map(bytes).collect()
    }

    #[test]
    fn each_application_is_a_resource_with_its_own_series() {
        let mut classes = Classes::default();
        for (application, name) in [("shop", "buy"), ("shop", "look"), ("bank", "pay")] {
            classes.push(&transaction(application, name, 3_000_000));
        }
        let body = request(&classes.families(true), "web1", Span { from_unix_ns: 5, to_unix_ns: 9 });
        let mut told = Vec::new();
        for group in within(&body, 1) {
            let resource = String::from_utf8_lossy(within(group, 1)[0]).into_owned();
            let metrics = within(within(group, 2)[0], 2);
            let durations = metrics.iter().find(|metric| within(metric, 1)[0] == b"arm.transaction.duration");
            let points = durations.map_or(0, |metric| within(within(metric, 9)[0], 1).len());
            let name = ["bank", "shop", "weir-agent"].into_iter().find(|name| resource.contains(name));
            told.push((name.expect("one of them"), points));
        }
        assert_eq!(told, [("weir-agent", 0), ("bank", 1), ("shop", 2)]);
        // Counts, bounds and the sum of a point, to the bit.
        let group = within(&body, 1)[1];
        let histogram = within(within(within(group, 2)[0], 2)[0], 9)[0];
        let point = within(histogram, 1)[0];
        let read: Vec<(u32, Content<'_>)> = fields(point).collect();
        assert_eq!(
            read[..4],
            [
                (2, Content::Fixed64(5)),
                (3, Content::Fixed64(9)),
                (4, Content::Fixed64(1)),
                (5, Content::Fixed64(0.003f64.to_bits()))
            ]
        );
        let (counts, bounds) = (within(point, 6)[0], within(point, 7)[0]);
        assert_eq!((counts.len(), bounds.len()), (8 * (BOUNDS_S.len() + 1), 8 * BOUNDS_S.len()));
        let one = counts.chunks(8).position(|count| count[0] == 1).expect("it is counted");
        assert_eq!(BOUNDS_S[one], 0.005);
        let exemplar = within(point, 8)[0];
        assert_eq!((within(exemplar, 4)[0].len(), within(exemplar, 5)[0].len()), (8, 16));
    }
}
