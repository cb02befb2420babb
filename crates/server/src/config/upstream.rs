//! Upstreams: `proxy`, `fastcgi`, `scgi` and `uwsgi` of a host or of a path.

use super::table::{Table, Value};
use super::upstream_address::{self, Address, Scheme};
use super::upstream_protocol;
use crate::config::options::Options;
use crate::http::authority;
use crate::http::request::is_token;
use crate::io::listen::ListenAddr;
use crate::routing::rules::Rules;
use crate::upstream::common::Common;
use crate::upstream::script_pool::ScriptWay;
use crate::upstream::settings::{
    Balance, ForwardingFields, Gateway, HashOf, HealthRules, LimitBy, PathRule, Place, PoolBounds, ProbeRules,
    RetryRules, SERVERS_MAX, Speaks, UpstreamRules, UpstreamServer, UpstreamTimeouts, UpstreamTls, WEIGHT_MAX,
};
use crate::upstream::trust::Trust;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The keys of upstreams, and what is spoken with each.
const KEYS: [(&str, Speaks); 4] =
    [("proxy", Speaks::Http1), ("fastcgi", Speaks::FastCgi), ("scgi", Speaks::Scgi), ("uwsgi", Speaks::Uwsgi)];
/// Different upstreams of a configuration.
const UPSTREAMS_MAX: usize = 1024;
/// Further parameters of one upstream, endings of its scripts, and statuses that are tried again.
const LIST_MAX: usize = 64;
const DAY: Duration = Duration::from_secs(86_400);
const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=DAY;
/// How long addresses of a name hold: getaddrinfo(3) does not say it.
const RESOLVE_EVERY: Duration = Duration::from_secs(10);

/// Where an upstream stands in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) mount: Mount<'a>,
    /// The root of the host.
    pub(super) root: Option<&'a Path>,
    pub(super) options: &'a Options,
}

/// For which paths it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mount<'a> {
    Host,
    Prefix(&'a [u8]),
    Exact(&'a [u8]),
    Glob,
}

impl Mount<'_> {
    /// Bytes of a path that another path stands for; None for a glob, of which that cannot be said.
    fn bytes(self) -> Option<usize> {
        match self {
            Self::Host => Some(0),
            Self::Prefix(path) | Self::Exact(path) => Some(path.len()),
            Self::Glob => None,
        }
    }

    /// What of a path is an application's SCRIPT_NAME.
    fn script_name(self) -> String {
        match self {
            Self::Prefix(path) => String::from_utf8_lossy(path.strip_suffix(b"/").unwrap_or(path)).into_owned(),
            _ => String::new(),
        }
    }
}

/// Whether a table has an upstream, be it with mistakes.
pub(super) fn is_in(table: &Table<'_, '_>) -> bool {
    let runs = |key| table.get(key).is_some_and(|value: Value<'_, '_>| !value.is_false());
    KEYS.iter().any(|(key, _)| table.get(key).is_some())
        || runs("php")
        || ScriptWay::ALL.into_iter().any(|way| runs(way.key()))
}

/// The upstream of a table, by its number among the rules.
pub(super) fn read<'r, 't>(
    table: &Table<'r, 't>,
    around: &Around<'_>,
    rules: &mut Rules,
) -> Option<(Value<'r, 't>, usize)> {
    let mut given = KEYS.into_iter().filter_map(|(key, speaks)| Some((key, speaks, table.get(key)?)));
    let (key, speaks, value) = given.next()?;
    for (other, _, value) in given {
        value.wrong(format!("`{other}` and `{key}` do not go together"), "keep one of them, or give each its own path");
    }
    let (read, trust) = one(key, speaks, &value, around)?;
    let number = enter(&value, (read, trust), rules)?;
    Some((value, number))
}

/// The number of an upstream among the rules; equal ones are one.
pub(super) fn enter(
    value: &Value<'_, '_>,
    (read, trust): (UpstreamRules, Option<Trust>),
    rules: &mut Rules,
) -> Option<usize> {
    let known = rules.upstreams.iter().position(|known| known.rules == read);
    if known.is_none() && rules.upstreams.len() == UPSTREAMS_MAX {
        value.wrong("there are too many upstreams", format!("at most {UPSTREAMS_MAX} different ones are possible"));
        return None;
    }
    Some(known.unwrap_or_else(|| {
        let mut common = Common::new(read, trust);
        common.join(&rules.upstreams);
        rules.upstreams.push(Arc::new(common));
        rules.upstreams.len() - 1
    }))
}

fn one(
    key: &str,
    speaks: Speaks,
    value: &Value<'_, '_>,
    around: &Around<'_>,
) -> Option<(UpstreamRules, Option<Trust>)> {
    let table = if value.is_table() { value.table(key) } else { None };
    let to = match &table {
        Some(table) => {
            let to = table.get("to");
            if to.is_none() {
                table.wrong("it does not say where to", format!("add to = {}", example(speaks)));
            }
            to?
        }
        None => value.alone(),
    };
    let (servers, mut path) = servers(&to, speaks, around);
    let mut rules = UpstreamRules {
        name: servers.first().map(|server| server.place.to_string()).unwrap_or_default(),
        servers: servers.clone(),
        speaks: speaks_in(&to, speaks),
        balance: Balance::Waiting,
        timeouts: UpstreamTimeouts::default(),
        pool: PoolBounds::default(),
        retries: RetryRules::default(),
        health: HealthRules::default(),
        forwarding: ForwardingFields::XForwarded,
        host: None,
        tls: UpstreamTls::default(),
        streams_max: upstream_protocol::STREAMS,
        proxy_header: None,
        path: PathRule::Unchanged,
        gateway: None,
        resolve_every: RESOLVE_EVERY,
        accel: false,
        send_from: Vec::new(),
        php: None,
        scripts: None,
    };
    if speaks == Speaks::FastCgi && !table.as_ref().is_some_and(says_workers) {
        // A worker of php-fpm serves one connection until that is closed: those that are kept would hold up the others.
        rules.pool.idle_max = 0;
    }
    if let Some(table) = &table {
        read_common(table, &mut rules);
        if speaks == Speaks::Http1 {
            read_http(table, &mut rules, &mut path);
        }
    }
    if let Some(path) = path {
        match around.mount.bytes() {
            Some(mount_bytes) => rules.path = PathRule::Instead { mount_bytes, path },
            None => to.wrong(
                format!("the path {path} stands for a prefix, and this table is for a glob"),
                "leave the path away, or write prefix = \"/...\"",
            ),
        }
    }
    if speaks == Speaks::Http1 {
        upstream_protocol::read(table.as_ref(), &to, &mut rules);
    } else {
        upstream_protocol::read_gateway(table.as_ref(), &to, &mut rules);
        rules.gateway = Some(gateway(value, table.as_ref(), speaks, around));
    }
    table.iter().for_each(Table::finish);
    doubts(&to, &rules, around);
    let trust = upstream_protocol::trust(table.as_ref(), &to, &mut rules);
    if servers.is_empty() { None } else { Some((rules, trust)) }
}

fn example(speaks: Speaks) -> &'static str {
    match speaks {
        Speaks::Http1 | Speaks::Http2 => "\"http://127.0.0.1:9000\"",
        _ => "\"127.0.0.1:9000\"",
    }
}

/// HTTP/2 where all addresses say so.
fn speaks_in(to: &Value<'_, '_>, speaks: Speaks) -> Speaks {
    let is_h2c = |item: &Value<'_, '_>| item.is_text() && item.text().to_ascii_lowercase().starts_with("h2c://");
    let texts: Vec<bool> = to.items().iter().map(|item| target_of(item).is_some_and(|text| is_h2c(&text))).collect();
    if texts.contains(&true) && texts.contains(&false) {
        to.wrong("h2c:// and other addresses do not go together", "write the same scheme for all servers");
    }
    if texts.contains(&true) { Speaks::Http2 } else { speaks }
}

/// The text with the address of an item of `to`.
fn target_of<'r, 't>(item: &Value<'r, 't>) -> Option<Value<'r, 't>> {
    if item.is_table() { item.table("to")?.get("to") } else { Some(item.alone()) }
}

/// The servers, and the path that the first address has.
fn servers(to: &Value<'_, '_>, speaks: Speaks, around: &Around<'_>) -> (Vec<UpstreamServer>, Option<String>) {
    let items = to.items();
    let (mut servers, mut path): (Vec<UpstreamServer>, Option<Option<String>>) = (Vec::new(), None);
    if items.is_empty() {
        to.wrong("there is no server", format!("write {}", example(speaks)));
    }
    if items.len() > SERVERS_MAX {
        to.wrong(format!("there are {} servers", items.len()), format!("at most {SERVERS_MAX} are possible"));
    }
    for item in items.iter().take(SERVERS_MAX) {
        let Some((value, address, weight)) = server(item, speaks) else { continue };
        if path.get_or_insert_with(|| address.path.clone()) != &address.path {
            value.wrong("servers of one upstream have the same path", "write the same path behind all addresses");
        }
        let place = match address.place {
            Place::Unix(path) => Place::Unix(value.in_folder(&path)),
            other => other,
        };
        if servers.iter().any(|server| server.place == place) {
            value.wrong(format!("{place} is there twice"), "leave one away; `weight` gives a server a larger share");
        }
        if leads_back(&place, around.options) {
            value.doubt(format!("{place} is this server itself"), "give the address of the application");
        }
        let tls_name = address.host.filter(|_| matches!(address.scheme, Scheme::Https | Scheme::Tls));
        servers.push(UpstreamServer { place, weight, tls_name });
    }
    (servers, path.flatten())
}

fn server<'r, 't>(item: &Value<'r, 't>, speaks: Speaks) -> Option<(Value<'r, 't>, Address, u32)> {
    let mut weight = 1;
    let value = if item.is_table() {
        let table = item.table("a server")?;
        if let Some(number) = table.get("weight").and_then(|value| value.integer(1..=u64::from(WEIGHT_MAX))) {
            weight = number as u32;
        }
        let to = table.get("to");
        if to.is_none() {
            table.wrong("it does not say where to", format!("add to = {}", example(speaks)));
        }
        table.finish();
        to?
    } else {
        item.alone()
    };
    match upstream_address::read(value.string()?, speaks) {
        Ok(address) => Some((value, address, weight)),
        Err(remedy) => {
            value.wrong(format!("\"{}\" is no address of an upstream", without_user(value.text())), remedy);
            None
        }
    }
}

/// What stands before an `@` may be a password.
fn without_user(text: &str) -> &str {
    text.rsplit_once('@').map_or(text, |(_, rest)| rest)
}

/// Whether a place is one of the addresses that this server listens on.
fn leads_back(place: &Place, options: &Options) -> bool {
    options.listen.iter().chain(&options.listen_clear).any(|own| match (own, place) {
        (ListenAddr::Every { port }, Place::Address(address)) => {
            *port == address.port() && (address.ip().is_loopback() || address.ip().is_unspecified())
        }
        (ListenAddr::Each(list), Place::Address(address)) => list.contains(address),
        (ListenAddr::Unix(own), Place::Unix(path)) => own == path,
        _ => false,
    })
}

/// What is accepted, and seldom meant.
fn doubts(to: &Value<'_, '_>, rules: &UpstreamRules, around: &Around<'_>) {
    let is_near = |address: IpAddr| match address.to_canonical() {
        IpAddr::V4(address) => {
            address.is_loopback() || address.is_private() || address.is_link_local() || address.is_unspecified()
        }
        IpAddr::V6(address) => {
            address.is_loopback()
                || address.is_unique_local()
                || address.is_unicast_link_local()
                || address.is_unspecified()
        }
    };
    let options = around.options;
    let has_tls = !options.certificates.is_empty() || options.obtain.is_some();
    let mut in_clear = rules.servers.iter().filter(|server| server.tls_name.is_none());
    let far = in_clear.find(|server| server.address().is_some_and(|address| !is_near(address)));
    if let Some(server) = far.filter(|_| has_tls) {
        to.doubt(
            format!("what clients send over TLS, passwords included, goes to {} in the clear", server.place),
            match rules.speaks {
                Speaks::FastCgi => "write tls:HOST:PORT, or reach it through a private network",
                Speaks::Scgi | Speaks::Uwsgi => "reach it through a private network",
                _ => "write https://, or reach it through a private network",
            },
        );
    }
    if rules.servers.len() == 1 && !matches!(rules.balance, Balance::Waiting) {
        to.doubt("`balance` chooses among servers, and there is one", "add further servers, or leave `balance` away");
    }
}

/// Whether it says how many workers a FastCGI server has, as a number of connections.
fn says_workers(table: &Table<'_, '_>) -> bool {
    table.get("connections").is_some_and(|value| value.is_integer())
}

/// What all upstreams can say.
fn read_common(table: &Table<'_, '_>, rules: &mut UpstreamRules) {
    if let Some(value) = table.get("balance") {
        match value.string().map(balance) {
            Some(Some(balance)) => rules.balance = balance,
            Some(None) => value.wrong(
                format!("there is no balance \"{}\"", value.text()),
                "write \"waiting\", \"round robin\", \"hash of cookie NAME\", \"hash of header NAME\", \"hash of \
                 client\", \"hash of path\" or \"sticky NAME\"",
            ),
            None => {}
        }
    }
    if let Some(value) = table.get("connections") {
        if value.is_text() {
            match value.text() {
                "measured" => rules.pool.limit = LimitBy::Measured,
                other => value.wrong(format!("\"{other}\" is no bound"), "write a number, or \"measured\""),
            }
        } else if let Some(number) = value.integer(1..=1_000_000) {
            rules.pool.connections_max = number as usize;
        }
    }
    let count = |key, to: &mut usize, within| {
        if let Some(number) = table.get(key).and_then(|value| value.integer(within)) {
            *to = number as usize;
        }
    };
    if let Some(name) = name(table) {
        rules.name = name;
    }
    count("keep", &mut rules.pool.idle_max, 0..=1_000_000);
    count("queue", &mut rules.pool.queue_max, 0..=1_000_000);
    if let Some(value) = table.get("queue_wait") {
        if rules.pool.queue_max == 0 {
            value.wrong("`queue_wait` means nothing without a queue", "leave it away, or queue = 0");
        }
        if value.is_false() {
            rules.pool.queue_wait = None;
        } else if let Some(wait) = value.duration(TIMES) {
            rules.pool.queue_wait = Some(wait);
        }
    }
    if let Some(timeouts) = table.get("timeouts").and_then(|value| value.table("timeouts")) {
        read_timeouts(&timeouts, &mut rules.timeouts);
    }
    if let Some(value) = table.get("resolve").and_then(|value| value.duration(Duration::from_secs(1)..=DAY)) {
        rules.resolve_every = value;
    }
    if let Some(value) = table.get("retries") {
        read_retries(&value, &mut rules.retries);
    }
    if let Some(value) = table.get("health") {
        read_health(&value, &mut rules.health);
    }
    (rules.accel, rules.send_from) = handover(table, false);
}

/// The name by which rules call an upstream, if its table gives one.
pub(super) fn name(table: &Table<'_, '_>) -> Option<String> {
    let value = table.get("name")?;
    let text = value.string().unwrap_or("upstream");
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if !text.starts_with(|letter: char| letter.is_ascii_alphabetic()) || !text.chars().all(is_letter) {
        value.wrong(format!("\"{text}\" is no name that rules can say"), "write letters, digits, - and _, as in php");
    }
    Some(text.to_owned())
}

/// Whether an upstream may hand requests over, and files of which directories.
pub(super) fn handover(table: &Table<'_, '_>, otherwise: bool) -> (bool, Vec<PathBuf>) {
    let accel = table.get("accel").and_then(|value| value.boolean()).unwrap_or(otherwise);
    let mut send_from = Vec::new();
    for item in table.get("send_from").map(|value| value.strings()).unwrap_or_default().iter().take(LIST_MAX) {
        let path = item.in_folder(item.text().as_ref());
        if !path.is_dir() {
            item.wrong(format!("{} is no directory", path.display()), "give one with files that may be sent");
        }
        send_from.push(path);
    }
    if let Some(value) = table.get("send_from").filter(|_| !accel) {
        value.wrong("`send_from` means nothing where nothing is handed over", "add accel = true, or leave it away");
    }
    (accel, send_from)
}

/// `balance`, without its mistakes.
fn balance(text: &str) -> Option<Balance> {
    let name = |name: &str| Some(name.to_owned()).filter(|name| is_token(name.as_bytes()));
    let words: Vec<&str> = text.split_whitespace().collect();
    match *words.as_slice() {
        ["waiting"] => Some(Balance::Waiting),
        ["round", "robin"] => Some(Balance::RoundRobin),
        ["hash", "of", "client"] => Some(Balance::Hash(HashOf::Client)),
        ["hash", "of", "path"] => Some(Balance::Hash(HashOf::Path)),
        ["hash", "of", "cookie", own] => Some(Balance::Hash(HashOf::Cookie(name(own)?))),
        ["hash", "of", "header", own] => Some(Balance::Hash(HashOf::Header(name(own)?.to_ascii_lowercase()))),
        ["sticky", own] => Some(Balance::Sticky(name(own)?)),
        _ => None,
    }
}

fn read_timeouts(table: &Table<'_, '_>, timeouts: &mut UpstreamTimeouts) {
    let time = |key, to: &mut Duration| {
        if let Some(duration) = table.get(key).and_then(|value| value.duration(TIMES)) {
            *to = duration;
        }
    };
    time("connect", &mut timeouts.connect);
    time("send", &mut timeouts.send);
    time("head", &mut timeouts.head);
    time("body", &mut timeouts.body);
    time("tunnel", &mut timeouts.tunnel);
    time("idle", &mut timeouts.idle);
    time("queue", &mut timeouts.queue);
    table.finish();
}

/// `retries`: false, how often a request is sent again, or a table.
fn read_retries(value: &Value<'_, '_>, retries: &mut RetryRules) {
    const AGAIN: RangeInclusive<u64> = 0..=10;
    if value.is_false() {
        retries.tries_max = 1;
        return;
    }
    if value.is_integer() {
        if let Some(again) = value.integer(AGAIN) {
            retries.tries_max = again as u32 + 1;
        }
        return;
    }
    let Some(table) = value.table("retries") else { return };
    let number = |key, within| table.get(key).and_then(|value| value.integer(within)).map(|number| number as u32);
    if let Some(again) = number("again", AGAIN) {
        retries.tries_max = again + 1;
    }
    retries.budget_percent = number("percent", 0..=100).unwrap_or(retries.budget_percent);
    retries.budget_min = number("least", 0..=10_000).unwrap_or(retries.budget_min);
    for item in table.get("statuses").map(|value| value.items()).unwrap_or_default().iter().take(LIST_MAX) {
        if let Some(status) = item.integer(500..=599) {
            retries.statuses.push(status as u16);
        }
    }
    table.finish();
}

/// `health`: false, or a table of what requests and probes tell.
fn read_health(value: &Value<'_, '_>, health: &mut HealthRules) {
    if value.is_false() {
        (health.passive.failures, health.passive.percent) = (0, 0);
        return;
    }
    let Some(table) = value.table("health") else { return };
    let number = |key, within, otherwise: u32| {
        table.get(key).and_then(|value: Value<'_, '_>| value.integer(within)).map_or(otherwise, |number| number as u32)
    };
    let time = |key, otherwise| table.get(key).and_then(|value| value.duration(TIMES)).unwrap_or(otherwise);
    let passive = &mut health.passive;
    passive.failures = number("failures", 0..=10_000, passive.failures);
    passive.percent = number("percent", 0..=100, passive.percent);
    passive.requests_min = number("requests", 1..=1_000_000, passive.requests_min);
    passive.window = time("window", passive.window);
    passive.back_off = time("out", passive.back_off);
    passive.back_off_max = time("out_max", passive.back_off_max.max(passive.back_off));
    if passive.back_off_max < passive.back_off {
        table.wrong("`out` is longer than `out_max`", "make `out_max` the longer one");
    }
    let slow_start = table.get("slow_start").and_then(|value| value.duration(Duration::ZERO..=DAY));
    health.slow_start = slow_start.unwrap_or(health.slow_start);
    let path = table.get("path");
    let every = time("every", Duration::from_secs(5));
    let mut probe = ProbeRules {
        path: "/".to_owned(),
        every,
        timeout: time("timeout", every.min(Duration::from_secs(5))),
        rise: number("rise", 1..=100, 2),
        fall: number("fall", 1..=100, 3),
        statuses: table.get("status").and_then(|value| statuses(&value)).unwrap_or((200, 399)),
    };
    match path {
        Some(path) => {
            let text = path.string().unwrap_or("/");
            if !text.starts_with('/') || !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
                path.wrong(format!("\"{text}\" is no path"), "write one such as \"/health\", in ASCII");
            }
            probe.path = text.to_owned();
            health.probe = Some(probe);
        }
        None => {
            for key in ["every", "timeout", "rise", "fall", "status"] {
                if let Some(value) = table.get(key) {
                    value.wrong(format!("`{key}` means nothing without `path`"), "add path = \"/health\"");
                }
            }
        }
    }
    table.finish();
}

/// `"200"` or `"200-399"`.
fn statuses(value: &Value<'_, '_>) -> Option<(u16, u16)> {
    let text = value.string()?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let status = |text: &str| text.trim().parse::<u16>().ok().filter(|status| (100..=599).contains(status));
    let found = status(first).zip(status(last)).filter(|(first, last)| first <= last);
    if found.is_none() {
        value.wrong(format!("\"{text}\" are no statuses"), "write one, or the first and the last as in \"200-399\"");
    }
    found
}

/// What only HTTP has.
fn read_http(table: &Table<'_, '_>, rules: &mut UpstreamRules, path: &mut Option<String>) {
    if let Some(value) = table.get("host") {
        let text = value.string().unwrap_or_default();
        if text.is_empty() || !authority::is_host(text.as_bytes()) {
            value.wrong(format!("\"{text}\" is no value of Host"), "write a name, and perhaps a port behind a colon");
        }
        rules.host = Some(text.to_owned());
    }
    if let Some(value) = table.get("forwarded") {
        match value.string() {
            Some("x-forwarded") => rules.forwarding = ForwardingFields::XForwarded,
            Some("forwarded") => rules.forwarding = ForwardingFields::Forwarded,
            Some("both") => rules.forwarding = ForwardingFields::Both,
            Some("none") => rules.forwarding = ForwardingFields::None,
            Some(other) => value.wrong(
                format!("\"{other}\" are no fields that tell of the client"),
                "write \"x-forwarded\", \"forwarded\", \"both\" or \"none\"",
            ),
            None => {}
        }
    }
    if let Some(value) = table.get("path") {
        let text = value.string().unwrap_or("/");
        if let Err(remedy) = upstream_address::path_problem(text) {
            value.wrong(format!("\"{text}\" is no path for an upstream"), remedy);
        }
        if path.is_some() {
            value.wrong("the address has a path already", "keep one of them");
        }
        *path = Some(text.to_owned());
    }
}

/// What only FastCGI, SCGI and uwsgi have.
fn gateway(value: &Value<'_, '_>, table: Option<&Table<'_, '_>>, speaks: Speaks, around: &Around<'_>) -> Gateway {
    let is_php = speaks == Speaks::FastCgi;
    let mut gateway = Gateway {
        root: around.root.map(Path::to_owned),
        endings: if is_php { vec![".php".to_owned()] } else { Vec::new() },
        mount: around.mount.script_name(),
        ..Gateway::default()
    };
    let get = |key| table.and_then(|table| table.get(key));
    if let Some(root) = get("root").and_then(|value| value.path()) {
        gateway.root = Some(root);
    }
    if let Some(value) = get("endings") {
        gateway.endings = endings(&value, ".php");
    }
    gateway.index = gateway.endings.first().map(|ending| format!("index{ending}"));
    if let Some(value) = get("index") {
        let text = value.string().unwrap_or("index.php");
        if text.is_empty() || text.contains(['/', '\0']) || text == "." || text == ".." {
            value.wrong(format!("\"{text}\" is no name of a file"), "such as index.php");
        }
        gateway.index = Some(text.to_owned());
    }
    if let Some(value) = get("script_name") {
        match value.string() {
            Some("") => gateway.mount.clear(),
            Some(_) => value.wrong(
                "SCRIPT_NAME is the prefix of the table",
                "write \"\" if the application is to see the whole path as its own, or leave it away",
            ),
            None => {}
        }
    }
    if let Some(table) = get("params").and_then(|value| value.table("params")) {
        gateway.params = params(&table);
    }
    gateway.passes_authorization = get("authorization").and_then(|value| value.boolean()).unwrap_or(false);
    if !gateway.endings.is_empty() && gateway.root.is_none() {
        value.wrong(
            "it does not say where the scripts lie",
            "add root = \"DIRECTORY\" to it or to the host; endings = [] if all paths are one application's",
        );
    }
    gateway
}

/// How names of scripts end.
pub(super) fn endings(value: &Value<'_, '_>, example: &str) -> Vec<String> {
    let mut endings = Vec::new();
    for item in value.strings().iter().take(LIST_MAX) {
        let text = item.text();
        if !is_ending(text) {
            item.wrong(format!("\"{text}\" is no ending of a name"), format!("write one such as \"{example}\""));
        }
        endings.push(text.to_owned());
    }
    endings
}

/// Whether names of files can end so, with a dot at the beginning.
pub(super) fn is_ending(text: &str) -> bool {
    text.starts_with('.') && text.len() > 1 && !text.contains(['/', '\0'])
}

pub(super) fn params(table: &Table<'_, '_>) -> Vec<(String, String)> {
    let entries = table.entries();
    if entries.len() > LIST_MAX {
        table.wrong(format!("there are {} parameters", entries.len()), format!("at most {LIST_MAX} are possible"));
    }
    let mut params = Vec::new();
    for (name, span, value) in entries.into_iter().take(LIST_MAX) {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            table.reader.wrong(
                span.start,
                format!("\"{name}\" is no name of a parameter"),
                "write letters, digits and _, as in APP_ENV",
            );
        }
        let Some(text) = value.string() else { continue };
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            value.wrong(format!("the value of {name} cannot be sent"), "leave control characters away");
        }
        params.push((name, text.to_owned()));
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_configuration;

    /// Upstreams, and what is doubted.
    type Found = (Vec<Arc<UpstreamRules>>, Vec<String>);

    fn read(text: &str) -> Result<Found, Vec<String>> {
        let listed = |list: &[weir_diagnostic::Mistake]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let options = parse_configuration(text, Path::new("/nonexistent")).map_err(|mistakes| listed(&mistakes))?;
        let rules = options.hosts.as_ref().map(|hosts| hosts.0.upstreams.clone()).unwrap_or_default();
        let rules = rules.iter().map(|common| Arc::new(common.rules.clone())).collect();
        Ok((rules, listed(&options.warnings)))
    }

    fn only(text: &str) -> UpstreamRules {
        let (rules, warnings) = read(text).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        assert!(rules.len() == 1 && warnings.is_empty(), "{rules:#?} {warnings:#?}");
        UpstreamRules::clone(&rules[0])
    }

    #[test]
    fn a_proxy_is_an_address_a_list_or_a_table() {
        let plain = only("[[host]]\nproxy = \"http://127.0.0.1:9000\"");
        assert_eq!(
            (plain.name.as_str(), plain.speaks, &plain.path),
            ("127.0.0.1:9000", Speaks::Http1, &PathRule::Unchanged)
        );
        assert_eq!(only("[[host]]\nproxy = [\"http://127.0.0.1:9000\"]"), plain);
        assert_eq!(only("[[host]]\nproxy = { to = \"http://127.0.0.1:9000\" }"), plain);
        let many = only(
            r#"
            [[host]]
            [[host.path]]
            prefix = "/app/"
            proxy = { to = ["http://a.org/base", { to = "http://b.org:8443/base", weight = 3 }],
                balance = "sticky server", connections = "measured", keep = 8, queue = 0, protocol = "1.1",
                timeouts = { connect = "1 s", head = "5 min" }, forwarded = "both", host = "app.org:81",
                retries = { again = 1, percent = 10, least = 3, statuses = [503] },
                health = { path = "/health?x", every = "2 s", status = "200-204", failures = 0, slow_start = "30 s" } }
            "#,
        );
        let weights: Vec<_> = many.servers.iter().map(|server| server.weight).collect();
        assert_eq!(weights, [1, 3]);
        assert_eq!(many.path, PathRule::Instead { mount_bytes: 5, path: "/base".to_owned() });
        assert_eq!((many.speaks, many.pool.limit), (Speaks::Http1, LimitBy::Measured));
        assert_eq!(many.retries, RetryRules { tries_max: 2, budget_percent: 10, budget_min: 3, statuses: vec![503] });
        let probe = many.health.probe.expect("a probe");
        assert_eq!((probe.timeout, probe.statuses), (Duration::from_secs(2), (200, 204)));
    }

    #[test]
    fn tls_and_versions_are_chosen() {
        let speaks = |proxy: &str| only(&format!("[[host]]\nproxy = {proxy}")).speaks;
        assert_eq!(speaks("\"https://a\""), Speaks::Negotiated);
        assert_eq!(speaks("\"h2c://a\""), Speaks::Http2);
        assert_eq!(speaks("{ to = \"http://a\", protocol = \"2\" }"), Speaks::Http2);
        assert_eq!(speaks("{ to = \"https://a\", protocol = \"1.1\" }"), Speaks::Http1);
        assert_eq!(speaks("{ to = \"https://a\", send_proxy_protocol = 2 }"), Speaks::Http1);
        let named = only("[[host]]\nproxy = { to = \"https://127.0.0.1:1\", server_name = \"A.org\", streams = 7 }");
        assert_eq!((named.servers[0].tls_name.as_deref(), named.streams_max), (Some("a.org"), 7));
        let fastcgi = "fastcgi = { to = \"tls:[::1]:1\", root = \"www\", server_name = \"b.org\", keep = 0 }";
        let fastcgi = only(&format!("[[host]]\n{fastcgi}"));
        assert_eq!((fastcgi.servers[0].tls_name.as_deref(), fastcgi.speaks), (Some("b.org"), Speaks::FastCgi));
        let proxied = only("[[host]]\nproxy = { to = \"http://a\", send_proxy_protocol = true }");
        assert_eq!(proxied.proxy_header, Some(crate::upstream::settings::ProxyHeader::V1));
    }

    #[test]
    fn equal_upstreams_are_one() {
        let (rules, _) = read(
            r#"
            [[host]]
            proxy = "http://127.0.0.1:9000"
            [[host.path]]
            prefix = "/a"
            proxy = "http://127.0.0.1:9000"
            [[host.path]]
            prefix = "/b"
            proxy = "http://127.0.0.1:9000/"
            "#,
        )
        .expect("no mistakes");
        assert_eq!(rules.len(), 2, "{rules:#?}");
    }

    #[test]
    fn scripts_have_a_root_and_applications_a_mount() {
        let php =
            only("[[host]]\n[[host.path]]\nglob = \"**.php\"\nfastcgi = { to = \"unix:php.sock\", root = \"www\" }");
        assert_eq!(php.servers[0].place, Place::Unix("/nonexistent/php.sock".into()));
        let gateway = php.gateway.expect("a gateway");
        assert_eq!(
            (gateway.root.as_deref(), gateway.index.as_deref()),
            (Some(Path::new("/nonexistent/www")), Some("index.php"))
        );
        let table = "[[host]]\n[[host.path]]\nprefix = \"/app/\"\n";
        let gateway = only(&format!("{table}uwsgi = \"127.0.0.1:9000\"")).gateway.expect("a gateway");
        assert_eq!((gateway.mount.as_str(), gateway.endings.len()), ("/app", 0));
        let whole = "scgi = { to = \"127.0.0.1:9000\", script_name = \"\", params = { APP_ENV = \"test\" } }";
        let gateway = only(&format!("{table}{whole}")).gateway.expect("a gateway");
        assert_eq!((gateway.mount.as_str(), gateway.params[0].1.as_str()), ("", "test"));
    }

    #[test]
    fn connections_of_fastcgi_are_kept_only_where_the_workers_are_counted() {
        let kept = |value: &str| only(&format!("[[host]]\n{value}")).pool.idle_max;
        let default = PoolBounds::default().idle_max;
        let fastcgi = |more: &str| kept(&format!("fastcgi = {{ to = \"127.0.0.1:9000\", root = \"www\"{more} }}"));
        assert_eq!((fastcgi(""), fastcgi(", connections = \"measured\"")), (0, 0));
        assert_eq!((fastcgi(", connections = 5"), fastcgi(", keep = 3")), (default, 3));
        assert_eq!(kept("proxy = \"http://127.0.0.1:9000\""), default);
    }

    #[test]
    fn mistakes_name_place_and_remedy() {
        for (text, expected) in [
            ("proxy = \"127.0.0.1:9000\"", "2:9: \"127.0.0.1:9000\" is no address of an upstream; write http://"),
            ("proxy = \"http://u:secret@a\"", "2:9: \"a\" is no address"),
            ("proxy = 3", "2:9: `proxy` is a number, not a text"),
            ("proxy = []", "2:9: there is no server"),
            ("proxy = {}", "2:9: it does not say where to"),
            ("proxy = [\"http://a\", \"http://a\"]", "a:80 is there twice"),
            ("proxy = [\"https://a\", \"http://b\"]", "https:// and other addresses do not go together"),
            ("proxy = { to = \"https://a\", ca = \"none.pem\" }", "2:34: /nonexistent/none.pem cannot be read"),
            ("proxy = { to = \"https://a\", client_key = \"k\" }", "go together"),
            ("proxy = { to = \"https://a\", server_name = \"a b\" }", "is no name of a certificate"),
            ("proxy = { to = \"http://a\", server_name = \"a\" }", "`server_name` is of TLS"),
            ("proxy = { to = \"http://a\", protocol = \"auto\" }", "over TLS alone"),
            ("proxy = { to = \"https://a\", protocol = \"3\" }", "\"3\" is not spoken with upstreams"),
            ("proxy = { to = \"h2c://a\", protocol = \"1.1\" }", "h2c:// is HTTP/2"),
            ("proxy = { to = \"http://a\", streams = 5 }", "`streams` is of HTTP/2"),
            ("proxy = { to = \"h2c://a\", send_proxy_protocol = 2 }", "is of many clients"),
            ("proxy = { to = \"http://a\", send_proxy_protocol = 3 }", "out of its bounds"),
            ("proxy = { to = \"http://a\", keep = 3, send_proxy_protocol = true }", "is not kept"),
            ("proxy = [\"http://a/x\", \"http://b\"]", "have the same path"),
            ("proxy = { to = \"http://a\", balence = \"waiting\" }", "did you mean `balance`?"),
            ("proxy = { to = \"http://a\", balance = \"hash of cookie\" }", "there is no balance"),
            ("proxy = { to = \"http://a\", weight = 2 }", "`weight` is not known in proxy"),
            ("proxy = { to = { to = \"http://a\", weight = 0 } }", "`weight` is 0, which is out of its bounds"),
            ("proxy = { to = \"http://a\", connections = 0 }", "`connections` is 0"),
            ("proxy = { to = \"http://a\", queue_wait = \"2 days\" }", "`queue_wait` is no time"),
            (
                "proxy = { to = \"http://a\", queue = 0, queue_wait = \"1 s\" }",
                "`queue_wait` means nothing without a queue",
            ),
            ("proxy = { to = \"http://a\", name = \"a b\" }", "\"a b\" is no name that rules can say"),
            ("proxy = { to = \"http://a\", timeouts = { head = \"2 days\" } }", "`head` is no time"),
            ("proxy = { to = \"http://a\", health = { every = \"1 s\" } }", "means nothing without `path`"),
            ("proxy = { to = \"http://a\", health = { out = \"2 h\", out_max = \"1 h\" } }", "longer than `out_max`"),
            ("proxy = { to = \"http://a\", endings = [] }", "`endings` is not known in proxy"),
            ("proxy = { to = \"http://a\", host = \"a b\" }", "is no value of Host"),
            ("proxy = \"http://a\"\nfastcgi = \"a:1\"", "`fastcgi` and `proxy` do not go together"),
            ("proxy = \"http://a\"\nstatus = 404", "a redirect or status leaves nothing for an upstream"),
            (
                "fastcgi = { to = \"a:1\", root = \"x\", ca = \"b\" }",
                "`ca` is of TLS, which is not spoken here; write tls:",
            ),
            ("fastcgi = { to = [\"tls:a:1\", \"b:1\"], root = \"x\" }", "tls: and other addresses do not go together"),
            ("scgi = \"tls:a:1\"", "TLS is spoken with HTTP and FastCGI"),
            ("scgi = { to = \"a:1\", ca = \"b\" }", "`ca` is not known in scgi"),
            ("fastcgi = { to = \"tls:a:1\", root = \"x\", ca = \"none.pem\" }", "/nonexistent/none.pem cannot be read"),
            ("fastcgi = \"127.0.0.1:9000\"", "it does not say where the scripts lie"),
            ("fastcgi = { to = \"a:1\", root = \"x\", params = { \"a b\" = \"x\" } }", "is no name of a parameter"),
            ("[[host.path]]\nglob = \"**\"\nproxy = \"http://a/x\"", "stands for a prefix"),
        ] {
            let told = read(&format!("[[host]]\n{text}")).err().unwrap_or_default();
            assert!(told.len() == 1 && told[0].contains(expected), "{text} {told:#?}");
        }
    }

    #[test]
    fn what_is_seldom_meant_is_doubted() {
        for (text, expected) in [
            ("[[host]]\nproxy = \"http://127.0.0.1:8080\"", "127.0.0.1:8080 is this server itself"),
            ("[[host]]\nproxy = { to = \"http://a\", balance = \"round robin\" }", "there is one"),
            ("trusted_proxies = \"all\"\n[[host]]\nproxy = \"http://a\"", "every client is believed"),
            ("proxy_protocol = true\n[[host]]\nproxy = \"http://a\"", "says what its address is"),
        ] {
            let told = read(text).expect("no mistakes").1;
            assert!(told.len() == 1 && told[0].contains(expected), "{text} {told:#?}");
        }
        let trusted = r#"
            trusted_proxies = { networks = ["10.0.0.0/8"], field = "forwarded" }
            proxy_protocol = ["127.0.0.1:8080"]
            [[host]]
            proxy = "http://a"
        "#;
        let options = parse_configuration(trusted, Path::new("/")).expect("no mistakes");
        assert_eq!((options.warnings.len(), options.proxy_protocol.len()), (0, 1));
        assert!(options.hosts.is_some_and(|hosts| hosts.0.trusted.holds([10, 1, 1, 1].into())));
    }
}
