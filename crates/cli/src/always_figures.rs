//! The figures of `weir record --always` for Prometheus, and the requests that they name as spans.

use crate::explain::spans::receiver;
use crate::metrics_endpoint;
use crate::webhook::post_json;
use anyhow::Context;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_endpoint::Endpoint;
use weir_explain::figures::{BOUNDS_US, BUCKETS, ClassFigures, Figures};
use weir_explain::spans::{Origin, Sampled, body};
use weir_exposition::{Exemplar, Families, Format, Kind};
use weir_load::Url;
use weir_measure::part::Part;
use weir_record::always::FigureSink;

/// Windows whose requests wait to be sent; those of more are dropped and counted.
const QUEUE: usize = 4;
/// How long a receiver may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Requests that were handed on.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    lost: AtomicU64,
}

/// Tells the figures to scrapers, and hands the requests on that they name.
#[derive(Debug)]
pub(crate) struct Telling {
    figures: Arc<Mutex<Figures>>,
    /// It answers as long as this lives.
    _endpoint: Endpoint,
    spans: Option<Spans>,
}

/// Hands requests on, in a thread of its own.
#[derive(Debug)]
struct Spans {
    queue: SyncSender<Vec<Sampled>>,
    thread: JoinHandle<()>,
    counts: Arc<Counts>,
}

impl Telling {
    /// Begins to answer at an address, and to hand requests of an origin on to a receiver, if one is named.
    ///
    /// # Errors
    /// The address cannot be listened at, or the receiver's is no URL.
    pub(crate) fn start(address: SocketAddr, otlp: Option<&str>, origin: Origin) -> anyhow::Result<Self> {
        let spans = otlp.map(|to| Spans::start(receiver(to)?, origin)).transpose()?;
        let figures: Arc<Mutex<Figures>> = Arc::default();
        let (shown, counts) = (Arc::clone(&figures), spans.as_ref().map(|spans| Arc::clone(&spans.counts)));
        let answer = move |format| {
            let figures = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
            text(&figures, counts.as_deref(), format)
        };
        let endpoint = metrics_endpoint::answering_as(address, answer).context("--prometheus-listen")?;
        eprintln!("weir record: figures at http://{}/metrics", endpoint.address());
        Ok(Self { figures, _endpoint: endpoint, spans })
    }
}

impl FigureSink for Telling {
    fn window(&self, figures: Figures, named: Vec<Sampled>) {
        // First the spans are on their way, then they are named.
        if let Some(spans) = self.spans.as_ref().filter(|_| !named.is_empty()) {
            let count = named.len() as u64;
            if spans.queue.try_send(named).is_err() {
                spans.counts.lost.fetch_add(count, Ordering::Relaxed);
            }
        }
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner) = figures;
    }

    fn finish(self: Box<Self>) -> Option<String> {
        let Spans { queue, thread, counts } = self.spans?;
        drop(queue);
        let ended = thread.join().is_ok();
        let lost = counts.lost.load(Ordering::Relaxed);
        let sent = counts.sent.load(Ordering::Relaxed);
        (lost > 0 || !ended).then(|| format!("{lost} requests could not be handed on as spans, {sent} were"))
    }
}

impl Spans {
    fn start(url: Url, origin: Origin) -> anyhow::Result<Self> {
        let (queue, waiting) = sync_channel(QUEUE);
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        let thread = std::thread::Builder::new()
            .name("weir-spans".to_owned())
            .spawn(move || hand_on(&url, &origin, &waiting, &shared))
            .context("cannot start a thread for spans")?;
        Ok(Self { queue, thread, counts })
    }
}

fn hand_on(url: &Url, origin: &Origin, waiting: &Receiver<Vec<Sampled>>, counts: &Counts) {
    let mut fails = false;
    for requests in waiting {
        let error = post_json(url, body(origin, &requests).to_string().as_bytes(), PATIENCE).err();
        let counter = if error.is_none() { &counts.sent } else { &counts.lost };
        counter.fetch_add(requests.len() as u64, Ordering::Relaxed);
        // Told when it begins to fail, not at each window.
        if let Some(error) = error.as_ref().filter(|_| !fails) {
            eprintln!("weir record: the receiver of spans: {error:#}; requests are lost until it takes them again");
        }
        fails = error.is_some();
    }
}

/// The text itself.
fn text(figures: &Figures, counts: Option<&Counts>, format: Format) -> String {
    use Kind::Counter;
    let mut out = Families::of(format);
    let Figures { windows, missed, watched_ns, cut, unjoinable, .. } = figures;
    out.one("weir_record_windows_total", Counter, "Windows that were recorded and read.", windows);
    let help = "Windows that held too many events to be read.";
    out.one("weir_record_missed_windows_total", Counter, help, missed);
    let help = "How long the windows were, together; the figures are of this time alone.";
    out.one("weir_record_watched_seconds_total", Counter, help, seconds(*watched_ns));
    let help = "Requests that the edge of a window cut; they are in no other figure.";
    out.one("weir_record_cut_requests_total", Counter, help, cut);
    let help = "Requests of which not all was seen; they are in no other figure.";
    out.one("weir_record_unjoinable_requests_total", Counter, help, unjoinable);
    let name = "weir_record_response_seconds";
    out.begin(name, Kind::Histogram, "From a request's first byte at the server to the last send of its response.");
    for (class, figures) in &figures.classes {
        out.exemplified(name, &[("class", class)], below(figures), seconds(figures.sum_ns));
    }
    let name = "weir_record_part_seconds_total";
    out.begin(name, Counter, "What the time of responses was spent on.");
    for (class, figures) in &figures.classes {
        for part in Part::ALL.into_iter().filter(|part| figures.parts_ns[*part as usize] > 0) {
            let labels = [("class", class.as_str()), ("part", part.name())];
            out.sample(name, &labels, seconds(figures.parts_ns[part as usize]));
        }
    }
    let name = "weir_record_culprit_seconds_total";
    out.begin(name, Counter, "Whom or what it was spent on, where that is known.");
    let mut culprits: Vec<_> = figures.culprits.iter().collect();
    culprits.sort_by_key(|(culprit, _)| *culprit);
    for ((part, culprit), ns) in culprits {
        out.sample(name, &[("part", part.name()), ("culprit", culprit)], seconds(*ns));
    }
    if let Some(Counts { sent, lost }) = counts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let help = "Requests that were handed on as spans, and those that could not be.";
        let samples = [("sent", count(sent)), ("lost", count(lost))];
        out.by("weir_record_spans_total", Counter, help, "outcome", &samples);
    }
    out.into_text()
}

/// How many responses do not exceed each bound, with the slowest one of that bucket.
fn below(figures: &ClassFigures) -> impl Iterator<Item = (f64, u64, Option<Exemplar>)> {
    let mut all = 0;
    (0..BUCKETS).map(move |bucket| {
        all += figures.buckets[bucket];
        let bound = BOUNDS_US.get(bucket).map_or(f64::INFINITY, |bound| *bound as f64 / 1e6);
        let exemplar = figures.exemplars[bucket].map(|one| Exemplar {
            trace: one.trace,
            span: one.span,
            value: seconds(one.response_ns),
            unix_ns: one.unix_ns,
        });
        (bound, all, exemplar)
    })
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
