//! What goes over WebSockets: the options for it, and what a report says of them.

use super::figures::summary;
use super::usage::Usage;
use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use weir_load::{AnswerRule, Options, WebSocket, WebSocketReport};
use weir_report::count as grouped;

/// The longest file of a message that is read, bytes: the longest message.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Options of messages over WebSockets.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct MessageArgs {
    /// With ws:// or wss://: the text of each message [default: hello]. With grpc:// or grpcs://: the message in JSON, or
    /// @FILE; where the client streams it may be repeated, or be an array or lines of JSON; of a bidirectional method each
    /// message goes out when the one before it was answered [default: {}]
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["message_file", "message_size"], help_heading = "WebSocket and gRPC")]
    message: Vec<String>,
    /// With ws:// or wss://: the same from a file
    #[arg(long, value_name = "FILE", conflicts_with = "message_size", help_heading = "WebSocket")]
    message_file: Option<PathBuf>,
    /// Messages of so many bytes: 64, 4KB, 1MiB
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "WebSocket")]
    message_size: Option<u64>,
    /// Send messages as bytes, not as texts
    #[arg(long, help_heading = "WebSocket")]
    binary: bool,
    /// Offer this subprotocol, or several with commas, the preferred first
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = "WebSocket")]
    subprotocol: Vec<String>,
    /// Which message is the answer: any, the first that comes; echo, the first that is the same. Others count as pushed
    #[arg(long, value_name = "WHICH", value_parser = answer, help_heading = "WebSocket")]
    answer: Option<AnswerRule>,
    /// Send messages in fragments of at most this size
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "WebSocket")]
    fragment: Option<u64>,
    /// Take messages of at most this size; a longer one ends its connection [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "WebSocket")]
    message_max: Option<u64>,
}

/// A text that is no size.
#[derive(Debug, thiserror::Error)]
#[error("a size is a whole number of bytes, or has a unit: 64, 4KB, 1MiB")]
struct NoSize;

/// A size in bytes.
fn size(text: &str) -> Result<u64, NoSize> {
    if let Ok(bytes) = text.parse() {
        return Ok(bytes);
    }
    // The units are those of rates.
    let bytes = weir_terminal::units::rate(&format!("{text}/s")).map_err(|_| NoSize)?;
    if bytes.fract() == 0.0 && bytes < 1e15 { Ok(bytes as u64) } else { Err(NoSize) }
}

fn answer(text: &str) -> anyhow::Result<AnswerRule> {
    let found = [AnswerRule::Any, AnswerRule::Echo].into_iter().find(|rule| rule.name() == text);
    found.context("it is any or echo")
}

/// The URL by which a WebSocket is opened; `None` for other URLs.
pub(super) fn opened_by(url: &str) -> Option<String> {
    let (scheme, rest) = url.trim_ascii().split_once("://")?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "ws" => "http",
        "wss" => "https",
        _ => return None,
    };
    Some(format!("{scheme}://{rest}"))
}

/// The same the other way round.
pub(super) fn shown(url: &str) -> String {
    url.replacen("http", "ws", 1)
}

impl MessageArgs {
    /// Has messages go over WebSockets in place of requests.
    pub(super) fn apply(&self, options: &mut Options) -> Result<(), Usage> {
        let mut websocket =
            WebSocket { is_binary: self.binary, protocols: self.subprotocol.clone(), ..Default::default() };
        if self.message.len() > 1 {
            return Err(anyhow!("--message: each message of a WebSocket is the same: give it once").into());
        }
        if let Some(message) = self.message()? {
            websocket.message = message;
        }
        websocket.answer = self.answer.unwrap_or_default();
        websocket.fragment_bytes = self.fragment.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        websocket.message_bytes_max = self.message_max.unwrap_or(websocket.message_bytes_max);
        options.websocket = Some(websocket);
        Ok(())
    }

    /// The messages as they were given.
    pub(super) fn texts(&self) -> Vec<String> {
        self.message.clone()
    }

    fn message(&self) -> Result<Option<Vec<u8>>, Usage> {
        if let Some(file) = &self.message_file {
            return Ok(Some(read(file)?));
        }
        let Some(bytes) = self.message_size else { return Ok(self.message.first().cloned().map(String::into_bytes)) };
        if bytes > FILE_BYTES_MAX {
            return Err(anyhow!("--message-size: a message has at most 1 GiB").into());
        }
        Ok(Some(vec![b'x'; bytes as usize]))
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Usage> {
    let name = file.display();
    let bytes = std::fs::metadata(file).with_context(|| format!("--message-file: cannot read {name}"))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(anyhow!("--message-file {name}: it has {bytes} bytes, and a message at most 1 GiB").into());
    }
    Ok(std::fs::read(file).with_context(|| format!("--message-file: cannot read {name}"))?)
}

/// How messages are sent, in words for the heading.
pub(super) fn words(websocket: &WebSocket) -> String {
    let kind = if websocket.is_binary { "binary messages" } else { "texts" };
    let mut words = format!(", {kind} of {} B over WebSockets", grouped(websocket.message.len() as u64));
    if let Some(bytes) = websocket.fragment_bytes {
        words.push_str(&format!(" in fragments of {} B", grouped(bytes as u64)));
    }
    if websocket.answer == AnswerRule::Echo {
        words.push_str(", each answered by its echo");
    }
    words
}

/// What the screen says of them, but for the times.
pub(super) fn write(screen: &mut String, told: &WebSocketReport, reopened: u64) -> std::fmt::Result {
    write!(screen, "  WebSockets {:>12}   opened", grouped(told.handshake.len()))?;
    if told.not_opened > 0 {
        write!(screen, ", {} not", grouped(told.not_opened))?;
    }
    if reopened > 0 {
        write!(screen, "; the server closed {} that had nothing under way", grouped(reopened))?;
    }
    writeln!(screen)?;
    writeln!(
        screen,
        "  messages   {:>12}   sent, {} came in {} frames, {} of them pushed (they answered nothing)",
        grouped(told.sent),
        grouped(told.received),
        grouped(told.frames),
        grouped(told.pushed)
    )?;
    if told.pings + told.pongs > 0 {
        writeln!(screen, "             {} pings answered, {} pongs came", grouped(told.pings), grouped(told.pongs))?;
    }
    if !told.closes.is_empty() {
        let closes: Vec<_> =
            told.closes.iter().map(|close| format!("{}: {}", close.words, grouped(close.count))).collect();
        writeln!(screen, "  closed by the server with {}", closes.join(", "))?;
    }
    Ok(())
}

/// The same for programs.
pub(super) fn as_json(told: &WebSocketReport) -> Value {
    json!({
        "handshake_ns": summary(&told.handshake),
        "not_opened": told.not_opened,
        "sent": told.sent,
        "sent_bytes": told.sent_bytes,
        "received": told.received,
        "received_bytes": told.received_bytes,
        "frames": told.frames,
        "pushed": told.pushed,
        "pings": told.pings,
        "pongs": told.pongs,
        "closes": told.closes.iter().map(|close| json!({ "words": close.words, "count": close.count })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_urls_are_read() {
        for (text, bytes) in
            [("0", Some(0)), ("64", Some(64)), ("4KB", Some(4000)), ("1MiB", Some(1 << 20)), ("x", None)]
        {
            assert_eq!(size(text).ok(), bytes, "{text}");
        }
        assert_eq!(opened_by("ws://h/a").as_deref(), Some("http://h/a"));
        assert_eq!(opened_by("WSS://h").as_deref(), Some("https://h"));
        assert_eq!(opened_by("http://h"), None);
        assert_eq!(shown("https://h/http"), "wss://h/http");
    }
}
