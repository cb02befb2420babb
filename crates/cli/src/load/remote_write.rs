//! The figures of a run sent to Prometheus while it runs, by its remote write protocol (version 1).

use crate::webhook::post;
use anyhow::{Context, bail};
use prost::Message;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_load::Url;

/// How long one delivery may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Figures that wait while others are on their way; newer ones find no room and are dropped.
const QUEUE: usize = 1;
/// What the protocol wants to be told of a request.
const HEADERS: [(&str, &str); 3] = [
    ("Content-Encoding", "snappy"),
    ("Content-Type", "application/x-protobuf"),
    ("X-Prometheus-Remote-Write-Version", "0.1.0"),
];

/// `prometheus.WriteRequest`.
#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    series: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    /// Milliseconds since 1970.
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// Sends figures by a thread of its own, which the load never waits for.
#[derive(Debug)]
pub(super) struct RemoteWrite {
    queue: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
    dropped: AtomicU64,
    /// Why the last delivery failed; none if it did not.
    failing: Arc<Mutex<Option<String>>>,
}

impl RemoteWrite {
    /// Begins to send to an address, such as `http://127.0.0.1:9090/api/v1/write`.
    pub(super) fn start(address: &str) -> anyhow::Result<Self> {
        let url = Url::parse(address).with_context(|| format!("--prometheus-push {address}"))?;
        let (queue, waiting) = sync_channel(QUEUE);
        let failing = Arc::new(Mutex::default());
        let told = Arc::clone(&failing);
        let thread = std::thread::Builder::new()
            .name("weir-push".to_owned())
            .spawn(move || deliver(&url, &waiting, &told))
            .context("cannot start a thread for --prometheus-push")?;
        Ok(Self { queue: Some(queue), thread: Some(thread), dropped: AtomicU64::new(0), failing })
    }

    /// Sends the figures of a text for Prometheus as those of now.
    pub(super) fn send(&self, text: &str) {
        let taken = body(text, SystemTime::now())
            .is_ok_and(|body| self.queue.as_ref().is_some_and(|queue| queue.try_send(body).is_ok()));
        if !taken {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends the last figures and waits until they are there.
    ///
    /// # Errors
    /// They were not taken.
    pub(super) fn finish(mut self, text: &str) -> anyhow::Result<()> {
        let body = body(text, SystemTime::now())?;
        if let Some(queue) = self.queue.take() {
            // It waits for what is on its way, which takes as long as one delivery at most. The thread lives until then.
            let _ = queue.send(body);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let dropped = self.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            eprintln!("weir load: --prometheus-push: it was too slow for {dropped} deliveries, which were left out");
        }
        match self.failing.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => bail!("--prometheus-push: the last figures were not taken: {error}"),
            None => Ok(()),
        }
    }
}

fn deliver(url: &Url, waiting: &Receiver<Vec<u8>>, failing: &Mutex<Option<String>>) {
    for body in waiting {
        let error = post(url, &HEADERS, &body, PATIENCE).err().map(|error| format!("{error:#}"));
        let mut failing = failing.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(error), None) = (&error, &*failing) {
            eprintln!("weir load: --prometheus-push: {error}");
        }
        *failing = error;
    }
}

/// The body of a request: the samples of a text for Prometheus, at this time.
fn body(text: &str, now: SystemTime) -> anyhow::Result<Vec<u8>> {
    let timestamp = now.duration_since(UNIX_EPOCH).map_or(0, |time| i64::try_from(time.as_millis()).unwrap_or(0));
    let series = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let series = series.map(|line| {
        let (labels, value) = sample(line).with_context(|| format!("not a sample: {line}"))?;
        let mut labels: Vec<_> = labels.into_iter().map(|(name, value)| Label { name, value }).collect();
        labels.push(Label { name: "job".to_owned(), value: "weir-load".to_owned() });
        // The protocol wants them sorted.
        labels.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(TimeSeries { labels, samples: vec![Sample { value, timestamp }] })
    });
    let request = WriteRequest { series: series.collect::<anyhow::Result<_>>()? };
    Ok(snap::raw::Encoder::new().compress_vec(&request.encode_to_vec())?)
}

/// A line of the text: the labels, the name among them, and the value.
fn sample(line: &str) -> Option<(Vec<(String, String)>, f64)> {
    let (head, value) = line.rsplit_once(' ')?;
    let (name, mut rest) = head.strip_suffix('}')?.split_once('{')?;
    let mut labels = vec![("__name__".to_owned(), name.to_owned())];
    while !rest.is_empty() {
        let (label, quoted) = rest.split_once("=\"")?;
        let (mut text, mut letters, mut end) = (String::new(), quoted.char_indices(), None);
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    end = Some(at + 1);
                    break;
                }
                '\\' => text.push(match letters.next()?.1 {
                    'n' => '\n',
                    escaped => escaped,
                }),
                plain => text.push(plain),
            }
        }
        labels.push((label.to_owned(), text));
        rest = &quoted[end?..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some((labels, value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_every_sample_with_sorted_labels() {
        let text = "# HELP a_total What.\n# TYPE a_total counter\na_total{url=\"http://h/\\\"b\\\\c\\n\"} 3\n\
                    b_bucket{url=\"u\",le=\"+Inf\"} 1e3\n";
        let body = body(text, UNIX_EPOCH + Duration::from_millis(1234)).expect("samples");
        let plain = snap::raw::Decoder::new().decompress_vec(&body).expect("snappy");
        let request = WriteRequest::decode(plain.as_slice()).expect("a request");
        let told: Vec<_> = request
            .series
            .iter()
            .map(|series| {
                let labels: Vec<_> =
                    series.labels.iter().map(|label| (label.name.as_str(), label.value.as_str())).collect();
                (labels, series.samples[0])
            })
            .collect();
        let job = ("job", "weir-load");
        assert_eq!(
            told,
            [
                (
                    vec![("__name__", "a_total"), job, ("url", "http://h/\"b\\c\n")],
                    Sample { value: 3.0, timestamp: 1234 }
                ),
                (
                    vec![("__name__", "b_bucket"), job, ("le", "+Inf"), ("url", "u")],
                    Sample { value: 1e3, timestamp: 1234 }
                ),
            ]
        );
        assert!(super::body("a 1\n", UNIX_EPOCH).is_err(), "a sample without labels is none of ours");
    }
}
