//! A predicted point, measured: a real load of the server.

use anyhow::{Context, bail};
use std::path::Path;
use std::process::Command;
use weir_advise::{Changed, Examined};
use weir_capture::Target;
use weir_explain::View;
use weir_measure::class::Grouping;
use weir_predict::{Change, Prediction};
use weir_trace::{Entry, RunReader, Source};

/// Options of a load that go on as they were: with a value, and without.
const VALUED: [&str; 8] = ["-H", "--header", "-t", "--threads", "--timeout", "--seed", "--ca", "--cpu"];
const ALONE: [&str; 4] = ["--poisson", "--no-keepalive", "--insecure", "--http2"];
/// Before it counts, the server is loaded for so long, seconds.
const WARM_UP_S: f64 = 1.0;

/// What a load measured: throughput, mean, p50, p95, p99, as in a prediction.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct Measured {
    /// The load's command.
    pub(super) command: String,
    /// What the server had that was made for this; null where it is one that the user has.
    pub(super) copy_with: Option<String>,
    /// Responses a second.
    pub(super) throughput_per_s: f64,
    pub(super) mean_ns: f64,
    pub(super) p50_ns: f64,
    pub(super) p95_ns: f64,
    pub(super) p99_ns: f64,
}

/// How a run's load was made.
#[derive(Debug, Default, PartialEq)]
struct Made {
    url: Option<String>,
    words: Vec<String>,
    connections: Option<String>,
    method: Option<String>,
}

/// Loads the recorded URL, a copy of its servers that has other workers, or the URL given, as predicted.
pub(super) fn measure(
    run: &Path,
    url: &str,
    change: &Change,
    prediction: &Prediction,
    seconds: f64,
) -> anyhow::Result<Measured> {
    let is_recorded = url.is_empty();
    let reader = RunReader::open(run)?;
    let mut made = Made::default();
    for entry in &reader.entries {
        // The recorder's entry has the same command line where one program was both.
        if let Entry::Source { source, command, .. } = entry
            && source == Source::Client.name()
        {
            made = Made::default();
            made.read(command);
        }
    }
    if url.is_empty() && (change.cores.is_some() || !change.faster.is_empty()) {
        bail!(
            "--check: the recorded server does not have the change, and a copy is made with other workers only; start one \
             that has it, and name it: --check URL"
        );
    }
    if let Some(method) = made.method.as_deref().filter(|method| !["GET", "HEAD"].contains(method)) {
        bail!("--check: the load was made of {method} requests, which a trial would repeat on your data");
    }
    let recorded = made.url.clone().context("--check: the run does not tell what was loaded; say it: --check URL");
    let mut url = if url.is_empty() { recorded? } else { url.to_owned() };
    if url.contains("(redacted)") {
        bail!("--check: the run keeps no queries, and the load had one ({url}); say the whole: --check URL");
    }
    let copy = if is_recorded && !change.workers.is_empty() { Some(copied(run, &url, change)?) } else { None };
    let mut words = made.words.clone();
    if let Some(copy) = &copy {
        copy.url().clone_into(&mut url);
        words = words_for_a_copy(words, copy.load_words());
    }
    let connections = match (change.clients.or(change.connections), prediction.clients) {
        (Some(count), _) | (None, Some(count)) => Some(count.to_string()),
        _ => made.connections.clone(),
    };
    if let Some(connections) = connections {
        words.extend(["-c".to_owned(), connections]);
    }
    if let Some(rate) = prediction.rate_per_s {
        words.extend(["--rate".to_owned(), format!("{rate:.3}")]);
    }
    load(&url, &words, WARM_UP_S)?;
    let measured = load(&url, &words, seconds)?;
    Ok(Measured { copy_with: copy.map(|copy| copy.told().to_owned()), ..measured })
}

/// What a copy's load is told of what the recorded one was told, and `own`, which the copy's address asks for: a certificate
/// is not looked at twice, and a request has one host.
fn words_for_a_copy(recorded: Vec<String>, own: &[String]) -> Vec<String> {
    let is_host = |word: &String| word.to_ascii_lowercase().starts_with("host:");
    let has_host = recorded.iter().any(is_host);
    let mut words = Vec::new();
    let mut recorded = recorded.into_iter();
    while let Some(word) = recorded.next() {
        match word.as_str() {
            "--insecure" => {}
            "--ca" => drop(recorded.next()),
            _ => words.push(word),
        }
    }
    let mut own = own.iter().cloned();
    while let Some(word) = own.next() {
        if word == "-H" && has_host {
            own.next();
        } else {
            words.push(word);
        }
    }
    words
}

/// A copy of the recorded servers with the workers of a change.
fn copied(run: &Path, url: &str, change: &Change) -> anyhow::Result<Changed> {
    let explanation = weir_explain::explain(run, url.to_owned(), Grouping::new(Vec::new()), &View::default())?;
    let examined = Examined::of(run, &explanation, &Target::default())?;
    let copy = examined.with_workers(&change.workers);
    copy.context("--check: no copy of the recorded servers with these workers; name one that has them: --check URL")
}

fn load(url: &str, words: &[String], seconds: f64) -> anyhow::Result<Measured> {
    let program = std::env::current_exe().context("finding the path of this program for the load")?;
    let mut command = Command::new(program);
    command.arg("load").args(words).args(["-d", &format!("{seconds}s"), "--json", url]);
    let output = command.output().context("--check: the load does not start")?;
    if !output.status.success() {
        bail!("--check: the load of {url} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).context("--check: the load's report")?;
    let number = |value: &serde_json::Value| value.as_f64().context("--check: the load has no response to tell of");
    let curve = told["latency_curve_ns"].as_array().cloned().unwrap_or_default();
    let at = |percentile: f64| -> anyhow::Result<f64> {
        let point = curve.iter().find(|point| point[0].as_f64() == Some(percentile));
        number(point.map_or(&serde_json::Value::Null, |point| &point[1]))
    };
    Ok(Measured {
        copy_with: None,
        command: format!("weir load {} -d {seconds}s {url}", words.join(" ")),
        throughput_per_s: number(&told["rate_per_s"])?,
        mean_ns: number(&told["latency_ns"]["mean"])?,
        p50_ns: at(50.0)?,
        p95_ns: at(95.0)?,
        p99_ns: at(99.0)?,
    })
}

impl Made {
    fn read(&mut self, command: &[String]) {
        let own = command.iter().position(|word| word == "--").unwrap_or(command.len());
        let mut words = command[..own].iter();
        while let Some(word) = words.next() {
            let (name, attached) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            let mut value = || attached.clone().or_else(|| words.next().cloned());
            match name {
                "-c" | "--connections" => self.connections = value(),
                "-m" | "--method" | "-X" => self.method = value(),
                "--load" => self.url = value(),
                _ if VALUED.contains(&name) => {
                    let value = value();
                    self.words.extend([name.to_owned()].into_iter().chain(value));
                }
                _ if ALONE.contains(&name) => self.words.push(name.to_owned()),
                _ if name.starts_with("-c") && name[2..].parse::<u32>().is_ok() => {
                    self.connections = Some(name[2..].to_owned());
                }
                _ if word.contains("://") && !word.starts_with('-') => self.url = Some(word.clone()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_load_is_made_again_but_for_what_differs() {
        let line =
            "weir explain --load http://h/x --port 80 --rate 50 --poisson -c64 -H A:b --threads=2 -d 10s -- nginx -c f";
        let mut made = Made::default();
        made.read(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!((made.url.as_deref(), made.connections.as_deref()), (Some("http://h/x"), Some("64")));
        assert_eq!(made.words, ["--poisson", "-H", "A:b", "--threads", "2"]);
    }
}
