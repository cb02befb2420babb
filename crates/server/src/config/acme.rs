//! `[acme]`: from whom certificates are obtained. Another process obtains them; here is only said how.

use super::table::{Table, Value};
use crate::certificates::settings::{CertificateFiles, ObtainBy, ObtainOptions};
use crate::config::options::Options;
use std::net::IpAddr;
use std::path::PathBuf;

/// Authorities that have a name here.
const NAMED: [&str; 2] = ["letsencrypt", "letsencrypt-staging"];
/// Addresses of mail.
const CONTACTS_MAX: usize = 8;

/// Reads the table.
pub(super) fn read(value: &Value<'_, '_>) -> Option<ObtainOptions> {
    let table = value.table("[acme]")?;
    let directory = directory(&table);
    let contact = contact(&table);
    if table.get("agree_to_terms").and_then(|value| value.boolean()) != Some(true) {
        let what = "the authority issues certificates only to those who agree to its terms";
        table.wrong(what, "read them at the authority, then write agree_to_terms = true");
    }
    let storage = table.get("storage").and_then(|value| folder(&value));
    if table.get("storage").is_none() {
        table.wrong(
            "it does not say where certificates are kept",
            "add storage = \"/var/lib/weir/acme\", a directory that the server's user may write",
        );
    }
    let ca = table.get("ca").and_then(|value| {
        // Another process reads it: it is none of the files that a confined server reaches.
        let path = value.in_folder(value.string()?.as_ref());
        if !path.is_file() {
            value.wrong(format!("{} is no file", path.display()), "give a file of PEM, or leave `ca` away");
        }
        Some(path)
    });
    let challenge = table.get("challenge").and_then(|value| match value.string()? {
        "http-01" => Some(ObtainBy::Http01),
        "tls-alpn-01" => Some(ObtainBy::TlsAlpn01),
        other => {
            let remedy = "write \"http-01\" or \"tls-alpn-01\", or leave it away for both";
            value.wrong(format!("there is no challenge \"{other}\" here"), remedy);
            None
        }
    });
    let external_account = table.get("external_account").and_then(|value| external_account(&value));
    table.finish();
    let hosts = Vec::new();
    Some(ObtainOptions { directory: directory?, contact, storage: storage?, ca, challenge, external_account, hosts })
}

fn directory(table: &Table<'_, '_>) -> Option<String> {
    let Some(value) = table.get("directory") else { return Some(NAMED[0].to_owned()) };
    let text = value.string()?;
    let is_here = ["http://127.0.0.1", "http://[::1]", "http://localhost"].iter().any(|own| text.starts_with(own));
    if NAMED.contains(&text) || text.starts_with("https://") || is_here {
        return Some(text.to_owned());
    }
    let remedy =
        "write \"letsencrypt\", \"letsencrypt-staging\", or the URL of the authority's directory (https://...)";
    value.wrong(format!("\"{text}\" is no directory of ACME"), remedy);
    None
}

fn contact(table: &Table<'_, '_>) -> Vec<String> {
    let Some(value) = table.get("contact") else { return Vec::new() };
    let items = value.strings();
    if items.len() > CONTACTS_MAX {
        value.wrong(format!("there are {} addresses", items.len()), format!("at most {CONTACTS_MAX} are possible"));
    }
    for item in &items {
        let text = item.text();
        let parts = text.split_once('@');
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains([':', ',', '?', '<']);
        if !is_plain || parts.is_none_or(|(name, host)| name.is_empty() || host.is_empty() || host.contains('@')) {
            item.wrong(format!("\"{text}\" is no address of mail"), "such as \"admin@example.org\"");
        }
    }
    items.iter().map(|item| item.text().to_owned()).collect()
}

/// A directory that may still be made.
fn folder(value: &Value<'_, '_>) -> Option<PathBuf> {
    let text = value.string()?;
    if text.is_empty() || text.contains('\0') {
        value.wrong("`storage` is no path", "give the path of a directory");
        return None;
    }
    let path = value.in_folder(text.as_ref());
    if path.exists() && !path.is_dir() {
        value.wrong(format!("{} is no directory", path.display()), "give one, or a path at which one can be made");
    }
    Some(path)
}

fn external_account(value: &Value<'_, '_>) -> Option<(String, PathBuf)> {
    let table = value.table("external_account")?;
    let (key_id, key_file) = (table.get("key_id"), table.get("key_file"));
    table.finish();
    let (Some(key_id), Some(key_file)) = (key_id, key_file) else {
        value.wrong("it needs `key_id` and `key_file`", "give both, as the authority gave them to you");
        return None;
    };
    let path = key_file.in_folder(key_file.string()?.as_ref());
    if !path.is_file() {
        key_file.wrong(format!("{} is no file", path.display()), "give one with the key in base64url");
    }
    Some((key_id.string()?.to_owned(), path))
}

/// The names of a host that says `certificate = "acme"`; none of one that does not speak of a certificate.
pub(super) fn names(host: &Table<'_, '_>) -> Option<Vec<String>> {
    let value = host.get("certificate")?;
    match value.string() {
        Some("acme") => {}
        Some(other) => {
            let remedy = "write certificate = \"acme\", or name files by `certificates` in [tls]";
            value.wrong(format!("\"{other}\" is no way to a certificate"), remedy);
            return Some(Vec::new());
        }
        None => return Some(Vec::new()),
    }
    let items = host.get("names").map(|value| value.strings()).unwrap_or_default();
    if items.is_empty() {
        value.wrong("a host that takes all names has no certificate", "give it names = [\"...\"]");
    }
    let mut names = Vec::new();
    for item in &items {
        let name = item.text().to_ascii_lowercase();
        if name.contains('*') {
            let what = format!("no certificate for {name} can be obtained: authorities check single names only here");
            item.wrong(what, "write out the names, or give the certificate by `certificates` in [tls]");
        } else if name.starts_with('[') || name.parse::<IpAddr>().is_ok() || name.contains('_') {
            item.wrong(format!("no certificate for {name} can be obtained"), "give a name of the DNS");
        } else {
            names.push(name);
        }
    }
    Some(names)
}

/// Adds the certificates of these hosts to those of the server.
pub(super) fn finish(table: &Table<'_, '_>, wanted: Option<Vec<String>>, options: &mut Options) {
    let is_wanted = wanted.is_some();
    let hosts = wanted.unwrap_or_default();
    let Some(value) = table.get("acme") else {
        if let Some(first) = hosts.first() {
            let what = format!("the host {first} wants a certificate by ACME, and nothing says from whom");
            table.wrong(what, "add [acme] with storage = \"DIRECTORY\" and agree_to_terms = true");
        }
        return;
    };
    if !is_wanted {
        value.wrong("no host wants a certificate by ACME", "write certificate = \"acme\" in a [[host]] with `names`");
    }
    let Some(obtain) = &mut options.obtain else { return };
    let files = hosts.iter().map(|host| CertificateFiles::obtained(host.clone(), obtain.file(host)));
    options.certificates.extend(files);
    obtain.hosts = hosts;
}
