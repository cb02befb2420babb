//! What is asked, and when, beyond one request at one rate: the options for it.

use super::files::Files;
use super::replayed;
use super::usage::Usage;
use anyhow::{Context, anyhow};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_load::access_log::AccessLog;
use weir_load::sessions::{Sessions, Think, parse_sessions};
use weir_load::{Options, Order, Profile, Request, Schedule, StopRule, Url, Version, parse_url_list};
use weir_terminal::text_file::{self, read_lines};

/// The largest file of requests that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// The largest file of a token that is read, in bytes.
const TOKEN_BYTES_MAX: u64 = 1 << 20;

/// Options of what is asked.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Asked {
    /// Send the requests of this file (or standard input: -), one a line: [WEIGHT] [METHOD] URL-or-path [@BODYFILE]; by
    /// weights, or in turn where no line has one
    #[arg(long, value_name = "FILE", conflicts_with = "body", help_heading = "Request")]
    urls: Option<PathBuf>,
    /// Users who send the sessions of this file (httperf's --wsesslog format), each over a connection of its own; -n
    /// and --rate count sessions, -c limits how many run at a time
    #[arg(long, value_name = "FILE", conflicts_with_all = ["urls", "body", "method", "replay", "no_keepalive", "pipeline"], help_heading = "Request")]
    sessions: Option<PathBuf>,
    /// With --sessions: the pause after a burst for which the file says none: a time, 1s..3s (any between), or exp:2s (exponentially distributed)
    #[arg(long, value_name = "TIME", requires = "sessions", value_parser = think, help_heading = "Request")]
    think: Option<Think>,
    /// Speak HTTP/1.0: a new connection for each request, unless --keepalive
    #[arg(long = "http1.0", help_heading = "Request")]
    http1_0: bool,
    /// With --http1.0: ask the server to keep the connection for further requests
    #[arg(long, requires = "http1_0", conflicts_with = "no_keepalive", help_heading = "Request")]
    keepalive: bool,
    /// Basic authentication
    #[arg(long, value_name = "NAME:PASSWORD", conflicts_with = "bearer", help_heading = "Request")]
    user: Option<String>,
    /// Bearer authentication: the token, or the file that holds it
    #[arg(long, value_name = "TOKEN|@FILE", help_heading = "Request")]
    bearer: Option<String>,
    /// Send this cookie, or several: 'A=1; B=2'; may be repeated
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Request")]
    cookie: Vec<String>,
    /// Send back the cookies that responses set: each connection is a user with cookies of its own
    #[arg(long, help_heading = "Request")]
    cookie_jar: bool,
    /// Have each request say of which trace it is, by a traceparent header (W3C Trace Context) with ids from --seed; the
    /// report lists the traces of the slowest ten
    #[arg(long, help_heading = "Request")]
    traceparent: bool,
    /// Open loop whose rate changes in steps of RATE/TIME, such as 100/10s,200/10s
    #[arg(long, value_name = "STEPS", conflicts_with_all = ["rate", "ramp", "bursts", "replay"], help_heading = "Load")]
    steps: Option<String>,
    /// Open loop whose rate changes evenly, such as 100..1000/60s
    #[arg(long, value_name = "FROM..TO/TIME", conflicts_with_all = ["rate", "bursts", "replay"], help_heading = "Load")]
    ramp: Option<String>,
    /// Open loop of bursts: N arrivals at once, again after each TIME, such as 50/2s
    #[arg(long, value_name = "N/TIME", conflicts_with_all = ["rate", "poisson", "replay"], help_heading = "Load")]
    bursts: Option<String>,
    /// Open loop of the requests of an access log, in a format that weir plan reads, at the log's times
    #[arg(long, value_name = "LOG", conflicts_with_all = ["rate", "poisson", "urls", "method", "body"], help_heading = "Load")]
    replay: Option<PathBuf>,
    /// With --replay: speed the log's times up by this factor
    #[arg(long, requires = "replay", value_name = "X", help_heading = "Load")]
    speed: Option<f64>,
}

/// The names of the fields of [`Asked`].
pub(super) const OF_ASKING: [&str; 15] = [
    "urls",
    "sessions",
    "think",
    "http1_0",
    "keepalive",
    "user",
    "bearer",
    "cookie",
    "cookie_jar",
    "traceparent",
    "steps",
    "ramp",
    "bursts",
    "replay",
    "speed",
];

impl Asked {
    /// Whether these options name the URLs themselves, so that none is needed on the command line.
    pub(super) fn base(&self, url: Option<&str>) -> Result<Option<Url>, Usage> {
        match url {
            Some(url) => Ok(Some(Url::parse(url)?)),
            None if self.urls.is_some() || self.sessions.is_some() => Ok(None),
            None => {
                Err(anyhow!("say what to load: a URL such as http://localhost:8080/, --urls FILE or --sessions FILE")
                    .into())
            }
        }
    }

    /// Adds what these options mean to `options`, whose other fields are set; `base` is the URL that was given, if any.
    pub(super) fn apply(
        &self,
        options: &mut Options,
        base: Option<&Url>,
        seed: u64,
        files: &Files,
    ) -> Result<(), Usage> {
        if self.http1_0 {
            options.request.version = Version::Http10;
            options.keep_alive = self.keepalive;
        }
        options.request.headers.extend(self.credentials(files)?);
        options.requests.cookies = cookies(&self.cookie)?;
        options.requests.cookie_jar = self.cookie_jar;
        options.requests.traces = self.traceparent.then_some(seed);
        if let Some(file) = &self.urls {
            let name = file.display();
            let text = lines(files, file).with_context(|| format!("--urls: cannot read {name}"))?;
            let beside = |body: &str| files.read(&file.parent().unwrap_or(Path::new("")).join(body));
            let (list, weighted) = parse_url_list(&text, base, &options.request, beside)
                .map_err(|error| anyhow!(error).context(format!("--urls {name}")))?;
            options.url = list[0].url.clone();
            options.requests.order = if weighted { Order::Weighted { seed } } else { Order::InTurn };
            options.requests.list = list;
        }
        if let Some(file) = &self.sessions {
            let name = file.display();
            let text = lines(files, file).with_context(|| format!("--sessions: cannot read {name}"))?;
            let (requests, list) = parse_sessions(&text, base, &options.request, self.think.unwrap_or_default())
                .map_err(|error| anyhow!(error).context(format!("--sessions {name}")))?;
            options.url = requests[0].url.clone();
            options.requests.list = requests;
            options.requests.sessions = Some(Sessions { list, seed });
        }
        Ok(())
    }

    /// Sets the schedule, where these options say one, and the end that it has by itself, unless the user set another.
    pub(super) fn schedule(
        &self,
        options: &mut Options,
        base: Option<&Url>,
        how: When,
        files: &Files,
    ) -> Result<(), Usage> {
        if let Some((option, text)) = [("--steps", &self.steps), ("--ramp", &self.ramp)]
            .iter()
            .find_map(|(name, text)| Some((name, text.as_ref()?)))
        {
            if *option == "--ramp" && !text.contains("..") {
                return Err(anyhow!("--ramp: write FROM..TO/TIME, such as 100..1000/60s").into());
            }
            let profile = Profile::parse(text, |time| weir_terminal::units::duration(time).ok())
                .map_err(|error| anyhow!("{option}: {error}"))?;
            let whole = profile.duration();
            if let (Some(wanted), true) = (options.stop.time(), how.has_end)
                && wanted > whole
            {
                return Err(anyhow!("{option}: the rates end after {whole:?}, before the -d that was given").into());
            }
            if !how.has_end {
                options.stop = StopRule::Duration(whole);
            }
            options.schedule =
                Schedule::Changing { profile: Arc::new(profile), poisson: how.poisson.then_some(how.seed) };
        } else if let Some(text) = &self.bursts {
            let form = || anyhow!("--bursts: write N/TIME, such as 50/2s");
            let (size, every) = text.split_once('/').ok_or_else(form)?;
            options.schedule = Schedule::Bursts {
                size: size.parse().map_err(|_| form())?,
                every: weir_terminal::units::duration(every).map_err(|_| form())?,
            };
        } else if let Some(file) = &self.replay {
            self.replay(options, base, (file, files), how.has_end)?;
        } else if how.poisson && options.schedule == Schedule::Closed {
            return Err(anyhow!("--poisson: needs a rate; give --rate, --steps or --ramp").into());
        }
        Ok(())
    }

    /// Asks what a log says at its times.
    fn replay(
        &self,
        options: &mut Options,
        base: Option<&Url>,
        (file, files): (&Path, &Files),
        has_end: bool,
    ) -> Result<(), Usage> {
        let name = file.display();
        let speed = self.speed.unwrap_or(1.0);
        if !(speed > 0.0 && speed <= 1e6) {
            return Err(anyhow!("--speed: a number above 0, at most 1000000").into());
        }
        let base =
            base.with_context(|| format!("--replay: say which server is asked: weir load --replay {name} URL"))?;
        let place = files.place(file).with_context(|| format!("--replay: cannot read {name}"))?;
        let log = std::fs::File::open(place).with_context(|| format!("--replay: cannot read {name}"))?;
        let log = AccessLog::read(log).with_context(|| format!("--replay: cannot read {name}"))?;
        let why = replayed::left_out(&log);
        if log.order.is_empty() {
            return Err(
                anyhow!("--replay {name}: no request in it; {}", why.as_deref().unwrap_or("it holds no line")).into()
            );
        }
        if let Some(why) = why.as_deref().filter(|_| log.left_out.is_most(log.order.len() as u64)) {
            return Err(
                anyhow!("--replay {name}: most of it cannot be read ({why}); give the lines of requests only").into()
            );
        }
        let notes = &mut options.requests.notes;
        if let Some(why) = why {
            notes.push(format!("{} lines of {name} were left out ({why})", log.left_out.count()));
        }
        notes.extend(replayed::beside(&log, speed));
        if log.without_body > 0 {
            notes.push(format!(
                "{} requests were sent without the body that they had: a log holds none",
                log.without_body
            ));
        }
        options.requests.list = log.requests(base, &options.request);
        options.schedule = Schedule::Recorded(log.times_at(speed));
        if !has_end {
            options.stop = StopRule::Requests(log.order.len() as u64);
        }
        options.requests.order = Order::Listed(log.order.into());
        Ok(())
    }

    /// The header of authentication, if any.
    fn credentials(&self, files: &Files) -> Result<Option<(String, String)>, Usage> {
        if let Some(user) = &self.user {
            let (name, password) = user.split_once(':').context("--user: write NAME:PASSWORD")?;
            return Ok(Some(Request::basic(name, password).map_err(|error| anyhow!("--user: {error}"))?));
        }
        let Some(bearer) = &self.bearer else { return Ok(None) };
        let token = match bearer.strip_prefix('@') {
            Some(file) => {
                let why = || format!("--bearer: cannot read the token from {file}");
                text_file::read(&files.place(Path::new(file)).with_context(why)?, TOKEN_BYTES_MAX).with_context(why)?
            }
            None => bearer.clone(),
        };
        let token = token.trim();
        // The characters of RFC 6750 2.1; others are the user's mistake, such as a whole header line.
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if token.is_empty() || !token.bytes().all(fits) {
            return Err(
                anyhow!("--bearer: a token has letters, digits and -._~+/= only; give it without `Bearer`").into()
            );
        }
        Ok(Some(("Authorization".to_owned(), format!("Bearer {token}"))))
    }
}

/// The text of a file, line by line.
fn lines(files: &Files, file: &Path) -> anyhow::Result<String> {
    Ok(read_lines(&files.place(file)?, FILE_BYTES_MAX)?)
}

/// What the other options say of the time.
#[derive(Debug, Clone, Copy)]
pub(super) struct When {
    pub(super) poisson: bool,
    pub(super) seed: u64,
    /// Whether the user said when the run ends.
    pub(super) has_end: bool,
}

/// A think time as it was given.
pub(super) fn think(text: &str) -> anyhow::Result<Think> {
    let time = weir_terminal::units::duration;
    if let Some(mean) = text.strip_prefix("exp:") {
        return Ok(Think::Exponential(time(mean)?));
    }
    let Some((from, to)) = text.split_once("..") else { return Ok(Think::Fixed(time(text)?)) };
    let (from, to) = (time(from)?, time(to)?);
    anyhow::ensure!(from <= to, "{text}: the shorter time comes first");
    Ok(Think::Uniform(from, to))
}

/// Cookies as they were given, each time one or several as a Cookie header has them (RFC 6265 4.2.1).
fn cookies(given: &[String]) -> Result<Vec<(String, String)>, Usage> {
    let mut cookies = Vec::new();
    for given in given {
        let pairs = given.split(';').map(str::trim).filter(|pair| !pair.is_empty());
        let before = cookies.len();
        for pair in pairs {
            let (name, value) = pair.split_once('=').with_context(|| {
                format!("--cookie {given}: write NAME=VALUE, or several as 'A=1; B=2'; files of cookies are not read")
            })?;
            cookies.push((name.trim_end().to_owned(), value.trim_start().to_owned()));
        }
        if cookies.len() == before {
            return Err(anyhow!("--cookie {given:?}: there is no cookie in it; write NAME=VALUE").into());
        }
    }
    Ok(cookies)
}
