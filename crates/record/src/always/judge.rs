//! Objectives judged and figures told while it is recorded: each window's records are joined as soon as the window is
//! over, in a thread of their own, and burn rates and figures follow from them.

use crate::windows::{Tap, TapCounts, Window};
use serde_json::json;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use weir_capture::EventSource;
use weir_explain::figures::{FigureFold, Figures};
use weir_explain::spans::{RealTime, Sampled};
use weir_explain::{Objectives, View};
use weir_measure::burn::{Alert, BurnFold, BurnRule};
use weir_timeline::{Bounds, Joiner, Labels, Response};

/// Records of a window that are held; where there are more, the window is not judged.
const MOST_RECORDS: usize = 1 << 20;
/// Windows that wait to be judged; more are dropped and counted.
const MOST_WAITING: usize = 2;

/// Where alerts go.
pub trait Alerts: Send {
    /// Takes an alert, without waiting.
    fn send(&self, alert: serde_json::Value);

    /// Ends it, and returns what was not delivered, if anything was not.
    fn finish(self: Box<Self>) -> Option<String>;
}

/// Where figures go.
pub trait FigureSink: Send {
    /// Takes what has been seen up to the end of a window, and the requests that its buckets name; without waiting.
    fn window(&self, figures: Figures, named: Vec<Sampled>);

    /// Ends it, and returns what was not delivered, if anything was not.
    fn finish(self: Box<Self>) -> Option<String>;
}

/// Where what is seen of windows goes.
#[derive(Default)]
pub struct Outlets {
    /// Alerts of objectives.
    pub alerts: Option<Box<dyn Alerts>>,
    /// Figures.
    pub figures: Option<Box<dyn FigureSink>>,
}

impl std::fmt::Debug for Outlets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { alerts, figures } = self;
        write!(formatter, "Outlets {{ alerts: {}, figures: {} }}", alerts.is_some(), figures.is_some())
    }
}

/// Judges windows. A source for each recorder feeds it.
#[derive(Debug)]
pub(super) struct Judge {
    to: Option<SyncSender<Window>>,
    thread: Option<JoinHandle<Vec<String>>>,
    counts: Arc<TapCounts>,
}

impl Judge {
    /// Begins.
    pub(super) fn start(view: View, rules: &[BurnRule], server: String, outlets: Outlets) -> anyhow::Result<Self> {
        let (to, from) = sync_channel(MOST_WAITING);
        let counts: Arc<TapCounts> = Arc::default();
        let mut bench = Bench {
            burns: view.objectives.iter().map(|(_, objective)| BurnFold::new(*objective, rules)).collect(),
            view,
            server,
            begin: Instant::now(),
            alerts: outlets.alerts,
            figures: outlets.figures.map(|sink| (FigureFold::default(), sink)),
            counts: Arc::clone(&counts),
        };
        let thread = std::thread::Builder::new().name("weir-judge".to_owned()).spawn(move || bench.sit(&from))?;
        Ok(Self { to: Some(to), thread: Some(thread), counts })
    }

    /// A source that feeds it.
    pub(super) fn source(&self) -> Option<Box<dyn EventSource>> {
        let to = self.to.clone()?;
        Some(Box::new(Tap::new("objectives", MOST_RECORDS, to, Arc::clone(&self.counts))))
    }

    /// Ends it; what a reader of the last run should know.
    pub(super) fn finish(mut self) -> Vec<String> {
        self.to = None;
        let mut notes = self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let missed = self.counts.missed();
        if missed > 0 {
            notes.push(format!(
                "{missed} windows held too many events to be judged, or to be in the figures, while recording"
            ));
        }
        notes
    }
}

struct Bench {
    view: View,
    burns: Vec<BurnFold>,
    server: String,
    begin: Instant,
    alerts: Option<Box<dyn Alerts>>,
    figures: Option<(FigureFold, Box<dyn FigureSink>)>,
    counts: Arc<TapCounts>,
}

impl Bench {
    fn sit(&mut self, windows: &Receiver<Window>) -> Vec<String> {
        // SAFETY: setpriority takes numbers; 0 is the calling thread. The observed server goes first.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
        for window in windows {
            self.judge(window);
        }
        let alerts = self.alerts.take().and_then(Alerts::finish);
        let figures = self.figures.take().and_then(|(_, sink)| sink.finish());
        alerts.into_iter().chain(figures).collect()
    }

    fn judge(&mut self, mut window: Window) {
        let mut objectives = Objectives::new(&self.view);
        let (mut joiner, mut labels) = (Joiner::of_server(Bounds::default(), &self.view.tls_ports), Labels::new());
        let fold = &mut self.figures;
        let mut take = |joiner: &Joiner, response: &Response<'_>| {
            objectives.push(response);
            if let Some((fold, _)) = fold {
                fold.push(joiner, &mut labels, response);
            }
        };
        window.join(&mut joiner, &mut take);
        objectives.edge(joiner.end_ns());
        if let Some((fold, sink)) = &mut self.figures {
            let named = fold.window(RealTime::now(), window.length_ns());
            sink.window(fold.figures(self.counts.missed()), named);
        }
        let at_s = self.begin.elapsed().as_secs();
        for ((text, _, judged), burn) in objectives.judged(0).into_iter().zip(&mut self.burns) {
            for alert in burn.push(at_s, judged) {
                let words = words(&text, &alert);
                eprintln!("weir record: {words}");
                if let Some(alerts) = &self.alerts {
                    alerts.send(message(&text, &self.server, &alert, &words));
                }
            }
        }
    }
}

fn words(objective: &str, alert: &Alert) -> String {
    let Alert { rule, fires, long_rate, short_rate, .. } = alert;
    let what = if *fires { "ALERT" } else { "over" };
    format!(
        "{what}: {objective}: burn rate {long_rate:.1} over {} s and {short_rate:.1} over {} s (alert from {} on)",
        rule.long_s, rule.short_s, rule.rate
    )
}

fn message(objective: &str, server: &str, alert: &Alert, words: &str) -> serde_json::Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "state": if alert.fires { "firing" } else { "resolved" },
        "objective": objective,
        "server": server,
        "host": std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim(),
        "time_s": now.as_secs(),
        "long_s": alert.rule.long_s,
        "short_s": alert.rule.short_s,
        "threshold": alert.rule.rate,
        "burn_rate_long": alert.long_rate,
        "burn_rate_short": alert.short_rate,
        "requests": alert.judged.requests,
        "bad": alert.judged.bad,
        "text": words,
    })
}
