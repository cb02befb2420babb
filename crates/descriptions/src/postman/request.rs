//! A request of a collection.

use crate::files::Files;
use crate::model::{Address, Ask, Text, encoded};
use crate::postman::auth::{Auth, AuthError};
use crate::postman::body::{self, BodyError};
use crate::postman::variables::{Unset, Variables};
use crate::report::Report;
use crate::tree::{Node, Value};

/// Reads requests.
pub(super) struct Reader<'r> {
    pub(super) variables: &'r Variables,
    pub(super) files: &'r dyn Files,
    pub(super) report: &'r Report,
}

/// Why a request is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Unset(#[from] Unset),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Url(#[from] weir_load::UrlError),
    #[error("it has no url")]
    NoUrl,
    #[error("{0}")]
    Request(String),
}

impl Fault {
    fn remedy(&self) -> String {
        match self {
            Self::Unset(unset) | Self::Auth(AuthError::Unset(unset)) | Self::Body(BodyError::Unset(unset)) => {
                format!("give --set {}=VALUE, or --variables with an environment", unset.name)
            }
            Self::Auth(_) => "write its header by hand".to_owned(),
            Self::Body(_) => "write its body by hand".to_owned(),
            Self::Url(_) | Self::NoUrl | Self::Request(_) => "mend the request".to_owned(),
        }
    }
}

impl Reader<'_> {
    /// The request of an item; none where it cannot be made, which is told.
    pub(super) fn ask(&self, item: &Node, around: &Auth<'_>) -> Option<Ask> {
        let name = item.text_of("name").unwrap_or_default();
        let request = item.get("request")?;
        match self.made(name, request, around) {
            Ok(ask) => Some(ask),
            Err(fault) => {
                self.report.lost(request.line, format!("the request {name:?} is left out: {fault}"), fault.remedy());
                None
            }
        }
    }

    fn made(&self, name: &str, request: &Node, around: &Auth<'_>) -> Result<Ask, Fault> {
        let method = request.text_of("method").unwrap_or("GET").trim().to_ascii_uppercase();
        let url = match &request.value {
            // A request may be its address alone.
            Value::Text(_) => Some(request),
            _ => request.get("url"),
        };
        let raw = url.and_then(raw).ok_or(Fault::NoUrl)?;
        let mut text = self.variables.address(&with_scheme(&raw))?;
        let nowhere = Address { origin: None, rest: Text::default() };
        let shown = if name.is_empty() { raw.as_str() } else { name };
        let mut ask = Ask::new(shown, method, nowhere);
        self.headers(request, &mut ask)?;
        let own = Auth::of(request);
        let auth = if own.is_said() { &own } else { around };
        if let Some((key, value)) = auth.put(&mut ask, self.variables)? {
            let has_query = text.template().contains('?');
            text.push(if has_query { "&" } else { "?" });
            text.append(&key.changed(encoded, true));
            text.push("=");
            text.append(&value.changed(encoded, true));
        }
        if let Some(body) = request.get("body") {
            body::put(body, &mut ask, self.variables, self.files)?;
        }
        ask.address = Address::parse(&text)?;
        match ask.fault() {
            Some(what) => Err(Fault::Request(what)),
            None => Ok(ask),
        }
    }

    fn headers(&self, request: &Node, ask: &mut Ask) -> Result<(), Fault> {
        if let Some(text) = request.text_of("header") {
            for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
                ask.add_header(name.trim(), self.variables.text(value.trim())?);
            }
        }
        for header in request.list_of("header").iter().filter(|header| !header.is_true("disabled")) {
            let Some(name) = header.text_of("key").map(str::trim).filter(|name| !name.is_empty()) else { continue };
            if ["content-length", "transfer-encoding"].contains(&name.to_ascii_lowercase().as_str()) {
                continue;
            }
            let value = header.get("value").and_then(Node::scalar).unwrap_or_default();
            ask.add_header(name, self.variables.text(value.trim())?);
        }
        Ok(())
    }
}

/// The address as it was written, with the values of the variables of its path.
fn raw(url: &Node) -> Option<String> {
    let raw = match url.text().or_else(|| url.text_of("raw")) {
        Some(raw) => raw.to_owned(),
        None => put_together(url)?,
    };
    let (path, query) = raw.split_once('?').map_or((raw.as_str(), None), |(path, query)| (path, Some(query)));
    let segment = |segment: &str| {
        let name = segment.strip_prefix(':')?;
        let variable = url.list_of("variable").iter().find(|one| one.text_of("key") == Some(name))?;
        Some(variable.get("value").and_then(Node::scalar).unwrap_or_default())
    };
    let segments: Vec<String> = path.split('/').map(|part| segment(part).unwrap_or_else(|| part.to_owned())).collect();
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    Some(format!("{}{query}", segments.join("/")))
}

/// The address of its parts.
fn put_together(url: &Node) -> Option<String> {
    let joined = |key: &str, sign: &str| match url.get(key).map(|node| &node.value) {
        Some(Value::Text(text)) => Some(text.clone()),
        Some(Value::List(list)) => {
            let part = |node: &Node| node.scalar().or_else(|| node.text_of("value").map(str::to_owned));
            Some(list.iter().filter_map(part).collect::<Vec<_>>().join(sign))
        }
        _ => None,
    };
    let host = joined("host", ".")?;
    let scheme =
        url.text_of("protocol").map_or_else(String::new, |scheme| format!("{}://", scheme.trim_end_matches("://")));
    let port = url.get("port").and_then(Node::scalar).map_or_else(String::new, |port| format!(":{port}"));
    let path = joined("path", "/").map_or_else(String::new, |path| format!("/{}", path.trim_start_matches('/')));
    let pairs: Vec<String> = url
        .list_of("query")
        .iter()
        .filter(|pair| !pair.is_true("disabled"))
        .map(|pair| {
            let value = pair.get("value").and_then(Node::scalar).map_or_else(String::new, |value| format!("={value}"));
            format!("{}{value}", pair.text_of("key").unwrap_or_default())
        })
        .collect();
    let query = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
    Some(format!("{scheme}{host}{port}{path}{query}"))
}

/// An address without a scheme goes to `http`, unless a variable at its begin says it.
fn with_scheme(raw: &str) -> String {
    let has_scheme = raw.split_once("://").is_some_and(|(scheme, _)| !scheme.contains(['/', '?']));
    if has_scheme || raw.starts_with("{{") || raw.starts_with('/') { raw.to_owned() } else { format!("http://{raw}") }
}
