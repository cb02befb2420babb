//! What a worker does at most.

use std::str::FromStr;
use weir_load::{Options, Url};

/// What a worker does at most.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits {
    /// Arrivals a second.
    pub(super) rate_per_s: Option<f64>,
    /// Connections to each host.
    pub(super) connections: Option<u32>,
    /// The only servers that are loaded; any where there are none.
    pub(super) targets: Vec<Target>,
}

/// A server that may be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    host: String,
    port: u16,
}

/// Why a job is not taken, or a limit is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum LimitError {
    #[error(
        "this worker makes at most {most} arrivals a second, and its part is {asked}; lower --rate, or take more workers"
    )]
    Rate { most: f64, asked: f64 },
    #[error("this worker makes at most {most} arrivals a second, and a closed loop has no rate; give --rate")]
    NoRate { most: f64 },
    #[error("this worker opens at most {most} connections, and its part is {asked}; lower -c, or take more workers")]
    Connections { most: u32, asked: u32 },
    #[error("this worker does not load {0}; its --allow-target names what it may")]
    Target(String),
    #[error("this worker loads only what its --allow-target names, and {0} leads elsewhere; leave it out")]
    Detour(&'static str),
    #[error("{0:?}: write HOST:PORT")]
    Form(String),
}

impl FromStr for Target {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let wrong = || LimitError::Form(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().map_err(|_| wrong())?;
        if host.is_empty() { Err(wrong()) } else { Ok(Self { host: host.to_ascii_lowercase(), port }) }
    }
}

impl Limits {
    /// Whether a worker's part of `workers` stays within them; `options` are those of the part.
    pub(super) fn check(&self, options: &Options, workers: u32) -> Result<(), LimitError> {
        if let Some(most) = self.rate_per_s {
            let asked = options.schedule.rate_per_s().ok_or(LimitError::NoRate { most })? / f64::from(workers);
            if asked > most {
                return Err(LimitError::Rate { most, asked });
            }
        }
        if let Some(most) = self.connections.filter(|most| options.connections > *most) {
            return Err(LimitError::Connections { most, asked: options.connections });
        }
        if self.targets.is_empty() {
            return Ok(());
        }
        // Each of these has connections go elsewhere than the URL says.
        let reach = &options.reach;
        for (is_given, name) in [
            (reach.proxy.is_some(), "--proxy"),
            (reach.connect_to.is_some(), "--connect-to"),
            (!reach.resolve.is_empty(), "--resolve"),
            (reach.unix.is_some(), "--unix"),
        ] {
            if is_given {
                return Err(LimitError::Detour(name));
            }
        }
        let hosts = options.requests.hosts();
        let urls: Vec<&Url> = if hosts.is_empty() { vec![&options.url] } else { hosts };
        let refused = urls.into_iter().find(|url| !self.targets.iter().any(|target| target.is(url)));
        refused.map_or(Ok(()), |url| Err(LimitError::Target(format!("{}:{}", url.host, url.port))))
    }
}

impl Target {
    fn is(&self, url: &Url) -> bool {
        let host = url.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&url.host);
        self.port == url.port && self.host == host.to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_load::Schedule;

    #[test]
    fn what_is_beyond_them_is_refused_in_words() {
        let mut options = Options::new(Url::parse("http://127.0.0.1:80/").expect("a URL"));
        let limits = Limits {
            rate_per_s: Some(100.0),
            connections: Some(10),
            targets: vec!["127.0.0.1:80".parse().expect("a target"), "[::1]:81".parse().expect("a target")],
        };
        let told =
            |options: &Options| limits.check(options, 2).err().map_or_else(String::new, |error| error.to_string());
        assert!(told(&options).contains("closed loop has no rate"), "{}", told(&options));
        options.schedule = Schedule::Fixed { rate_per_s: 200.0 };
        assert_eq!(told(&options), "");
        options.connections = 11;
        assert!(told(&options).contains("at most 10 connections"), "{}", told(&options));
        options.connections = 10;
        options.url = Url::parse("http://[::1]:81/").expect("a URL");
        assert_eq!(told(&options), "");
        options.url = Url::parse("http://127.0.0.1:81/").expect("a URL");
        assert!(told(&options).contains("127.0.0.1:81"), "{}", told(&options));
        options.schedule = Schedule::Fixed { rate_per_s: 202.0 };
        assert!(told(&options).contains("at most 100 arrivals"), "{}", told(&options));
        assert!("127.0.0.1".parse::<Target>().is_err());
    }
}
