//! A request as a script asks it: its parameters, and how it goes out.

use super::address::without_user;
use super::codec::bytes_of;
use super::giving::thrown;
use crate::script::state::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rquickjs::{Array, Ctx, Object, Result, Value};
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use weir_load::Statuses;
use weir_load::Url;
use weir_scenario::behaviour::{Ask, Cookies, Kept, Tags};

thread_local! {
    static NO_TAGS: Tags = Arc::from([]);
}

/// How long a request may take that says nothing else.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a script gets of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyAs {
    Text,
    Binary,
    Nothing,
}

/// Which statuses are no failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expected {
    /// 200 to 399.
    Usual,
    /// That is not asked.
    Unasked,
    /// Those of these ranges, both ends included.
    Of(Vec<(u16, u16)>),
}

impl Expected {
    /// For the engine. What is not asked counts as met.
    fn statuses(&self) -> Option<Arc<Statuses>> {
        let text = match self {
            Self::Usual => return None,
            Self::Unasked => "100-599".to_owned(),
            Self::Of(ranges) => ranges.iter().map(|(min, max)| format!("{min}-{max}")).collect::<Vec<_>>().join(","),
        };
        text.parse().ok().map(Arc::new)
    }
}

/// How a request proves who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Auth {
    None,
    Basic {
        user: String,
        password: String,
    },
    /// On the first answer that asks for it (RFC 7616).
    Digest {
        user: String,
        password: String,
    },
}

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) url: Url,
    /// The `name` tag, if it is another than the URL.
    pub(super) name: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) timeout: Duration,
    pub(super) redirects_left: u32,
    /// Whether the script itself said how many.
    pub(super) redirects_said: bool,
    pub(super) body_as: BodyAs,
    pub(super) tags: Vec<(String, String)>,
    pub(super) jar: usize,
    /// Cookies of this request: name, value, whether it takes the place of the jar's.
    pub(super) cookies: Vec<(String, String, bool)>,
    pub(super) expected: Expected,
    pub(super) auth: Auth,
    pub(super) throws: bool,
    /// The `Cookie` header as it went out.
    pub(super) cookie_line: String,
}

impl Asked {
    /// Reads what a script gives: method, URL, name, body, options.
    pub(super) fn read<'js>(ctx: &Ctx<'js>, state: &State, given: Given<'js>) -> Result<Self> {
        let settings = state.world.settings();
        let (address, user) = without_user(&given.url);
        let parsed = Url::parse(&address).map_err(|wrong| thrown(ctx, format!("invalid URL: {wrong}")))?;
        let mut asked = Self {
            method: given.method,
            url: parsed,
            name: given.name,
            headers: Vec::new(),
            body: match &given.body {
                Some(body) => bytes_of(body)?.unwrap_or_default(),
                None => Vec::new(),
            },
            timeout: TIMEOUT,
            redirects_left: settings.redirects_max,
            redirects_said: false,
            body_as: if settings.discard_bodies { BodyAs::Nothing } else { BodyAs::Text },
            tags: Vec::new(),
            jar: 0,
            cookies: Vec::new(),
            expected: Expected::Usual,
            auth: Auth::None,
            throws: settings.throws,
            cookie_line: String::new(),
        };
        if let Some((user, password)) = user {
            asked.auth = Auth::Basic { user, password };
        }
        if let Some(options) = &given.options {
            asked.set(ctx, options)?;
        }
        if let Some(at) = asked.tags.iter().position(|(name, _)| name == "name") {
            asked.name = Some(asked.tags.swap_remove(at).1);
        }
        Ok(asked)
    }

    fn set<'js>(&mut self, ctx: &Ctx<'js>, options: &Object<'js>) -> Result<()> {
        if let Some(fields) = options.get::<_, Option<Vec<String>>>("headers")? {
            self.headers = pairs(fields);
            self.default_type();
        }
        if let Some(tags) = options.get::<_, Option<Vec<String>>>("tags")? {
            self.tags = pairs(tags);
        }
        if let Some(cookies) = options.get::<_, Option<Vec<String>>>("cookies")? {
            let all = cookies.chunks_exact(3);
            self.cookies = all.map(|one| (one[0].clone(), one[1].clone(), one[2] == "1")).collect();
        }
        if let Some(milliseconds) = options.get::<_, Option<f64>>("timeout")? {
            if !(milliseconds > 0.0 && milliseconds < 1e12) {
                return Err(thrown(ctx, "timeout: a request's time is longer than 0"));
            }
            self.timeout = Duration::from_secs_f64(milliseconds / 1000.0);
        }
        if let Some(redirects) = options.get::<_, Option<f64>>("redirects")? {
            (self.redirects_left, self.redirects_said) = (redirects as u32, true);
        }
        if let Some(jar) = options.get::<_, Option<usize>>("jar")? {
            self.jar = jar;
        }
        if let Some(throws) = options.get::<_, Option<bool>>("throws")? {
            self.throws = throws;
        }
        if let Some(kind) = options.get::<_, Option<String>>("responseType")? {
            self.body_as = match kind.as_str() {
                "text" => BodyAs::Text,
                "binary" => BodyAs::Binary,
                "none" => BodyAs::Nothing,
                other => return Err(thrown(ctx, format!("responseType: {other:?} is none of text, binary, none"))),
            };
        }
        if options.contains_key("expected")? {
            self.expected = match options.get::<_, Option<Vec<u16>>>("expected")? {
                None => Expected::Unasked,
                Some(ranges) => Expected::Of(ranges.chunks_exact(2).map(|range| (range[0], range[1])).collect()),
            };
        }
        if let Some(auth) = options.get::<_, Option<String>>("auth")? {
            self.set_auth(ctx, &auth)?;
        }
        if let Some(codings) = options.get::<_, Option<String>>("compression")? {
            self.compress(ctx, &codings)?;
        }
        Ok(())
    }

    /// A body's type by itself counts only where the script gives none.
    fn default_type(&mut self) {
        if let Some(at) = self.headers.iter().position(|(name, _)| name == "\u{0}type") {
            let (_, kind) = self.headers.remove(at);
            if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                self.headers.push(("Content-Type".to_owned(), kind));
            }
        }
    }

    fn set_auth(&mut self, ctx: &Ctx<'_>, kind: &str) -> Result<()> {
        match (kind, std::mem::replace(&mut self.auth, Auth::None)) {
            ("basic", auth) => self.auth = auth,
            ("digest", Auth::Basic { user, password }) => self.auth = Auth::Digest { user, password },
            ("digest", _) => return Err(thrown(ctx, "auth: \"digest\" needs http://user:password@host/")),
            (other, _) => return Err(thrown(ctx, format!("auth: {other:?} is not there: basic and digest are"))),
        }
        Ok(())
    }

    fn compress(&mut self, ctx: &Ctx<'_>, codings: &str) -> Result<()> {
        for coding in codings.split(',').map(str::trim) {
            let packed = match coding {
                "gzip" => {
                    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                    encoder.write_all(&self.body).and_then(|()| encoder.finish())
                }
                "deflate" => {
                    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                    encoder.write_all(&self.body).and_then(|()| encoder.finish())
                }
                "zstd" => zstd::encode_all(&self.body[..], 0),
                "br" => {
                    let mut packed = Vec::new();
                    let parameters = brotli::enc::BrotliEncoderParams::default();
                    brotli::BrotliCompress(&mut &self.body[..], &mut packed, &parameters).map(|_| packed)
                }
                other => {
                    let words = format!("compression: {other:?} is none of gzip, deflate, br, zstd");
                    return Err(thrown(ctx, words));
                }
            };
            self.body = packed.map_err(|wrong| thrown(ctx, format!("compression: {wrong}")))?;
        }
        self.headers.push(("Content-Encoding".to_owned(), codings.to_owned()));
        Ok(())
    }

    /// The request as the engine takes it.
    pub(super) fn ask(&mut self, state: &State) -> Ask {
        self.cookie_line.clear();
        let mut headers = self.headers.clone();
        if !has(&headers, "user-agent") && !state.world.settings().user_agent.is_empty() {
            headers.push(("User-Agent".to_owned(), state.world.settings().user_agent.clone()));
        }
        if let (Auth::Basic { user, password }, false) = (&self.auth, has(&headers, "authorization")) {
            headers
                .push(("Authorization".to_owned(), format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))));
        }
        if state.world.settings().closes && !has(&headers, "connection") {
            headers.push(("Connection".to_owned(), "close".to_owned()));
        }
        self.add_cookies(state);
        if !self.cookie_line.is_empty() && !has(&headers, "cookie") {
            headers.push(("Cookie".to_owned(), self.cookie_line.clone()));
        }
        Ask {
            method: self.method.clone(),
            headers,
            body: self.body.clone(),
            timeout: self.timeout,
            redirects_max: 0,
            keep: if self.body_as == BodyAs::Nothing { Kept::Nothing } else { Kept::Body },
            cookies: Cookies { without_jar: true, own: Vec::new() },
            tags: self.all_tags(state),
            expected: self.expected_now().statuses(),
            at: state.world.settings().hosts.of(&self.url),
            ..Ask::get(self.url.clone())
        }
    }

    /// The answer that asks for a digest is no failure.
    fn expected_now(&self) -> Expected {
        match &self.auth {
            Auth::Digest { .. } if !has(&self.headers, "authorization") => Expected::Of(vec![(200, 399), (401, 401)]),
            _ => self.expected.clone(),
        }
    }

    /// Tags of what is counted of it, beside those of its scenario.
    fn all_tags(&self, state: &State) -> Tags {
        let (group, of_user) = (state.group.borrow(), state.tags.borrow());
        if self.name.is_none() && self.tags.is_empty() && group.is_empty() && of_user.is_empty() {
            return NO_TAGS.with(Arc::clone);
        }
        let mut all: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        let mut add = |name: &str, value: &str| {
            if !all.iter().any(|(known, _)| &**known == name) {
                all.push((name.into(), value.into()));
            }
        };
        if let Some(name) = &self.name {
            // As k6 has it: a name stands for the address in both.
            add("name", name);
            add("url", name);
        }
        self.tags.iter().chain(of_user.iter()).for_each(|(name, value)| add(name, value));
        add("group", &group);
        all.sort();
        all.into()
    }

    fn add_cookies(&mut self, state: &State) {
        let jars = state.jars.borrow();
        let jar = jars.get(self.jar).filter(|jar| !jar.is_empty());
        if jar.is_none() && self.cookies.is_empty() {
            return;
        }
        let of_jar = jar.map(|jar| jar.get(&self.url, SystemTime::now())).unwrap_or_default();
        let replaced = |name: &str| self.cookies.iter().any(|(own, _, replaces)| *replaces && own == name);
        let own = self.cookies.iter().map(|(name, value, _)| (name.as_str(), value.as_str()));
        let all = own.chain(of_jar.into_iter().filter(|(name, _)| !replaced(name)));
        let mut line = String::new();
        for (name, value) in all {
            if !line.is_empty() {
                line.push_str("; ");
            }
            line.push_str(name);
            line.push('=');
            line.push_str(value);
        }
        self.cookie_line = line;
    }
}

/// What a script gives.
pub(super) struct Given<'js> {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) name: Option<String>,
    pub(super) body: Option<Value<'js>>,
    pub(super) options: Option<Object<'js>>,
}

impl<'js> Given<'js> {
    /// `[method, url, name, body, options]`.
    pub(super) fn of(array: &Array<'js>) -> Result<Self> {
        let some = |value: Value<'js>| Some(value).filter(|value| !value.is_undefined() && !value.is_null());
        Ok(Self {
            method: array.get(0)?,
            url: array.get(1)?,
            name: array.get(2)?,
            body: some(array.get(3)?),
            options: array.get(4)?,
        })
    }
}

pub(super) fn has(headers: &[(String, String)], name: &str) -> bool {
    headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name))
}

fn pairs(flat: Vec<String>) -> Vec<(String, String)> {
    let mut pairs = Vec::with_capacity(flat.len() / 2);
    let mut all = flat.into_iter();
    while let (Some(name), Some(value)) = (all.next(), all.next()) {
        pairs.push((name, value));
    }
    pairs
}
