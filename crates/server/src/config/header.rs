//! The fields that a configuration sets in responses, or removes.

use super::table::Table;
use crate::routing::settings::Said;

/// Fields that the server makes of what it sends: another value would be a lie, or break the protocol. With what does
/// what may be meant.
const OWN_FIELDS: [(&str, &str); 23] = [
    ("accept-ranges", "leave it to the server; `ranges = 0` in [limits] has it send whole files only"),
    ("age", LEAVE),
    ("allow", LEAVE),
    ("authentication-info", LEAVE),
    ("connection", LEAVE),
    ("content-encoding", "leave it to the server; `compression` says what is compressed"),
    ("content-length", LEAVE),
    ("content-location", LEAVE),
    ("content-range", LEAVE),
    ("date", LEAVE),
    ("etag", "leave it to the server, which makes it of the file"),
    ("keep-alive", "leave it to the server; `idle` in [timeouts] says how long a connection is kept"),
    ("last-modified", "leave it to the server, which takes it from the file"),
    ("location", "write redirect = \"ADDRESS\""),
    ("proxy-authenticate", LEAVE),
    ("proxy-authentication-info", LEAVE),
    ("proxy-connection", LEAVE),
    ("te", LEAVE),
    ("trailer", LEAVE),
    ("transfer-encoding", LEAVE),
    ("upgrade", LEAVE),
    ("www-authenticate", "write auth = { realm = \"...\", users = \"FILE\" }"),
    ("http2-settings", LEAVE),
];
const LEAVE: &str = "leave it to the server";
/// What may be taken out although the server makes it: clients do without it.
const REMOVABLE: [&str; 4] = ["accept-ranges", "age", "etag", "last-modified"];

/// Reads `set_headers`, `set_error_headers` and `remove_headers`.
pub(super) fn read(table: &Table<'_, '_>, said: &mut Said) {
    said.set = read_fields(table, "set_headers");
    said.set_of_errors = read_fields(table, "set_error_headers");
    for item in table.get("remove_headers").map(|value| value.strings()).unwrap_or_default() {
        let name = item.text();
        let is_name = |other: &str| other.eq_ignore_ascii_case(name);
        if let Some((what, remedy)) = problem(name).filter(|_| !REMOVABLE.iter().any(|other| is_name(other))) {
            item.wrong(what, remedy);
        } else if is_name("vary") {
            item.wrong(
                "without Vary a cache would send a client what was made for another",
                "leave it to the server, or switch off `compression`",
            );
        } else if said.set.iter().chain(&said.set_of_errors).any(|(other, _)| is_name(other)) {
            item.wrong(format!("{name} is set and taken out in one table"), "keep one of them");
        } else if said.remove.iter().any(|other| is_name(other)) {
            item.wrong(format!("{name} is there twice"), "leave one of them away");
        }
        said.remove.push(name.to_owned());
    }
}

fn read_fields(table: &Table<'_, '_>, key: &'static str) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    let Some(headers) = table.get(key).and_then(|value| value.table(key)) else { return fields };
    for (name, span, value) in headers.entries() {
        let wrong = |what: String, remedy: &str| table.reader.wrong(span.start, what, remedy);
        if let Some((what, remedy)) = problem(&name) {
            wrong(what, remedy);
        } else if key == "set_error_headers" && name.eq_ignore_ascii_case("content-type") {
            wrong("Content-Type of an error is that of its page".to_owned(), "give a page by `error_pages`");
        } else if fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name)) {
            wrong(format!("{name} is there twice"), "put both into one line, or leave one away");
        }
        let Some(text) = value.string() else { continue };
        if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && text.trim() == text {
            fields.push((name, text.to_owned()));
        } else {
            value.wrong(
                format!("the value of {name} cannot be sent"),
                "keep to ASCII, without line ends and spaces around it",
            );
        }
    }
    fields
}

/// What is wrong with a field that is set, and what would be right.
pub(super) fn problem(name: &str) -> Option<(String, &'static str)> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Some((format!("\"{name}\" is no name of a header field"), "letters, digits and hyphens make one"));
    }
    let own = OWN_FIELDS.iter().find(|(own, _)| name.eq_ignore_ascii_case(own));
    own.map(|(_, remedy)| (format!("{name} says how the response was made"), *remedy))
}
