//! `reverse_proxy` and `php_fastcgi` as upstreams.

use crate::directive::Directive;
use crate::document::quoted;
use crate::headers::Fields;
use crate::report::Report;
use crate::units;
use crate::upstreams::{self, Scheme, Speaks, Unusable, Upstream};

/// An upstream with what it changes in responses; whether its paths are refused, as it believes a field that cannot be
/// set.
#[derive(Debug, Default)]
pub(crate) struct Proxied {
    pub(crate) upstream: Upstream,
    pub(crate) fields: Fields,
    pub(crate) is_refused: bool,
    pub(crate) root: Option<String>,
}

/// Reads the servers and the block of a directive; none if weir cannot reach them.
pub(crate) fn read(
    directive: &Directive,
    addresses: &[String],
    speaks: Speaks,
    report: &mut Report,
) -> Option<Proxied> {
    directive.told();
    let mut all: Vec<String> = addresses.to_vec();
    let mut proxied = Proxied::default();
    for child in directive.children() {
        child.told();
        if child.name == "to" {
            all.extend(child.arguments.iter().cloned());
        } else {
            option(child, &mut proxied, report);
        }
    }
    let result = all.iter().try_for_each(|address| {
        let (scheme, address) = server(address, speaks, proxied.upstream.scheme)?;
        if !proxied.upstream.servers.is_empty() && scheme != proxied.upstream.scheme {
            return Err(Unusable::Mixed);
        }
        proxied.upstream.scheme = scheme;
        if !proxied.upstream.servers.iter().any(|(own, _)| *own == address) {
            proxied.upstream.servers.push((address, 1));
        }
        Ok(())
    });
    let why = match result {
        Ok(()) if proxied.upstream.servers.is_empty() => Unusable::Malformed,
        Ok(()) => return Some(proxied),
        Err(why) => why,
    };
    let (what, remedy) = why.words();
    report.lost(directive, format!("`{}`: {what}; its paths answer 503", directive.line()), remedy);
    None
}

/// How a server is reached, where its address does not say that as the block does, and its address.
fn server(text: &str, speaks: Speaks, otherwise: Scheme) -> Result<(Scheme, String), Unusable> {
    let (scheme, text) = Scheme::split(text).unwrap_or((otherwise, text));
    if let Some(socket) = text.strip_prefix("unix/") {
        if scheme != Scheme::Http {
            return Err(Unusable::Malformed);
        }
        return Ok((scheme, upstreams::server(&format!("unix:{socket}"), speaks, None)?));
    }
    let port = (speaks == Speaks::Http).then(|| scheme.port());
    Ok((scheme, upstreams::server(text.trim_end_matches('/'), speaks, port)?))
}

fn option(child: &Directive, proxied: &mut Proxied, report: &mut Report) {
    let upstream = &mut proxied.upstream;
    let argument = child.argument(0);
    match child.name.as_str() {
        "lb_policy" => match balance(argument, child.argument(1)) {
            Some(balance) => upstream.key("balance", quoted(&balance)),
            None => report.lost(child, format!("`{}`: weir has no such balance", child.line()), "see `balance`"),
        },
        "health_uri" => upstream.health.push(("path", quoted(argument))),
        "health_interval" | "health_timeout" => {
            let key = if child.name == "health_interval" { "every" } else { "timeout" };
            if let Some(time) = units::milliseconds(argument) {
                upstream.health.push((key, quoted(&units::time(time))));
            }
        }
        "fail_duration" => {
            if let Some(time) = units::milliseconds(argument) {
                let time = quoted(&units::time(time));
                upstream.health.extend([("out", time.clone()), ("out_max", time)]);
            }
        }
        "max_fails" => upstream.health.push(("failures", argument.parse().unwrap_or(1_u16).to_string())),
        "header_up" => request_field(child, proxied, report),
        "header_down" => response_field(child, argument, child.argument(1), &mut proxied.fields, report),
        "root" => proxied.root = Some(argument.to_owned()),
        "env" if !argument.is_empty() && !child.argument(1).contains('{') => {
            let own = format!("{argument} = {}", quoted(child.argument(1)));
            let known = upstream.keys.iter().find(|(key, _)| key == "params").map(|(_, value)| value.clone());
            let all = match known.as_deref().and_then(|value| value.strip_suffix(" }")) {
                Some(begin) => format!("{begin}, {own} }}"),
                None => format!("{{ {own} }}"),
            };
            upstream.key("params", all);
        }
        "flush_interval" | "buffer_requests" | "buffer_responses" | "max_buffer_size" | "capture_stderr"
        | "health_port" | "trusted_proxies"
            if child.name != "trusted_proxies" && child.name != "health_port" => {}
        "dial_timeout" => time(upstream, "connect", argument),
        "read_timeout" | "response_header_timeout" => time(upstream, "head", argument),
        "index" if argument.ends_with(".php") && !argument.contains('/') => upstream.key("index", quoted(argument)),
        "tls" if child.arguments.is_empty() => upstream.scheme = Scheme::Https,
        "tls_server_name" if !argument.contains('{') => {
            upstream.scheme = Scheme::Https;
            upstream.key("server_name", quoted(argument));
        }
        "tls_trusted_ca_certs" if child.arguments.len() == 1 => {
            upstream.scheme = Scheme::Https;
            upstream.key("ca", quoted(argument));
        }
        "tls_insecure_skip_verify" => {
            upstream.scheme = Scheme::Https;
            let what = format!("`{}`: weir checks the certificate", child.line());
            report.lost(child, what, "name the file of its authority by `ca`");
        }
        "transport" if argument == "http" => {
            for one in child.children() {
                one.told();
                option(one, proxied, report);
            }
        }
        _ => report.lost(
            child,
            format!("`{}` of an upstream cannot be said", child.line()),
            "see the keys of an upstream",
        ),
    }
}

fn time(upstream: &mut Upstream, key: &'static str, text: &str) {
    if let Some(time) = units::milliseconds(text) {
        upstream.timeout(key, time);
    }
}

fn balance(policy: &str, name: &str) -> Option<String> {
    Some(match policy {
        "round_robin" => "round robin".to_owned(),
        "least_conn" | "random" | "random_choose" => "waiting".to_owned(),
        "ip_hash" | "client_ip_hash" => "hash of client".to_owned(),
        "uri_hash" => "hash of path".to_owned(),
        "header" => format!("hash of header {name}"),
        "cookie" => format!("sticky {}", if name.is_empty() { "lb" } else { name }),
        _ => return None,
    })
}

fn request_field(child: &Directive, proxied: &mut Proxied, report: &mut Report) {
    let (name, value) = (child.argument(0).to_ascii_lowercase(), child.argument(1));
    match (name.as_str(), value) {
        ("host", "{host}" | "{http.request.host}" | "{hostport}") => {}
        ("host", "{upstream_hostport}" | "{http.reverse_proxy.upstream.hostport}") => {
            if let Some((address, _)) = proxied.upstream.servers.first() {
                let host = address.trim_start_matches("http://").to_owned();
                proxied.upstream.key("host", quoted(&host));
            }
        }
        ("host", fixed) if !fixed.contains('{') && !fixed.is_empty() => proxied.upstream.key("host", quoted(fixed)),
        ("x-forwarded-for" | "x-real-ip", "{remote_host}" | "{remote}" | "{http.request.remote.host}")
        | ("x-forwarded-proto", "{scheme}")
        | ("x-forwarded-host", "{host}") => {}
        _ => {
            let is_of_trust = ["user", "auth", "cert", "token", "role", "group"].iter().any(|word| name.contains(word))
                && name != "user-agent";
            let what = format!("`{}`: weir adds no fields of one's own to requests", child.line());
            let remedy = "let the application know it by other ways, such as its environment";
            if is_of_trust {
                proxied.is_refused = true;
                report.refused(child, what, remedy);
            } else {
                report.lost(child, what, remedy);
            }
        }
    }
}

/// `Name value`, `-Name`, `+Name`, `?Name` and `>Name` of a response.
pub(crate) fn response_field(of: &Directive, name: &str, value: &str, fields: &mut Fields, report: &mut Report) {
    let bare = name.trim_start_matches(['+', '?', '>']).trim_end_matches(':');
    if let Some(removed) = name.strip_prefix('-') {
        if crate::headers::is_removable(removed) && !removed.contains('*') {
            return fields.remove(removed);
        }
        return report.lost(of, format!("`{removed}` cannot be taken out"), "leave it to weir");
    }
    let why = if value.contains('{') { Some("weir sets fixed values") } else { crate::headers::problem(bare, value) };
    match why {
        Some(why) => report.lost(of, format!("`{bare}` cannot be set: {why}"), "leave it to weir or the application"),
        None => fields.set(bare, value),
    }
}
