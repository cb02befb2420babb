//! Addresses and names of servers: weir listens on all addresses for all hosts, and tells hosts apart by name.

use super::context::Context;
use super::scope::Scope;
use crate::directive::Directive;
use crate::document::{Document, Host, Table, inline, quoted};
use crate::files::join;

/// A server with its addresses.
#[derive(Debug)]
pub(crate) struct Server<'t> {
    directive: &'t Directive,
    names: Vec<String>,
    /// Addresses in the clear, and those of TLS.
    clear: Vec<String>,
    tls: Vec<String>,
    certificates: Vec<(String, String)>,
    is_default: bool,
    has_http3: bool,
    pub(crate) host: Host,
}

impl<'t> Server<'t> {
    pub(crate) fn of(context: &mut Context<'t>, directive: &'t Directive, scope: &Scope<'t>) -> Self {
        let mut server = Self {
            directive,
            names: Vec::new(),
            clear: Vec::new(),
            tls: Vec::new(),
            certificates: Vec::new(),
            is_default: false,
            has_http3: false,
            host: Host::default(),
        };
        for listen in scope.innermost().iter().filter(|one| one.name == "listen") {
            server.listen(context, listen);
        }
        if server.clear.is_empty() && server.tls.is_empty() {
            server.clear.push(":80".to_owned());
        }
        for name in scope.innermost().iter().filter(|one| one.name == "server_name") {
            server.name(context, name);
        }
        let path = |one: &Directive| join(&context.folder, one.argument(0));
        let certificates = scope.all("ssl_certificate");
        let keys = scope.all("ssl_certificate_key");
        for (certificate, key) in certificates.iter().zip(&keys) {
            certificate.told();
            key.told();
            server.certificates.push((path(certificate), path(key)));
        }
        server
    }

    fn listen(&mut self, context: &mut Context<'_>, listen: &Directive) {
        listen.told();
        let has = |word: &str| listen.arguments.iter().any(|argument| argument == word);
        self.is_default |= has("default_server") || has("default");
        let text = listen.argument(0);
        if has("quic") || has("http3") {
            self.has_http3 = true;
            return;
        }
        if has("proxy_protocol") {
            let what = format!("`{}`: connections that begin with a header", listen.line());
            context.report.lost(listen, what, "add proxy_protocol = true and trusted_proxies at the top");
        }
        let Some(address) = address(text) else {
            let what = format!("`{}` is no address that weir listens on", listen.line());
            return context.report.lost(listen, what, "add ADDRESS:PORT to `listen`");
        };
        let addresses = if has("ssl") { &mut self.tls } else { &mut self.clear };
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }

    fn name(&mut self, context: &mut Context<'_>, directive: &Directive) {
        directive.told();
        for name in &directive.arguments {
            let name = name.to_ascii_lowercase();
            let bare = name.strip_prefix("*.").or_else(|| name.strip_prefix('.')).unwrap_or(&name);
            let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
            if name == "_" || name.is_empty() {
                continue;
            }
            if name == "$hostname" || !bare.bytes().all(is_letter) || bare.ends_with('.') || bare.is_empty() {
                let what = format!("the name `{name}`: names of hosts are fixed, or begin with *.");
                context.report.lost(directive, what, "write each name in `names`");
                continue;
            }
            let both =
                if name.starts_with('.') { vec![bare.to_owned(), format!("*.{bare}")] } else { vec![name.clone()] };
            for one in both {
                if !self.names.contains(&one) {
                    self.names.push(one);
                }
            }
        }
    }

    pub(crate) fn scheme(&self) -> Option<&'static str> {
        match (self.clear.is_empty(), self.tls.is_empty()) {
            (false, true) => Some("http"),
            (true, false) => Some("https"),
            _ => None,
        }
    }

    pub(crate) fn first_name(&self) -> String {
        self.names.iter().find(|name| !name.contains('*')).cloned().unwrap_or_default()
    }

    /// Whether all that it does with a request in the clear is to answer by routes.
    fn only_routes(&self) -> bool {
        let ends = |key: &str| self.host.routes.iter().any(|route| route.has(key));
        self.host.paths.is_empty() && (ends("redirect") || ends("fail"))
    }

    fn is_near(&self) -> bool {
        let near = |address: &String| {
            address.starts_with("unix:") || address.starts_with("127.") || address.starts_with("[::1]")
        };
        self.clear.iter().chain(&self.tls).all(near)
    }
}

/// An address as weir writes it.
fn address(text: &str) -> Option<String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return (path.starts_with('/')).then(|| format!("unix:{path}"));
    }
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    if is_port(text) {
        return Some(format!(":{text}"));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if is_port(port) => (host, port),
        _ => (text, "80"),
    };
    match host {
        "*" | "0.0.0.0" | "[::]" | "::" => Some(format!(":{port}")),
        "localhost" => Some(format!("127.0.0.1:{port}")),
        host => {
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            let address: std::net::IpAddr = bare.parse().ok()?;
            Some(if address.is_ipv4() { format!("{address}:{port}") } else { format!("[{address}]:{port}") })
        }
    }
}

/// Puts all servers together.
pub(crate) fn document(context: &mut Context<'_>, mut servers: Vec<Server<'_>>) -> Document {
    let mut document = Document::default();
    by_scheme(context, &mut servers);
    defaults(context, &mut servers);
    let has_far = servers.iter().any(|server| !server.is_near());
    let (mut clear, mut tls): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut certificates: Vec<(String, String)> = Vec::new();
    for server in &servers {
        clear.extend(server.clear.iter().cloned());
        tls.extend(server.tls.iter().cloned());
        certificates.extend(server.certificates.iter().filter(|_| !server.tls.is_empty()).cloned());
    }
    let has_http3 = servers.iter().any(|server| server.has_http3);
    write_addresses(&mut document, (tidied(clear), tidied(tls)), certificates, has_http3);
    for server in servers {
        let is_near = server.is_near();
        let mut host = server.host;
        if !server.names.is_empty() {
            host.table.entries.insert(0, ("names".to_owned(), crate::document::list(&server.names)));
        }
        if is_near && has_far {
            near_only(&mut host);
        }
        if host.table.entries.iter().all(|(key, _)| key == "names") && host.paths.is_empty() && host.routes.is_empty() {
            host.table.raw("status", "404");
        }
        document.hosts.push(host);
    }
    document
}

/// What was reached from this machine alone stays so.
fn near_only(host: &mut Host) {
    let mut route = Table::default();
    route.comment("nginx has this server at addresses of this machine only.");
    route.raw("not", inline(std::iter::once(("address".to_owned(), "[\"127.0.0.0/8\", \"::1\"]".to_owned()))));
    route.raw("fail", "403");
    host.routes.insert(0, route);
}

/// One address for all interfaces covers those of single ones.
fn tidied(addresses: Vec<String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let every: Vec<String> = addresses.iter().filter(|address| address.starts_with(':')).cloned().collect();
    for address in addresses {
        let port = address.rsplit_once(':').map_or(String::new(), |(_, port)| format!(":{port}"));
        let is_covered = !address.starts_with("unix:") && address != port && every.contains(&port);
        if !is_covered && !out.contains(&address) {
            out.push(address);
        }
    }
    out
}

fn write_addresses(
    document: &mut Document,
    (clear, tls): (Vec<String>, Vec<String>),
    certificates: Vec<(String, String)>,
    has_http3: bool,
) {
    if tls.is_empty() {
        document.top.list("listen", &clear);
        return;
    }
    document.top.list("listen", &tls);
    let mut table = Table::default();
    let mut pairs: Vec<String> = Vec::new();
    for (certificate, key) in certificates {
        let entries = [("certificate".to_owned(), quoted(&certificate)), ("key".to_owned(), quoted(&key))];
        let pair = inline(entries.into_iter());
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    table.raw("certificates", format!("[{}]", pairs.join(", ")));
    if has_http3 {
        table.raw("http3", "true");
    }
    let clear: Vec<String> = clear.into_iter().filter(|address| !tls.contains(address)).collect();
    if !clear.is_empty() {
        table.list("listen_clear", &clear);
    }
    document.tables.push(("tls".to_owned(), table));
}

/// Requests in the clear for a host of TLS get what the server in the clear says, mostly a redirect.
fn by_scheme(context: &mut Context<'_>, servers: &mut Vec<Server<'_>>) {
    let has_tls = servers.iter().any(|server| !server.tls.is_empty());
    if !has_tls {
        return;
    }
    let clear_only: Vec<usize> = (0..servers.len()).filter(|number| servers[*number].tls.is_empty()).collect();
    let default =
        clear_only.iter().copied().find(|number| servers[*number].is_default).or_else(|| clear_only.first().copied());
    for number in 0..servers.len() {
        if !servers[number].clear.is_empty() || servers[number].tls.is_empty() {
            continue;
        }
        let shares = |other: &usize| servers[*other].names.iter().any(|name| servers[number].names.contains(name));
        let Some(other) = clear_only.iter().copied().find(|other| shares(other)).or(default) else { continue };
        if servers[other].only_routes() {
            let routes: Vec<Table> = servers[other].host.routes.iter().map(in_the_clear).collect();
            servers[number].host.routes.splice(0..0, routes);
        } else {
            let what = "in the clear another site has these names, and weir has one host for a name".to_owned();
            context.report.lost(
                servers[number].directive,
                what,
                "the site over TLS answers for both; add routes with \
                scheme = \"http\"",
            );
        }
    }
    // What is left of a server in the clear are names that no host of TLS has.
    let of_tls: Vec<String> =
        servers.iter().filter(|server| !server.tls.is_empty()).flat_map(|server| server.names.clone()).collect();
    let tls_takes_all = servers.iter().any(|server| !server.tls.is_empty() && server.names.is_empty());
    for number in &clear_only {
        servers[*number].names.retain(|name| !of_tls.contains(name));
    }
    let (mut kept, mut orphans): (Vec<Server<'_>>, Vec<String>) = (Vec::new(), Vec::new());
    for (number, server) in servers.drain(..).enumerate() {
        let had_names =
            server.directive.children().iter().any(|one| {
                one.name == "server_name" && one.arguments.iter().any(|name| name != "_" && !name.is_empty())
            });
        let is_taken = clear_only.contains(&number)
            && server.names.is_empty()
            && (had_names || tls_takes_all && server.only_routes());
        if !is_taken {
            kept.push(server);
            continue;
        }
        // Its addresses are still listened on.
        orphans.extend(server.clear);
    }
    if let Some(first) = kept.first_mut() {
        first.clear.extend(orphans);
    }
    *servers = kept;
}

fn in_the_clear(route: &Table) -> Table {
    let mut route = route.clone();
    if !route.has("scheme") {
        route.entries.insert(0, ("scheme".to_owned(), quoted("http")));
    }
    route
}

/// One host takes the names that no other has, and a name belongs to one host.
fn defaults(context: &mut Context<'_>, servers: &mut Vec<Server<'_>>) {
    let default = servers.iter().position(|server| server.is_default && !server.tls.is_empty());
    let default = default
        .or_else(|| servers.iter().position(|server| server.is_default))
        .or_else(|| servers.iter().position(|server| server.names.is_empty()))
        .unwrap_or(0);
    let mut taken: Vec<String> = Vec::new();
    let mut kept = Vec::new();
    for (number, mut server) in servers.drain(..).enumerate() {
        if number == default && !server.names.is_empty() {
            server.names.push("*".to_owned());
        }
        if number != default && server.names.is_empty() {
            let what = "this server has no name of its own, and weir tells hosts apart by name only".to_owned();
            context.report.lost(server.directive, what, "give it a name in `names`, or a weir of its own");
            continue;
        }
        let before = server.names.len();
        server.names.retain(|name| !taken.contains(name));
        if server.names.len() < before {
            let what = "a server above has a name of this one, and weir tells hosts apart by name only".to_owned();
            context.report.lost(server.directive, what, "give each name to one host");
            if server.names.is_empty() {
                continue;
            }
        }
        taken.extend(server.names.iter().cloned());
        kept.push(server);
    }
    *servers = kept;
}
