//! What a command line of curl sends.

use crate::curl::said::Said;
use crate::model::{Address, Ask, Body, Part, Text, multipart};
use crate::report::Report;

/// The redirects that curl follows with -L.
const REDIRECTS_DEFAULT: u32 = 50;

/// The requests of what was said, each with its line.
pub(super) fn asks(line: usize, mut said: Said, report: &Report) -> Vec<(usize, Ask)> {
    if let Some((what, remedy)) = said.needs.take() {
        if !what.is_empty() {
            report.lost(line, format!("a request is left out, as it needs {what}"), remedy);
        }
        return Vec::new();
    }
    if said.urls.is_empty() {
        report.wrong((line, 1), "this curl has no address", "write one, such as http://localhost:8080/");
    }
    if said.follows && said.method.as_deref().is_some_and(|method| !["GET", "HEAD"].contains(&method)) {
        report.lost(line, "-X with -L: curl keeps the method at each redirect", "a scenario goes on as browsers do");
    }
    let body = body(&mut said);
    let urls = std::mem::take(&mut said.urls);
    urls.iter().filter_map(|(line, url)| Some((*line, ask((*line, url), &said, body.as_ref(), report)?))).collect()
}

/// The body, with its type among the headers.
fn body(said: &mut Said) -> Option<Text> {
    let default = |said: &mut Said, name: &str, value: String| {
        let is_there = said.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        if !is_there && !said.without.contains(&name.to_ascii_lowercase()) {
            said.headers.push((name.to_owned(), Text::plain(value)));
        }
    };
    if said.is_compressed {
        default(said, "Accept-Encoding", "deflate, gzip, br, zstd".to_owned());
    }
    if !said.cookies.is_empty() {
        let mut cookies = Text::default();
        for (place, cookie) in said.cookies.iter().enumerate() {
            cookies.push(if place > 0 { ";" } else { "" });
            cookies.append(cookie);
        }
        said.headers.push(("Cookie".to_owned(), cookies));
    }
    if said.is_get {
        said.url_query.extend(said.data.take());
        return None;
    }
    if said.is_json {
        default(said, "Content-Type", "application/json".to_owned());
        default(said, "Accept", "application/json".to_owned());
    }
    if !said.fields.is_empty() {
        let (body, content_type) = multipart(&said.fields);
        said.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        default(said, "Content-Type", content_type);
        return Some(body);
    }
    if said.data.is_some() {
        default(said, "Content-Type", "application/x-www-form-urlencoded".to_owned());
    }
    said.data.take().or_else(|| said.upload.clone())
}

fn ask((line, url): (usize, &Text), said: &Said, body: Option<&Text>, report: &Report) -> Option<Ask> {
    let mut url = url.clone();
    let scheme = url.begin().split_once("://").map(|(scheme, _)| scheme.to_owned());
    if scheme.is_none() {
        let mut with_scheme = Text::plain("http://");
        with_scheme.append(&url);
        url = with_scheme;
    }
    for more in &said.url_query {
        url = with_query(&url, more);
    }
    let fault = |what: String| {
        report.lost(line, format!("a request is left out: {what}"), "mend the address");
        None
    };
    let path = url.template();
    let path = path.split_once("://").map_or("", |(_, behind)| behind.find('/').map_or("", |at| &behind[at..]));
    if said.is_globbed && path.replace("${", "").contains(['[', '{']) {
        return fault("curl makes several addresses of brackets and braces; write each, or add -g".to_owned());
    }
    let address = match Address::parse(&url) {
        Ok(address) => address,
        Err(error) => return fault(error.to_string()),
    };
    let method = match &said.method {
        Some(method) => method.as_str(),
        None if said.is_head => "HEAD",
        None if said.upload.is_some() && body.is_some() && said.data.is_none() => "PUT",
        None if body.is_some() => "POST",
        None => "GET",
    };
    let shown = address.rest.template();
    let name = format!("{method} {}", shown.split('?').next().unwrap_or_default());
    let mut ask = Ask::new(name, method, address);
    said.headers.iter().for_each(|(name, value)| ask.add_header(name, value.clone()));
    if !ask.has_header("authorization") {
        ask.user = said.user.clone();
    }
    ask.body = body.cloned().map(Body::Text);
    ask.redirects = Some(if said.follows { said.redirects_max.unwrap_or(REDIRECTS_DEFAULT).min(100) } else { 0 });
    ask.timeout = said.timeout.clone();
    match ask.fault() {
        Some(what) => fault(what),
        None => Some(ask),
    }
}

/// An address with more behind its question mark.
fn with_query(url: &Text, more: &Text) -> Text {
    let mut out = url.split_once('#').map_or_else(|| url.clone(), |(before, _)| before);
    let has_query = out.parts().iter().any(|part| matches!(part, Part::Plain(text) if text.contains('?')));
    let sign = match (has_query, out.begin().split_once("://").is_some_and(|(_, rest)| rest.contains('/'))) {
        (true, _) => "&",
        (false, true) => "?",
        (false, false) => "/?",
    };
    out.push(sign);
    out.append(more);
    out
}
