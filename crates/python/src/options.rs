//! What Python asks for, as options of a run.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use weir_load::sessions::{Session, Sessions, Think, parse_sessions};
use weir_load::workload::{FileSet, Mix, Surge, surge};
use weir_load::{
    Io, Link, ListedRequest, Options, Order, Profile, Protocol, Request, Schedule, SlowClient, StopRule, Stretch,
    Trust, Url,
};

/// A request: URL, method, headers, body, weight.
#[derive(Debug, FromPyObject)]
pub(crate) struct Asked(String, String, Vec<(String, String)>, PyBackedBytes, u32);

/// A run as Python asks for it; what is not given is as weir-load has it.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Wanted {
    pub(crate) requests_list: Vec<Asked>,
    #[pyo3(default)]
    connections: Option<u32>,
    #[pyo3(default)]
    threads: Option<u32>,
    #[pyo3(default)]
    requests: Option<u64>,
    #[pyo3(default)]
    duration: Option<f64>,
    #[pyo3(default)]
    rate: Option<f64>,
    #[pyo3(default)]
    rates: Vec<(f64, f64, f64)>,
    #[pyo3(default)]
    poisson: bool,
    #[pyo3(default)]
    seed: Option<u64>,
    #[pyo3(default)]
    keepalive: Option<bool>,
    #[pyo3(default)]
    pipeline: Option<u32>,
    #[pyo3(default)]
    streams: Option<u32>,
    #[pyo3(default)]
    timeout: Option<f64>,
    #[pyo3(default)]
    ok: Option<String>,
    #[pyo3(default)]
    queue: Option<usize>,
    #[pyo3(default)]
    cpu: Option<usize>,
    #[pyo3(default)]
    io: Option<String>,
    #[pyo3(default)]
    interval: Option<f64>,
    #[pyo3(default)]
    cookies: Vec<(String, String)>,
    #[pyo3(default)]
    cookie_jar: bool,
    #[pyo3(default)]
    weighted: bool,
    #[pyo3(default)]
    repeat: Option<u64>,
    #[pyo3(default)]
    think: f64,
    #[pyo3(default)]
    sessions: Option<PathBuf>,
    #[pyo3(default)]
    mix: Option<String>,
    #[pyo3(default)]
    directories: Option<u32>,
    #[pyo3(default)]
    files: Option<u32>,
    #[pyo3(default)]
    fileset_seed: Option<u64>,
    #[pyo3(default)]
    client: Option<String>,
    #[pyo3(default)]
    limit_read: Option<f64>,
    #[pyo3(default)]
    limit_write: Option<f64>,
    #[pyo3(default)]
    latency: Option<f64>,
    #[pyo3(default)]
    patience: Option<f64>,
    #[pyo3(default)]
    insecure: bool,
    #[pyo3(default)]
    ca: Option<PathBuf>,
    #[pyo3(default)]
    certificate: Option<PathBuf>,
    #[pyo3(default)]
    key: Option<PathBuf>,
    #[pyo3(default)]
    server_name: Option<String>,
    #[pyo3(default)]
    resume: bool,
    #[pyo3(default)]
    unix: Option<PathBuf>,
    #[pyo3(default)]
    proxy: Option<String>,
    #[pyo3(default)]
    sources: Vec<String>,
    #[pyo3(default)]
    connect_to: Option<String>,
    /// The most samples to keep, and the most that wait in a stream.
    #[pyo3(default)]
    pub(crate) samples: usize,
    #[pyo3(default)]
    pub(crate) buffer: usize,
}

impl Wanted {
    /// The options that it means; they were checked.
    pub(crate) fn options(&self) -> PyResult<Options> {
        let list =
            self.requests_list.iter().zip(0..).map(|(asked, name)| asked.listed(name)).collect::<PyResult<Vec<_>>>()?;
        let first = list.first().ok_or_else(|| PyValueError::new_err("there is nothing to ask: give a URL"))?;
        let mut options = Options::new(first.url.clone());
        match self.repeat {
            Some(users) => {
                self.sessions(&mut options, &list)?;
                options.stop = StopRule::Requests(users);
            }
            None if self.sessions.is_some() || self.mix.is_some() => self.generate(&mut options, &list)?,
            None if self.think > 0.0 => {
                return Err(wrong("think needs repeat or sessions: users pause between their requests"));
            }
            None if self.weighted => {
                self.without_files("a list")?;
                options.requests.order = Order::Weighted { seed: self.seed() };
            }
            None => self.without_files("a list")?,
        }
        if !options.requests.list.is_empty() {
            // What is asked was made from a file of sessions, or is the mix's.
        } else if list.len() == 1 && self.repeat.is_none() {
            options.request = first.request.clone();
        } else {
            options.requests.list = list;
        }
        options.requests.cookies.clone_from(&self.cookies);
        options.requests.cookie_jar = self.cookie_jar;
        if let Some(text) = &self.ok {
            options.expected = text.parse().map_err(|error| wrong(format!("ok: {error}")))?;
        }
        self.amounts(&mut options)?;
        self.way(&mut options)?;
        options.slow = self.slow()?;
        options.check().map_err(wrong)?;
        Ok(options)
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    /// What users pause between their requests.
    fn pause(&self) -> PyResult<Think> {
        Ok(if self.think > 0.0 { Think::Fixed(time("think", self.think)?) } else { Think::None })
    }

    /// Requests that the one which was given only begins: those of a file of sessions, or of a mix.
    fn generate(&self, options: &mut Options, list: &[ListedRequest]) -> PyResult<()> {
        let [base] = list else {
            return Err(wrong("sessions and mix say what is asked: give one URL, where that begins"));
        };
        if self.weighted || self.sessions.is_some() && self.mix.is_some() {
            return Err(wrong("sessions or mix: each says by itself what is asked and how often"));
        }
        if let Some(file) = &self.sessions {
            self.without_files("sessions")?;
            let named = |error: &dyn Display| wrong(format!("sessions: {}: {error}", file.display()));
            let text = std::fs::read_to_string(file).map_err(|error| named(&error))?;
            let parsed = parse_sessions(&text, Some(&base.url), &base.request, self.pause()?);
            let (requests, list) = parsed.map_err(|error| named(&error))?;
            options.requests.list = requests;
            options.requests.sessions = Some(Sessions { list, seed: self.seed() });
        } else if let Some(name) = &self.mix {
            if self.think > 0.0 {
                return Err(wrong("the users of a mix pause by its own laws: leave think out"));
            }
            let files = self.file_set(name)?;
            let mix = Mix { files, seed: self.seed(), directories_zipf: None, crowd: None };
            options.requests.list = mix.requests(&base.url, &base.request);
            options.requests.mix = Some(mix);
        }
        for (listed, name) in options.requests.list.iter_mut().zip(0..) {
            listed.request.name = name;
        }
        Ok(())
    }

    /// Refuses the options of a mix's files where there is none.
    fn without_files(&self, what: &str) -> PyResult<()> {
        let given = self.directories.is_some() || self.files.is_some() || self.fileset_seed.is_some();
        if given {
            Err(wrong(format!("directories, files and fileset_seed are a mix's, not those of {what}")))
        } else {
            Ok(())
        }
    }

    /// The files of a mix.
    fn file_set(&self, name: &str) -> PyResult<FileSet> {
        let seed = self.fileset_seed.unwrap_or(1);
        match (name, self.directories, self.files) {
            ("specweb96", Some(directories), None) => Ok(FileSet::SpecWeb96 { directories, seed }),
            ("specweb96", ..) => Err(wrong("specweb96: its size is a number of directories: give directories alone")),
            ("surge", None, Some(files)) if (1..=surge::FILES_MAX).contains(&files) => {
                Ok(FileSet::Surge(Surge::new(files, seed)))
            }
            ("surge", ..) => Err(wrong("surge: its size is a number of files: give files alone, 1 to 1000000")),
            _ => Err(wrong(format!("{name}: mix is specweb96 or surge"))),
        }
    }

    /// What slows clients down.
    fn slow(&self) -> PyResult<SlowClient> {
        let known = || Link::names().collect::<Vec<_>>().join(", ");
        let line = match &self.client {
            Some(name) => Link::named(name).ok_or_else(|| wrong(format!("client {name}: there are {}", known())))?,
            None => Link::default(),
        };
        Ok(SlowClient {
            link: Link {
                read_bytes_per_s: self.limit_read.or(line.read_bytes_per_s),
                write_bytes_per_s: self.limit_write.or(line.write_bytes_per_s),
                latency: self.latency.map_or(Ok(line.latency), |seconds| time("latency", seconds))?,
            },
            patience: self.patience.map(|seconds| time("patience", seconds).map(Think::Fixed)).transpose()?,
            seed: self.seed(),
        })
    }

    /// Users who each ask all requests in their order.
    fn sessions(&self, options: &mut Options, list: &[ListedRequest]) -> PyResult<()> {
        if self.sessions.is_some() || self.mix.is_some() {
            return Err(wrong("repeat, sessions or mix: each says what users do, so give one"));
        }
        if self.requests.is_some() || self.duration.is_some() || self.weighted {
            return Err(wrong(
                "repeat says how many users come, each asking everything once: leave out requests, duration and weights",
            ));
        }
        let think = self.pause()?;
        let steps = u32::try_from(list.len()).map_err(wrong)?;
        let session = (0..steps).fold(Session::new(), |session, place| {
            let session = session.burst(&[place]);
            // Behind the last request there is no pause.
            if place + 1 < steps { session.think(think) } else { session }
        });
        options.requests.sessions = Some(Sessions { list: vec![session], seed: self.seed() });
        Ok(())
    }

    /// How much, how fast and how long.
    fn amounts(&self, options: &mut Options) -> PyResult<()> {
        set(&mut options.connections, self.connections);
        set(&mut options.threads, self.threads);
        set(&mut options.pipeline, self.pipeline);
        set(&mut options.queue, self.queue);
        set(&mut options.keep_alive, self.keepalive);
        options.cpu = self.cpu;
        if let Some(seconds) = self.timeout {
            options.timeout = time("timeout", seconds)?;
        }
        if let Some(seconds) = self.interval {
            options.sampling.interval = time("interval", seconds)?;
        }
        let poisson = self.poisson.then_some(self.seed());
        options.schedule = match (self.rate, poisson) {
            (Some(_), _) if !self.rates.is_empty() => return Err(wrong("rate or rates, not both")),
            (Some(rate_per_s), Some(seed)) => Schedule::Poisson { rate_per_s, seed },
            (Some(rate_per_s), None) => Schedule::Fixed { rate_per_s },
            (None, _) if !self.rates.is_empty() => {
                let profile = self.profile()?;
                options.stop = StopRule::Duration(profile.duration());
                Schedule::Changing { profile: Arc::new(profile), poisson }
            }
            (None, Some(_)) => return Err(wrong("poisson needs a rate")),
            (None, None) => Schedule::Closed,
        };
        match (self.requests, self.duration) {
            (Some(_), Some(_)) => return Err(wrong("requests or duration, not both")),
            (Some(requests), None) => options.stop = StopRule::Requests(requests),
            (None, Some(seconds)) => options.stop = StopRule::Duration(time("duration", seconds)?),
            (None, None) => {}
        }
        Ok(())
    }

    fn profile(&self) -> PyResult<Profile> {
        let stretch = |(from_per_s, to_per_s, seconds): &(f64, f64, f64)| {
            Ok(Stretch { from_per_s: *from_per_s, to_per_s: *to_per_s, duration: time("rates", *seconds)? })
        };
        Profile::new(&self.rates.iter().map(stretch).collect::<PyResult<Vec<_>>>()?).map_err(wrong)
    }

    /// How the server is reached, and in which language.
    fn way(&self, options: &mut Options) -> PyResult<()> {
        if let Some(streams) = self.streams {
            options.protocol = Protocol::Http2 { streams };
        }
        options.io = match self.io.as_deref() {
            None | Some("auto") => Io::Auto,
            Some("epoll") => Io::Epoll,
            Some("io_uring") => Io::Uring,
            Some(other) => return Err(wrong(format!("{other}: io is auto, epoll or io_uring"))),
        };
        options.trust = match &self.ca {
            Some(_) if self.insecure => return Err(wrong("ca or insecure, not both")),
            Some(file) => Trust::File(file.clone()),
            None if self.insecure => Trust::Anything,
            None => Trust::System,
        };
        let reach = &mut options.reach;
        reach.tls.certificate.clone_from(&self.certificate);
        reach.tls.key.clone_from(&self.key);
        reach.tls.name.clone_from(&self.server_name);
        reach.tls.resume = self.resume;
        reach.unix.clone_from(&self.unix);
        reach.proxy = self.proxy.as_deref().map(str::parse).transpose().map_err(wrong)?;
        reach.connect_to = self.connect_to.as_deref().map(str::parse).transpose().map_err(wrong)?;
        let address = |text: &String| text.parse().map_err(|_| wrong(format!("{text}: not an address of this host")));
        reach.sources = self.sources.iter().map(address).collect::<PyResult<_>>()?;
        Ok(())
    }
}

impl Asked {
    /// What it means; its place in the list is its name.
    fn listed(&self, name: u32) -> PyResult<ListedRequest> {
        let Self(url, method, headers, body, weight) = self;
        let url = Url::parse(url).map_err(wrong)?;
        let headers = headers
            .iter()
            .map(|(name, value)| Request::header(&format!("{name}: {value}")).map_err(wrong))
            .collect::<PyResult<_>>()?;
        let request = Request { method: method.clone(), headers, body: body.to_vec(), name, ..Request::default() };
        Ok(ListedRequest { url, request, weight: *weight })
    }
}

/// What is asked for cannot be done.
fn wrong(what: impl Display) -> PyErr {
    PyValueError::new_err(what.to_string())
}

fn time(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong(format!("{name}: {seconds} seconds is no time")))
}

fn set<T: Copy>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}
