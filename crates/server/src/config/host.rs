//! Hosts and the tables of their paths.

use super::doubts::Place;
use super::routes::RoutePlace;
use super::said::{REDIRECTS, STATUSES, is_path, listed};
use super::table::{Table, Value};
use super::upstream::{self, Around, Mount};
use super::{acme, cache, client_certificates, header, networks, php, routes, scripts, site, users};
use crate::config::options::Options;
use crate::config::plain_file::read_file;
use crate::files::root::place::Place as RootPlace;
use crate::http::access::Access;
use crate::http::coding::CODINGS;
use crate::http::pattern::Pattern;
use crate::routing::auth::Auth;
use crate::routing::rate::{Rate, RateLimit};
use crate::routing::redirect::Redirect;
use crate::routing::rewrite::Page;
use crate::routing::rules::{Host, PATHS_MAX, Rules, SiteRules};
use crate::routing::settings::{Action, Said};
use crate::routing::sources;
use crate::site::settings::SiteKind;
use std::sync::Arc;
use std::time::Duration;

const HOSTS_MAX: usize = 4096;
const NAMES_MAX: usize = 253;
const PAGE_BYTES_MAX: u64 = 1 << 20;
/// Errors that are answered once it is known which host a request is for; others are answered before that.
const PAGES: [u16; 15] = [400, 401, 403, 404, 405, 410, 412, 414, 416, 429, 451, 500, 502, 503, 504];

/// Where the tables and the routes of hosts are in the file.
pub(super) type Places = (Vec<Place>, Vec<RoutePlace>);

/// Hosts, whose sites are served as the options say it where they say nothing themselves; the last are the names whose
/// certificates are to be obtained.
pub(super) fn read(table: &Table<'_, '_>, options: &Options) -> (Rules, Places, Option<Vec<String>>) {
    let mut rules = Rules { trusted: networks::trusted_proxies(table), ..Rules::default() };
    let (mut places, mut obtained) = (Places::default(), None::<Vec<String>>);
    let hosts = table.get("host").map(|value| value.tables("[[host]]")).unwrap_or_default();
    if hosts.is_empty() {
        table.wrong("there is no host", "add [[host]] with root = \"DIRECTORY\"");
    }
    if hosts.len() > HOSTS_MAX {
        table.wrong(format!("there are {} hosts", hosts.len()), format!("at most {HOSTS_MAX} are possible"));
    }
    for host in hosts.iter().take(HOSTS_MAX) {
        if let Some(names) = acme::names(host) {
            obtained.get_or_insert_default().extend(names);
        }
        read_host(host, options, &mut rules, &mut places);
    }
    (rules, places, obtained)
}

fn read_host(table: &Table<'_, '_>, options: &Options, rules: &mut Rules, (places, route_places): &mut Places) {
    // At most HOSTS_MAX of them are read.
    let number = rules.hosts.len() as u16;
    let name = names(table, number, rules);
    let mut said = read_said(table);
    places.push(Place::of(table, number, None));
    let kind = php::kind(table, site::read_root(table, options.site_kind(), options.sandbox));
    let site = table.get("root").and_then(|value| open_site(&value, kind.clone(), rules));
    if let (Some(root), Some(_)) = (table.get("root"), &said.action) {
        root.wrong("a redirect or status leaves nothing to serve from `root`", "keep one of them");
    }
    let root = site.map(|site| rules.sites[site].how.root.clone());
    let around = Around { mount: Mount::Host, root: root.as_deref(), options };
    said.action = with_upstream(table, said.action, &around, rules);
    said.cache = cache::read(table, rules);
    said.action = said.action.or(site.map(|site| Action::Files { site, mount_bytes: 0 }));
    let paths = table.get("path").map(|value| value.tables("[[host.path]]")).unwrap_or_default();
    let (mut routes, mut route_fields) = routes::read(table, number, &kind, options, (rules, route_places));
    let has_none = table.get("root").is_none() && !upstream::is_in(table);
    if has_none && said.action.is_none() && paths.is_empty() && routes.is_empty() {
        table.wrong(
            format!("the host {name} has nothing to serve"),
            "add root = \"DIRECTORY\", proxy = \"http://ADDRESS:PORT\", redirect = \"ADDRESS\", [[host.path]] or \
             [[host.route]]",
        );
    }
    if paths.len() > PATHS_MAX {
        table.wrong(format!("the host {name} has {} paths", paths.len()), format!("at most {PATHS_MAX} are possible"));
    }
    of_no_upstream(table, &paths);
    let has_root = table.get("root").is_some() || paths.iter().any(|path| path.get("root").is_some());
    if !has_root {
        of_no_root(table, "this host has none");
    }
    let (read, labels, scripts) = read_paths((table, &paths), (&said, &kind, number), &around, (rules, places));
    scripts.finish(table, &read, (&mut routes, &mut route_fields));
    takes_back_nothing(table, None, &[]);
    let client_authorities = client_certificates::of_host(table, &paths, options);
    let paths = read;
    table.finish();
    let is_of_neighbours = |pattern: &Pattern| CODINGS.into_iter().any(|coding| pattern.is_of_ending(coding.suffix()));
    let tells_neighbours = paths.iter().any(|(pattern, _)| is_of_neighbours(pattern));
    let source_endings = sources::endings(rules, std::iter::once(&said).chain(paths.iter().map(|(_, said)| said)));
    rules.hosts.push(Host {
        name: name.into(),
        line: table.line(),
        said,
        labels,
        routes,
        route_fields,
        paths,
        tells_neighbours,
        client_authorities,
        source_endings,
    });
}

/// Tables of paths with what they say, and how the file writes each, and in which line.
type PathTables = (Vec<(Pattern, Said)>, Vec<(String, usize)>, php::Scripts);

/// The tables of the paths of a host, each with those for its scripts behind it.
fn read_paths(
    (table, paths): (&Table<'_, '_>, &[Table<'_, '_>]),
    (said, kind, number): (&Said, &SiteKind, u16),
    around: &Around<'_>,
    (rules, places): (&mut Rules, &mut Vec<Place>),
) -> PathTables {
    let (mut read, mut labels) = (Vec::new(), Vec::new());
    let mut php = php::Scripts::of_host(table, said, around, rules);
    php.put(&mut read, &mut labels);
    scripts::look_alone(table);
    let mut scripts = scripts::ScriptTables::of_host(table, said, around, rules);
    php.leave(scripts.paths());
    scripts.put(&mut read, &mut labels);
    for path in paths.iter().take(PATHS_MAX) {
        takes_back_nothing(path, Some(said), &read);
        if let Some((pattern, own)) = read_path(path, kind, around, rules) {
            places.push(Place::of(path, number, Some(read.len())));
            labels.push((label(path), path.line()));
            php.of_path(path, &own, around, rules);
            scripts.of_path(path, &own, around, rules);
            read.push((pattern, own));
            php.put(&mut read, &mut labels);
            php.leave(scripts.paths());
            scripts.put(&mut read, &mut labels);
        }
    }
    (read, labels, php)
}

/// For which paths a table is, as it says it.
fn label(table: &Table<'_, '_>) -> String {
    let said = ["prefix", "exact", "glob"].into_iter().find_map(|kind| Some((kind, table.get(kind)?)));
    said.map_or_else(String::new, |(kind, value)| format!("{kind} {}", value.text()))
}

/// The first of the host's names; all of them are added.
fn names(table: &Table<'_, '_>, number: u16, rules: &mut Rules) -> String {
    let Some(value) = table.get("names") else {
        if !rules.names.add("*", number) {
            table.wrong("another host takes all names that no host has, too", "give this one names = [\"...\"]");
        }
        return "*".to_owned();
    };
    let mut first = None;
    let items = value.strings();
    for item in &items {
        let name = item.text().to_ascii_lowercase();
        if let Some(remedy) = name_problem(&name) {
            item.wrong(format!("\"{}\" is no name of a host", item.text()), remedy);
        } else if !rules.names.add(&name, number) {
            item.wrong(format!("the name {name} is taken by a host above"), "leave it away here or there");
        }
        first.get_or_insert(name);
    }
    if items.is_empty() {
        value.wrong("the host has no name", "leave `names` away for a host that takes all requests");
    }
    first.unwrap_or_else(|| "*".to_owned())
}

fn name_problem(name: &str) -> Option<&'static str> {
    if name == "*" {
        return None;
    }
    if name.contains("://") || name.contains('/') {
        return Some("give the name alone, without https:// or a path");
    }
    let bare = name.strip_prefix("*.").unwrap_or(name);
    if bare.starts_with('[') && bare.ends_with(']') {
        return None;
    }
    if bare.contains(':') {
        return Some("give the name without its port; `listen` has the ports");
    }
    if bare.contains('*') {
        return Some("an asterisk stands at the beginning only, as in *.example.org");
    }
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
    let is_good = !bare.is_empty() && bare.len() <= NAMES_MAX && bare.bytes().all(is_letter) && !bare.ends_with('.');
    if is_good { None } else { Some("give a name such as example.org (beyond ASCII as xn--...), an address, or *") }
}

/// A table of a path; none if it does not say which.
fn read_path(
    table: &Table<'_, '_>,
    of_host: &SiteKind,
    of_all: &Around<'_>,
    rules: &mut Rules,
) -> Option<(Pattern, Said)> {
    let kinds = [("prefix", table.get("prefix")), ("exact", table.get("exact")), ("glob", table.get("glob"))];
    let given: Vec<_> = kinds.into_iter().filter_map(|(kind, value)| Some((kind, value?))).collect();
    let pattern = match given.as_slice() {
        [(kind, value)] => pattern(kind, value),
        [] => {
            table.wrong(
                "the table does not say for which paths it is",
                "add prefix = \"/...\", exact = \"/...\" or glob = \"...\"",
            );
            None
        }
        [_, (kind, value), ..] => {
            value.wrong(format!("`{kind}` and `{}` do not go together", given[0].0), "keep one of them");
            None
        }
    };
    let prefix_bytes = match &pattern {
        Some(Pattern::Prefix(prefix)) => Some(prefix.len()),
        _ => None,
    };
    let mut said = read_said_of(table, prefix_bytes);
    let mount = match &pattern {
        Some(Pattern::Prefix(prefix)) => Mount::Prefix(prefix),
        Some(Pattern::Exact(path)) => Mount::Exact(path),
        _ => Mount::Glob,
    };
    said.action = with_upstream(table, said.action, &Around { mount, ..*of_all }, rules);
    said.cache = cache::read(table, rules);
    let kind = php::kind(table, site::read_root(table, of_host.clone(), of_all.options.sandbox));
    scripts::look_alone(table);
    said.is_internal = table.get("internal").and_then(|value| value.boolean());
    match table.get("root") {
        Some(value) if prefix_bytes.is_none() && pattern.is_some() => {
            value.wrong(
                "`root` stands for a prefix, and this table has none",
                "write prefix = \"/...\" or leave `root` away",
            );
        }
        Some(value) => {
            let site = open_site(&value, kind, rules);
            if said.action.is_some() {
                value.wrong("a redirect or status leaves nothing to serve from `root`", "keep one of them");
            }
            said.action =
                said.action.or(site.map(|site| Action::Files { site, mount_bytes: prefix_bytes.unwrap_or(0) }));
        }
        None => of_no_root(table, "this table has none"),
    }
    if table.entries().iter().all(|(key, _, _)| ["prefix", "exact", "glob"].contains(&key.as_str())) {
        table.wrong("the table says nothing of its paths", "add what holds for them, or leave the table away");
    }
    table.finish();
    Some((pattern?, said))
}

/// What a table does with a request by its redirect or status, or else by its upstream.
fn with_upstream(table: &Table<'_, '_>, own: Option<Action>, around: &Around<'_>, rules: &mut Rules) -> Option<Action> {
    let upstream = upstream::read(table, around, rules);
    if let (Some(_), Some((value, _))) = (&own, &upstream) {
        value.wrong("a redirect or status leaves nothing for an upstream to answer", "keep one of them");
    }
    if let (Some(root), Some(_)) = (table.get("root"), &upstream) {
        root.wrong(
            "an upstream leaves nothing to serve from `root`",
            "give the upstream a [[host.path]] of its own; scripts take the `root` of their host",
        );
        return None;
    }
    own.or(upstream.map(|(_, number)| Action::Upstream(number)))
}

/// What belongs to a root is nothing without one.
fn of_no_root(table: &Table<'_, '_>, which: &str) {
    for key in site::KEYS {
        if let Some(value) = table.get(key) {
            value.wrong(
                format!("`{key}` belongs to a root, and {which}"),
                "add root = \"DIRECTORY\", or say it where there is one",
            );
        }
    }
}

/// A cache keeps nothing where no upstream answers.
fn of_no_upstream(table: &Table<'_, '_>, paths: &[Table<'_, '_>]) {
    let tables = || std::iter::once(table).chain(paths);
    if tables().any(upstream::is_in) {
        return;
    }
    for value in tables().filter_map(|table| table.get("cache")).filter(|value| !value.is_false()) {
        value.wrong(
            "`cache` keeps responses of upstreams, and this host has none",
            "add proxy = \"http://ADDRESS:PORT\", or leave it away: files are kept in memory by the `cache` of the top",
        );
    }
}

/// `false` takes back what was said before: tells of one before which nothing was.
fn takes_back_nothing(table: &Table<'_, '_>, host: Option<&Said>, paths: &[(Pattern, Said)]) {
    let (mut has_auth, mut has_rate) = (false, false);
    for said in host.into_iter().chain(paths.iter().map(|(_, said)| said)) {
        has_auth |= matches!(said.auth, Some(Some(_)));
        has_rate |= matches!(said.rate, Some(Some(_)));
    }
    for (key, has) in [("auth", has_auth), ("rate", has_rate)] {
        if let Some(value) = table.get(key).filter(|value| !has && value.is_false()) {
            value.doubt(
                format!("`{key} = false` takes nothing back: no table before this one says `{key}`"),
                "leave it away, or put the table behind the one that is meant",
            );
        }
    }
}

fn pattern(kind: &str, value: &Value<'_, '_>) -> Option<Pattern> {
    is_path(kind, value)?;
    let text = value.text();
    match kind {
        "prefix" => Some(Pattern::Prefix(text.into())),
        "exact" => Some(Pattern::Exact(text.into())),
        _ => {
            let glob = Pattern::glob(text);
            if glob.is_none() {
                value.wrong("the pattern is too large", "write a shorter one");
            }
            glob
        }
    }
}

fn read_said(table: &Table<'_, '_>) -> Said {
    read_said_of(table, None)
}

/// What hosts and paths can say alike.
fn read_said_of(table: &Table<'_, '_>, prefix_bytes: Option<usize>) -> Said {
    let mut said = Said {
        action: action(table, prefix_bytes),
        access: access(table),
        auth: auth(table),
        rate: rate(table),
        ..Said::default()
    };
    header::read(table, &mut said);
    client_certificates::read(table, &mut said);
    if let Some(pages) = table.get("error_pages").and_then(|value| value.table("error_pages")) {
        for (status, span, value) in pages.entries() {
            let number = if status == "other" {
                Some(0)
            } else {
                status.parse().ok().filter(|number| (400..600).contains(number))
            };
            match number {
                Some(number) if number > 0 && !PAGES.contains(&number) => table.reader.wrong(
                    span.start,
                    format!("{number} is never answered for a path of a host"),
                    format!("write one of {}, or `other`", listed(&PAGES)),
                ),
                Some(number) => said.pages.extend(page(&value).map(|page| (number, Arc::new(page)))),
                None => table.reader.wrong(
                    span.start,
                    format!("`{status}` is no error"),
                    "write a status from 400 to 599, or `other`",
                ),
            }
        }
    }
    said
}

fn action(table: &Table<'_, '_>, prefix_bytes: Option<usize>) -> Option<Action> {
    let (redirect, status) = (table.get("redirect"), table.get("status"));
    let number = status.as_ref().and_then(|value| value.integer(100..=599)).map(|number| number as u16);
    let one_of = |list: &[u16]| format!("write one of {}", listed(list));
    match (redirect, &status) {
        (Some(value), _) => {
            if let (Some(number), Some(status)) = (number, &status)
                && !REDIRECTS.contains(&number)
            {
                status.wrong(format!("{number} is no status of a redirect"), one_of(&REDIRECTS));
            }
            match Redirect::read(value.string()?, number.unwrap_or(301), prefix_bytes) {
                Ok(redirect) => Some(Action::Redirect(Arc::new(redirect))),
                Err(remedy) => {
                    value.wrong("the address cannot be redirected to", remedy);
                    None
                }
            }
        }
        (None, Some(status)) => {
            let number = number?;
            if REDIRECTS.contains(&number) {
                status.wrong(format!("{number} sends clients elsewhere, but not where"), "add redirect = \"ADDRESS\"");
            } else if !STATUSES.contains(&number) {
                status.wrong(format!("{number} cannot be answered just so"), one_of(&STATUSES));
            }
            Some(Action::Status(number))
        }
        (None, None) => None,
    }
}

fn access(table: &Table<'_, '_>) -> Option<Arc<Access>> {
    let networks = |key| table.get(key).map(|value| networks::read(&value));
    let (allowed, denied) = (networks("allow"), networks("deny"));
    if allowed.is_none() && denied.is_none() {
        return None;
    }
    Some(Arc::new(Access::new(&allowed.unwrap_or_default(), &denied.unwrap_or_default())))
}

fn auth(table: &Table<'_, '_>) -> Option<Option<Arc<Auth>>> {
    let value = table.get("auth")?;
    if value.is_false() {
        return Some(None);
    }
    let own = value.table("auth")?;
    let realm = own.get("realm").and_then(|value| Some((value.string()?, value))).map_or("weir", |(realm, value)| {
        if !realm.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\') {
            value.wrong("the realm cannot be sent", "keep to ASCII, without quotes and backslashes");
        }
        realm
    });
    let users = match own.get("users") {
        Some(value) => users::read(&value),
        None => {
            own.wrong("there are no users", "add users = \"FILE\", with a line NAME:HASH for each");
            None
        }
    };
    own.finish();
    Some(Some(Arc::new(Auth::new(realm, users?))))
}

fn rate(table: &Table<'_, '_>) -> Option<Option<Arc<Rate>>> {
    let value = table.get("rate")?;
    if value.is_false() {
        return Some(None);
    }
    let own = value.table("rate")?;
    let number = |key, within| own.get(key).and_then(|value| value.integer(within));
    let requests = number("requests", 1..=1_000_000);
    let per = own.get("per").map_or(Some(Duration::from_secs(1)), |value| {
        value.duration(Duration::from_millis(1)..=Duration::from_secs(86_400))
    });
    let burst = number("burst", 1..=1_000_000).or(requests);
    let bits = [number("ipv4_bits", 1..=32).unwrap_or(32), number("ipv6_bits", 1..=128).unwrap_or(64)];
    if own.get("requests").is_none() {
        own.wrong("the rate does not say how much", "add requests = 10, and per = \"1 min\" if a second is not meant");
    }
    own.finish();
    let interval_ns = u64::try_from(per?.as_nanos()).unwrap_or(u64::MAX) / requests?;
    // The bounds above fit.
    let limit = RateLimit { interval_ns: interval_ns.max(1), burst: burst? as u32, bits: bits.map(|bits| bits as u32) };
    Some(Some(Arc::new(Rate::new(limit))))
}

fn page(value: &Value<'_, '_>) -> Option<Page> {
    let path = value.path()?;
    let text = read_file(&path, PAGE_BYTES_MAX);
    match text {
        Ok(text) => Some(Page {
            content_type: crate::http::media_type::of(
                path.as_os_str().as_encoded_bytes(),
                &crate::http::media_type::Overrides::new(),
            ),
            text,
        }),
        Err(what) => {
            value.wrong(format!("{}: {what}", path.display()), "give a file with the page, at most 1 MiB");
            None
        }
    }
}

/// The number of the site that serves this root so.
fn open_site(value: &Value<'_, '_>, kind: SiteKind, rules: &mut Rules) -> Option<usize> {
    let how = SiteKind { root: value.path()?, ..kind };
    if let Some(known) = rules.sites.iter().position(|site| site.how == how) {
        return Some(known);
    }
    match RootPlace::open(&how.root) {
        Ok(place) => {
            rules.sites.push(SiteRules { how, place });
            Some(rules.sites.len() - 1)
        }
        Err(error) => {
            value.wrong(format!("{}: {error}", how.root.display()), "give a directory that is there and can be read");
            None
        }
    }
}
