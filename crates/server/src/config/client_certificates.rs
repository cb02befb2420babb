//! Certificates of clients: the authorities of a host, what its tables want, and what upstreams are told.

use super::table::{Table, Value};
use super::{header, upstream};
use crate::certificates::client_authorities::ClientAuthorities;
use crate::config::options::Options;
use crate::http::client_certificate::{CertificateFields, CertificateNeed, PARTS};
use crate::routing::settings::Said;
use std::sync::Arc;

/// Fields by which upstreams can be told.
const FIELDS_MAX: usize = 16;
/// Fields of requests that have a meaning of their own on their way to an upstream.
const MEANT_OTHERWISE: [&str; 9] = [
    "host",
    "cookie",
    "authorization",
    "content-type",
    "expect",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
];

/// What hosts and paths can say alike.
pub(super) fn read(table: &Table<'_, '_>, said: &mut Said) {
    said.certificate = table.get("client_certificate").and_then(|value| need(&value));
    said.certificate_fields = table.get("client_certificate_fields").map(|value| fields(&value));
}

fn need(value: &Value<'_, '_>) -> Option<CertificateNeed> {
    match value.string()? {
        "none" => Some(CertificateNeed::None),
        "ask" => Some(CertificateNeed::Ask),
        "require" => Some(CertificateNeed::Require),
        other => {
            value.wrong(
                format!("\"{other}\" is nothing that can be wanted of clients' certificates"),
                "write \"require\", \"ask\" or \"none\"",
            );
            None
        }
    }
}

fn fields(value: &Value<'_, '_>) -> Arc<CertificateFields> {
    let entries = value.table("client_certificate_fields").map(|table| table.entries()).unwrap_or_default();
    let mut fields = Vec::<(String, _)>::new();
    if entries.is_empty() {
        value.wrong("no field is named", "write client_certificate_fields = { X-Client-Verify = \"verify\" }");
    }
    if entries.len() > FIELDS_MAX {
        value.wrong(format!("there are {} fields", entries.len()), format!("at most {FIELDS_MAX} are possible"));
    }
    for (name, span, part) in entries {
        let wrong = |what: String, remedy: &str| value.reader.wrong(span.start, what, remedy);
        let is_meant_otherwise = MEANT_OTHERWISE.iter().any(|other| other.eq_ignore_ascii_case(&name));
        if let Some((what, _)) = header::problem(&name) {
            wrong(what, "take a name of your own, such as X-Client-Verify");
        } else if is_meant_otherwise {
            wrong(format!("{name} says something else"), "take a name of your own, such as X-Client-Verify");
        } else if fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name)) {
            wrong(format!("{name} is there twice"), "leave one of them away");
        }
        let Some(word) = part.string() else { continue };
        match PARTS.iter().find(|(_, own, _)| *own == word) {
            Some((part, ..)) => fields.push((name, *part)),
            None => {
                let words: Vec<&str> = PARTS.iter().map(|(_, word, _)| *word).collect();
                part.wrong(
                    format!("\"{word}\" is nothing that is told of a certificate"),
                    format!("write one of {}", words.join(", ")),
                );
            }
        }
    }
    fields.into()
}

/// The authorities of a host whose tables want certificates.
pub(super) fn of_host(
    table: &Table<'_, '_>,
    paths: &[Table<'_, '_>],
    options: &Options,
) -> Option<Arc<ClientAuthorities>> {
    let values = |key| std::iter::once(table).chain(paths).filter_map(move |table| table.get(key));
    let wanted =
        values("client_certificate").find(|value| value.is_text() && ["ask", "require"].contains(&value.text()));
    let (ca, crl) = (table.get("client_ca"), table.get("client_crl"));
    takes_back_nothing(table, paths);
    if let Some(wanted) = &wanted {
        if options.certificates.is_empty() && options.obtain.is_none() {
            wanted.wrong(
                "clients show certificates over TLS, and the server has no certificate",
                "add [tls] with certificates of the server",
            );
        }
        if ca.is_none() {
            wanted
                .wrong("the host does not say who issues the certificates", "add client_ca = \"FILE\" to its [[host]]");
        }
    } else {
        for value in values("client_certificate_fields").chain(ca.iter().chain(&crl).map(Value::alone)) {
            value.wrong(
                "no table of the host wants a certificate of clients",
                "add client_certificate = \"require\" or \"ask\" to its [[host]] or a [[host.path]]",
            );
        }
    }
    if !std::iter::once(table).chain(paths).any(upstream::is_in) {
        for value in values("client_certificate_fields") {
            value.wrong("no upstream is told by these fields, as the host has none", "leave them away");
        }
    }
    if let Some(crl) = crl.as_ref().filter(|_| ca.is_none()) {
        crl.wrong("what was revoked is of no use without the authorities", "add client_ca = \"FILE\"");
    }
    let (ca, crl) = (ca?, crl);
    let (path, list) = (ca.path()?, crl.as_ref().map(Value::path));
    match ClientAuthorities::load(&path, list.flatten().as_deref()) {
        Ok(authorities) => wanted.map(|_| Arc::new(authorities)),
        Err(error) => {
            let error = error.to_string();
            let (what, remedy) = error.rsplit_once("; ").unwrap_or((&error, "give another one"));
            ca.wrong(what, remedy);
            None
        }
    }
}

/// `"none"` takes back what an earlier table wants: tells of one before which none does.
fn takes_back_nothing(table: &Table<'_, '_>, paths: &[Table<'_, '_>]) {
    let mut is_wanted = false;
    for value in std::iter::once(table).chain(paths).filter_map(|table| table.get("client_certificate")) {
        if !value.is_text() || value.text() != "none" {
            is_wanted = true;
        } else if !is_wanted {
            value.doubt(
                "`client_certificate = \"none\"` takes nothing back: no table before this one wants any",
                "leave it away, or put the table behind the one that is meant",
            );
        }
    }
}
