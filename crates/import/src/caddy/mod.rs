//! Caddyfiles.
//!
//! `tree.rs` reads the text with its snippets and imports, `matchers.rs` makes conditions of matchers, `site.rs` has the
//! directives of a site in Caddy's order, `proxies.rs` upstreams. Here are addresses and global options.

mod matchers;
mod proxies;
mod site;
mod tree;

use crate::directive::Directive;
use crate::document::{Document, Host, Table, inline, list, quoted};
use crate::files::{Files, join};
use crate::report::Report;
use crate::{ImportError, Wanted};
use site::Builder;

/// Where the sites of a block are.
#[derive(Debug, Default)]
struct Addresses {
    names: Vec<String>,
    clear: Vec<String>,
    tls: Vec<String>,
    /// Names whose certificates Caddy obtains.
    is_obtained: bool,
}

/// Translates a Caddyfile.
pub(crate) fn import(
    name: &str,
    text: &str,
    wanted: &Wanted,
    files: &dyn Files,
) -> Result<(Document, Report), ImportError> {
    let mut report = Report::default();
    let tree = tree::read(name, text, &wanted.folder, files)?;
    if tree.sites.is_empty() {
        return Err(ImportError::Empty { name: name.to_owned(), expected: "an address and a block `{ ... }`" });
    }
    for missing in &tree.missing {
        let what = format!("`{}`: there is no such snippet or file", missing.line());
        report.lost(missing, what, "import it where Caddy's files are");
    }
    let email = options(&tree.options, &mut report);
    let mut document = Document::default();
    let (mut clear, mut tls): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let (mut certificates, mut is_obtained): (Vec<String>, bool) = (Vec::new(), false);
    let (mut serial, mut taken): (usize, Vec<String>) = (0, Vec::new());
    for one in &tree.sites {
        let mut addresses = addresses(one, &mut report);
        let own = certificate(&one.directives, &wanted.folder, &mut report);
        if let Some(own) = own {
            addresses.is_obtained = false;
            certificates.push(own);
        }
        addresses.names.retain(|name| !taken.contains(name));
        if addresses.names.is_empty() {
            if taken.contains(&"*".to_owned()) {
                let site = Directive::new(one.addresses.join(", "), Vec::new(), None, one.place.clone());
                let what = "another site takes all names, and weir tells sites apart by name only";
                report.lost(&site, what, "give it a name, or a weir of its own");
                one.directives.iter().for_each(tell_all);
                continue;
            }
            taken.push("*".to_owned());
        }
        taken.extend(addresses.names.iter().cloned());
        let scheme = if addresses.tls.is_empty() { Some("http") } else { Some("https") };
        let mut builder = Builder::new(&mut report, files, &wanted.folder, scheme);
        builder.serial = serial;
        builder.site(&one.directives);
        serial = builder.serial;
        document.beside.append(&mut builder.beside);
        let mut host = builder.host;
        if !addresses.names.is_empty() {
            host.table.entries.insert(0, ("names".to_owned(), list(&addresses.names)));
        }
        if addresses.is_obtained {
            is_obtained = true;
            host.table.text("certificate", "acme");
        }
        complete(&mut host, !addresses.tls.is_empty() && addresses.clear.is_empty());
        clear.extend(addresses.clear);
        tls.extend(addresses.tls);
        document.hosts.push(host);
    }
    listen(&mut document, (clear, tls), &certificates, is_obtained, email);
    Ok((document, report))
}

/// Adds the redirect to TLS that Caddy makes by itself, and an answer where there is none.
fn complete(host: &mut Host, is_only_tls: bool) {
    if is_only_tls {
        let mut route = Table::default();
        route.raw("https", "true");
        host.routes.insert(0, route);
    }
    let is_empty = host.paths.is_empty() && host.routes.is_empty();
    if is_empty && host.table.entries.iter().all(|(key, _)| ["names", "certificate"].contains(&key.as_str())) {
        host.table.raw("status", "404");
    }
}

fn tell_all(directive: &Directive) {
    directive.told();
    directive.children().iter().for_each(tell_all);
}

/// Global options; the address of mail among them.
fn options(options: &[Directive], report: &mut Report) -> Option<String> {
    let mut email = None;
    for option in options {
        match option.name.as_str() {
            "email" => {
                option.told();
                email = Some(option.argument(0).to_owned());
            }
            "admin" | "order" | "debug" | "grace_period" | "persist_config" | "storage" | "default_sni"
            | "local_certs" | "skip_install_trust" => report.idle(option),
            "auto_https" if option.argument(0) != "off" => report.idle(option),
            _ => {
                let what = format!("the global option `{}` is not carried over", option.line());
                report.lost(option, what, "see docs/reference/configuration.md for what weir can say");
            }
        }
        option.children().iter().for_each(tell_all);
    }
    email
}

fn addresses(site: &tree::Site, report: &mut Report) -> Addresses {
    let mut found = Addresses::default();
    let lost = |report: &mut Report, what: String, remedy: &str| {
        let of = Directive::new(String::new(), Vec::new(), None, site.place.clone());
        report.lost(&of, what, remedy);
    };
    for address in &site.addresses {
        let (scheme, rest) = match address.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, address.as_str()),
        };
        let (rest, path) = rest.split_once('/').map_or((rest, ""), |(rest, path)| (rest, path));
        if !path.is_empty() {
            lost(report, format!("the path of `{address}`"), "put its directives into a handle");
        }
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse::<u16>().ok()),
            _ => (rest, None),
        };
        let host = host.to_ascii_lowercase();
        let is_near = host == "localhost" || host.ends_with(".localhost") || host.parse::<std::net::IpAddr>().is_ok();
        let is_clear =
            scheme == Some("http") || port == Some(80) || scheme.is_none() && host.is_empty() && port != Some(443);
        let is_name = |letter: u8| letter.is_ascii_alphanumeric() || b"-._*[]:".contains(&letter);
        if !host.bytes().all(is_name) || host.get(1..).is_some_and(|rest| rest.contains('*')) && !host.starts_with("*.")
        {
            lost(report, format!("the address `{address}`"), "write its name in `names`");
            continue;
        }
        if is_clear || is_near {
            if !is_clear {
                let what = format!("`{address}` has a certificate of Caddy's own authority; it is served in the clear");
                lost(report, what, "add [tls] with a certificate that your clients trust");
            }
            found.clear.push(format!(":{}", port.unwrap_or(80)));
        } else {
            found.tls.push(format!(":{}", port.unwrap_or(443)));
            found.is_obtained |= !host.is_empty() && !host.contains('*');
            if host.contains('*') {
                lost(report, format!("`{address}`: a certificate for all names below"), "add it to [tls]");
            }
        }
        if !host.is_empty() && !found.names.contains(&host) {
            found.names.push(host);
        }
    }
    found
}

/// The certificate that a site names, as weir writes it.
fn certificate(directives: &[Directive], folder: &str, report: &mut Report) -> Option<String> {
    let directive = directives.iter().find(|directive| directive.name == "tls")?;
    match directive.arguments.as_slice() {
        [certificate, key] if directive.children().is_empty() => {
            directive.told();
            let pair = [
                ("certificate".to_owned(), quoted(&join(folder, certificate))),
                ("key".to_owned(), quoted(&join(folder, key))),
            ];
            Some(inline(pair.into_iter()))
        }
        [mail] if mail.contains('@') && directive.children().is_empty() => {
            report.idle(directive);
            None
        }
        _ => None,
    }
}

fn listen(
    document: &mut Document,
    (mut clear, mut tls): (Vec<String>, Vec<String>),
    certificates: &[String],
    is_obtained: bool,
    email: Option<String>,
) {
    if tls.is_empty() {
        clear.sort();
        clear.dedup();
        return document.top.list("listen", &clear);
    }
    // Redirects to TLS are answered here.
    clear.push(":80".to_owned());
    clear.retain(|address| !tls.contains(address));
    for list in [&mut clear, &mut tls] {
        list.sort();
        list.dedup();
    }
    document.top.list("listen", &tls);
    let mut table = Table::default();
    if !certificates.is_empty() {
        table.raw("certificates", format!("[{}]", certificates.join(", ")));
    }
    table.list("listen_clear", &clear);
    document.tables.push(("tls".to_owned(), table));
    if is_obtained {
        let mut table = Table::default();
        table.comment("Caddy agrees to the terms of its authority for you: read them.");
        table.raw("agree_to_terms", "true");
        table.text("storage", "/var/lib/weir/acme");
        if let Some(email) = email.filter(|email| email.contains('@') && email.is_ascii()) {
            table.text("contact", &email);
        }
        document.tables.push(("acme".to_owned(), table));
    }
}
