//! Alerts posted as JSON to an address of the user's: a bounded queue, bounded retries, nothing that the recording
//! waits for.

use anyhow::{Context, bail};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_load::{Control, Options, StopRule, Url};

/// Alerts that wait; more are dropped and counted.
const QUEUE: usize = 16;
/// Tries of one alert, and the pause after the first, which doubles each time: the last is made after half a minute.
const TRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// So long one try may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where alerts go.
#[derive(Debug)]
pub(super) struct Webhook {
    queue: Option<SyncSender<Value>>,
    thread: Option<JoinHandle<()>>,
    counts: Arc<Counts>,
}

/// What became of alerts.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    /// The command ends: no further tries.
    ending: AtomicBool,
}

impl Webhook {
    /// Begins to post to an address, http or https.
    pub(super) fn start(address: &str) -> anyhow::Result<Self> {
        let url = Url::parse(address).with_context(|| format!("--webhook {address}"))?;
        let (queue, waiting) = sync_channel(QUEUE);
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        let thread = std::thread::Builder::new()
            .name("weir-webhook".to_owned())
            .spawn(move || deliver(&url, &waiting, &shared))
            .context("cannot start a thread for the webhook")?;
        Ok(Self { queue: Some(queue), thread: Some(thread), counts })
    }

    /// Puts an alert into the queue.
    pub(super) fn send(&self, alert: Value) {
        let taken = self.queue.as_ref().is_some_and(|queue| queue.try_send(alert).is_ok());
        if !taken {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends it: what waits gets one more try each. What was not delivered is told.
    pub(super) fn finish(mut self) -> Option<String> {
        self.counts.ending.store(true, Ordering::Release);
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (sent, lost) = (count(&self.counts.sent), count(&self.counts.failed) + count(&self.counts.dropped));
        (lost > 0).then(|| format!("{lost} alerts could not be delivered to the webhook, {sent} were"))
    }
}

fn deliver(url: &Url, waiting: &Receiver<Value>, counts: &Counts) {
    for alert in waiting {
        let body = alert.to_string().into_bytes();
        let mut pause = FIRST_PAUSE;
        let delivered = (1..=TRIES).any(|number| match post(url.clone(), &body) {
            Ok(()) => true,
            Err(error) => {
                let last = number == TRIES || counts.ending.load(Ordering::Acquire);
                eprintln!("weir record: the webhook: {error:#}{}", if last { "" } else { "; it is tried again" });
                if !last {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                false
            }
        });
        let counter = if delivered { &counts.sent } else { &counts.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// One try: any status of success is an answer.
fn post(url: Url, body: &[u8]) -> anyhow::Result<()> {
    let mut options = Options::new(url);
    "POST".clone_into(&mut options.request.method);
    options.request.headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    options.request.body = body.to_vec();
    (options.connections, options.keep_alive, options.timeout) = (1, false, PATIENCE);
    options.stop = StopRule::Requests(1);
    let report = weir_load::run(options, &Control::default())?;
    match report.status.first() {
        Some((200..300, _)) => Ok(()),
        Some((status, _)) => bail!("it answered with status {status}"),
        None => bail!("it did not answer ({})", report.errors.first().map_or("no reason", |(kind, _)| kind.name())),
    }
}
