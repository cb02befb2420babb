//! Latencies in the files of HdrHistogram: the percentile distribution (`.hgrm`) and the interval log.
//!
//! Both are those of the Java library, which wrote them first: `outputPercentileDistribution` and version 1.3 of
//! `HistogramLogWriter`, whose histograms are of encoding V2, compressed.

use base64::Engine as _;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_load::{Histogram, LoadReport};

/// Nanoseconds of a millisecond, the unit in which both files give values to readers.
const MS_NS: f64 = 1e6;
/// Lines of the distribution for each halving of the share that is slower, as the Java library's own programs have it.
const TICKS: u32 = 5;
/// Values that the first bucket tells apart, as a power of two: what three digits need.
const SUB_BUCKET_BITS: u32 = 11;
/// How a histogram begins, plain and compressed; 0x10 says that counts take as many bytes as they need.
const COOKIE: u32 = 0x1c84_9303 | 0x10;
const COOKIE_COMPRESSED: u32 = 0x1c84_9304 | 0x10;

/// The distribution of latencies, in milliseconds.
pub(super) fn hgrm(latency: &Histogram) -> String {
    let mut text = format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let mut total = 0;
    for step in latency.iter_quantiles(TICKS) {
        total += step.count_since_last_iteration();
        let (value, quantile) =
            (step.value_iterated_to().min(latency.max()) as f64 / MS_NS, step.quantile_iterated_to());
        // Writing to a string cannot fail.
        let _ = match quantile {
            below if below < 1.0 => writeln!(text, "{value:12.6} {below:2.12} {total:10} {:14.2}", 1.0 / (1.0 - below)),
            all => writeln!(text, "{value:12.6} {all:2.12} {total:10}"),
        };
    }
    let (mean, stdev) = (latency.mean() / MS_NS, latency.stdev() / MS_NS);
    let _ = writeln!(text, "#[Mean    = {mean:12.6}, StdDeviation   = {stdev:12.6}]");
    let _ = writeln!(text, "#[Max     = {:12.6}, Total count    = {:12}]", latency.max() as f64 / MS_NS, latency.len());
    let _ = writeln!(text, "#[Buckets = {:12}, SubBuckets     = {:12}]", latency.buckets(), 1 << SUB_BUCKET_BITS);
    text
}

/// The log of a run that ended at this time: a histogram of nanoseconds for each interval.
pub(super) fn log(report: &LoadReport, ended: SystemTime) -> std::io::Result<String> {
    let started = ended.checked_sub(report.took).unwrap_or(UNIX_EPOCH);
    let since_1970 = started.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut text = format!(
        "#[Latencies of successes in nanoseconds, from the intended time; logged by weir load]\n\
         #[Histogram log format version 1.3]\n\
         #[StartTime: {:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        since_1970.as_secs_f64()
    );
    for (begin_s, length_s, point) in report.series.timed() {
        let latency = point.latency.histogram();
        let encoded = base64::engine::general_purpose::STANDARD.encode(compressed(&latency)?);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{begin_s:.3},{length_s:.3},{:.3},{encoded}", latency.max() as f64 / MS_NS);
    }
    Ok(text)
}

/// A histogram in encoding V2, compressed.
fn compressed(latency: &Histogram) -> std::io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&encoded(latency))?;
    let content = encoder.finish()?;
    let mut bytes = COOKIE_COMPRESSED.to_be_bytes().to_vec();
    bytes.extend((content.len() as u32).to_be_bytes());
    bytes.extend(content);
    Ok(bytes)
}

/// A histogram in encoding V2.
fn encoded(latency: &Histogram) -> Vec<u8> {
    let mut counts = Vec::new();
    let mut next = 0;
    for value in latency.iter_recorded() {
        let place = place_of(value.value_iterated_to());
        match place - next {
            0 => {}
            zeros => number(&mut counts, -(zeros as i64)),
        }
        number(&mut counts, i64::try_from(value.count_at_value()).unwrap_or(i64::MAX));
        next = place + 1;
    }
    let mut bytes = COOKIE.to_be_bytes().to_vec();
    // The length, no offset, the digits, the bounds, and values that are what they are.
    bytes.extend((counts.len() as u32).to_be_bytes());
    bytes.extend(0u32.to_be_bytes());
    bytes.extend(u32::from(latency.sigfig()).to_be_bytes());
    bytes.extend(latency.low().to_be_bytes());
    bytes.extend(latency.high().to_be_bytes());
    bytes.extend(1f64.to_be_bytes());
    bytes.extend(counts);
    bytes
}

/// Which of the counts is that of a value.
fn place_of(value: u64) -> u64 {
    let doubling = (value | ((1 << SUB_BUCKET_BITS) - 1)).ilog2() + 1 - SUB_BUCKET_BITS;
    (u64::from(doubling) << (SUB_BUCKET_BITS - 1)) + (value >> doubling)
}

/// Appends a number: its sign in the lowest bit, then seven bits a byte, the ninth byte whole (ZigZag, LEB128).
fn number(bytes: &mut Vec<u8>, number: i64) {
    let mut left = ((number << 1) ^ (number >> 63)) as u64;
    for _ in 0..8 {
        if left < 0x80 {
            break;
        }
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use proptest::prelude::*;
    use std::io::Read;

    fn histogram(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("valid bounds");
        values.iter().for_each(|value| histogram.saturating_record(*value));
        histogram
    }

    /// The counts by their place, read as the description of the format says.
    fn decoded(bytes: &[u8]) -> Vec<u64> {
        assert_eq!(bytes[..4], [0x1c, 0x84, 0x93, 0x14]);
        assert_eq!(u32::from_be_bytes(bytes[4..8].try_into().expect("four")) as usize, bytes.len() - 8);
        let mut plain = Vec::new();
        ZlibDecoder::new(&bytes[8..]).read_to_end(&mut plain).expect("zlib");
        let word = |at: usize| u32::from_be_bytes(plain[at..at + 4].try_into().expect("four"));
        assert_eq!([word(0), word(4), word(8), word(12)], [0x1c84_9313, plain.len() as u32 - 40, 0, 3]);
        let (mut counts, mut at) = (Vec::new(), 40);
        while at < plain.len() {
            let (mut value, mut shift) = (0u64, 0);
            loop {
                let byte = u64::from(plain[at]);
                at += 1;
                if shift == 56 {
                    value |= byte << shift;
                    break;
                }
                value |= (byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            match (value >> 1) as i64 ^ -((value & 1) as i64) {
                zeros if zeros < 0 => counts.resize(counts.len() + zeros.unsigned_abs() as usize, 0),
                count => counts.push(count as u64),
            }
        }
        counts
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read_back(values in proptest::collection::vec(1..3_600_000_000_000u64, 0..200)) {
            let latency = histogram(&values);
            let counts = decoded(&compressed(&latency).expect("written to memory"));
            prop_assert_eq!(counts.iter().sum::<u64>(), values.len() as u64);
            for value in &values {
                let count = values.iter().filter(|other| place_of(**other) == place_of(*value)).count() as u64;
                prop_assert_eq!(counts[place_of(*value) as usize], count);
                prop_assert_eq!(latency.count_at(*value), count, "the library tells the same values apart");
            }
        }
    }

    #[test]
    fn large_counts_take_nine_bytes_at_most() {
        for (value, bytes) in [(0, 1), (63, 1), (64, 2), (-1, 1), (i64::MAX, 9), (i64::MIN, 9)] {
            let mut written = Vec::new();
            number(&mut written, value);
            assert_eq!(written.len(), bytes, "{value}");
        }
    }

    #[test]
    fn the_distribution_has_the_lines_of_the_java_library() {
        let text = hgrm(&histogram(&(1..=1000).map(|number| number * 1_000_000).collect::<Vec<_>>()));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
        assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>()[1..], ["0.000000000000", "1", "1.00"]);
        let columns =
            |line: &str| line.split_whitespace().map(|word| word.parse().expect("a number")).collect::<Vec<f64>>();
        let rows: Vec<_> = lines[2..].iter().filter(|line| !line.starts_with('#')).map(|line| columns(line)).collect();
        let median = rows.iter().find(|row| row[1] == 0.5).expect("the median");
        assert!((median[0] - 500.0).abs() < 0.5 && median[2] == 500.0 && median[3] == 2.0, "{median:?}");
        assert!(rows.windows(2).all(|pair| pair[0][0] <= pair[1][0] && pair[0][2] <= pair[1][2]));
        let last = rows.last().expect("rows");
        assert!(last.len() == 3 && last[1] == 1.0 && last[2] == 1000.0, "{last:?}");
        assert!(text.contains("Total count    =         1000]") && text.contains("SubBuckets     =         2048]"));
        assert!(hgrm(&histogram(&[])).contains("Total count    =            0]"));
    }
}
