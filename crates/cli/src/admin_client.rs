//! Asks a server at its admin address.

use anyhow::{Context, anyhow, bail};
use serde::de::DeserializeOwned;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_server::AdminDoor;

/// The largest file of a token that is read, in bytes.
const TOKEN_BYTES_MAX: u64 = 1 << 20;
/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a server means that answers with status 401.
pub(crate) const WRONG_TOKEN: &str = "the token is missing or wrong; give its file by --token FILE";
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
    Within(AdminDoor),
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

    /// The server that this process is, which asks itself for no token.
    pub(crate) fn within(door: AdminDoor) -> Self {
        Self { text: door.address().to_owned(), place: Place::Within(door) }
    }

    /// Whether a token has a meaning there.
    pub(crate) fn is_tcp(text: &str) -> bool {
        text.parse::<SocketAddr>().is_ok()
    }

    /// As it was given.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Asks, and gives the connection, on which a read waits for so long at most.
    pub(crate) fn begin(&self, method: &str, target: &str, patience: Duration) -> anyhow::Result<Box<dyn Read + Send>> {
        let silent = || format!("{}: no server answers there", self.text);
        let asked = |token: Option<&str>| {
            let token = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
            format!("{method} {target} HTTP/1.1\r\nHost: weir\r\n{token}\r\n")
        };
        match &self.place {
            Place::Unix(path) => {
                let mut stream = UnixStream::connect(path).with_context(silent)?;
                stream.set_read_timeout(Some(patience))?;
                stream.write_all(asked(None).as_bytes()).with_context(silent)?;
                Ok(Box::new(stream))
            }
            Place::Within(door) => {
                let mut stream = door.open().with_context(silent)?;
                stream.set_read_timeout(Some(patience))?;
                stream.write_all(asked(None).as_bytes()).with_context(silent)?;
                Ok(Box::new(stream))
            }
            Place::Tcp(addr, token) => {
                let mut stream = TcpStream::connect_timeout(addr, PATIENCE).with_context(silent)?;
                stream.set_read_timeout(Some(patience))?;
                stream.write_all(asked(token.as_deref()).as_bytes()).with_context(silent)?;
                Ok(Box::new(stream))
            }
        }
    }

    /// Asks; status and text of the answer. Refusals of the token are told as errors.
    pub(crate) fn ask(&self, method: &str, target: &str) -> anyhow::Result<(u16, String)> {
        let stream = self.begin(method, target, PATIENCE)?;
        match answer(stream).with_context(|| self.text.clone())? {
            (401, _) => bail!("{}: {WRONG_TOKEN}", self.text),
            answer => Ok(answer),
        }
    }

    /// Asks for JSON; any refusal is told as an error, in the server's words.
    pub(crate) fn json<T: DeserializeOwned>(&self, method: &str, target: &str) -> anyhow::Result<T> {
        match self.ask(method, target)? {
            (200, body) => {
                serde_json::from_str(&body).with_context(|| format!("{}: the answer cannot be read", self.text))
            }
            (_, why) => Err(anyhow!("{}: {}", self.text, weir_report::clean(why.trim()))),
        }
    }
}

fn read_token(path: &Path) -> anyhow::Result<String> {
    let text = weir_terminal::text_file::read(path, TOKEN_BYTES_MAX).with_context(|| path.display().to_string())?;
    Ok(text.trim().to_owned())
}

fn answer(stream: impl Read) -> anyhow::Result<(u16, String)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_encoded_for_queries() {
        assert_eq!(encoded("status=5xx a&b/\u{e9}"), "status%3D5xx%20a%26b%2F%C3%A9");
    }
}
