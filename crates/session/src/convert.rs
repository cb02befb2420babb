//! A recording in the forms of other tools.

use crate::recording::{Body, Entry, Recording};
use crate::replay::{headers, obstacle, origin};
use crate::specification::written;
use std::fmt::Write;
use url::Url;

/// A user who pauses longer than this begins a new burst, even where the page is the same.
const BURST_GAP_US: i64 = 1_000_000;

/// Why an entry is not written in another form, and whether that is a loss.
fn reason(entry: &Entry, origin: Option<&url::Origin>) -> Option<(&'static str, bool)> {
    let here = Url::parse(&entry.request.url).is_ok_and(|url| Some(&url.origin()) == origin);
    match obstacle(entry) {
        Some(why) => Some((why, here)),
        None if !here => Some(("are asked of other servers", false)),
        None if entry.request.body.as_ref().is_some_and(|body| !is_text(body)) => {
            Some(("have a body that is no text", true))
        }
        None => None,
    }
}

fn is_text(body: &Body) -> bool {
    body.bytes.as_deref().is_none_or(|bytes| std::str::from_utf8(bytes).is_ok())
}

/// The entries that a tool can ask again, with their numbers from 1 and their addresses.
fn usable(recording: &Recording) -> impl Iterator<Item = (usize, &Entry, Url)> {
    let origin = origin(recording);
    let numbered = recording.entries.iter().enumerate();
    numbered.filter_map(move |(index, entry)| {
        let url = Url::parse(&entry.request.url).ok()?;
        reason(entry, origin.as_ref()).is_none().then_some((index + 1, entry, url))
    })
}

/// How many entries the other forms leave out.
#[must_use]
pub fn left_out(recording: &Recording) -> usize {
    recording.entries.len() - usable(recording).count()
}

/// How many entries of the recorded server the other forms leave out.
#[must_use]
pub fn lost(recording: &Recording) -> usize {
    let origin = origin(recording);
    recording.entries.iter().filter(|entry| reason(entry, origin.as_ref()).is_some_and(|(_, lost)| lost)).count()
}

/// How many entries have header fields that forms without such fields do not hold.
#[must_use]
pub fn with_fields(recording: &Recording) -> usize {
    usable(recording).filter(|(_, entry, url)| !telling(entry, url).is_empty()).count()
}

/// How many entries are left out for which reason.
#[must_use]
pub fn reasons(recording: &Recording) -> Vec<(usize, &'static str)> {
    let origin = origin(recording);
    let mut found: Vec<(usize, &'static str)> = Vec::new();
    for (why, _) in recording.entries.iter().filter_map(|entry| reason(entry, origin.as_ref())) {
        match found.iter_mut().find(|(_, known)| *known == why) {
            Some((count, _)) => *count += 1,
            None => found.push((1, why)),
        }
    }
    found
}

/// Form fields of the body, if it is a form and nothing else.
fn form(entry: &Entry) -> Option<Vec<(String, String)>> {
    let body = entry.request.body.as_ref().filter(|body| body.is_form())?;
    let fields: Vec<_> = url::form_urlencoded::parse(body.bytes.as_deref()?).into_owned().collect();
    Some(fields)
}

/// A body that is not a form, as text.
fn raw(entry: &Entry) -> Option<(&str, &str)> {
    let body = entry.request.body.as_ref().filter(|body| !body.is_form() && body.size > 0)?;
    Some((&body.kind, std::str::from_utf8(body.bytes.as_deref()?).ok()?))
}

/// Fields that a server may decide by; those that only describe a browser are left out.
fn telling(entry: &Entry, url: &Url) -> Vec<(String, String)> {
    let of_browsers = ["accept", "accept-language", "cache-control", "pragma", "dnt", "referer", "priority", "origin"];
    let mut told = headers(entry, None, url);
    told.retain(|(name, _)| !of_browsers.contains(&name.as_str()) && !name.starts_with("sec-"));
    told
}

/// The text of the title, as the page has it.
fn title(entry: &Entry) -> Option<String> {
    let body = &entry.response.as_ref()?.body;
    let bytes = body.bytes.as_deref().filter(|_| body.kind.to_ascii_lowercase().starts_with("text/html"))?;
    let text = std::str::from_utf8(bytes).ok()?;
    let begin = text.find("<title>")? + "<title>".len();
    let title = &text[begin..begin + text[begin..].find("</title>")?];
    (!title.trim().is_empty() && title.lines().count() == 1).then(|| title.to_owned())
}

/// Whether the request only follows a redirect of the one before.
fn follows(before: Option<&Entry>, url: &Url) -> bool {
    before.and_then(Entry::redirect).is_some_and(|mut to| {
        to.set_fragment(None);
        to == *url
    })
}

/// A specification of HTTP::WebTest: each request a test of its status, and of the page's title where there is one.
#[must_use]
pub fn webtest(recording: &Recording) -> String {
    let mut out = String::from("# Recorded; redirects are tests of their own.\nhandle_redirects = no\n");
    for (number, entry, url) in usable(recording) {
        let Some(response) = &entry.response else { continue };
        let (method, path) = (&entry.request.method, url.path());
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            out,
            "\ntest_name = {}\n    url = {}\n",
            written(&format!("{number} {method} {path}")),
            written(url.as_str())
        );
        if method != "GET" {
            let _ = writeln!(out, "    method = {}", method.to_ascii_lowercase());
        }
        if let Some(fields) = form(entry) {
            out.push_str("    params = (\n");
            pairs(&fields, &mut out);
        } else if let Some((kind, body)) = raw(entry) {
            let _ = writeln!(out, "    content_type = {}\n    body = {}", written(kind), written(body));
        }
        let told = telling(entry, &url);
        // As in LWP, an underscore means a hyphen unless a colon stands in front of the name.
        let literal =
            |(name, value): (String, String)| (if name.contains('_') { format!(":{name}") } else { name }, value);
        let told: Vec<_> = told.into_iter().map(literal).collect();
        if !told.is_empty() {
            out.push_str("    http_headers = (\n");
            pairs(&told, &mut out);
        }
        if response.status != 200 {
            let _ = writeln!(out, "    status_code = {}", response.status);
        }
        if let Some(title) = title(entry) {
            let _ = writeln!(out, "    text_require = ( {} )", quoted(&format!("<title>{title}</title>")));
        }
        out.push_str("end_test\n");
    }
    out
}

fn pairs(pairs: &[(String, String)], out: &mut String) {
    for (name, value) in pairs {
        let _ = writeln!(out, "        {} => {}", quoted(name), quoted(value));
    }
    out.push_str("    )\n");
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// A session of HTTP::Monkeywrench as its users write it; redirects are followed, so they are no clicks.
#[must_use]
pub fn monkeywrench(recording: &Recording) -> String {
    let mut out = String::from("use strict;\nuse HTTP::Monkeywrench;\n\nmy $session = [\n");
    let all: Vec<(usize, &Entry, Url)> = usable(recording).collect();
    for (index, (number, entry, url)) in all.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| all[before].1);
        if follows(before, url) {
            continue;
        }
        // The response that is judged is that behind the redirects.
        let mut last = index;
        while last + 1 < all.len() && follows(Some(all[last].1), &all[last + 1].2) {
            last += 1;
        }
        let judged = all[last].1;
        let method = &entry.request.method;
        let _ = write!(
            out,
            "    {{\n        name => {},\n        url => {},\n        method => '{method}',\n",
            quoted(&format!("{number} {method} {}", url.path())),
            quoted(url.as_str())
        );
        if let Some(fields) = form(entry) {
            out.push_str("        params => [\n");
            for (name, value) in &fields {
                let _ = writeln!(out, "            {} => {},", quoted(name), quoted(value));
            }
            out.push_str("        ],\n");
        } else if let Some((kind, body)) = raw(entry) {
            let _ = writeln!(out, "        content_type => {},\n        body => {},", quoted(kind), quoted(body));
        }
        let status = judged.response.as_ref().map_or(200, |response| response.status);
        if !(200..300).contains(&status) {
            let _ = writeln!(out, "        status_code => {status},");
        }
        if let Some(title) = title(judged) {
            let _ = writeln!(out, "        success_res => [{}],", quoted(&format!("<title>{title}</title>")));
        }
        out.push_str("        acceptcookie => 1,\n        sendcookie => 1,\n    },\n");
    }
    out.push_str("];\n\nHTTP::Monkeywrench->test($session);\n");
    out
}

/// httperf's file of sessions (`--wsesslog`): one session of bursts, with the pauses between them.
#[must_use]
pub fn sessions(recording: &Recording) -> String {
    let mut out = String::new();
    let server = usable(recording).next().map(|(_, _, url)| url.origin().ascii_serialization());
    let _ = writeln!(out, "# A recorded session of {}", server.unwrap_or_default());
    let all: Vec<(usize, &Entry, Url)> = usable(recording).collect();
    let mut bursts: Vec<Vec<usize>> = Vec::new();
    for index in 0..all.len() {
        let begins = index == 0 || begins_burst(&all, index);
        match bursts.last_mut() {
            Some(burst) if !begins => burst.push(index),
            _ => bursts.push(vec![index]),
        }
    }
    for (number, burst) in bursts.iter().enumerate() {
        let end = burst.iter().map(|index| all[*index].1.ended_us()).max().unwrap_or(0);
        let next = bursts.get(number + 1).map(|next| all[next[0]].1.started_us);
        let pause = next.map_or(0.0, |next| next.saturating_sub(end).max(0) as f64 / 1e6);
        for (place, index) in burst.iter().enumerate() {
            let (entry, url) = (all[*index].1, &all[*index].2);
            let target = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
            let indent = if place == 0 { "" } else { "    " };
            let _ = write!(out, "{indent}{target}");
            if entry.request.method != "GET" {
                let _ = write!(out, " method={}", entry.request.method);
            }
            // The pause belongs to the burst, so its first line has it.
            if place == 0 && pause >= 0.0005 {
                let _ = write!(out, " think={pause:.3}");
            }
            let body = entry.request.body.as_ref().and_then(|body| body.bytes.as_deref());
            match body.filter(|body| !body.is_empty()).map(|body| (std::str::from_utf8(body), body.len())) {
                // Within the quotes a quote or a backslash would be read as something else.
                Some((Ok(text), _)) if !text.contains(['\'', '\\', '\n', '\r', '\0']) => {
                    let _ = write!(out, " contents='{text}'");
                }
                Some((_, length)) => {
                    let _ =
                        write!(out, "\n# the body of the line above, {length} bytes, cannot be written in this form");
                }
                None => {}
            }
            out.push('\n');
        }
    }
    out
}

/// Whether a request is a user's doing rather than a part of the page before.
fn begins_burst(all: &[(usize, &Entry, Url)], index: usize) -> bool {
    let (entry, before) = (all[index].1, all[index - 1].1);
    if follows(Some(before), &all[index].2) {
        return false;
    }
    if entry.page.is_some() && before.page.is_some() {
        return entry.page != before.page;
    }
    let ended = all[..index].iter().map(|(_, entry, _)| entry.ended_us()).max().unwrap_or(0);
    let page = entry
        .response
        .as_ref()
        .is_some_and(|response| response.body.kind.to_ascii_lowercase().starts_with("text/html"));
    page || entry.request.method != "GET" || entry.started_us - ended > BURST_GAP_US
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Answered, Asked};
    use crate::suite::{Aim, Suite};
    use crate::{interpret, literal, monkeywrench as sessions_of, specification};
    use proptest::prelude::*;
    use std::path::Path;

    fn entry(at_ms: i64, method: &str, path: &str, kind: &str, status: u16) -> Entry {
        Entry {
            started_us: at_ms * 1000,
            seconds: 0.1,
            page: None,
            request: Asked { method: method.to_owned(), url: format!("http://a.example{path}"), ..Asked::default() },
            response: Some(Answered {
                status,
                headers: Vec::new(),
                body: Body { kind: kind.to_owned(), size: 3, ..Body::default() },
            }),
        }
    }

    fn form_of(fields: &[(String, String)]) -> Option<Body> {
        let text = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let kind = "application/x-www-form-urlencoded".to_owned();
        Some(Body { kind, size: text.len() as u64, bytes: Some(text.into_bytes()), note: None })
    }

    fn shop() -> Recording {
        let mut posted = entry(5000, "POST", "/buy", "", 303);
        posted.request.body = form_of(&[("item".to_owned(), "it's 5".to_owned())]);
        if let Some(response) = &mut posted.response {
            response.headers.push(("Location".to_owned(), "/thanks?n=1".to_owned()));
        }
        let mut thanks = entry(5200, "GET", "/thanks?n=1", "text/html", 200);
        if let Some(response) = &mut thanks.response {
            response.body.bytes = Some(b"<html><title>Thank (you)</title>".to_vec());
        }
        Recording {
            entries: vec![
                entry(0, "GET", "/", "text/html; charset=utf-8", 200),
                entry(120, "GET", "/a.css", "text/css", 200),
                entry(130, "GET", "/b.png", "image/png", 304),
                posted,
                thanks,
                entry(5400, "GET", "/a.css", "text/css", 200),
                entry(9000, "GET", "/late.json", "application/json", 404),
            ],
        }
    }

    #[test]
    fn httperf_gets_bursts_and_pauses() {
        let expected = "# A recorded session of http://a.example\n/ think=4.770\n    /a.css\n    /b.png\n\
                        /buy method=POST think=3.500 contents='item=it%27s+5'\n    /thanks?n=1\n    /a.css\n/late.json\n";
        assert_eq!(sessions(&shop()), expected);
    }

    fn of_webtest(text: &str) -> Suite {
        let read = specification::parse(text, &|_| None).unwrap_or_else(|error| panic!("{error}\n{text}"));
        interpret::suite(&read, Path::new(".")).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    fn of_monkeywrench(text: &str) -> Suite {
        let read = literal::parse(text, &|_| None).unwrap_or_else(|error| panic!("{error}\n{text}"));
        sessions_of::suite_of_literals(&read).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn what_is_converted_can_be_run() {
        let suite = of_webtest(&webtest(&shop()));
        assert_eq!(suite.tests.len(), 7);
        assert!(suite.tests.iter().all(|test| !test.ask.follow));
        assert_eq!(suite.tests[4].checks.text_require[0].source(), "<title>Thank (you)</title>");
        let suite = of_monkeywrench(&monkeywrench(&shop()));
        // The redirect is a part of the click before it.
        let names: Vec<&str> = suite.tests.iter().filter_map(|test| test.name.as_deref()).collect();
        assert_eq!(
            names,
            ["1 GET /", "2 GET /a.css", "3 GET /b.png", "4 POST /buy", "6 GET /a.css", "7 GET /late.json"]
        );
        assert_eq!(suite.tests[3].checks.text_require[0].source(), "<title>Thank (you)</title>");
    }

    proptest! {
        #[test]
        fn addresses_and_fields_survive(
            path in "/[ -~é]{0,20}",
            fields in proptest::collection::vec(("[ -~é\n]{1,8}", "[ -~é\n]{0,8}"), 1..4)
        ) {
            let mut entry = entry(0, "POST", &path, "", 200);
            entry.request.body = form_of(&fields);
            let recording = Recording { entries: vec![entry] };
            let url = Url::parse(&recording.entries[0].request.url).unwrap();
            prop_assume!(url.host_str() == Some("a.example"));
            for suite in [of_webtest(&webtest(&recording)), of_monkeywrench(&monkeywrench(&recording))] {
                let ask = &suite.tests[0].ask;
                let same = matches!(&ask.aim, Aim::Address(address) if *address == url.as_str());
                prop_assert!(same, "{:?} is not {}", ask.aim, url);
                let texts: Vec<(String, String)> = ask.fields.iter().map(|(name, field)| match field {
                    crate::suite::Field::Text(text) => (name.clone(), text.clone()),
                    crate::suite::Field::File { .. } => (name.clone(), String::new()),
                }).collect();
                prop_assert_eq!(&texts, &fields);
            }
        }
    }
}
