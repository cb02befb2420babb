//! What the admin address answers.

use super::history::History;
use crate::http::limits::Limits;
use crate::http::request::{Head, Method, Request};
use crate::http::{parse, query};
use crate::telemetry::admin::address::AdminToken;
use crate::telemetry::admin::metrics;
use crate::telemetry::admin::pages::{CALLS, PAGES};
use crate::telemetry::admin::questions::{self, Answered};
use crate::telemetry::admin::reloads::Asked;
use crate::telemetry::admin::response_cache::Purge;
use crate::telemetry::admin::status::View;
use crate::telemetry::watching::Subscription;
use std::net::IpAddr;

/// The page: it holds no figures, but asks for them.
const PAGE: &str = include_str!("page.html");
/// What the page has in it where the server has no further ones.
const LINK: &str = "<a id=\"console\" href=\"console/\">Console</a>";

/// What there is, for those who ask for something else.
const PATHS: &str = "there are /, /console/, /metrics, /status.json, /now.json, /history.json, /activity.json, /requests.json, \
    /connections.json, /watch and /route?url=URL; POST: /purge, /stop, /mark\n";

/// The page loads nothing from other origins, and no other page can embed it.
const PAGE_FIELDS: &str = "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n";

/// What a client gets.
pub(super) enum Answer {
    /// These bytes.
    Whole(Vec<u8>),
    /// Requests, as they are answered.
    Watch(Subscription),
    /// What another part of the program answers; whether it may tell figures.
    Pages { may_ask: bool },
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asker<'t> {
    /// A client, which needs the token if there is one.
    Client(Option<&'t AdminToken>),
    /// A part of this program, through the door.
    Within,
}

impl Asker<'_> {
    fn token(&self) -> Option<&AdminToken> {
        match self {
            Self::Client(token) => *token,
            Self::Within => None,
        }
    }

    /// Whether the name is one by which this may ask: with a token each one is.
    fn may_call(&self, host: Option<&[u8]>) -> bool {
        match self {
            Self::Client(None) => is_local_name(host),
            Self::Client(Some(_)) | Self::Within => true,
        }
    }
}

impl From<Vec<u8>> for Answer {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Whole(bytes)
    }
}

/// The answer to what has come in so far; none if more has to come.
pub(super) fn answer(input: &[u8], asker: Asker<'_>, view: &View, history: &History) -> Option<Answer> {
    let request = match parse::parse(input, &Limits::default()) {
        Head::Partial => return None,
        Head::Rejected(status) => return Some(plain(status, "this is no request\n", false).into()),
        Head::Complete(request, _) => request,
    };
    let head_only = request.method == Method::Head;
    let path = request.target.split('?').next().unwrap_or_default();
    let may_ask = asker.token().is_none_or(|token| token.lets_in(request.authorization));
    let has_pages = view.pages.is_some() && matches!(asker, Asker::Client(_));
    // A browser comes without a token at first; the page asks its user for it.
    let is_page = path == "/" || has_pages && is_of_pages(path) && !path.starts_with(CALLS);
    Some(match path {
        _ if !asker.may_call(request.host) => {
            plain(421, "without a token only names without a dot are answered, and addresses\n", head_only).into()
        }
        _ if !is_page && !may_ask => {
            plain(401, "the token is missing or wrong: Authorization: Bearer TOKEN\n", head_only).into()
        }
        _ if has_pages && path.starts_with(PAGES) => Answer::Pages { may_ask },
        _ if has_pages && is_of_pages(path) => {
            reply(308, "text/plain", "Location: console/\r\n", "the console is at /console/\n", head_only).into()
        }
        path => told(&request, (path, asker.token().is_some()), view, history),
    })
}

/// Whether a path is one of the pages that another part of the program serves; the page itself needs its last slash.
fn is_of_pages(path: &str) -> bool {
    path.starts_with(PAGES) || PAGES.strip_suffix('/') == Some(path)
}

/// What the server itself answers to one who may ask.
fn told(request: &Request<'_>, (path, has_token): (&str, bool), view: &View, history: &History) -> Answer {
    let head_only = request.method == Method::Head;
    let whole = match path {
        "/purge" => purge(request, has_token, view),
        "/stop" => order(request, has_token, |query| questions::stop(query, view)),
        "/mark" => order(request, has_token, |query| questions::mark(query, view)),
        _ if !matches!(request.method, Method::Get | Method::Head) => plain(405, "only GET and HEAD\n", head_only),
        "/" => {
            let page = if view.pages.is_some() { PAGE.to_owned() } else { PAGE.replace(LINK, "") };
            reply(200, "text/html; charset=utf-8", PAGE_FIELDS, &page, head_only)
        }
        "/metrics" => {
            let told = view.teller.as_ref().map_or_else(String::new, |teller| teller.metrics());
            let text = metrics::text(&view.status()) + &told;
            reply(200, "text/plain; version=0.0.4; charset=utf-8", "", &text, head_only)
        }
        "/status.json" => reply(200, "application/json", "", &view.status().json(), head_only),
        "/route" => explain(request.target, view, head_only),
        "/watch" if !head_only => match Subscription::read(query_of(request)) {
            Ok(asked) if asked.takes_bodies() && !view.rights.bodies => {
                plain(403, "bodies are not told here; start the server with --admin-may bodies\n", head_only)
            }
            Ok(asked) => return Answer::Watch(asked),
            Err(error) => plain(400, &format!("{error}\n"), head_only),
        },
        "/activity.json" => answered(questions::activity(query_of(request), view), head_only),
        "/requests.json" => answered(questions::requests(query_of(request), view), head_only),
        "/connections.json" => answered(questions::connections(query_of(request), view), head_only),
        "/history.json" => reply(200, "application/json", "", &history.json(), head_only),
        "/now.json" => reply(200, "application/json", "", &history.now(view).to_string(), head_only),
        _ => match view.teller.as_ref().and_then(|teller| teller.json(path)) {
            Some(json) => reply(200, "application/json", "", &json, head_only),
            None => plain(404, PATHS, head_only),
        },
    };
    whole.into()
}

/// How a request would be routed: `/route?url=URL`, with `method` and `from` if wanted.
fn explain(target: &str, view: &View, head_only: bool) -> Vec<u8> {
    let mut asked = Asked::default();
    for (name, value) in query::pairs(target.split_once('?').map_or("", |(_, query)| query)) {
        match name.as_str() {
            "url" => asked.url = value,
            "method" => asked.method = Some(value),
            "from" => match value.parse() {
                Ok(address) => asked.from = Some(address),
                Err(_) => return plain(400, "from is no address\n", head_only),
            },
            _ => return plain(400, "there are url, method and from\n", head_only),
        }
    }
    match view.reloads.explain(&asked) {
        Ok(json) => reply(200, "application/json", "", &json, head_only),
        Err((status, why)) => plain(status, &format!("{why}\n"), head_only),
    }
}

const OF_PAGE: &str = "a page may ask for this with a token only\n";

fn query_of<'r>(request: &Request<'r>) -> &'r str {
    request.target.split_once('?').map_or("", |(_, query)| query)
}

/// Whether a page in a browser asks, which says its origin with what may change something.
fn is_of_page(request: &Request<'_>) -> bool {
    request.fields().any(|(name, _)| name.eq_ignore_ascii_case("origin"))
}

fn answered(answered: Answered, head_only: bool) -> Vec<u8> {
    match answered {
        Ok(json) => reply(200, "application/json", "", &json, head_only),
        Err((status, why)) => plain(status, &why, head_only),
    }
}

/// What changes something: by POST only, and not for pages of others, as for [`purge`].
fn order(request: &Request<'_>, has_token: bool, carry_out: impl FnOnce(&str) -> Answered) -> Vec<u8> {
    if request.method_text != "POST" {
        return plain(405, "this is an order: ask by POST\n", request.method == Method::Head);
    }
    if is_of_page(request) && !has_token {
        return plain(403, OF_PAGE, false);
    }
    answered(carry_out(query_of(request)), false)
}

/// Has caches forget responses. A page of others cannot ask for it: it has no token, and where there is none a browser
/// says by Origin that a page asks, as through a port that ssh leads to the Unix socket.
fn purge(request: &Request<'_>, has_token: bool, view: &View) -> Vec<u8> {
    const HOW: &str = "write POST /purge?url=URL, prefix=URL or tag=TAG, percent-encoded\n";
    if request.method_text != "POST" {
        return plain(405, HOW, request.method == Method::Head);
    }
    if is_of_page(request) && !has_token {
        return plain(403, OF_PAGE, false);
    }
    let query = query_of(request);
    match Purge::read(query) {
        Some(what) => {
            let purged = view.reloads.purge(&what);
            let told = view.former.purge(query);
            let former = match told.servers {
                0 => String::new(),
                servers => {
                    format!(
                        ",\"former_servers\":{servers},\"former_purged\":{},\"former_silent\":{}",
                        told.purged, told.silent
                    )
                }
            };
            reply(200, "application/json", "", &format!("{{\"purged\":{purged}{former}}}\n"), false)
        }
        None => plain(400, HOW, false),
    }
}

/// Whether a name is one that no page of others can have: a name of theirs may be led to this machine, and their page
/// would then be let in as one of ours.
fn is_local_name(host: Option<&[u8]>) -> bool {
    let Some(host) = host.and_then(|host| std::str::from_utf8(host).ok()) else { return host.is_none() };
    let without_port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let name = without_port.map_or(host, |(name, _)| name);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    !name.contains('.') || bare.parse::<IpAddr>().is_ok()
}

/// The answer where the part of the program that serves pages has as many connections as it may.
pub(super) fn busy() -> Vec<u8> {
    let words = "as many connections of the console are open as may be; try again in a second\n";
    reply(503, "text/plain", "Retry-After: 1\r\n", words, false)
}

fn plain(status: u16, text: &str, head_only: bool) -> Vec<u8> {
    reply(status, "text/plain", "", text, head_only)
}

fn reply(status: u16, content_type: &str, fields: &str, text: &str, head_only: bool) -> Vec<u8> {
    let challenge = if status == 401 { "WWW-Authenticate: Bearer\r\n" } else { "" };
    let allow = match status {
        405 if text.contains("POST") => "Allow: POST\r\n",
        405 => "Allow: GET, HEAD\r\n",
        _ => "",
    };
    let head = format!(
        "HTTP/1.1 {status} {}\r\nServer: weir\r\n{challenge}{allow}{fields}Content-Type: {content_type}\r\n\
         Content-Length: {}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n",
        crate::files::head::reason(status),
        text.len()
    );
    (if head_only { head } else { head + text }).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_others_can_have_are_told_from_those_that_they_cannot() {
        let is_local = |name: &str| is_local_name(Some(name.as_bytes()));
        assert!(is_local_name(None));
        for good in ["localhost", "localhost:9100", "weir", "127.0.0.1:9100", "[::1]:9100", "[::1]", "10.0.0.1", ""] {
            assert!(is_local(good), "{good}");
        }
        for bad in ["example.org", "example.org:9100", "127.0.0.1.example.org", "a.localhost", "example."] {
            assert!(!is_local(bad), "{bad}");
        }
    }
}
