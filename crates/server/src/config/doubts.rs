//! Warnings: settings that are valid but seldom meant.

use super::led::{Led, lead};
use super::scripts;
use super::table::{Reader, Table, Value};
use crate::certificates::Certificates;
use crate::config::options::Options;
use crate::http::target::{self, Target};
use crate::io::listen::ListenAddr;
use crate::routing::rules::Rules;
use crate::routing::settings::{Action, Said, Settings};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Redirects after which clients give up, as browsers do.
pub(super) const HOPS_MAX: usize = 20;
/// The name of a host that takes all names, while nothing leads away from it.
const ANY_NAME: &str = "any.invalid";

/// Where a table of a host or path is in the file.
#[derive(Debug)]
pub(super) struct Place {
    host: u16,
    /// None for the host itself.
    path: Option<usize>,
    at: usize,
    /// Of its redirect, its password, and its Strict-Transport-Security.
    redirect_at: Option<usize>,
    auth_at: Option<usize>,
    secure_at: Option<usize>,
    /// Its pattern, as `prefix /a`.
    pattern: Option<String>,
    /// Paths that it is for, or is mostly.
    samples: Vec<String>,
    names: Vec<(String, usize)>,
}

impl Place {
    pub(super) fn of(table: &Table<'_, '_>, host: u16, path: Option<usize>) -> Self {
        let at_of = |key: &'static str| table.get(key).filter(|value| !value.is_false()).map(|value| value.at());
        let (mut pattern, mut samples, mut names) = (None, Vec::new(), Vec::new());
        if path.is_some() {
            for kind in ["prefix", "exact", "glob"] {
                let Some(value) = table.get(kind) else { continue };
                let text = value.text();
                pattern = Some(format!("{kind} {text}"));
                samples = match kind {
                    "prefix" => vec![text.to_owned(), format!("{}/x", text.trim_end_matches('/'))],
                    "exact" => vec![text.to_owned()],
                    _ => {
                        let plain = text.replace("**", "x").replace(['*', '?'], "x");
                        vec![if plain.starts_with('/') { plain } else { format!("/{plain}") }]
                    }
                };
            }
        } else {
            samples = vec!["/".to_owned(), "/x".to_owned()];
            let items = table.get("names").map(|value| value.strings()).unwrap_or_default();
            names = items.iter().map(|item| (item.text().to_ascii_lowercase(), item.at())).collect();
        }
        let headers = table.get("set_headers").filter(Value::is_table);
        let entries = headers.and_then(|value| value.table("set_headers")).map(|table| table.entries());
        let secure = entries.unwrap_or_default().into_iter();
        let secure_at = secure
            .filter(|(name, _, _)| name.eq_ignore_ascii_case("strict-transport-security"))
            .map(|(_, span, _)| span.start)
            .next();
        let (redirect_at, auth_at) = (at_of("redirect"), at_of("auth"));
        Self { host, path, at: table.at(), redirect_at, auth_at, secure_at, pattern, samples, names }
    }

    /// Host, number and place of a table of paths.
    pub(super) fn of_path(&self) -> Option<(u16, usize, usize)> {
        Some((self.host, self.path?, self.at))
    }

    fn said<'r>(&self, rules: &'r Rules) -> Option<&'r Said> {
        let host = rules.hosts.get(usize::from(self.host))?;
        match self.path {
            Some(path) => host.paths.get(path).map(|(_, said)| said),
            None => Some(&host.said),
        }
    }
}

/// Looks at all of a configuration.
pub(super) fn look(reader: &Reader<'_>, rules: &Rules, places: &[Place], certificates_at: &[usize], options: &Options) {
    let is_of_ip = |addr: &&ListenAddr| !matches!(addr, ListenAddr::Unix(_));
    let has_tls = !options.certificates.is_empty();
    let clear: Vec<&ListenAddr> =
        if has_tls { &options.listen_clear } else { &options.listen }.iter().filter(is_of_ip).collect();
    for (number, place) in places.iter().enumerate() {
        let is_same = |other: &&Place| other.host == place.host && other.pattern == place.pattern;
        if let Some(pattern) = &place.pattern
            && places[..number].iter().any(|other| is_same(&other))
        {
            let what = format!("another table of this host is for {pattern}, too");
            reader.doubt(place.at, what, "put both into one, or leave one away: the last word counts");
        }
        if let (Some(at), Some(addr)) = (place.auth_at, clear.first()) {
            let what = format!("passwords are sent in the clear at {addr}");
            reader.doubt(at, what, "add certificates in [tls], or let only a proxy that speaks TLS reach that address");
        }
        if let (Some(at), false) = (place.secure_at, has_tls) {
            let what = "Strict-Transport-Security is sent over TLS only (RFC 6797), which is spoken nowhere here";
            reader.doubt(at, what, "add certificates in [tls], or leave it to the proxy that speaks TLS");
        }
        if let Some(path) = sends_scripts(rules, place) {
            let what = format!("files below {path} are scripts of another host, and this one sends them");
            reader.doubt(
                place.at,
                what,
                "run them here as well, or add [[host.path]] with that prefix and status = 404",
            );
        }
        if let Some(at) = place.redirect_at
            && let Some(sample) = leads_back(rules, place, options)
        {
            let what = format!("the redirect leads back to itself, as for {sample}");
            reader.doubt(at, what, "redirect to another path or host, or except the one that it leads to");
        }
    }
    if has_tls {
        look_at_certificates(reader, places, certificates_at, options);
    }
}

/// A path below which a table sends files that are scripts of another host.
fn sends_scripts(rules: &Rules, place: &Place) -> Option<String> {
    let Some(Action::Files { site, .. }) = &place.said(rules)?.action else { return None };
    let mount = place.pattern.as_deref().map_or(Some(""), |pattern| pattern.strip_prefix("prefix "))?;
    let names = places_names(rules, place.host);
    let is_sent = |path: &String| {
        let file = format!("{path}x");
        let of = |name: &String| action(rules, false, name, file.as_bytes());
        names.iter().any(|name| matches!(of(name), Some((Action::Files { .. }, _))))
    };
    scripts::lie_at(rules, mount, &rules.sites[*site].how.root).into_iter().find(is_sent)
}

/// A path for which a table redirects in a circle, or so often that clients give up.
fn leads_back(rules: &Rules, place: &Place, options: &Options) -> Option<String> {
    let Some(Action::Redirect(own)) = &place.said(rules)?.action else { return None };
    let names = places_names(rules, place.host);
    let schemes = schemes(options);
    for path in &place.samples {
        for name in &names {
            for is_secure in [false, true] {
                if !schemes[usize::from(is_secure)] {
                    continue;
                }
                let at = (is_secure, name.clone(), path.clone().into_bytes());
                let starts_here = matches!(
                    action(rules, at.0, &at.1, &at.2), Some((Action::Redirect(first), _)) if Arc::ptr_eq(&first, own)
                );
                if starts_here && hops(rules, at, options) == HOPS_MAX {
                    return Some(path.clone());
                }
            }
        }
    }
    None
}

/// Whether anything is spoken in the clear, and over TLS.
pub(super) fn schemes(options: &Options) -> [bool; 2] {
    [options.certificates.is_empty() || !options.listen_clear.is_empty(), !options.certificates.is_empty()]
}

/// How often a client is sent elsewhere within the server, at most [`HOPS_MAX`] times.
pub(super) fn hops(rules: &Rules, mut at: (bool, String, Vec<u8>), options: &Options) -> usize {
    let mut hops = 0;
    while hops < HOPS_MAX {
        match next(rules, &at, schemes(options), options) {
            Some(next) => at = next,
            None => break,
        }
        hops += 1;
    }
    hops
}

/// Names that lead to a host, one for each that it has.
pub(super) fn places_names(rules: &Rules, host: u16) -> Vec<String> {
    let of_host = rules.names.all().filter(|(_, number)| *number == host);
    of_host.map(|(name, _)| if name == "*" { ANY_NAME.to_owned() } else { name.replace('*', "any") }).collect()
}

/// What tables do with a path of a name, and the path that routes have led to before.
fn action(rules: &Rules, is_secure: bool, name: &str, path: &[u8]) -> Option<(Action, Vec<u8>)> {
    let number = rules.names.find(name.as_bytes())?;
    let Led::Tables(path) = lead(rules, number, (is_secure, name, path)) else { return None };
    let host = rules.hosts.get(usize::from(number))?;
    let own = host.paths.iter().filter(|(pattern, _)| pattern.matches(&path)).map(|(_, said)| said);
    Some((Settings::of(std::iter::once(&host.said).chain(own)).action, path))
}

/// The line of the head that sends a client away from a path of a name.
fn sent(rules: &Rules, is_secure: bool, name: &str, path: &[u8]) -> Option<Vec<u8>> {
    let number = rules.names.find(name.as_bytes())?;
    if let Led::Away(_, line) = lead(rules, number, (is_secure, name, path)) {
        return Some(line);
    }
    match action(rules, is_secure, name, path)? {
        (Action::Redirect(redirect), path) => redirect.location(&Target { path: &path, query: b"" }, name.as_bytes()),
        _ => None,
    }
}

/// Where a client is sent from a path of a name, whether that is over TLS included; none if nowhere, or to where this
/// server is not known to be asked.
fn next(
    rules: &Rules,
    (is_secure, name, path): &(bool, String, Vec<u8>),
    schemes: [bool; 2],
    options: &Options,
) -> Option<(bool, String, Vec<u8>)> {
    let field = sent(rules, *is_secure, name, path)?;
    let text = String::from_utf8_lossy(&field);
    let address = text.strip_prefix("Location: ")?.trim_end();
    let address = address.split('#').next().unwrap_or(address);
    let (is_secure, name, rest) = match address.split_once("://") {
        None => (*is_secure, name.clone(), address.to_owned()),
        Some((scheme, rest)) => {
            let is_secure = scheme == "https";
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            let (authority, rest) = rest.split_at(end);
            let (host, port) = match authority.rsplit_once(':') {
                Some((host, port)) if !port.contains(']') => (host, port.parse::<u16>().ok()),
                _ => (authority, None),
            };
            let is_other_port = port.is_some_and(|port| !ports(options).any(|own| own == port));
            let host = host.to_ascii_lowercase();
            // A host that takes all names may be sent to one that another server has.
            let is_other_host = host != *name && !rules.names.names(host.as_bytes());
            if !schemes[usize::from(is_secure)] || is_other_port || is_other_host {
                return None;
            }
            (is_secure, host, rest.to_owned())
        }
    };
    let mut decoded = Vec::new();
    let rest = if rest.starts_with('/') { rest } else { format!("/{rest}") };
    let path = target::resolve(&rest, true, &mut decoded).ok()?.path.to_vec();
    Some((is_secure, name, path))
}

fn ports(options: &Options) -> impl Iterator<Item = u16> {
    let all = options.listen.iter().chain(&options.listen_clear);
    all.filter_map(|addr| addr.to_string().rsplit_once(':').and_then(|(_, port)| port.parse().ok()))
}

/// Certificates that are out of date, or of no host, and hosts without one.
fn look_at_certificates(reader: &Reader<'_>, places: &[Place], certificates_at: &[usize], options: &Options) {
    let Ok(certificates) = Certificates::load(&options.certificates, &options.challenges) else { return };
    let told = certificates.keys().told();
    let hosts: Vec<&(String, usize)> = places.iter().flat_map(|place| &place.names).collect();
    let takes_all = places.iter().any(|place| place.path.is_none() && place.names.iter().all(|(name, _)| name == "*"));
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed());
    for (one, at) in told.iter().zip(certificates_at) {
        let file = one.file.display();
        if one.not_after_unix_s.is_some_and(|until_s| until_s < now_s) {
            reader.doubt(*at, format!("the certificate {file} is out of date"), "get a new one from its authority");
        }
        if !takes_all && !one.names.iter().any(|name| hosts.iter().any(|(host, _)| is_for(name, host))) {
            let names = if one.names.is_empty() { "no name".to_owned() } else { one.names.join(", ") };
            let what = format!("the certificate {file} is for {names}, and there is no such host");
            reader.doubt(*at, what, "give a certificate for one of the `names`, or add the name to a host");
        }
    }
    for (host, at) in hosts {
        let is_address = host.starts_with('[') || host.parse::<IpAddr>().is_ok();
        let has_one = told.iter().any(|one| one.names.iter().any(|name| is_for(name, host)));
        // A host that is asked for in the clear only needs none.
        if host != "*" && !is_address && !has_one && options.listen_clear.is_empty() {
            let what = format!("no certificate is for {host}, so that clients refuse the connection");
            reader.doubt(*at, what, "add one in [tls], or leave the name away");
        }
    }
}

/// Whether a name of a certificate and one of a host have a name in common (RFC 6125 section 6.4.3).
fn is_for(certificate: &str, host: &str) -> bool {
    let certificate = certificate.to_ascii_lowercase();
    let covers = |pattern: &str, name: &str, labels_max: usize| {
        pattern.strip_prefix('*').is_some_and(|ending| {
            name.strip_suffix(ending).is_some_and(|first| !first.is_empty() && first.split('.').count() <= labels_max)
        })
    };
    certificate == host || covers(&certificate, host, 1) || covers(host, &certificate, usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_for_names_of_one_more_label() {
        for (certificate, host, expected) in [
            ("a.org", "a.org", true),
            ("A.org", "a.org", true),
            ("*.a.org", "x.a.org", true),
            ("*.a.org", "x.y.a.org", false),
            ("*.a.org", "a.org", false),
            ("*.a.org", "*.a.org", true),
            ("x.y.a.org", "*.a.org", true),
            ("b.org", "*.a.org", false),
            ("b.org", "a.org", false),
        ] {
            assert_eq!(is_for(certificate, host), expected, "{certificate} {host}");
        }
    }
}
