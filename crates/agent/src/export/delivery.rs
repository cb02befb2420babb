//! Sends what waits to an OTLP receiver, over HTTP with Protocol Buffers: tries again where that helps, gives up in time.
//!
//! What the statuses mean and what is tried again is the protocol's (OTLP 1.3, "OTLP/HTTP Response").

use super::error::ExportError;
use super::outbox::{Batch, Outbox};
use super::protobuf::{Content, Writer, fields};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use ureq::config::AutoHeaderValue;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use url::Url;

/// So long one try may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Tries of one batch; between them the pause doubles from the first, so that it is given up after some 15 s.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// A receiver may ask for a longer pause, but not for any.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// So long the end may take with what still waits.
const FAREWELL: Duration = Duration::from_secs(3);
/// How often metrics are sent.
const METRICS_EVERY: Duration = Duration::from_secs(10);
/// A receiver's answer is read so far.
const MOST_ANSWER: u64 = 64 << 10;

/// Where to, and what else is sent.
#[derive(Debug, Clone)]
pub struct OtlpOptions {
    /// The receiver's base address, such as `http://127.0.0.1:4318`; `v1/traces` and `v1/metrics` are added to its path.
    pub endpoint: Url,
    /// Header fields that go with each request, such as an API key.
    pub headers: Vec<(String, String)>,
}

/// Counts of what was to be sent.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Spans that the receiver has taken.
    pub(crate) sent: AtomicU64,
    /// Spans that it refused, alone or with their batch.
    pub(crate) refused: AtomicU64,
    /// Spans that were given up, because the receiver did not answer for too long.
    pub(crate) given_up: AtomicU64,
    /// Tries that failed.
    pub(crate) failures: AtomicU64,
    /// Metrics that were sent: so many times.
    pub(crate) metrics_sent: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl Counts {
    fn failed(&self, why: String) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// Why the last try failed; `None` if it did not.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Makes what is to be sent of the metrics, when it is time to.
pub(crate) type Metrics = Box<dyn Fn() -> Vec<u8> + Send>;

/// The thread that sends.
#[derive(Debug)]
pub(crate) struct Delivery {
    outbox: Arc<Outbox>,
    thread: Option<JoinHandle<()>>,
}

impl Delivery {
    /// Begins to send what comes into the outbox.
    ///
    /// # Errors
    /// [`ExportError::Endpoint`] for an address that cannot be that of a receiver, [`ExportError::Thread`].
    pub(crate) fn start(
        options: OtlpOptions,
        outbox: Arc<Outbox>,
        counts: Arc<Counts>,
        metrics: Metrics,
    ) -> Result<Self, ExportError> {
        let sender = Sender { receiver: Receiver::new(options)?, outbox: Arc::clone(&outbox), counts, metrics };
        let thread = std::thread::Builder::new()
            .name("weir-otlp".to_owned())
            .spawn(move || sender.run())
            .map_err(|source| ExportError::Thread { source })?;
        Ok(Self { outbox, thread: Some(thread) })
    }
}

/// At the end what waits gets one more try.
impl Drop for Delivery {
    fn drop(&mut self) {
        self.outbox.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a try came to.
#[derive(Debug)]
enum Outcome {
    /// It was taken, but for so many spans.
    Taken { rejected: u64, why: String },
    /// It may be taken later, after the pause that the receiver asks for.
    Later { why: String, pause: Option<Duration> },
    /// It will never be.
    Refused { why: String },
}

struct Sender {
    receiver: Receiver,
    outbox: Arc<Outbox>,
    counts: Arc<Counts>,
    metrics: Metrics,
}

impl Sender {
    fn run(&self) {
        let mut metrics_at = Instant::now() + METRICS_EVERY.min(Duration::from_secs(2));
        let mut ending_since = None;
        loop {
            let patience = metrics_at.saturating_duration_since(Instant::now()).min(Duration::from_millis(500));
            let batch = self.outbox.next(patience);
            let ending = self.outbox.pause(Duration::ZERO);
            if ending {
                ending_since.get_or_insert_with(Instant::now);
            }
            let over = ending_since.is_some_and(|since| since.elapsed() >= FAREWELL);
            match batch {
                Some(batch) if over => self.give_up(&batch),
                Some(batch) => self.deliver(&batch),
                None if ending => break,
                None => {}
            }
            if Instant::now() >= metrics_at {
                self.send_metrics();
                metrics_at = Instant::now() + METRICS_EVERY;
            }
        }
        if ending_since.is_none_or(|since| since.elapsed() < FAREWELL) {
            self.send_metrics();
        }
    }

    fn deliver(&self, batch: &Batch) {
        let body = request_of(batch);
        let mut pause = FIRST_PAUSE;
        for number in 1..=TRIES {
            let asked = match self.receiver.post("v1/traces", &body) {
                Outcome::Taken { rejected, why } => {
                    let rejected = rejected.min(batch.items);
                    self.counts.sent.fetch_add(batch.items - rejected, Ordering::Relaxed);
                    self.counts.refused.fetch_add(rejected, Ordering::Relaxed);
                    *self.counts.last_error.lock().unwrap_or_else(PoisonError::into_inner) =
                        (rejected > 0).then_some(why);
                    return;
                }
                Outcome::Refused { why } => {
                    self.counts.failed(why);
                    self.counts.refused.fetch_add(batch.items, Ordering::Relaxed);
                    return;
                }
                Outcome::Later { why, pause } => {
                    self.counts.failed(why);
                    pause
                }
            };
            if number == TRIES || self.outbox.pause(asked.unwrap_or(pause).min(LONGEST_PAUSE)) {
                break;
            }
            pause = pause * 2 + Duration::from_millis(fastrand::u64(..250));
        }
        self.give_up(batch);
    }

    fn give_up(&self, batch: &Batch) {
        self.counts.given_up.fetch_add(batch.items, Ordering::Relaxed);
    }

    /// They are sums since the begin, so what is not taken now is in what is sent next.
    fn send_metrics(&self) {
        match self.receiver.post("v1/metrics", &(self.metrics)()) {
            Outcome::Taken { .. } => {
                self.counts.metrics_sent.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Later { why, .. } | Outcome::Refused { why } => self.counts.failed(why),
        }
    }
}

/// An `ExportTraceServiceRequest`: each group is a `ResourceSpans`, its description the `Resource`, its items the spans.
fn request_of(batch: &Batch) -> Vec<u8> {
    let mut request = Writer::default();
    for (resource, spans) in &batch.groups {
        request.message(1, |group| {
            group.whole(1, resource);
            group.message(2, |scope| {
                super::resource::scope(scope);
                scope.append(spans.bytes());
            });
            group.text(3, super::resource::SCHEMA);
        });
    }
    request.into_bytes()
}

/// The OpenTelemetry receiver.
#[derive(Debug)]
struct Receiver {
    agent: ureq::Agent,
    options: OtlpOptions,
}

impl Receiver {
    fn new(options: OtlpOptions) -> Result<Self, ExportError> {
        let OtlpOptions { endpoint, headers } = &options;
        if !["http", "https"].contains(&endpoint.scheme()) || endpoint.host_str().is_none() {
            return Err(ExportError::Endpoint { address: endpoint.to_string() });
        }
        for (name, value) in headers {
            let plain = ureq::http::HeaderName::from_bytes(name.as_bytes()).is_ok()
                && ureq::http::HeaderValue::from_str(value).is_ok();
            if !plain {
                return Err(ExportError::Header { name: name.clone() });
            }
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .tls_config(tls(endpoint))
            // The command line alone decides where spans go: proxy variables of the environment are ignored.
            .proxy(None)
            .accept(AutoHeaderValue::None)
            .accept_encoding(AutoHeaderValue::None)
            .user_agent(AutoHeaderValue::from(concat!("weir/", env!("CARGO_PKG_VERSION"))))
            .timeout_global(Some(PATIENCE))
            .build();
        Ok(Self { agent: config.new_agent(), options })
    }

    fn post(&self, path: &str, body: &[u8]) -> Outcome {
        let mut address = self.options.endpoint.clone();
        let base = address.path().trim_end_matches('/').to_owned();
        address.set_path(&format!("{base}/{path}"));
        let shown = format!("{}/{path}", self.shown());
        let mut request = self.agent.post(address.as_str()).header("content-type", "application/x-protobuf");
        for (name, value) in &self.options.headers {
            request = request.header(name, value);
        }
        let mut answer = match request.send(body) {
            Ok(answer) => answer,
            Err(error) => {
                let why = match &error {
                    ureq::Error::Timeout(_) => format!("no answer within {} s", PATIENCE.as_secs()),
                    ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                        "the connection was refused: nothing listens there".to_owned()
                    }
                    other => other.to_string(),
                };
                return Outcome::Later { why: format!("{shown}: {why}"), pause: None };
            }
        };
        let status = answer.status().as_u16();
        let retry_after = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let content = answer.body_mut().with_config().limit(MOST_ANSWER).read_to_vec().unwrap_or_default();
        match status {
            200..300 => {
                let (rejected, words) = rejected(&content);
                Outcome::Taken { rejected, why: format!("{shown} refused {rejected} spans: {words}") }
            }
            429 | 502..=504 => Outcome::Later {
                why: format!("{shown} answered with status {status}"),
                pause: retry_after.map(Duration::from_secs),
            },
            _ => Outcome::Refused { why: format!("{shown} answered with status {status}: {}", words_of(&content)) },
        }
    }

    /// The address without what may be secret in it.
    fn shown(&self) -> String {
        let mut address = self.options.endpoint.clone();
        let _ = address.set_password(None);
        let _ = address.set_username("");
        address.set_query(None);
        address.as_str().trim_end_matches('/').to_owned()
    }
}

/// Certificates are only looked for where TLS is spoken.
fn tls(endpoint: &Url) -> TlsConfig {
    let roots: Vec<Certificate<'static>> = match endpoint.scheme() {
        "https" => rustls_native_certs::load_native_certs()
            .certs
            .iter()
            .map(|der| Certificate::from_der(der).to_owned())
            .collect(),
        _ => Vec::new(),
    };
    TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::new_with_certs(&roots))
        .build()
}

/// Of an `ExportTraceServiceResponse`: how many spans were refused, and why.
///
/// Public for the fuzz target.
#[must_use]
pub fn rejected(answer: &[u8]) -> (u64, String) {
    let Some((1, Content::Bytes(partial))) = fields(answer).find(|(field, _)| *field == 1) else {
        return (0, String::new());
    };
    let mut found = (0, String::new());
    for (field, content) in fields(partial) {
        match (field, content) {
            (1, Content::Varint(number)) => found.0 = u64::try_from(number as i64).unwrap_or(0),
            (2, Content::Bytes(text)) => found.1 = plain(text),
            _ => {}
        }
    }
    found
}

/// What a receiver says of a refusal: a `google.rpc.Status`, or any text.
fn words_of(answer: &[u8]) -> String {
    let message = fields(answer).find_map(|(field, content)| match content {
        Content::Bytes(text) if field == 2 => Some(plain(text)),
        _ => None,
    });
    message.filter(|text| !text.is_empty()).unwrap_or_else(|| plain(answer))
}

/// A text of others, fit for a line.
fn plain(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().map(|one| if one.is_control() { ' ' } else { one }).take(200).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_refused_is_read() {
        let mut answer = Writer::default();
        answer.message(1, |partial| {
            partial.unsigned(1, 7);
            partial.text(2, "too\nold");
        });
        assert_eq!(rejected(answer.bytes()), (7, "too old".to_owned()));
        assert_eq!(rejected(&[]), (0, String::new()));
        let mut status = Writer::default();
        status.unsigned(1, 3);
        status.text(2, "no such tenant");
        assert_eq!(words_of(status.bytes()), "no such tenant");
        assert_eq!(words_of(b"404 page not found\n"), "404 page not found");
    }

    #[test]
    fn addresses_that_are_none_are_refused() {
        let start = |address: &str, headers: &[(&str, &str)]| {
            let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Receiver::new(OtlpOptions { endpoint: Url::parse(address).expect("a URL"), headers })
        };
        assert!(start("http://127.0.0.1:4318", &[("x-key", "a")]).is_ok());
        let error = start("grpc://127.0.0.1:4317", &[]).expect_err("gRPC is not spoken");
        assert!(error.to_string().contains("http"), "{error}");
        assert!(matches!(start("http://a/", &[("a b", "c")]), Err(ExportError::Header { .. })));
        let secret = start("http://me:secret@127.0.0.1:1/base?key=7", &[]).expect("an address");
        assert_eq!(secret.shown(), "http://127.0.0.1:1/base");
    }

    proptest! {
        #[test]
        fn no_answer_breaks_it(bytes: Vec<u8>) {
            let (_, words) = rejected(&bytes);
            prop_assert!(words.chars().count() <= 200 && !words.contains('\n'));
            words_of(&bytes);
        }
    }
}
