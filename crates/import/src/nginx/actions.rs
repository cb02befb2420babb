//! What answers in a location of nginx: files, or servers behind it.

use super::context::Context;
use super::scope::Scope;
use super::variables::Variables;
use crate::directive::Directive;
use crate::document::{inline, quoted};
use crate::units;
use crate::upstreams::{self, Scheme, Speaks, Unusable, Upstream};

/// The directives that hand requests on.
pub(crate) const PASSES: [(&str, Speaks); 5] = [
    ("proxy_pass", Speaks::Http),
    (GRPC_PASS, Speaks::Http),
    ("fastcgi_pass", Speaks::FastCgi),
    ("scgi_pass", Speaks::Scgi),
    ("uwsgi_pass", Speaks::Uwsgi),
];

/// Hands requests on over HTTP/2.
const GRPC_PASS: &str = "grpc_pass";

/// What a location hands its requests to.
#[derive(Debug, Clone)]
pub(crate) struct Passed {
    pub(crate) key: &'static str,
    pub(crate) upstream: Upstream,
    /// The path that stands for that of the location.
    pub(crate) path: Option<String>,
    /// The only script, by its path below the root.
    pub(crate) script: Option<String>,
    /// A field that it believes cannot be set, so that clients could forge it.
    pub(crate) is_refused: bool,
}

/// What the innermost block hands its requests to; `Some(None)` if it does, and weir cannot.
pub(crate) fn passed(context: &mut Context<'_>, scope: &Scope<'_>, variables: &Variables) -> Option<Option<Passed>> {
    let found = scope.innermost().iter().find_map(|directive| {
        let (_, speaks) = PASSES.iter().find(|(name, _)| *name == directive.name)?;
        Some((directive, *speaks))
    });
    let (directive, speaks) = found?;
    let family = directive.name.trim_end_matches("_pass");
    let mut upstream = Upstream::default();
    let text = match directive.argument(0) {
        text if directive.name != GRPC_PASS => text.to_owned(),
        text => address_of_grpc(text),
    };
    if directive.name == GRPC_PASS {
        upstream.key("protocol", quoted("2"));
    }
    let (name, path) = match target(&text, speaks) {
        Ok((scheme, name, path)) => {
            upstream.scheme = scheme;
            (name, path)
        }
        Err(why) => {
            lost(context, directive, why);
            return Some(None);
        }
    };
    if let Err(why) = servers(context, &name, speaks, &mut upstream) {
        lost(context, directive, why);
        return Some(None);
    }
    directive.told();
    timeouts(scope, family, &mut upstream);
    if upstream.scheme == Scheme::Https {
        tls(context, scope, (directive, &name, family), &mut upstream);
    }
    let (mut script, mut is_refused) = (None, false);
    if speaks == Speaks::Http {
        is_refused = fields(context, scope, (&name, family), &mut upstream);
    } else {
        script = params(context, scope, speaks, variables, &mut upstream);
    }
    retries(context, scope, &mut upstream);
    Some(Some(Passed { key: speaks.key(), upstream, path, script, is_refused }))
}

fn lost(context: &mut Context<'_>, directive: &Directive, why: Unusable) {
    let (what, remedy) = why.words();
    context.report.lost(directive, format!("`{}`: {what}; its paths answer 503", directive.line()), remedy);
}

/// The address of a service of gRPC as `proxy_pass` would have it.
fn address_of_grpc(text: &str) -> String {
    let of = |begin, scheme| text.strip_prefix(begin).map(|rest: &str| format!("{scheme}{rest}"));
    of("grpcs://", "https://").or_else(|| of("grpc://", "http://")).unwrap_or_else(|| format!("http://{text}"))
}

/// How the servers are reached, their name, and the path behind it.
fn target(text: &str, speaks: Speaks) -> Result<(Scheme, String, Option<String>), Unusable> {
    if text.contains('$') {
        return Err(Unusable::Variable);
    }
    if speaks != Speaks::Http {
        return Ok((Scheme::Http, text.to_owned(), None));
    }
    let (scheme, rest) = Scheme::split(text).filter(|(scheme, _)| *scheme != Scheme::H2c).ok_or(Unusable::Malformed)?;
    if let Some(socket) = rest.strip_prefix("unix:") {
        if scheme == Scheme::Https {
            return Err(Unusable::Malformed);
        }
        // The path of the socket ends with a colon if another follows.
        let (socket, path) = socket.split_once(':').map_or((socket, ""), |(socket, path)| (socket, path));
        return Ok((scheme, format!("unix:{socket}"), Some(path.to_owned()).filter(|path| !path.is_empty())));
    }
    match rest.find('/') {
        Some(at) => Ok((scheme, rest[..at].to_owned(), Some(rest[at..].to_owned()))),
        None => Ok((scheme, rest.to_owned(), None)),
    }
}

/// The servers of a block `upstream` of this name, or the one that is named so.
fn servers(context: &mut Context<'_>, name: &str, speaks: Speaks, upstream: &mut Upstream) -> Result<(), Unusable> {
    let port = (speaks == Speaks::Http).then(|| upstream.scheme.port());
    let Some(block) = context.upstreams.get(name).copied() else {
        upstream.servers.push((upstreams::server(name, speaks, port)?, 1));
        return Ok(());
    };
    block.told();
    upstream.key("balance", quoted("round robin"));
    for directive in block.children() {
        let argument = directive.argument(0);
        match directive.name.as_str() {
            "server" => server(context, directive, speaks, upstream)?,
            "least_conn" | "random" => upstream.key("balance", quoted("waiting")),
            "ip_hash" => upstream.key("balance", quoted("hash of client")),
            "hash" => match hash_of(argument) {
                Some(of) => upstream.key("balance", quoted(&of)),
                None => {
                    let what = format!("`{}`: weir hashes the client, the path, a cookie or a field", directive.line());
                    context.report.lost(directive, what, "choose one of them for `balance`");
                }
            },
            "keepalive" => {
                if let Ok(keep) = argument.parse::<u32>() {
                    upstream.key("keep", keep.min(1_000_000).to_string());
                }
            }
            "keepalive_timeout" => {
                if let Some(time) = units::milliseconds(argument) {
                    upstream.timeout("idle", time);
                }
            }
            "zone" | "keepalive_requests" | "keepalive_time" | "state" => {}
            _ => {
                let what = format!("`{}` of an upstream cannot be said", directive.line());
                context.report.lost(directive, what, "see the keys of an upstream");
            }
        }
        directive.told();
    }
    if upstream.servers.is_empty() { Err(Unusable::Malformed) } else { Ok(()) }
}

fn server(
    context: &mut Context<'_>,
    directive: &Directive,
    speaks: Speaks,
    upstream: &mut Upstream,
) -> Result<(), Unusable> {
    // Also where TLS is spoken with it.
    let port = (speaks == Speaks::Http).then_some(80);
    let options = directive.arguments.get(1..).unwrap_or_default();
    if options.iter().any(|option| option == "down") {
        return Ok(());
    }
    if options.iter().any(|option| option == "backup") {
        let what = format!("`{}`: weir has no servers for when others fail", directive.line());
        context.report.lost(directive, what, "give it a share like the others, by `to` and `weight`");
        return Ok(());
    }
    let mut weight = 1;
    for option in options {
        match option.split_once('=') {
            Some(("weight", value)) => weight = value.parse().unwrap_or(1).clamp(1, 1000),
            Some(("max_fails", value)) => {
                let failures: u32 = value.parse().unwrap_or(1).min(10_000);
                upstream.health.retain(|(name, _)| *name != "failures");
                upstream.health.push(("failures", failures.to_string()));
                if failures == 0 && !upstream.health.iter().any(|(name, _)| *name == "percent") {
                    upstream.health.push(("percent", "0".to_owned()));
                }
            }
            Some(("fail_timeout", value)) => {
                if let Some(time) = units::milliseconds(value) {
                    if time == 0 {
                        // Failures count for no time, so that none puts a server out.
                        upstream.health = vec![("failures", "0".to_owned()), ("percent", "0".to_owned())];
                        continue;
                    }
                    let (window, out) = (quoted(&units::time(time)), quoted(&units::time(time)));
                    upstream.health.retain(|(name, _)| !["window", "out", "out_max"].contains(name));
                    upstream.health.extend([("window", window), ("out", out.clone()), ("out_max", out)]);
                }
            }
            Some(("max_conns", value)) => {
                upstream.key("connections", value.parse().unwrap_or(1024_u32).max(1).to_string());
            }
            _ if option == "resolve" => {}
            _ => {
                let what = format!("`{option}` of a server cannot be said");
                context.report.lost(directive, what, "see the keys of an upstream");
            }
        }
    }
    let address = upstreams::server(directive.argument(0), speaks, port)?;
    match upstream.servers.iter_mut().find(|(own, _)| *own == address) {
        Some((_, share)) => *share = (*share + weight).min(1000),
        None => upstream.servers.push((address, weight)),
    }
    Ok(())
}

fn hash_of(text: &str) -> Option<String> {
    match text {
        "$remote_addr" | "$binary_remote_addr" => Some("hash of client".to_owned()),
        "$request_uri" | "$uri" => Some("hash of path".to_owned()),
        _ => {
            if let Some(name) = text.strip_prefix("$cookie_") {
                return Some(format!("hash of cookie {name}"));
            }
            text.strip_prefix("$http_").map(|name| format!("hash of header {}", name.replace('_', "-")))
        }
    }
}

fn timeouts(scope: &Scope<'_>, family: &str, upstream: &mut Upstream) {
    for (ending, keys) in
        [("connect_timeout", &["connect"][..]), ("send_timeout", &["send"]), ("read_timeout", &["head", "body"])]
    {
        let Some(directive) = scope.one(&format!("{family}_{ending}")) else { continue };
        directive.told();
        if let Some(time) = units::milliseconds(directive.argument(0)) {
            keys.iter().for_each(|key| upstream.timeout(key, time));
            // A WebSocket is read from as anything else is.
            if ending == "read_timeout" && time > 3_600_000 {
                upstream.timeout("tunnel", time);
            }
        }
    }
}

/// What TLS with the servers needs. weir always checks their certificates, which nginx does only where it is told so.
fn tls(
    context: &mut Context<'_>,
    scope: &Scope<'_>,
    (directive, name, family): (&Directive, &str, &str),
    upstream: &mut Upstream,
) {
    let mut verifies = false;
    let keys = [
        ("ssl_trusted_certificate", "ca"),
        ("ssl_certificate", "client_certificate"),
        ("ssl_certificate_key", "client_key"),
        ("ssl_name", "server_name"),
    ];
    // nginx checks for the name in proxy_pass, also where that is one of an upstream.
    if context.upstreams.contains_key(name) {
        upstream.key("server_name", quoted(name));
    }
    for (own, key) in keys {
        let found = scope.one(&format!("{family}_{own}"));
        let Some(found) = found.filter(|found| !found.argument(0).contains('$')) else { continue };
        found.told();
        upstream.key(key, quoted(found.argument(0)));
    }
    for own in ["ssl_verify", "ssl_server_name", "ssl_session_reuse", "ssl_verify_depth"] {
        let Some(found) = scope.one(&format!("{family}_{own}")) else { continue };
        found.told();
        verifies |= own == "ssl_verify" && found.argument(0) == "on";
    }
    if !verifies {
        let what = format!("`{}`: nginx takes any certificate here, and weir checks it", directive.line());
        context.report.lost(directive, what, "name the file of its authority by `ca`, if that is none of the system's");
    }
}

/// The fields of requests: what weir sets itself, and what it cannot. Whether one of them is believed, so that its paths
/// are refused.
fn fields(context: &mut Context<'_>, scope: &Scope<'_>, (name, family): (&str, &str), upstream: &mut Upstream) -> bool {
    let (mut host, mut forwards, mut is_refused) = (None, false, false);
    for directive in scope.all(&format!("{family}_set_header")) {
        let (field, value) = (directive.argument(0).to_ascii_lowercase(), directive.argument(1));
        directive.told();
        match (field.as_str(), value) {
            ("host", "$host" | "$http_host" | "$host:$server_port" | "$http_host:$server_port" | "$server_name") => {
                host = Some(None);
            }
            ("host", "$proxy_host") => {}
            ("host", fixed) if !fixed.contains('$') => host = Some(Some(fixed.to_owned())),
            ("x-forwarded-for", "$proxy_add_x_forwarded_for" | "$remote_addr")
            | ("x-real-ip", "$remote_addr")
            | ("x-forwarded-proto" | "x-forwarded-scheme" | "x-scheme" | "x-forwarded-protocol", "$scheme")
            | ("x-forwarded-host", "$host" | "$http_host") => forwards = true,
            ("x-forwarded-port" | "x-forwarded-server" | "x-forwarded-ssl" | "x-original-uri" | "x-request-id", _) => {
                forwards = true;
                let what = format!("`{}`: weir does not tell this to upstreams", directive.line());
                context.report.lost(directive, what, "let the application take X-Forwarded-For, -Proto and -Host");
            }
            ("connection" | "upgrade" | "te" | "keep-alive" | "proxy-connection" | "accept-encoding" | "expect", _) => {
            }
            (_, value) => {
                let what = format!(
                    "`{}`: weir adds no fields of one's own to requests; a client can send one of this name",
                    directive.line()
                );
                if is_of_trust(&field) {
                    context.report.refused(
                        directive,
                        what,
                        "let the application not believe this field, then take \
                        the refusal out",
                    );
                    is_refused = true;
                } else {
                    let remedy = if value.is_empty() {
                        "let the application ignore this field"
                    } else {
                        "let the application know it by other ways, such as its environment"
                    };
                    context.report.lost(directive, what, remedy);
                }
            }
        }
    }
    match host {
        Some(None) => {}
        Some(Some(fixed)) => upstream.key("host", quoted(&fixed)),
        None if name.starts_with("unix:") => upstream.key("host", quoted("localhost")),
        None => upstream.key("host", quoted(name)),
    }
    if !forwards {
        upstream.key("forwarded", quoted("none"));
    }
    is_refused
}

/// Fields by which applications believe who a client is.
fn is_of_trust(field: &str) -> bool {
    ["user", "auth", "client-cert", "client-verify", "ssl", "token", "role", "group", "email"]
        .iter()
        .any(|word| field.contains(word))
        && field != "user-agent"
}

/// Parameters of scripts; the script if there is only one.
fn params(
    context: &mut Context<'_>,
    scope: &Scope<'_>,
    speaks: Speaks,
    variables: &Variables,
    upstream: &mut Upstream,
) -> Option<String> {
    let mut own: Vec<(String, String)> = Vec::new();
    let (mut script, root) = (None, variables.root.clone());
    for directive in scope.all(&format!("{}_param", speaks.key())) {
        let (name, value) = (directive.argument(0), directive.argument(1));
        directive.told();
        if name == "SCRIPT_FILENAME" || name == "SCRIPT_NAME" {
            script = script.or_else(|| fixed_script(value, root.as_deref()));
            continue;
        }
        if is_made(name) {
            continue;
        }
        match variables.text(value) {
            Ok(value) if !value.contains(char::is_control) => {
                own.retain(|(own, _)| own != name);
                own.push((name.to_owned(), quoted(&value)));
            }
            _ => {
                let what = format!("`{}`: parameters of weir are fixed texts", directive.line());
                context.report.lost(directive, what, "let the application make it of what it gets");
            }
        }
    }
    if !own.is_empty() {
        upstream.key("params", inline(own.into_iter()));
    }
    let index = scope.one("fastcgi_index").map(|directive| directive.argument(0).to_owned());
    if let Some(index) = index.filter(|index| speaks == Speaks::FastCgi && index != "index.php") {
        upstream.key("index", quoted(&index));
    }
    script
}

/// Parameters that weir makes.
fn is_made(name: &str) -> bool {
    const MADE: [&str; 24] = [
        "QUERY_STRING",
        "REQUEST_METHOD",
        "CONTENT_TYPE",
        "CONTENT_LENGTH",
        "REQUEST_URI",
        "DOCUMENT_URI",
        "DOCUMENT_ROOT",
        "SERVER_PROTOCOL",
        "REQUEST_SCHEME",
        "HTTPS",
        "GATEWAY_INTERFACE",
        "SERVER_SOFTWARE",
        "REMOTE_ADDR",
        "REMOTE_PORT",
        "REMOTE_USER",
        "SERVER_ADDR",
        "SERVER_PORT",
        "SERVER_NAME",
        "REDIRECT_STATUS",
        "PATH_INFO",
        "PATH_TRANSLATED",
        "HTTP_PROXY",
        "HTTP_HOST",
        "HTTP_AUTHORIZATION",
    ];
    MADE.contains(&name)
}

fn fixed_script(value: &str, root: Option<&str>) -> Option<String> {
    let path = ["$document_root", "$realpath_root", "${document_root}"]
        .iter()
        .find_map(|begin| value.strip_prefix(begin))
        .or_else(|| root.and_then(|root| value.strip_prefix(root.trim_end_matches('/'))))?;
    (path.starts_with('/') && !path.contains('$')).then(|| path.to_owned())
}

fn retries(context: &mut Context<'_>, scope: &Scope<'_>, upstream: &mut Upstream) {
    let families = ["proxy", "grpc", "fastcgi", "uwsgi", "scgi"];
    for directive in families.iter().filter_map(|family| scope.one(&format!("{family}_next_upstream"))) {
        if directive.argument(0) == "off" {
            upstream.key("retries", "false".to_owned());
            directive.told();
        } else if directive.arguments.iter().any(|word| word.starts_with("http_4") || word == "non_idempotent") {
            let what = format!("`{}`: weir sends requests again only where it does no harm", directive.line());
            context.report.lost(directive, what, "see `retries`");
        } else {
            let is_status = |word: &&str| ["500", "502", "503", "504"].contains(word);
            let statuses: Vec<&str> =
                directive.arguments.iter().filter_map(|word| word.strip_prefix("http_")).filter(is_status).collect();
            if !statuses.is_empty() {
                upstream.key("retries", format!("{{ statuses = [{}] }}", statuses.join(", ")));
            }
            directive.told();
        }
    }
    for family in families {
        for name in ["next_upstream_tries", "next_upstream_timeout"] {
            scope.one(&format!("{family}_{name}")).iter().for_each(|directive| context.report.idle(directive));
        }
    }
}
