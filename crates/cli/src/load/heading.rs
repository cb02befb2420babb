//! What the report says of how the load was made.

use super::{reach, slow};
use std::time::Duration;
use weir_load::workload::Mix;
use weir_load::{Options, Protocol, Schedule, StopRule, Streaming, Stretch};

/// How many stretches of a changing rate the report names.
const STRETCHES_TOLD: usize = 4;

/// What the report says of how the load was made.
#[derive(Debug)]
pub(crate) struct Heading {
    pub(super) url: String,
    /// The kind of load in words.
    pub(super) manner: String,
    pub(super) connections: u32,
    /// Requests at a time on a connection, where it carries several.
    pub(super) streams: Option<u32>,
    /// The major version of HTTP.
    pub(super) http_version: u8,
    pub(super) rate_wanted_per_s: Option<f64>,
}

impl Heading {
    pub(crate) fn of(options: &Options) -> Self {
        let schedule = schedule_in_words(&options.schedule);
        let plural = |count: u32, name: &str| format!("{count} {name}{}", if count == 1 { "" } else { "s" });
        let mut manner = format!("{}, {schedule}", plural(options.connections, "connection"));
        if !options.keep_alive {
            manner.push_str(", a new one for each request");
        }
        if options.pipeline > 1 {
            manner.push_str(&format!(", {} requests in a pipeline", options.pipeline));
        }
        if options.requests.mix.as_ref().is_some_and(Mix::has_users) {
            manner = manner.replacen("connection", "user", 1);
            if let Some(crowd) = options.requests.mix.as_ref().and_then(|mix| mix.crowd.as_ref()) {
                manner = format!("a flash crowd of at most {manner}, {} requests each", crowd.requests);
            }
        }
        if let Some(sessions) = &options.requests.sessions {
            manner = manner.replacen("connection", "session", 1);
            if sessions.list.len() == 1 {
                manner.push_str(&format!(", {} requests each", sessions.list[0].requests()));
            }
        }
        let (streams, http_version) = (options.protocol.streams(), options.protocol.version());
        if let Some(streams) = streams {
            manner.push_str(&format!(" of HTTP/{http_version} with {}", plural(streams, "stream")));
        }
        if let Protocol::Http3 { early_data, migrate_every, .. } = options.protocol {
            manner.push_str(if early_data { ", with 0-RTT" } else { "" });
            manner.push_str(&migrate_every.map(|every| format!(", moving each {every:?}")).unwrap_or_default());
        }
        if let Some(grpc) = &options.grpc {
            manner.push_str(&super::grpc::words(grpc));
        }
        if let Some(websocket) = &options.websocket {
            manner.push_str(&super::websocket::words(websocket));
        }
        if let Some(streaming) = &options.streaming {
            manner.push_str(&streaming_in_words(streaming));
        }
        if options.threads > 1 {
            manner.push_str(&format!(", {}", plural(options.threads, "thread")));
        }
        if let StopRule::Either { requests, time } = options.stop {
            manner.push_str(&format!(", until {requests} requests or {time:?}"));
        }
        if options.requests.traces.is_some() {
            manner.push_str(", each with a trace");
        }
        let way = reach::words(&options.reach);
        // A client of a flash crowd comes from a network by chance.
        let by_chance = options.requests.mix.as_ref().is_some_and(|mix| mix.crowd.is_some());
        manner.push_str(&if by_chance { way.replace(" in turn", " by chance") } else { way });
        manner.push_str(&slow::words(&options.slow));
        Self {
            url: title(options),
            manner,
            connections: options.connections,
            streams,
            http_version,
            rate_wanted_per_s: options.schedule.rate_per_s(),
        }
    }
}

/// How streamed answers are looked at, in words.
fn streaming_in_words(streaming: &Streaming) -> String {
    let mut words = match streaming.form {
        None => ", streamed answers".to_owned(),
        Some(form) => format!(", answers as {}", form.name()),
    };
    if let Some(time) = streaming.between_max {
        words.push_str(&format!(", at most {time:?} between events"));
    }
    if let Some(time) = streaming.close_after {
        words.push_str(&format!(", ended after {time:?}"));
    }
    words
}

/// The schedule in words.
fn schedule_in_words(schedule: &Schedule) -> String {
    match schedule {
        Schedule::Closed => "closed loop".to_owned(),
        Schedule::Fixed { rate_per_s } => format!("open loop of {rate_per_s}/s"),
        Schedule::Poisson { rate_per_s, seed } => format!("open Poisson loop of {rate_per_s}/s (seed {seed})"),
        Schedule::Changing { profile, poisson } => {
            let first: Vec<_> = profile.stretches().take(STRETCHES_TOLD).map(stretch).collect();
            let more = if profile.stretches().nth(STRETCHES_TOLD).is_some() { ", …" } else { "" };
            let kind =
                poisson.map_or_else(|| "open loop".to_owned(), |seed| format!("open Poisson loop (seed {seed})"));
            format!("{kind} of {}{more}", first.join(", "))
        }
        Schedule::Bursts { size, every } => format!("open loop of {size} at once each {every:?}"),
        Schedule::Recorded(times) => {
            let length = Duration::from_nanos(times.last().copied().unwrap_or(0));
            format!(
                "open loop of {} recorded arrivals within {:.1} s, those of one second of the log spread evenly over it",
                times.len(),
                length.as_secs_f64()
            )
        }
    }
}

fn stretch(stretch: &Stretch) -> String {
    let Stretch { from_per_s, to_per_s, duration } = stretch;
    if from_per_s == to_per_s {
        format!("{from_per_s}/s for {duration:?}")
    } else {
        format!("{from_per_s}/s to {to_per_s}/s within {duration:?}")
    }
}

/// What the report says it is of.
fn title(options: &Options) -> String {
    if let Some(title) = title_of_a_mix(options) {
        return title;
    }
    let hosts = options.requests.hosts();
    let (requests, first) = (options.requests.list.len(), hosts.first());
    if let (Some(sessions), Some(first)) = (&options.requests.sessions, first) {
        let (count, plural) = (sessions.list.len(), if sessions.list.len() == 1 { "" } else { "s" });
        return format!("{count} kind{plural} of session of {}", first.with_target("/"));
    }
    match first {
        Some(first) if requests > 1 => {
            let place = first.with_target("/");
            match hosts.len() {
                1 => format!("{requests} requests of {place}"),
                hosts => format!("{requests} requests of {hosts} hosts, {place} and others"),
            }
        }
        _ if options.grpc.is_some() => super::grpc::shown(&options.url.to_string()),
        _ if options.websocket.is_some() => super::websocket::shown(&options.url.to_string()),
        _ => options.url.to_string(),
    }
}

/// What the report says it is of, where a mix is asked.
fn title_of_a_mix(options: &Options) -> Option<String> {
    let mix = options.requests.mix.as_ref()?;
    let ask = options.requests.list.first()?;
    let path = ask.url.target.strip_suffix(&mix.files.path(0)).unwrap_or("/");
    Some(format!("the {} mix of {} files of {}", mix.files.name(), mix.files.len(), ask.url.with_target(path)))
}
