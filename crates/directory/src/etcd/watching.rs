//! Follows changes by etcd's watches, from revision to revision.
//!
//! A stream is read for some seconds and then begun anew behind the last change that came, at the same member or at
//! the next one. So a member that is stopped or cut off does not silence a watch for longer, and nothing is lost.

use super::gateway::Gateway;
use super::message::{self, Names};
use crate::error::DirectoryError;
use crate::watch::Feed;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a stream is read.
const STREAM_TIME: Duration = Duration::from_secs(10);
/// Bytes of a line: a message has the events of one revision, with their values.
const LINE_BYTES_MAX: u64 = 32 << 20;
/// A stream that ends sooner counts as failed, so that an etcd which ends each at once is not asked without a pause.
const STREAM_TIME_MIN: Duration = Duration::from_secs(1);
/// Between two streams that failed.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What a watch knows.
struct Follower {
    gateway: Arc<Gateway>,
    names: Names,
    prefix: String,
    /// The last revision whose changes were fed.
    fed: u64,
    feed: Feed,
}

/// How a stream ended.
enum End {
    /// Its time was out, or its member ended it.
    Over,
    /// It did not begin, or ended at once.
    Failed(String),
    /// Changes behind the last one are compacted, up to this revision.
    Compacted(u64),
}

/// Follows in a thread of its own, until the watch is dropped.
pub(super) fn follow(
    gateway: Arc<Gateway>,
    names: Names,
    prefix: &str,
    fed: u64,
    feed: Feed,
) -> Result<(), DirectoryError> {
    let engine = gateway.name();
    let mut follower = Follower { gateway, names, prefix: prefix.to_owned(), fed, feed };
    let spawned = thread::Builder::new().name("weir-directory".to_owned()).spawn(move || follower.run());
    spawned.map(|_| ()).map_err(|error| DirectoryError::Away { engine, why: error.to_string() })
}

impl Follower {
    fn run(&mut self) {
        let mut at = self.gateway.preferred();
        let mut pause = PAUSE;
        while !self.feed.is_closed() {
            match self.stream(at) {
                End::Over => {
                    pause = PAUSE;
                    continue;
                }
                End::Compacted(revision) => {
                    self.feed.lose();
                    self.fed = self.fed.max(revision.saturating_sub(1));
                }
                End::Failed(why) => {
                    tracing::debug!(why, "a watch of etcd failed");
                    self.feed.set_away(true);
                    at += 1;
                }
            }
            if self.feed.pause(pause) {
                return;
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn stream(&mut self, at: usize) -> End {
        let body = json!({ "create_request": {
            "key": self.names.key(&self.prefix), "range_end": self.names.end(&self.prefix),
            "start_revision": (self.fed + 1).to_string(),
        } });
        let response = match self.gateway.stream(at, "/v3/watch", &body, STREAM_TIME) {
            Ok(response) => response,
            Err(error) => return End::Failed(error.to_string()),
        };
        let mut lines = BufReader::new(response.into_body().into_reader());
        let begun = Instant::now();
        loop {
            let mut line = Vec::new();
            let read = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            // A line without an end was cut off; its changes come again with the next stream.
            if self.feed.is_closed() || read.is_err() || line.last() != Some(&b'\n') {
                let why = read.err().map_or_else(|| "the stream ended".to_owned(), |error| error.to_string());
                return if begun.elapsed() >= STREAM_TIME_MIN { End::Over } else { End::Failed(why) };
            }
            let Ok(Value::Object(answer)) = serde_json::from_slice(&line) else {
                return End::Failed("no message of etcd's gateway".to_owned());
            };
            if let Some(refusal) = message::refusal(&answer) {
                return End::Failed(format!("etcd refused: {refusal:?}"));
            }
            let message = answer.get("result").unwrap_or(&Value::Null);
            let compacted = message::number(message, "compact_revision");
            if compacted > 0 {
                return End::Compacted(compacted);
            }
            if message.get("canceled").and_then(Value::as_bool) == Some(true) {
                return End::Failed("etcd ended the watch".to_owned());
            }
            self.feed.set_away(false);
            for change in self.names.changes(message) {
                self.fed = self.fed.max(change.revision);
                self.feed.push(change);
            }
        }
    }
}
