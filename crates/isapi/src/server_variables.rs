//! What extensions ask for by `GetServerVariable`: CGI's names, and those that IIS has besides.

use crate::request_stream::Variables;
use std::borrow::Cow;

/// Names of variables that are empty, rather than unknown, if the request has none.
const KNOWN: &[&str] = &[
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "GATEWAY_INTERFACE",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "SCRIPT_NAME",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
];

/// Names of IIS, and CGI's for the same value.
const ALIASES: &[(&str, &str)] = &[
    ("AUTH_USER", "REMOTE_USER"),
    ("HTTP_CONTENT_LENGTH", "CONTENT_LENGTH"),
    ("HTTP_CONTENT_TYPE", "CONTENT_TYPE"),
    ("HTTP_METHOD", "REQUEST_METHOD"),
    ("HTTP_URL", "REQUEST_URI"),
    ("HTTP_VERSION", "SERVER_PROTOCOL"),
    ("LOCAL_ADDR", "SERVER_ADDR"),
    ("LOGON_USER", "REMOTE_USER"),
    ("REMOTE_HOST", "REMOTE_ADDR"),
    ("SCRIPT_TRANSLATED", "SCRIPT_FILENAME"),
    ("UNENCODED_URL", "REQUEST_URI"),
    ("UNMAPPED_REMOTE_USER", "REMOTE_USER"),
];

/// The value of a server variable; `None` if there is none of this name.
pub(crate) fn value<'v>(variables: &'v Variables, name: &[u8]) -> Option<Cow<'v, [u8]>> {
    if name.contains(&b'=') {
        return None;
    }
    if let Some(value) = variables.get(name) {
        return Some(value.into());
    }
    let name = name.to_ascii_uppercase();
    if let Some(value) = variables.get(&name) {
        return Some(value.into());
    }
    let of = |name: &[u8]| variables.get(name).unwrap_or_default();
    match name.as_slice() {
        b"ALL_HTTP" => return Some(all(variables, cgi_name, b"\n").into()),
        b"ALL_RAW" => return Some(all(variables, raw_name, b"\r\n").into()),
        b"URL" => return Some([of(b"SCRIPT_NAME"), of(b"PATH_INFO")].concat().into()),
        b"HTTPS" => return Some(b"off"[..].into()),
        b"SERVER_PORT_SECURE" => return Some(if of(b"HTTPS") == b"on" { b"1"[..].into() } else { b"0"[..].into() }),
        b"APPL_PHYSICAL_PATH" => return Some([of(b"DOCUMENT_ROOT"), b"/"].concat().into()),
        _ => {}
    }
    if let Some((_, other)) = ALIASES.iter().find(|(alias, _)| alias.as_bytes() == name) {
        let is_known = KNOWN.contains(other) && !name.starts_with(b"HTTP_CONTENT");
        return variables.get(other.as_bytes()).or(is_known.then_some(b"")).map(Into::into);
    }
    if let Some(field) = name.strip_prefix(b"HEADER_") {
        let field: Vec<u8> = field.iter().map(|&byte| if byte == b'-' { b'_' } else { byte }).collect();
        return value(variables, &[b"HTTP_", field.as_slice()].concat());
    }
    KNOWN.iter().any(|known| known.as_bytes() == name).then_some(b""[..].into())
}

/// All fields of the request: `write` writes the name, up to the value.
fn all(variables: &Variables, write: fn(&[u8], &mut Vec<u8>), end: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in variables.iter() {
        let of_content = matches!(name, b"CONTENT_TYPE" | b"CONTENT_LENGTH");
        let Some(field) = name.strip_prefix(b"HTTP_").or(of_content.then_some(name)) else { continue };
        if !of_content || !value.is_empty() {
            write(field, &mut out);
            out.extend_from_slice(value);
            out.extend_from_slice(end);
        }
    }
    out
}

/// A field's name as CGI writes it: `HTTP_ACCEPT_LANGUAGE:`.
fn cgi_name(name: &[u8], out: &mut Vec<u8>) {
    for part in [b"HTTP_", name, b":"] {
        out.extend_from_slice(part);
    }
}

/// A field's name as clients write it: `Accept-Language: `.
fn raw_name(name: &[u8], out: &mut Vec<u8>) {
    let mut begins_word = true;
    for &byte in name {
        out.push(match byte {
            b'_' => b'-',
            byte if begins_word => byte,
            byte => byte.to_ascii_lowercase(),
        });
        begins_word = byte == b'_';
    }
    out.extend_from_slice(b": ");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> Option<String> {
        let mut block = Vec::new();
        for variable in [
            "SCRIPT_NAME=/a.so",
            "PATH_INFO=/b",
            "HTTP_HOST=h",
            "HTTP_ACCEPT_LANGUAGE=de, en",
            "CONTENT_TYPE=text/plain",
            "CONTENT_LENGTH=",
            "REQUEST_URI=/a.so/b?c",
            "REMOTE_ADDR=::1",
            "DOCUMENT_ROOT=/srv",
        ] {
            block.extend_from_slice(&u16::try_from(variable.len() + 1).expect("short").to_ne_bytes());
            block.extend_from_slice(variable.as_bytes());
            block.push(0);
        }
        block.extend_from_slice(&[0, 0]);
        let variables = Variables::parse(&block).expect("good variables");
        value(&variables, name.as_bytes()).map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    #[test]
    fn names_of_both_worlds_are_known() {
        for (name, expected) in [
            ("SCRIPT_NAME", Some("/a.so")),
            ("script_name", Some("/a.so")),
            ("URL", Some("/a.so/b")),
            ("UNENCODED_URL", Some("/a.so/b?c")),
            ("REMOTE_HOST", Some("::1")),
            ("REMOTE_USER", Some("")),
            ("AUTH_USER", Some("")),
            ("HTTPS", Some("off")),
            ("SERVER_PORT_SECURE", Some("0")),
            ("HTTP_HOST", Some("h")),
            ("HEADER_Accept-Language", Some("de, en")),
            ("HTTP_COOKIE", None),
            ("HTTP_CONTENT_TYPE", Some("text/plain")),
            ("APPL_PHYSICAL_PATH", Some("/srv/")),
            ("ALL_HTTP", Some("HTTP_HOST:h\nHTTP_ACCEPT_LANGUAGE:de, en\nHTTP_CONTENT_TYPE:text/plain\n")),
            ("ALL_RAW", Some("Host: h\r\nAccept-Language: de, en\r\nContent-Type: text/plain\r\n")),
            ("UNICODE_URL", None),
            ("AUTH_PASSWORD", None),
            ("REQUEST_URI=/a.so/b?c", None),
            ("", None),
        ] {
            assert_eq!(text(name).as_deref(), expected, "{name}");
        }
    }
}
