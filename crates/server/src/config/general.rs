//! Settings of the server as a whole: addresses, memory, limits, times, the log.

use super::table::{Table, Value};
use crate::certificates::Certificates;
use crate::certificates::settings::CertificateFiles;
use crate::config::options::Options;
use crate::io::listen::ListenAddr;
use crate::telemetry::access_log::settings::{AccessLog, LogFormat, LogTarget, Rotation};
use crate::telemetry::admin::{Admin, AdminError, AdminRights, AdminToken};
use crate::telemetry::arm_rules::ArmRules;
use std::time::Duration;

/// The longest of all times that can be given.
const DAY: Duration = Duration::from_secs(86_400);
/// Files up to this size are held in memory where most is encrypted: what is encrypted is copied anyhow, and from memory
/// it is without a system call.
const ENCRYPTED_FILE_BYTES_MAX: u64 = 1 << 20;

/// Requests of a history at most: a quarter of a gigabyte.
const HISTORY_MAX: u64 = 1_000_000;

/// Reads it; where the file has its certificates.
pub(super) fn read(table: &Table<'_, '_>, options: &mut Options) -> Vec<usize> {
    let mut certificates_at = Vec::new();
    if let Some(value) = table.get("listen") {
        options.listen = addresses(&value, &[], "leave `listen` away for 127.0.0.1:8080");
    }
    if let Some(tls) = table.get("tls").and_then(|value| value.table("[tls]")) {
        certificates_at = read_tls(&tls, table.get("acme").is_some(), options);
    }
    if let Some(acme) = table.get("acme") {
        options.obtain = super::acme::read(&acme);
        options.cached_file_bytes_max = ENCRYPTED_FILE_BYTES_MAX;
    }
    super::networks::proxy_protocol(table, options);
    if let Some(loops) = table.get("loops").and_then(|value| value.integer(1..=1024)) {
        options.loops = loops as usize;
    }
    if let Some(loops) = table.get("reserve_loops").and_then(|value| value.integer(0..=1024)) {
        options.reserve_loops = loops as usize;
    }
    if let Some(value) = table.get("io") {
        match value.string().map(str::parse) {
            Some(Ok(io)) => options.io = io,
            Some(Err(error)) => value.wrong(error.to_string(), "leave `io` away for \"auto\""),
            None => {}
        }
    }
    if let Some(bytes) = table.get("cache").and_then(|value| value.bytes(0..=1 << 50)) {
        options.cache_bytes_max = bytes;
    }
    if let Some(bytes) = table.get("cached_file").and_then(|value| value.bytes(0..=1 << 40)) {
        options.cached_file_bytes_max = bytes;
    }
    if let Some(limits) = table.get("limits").and_then(|value| value.table("[limits]")) {
        read_limits(&limits, options);
    }
    if let Some(timeouts) = table.get("timeouts").and_then(|value| value.table("[timeouts]")) {
        read_timeouts(&timeouts, options);
    }
    if let Some(log) = table.get("log").and_then(|value| value.table("[log]")) {
        read_log(&log, options);
    }
    if let Some(user) = table.get("user").and_then(|value| value.string()) {
        options.user = Some(user.to_owned());
    }
    options.sandbox = table.get("sandbox").and_then(|value| value.boolean());
    read_releases(table, options);
    let sites = super::site::read(table, options.site_kind(), options.sandbox);
    options.serve_so(sites);
    if let Some(admin) = table.get("admin").and_then(|value| value.table("[admin]")) {
        read_questions(&admin, options);
        options.admin = read_admin(&admin);
    }
    options.activity = table.get("activity").and_then(|value| value.path());
    if let Some(policy) = table.get("policy") {
        options.policy = super::policy::read(&policy);
    } else if let Some(value) = table.get("reserve_loops").filter(|_| options.reserve_loops > 0) {
        value.doubt(
            "`reserve_loops` rest for ever without rules that have them serve",
            "add policy = \"FILE\", or give --policy",
        );
    }
    if let Some(arm) = table.get("arm") {
        options.arm = read_arm(&arm);
    }
    certificates_at
}

/// Directories in which releases of roots lie.
fn read_releases(table: &Table<'_, '_>, options: &mut Options) {
    for item in table.get("releases").map(|value| value.strings()).unwrap_or_default() {
        let path = item.in_folder(item.text().as_ref());
        if !path.is_dir() {
            item.wrong(format!("{} is no directory", path.display()), "give one in which releases of a root lie");
        }
        if options.sandbox == Some(false) {
            item.wrong("a server that is not confined reaches every release".to_owned(), "leave `releases` out");
        }
        options.releases.push(path);
    }
}

/// Addresses that are not among the `others`; what to do where there are none.
fn addresses(value: &Value<'_, '_>, others: &[ListenAddr], without: &str) -> Vec<ListenAddr> {
    let mut addresses: Vec<ListenAddr> = Vec::new();
    let items = value.strings();
    for item in &items {
        match item.text().parse::<ListenAddr>() {
            Ok(address) if addresses.contains(&address) || others.contains(&address) => {
                item.wrong(format!("{address} is there twice"), "leave one of them away");
            }
            Ok(address) => addresses.push(address),
            Err(error) => item.wrong(error.to_string(), "such as \"127.0.0.1:8080\" or \":8080\""),
        }
    }
    if items.is_empty() {
        value.wrong("there is no address to listen on", without);
    }
    addresses
}

/// Certificates are tried out, so that those that are served later can be used when the file is accepted.
fn read_tls(table: &Table<'_, '_>, has_others: bool, options: &mut Options) -> Vec<usize> {
    let mut places = Vec::new();
    let list = table.get("certificates").map(|value| value.tables("[[tls.certificates]]")).unwrap_or_default();
    if list.is_empty() && (table.get("certificates").is_some() || !has_others) {
        let remedy = "add certificates = [{ certificate = \"site.pem\", key = \"site.key\" }]";
        table.wrong("there are no certificates", remedy);
    }
    for one in &list {
        let path = |key| {
            let value = one.get(key);
            if value.is_none() {
                one.wrong(format!("there is no `{key}`"), format!("add {key} = \"FILE\", of a file in PEM"));
            }
            value?.path()
        };
        let (certificate, key) = (path("certificate"), path("key"));
        let ocsp = one.get("ocsp").and_then(|value| value.path());
        one.finish();
        let (Some(certificate), Some(key)) = (certificate, key) else { continue };
        let files = CertificateFiles { ocsp, ..CertificateFiles::new(certificate, key) };
        if let Err(error) = Certificates::load(std::slice::from_ref(&files), &options.challenges) {
            let error = error.to_string();
            let (what, remedy) = error.rsplit_once("; ").unwrap_or((&error, "give another one"));
            one.wrong(what, remedy);
        }
        options.certificates.push(files);
        places.push(one.at());
    }
    if !options.certificates.is_empty() {
        options.cached_file_bytes_max = ENCRYPTED_FILE_BYTES_MAX;
    }
    if let Some(value) = table.get("listen_clear") {
        let without = "leave `listen_clear` away if nothing is to be served in the clear";
        options.listen_clear = addresses(&value, &options.listen, without);
    }
    if let Some(value) = table.get("listen_quic") {
        let without = "leave `listen_quic` away if HTTP/3 is spoken nowhere, or at the addresses of `listen` (`http3`)";
        options.listen_quic = addresses(&value, &[], without);
        is_of_udp(&value, &options.listen_quic);
    }
    if let Some(value) = table.get("http3") {
        options.http3 = value.boolean().unwrap_or(false);
        let has_ip = |addr: &ListenAddr| !matches!(addr, ListenAddr::Unix(_));
        if options.http3 && !options.listen.iter().any(has_ip) {
            value.wrong("none of the addresses of `listen` can speak HTTP/3", "give `listen_quic` in its place");
        }
    }
    table.finish();
    places
}

/// HTTP/3 needs a port of UDP.
fn is_of_udp(value: &Value<'_, '_>, addresses: &[ListenAddr]) {
    for address in addresses {
        if matches!(address, ListenAddr::Unix(_) | ListenAddr::Inherited(_)) {
            value.wrong(format!("{address} is no address of UDP"), "such as \"127.0.0.1:8443\" or \":443\"");
        }
    }
}

fn read_limits(table: &Table<'_, '_>, options: &mut Options) {
    let limits = &mut options.limits;
    let count = |key, to: &mut usize, within| {
        if let Some(number) = table.get(key).and_then(|value| value.integer(within)) {
            *to = number as usize;
        }
    };
    count("connections", &mut limits.connections_max, 1..=10_000_000);
    if let Some(number) = table.get("connections_per_address").and_then(|value| value.integer(0..=10_000_000)) {
        limits.connections_per_address_max = Some(number as usize);
    }
    count("streams", &mut limits.streams_max, 1..=10_000);
    count("handshakes", &mut limits.handshakes_max, 0..=10_000_000);
    count("ranges", &mut limits.ranges_max, 0..=1000);
    count("listing_entries", &mut limits.listing_entries_max, 1..=1_000_000);
    let size = |key, within| table.get(key).and_then(|value| value.bytes(within));
    if let Some(bytes) = size("head", 1 << 10..=1 << 20) {
        limits.head_bytes_max = bytes as usize;
    }
    if let Some(bytes) = size("target", 64..=1 << 20) {
        limits.target_bytes_max = bytes as usize;
    }
    if let Some(bytes) = size("body", 0..=1 << 30) {
        limits.body_bytes_max = bytes;
    }
    if limits.target_bytes_max > limits.head_bytes_max {
        table.wrong("`target` is more than `head`, which a target is part of", "make `head` the larger one");
    }
    table.finish();
}

fn read_timeouts(table: &Table<'_, '_>, options: &mut Options) {
    let timeouts = &mut options.timeouts;
    let time = |key, to: &mut Duration| {
        if let Some(duration) = table.get(key).and_then(|value| value.duration(Duration::from_secs(1)..=DAY)) {
            *to = duration;
        }
    };
    time("head", &mut timeouts.head);
    time("idle", &mut timeouts.idle);
    time("body", &mut timeouts.body);
    time("stall", &mut timeouts.stall);
    time("linger", &mut timeouts.linger);
    time("stop", &mut timeouts.stop);
    if let Some(kept) = table.get("tunnels_kept").and_then(|value| value.duration(Duration::from_secs(1)..=30 * DAY)) {
        timeouts.tunnels_kept = kept;
    }
    table.finish();
}

fn read_log(table: &Table<'_, '_>, options: &mut Options) {
    let target = match table.get("file") {
        Some(value) if value.string() == Some("-") => Some(LogTarget::Stdout),
        Some(value) => value.path().map(LogTarget::File),
        None => {
            table
                .wrong("the log has no file", "say where it goes: file = \"access.log\", or \"-\" for standard output");
            None
        }
    };
    let mut log = AccessLog::new(target.unwrap_or(LogTarget::Stdout));
    if let Some(value) = table.get("format") {
        match value.string() {
            Some("common") => log.format = LogFormat::Common,
            Some("combined") => log.format = LogFormat::Combined,
            Some("json") => log.format = LogFormat::Json,
            Some(own) if own.contains('%') => match own.parse() {
                Ok(format) => log.format = LogFormat::Own(format),
                Err(remedy) => value.wrong("the format cannot be written", remedy.to_string()),
            },
            Some(other) => {
                let remedy =
                    "write \"common\", \"combined\", \"json\" or Apache's letters such as '%h %t \"%r\" %>s %D'";
                value.wrong(format!("there is no format \"{other}\""), remedy);
            }
            None => {}
        }
    }
    log.rotation = read_rotation(table, &log.target);
    let flag = |key: &'static str, letters: &[&str]| {
        let value = table.get(key);
        let is_on = value.as_ref().and_then(Value::boolean).unwrap_or(false);
        let own = table.get("format").filter(|value| value.is_text() && value.text().contains('%'));
        if let (true, Some(value), Some(own)) = (is_on, value, own)
            && !letters.iter().any(|letter| own.text().contains(letter))
        {
            value.wrong(
                format!("`{key}` means nothing, as the format has none of {}", letters.join(", ")),
                "add one of them to `format`, or leave the key away",
            );
        }
        is_on
    };
    log.queries = flag("queries", &["%r", "%q", "%>r", "%<r"]);
    log.addresses = flag("addresses", &["%h", "%a"]);
    table.finish();
    options.access_log = Some(log);
}

/// How many requests the admin address tells of, and what may be changed there.
fn read_questions(table: &Table<'_, '_>, options: &mut Options) {
    if let Some(requests) = table.get("history").and_then(|value| value.integer(0..=HISTORY_MAX)) {
        options.history = requests as usize;
    }
    for item in table.get("may").map(|value| value.strings()).unwrap_or_default() {
        match item.text().parse::<AdminRights>() {
            Ok(rights) => options.admin_rights = options.admin_rights.and(rights),
            Err(error) => {
                item.wrong(format!("there is no right \"{}\"", error.right), "there are \"stop\" and \"mark\"");
            }
        }
    }
}

fn read_admin(table: &Table<'_, '_>) -> Option<Admin> {
    let listen = table.get("listen");
    let file = table.get("token_file");
    table.finish();
    let Some(listen) = listen else {
        table.wrong("it does not say where to listen", "add listen = \"unix:weir-admin.sock\"");
        return None;
    };
    let told = |value: &Value<'_, '_>, error: AdminError| {
        let error = error.to_string();
        let (what, remedy) = error.rsplit_once("; ").unwrap_or((&error, "give another one"));
        value.wrong(what, remedy);
    };
    let token = match file.as_ref().map(|value| (value, value.path())) {
        Some((value, Some(path))) => match AdminToken::read(&path) {
            Ok(token) => Some(token),
            Err(error) => {
                told(value, error);
                return None;
            }
        },
        Some((_, None)) => return None,
        None => None,
    };
    match Admin::new(listen.string()?, token) {
        // As all paths of a configuration, from the file's directory.
        Ok(Admin::Unix { path, token }) => Some(Admin::Unix { path: listen.in_folder(&path), token }),
        Ok(admin) => Some(admin),
        Err(error) => {
            told(&listen, error);
            None
        }
    }
}

fn read_rotation(table: &Table<'_, '_>, target: &LogTarget) -> Option<Rotation> {
    let bytes_max = table.get("rotate_size").and_then(|value| value.bytes(4 << 10..=1 << 50));
    let age_max = table.get("rotate_age").and_then(|value| value.duration(Duration::from_secs(1)..=1000 * DAY));
    let keep = table.get("keep");
    if bytes_max.is_none() && age_max.is_none() {
        if let Some(keep) = keep {
            keep.wrong(
                "`keep` means nothing without `rotate_size` or `rotate_age`",
                "add one of them, such as rotate_size = \"100 MiB\"",
            );
        }
        return None;
    }
    if *target == LogTarget::Stdout {
        table.wrong("standard output cannot be turned round", "say file = \"access.log\", or leave the rotation away");
    }
    // The bound fits.
    let keep = keep.and_then(|keep| keep.integer(0..=10_000)).map_or(7, |keep| keep as u32);
    Some(Rotation { bytes_max, age_max, keep })
}

fn read_arm(value: &Value<'_, '_>) -> Option<ArmRules> {
    let path = value.path()?;
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            value.wrong(format!("{}: {error}", path.display()), "give a file of ARM's directives");
            return None;
        }
    };
    match text.parse() {
        Ok(rules) => Some(rules),
        Err(error) => {
            value.wrong(format!("{}, {error}", path.display()), "mend that file");
            None
        }
    }
}
