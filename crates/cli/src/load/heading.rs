//! What the report says of how the load was made.

use super::{asked, reach, slow};
use weir_load::workload::Mix;
use weir_load::{Options, Protocol, StopRule};

/// What the report says of how the load was made.
#[derive(Debug)]
pub(super) struct Heading {
    pub(super) url: String,
    /// The kind of load in words.
    pub(super) manner: String,
    pub(super) connections: u32,
    /// Requests at a time on a connection, where it carries several.
    pub(super) streams: Option<u32>,
    pub(super) rate_wanted_per_s: Option<f64>,
}

impl Heading {
    pub(super) fn of(options: &Options) -> Self {
        let schedule = asked::manner(&options.schedule);
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
        let streams = match options.protocol {
            Protocol::Http1 => None,
            Protocol::Http2 { streams } => Some(streams),
        };
        if let Some(streams) = streams {
            manner.push_str(&format!(" of HTTP/2 with {}", plural(streams, "stream")));
        }
        if options.threads > 1 {
            manner.push_str(&format!(", {}", plural(options.threads, "thread")));
        }
        if let StopRule::Either { requests, time } = options.stop {
            manner.push_str(&format!(", until {requests} requests or {time:?}"));
        }
        let way = reach::words(&options.reach);
        // A client of a flash crowd comes from a network by chance.
        let by_chance = options.requests.mix.as_ref().is_some_and(|mix| mix.crowd.is_some());
        manner.push_str(&if by_chance { way.replace(" in turn", " by chance") } else { way });
        manner.push_str(&slow::words(&options.slow));
        Self {
            url: asked::title(options),
            manner,
            connections: options.connections,
            streams,
            rate_wanted_per_s: options.schedule.rate_per_s(),
        }
    }
}
