//! HTTP Archive 1.2: each entry is a step. Its times are not carried over: a scenario has times to think of its own.

use crate::model::{Address, Ask, Body, Does, Field, Group, Plan, Step, Text, multipart, urlencoded};
use crate::report::Report;
use crate::tree::{Node, Value, read_json};

/// Headers that a client makes for each connection or request anew, or that HTTP/2 alone has.
const OF_CLIENT: [&str; 7] =
    ["content-length", "transfer-encoding", "connection", "host", "keep-alive", "proxy-connection", "te"];

/// The plan of a recording; what is wrong is told.
pub(crate) fn plan(text: &str, report: &Report) -> Option<Plan> {
    let root = read_json(text, report)?;
    let Some(entries) = root.get("log").and_then(|log| log.get("entries")) else {
        report.wrong(root.at(), "this is no HTTP Archive", "give a file that has log.entries");
        return None;
    };
    if !matches!(entries.value, Value::List(_)) {
        report.wrong(entries.at(), "log.entries is no list", "give a file as browsers write it");
        return None;
    }
    let mut steps = Vec::new();
    for entry in entries.list() {
        let Some(request) = entry.get("request") else {
            report.wrong(entry.at(), "an entry has no request", "write one, or leave the entry out");
            continue;
        };
        if let Some(ask) = ask(request, report) {
            steps.push(Step::new(entry.line, Does::Ask(Box::new(ask))));
        }
    }
    if let Some(cookie) = entries.list().iter().find_map(sent_cookie) {
        let what = "the cookies of the recorded user are not sent; each user has those that the server sets";
        report.lost(cookie.line, what, "write a header Cookie where the server must know the user before");
    }
    let keep = vec!["connections"];
    Some(Plan {
        groups: vec![Group { line: 1, name: "recording".to_owned(), keep, steps, ..Group::default() }],
        ..Plan::default()
    })
}

/// The first header of a request that sends cookies.
fn sent_cookie(entry: &Node) -> Option<&Node> {
    let is_cookie = |header: &&Node| header.text_of("name").is_some_and(|name| name.eq_ignore_ascii_case("cookie"));
    entry.get("request")?.list_of("headers").iter().find(is_cookie)
}

fn ask(request: &Node, report: &Report) -> Option<Ask> {
    let left_out = |line: usize, what: String, remedy: &str| {
        report.lost(line, format!("a request is left out: {what}"), remedy);
        None
    };
    let (Some(method), Some(url)) = (request.text_of("method"), request.text_of("url")) else {
        report.wrong(request.at(), "a request has no method or no url", "write both as texts");
        return None;
    };
    if ["data:", "blob:", "about:", "chrome-extension:"].iter().any(|begin| url.starts_with(begin)) {
        return left_out(request.line, "it asks no server".to_owned(), "leave it out");
    }
    if request.text_of("httpVersion").is_some_and(|version| version.to_ascii_lowercase().contains("websocket"))
        || url.starts_with("ws")
    {
        return left_out(request.line, "it is a WebSocket".to_owned(), "load it by weir load");
    }
    let address = match Address::parse(&Text::plain(url)) {
        Ok(address) => address,
        Err(error) => return left_out(request.line, error.to_string(), "mend the url"),
    };
    let shown = address.rest.template();
    let mut ask = Ask::new(format!("{method} {}", shown.split('?').next().unwrap_or_default()), method, address);
    for header in request.list_of("headers") {
        let (Some(name), Some(value)) = (header.text_of("name"), header.text_of("value")) else { continue };
        // Cookies that the server sets come back by themselves.
        let is_own = OF_CLIENT.contains(&name.to_ascii_lowercase().as_str()) || name.starts_with(':');
        if !is_own && !name.eq_ignore_ascii_case("cookie") {
            ask.add_header(name, Text::plain(value.trim()));
        }
    }
    if let Some(posted) = request.get("postData") {
        match body(posted) {
            Some((text, content_type)) => {
                ask.body = Some(Body::Text(text));
                if let Some(content_type) = content_type {
                    ask.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
                    ask.headers.push(("Content-Type".to_owned(), Text::plain(content_type)));
                }
            }
            None => return left_out(posted.line, "its body is no text".to_owned(), "write the body by hand"),
        }
    }
    // Each redirect has an entry of its own.
    ask.redirects = Some(0);
    match ask.fault() {
        Some(what) => left_out(request.line, what, "mend the request"),
        None => Some(ask),
    }
}

/// The body, and its type where that is another one than the headers say.
fn body(posted: &Node) -> Option<(Text, Option<String>)> {
    if posted.text_of("encoding").is_some_and(|encoding| encoding.eq_ignore_ascii_case("base64")) {
        return None;
    }
    if let Some(text) = posted.text_of("text").filter(|text| !text.is_empty()) {
        return Some((Text::plain(text), None));
    }
    let field = |node: &Node| {
        let value = Text::plain(node.text_of("value").unwrap_or_default());
        let name = node.text_of("name").unwrap_or_default().to_owned();
        let (file, content_type) = (node.text_of("fileName"), node.text_of("contentType"));
        Field { name, value, file: file.map(str::to_owned), content_type: content_type.map(str::to_owned) }
    };
    let fields: Vec<Field> = posted.list_of("params").iter().map(field).collect();
    if posted.text_of("mimeType").is_some_and(|media| media.starts_with("multipart/")) {
        let (text, content_type) = multipart(&fields);
        return Some((text, Some(content_type)));
    }
    Some((urlencoded(&fields), None))
}
