//! How HTTP is spoken with an upstream: its version, TLS, and the PROXY protocol.

use super::table::{Table, Value};
use crate::upstream::settings::{ClientCertificate, ProxyHeader, Speaks, UpstreamRules};
use crate::upstream::trust::{self, Trust, TrustError};
use std::path::Path;

/// Requests that share a connection of HTTP/2 unless something else is said.
pub(super) const STREAMS: u32 = 100;
const STREAMS_MAX: u64 = 10_000;
/// The keys that name files.
const FILES: [&str; 3] = ["ca", "client_certificate", "client_key"];

/// Reads what a table says; `to` has the addresses.
pub(super) fn read(table: Option<&Table<'_, '_>>, to: &Value<'_, '_>, rules: &mut UpstreamRules) {
    let secure = rules.servers.iter().filter(|server| server.tls_name.is_some()).count();
    if secure > 0 && secure < rules.servers.len() {
        to.wrong("https:// and other addresses do not go together", "write the same scheme for all servers");
    }
    let is_secure = secure > 0;
    if is_secure && rules.speaks == Speaks::Http1 {
        rules.speaks = Speaks::Negotiated;
    }
    let Some(table) = table else { return };
    if let Some(value) = table.get("protocol") {
        protocol(&value, is_secure, rules);
    }
    read_files(table, is_secure, rules);
    read_proxy_header(table, rules);
    if let Some(value) = table.get("streams") {
        if rules.speaks == Speaks::Http1 {
            value.wrong("`streams` is of HTTP/2, which is not spoken here", "leave it away, or write protocol = \"2\"");
        } else if let Some(streams) = value.integer(1..=STREAMS_MAX) {
            rules.streams_max = streams as u32;
        }
    }
}

/// The same of what speaks FastCGI, SCGI or uwsgi.
pub(super) fn read_gateway(table: Option<&Table<'_, '_>>, to: &Value<'_, '_>, rules: &mut UpstreamRules) {
    let secure = rules.servers.iter().filter(|server| server.tls_name.is_some()).count();
    if secure > 0 && secure < rules.servers.len() {
        to.wrong("tls: and other addresses do not go together", "write tls: before all servers, or before none");
    }
    if let Some(table) = table.filter(|_| rules.speaks == Speaks::FastCgi) {
        read_files(table, secure > 0, rules);
    }
}

fn protocol(value: &Value<'_, '_>, is_secure: bool, rules: &mut UpstreamRules) {
    match value.string() {
        Some("1.1") if rules.speaks == Speaks::Http2 => {
            value.wrong("h2c:// is HTTP/2", "write http:// for HTTP/1.1, or leave `protocol` away");
        }
        Some("1.1") => rules.speaks = Speaks::Http1,
        Some("2") => rules.speaks = Speaks::Http2,
        Some("auto") if is_secure => rules.speaks = Speaks::Negotiated,
        Some("auto") => {
            value.wrong("the version is agreed on over TLS alone", "write https://, or protocol = \"1.1\" or \"2\"");
        }
        Some(other) => {
            value.wrong(format!("\"{other}\" is not spoken with upstreams"), "write \"auto\", \"1.1\" or \"2\"");
        }
        None => {}
    }
}

/// What TLS is checked with, and what is shown of this server.
fn read_files(table: &Table<'_, '_>, is_secure: bool, rules: &mut UpstreamRules) {
    let scheme = if rules.speaks == Speaks::FastCgi { "tls:HOST:PORT" } else { "https://" };
    for key in FILES.into_iter().chain(["server_name"]) {
        if let Some(value) = table.get(key).filter(|_| !is_secure) {
            let remedy = format!("write {scheme}, or leave it away");
            value.wrong(format!("`{key}` is of TLS, which is not spoken here"), remedy);
        }
    }
    if !is_secure {
        return;
    }
    let file = |key| table.get(key).and_then(|value: Value<'_, '_>| value.path());
    rules.tls.ca = file("ca");
    rules.tls.client = match (file("client_certificate"), file("client_key")) {
        (Some(certificate), Some(key)) => Some(ClientCertificate { certificate, key }),
        (None, None) => None,
        _ => {
            table.wrong("`client_certificate` and `client_key` go together", "give both, or neither");
            None
        }
    };
    if let Some(value) = table.get("server_name") {
        let text = value.string().unwrap_or_default().to_ascii_lowercase();
        if trust::server_name(&text).is_none() {
            value.wrong(format!("\"{text}\" is no name of a certificate"), "write a name such as app.example.org");
        }
        for server in &mut rules.servers {
            server.tls_name = Some(text.clone());
        }
    }
}

/// `send_proxy_protocol`: true, 1 or 2.
fn read_proxy_header(table: &Table<'_, '_>, rules: &mut UpstreamRules) {
    let Some(value) = table.get("send_proxy_protocol") else { return };
    rules.proxy_header = if value.is_integer() {
        value.integer(1..=2).map(|version| if version == 1 { ProxyHeader::V1 } else { ProxyHeader::V2 })
    } else {
        value.boolean().filter(|is_sent| *is_sent).map(|_| ProxyHeader::V1)
    };
    if rules.proxy_header.is_none() {
        return;
    }
    match rules.speaks {
        Speaks::Http2 => value.wrong(
            "a connection of HTTP/2 is of many clients, and a PROXY header says one",
            "write protocol = \"1.1\", or leave it away: X-Forwarded-For and Forwarded tell of the client as well",
        ),
        // HTTP/2 is not offered.
        _ => rules.speaks = Speaks::Http1,
    }
    if let Some(keep) = table.get("keep") {
        keep.wrong(
            "a connection that begins with a PROXY header is of one request, and is not kept",
            "leave `keep` or `send_proxy_protocol` away",
        );
    }
}

/// What TLS with the servers needs; None with nothing told if none speaks it.
pub(super) fn trust(table: Option<&Table<'_, '_>>, to: &Value<'_, '_>, rules: &mut UpstreamRules) -> Option<Trust> {
    if rules.servers.iter().all(|server| server.tls_name.is_none()) {
        return None;
    }
    let error = match Trust::load(&mut rules.tls) {
        Ok(trust) => return Some(trust),
        Err(error) => error,
    };
    let (path, remedy) = match &error {
        TrustError::Unreadable { path, .. } => (Some(path), "give a file that the server can read"),
        TrustError::NoCertificate { path } => (Some(path), "give a file with certificates in PEM"),
        TrustError::NoKey { path } => (Some(path), "give a file with a private key in PEM"),
        TrustError::Unusable { path, .. } => (Some(path), "give the key that the certificate was made for"),
        TrustError::NoRoots => (None, "install it, or give the authority of the upstream by ca = \"FILE\""),
        TrustError::Library(_) => (None, "report this"),
    };
    let values = FILES.into_iter().filter_map(|key| table?.get(key)).filter(Value::is_text);
    let named =
        path.and_then(|path| values.into_iter().find(|value| value.in_folder(Path::new(value.text())) == *path));
    named.as_ref().unwrap_or(to).wrong(error.to_string(), remedy);
    None
}
