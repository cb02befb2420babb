//! HTTP requests of a plan.

use crate::jmeter::answer;
use crate::jmeter::context::Walk;
use crate::jmeter::element::Element;
use crate::jmeter::names::Unknown;
use crate::jmeter::scope::Scope;
use crate::model::{Address, Ask, Body, Field, Text, encoded, multipart, urlencoded};

/// The most bytes of a file that is a body.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Why a request is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Unknown(#[from] Unknown),
    #[error(transparent)]
    Url(#[from] weir_load::UrlError),
    #[error("neither it nor a default names its server")]
    NoServer,
    #[error("its body is the file {name:?}, which is no text of at most 4 MiB that can be read")]
    File { name: String },
    #[error("its authentication ({mechanism}) needs an answer of the server first")]
    Mechanism { mechanism: String },
    #[error("{0}")]
    Request(String),
}

/// The request of a sampler; none where it cannot be made, which is told.
pub(super) fn ask(walk: &Walk<'_>, element: Element<'_>, scope: &Scope<'_>) -> Option<Ask> {
    let sampler = Sampler { walk, element, scope };
    match sampler.ask() {
        Ok(mut ask) => {
            for assertion in &scope.assertions {
                answer::check(*assertion, &mut ask, walk.names, walk.report);
            }
            for extractor in &scope.extractors {
                answer::take(*extractor, &mut ask, walk.report);
            }
            sampler.tell();
            Some(ask)
        }
        Err(fault) => {
            let remedy = match &fault {
                Fault::Unknown(unknown) => format!("give --set {}=VALUE, or define it", unknown.name),
                _ => "write the request by hand".to_owned(),
            };
            walk.report.lost(element.line(), format!("{} is left out: {fault}", element.shown()), remedy);
            None
        }
    }
}

struct Sampler<'s, 'x> {
    walk: &'s Walk<'s>,
    element: Element<'x>,
    scope: &'s Scope<'x>,
}

impl<'x> Sampler<'_, 'x> {
    /// The text of a property: its own, or that of the innermost defaults.
    fn value(&self, name: &str) -> &'x str {
        let own = self.element.value(name);
        if !own.trim().is_empty() {
            return own;
        }
        let defaults = self.scope.defaults.iter().rev().map(|defaults| defaults.value(name));
        defaults.into_iter().find(|text| !text.trim().is_empty()).unwrap_or("")
    }

    fn text(&self, name: &str) -> Result<Text, Unknown> {
        self.walk.names.text(self.value(name).trim())
    }

    /// A text in which values are put where they are known.
    fn known(&self, name: &str) -> Result<Text, Unknown> {
        match self.walk.names.constant(self.value(name).trim()) {
            Some(constant) => Ok(Text::plain(constant)),
            None => self.text(name),
        }
    }

    fn ask(&self) -> Result<Ask, Fault> {
        let method = self.walk.names.constant(self.element.value("HTTPSampler.method")).unwrap_or_default();
        let method = if method.trim().is_empty() { "GET".to_owned() } else { method.trim().to_ascii_uppercase() };
        let nowhere = Address { origin: None, rest: Text::default() };
        let mut ask = Ask::new(self.element.name(), method, nowhere);
        self.headers(&mut ask)?;
        let query = self.body(&mut ask)?;
        let mut address = self.address()?;
        if let Some(query) = query {
            address.push(if address.template().contains('?') { "&" } else { "?" });
            address.append(&query);
        }
        ask.address = Address::parse(&address)?;
        if ask.name.is_empty() {
            ask.name = format!("{} {}", ask.method, ask.address.rest.template().split('?').next().unwrap_or_default());
        }
        self.authorization(&mut ask)?;
        let follows =
            self.element.is_true("HTTPSampler.follow_redirects") || self.element.is_true("HTTPSampler.auto_redirects");
        // JMeter follows up to 20.
        ask.redirects = Some(if follows { 20 } else { 0 });
        let timeout_ms = self.walk.names.number(self.value("HTTPSampler.response_timeout"));
        ask.timeout = timeout_ms.filter(|ms| (1.0..=8.64e7).contains(ms)).map(|ms| format!("{}ms", ms.round()));
        match ask.fault() {
            Some(what) => Err(Fault::Request(what)),
            None => Ok(ask),
        }
    }

    fn address(&self) -> Result<Text, Fault> {
        let path = self.text("HTTPSampler.path")?;
        if path.begin().starts_with("http://") || path.begin().starts_with("https://") {
            return Ok(path);
        }
        let (scheme, host, port) =
            (self.known("HTTPSampler.protocol")?, self.known("HTTPSampler.domain")?, self.known("HTTPSampler.port")?);
        if host.is_empty() {
            return Err(Fault::NoServer);
        }
        let mut address =
            if scheme.is_empty() { Text::plain("http") } else { scheme.changed(str::to_ascii_lowercase, false) };
        address.push("://");
        address.append(&host);
        if !port.is_empty() {
            address.push(":");
            address.append(&port);
        }
        address.push(if path.begin().starts_with('/') { "" } else { "/" });
        address.append(&path.changed(|text| text.replace(' ', "%20"), false));
        Ok(address)
    }

    fn headers(&self, ask: &mut Ask) -> Result<(), Unknown> {
        // Of headers of one name the innermost counts.
        for manager in self.scope.headers.iter().rev() {
            let mut own: Vec<(String, Text)> = Vec::new();
            for header in manager.items("HeaderManager.headers") {
                let name = header.value("Header.name").trim();
                let is_framing = ["content-length", "transfer-encoding"].contains(&name.to_ascii_lowercase().as_str());
                if name.is_empty() || is_framing || ask.has_header(name) {
                    continue;
                }
                own.push((name.to_owned(), self.walk.names.text(header.value("Header.value").trim())?));
            }
            own.into_iter().for_each(|(name, value)| ask.add_header(&name, value));
        }
        Ok(())
    }

    /// Puts the body into the request; gives the query of what has none.
    fn body(&self, ask: &mut Ask) -> Result<Option<Text>, Fault> {
        let arguments = self.element.property("HTTPsampler.Arguments");
        let arguments = arguments.map_or_else(Vec::new, |own| own.items("Arguments.arguments"));
        let names = self.walk.names;
        let default_type = |ask: &mut Ask, content_type: &str| {
            if !ask.has_header("content-type") {
                ask.add_header("Content-Type", Text::plain(content_type));
            }
        };
        if self.element.is_true("HTTPSampler.postBodyRaw") {
            let mut body = Text::default();
            for argument in &arguments {
                body.append(&names.text(argument.value("Argument.value"))?);
            }
            if !body.is_empty() {
                ask.body = Some(Body::Text(body));
                default_type(ask, "text/plain");
            }
            return Ok(None);
        }
        let mut fields = Vec::new();
        for argument in &arguments {
            let (name, value) = (argument.value("Argument.name"), names.text(argument.value("Argument.value"))?);
            // What is not to be encoded is so already.
            let is_encoded = argument.property("HTTPArgument.always_encode").is_some()
                && !argument.is_true("HTTPArgument.always_encode");
            fields.push((Field { name: name.to_owned(), value, file: None, content_type: None }, is_encoded));
        }
        let files = self.files()?;
        let has_body = ["POST", "PUT", "PATCH"].contains(&ask.method.as_str());
        if has_body && (self.element.is_true("HTTPSampler.DO_MULTIPART_POST") || !files.is_empty()) {
            if let [only] = files.as_slice()
                && only.name.is_empty()
                && fields.is_empty()
            {
                ask.body = Some(Body::Text(only.value.clone()));
                default_type(ask, only.content_type.as_deref().unwrap_or("application/octet-stream"));
                return Ok(None);
            }
            let all: Vec<Field> = fields.into_iter().map(|(field, _)| field).chain(files).collect();
            let (text, content_type) = multipart(&all);
            ask.body = Some(Body::Text(text));
            ask.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
            default_type(ask, &content_type);
            return Ok(None);
        }
        if fields.is_empty() {
            return Ok(None);
        }
        let mut text = Text::default();
        for (field, is_encoded) in &fields {
            text.push(if text.is_empty() { "" } else { "&" });
            match is_encoded {
                true => {
                    text.push(&format!("{}=", encoded(&field.name)));
                    text.append(&field.value);
                }
                false => text.append(&urlencoded(std::slice::from_ref(field))),
            }
        }
        if !has_body {
            return Ok(Some(text));
        }
        ask.body = Some(Body::Text(text));
        default_type(ask, "application/x-www-form-urlencoded");
        Ok(None)
    }

    fn files(&self) -> Result<Vec<Field>, Fault> {
        let own =
            self.element.property("HTTPsampler.Files").map_or_else(Vec::new, |own| own.items("HTTPFileArgs.files"));
        let mut fields = Vec::new();
        for file in own {
            let path = self.walk.names.constant(file.value("File.path")).unwrap_or_default();
            let text = self.walk.files.read(&path, FILE_BYTES_MAX);
            let value = Text::plain(text.ok_or_else(|| Fault::File { name: path.clone() })?);
            let content_type = Some(file.value("File.mimetype").to_owned()).filter(|own| !own.is_empty());
            let shown = path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
            fields.push(Field {
                name: file.value("File.paramname").to_owned(),
                value,
                file: Some(shown),
                content_type,
            });
        }
        Ok(fields)
    }

    /// The name and password of the first entry that is for the address.
    fn authorization(&self, ask: &mut Ask) -> Result<(), Fault> {
        let whole = ask.address.template(None);
        for manager in self.scope.authorizations.iter().rev() {
            for entry in manager.items("AuthManager.auth_list") {
                let url = self.walk.names.constant(entry.value("Authorization.url")).unwrap_or_default();
                if !whole.starts_with(url.trim_end_matches('/')) || ask.has_header("authorization") {
                    continue;
                }
                let mechanism = entry.value("Authorization.mechanism");
                if !["", "BASIC", "BASIC_DIGEST"].contains(&mechanism) {
                    return Err(Fault::Mechanism { mechanism: mechanism.to_owned() });
                }
                let mut user = self.walk.names.text(entry.value("Authorization.username"))?;
                user.push(":");
                user.append(&self.walk.names.text(entry.value("Authorization.password"))?);
                ask.user = Some(user);
                return Ok(());
            }
        }
        Ok(())
    }

    /// What a sampler asks for beside its request.
    fn tell(&self) {
        let line = self.element.line();
        let lost = |what: &str, remedy: &str| {
            self.walk.report.lost(line, format!("{}: {what}", self.element.shown()), remedy);
        };
        if self.value("HTTPSampler.image_parser").trim() == "true" {
            lost("what a page holds is not fetched", "write a step for each address");
        }
        if !self.value("HTTPSampler.proxyHost").trim().is_empty() {
            lost("its proxy is not used", "a scenario goes to the server itself");
        }
    }
}
