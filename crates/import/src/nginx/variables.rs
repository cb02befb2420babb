//! Texts with nginx's variables, as pieces of a request.

use crate::templates::{Piece, tidy};
use std::collections::BTreeMap;

/// A variable that is not known before the request, or not known at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unknown(pub(crate) String);

/// What variables stand for in a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variables {
    /// If all of the server's addresses have the same.
    pub(crate) scheme: Option<&'static str>,
    pub(crate) server_name: String,
    pub(crate) root: Option<String>,
    /// Set to a text by `set`.
    pub(crate) set: BTreeMap<String, String>,
    /// The first group is the whole path.
    pub(crate) first_is_path: bool,
}

impl Variables {
    /// Takes a text apart.
    ///
    /// # Errors
    ///
    /// A variable that no piece stands for.
    pub(crate) fn pieces(&self, text: &str) -> Result<Vec<Piece>, Unknown> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            pieces.push(Piece::Text(before.to_owned()));
            let (name, behind) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
                Some(found) => found,
                None if after.starts_with(|letter: char| letter.is_ascii_digit()) => after.split_at(1),
                None => {
                    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                    after.split_at(after.find(|letter| !is_name(letter)).unwrap_or(after.len()))
                }
            };
            if name.is_empty() {
                pieces.push(Piece::Text("$".to_owned()));
            } else {
                pieces.extend(self.of(name)?);
            }
            rest = behind;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(tidy(&pieces))
    }

    /// A text in which variables are known.
    pub(crate) fn text(&self, text: &str) -> Result<String, Unknown> {
        let pieces = self.pieces(text)?;
        match pieces.as_slice() {
            [] => Ok(String::new()),
            [Piece::Text(text)] => Ok(text.clone()),
            _ => Err(Unknown(text.to_owned())),
        }
    }

    fn of(&self, name: &str) -> Result<Vec<Piece>, Unknown> {
        let text = |text: &str| vec![Piece::Text(text.to_owned())];
        if let Some(value) = self.set.get(name) {
            return Ok(text(value));
        }
        Ok(match name {
            "1" if self.first_is_path => vec![Piece::Path],
            "uri" | "document_uri" | "fastcgi_script_name" => vec![Piece::Path],
            "request_uri" => vec![Piece::Path, Piece::Query],
            "args" | "query_string" => vec![Piece::Args],
            "is_args" => text("?"),
            "host" | "http_host" => vec![Piece::Host],
            "server_name" if !self.server_name.is_empty() => text(&self.server_name),
            "scheme" => text(self.scheme.ok_or_else(|| Unknown("$scheme".to_owned()))?),
            "document_root" => text(self.root.as_deref().ok_or_else(|| Unknown("$document_root".to_owned()))?),
            digit if digit.len() == 1 && ("1"..="9").contains(&digit) => {
                vec![Piece::Capture(digit.parse().unwrap_or(1))]
            }
            other => return Err(Unknown(format!("${other}"))),
        })
    }
}
