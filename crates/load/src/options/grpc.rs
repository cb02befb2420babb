//! Calls of gRPC in place of requests.

use crate::error::request::RequestError;
use crate::options::call::Grpc;
use crate::options::settings::{Io, Options};
use crate::reach::protocol::Protocol;
use crate::{LoadError, Request, Statuses};
use std::time::Duration;

/// Headers of a call that are this side's own.
const OWN_HEADERS: [&str; 3] = ["content-type", "te", "content-length"];
/// Headers that begin so are gRPC's.
const OWN_PREFIX: &str = "grpc-";

impl Options {
    /// Has calls of gRPC made in place of requests, over HTTP/2: with as many streams as [`Options::protocol`] says, or
    /// one. The headers of [`Options::request`] go as metadata, and the timeout as `grpc-timeout`; a success is the
    /// status OK, unless [`Options::expected`] is set afterwards.
    ///
    /// # Errors
    /// [`RequestError::OfGrpc`], if a header is one that gRPC sets.
    pub fn call(&mut self, grpc: Grpc) -> Result<(), LoadError> {
        let is_own = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.starts_with(OWN_PREFIX) || OWN_HEADERS.contains(&name.as_str())
        };
        if let Some((name, _)) = self.request.headers.iter().find(|(name, _)| is_own(name)) {
            return Err(RequestError::OfGrpc { name: name.to_ascii_lowercase() }.into());
        }
        let own = [
            ("te", "trailers".to_owned()),
            ("content-type", "application/grpc".to_owned()),
            ("grpc-accept-encoding", "identity".to_owned()),
            ("grpc-timeout", timeout(self.timeout)),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        self.request = Request {
            method: "POST".to_owned(),
            headers: own.chain(std::mem::take(&mut self.request.headers)).collect(),
            ..std::mem::take(&mut self.request)
        };
        self.url = self.url.with_target(&grpc.path);
        self.protocol = Protocol::Http2 { streams: self.protocol.streams().unwrap_or(1) };
        self.expected = Statuses::grpc_ok();
        self.grpc = Some(grpc);
        Ok(())
    }
}

/// A time as `grpc-timeout` has it: at most eight digits and a unit.
fn timeout(time: Duration) -> String {
    let digits = |number: u128, unit: char| (number < 100_000_000).then(|| format!("{number}{unit}"));
    digits(time.as_micros(), 'u')
        .or_else(|| digits(time.as_millis(), 'm'))
        .or_else(|| digits(u128::from(time.as_secs()), 'S'))
        .unwrap_or_else(|| "99999999S".to_owned())
}

impl Grpc {
    /// Whether these calls can be made with the other options.
    pub(crate) fn check(&self, options: &Options) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        let (requests, request) = (&options.requests, &options.request);
        if !matches!(options.protocol, Protocol::Http2 { .. }) {
            return wrong("calls of gRPC go over HTTP/2: leave other versions out");
        }
        if request.method != "POST" || !request.body.is_empty() || options.url.target != self.path {
            return wrong("a call of gRPC says its method, path and body itself: leave these out");
        }
        if !self.kind.client_streams() && self.messages.len() != 1 {
            return wrong("a call whose client does not stream sends one message");
        }
        if !requests.list.is_empty() || requests.sessions.is_some() || requests.mix.is_some() {
            return wrong("calls of gRPC are of one method: leave lists of requests, sessions and mixes out");
        }
        if requests.cookie_jar || options.verbatim.is_some() || options.directed.is_some() {
            return wrong("calls of gRPC keep no cookies and have no director: leave these out");
        }
        if options.streaming.is_some() || !options.checks.is_empty() {
            return wrong(
                "events and checks are of HTTP's answers; messages of gRPC are counted anyway: leave these out",
            );
        }
        if !options.events.is_empty() || !options.observers.is_empty() {
            return wrong("calls of gRPC are not recorded: leave the recording out");
        }
        if options.io == Io::Uring {
            return wrong("io_uring carries HTTP/1.1 only: leave it out");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Url;
    use crate::grpc::CallKind;

    #[test]
    fn a_timeout_has_at_most_eight_digits() {
        for (time, text) in [
            (Duration::from_secs(30), "30000000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_micros(5), "5u"),
            (Duration::from_secs(1_000_000), "1000000S"),
            (Duration::MAX, "99999999S"),
        ] {
            assert_eq!(timeout(time), text);
        }
    }

    #[test]
    fn headers_of_grpc_are_its_own() {
        let options = |headers: &[(&str, &str)]| {
            let mut options = Options::new(Url::parse("http://h/").expect("a URL"));
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            options.request.headers = headers.iter().map(own).collect();
            options.call(Grpc::new("/s/m".to_owned(), CallKind::Unary, vec![Vec::new()])).map(|()| options)
        };
        for name in ["Content-Type", "TE", "grpc-timeout", "Grpc-Encoding"] {
            let told = options(&[(name, "x")]).expect_err(name).to_string();
            assert!(told.contains(&name.to_ascii_lowercase()), "{told}");
        }
        let options = options(&[("x-token", "y")]).expect("metadata");
        assert_eq!((options.url.target.as_str(), options.protocol), ("/s/m", Protocol::Http2 { streams: 1 }));
        assert!(options.request.headers.contains(&("x-token".to_owned(), "y".to_owned())) && options.check().is_ok());
    }
}
