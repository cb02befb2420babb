//! Alerts posted as JSON to an address of the user's: a bounded queue, bounded retries, nothing that the recording
//! waits for.

use anyhow::{Context, bail};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_load::{Control, Options, StopRule, Url};

/// Alerts that wait; more are dropped and counted.
const QUEUE: usize = 16;
/// Tries of one alert, and the pause after the first, which doubles each time: the last is made after half a minute.
const TRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Where alerts go.
#[derive(Debug)]
pub(crate) struct Webhook {
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
    /// Why the last attempt failed; none if it did not.
    failing: Mutex<Option<String>>,
}

impl Webhook {
    /// Begins to post to an address, http or https, for the command `who`; one try takes as long as `patience` at most.
    pub(crate) fn start(who: &'static str, address: &str, patience: Duration) -> anyhow::Result<Self> {
        let url = Url::parse(address).with_context(|| format!("--webhook {address}"))?;
        let (queue, waiting) = sync_channel(QUEUE);
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        let thread = std::thread::Builder::new()
            .name("weir-webhook".to_owned())
            .spawn(move || deliver(&Caller { who, url, patience }, &waiting, &shared))
            .context("cannot start a thread for the webhook")?;
        Ok(Self { queue: Some(queue), thread: Some(thread), counts })
    }

    /// Puts an alert into the queue.
    pub(crate) fn send(&self, alert: Value) {
        let taken = self.queue.as_ref().is_some_and(|queue| queue.try_send(alert).is_ok());
        if !taken {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Alerts that were not delivered, and will not be.
    pub(crate) fn lost(&self) -> u64 {
        self.counts.failed.load(Ordering::Relaxed) + self.counts.dropped.load(Ordering::Relaxed)
    }

    /// Why the last attempt failed; none if it did not.
    pub(crate) fn failing(&self) -> Option<String> {
        self.counts.failing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends it: each alert that waits gets one more attempt. Returns what was not delivered.
    pub(crate) fn finish(mut self) -> Option<String> {
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

/// Who posts where.
struct Caller {
    who: &'static str,
    url: Url,
    /// How long one attempt may take.
    patience: Duration,
}

fn deliver(caller: &Caller, waiting: &Receiver<Value>, counts: &Counts) {
    for alert in waiting {
        let counter =
            if delivered(caller, &alert.to_string().into_bytes(), counts) { &counts.sent } else { &counts.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tries until it is taken, the tries are used up, or the command ends.
fn delivered(caller: &Caller, body: &[u8], counts: &Counts) -> bool {
    let mut pause = FIRST_PAUSE;
    for number in 1..=TRIES {
        let error = caller.post(body).err().map(|error| format!("{error:#}"));
        let before = {
            let mut failing = counts.failing.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *failing, error.clone())
        };
        let who = caller.who;
        let Some(error) = error else {
            if before.is_some() {
                let lost = counts.failed.load(Ordering::Relaxed) + counts.dropped.load(Ordering::Relaxed);
                eprintln!("{who}: the webhook takes alerts again; {lost} were lost so far");
            }
            return true;
        };
        let last = number == TRIES || counts.ending.load(Ordering::Acquire);
        // Told when it begins, not at each try.
        if before.is_none() {
            eprintln!("{who}: the webhook: {error}; {TRIES} tries are made within half a minute for each alert");
        }
        if last {
            return false;
        }
        std::thread::sleep(pause);
        pause *= 2;
    }
    false
}

impl Caller {
    /// One try.
    fn post(&self, body: &[u8]) -> anyhow::Result<()> {
        post_json(&self.url, body, self.patience)
    }
}

/// Posts JSON, once: any status of success is an answer.
///
/// # Errors
/// Another status, or no answer within the time.
pub(crate) fn post_json(url: &Url, body: &[u8], patience: Duration) -> anyhow::Result<()> {
    post(url, &[("Content-Type", "application/json")], body, patience)
}

/// Posts a body with these headers, once: any status of success is an answer.
///
/// # Errors
/// Another status, or no answer within the time.
pub(crate) fn post(url: &Url, headers: &[(&str, &str)], body: &[u8], patience: Duration) -> anyhow::Result<()> {
    let mut options = Options::new(url.clone());
    "POST".clone_into(&mut options.request.method);
    options.request.headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    options.request.body = body.to_vec();
    (options.connections, options.keep_alive, options.timeout) = (1, false, patience);
    options.stop = StopRule::Requests(1);
    let report = weir_load::run(options, &Control::default())?;
    match report.status.first() {
        Some((200..300, _)) => Ok(()),
        Some((status, _)) => bail!("it answered with status {status}"),
        None => bail!("it did not answer ({})", report.errors.first().map_or("no reason", |(kind, _)| kind.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn at_the_end_each_alert_gets_one_more_try() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("its address"));
        let tries = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&tries);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                let _request = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"HTTP/1.1 500 Full\r\nContent-Length: 0\r\n\r\n");
            }
        });
        let webhook = Webhook::start("weir test", &url, Duration::from_secs(10)).expect("it starts");
        (0..3).for_each(|number| webhook.send(serde_json::json!({ "number": number })));
        while tries.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let said = webhook.finish().expect("something was not delivered");
        assert!(said.starts_with("3 alerts could not be delivered"), "{said}");
        let tries = tries.load(Ordering::SeqCst);
        assert!((3..=4).contains(&tries), "{tries} tries");
    }
}
