//! `cache` of a host or of a path: where responses of upstreams are kept.

use super::table::{Table, Value};
use crate::http::request::is_token;
use crate::routing::rules::Rules;
use crate::upstream::cache::rules::{CacheRules, DiskRules, QueryKey, RequestDirectives, SetCookie};
use crate::upstream::cache::shared::SharedCache;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Different caches of a configuration: each has memory of its own.
const CACHES_MAX: usize = 64;
/// Names of arguments, and of cookies.
const NAMES_MAX: usize = 64;
const MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 40;
const DISK: RangeInclusive<u64> = 16 << 20..=1 << 50;
const LARGEST: RangeInclusive<u64> = 1 << 10..=1 << 46;
const TIMES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(365 * 86_400);
/// Bytes on the disk if nothing else is said.
const DISK_BYTES: u64 = 10 << 30;
/// A body of more bytes goes to the disk, if there is one.
const IN_MEMORY_BYTES: u64 = 1 << 20;

/// What a table says of a cache: nothing, that there is none, or which.
pub(super) fn read(table: &Table<'_, '_>, rules: &mut Rules) -> Option<Option<usize>> {
    let value = table.get("cache")?;
    if value.is_false() {
        return Some(None);
    }
    let read = if value.is_table() { read_table(&value.table("cache")?) } else { CacheRules::default() };
    if !value.is_table() && value.boolean().is_none() {
        return None;
    }
    if let Some(known) = rules.caches.iter().position(|known| known.rules == read) {
        return Some(Some(known));
    }
    if rules.caches.len() == CACHES_MAX {
        value.wrong("there are too many caches", format!("at most {CACHES_MAX} different ones are possible"));
        return None;
    }
    if let Some(disk) = &read.disk
        && rules.caches.iter().any(|known| known.rules.disk.as_ref().is_some_and(|own| own.directory == disk.directory))
    {
        value.wrong(
            format!("another cache with other settings keeps its bodies in {}", disk.directory.display()),
            "give each a directory of its own, or write the same for both",
        );
    }
    rules.caches.push(Arc::new(SharedCache::new(read)));
    tell_sum(&value, rules);
    Some(Some(rules.caches.len() - 1))
}

/// Tells where all caches together may take more memory than there is.
fn tell_sum(value: &Value<'_, '_>, rules: &Rules) {
    let sum: u64 = rules.caches.iter().map(|cache| cache.rules.memory).sum();
    let last = rules.caches.last().map_or(0, |cache| cache.rules.memory);
    let Some(there) = memory() else { return };
    let most = there / 4 * 3;
    if sum > most && sum - last <= most {
        let mib = |bytes: u64| bytes >> 20;
        value.doubt(
            format!(
                "the {} caches up to here may take {} MiB of memory, and this machine has {} MiB",
                rules.caches.len(),
                mib(sum),
                mib(there)
            ),
            "write the same settings where one cache is enough, or give each less `memory`",
        );
    }
}

/// Bytes of memory of this machine.
fn memory() -> Option<u64> {
    // SAFETY: the calls take no pointers.
    let (pages, bytes) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).ok()?.checked_mul(u64::try_from(bytes).ok()?)
}

fn read_table(table: &Table<'_, '_>) -> CacheRules {
    let mut rules = CacheRules::default();
    let bytes = |key, within| table.get(key).and_then(|value: Value<'_, '_>| value.bytes(within));
    let time = |key| table.get(key).and_then(|value: Value<'_, '_>| value.duration(TIMES));
    rules.memory = bytes("memory", MEMORY).unwrap_or(rules.memory);
    let largest = bytes("largest", LARGEST);
    let disk_bytes = bytes("disk_max", DISK);
    match table.get("disk").and_then(|value| value.path()) {
        Some(directory) => {
            let bytes = disk_bytes.unwrap_or(DISK_BYTES);
            let object = largest.unwrap_or(bytes / 16);
            rules.memory_object = object.min(IN_MEMORY_BYTES);
            rules.disk = Some(DiskRules { directory, bytes, object });
            check_largest(table, largest, bytes, "disk_max");
        }
        None => {
            if let Some(value) = table.get("disk_max") {
                value.wrong("`disk_max` means nothing without `disk`", "add disk = \"DIRECTORY\"");
            }
            rules.memory_object = largest.unwrap_or(IN_MEMORY_BYTES).min(rules.memory / 16);
            check_largest(table, largest, rules.memory, "memory");
        }
    }
    if let Some(number) = table.get("entries").and_then(|value| value.integer(1..=100_000_000)) {
        rules.entries = number as usize;
    }
    rules.default_ttl = time("default_ttl");
    rules.heuristic = time("heuristic");
    rules.stale_if_error = time("stale_if_error").unwrap_or(rules.stale_if_error);
    rules.stale_while_revalidate = time("stale_while_revalidate").unwrap_or(rules.stale_while_revalidate);
    rules.collapse_wait = time("wait").unwrap_or(rules.collapse_wait);
    if let Some(value) = table.get("query") {
        rules.query = query(&value).unwrap_or(rules.query);
    }
    if let Some(value) = table.get("bypass_cookies") {
        rules.bypass_cookies = names(&value, "a cookie", |name| is_token(name.as_bytes()));
    }
    if table.get("store_cookies").and_then(|value| value.boolean()) == Some(true) {
        rules.set_cookie = SetCookie::Stored;
    }
    if table.get("obey_clients").and_then(|value| value.boolean()) == Some(false) {
        rules.request_directives = RequestDirectives::Ignored;
    }
    table.finish();
    rules
}

/// A body may have a sixteenth of the room, so that it does not drive all others out.
fn check_largest(table: &Table<'_, '_>, largest: Option<u64>, room: u64, key: &str) {
    if largest.is_some_and(|largest| largest > room / 16)
        && let Some(value) = table.get("largest")
    {
        value.wrong(
            format!("`largest` is more than a sixteenth of `{key}`"),
            format!("write at most {} B, or give `{key}` more", room / 16),
        );
    }
}

/// `"whole"`, `"ignored"`, or a table with `only` or `without`.
fn query(value: &Value<'_, '_>) -> Option<QueryKey> {
    const REMEDY: &str = "write \"whole\", \"ignored\", { only = [\"NAME\"] } or { without = [\"NAME\"] }";
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"&=#".contains(&byte));
    if value.is_table() {
        let table = value.table("query")?;
        let (only, without) = (table.get("only"), table.get("without"));
        table.finish();
        return match (only, without) {
            (Some(only), None) => Some(QueryKey::Only(names(&only, "an argument", is_name))),
            (None, Some(without)) => Some(QueryKey::Without(names(&without, "an argument", is_name))),
            _ => {
                value.wrong("`query` says either which arguments count, or which do not", REMEDY);
                None
            }
        };
    }
    match value.string()? {
        "whole" => Some(QueryKey::Whole),
        "ignored" => Some(QueryKey::Ignored),
        other => {
            value.wrong(format!("\"{other}\" does not say what of a query counts"), REMEDY);
            None
        }
    }
}

fn names(value: &Value<'_, '_>, what: &str, is_name: impl Fn(&str) -> bool) -> Vec<String> {
    let items = value.strings();
    if items.len() > NAMES_MAX {
        value.wrong(format!("there are {} names", items.len()), format!("at most {NAMES_MAX} are possible"));
    }
    for item in items.iter().filter(|item| !is_name(item.text())) {
        item.wrong(format!("\"{}\" is no name of {what}", item.text()), "write it as requests have it");
    }
    items.iter().take(NAMES_MAX).map(|item| item.text().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_configuration;
    use std::path::Path;

    fn read(of_host: &str, of_path: &str) -> Result<Vec<CacheRules>, Vec<String>> {
        let text =
            format!("[[host]]\nproxy = \"http://127.0.0.1:9\"\n{of_host}\n[[host.path]]\nprefix = \"/a\"\n{of_path}");
        let listed = |list: &[weir_diagnostic::Mistake]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let options = parse_configuration(&text, Path::new("/nonexistent")).map_err(|mistakes| listed(&mistakes))?;
        let hosts = options.hosts.as_ref().expect("hosts");
        Ok(hosts.0.caches.iter().map(|cache| cache.rules.clone()).collect())
    }

    #[test]
    fn equal_caches_are_one_and_false_is_none() {
        assert_eq!(read("cache = true", "cache = false"), Ok(vec![CacheRules::default()]));
        assert_eq!(read("cache = true", "cache = {}").map(|caches| caches.len()), Ok(1));
        assert_eq!(read("cache = true", "cache = { memory = \"64 MiB\" }").map(|caches| caches.len()), Ok(2));
    }

    #[test]
    fn every_setting_is_read() {
        let all = "cache = { memory = \"64 MiB\", disk = \"d\", disk_max = \"1 GiB\", largest = \"8 MiB\", entries = 9, \
                   default_ttl = \"1 min\", heuristic = \"1 day\", stale_if_error = \"1 h\", \
                   stale_while_revalidate = \"10 s\", wait = \"2 s\", query = { without = [\"utm_source\"] }, \
                   bypass_cookies = [\"session\"], store_cookies = true, obey_clients = false }";
        let seconds = Duration::from_secs;
        let expected = CacheRules {
            memory: 64 << 20,
            memory_object: 1 << 20,
            disk: Some(DiskRules { directory: "/nonexistent/d".into(), bytes: 1 << 30, object: 8 << 20 }),
            entries: 9,
            default_ttl: Some(seconds(60)),
            heuristic: Some(seconds(86_400)),
            stale_if_error: seconds(3600),
            stale_while_revalidate: seconds(10),
            query: QueryKey::Without(vec!["utm_source".to_owned()]),
            bypass_cookies: vec!["session".to_owned()],
            set_cookie: SetCookie::Stored,
            request_directives: RequestDirectives::Ignored,
            collapse_wait: seconds(2),
        };
        assert_eq!(read(all, "status = 404"), Ok(vec![expected]));
    }

    #[test]
    fn mistakes_have_their_line_and_a_remedy() {
        for (text, expected) in [
            ("cache = 5", "3:9: `cache` is a number, not true or false"),
            ("cache = { memory = \"1 KiB\" }", "3:20: `memory` is no size from"),
            ("cache = { disk_max = \"1 GiB\" }", "`disk_max` means nothing without `disk`"),
            ("cache = { largest = \"32 MiB\" }", "`largest` is more than a sixteenth of `memory`"),
            ("cache = { query = \"some\" }", "\"some\" does not say what of a query counts"),
            ("cache = { query = { only = [\"a\"], without = [\"b\"] } }", "either which arguments count"),
            ("cache = { bypass_cookies = [\"a=b\"] }", "\"a=b\" is no name of a cookie"),
            ("cache = { default_ttl = 5 }", "`default_ttl` is a number, not a time"),
            ("cache = { default_tll = \"5 s\" }", "did you mean `default_ttl`"),
        ] {
            let mistakes = read(text, "status = 404").expect_err(text);
            assert!(mistakes.len() == 1 && mistakes[0].contains(expected), "{text}: {mistakes:#?}");
        }
        let both =
            read("cache = { disk = \"d\" }", "cache = { disk = \"d\", entries = 9 }").expect_err("one directory");
        assert!(both[0].contains("keeps its bodies in"), "{both:#?}");
    }

    #[test]
    fn a_cache_without_an_upstream_is_a_mistake() {
        let told = |text: &str| {
            let mistakes = parse_configuration(text, Path::new("/nonexistent")).expect_err(text);
            mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        assert!(told("[[host]]\nredirect = \"/x\"\ncache = true").contains("`cache` keeps responses of upstreams"));
    }
}
