//! An operation as a request.

use crate::model::{Address, Ask, Text};
use crate::openapi::document::{Document, Version};
use crate::openapi::parameter::{Parameter, Within};
use crate::openapi::security::{Secrets, with_values};
use crate::openapi::{body, server};
use crate::tree::Node;

/// An operation.
pub(super) struct Operation<'o, 'd> {
    pub(super) document: &'o Document<'d>,
    pub(super) path: &'d str,
    /// In small letters.
    pub(super) method: &'d str,
    pub(super) line: usize,
    /// What stands below the path.
    pub(super) item: &'d Node,
    pub(super) node: &'d Node,
}

impl<'d> Operation<'_, 'd> {
    /// `GET /path`.
    pub(super) fn shown(&self) -> String {
        format!("{} {}", self.method.to_ascii_uppercase(), self.path)
    }

    pub(super) fn tags(&self) -> Vec<String> {
        self.node.list_of("tags").iter().filter_map(Node::text).map(str::to_owned).collect()
    }

    /// Whether it has this operationId, or is this `METHOD /path`.
    pub(super) fn is_named(&self, word: &str) -> bool {
        let shown = self.shown();
        self.node.text_of("operationId") == Some(word) || shown == word || {
            let (method, path) = word.split_once(' ').unwrap_or_default();
            method.eq_ignore_ascii_case(self.method) && path.trim() == self.path
        }
    }

    /// The request; none where it cannot be made, which is told.
    pub(super) fn ask(&self, secrets: &mut Secrets) -> Option<Ask> {
        let name = self.node.text_of("operationId").map_or_else(|| self.shown(), str::to_owned);
        let nowhere = Address { origin: None, rest: Text::default() };
        let mut ask = Ask::new(name, self.method.to_ascii_uppercase(), nowhere);
        let left_out = |line: usize, what: String, remedy: String| {
            self.document.report.lost(line, format!("{} is left out: {what}", self.shown()), remedy);
            None
        };
        let mut path = self.path.replace(char::is_control, "");
        let parameters = self.parameters();
        for parameter in &parameters {
            if parameter.within == Within::Body {
                continue;
            }
            let name = parameter.name;
            match parameter.value(self.document) {
                Ok(Some(value)) => parameter.put(&value, &mut ask, &mut path),
                Ok(None) => {}
                Err(error) => {
                    let what = format!("the parameter {name} has no value: {error}");
                    return left_out(
                        parameter.node.line,
                        what,
                        format!("write an example, or give --set {name}=VALUE"),
                    );
                }
            }
        }
        for (name, value) in &self.document.wanted.set {
            path = path.replace(&format!("{{{name}}}"), &crate::model::encoded(value));
        }
        if let Some((_, rest)) = path.split_once('{') {
            let name = rest.split('}').next().unwrap_or_default().to_owned();
            let what = format!("no parameter defines {{{name}}} of its path");
            return left_out(self.line, what, format!("define it, or give --set {name}=VALUE"));
        }
        if let Err(error) = secrets.put(self.document, self.node, &mut ask, &mut path) {
            return left_out(self.line, error.to_string(), "write the request by hand".to_owned());
        }
        let written = match self.document.version {
            Version::Three => body::put(self.document, self.node, &mut ask),
            Version::Two => body::put_parameters(self.document, self.node, &parameters, &mut ask),
        };
        if let Err(error) = written {
            return left_out(self.line, error.to_string(), "write an example of it".to_owned());
        }
        if let Err(error) = self.address(&path, &mut ask) {
            return left_out(self.line, error.to_string(), "mend the URL of its server".to_owned());
        }
        self.answers(&mut ask);
        self.beside();
        match ask.fault() {
            Some(what) => left_out(self.line, what, "mend the example".to_owned()),
            None => Some(ask),
        }
    }

    /// The parameters of the path, and those of the operation in their places.
    fn parameters(&self) -> Vec<Parameter<'d>> {
        let mut parameters: Vec<Parameter<'d>> = Vec::new();
        for node in self.item.list_of("parameters").iter().chain(self.node.list_of("parameters")) {
            let Some(parameter) = Parameter::read(self.document, node) else { continue };
            // Accept, Content-Type and Authorization are said elsewhere (OpenAPI 3.1, 4.8.12.2).
            let own = ["accept", "content-type", "authorization", "content-length"];
            if parameter.within == Within::Header && own.contains(&parameter.name.to_ascii_lowercase().as_str()) {
                continue;
            }
            parameters.retain(|own| own.name != parameter.name || own.within != parameter.within);
            parameters.push(parameter);
        }
        parameters
    }

    fn address(&self, path: &str, ask: &mut Ask) -> Result<(), weir_load::UrlError> {
        let begin = match server::own(self.document, [self.node, self.item]) {
            Some(own) => own,
            None => server::prefix(self.document),
        };
        let mut address = Text::plain(begin);
        address.append(&with_values(path));
        ask.address = Address::parse(&address)?;
        Ok(())
    }

    /// What is expected of the answer, and which type of it is asked for.
    fn answers(&self, ask: &mut Ask) {
        let mut statuses = Vec::new();
        let mut media: Vec<&str> = Vec::new();
        for (status, _, answer) in self.node.entries_of("responses") {
            let Some(range) = success(status) else { continue };
            statuses.push(range);
            if let Some(answer) = self.document.resolved(answer) {
                media.extend(answer.entries_of("content").iter().map(|(media, ..)| media.as_str()));
            }
        }
        if self.document.version == Version::Two {
            let produces = self.node.get("produces").or_else(|| self.document.root.get("produces"));
            media.extend(produces.map_or(&[][..], Node::list).iter().filter_map(Node::text));
        }
        let json = media.iter().find(|media| media.contains("json")).or(media.first());
        if let Some(media) = json.filter(|_| !ask.has_header("accept")) {
            ask.add_header("Accept", Text::plain(*media));
        }
        if !statuses.is_empty() {
            if statuses.iter().all(|status| status.starts_with('3')) {
                ask.redirects = Some(0);
            }
            ask.checks.push(format!("status={}", statuses.join(",")));
        }
    }

    /// What an operation has, and a request has not.
    fn beside(&self) {
        for (name, line, _) in self.node.entries_of("callbacks") {
            let what = format!("{}: the callback {name} is a request of the server's", self.shown());
            self.document.report.lost(*line, what, "leave it out");
        }
    }
}

/// A status, or a range of them, that is a success.
fn success(status: &str) -> Option<String> {
    let mut letters = status.bytes();
    let first = letters.next().filter(|first| (b'2'..=b'3').contains(first))?;
    if status.eq_ignore_ascii_case("2xx") || status.eq_ignore_ascii_case("3xx") {
        let digit = first - b'0';
        return Some(format!("{digit}00-{digit}99"));
    }
    (status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit())).then(|| status.to_owned())
}
