//! Asks a server at its admin address.

use anyhow::{Context, anyhow, bail};
use serde::de::DeserializeOwned;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The largest file of a token that is read, in bytes.
const TOKEN_BYTES_MAX: u64 = 1 << 20;
/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Where a server tells of itself.
#[derive(Debug)]
pub(crate) struct AdminAddress {
    text: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Unix(PathBuf),
    Tcp(SocketAddr, Option<String>),
}

impl AdminAddress {
    /// `unix:PATH` or `ADDRESS:PORT`; none where it is neither, and so the name of a file.
    pub(crate) fn of(text: &str, token: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let place = if let Some(path) = text.strip_prefix("unix:") {
            Place::Unix(path.into())
        } else if let Ok(addr) = text.parse() {
            Place::Tcp(addr, token.map(read_token).transpose()?)
        } else {
            return Ok(None);
        };
        Ok(Some(Self { text: text.to_owned(), place }))
    }

    /// The same where a file will not do.
    pub(crate) fn required(text: &str, token: Option<&Path>) -> anyhow::Result<Self> {
        Self::of(text, token)?.with_context(|| format!("{text} is no admin address; write unix:PATH or ADDRESS:PORT"))
    }

    /// Asks; status and text of the answer. Refusals of the token are told as errors.
    pub(crate) fn ask(&self, method: &str, target: &str) -> anyhow::Result<(u16, String)> {
        let silent = || format!("{}: no server answers there", self.text);
        let answer = match &self.place {
            Place::Unix(path) => {
                let stream = UnixStream::connect(path).with_context(silent)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                exchange(stream, (method, target), None)
            }
            Place::Tcp(addr, token) => {
                let stream = TcpStream::connect_timeout(addr, PATIENCE).with_context(silent)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                exchange(stream, (method, target), token.as_deref())
            }
        };
        match answer.with_context(|| self.text.clone())? {
            (401, _) => bail!("{}: the token is missing or wrong; give its file by --token FILE", self.text),
            answer => Ok(answer),
        }
    }

    /// Asks for JSON; any refusal is told as an error, in the server's words.
    pub(crate) fn json<T: DeserializeOwned>(&self, method: &str, target: &str) -> anyhow::Result<T> {
        match self.ask(method, target)? {
            (200, body) => {
                serde_json::from_str(&body).with_context(|| format!("{}: the answer cannot be read", self.text))
            }
            (_, why) => Err(anyhow!("{}: {}", self.text, visible(why.trim()))),
        }
    }
}

fn read_token(path: &Path) -> anyhow::Result<String> {
    let text = weir_terminal::text_file::read(path, TOKEN_BYTES_MAX).with_context(|| path.display().to_string())?;
    Ok(text.trim().to_owned())
}

fn exchange(
    mut stream: impl Read + Write,
    (method, target): (&str, &str),
    token: Option<&str>,
) -> anyhow::Result<(u16, String)> {
    let token = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    write!(stream, "{method} {target} HTTP/1.1\r\nHost: weir\r\n{token}\r\n")?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("it gave no answer")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("its answer has no status")?;
    Ok((status, body.to_owned()))
}

/// A text as it stands in a query (RFC 3986 section 2.1).
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte.into());
        } else {
            // Writing to memory does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// A text of others as a terminal may show it: control characters, which could steer it, are escaped; so are those that
/// turn the direction of a line.
pub(crate) fn visible(text: &str) -> String {
    let turns =
        |character| matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().fold(String::new(), |mut out, character| {
        if character.is_control() || turns(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_encoded_for_queries_and_escaped_for_terminals() {
        assert_eq!(encoded("status=5xx a&b/\u{e9}"), "status%3D5xx%20a%26b%2F%C3%A9");
        assert_eq!(visible("a\u{1b}[31mb\u{202e}c \u{e9}"), "a\\u{1b}[31mb\\u{202e}c \u{e9}");
    }
}
