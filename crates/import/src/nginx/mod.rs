//! Configurations of nginx.
//!
//! `tree.rs` reads the text, `scope.rs` says what a block inherits. `host.rs` makes a host of a server: `locations.rs`
//! has nginx's choice of one location said by tables of which all that match hold, `rewrites.rs` makes routes,
//! `actions.rs` upstreams, `settings.rs` the rest. `listen.rs` puts servers together that weir tells apart by name only.

mod actions;
mod conditions;
mod context;
mod host;
mod idle;
mod listen;
mod locations;
mod rewrites;
mod scope;
mod settings;
mod tree;
mod variables;

use crate::directive::Directive;
use crate::document::Document;
use crate::files::Files;
use crate::report::Report;
use crate::{ImportError, Wanted, units};
use context::Context;
use listen::Server;
use scope::Scope;
use std::collections::BTreeMap;

/// Translates a configuration, or a file with servers.
pub(crate) fn import(
    name: &str,
    text: &str,
    wanted: &Wanted,
    files: &dyn Files,
) -> Result<(Document, Report), ImportError> {
    let mut report = Report::default();
    let tree = tree::read(name, text, &wanted.folder, files, &mut report)?;
    let http: Vec<Directive> = contents(&tree);
    let mut context = Context {
        files,
        folder: wanted.folder.clone(),
        report: &mut report,
        upstreams: BTreeMap::new(),
        rates: BTreeMap::new(),
        inner: 0,
    };
    for directive in http.iter().filter(|directive| directive.name == "upstream") {
        context.upstreams.insert(directive.argument(0).to_owned(), directive);
    }
    zones(&mut context, &http);
    let mut servers = Vec::new();
    for directive in http.iter().filter(|directive| directive.name == "server") {
        directive.told();
        servers.push(server(&mut context, &http, directive));
    }
    if servers.is_empty() {
        return Err(ImportError::Empty { name: name.to_owned(), expected: "a block `server { ... }`" });
    }
    let mut document = listen::document(&mut context, servers);
    limits(&mut context, &http, &mut document);
    sweep(&mut context, &http);
    Ok((document, report))
}

/// The directives of `http`, and those around it that are no block; a file of a site has them at its top.
fn contents(tree: &[Directive]) -> Vec<Directive> {
    let mut contents = Vec::new();
    let is_location = |directive: &&Directive| directive.name == "location";
    if let Some(first) = tree.iter().find(is_location) {
        // A file that a server includes.
        let server = Directive::new("server".to_owned(), Vec::new(), Some(tree.to_vec()), first.place.clone());
        return vec![server];
    }
    for directive in tree {
        if directive.name == "http" {
            contents.extend(directive.children().iter().cloned());
        } else {
            contents.push(directive.clone());
        }
    }
    contents
}

fn server<'t>(context: &mut Context<'t>, http: &'t [Directive], directive: &'t Directive) -> Server<'t> {
    let scope = Scope::of_server(http, directive.children());
    let mut server = Server::of(context, directive, &scope);
    let variables = variables::Variables {
        scheme: server.scheme(),
        server_name: server.first_name(),
        ..variables::Variables::default()
    };
    server.host = host::read(context, &scope, variables);
    server
}

/// Zones by which requests are counted.
fn zones(context: &mut Context<'_>, http: &[Directive]) {
    for directive in http.iter().filter(|directive| directive.name == "limit_req_zone") {
        let argument = |name: &str| directive.arguments.iter().find_map(|text| text.strip_prefix(name));
        let zone = argument("zone=").and_then(|zone| zone.split(':').next());
        let rate = argument("rate=").and_then(|rate| rate.split_once("r/"));
        let is_of_client = ["$binary_remote_addr", "$remote_addr"].contains(&directive.argument(0));
        if let (Some(zone), Some((count, per)), true) = (zone, rate, is_of_client)
            && let Ok(count) = count.parse::<u64>()
            && (1..=1_000_000).contains(&count)
        {
            directive.told();
            context.rates.insert(zone.to_owned(), (count, if per == "m" { "1 min" } else { "1 s" }));
        }
    }
}

/// Times of the whole server, and its log: the directory of a log may not be there, so that none is switched on.
fn limits(context: &mut Context<'_>, http: &[Directive], document: &mut Document) {
    let mut timeouts = crate::document::Table::default();
    for (name, key) in [
        ("client_header_timeout", "head"),
        ("keepalive_timeout", "idle"),
        ("client_body_timeout", "body"),
        ("send_timeout", "stall"),
    ] {
        let Some(directive) = http.iter().rev().find(|directive| directive.name == name) else { continue };
        directive.told();
        let seconds = units::milliseconds(directive.argument(0)).map(|time| (time / 1000).clamp(1, 86_400));
        if let Some(seconds) = seconds {
            timeouts.text(key, &format!("{seconds} s"));
        }
    }
    if !timeouts.entries.is_empty() {
        document.tables.push(("timeouts".to_owned(), timeouts));
    }
    let log = http.iter().find(|directive| directive.name == "access_log");
    if let Some(log) = log {
        let path = log.argument(0);
        if path.starts_with('/') && !path.contains('$') {
            context.report.lost(
                log,
                format!("`{}`: no log is written", log.line()),
                "add [log] with file = \"FILE\" in a directory that the server's user may write",
            );
        }
    }
}

/// Lists what no translation has looked at.
fn sweep(context: &mut Context<'_>, directives: &[Directive]) {
    for directive in directives {
        if !directive.is_told() {
            let is_idle = idle::IDLE.contains(&directive.name.as_str());
            let is_off = directive.argument(0) == "off" && directive.arguments.len() == 1;
            if is_idle || is_off {
                context.report.idle(directive);
                directive.children().iter().for_each(tell_all);
                continue;
            }
            let what = format!("`{}` is not carried over", directive.line());
            context.report.lost(directive, what, idle::remedy(&directive.name));
        }
        sweep(context, directive.children());
    }
}

fn tell_all(directive: &Directive) {
    directive.told();
    directive.children().iter().for_each(tell_all);
}
