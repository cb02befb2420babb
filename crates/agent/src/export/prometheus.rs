//! Metrics for Prometheus: the text format 0.0.4, and the little server that gives it out.

use super::error::ExportError;
use super::families::{BOUNDS_S, Data, Family, Labels};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_exposition::{Families, Kind};

/// A request's head may be so long.
const MOST_HEAD: usize = 8 << 10;
/// So long a scraper may take to ask, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Scrapes at a time; further ones are told to come again.
const MOST_SCRAPES: usize = 4;
/// How often the server looks whether it shall end.
const LOOK: Duration = Duration::from_millis(100);

/// The families as text.
pub(crate) fn text(families: &[Family]) -> String {
    let mut out = Families::new();
    for family in families {
        let name = family.prometheus_name();
        let kind = match family.data {
            Data::Histogram(_) => Kind::Histogram,
            Data::Sum(_) => Kind::Counter,
            Data::Gauge(_) => Kind::Gauge,
        };
        out.begin(&name, kind, &on_a_line(&family.help));
        match &family.data {
            Data::Sum(series) | Data::Gauge(series) => {
                for (labels, value) in series {
                    with_labels(labels, |labels| out.sample(&name, labels, value));
                }
            }
            Data::Histogram(series) => {
                for (labels, histogram) in series {
                    let bounds = BOUNDS_S.iter().copied().chain([f64::INFINITY]);
                    let below = histogram.buckets.iter().scan(0u64, |below, count| {
                        *below = below.saturating_add(*count);
                        Some(*below)
                    });
                    let below = bounds.zip(below);
                    with_labels(labels, |labels| out.histogram(&name, labels, below, histogram.sum_s()));
                }
            }
        }
    }
    out.into_text()
}

/// Calls `then` with the labels as Prometheus names them.
fn with_labels(labels: &Labels, then: impl FnOnce(weir_exposition::Labels<'_>)) {
    let labels: Vec<(String, String)> =
        labels.iter().map(|(name, value)| (name.replace('.', "_"), on_a_line(value))).collect();
    let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    then(&labels);
}

/// A text with spaces for characters that no line may hold; the writer has an escape for the end of a line.
fn on_a_line(text: &str) -> String {
    text.chars().map(|one| if one.is_control() && one != '\n' { ' ' } else { one }).collect()
}

/// Makes the text when it is asked for.
pub(crate) type Page = Arc<dyn Fn() -> String + Send + Sync>;

/// The server.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`ExportError::Listen`], [`ExportError::Thread`].
    pub(crate) fn start(address: SocketAddr, page: Page) -> Result<Self, ExportError> {
        let refused = |source| ExportError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let ending = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ending);
        let thread = std::thread::Builder::new()
            .name("weir-metrics".to_owned())
            .spawn(move || listen(&listener, &page, &end))
            .map_err(|source| ExportError::Thread { source })?;
        Ok(Self { address, ending, thread: Some(thread) })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(listener: &TcpListener, page: &Page, ending: &AtomicBool) {
    let scrapes = Arc::new(AtomicUsize::new(0));
    while !ending.load(Ordering::Acquire) {
        let Ok((stream, _)) = listener.accept() else {
            // No scraper has connected, or no descriptors are left: either passes.
            std::thread::sleep(LOOK);
            continue;
        };
        if scrapes.fetch_add(1, Ordering::AcqRel) >= MOST_SCRAPES {
            scrapes.fetch_sub(1, Ordering::AcqRel);
            refuse(&stream, "503 Service Unavailable", "too many ask at a time\n");
            continue;
        }
        let (page, own) = (Arc::clone(page), Arc::clone(&scrapes));
        let serve = move || {
            serve(&stream, &page);
            own.fetch_sub(1, Ordering::AcqRel);
        };
        if std::thread::Builder::new().name("weir-scrape".to_owned()).spawn(serve).is_err() {
            scrapes.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn serve(stream: &TcpStream, page: &Page) {
    // The listener's mode is not always the connection's.
    let _ = stream.set_nonblocking(false);
    let Some((method, path)) = asked(stream) else {
        return refuse(stream, "400 Bad Request", "this is no request for metrics\n");
    };
    match (method.as_str(), path.split('?').next()) {
        ("GET", Some("/metrics")) => answer(stream, "200 OK", &page()),
        (_, Some("/metrics")) => answer(stream, "405 Method Not Allowed", "only GET is known here\n"),
        _ => answer(stream, "404 Not Found", "the metrics are at /metrics\n"),
    }
}

/// Method and path of a request, whose head must come in time.
fn asked(mut stream: &TcpStream) -> Option<(String, String)> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.checked_duration_since(Instant::now())?;
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1)))).ok()?;
        let length = stream.read(&mut piece).ok().filter(|length| *length > 0)?;
        head.extend_from_slice(&piece[..length]);
        if head.len() > MOST_HEAD {
            return None;
        }
    }
    request_line(&head)
}

/// Method and path of the first line.
///
/// Public for the fuzz target.
#[must_use]
pub fn request_line(head: &[u8]) -> Option<(String, String)> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    let is_http = version.starts_with("HTTP/1.") && words.next().is_none() && path.starts_with('/');
    is_http.then(|| (method.to_owned(), path.to_owned()))
}

/// Answers one whose request was not read to its end: without a look at the rest the system would tear the answer down.
fn refuse(mut stream: &TcpStream, status: &str, content: &str) {
    answer(stream, status, content);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(LOOK));
    let _ = stream.read(&mut [0; 1024]);
}

fn answer(mut stream: &TcpStream, status: &str, content: &str) {
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let kind = if status.starts_with("200") { "text/plain; version=0.0.4" } else { "text/plain" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        content.len()
    );
    // A scraper that has gone needs no answer.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(content.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::classes::Classes;
    use crate::export::testing::transaction;
    use proptest::prelude::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it takes it");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    #[test]
    fn the_text_is_as_the_format_says() {
        let mut classes = Classes::default();
        classes.push(&transaction("a \"b\"\\\n", "pay", 300_000));
        let text = text(&classes.families(false));
        let labels = r#"arm_application_name="a \"b\"\\\n",arm_transaction_name="pay",arm_status="good""#;
        for line in [
            "# TYPE arm_transaction_duration_seconds histogram".to_owned(),
            format!("arm_transaction_duration_seconds_bucket{{{labels},le=\"0.00025\"}} 0"),
            format!("arm_transaction_duration_seconds_bucket{{{labels},le=\"0.0005\"}} 1"),
            format!("arm_transaction_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 1"),
            format!("arm_transaction_duration_seconds_sum{{{labels}}} 0.0003"),
            format!("arm_transaction_duration_seconds_count{{{labels}}} 1"),
            "arm_agent_unclassified_total 0".to_owned(),
        ] {
            assert!(text.lines().any(|one| one == line), "no line {line} in\n{text}");
        }
    }

    #[test]
    fn it_answers_what_is_asked_and_survives_the_rest() {
        let page: Page = Arc::new(|| "up 1\n".to_owned());
        let endpoint = Endpoint::start("127.0.0.1:0".parse().expect("an address"), page).expect("it starts");
        let status = |request: &str| ask(endpoint.address, request).split(' ').nth(1).map(str::to_owned);
        let good = ask(endpoint.address, "GET /metrics?x HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(
            good.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4;")
                && good.ends_with("\r\n\r\nup 1\n")
        );
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n").as_deref(), Some("404"));
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n").as_deref(), Some("405"));
        assert_eq!(status("nonsense\r\n\r\n").as_deref(), Some("400"));
        // Idle connections do not delay the endpoint. Beyond the bound, a new connection gets a 503.
        let mut idle = Vec::new();
        let connect = || TcpStream::connect(endpoint.address).expect("it listens");
        idle.extend((0..MOST_SCRAPES).map(|_| connect()));
        // Connections are taken in their order. One of them is refused where a scrape of before has not quite ended.
        while status("GET /metrics HTTP/1.1\r\n\r\n").as_deref() != Some("503") {
            assert!(idle.len() < 5 * MOST_SCRAPES, "there is no bound");
            idle.push(connect());
        }
        drop(idle);
        let end = Instant::now() + 20 * PATIENCE;
        while status("GET /metrics HTTP/1.1\r\n\r\n").as_deref() != Some("200") {
            assert!(Instant::now() < end, "the places of connections that have gone are not free");
            std::thread::sleep(LOOK);
        }
    }

    proptest! {
        #[test]
        fn no_request_breaks_it(head: Vec<u8>) {
            if let Some((_, path)) = request_line(&head) {
                prop_assert!(path.starts_with('/'));
            }
        }

        #[test]
        fn every_label_stays_on_its_line(value in "\\PC{0,20}[\\n\\r\\t\"\\\\]{0,3}\\PC{0,20}") {
            let mut classes = Classes::default();
            classes.push(&transaction(&value, &value, 1));
            let told = text(&classes.families(false));
            for line in told.lines().filter(|line| !line.starts_with('#')) {
                let (_, number) = line.rsplit_once(' ').expect("a value");
                prop_assert!(number.parse::<f64>().is_ok(), "{line}");
            }
        }
    }
}
