//! `php` of a host or of a path: scripts below a root, which php-fpm runs that this server starts itself.

use super::table::{Table, Value};
use super::upstream::{self, Around};
use super::workers::{self, PoolServer};
use crate::http::pattern::Pattern;
use crate::routing::route_fields::RouteFields;
use crate::routing::routes::mapping::Mapping;
use crate::routing::routes::path_test::PathTest;
use crate::routing::routes::route::{Act, Candidate, ROUTES_MAX, Route};
use crate::routing::rules::{PATHS_MAX, Rules};
use crate::routing::settings::{Action, Said};
use crate::site::settings::SiteKind;
use crate::upstream::php_pool::PhpPool;
use crate::upstream::settings::{Gateway, UpstreamRules};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the names of scripts end.
const ENDING: &str = ".php";
/// The script that stands for its directory, and for all paths that lead to no file.
const INDEX: &str = "index.php";
/// Globs for scripts below a prefix, and for paths that go on behind their names.
const GLOBS: [&str; 2] = ["**.php", "**.php/**"];
/// Settings of PHP in one table.
const INI_MAX: usize = 256;
const DAY: Duration = Duration::from_secs(86_400);

/// What a table adds for scripts, beside itself.
type Added = (Pattern, String, Said);

/// The scripts of one host.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    /// Tables that are to be put behind the last one.
    added: Vec<Added>,
    /// Whether all paths that lead to no file are for the script at the top.
    has_front: bool,
    /// Paths that have nothing to do with that script.
    apart: Vec<PathTest>,
    /// Whether the host runs scripts.
    is_of_host: bool,
    /// The line of the host.
    line: usize,
}

/// How a root is served below which scripts lie.
pub(super) fn kind(table: &Table<'_, '_>, mut kind: SiteKind) -> SiteKind {
    let has_php = table.get("php").is_some_and(|value| !value.is_false());
    if has_php && table.get("index").is_none() && !kind.index.iter().any(|name| name == INDEX) {
        kind.index.insert(0, INDEX.to_owned());
    }
    kind
}

impl Scripts {
    /// What a host says of its scripts.
    pub(super) fn of_host(table: &Table<'_, '_>, said: &Said, around: &Around<'_>, rules: &mut Rules) -> Self {
        let mut scripts = Self { line: table.line(), ..Self::default() };
        let Some(value) = table.get("php") else { return scripts };
        if value.is_false() {
            value.wrong("`php = false` takes nothing back in a host", "leave it away");
            return scripts;
        }
        let Some(root) = around.root.filter(|_| matches!(said.action, Some(Action::Files { .. }))) else {
            let remedy = "add root = \"DIRECTORY\", and give redirects and upstreams a [[host.path]] of their own";
            value.wrong("`php` runs scripts below a root, and this host has none", remedy);
            return scripts;
        };
        let Some((number, has_front)) = one(&value, (root, 0), true, rules) else { return scripts };
        (scripts.has_front, scripts.is_of_host) = (has_front, true);
        scripts.add("", &Action::Upstream(number));
        scripts
    }

    /// What the table of a path says of scripts. Where it has a root of its own, those of the host do not run below it,
    /// and are not sent either.
    pub(super) fn of_path(&mut self, table: &Table<'_, '_>, own: &Said, around: &Around<'_>, rules: &mut Rules) {
        let value = table.get("php");
        let prefix = table.get("prefix").map(|value| value.text());
        if let Some(action) = &own.action {
            self.apart.extend(path_test(table));
            if let (Some(value), false) = (&value, matches!(action, Action::Files { .. })) {
                value.wrong("nothing is left for scripts to answer", "keep either `php` or what takes its place");
                return;
            }
        }
        let own_root = match own.action {
            Some(Action::Files { site, .. }) => Some(rules.sites[site].how.root.clone()),
            _ => None,
        };
        let Some(value) = value else {
            if let (Some(prefix), Some(_), true) = (prefix, own_root, self.is_of_host) {
                self.add(prefix, &Action::Status(404));
            }
            return;
        };
        let Some(prefix) = prefix else {
            value.wrong("`php` is for a host or a prefix", "write prefix = \"/...\"");
            return;
        };
        if value.is_false() {
            if !self.is_of_host {
                value.wrong("`php = false` takes nothing back: the host has no `php`", "leave it away");
            }
            self.add(prefix, &Action::Status(404));
            return;
        }
        let Some((root, alias_bytes)) = workers::root_of(("php", &value), prefix, (own_root, around.root)) else {
            return;
        };
        if let Some((number, _)) = one(&value, (&root, alias_bytes), false, rules) {
            self.add(prefix, &Action::Upstream(number));
        }
    }

    /// Tables for the scripts below a prefix.
    fn add(&mut self, prefix: &str, action: &Action) {
        for glob in GLOBS {
            let text = format!("{prefix}{glob}");
            let said = Said { action: Some(action.clone()), ..Said::default() };
            self.added.extend(Pattern::glob(&text).map(|pattern| (pattern, format!("php {text}"), said)));
        }
    }

    /// Leaves what the table of a path has other programs run apart from the script at the top.
    pub(super) fn leave(&mut self, globs: impl Iterator<Item = String>) {
        self.apart.extend(globs.filter_map(|glob| PathTest::glob(&glob)));
    }

    /// Puts the tables for scripts behind those that were read.
    pub(super) fn put(&mut self, read: &mut Vec<(Pattern, Said)>, labels: &mut Vec<(String, usize)>) {
        // They are of the table before them.
        let line = labels.last().map_or(self.line, |(_, line)| *line);
        for (pattern, label, said) in self.added.drain(..) {
            read.push((pattern, said));
            labels.push((label, line));
        }
    }

    /// Has all paths that lead to no file answered by the script at the top, behind the routes of the host.
    pub(super) fn finish(
        self,
        table: &Table<'_, '_>,
        read: &[(Pattern, Said)],
        (routes, fields): (&mut Vec<Route>, &mut Vec<RouteFields>),
    ) {
        if read.len() > PATHS_MAX {
            let remedy =
                format!("at most {PATHS_MAX} are possible, with two for each ending of scripts, `php` and root");
            table.wrong(format!("the host has {} tables of paths", read.len()), remedy);
        }
        if !self.has_front {
            return;
        }
        let line = table.line();
        let apart = self.apart.into_iter().chain(PathTest::glob(GLOBS[1]));
        let mut added: Vec<Route> = apart.map(|path| route(Some(path), Act::Pass, line)).collect();
        // The last one is taken without a look: without that script the tables answer, with a list or an error.
        let files = ["$path", "$path/", "/index.php", "$path"].map(|text| Mapping::read(text, None));
        let candidates = files.into_iter().filter_map(Result::ok).map(Candidate::File).collect();
        added.push(route(None, Act::Try(candidates), line));
        if routes.len() + added.len() > ROUTES_MAX {
            table.wrong(
                format!("the host has {} routes with those for its scripts", routes.len() + added.len()),
                format!("at most {ROUTES_MAX} are possible; php = {{ front = false }} needs none"),
            );
        }
        fields.extend(added.iter().map(|_| RouteFields::new(&Said::default(), &[], None)));
        routes.append(&mut added);
    }
}

fn route(path: Option<PathTest>, act: Act, line: usize) -> Route {
    Route { path, conditions: Vec::new(), act, sets_fields: false, statuses: Vec::new(), vary: None, line }
}

/// For which paths a table is, as a test.
fn path_test(table: &Table<'_, '_>) -> Option<PathTest> {
    let text = |key| table.get(key).map(|value| value.text().to_owned());
    let exact = || text("exact").map(PathTest::Exact);
    let prefix = || text("prefix").map(PathTest::Prefix);
    prefix().or_else(exact).or_else(|| PathTest::glob(&text("glob")?))
}

/// The upstream that one `php` is, and whether it has a script for all paths that lead to no file.
fn one(
    value: &Value<'_, '_>,
    (root, alias_bytes): (&Path, usize),
    is_of_host: bool,
    rules: &mut Rules,
) -> Option<(usize, bool)> {
    let table = if value.is_table() { value.table("php") } else { None };
    if table.is_none() && value.boolean().is_none() {
        return None;
    }
    let mut pool = PhpPool::default();
    let (mut gateway, mut has_front) = (gateway(root, alias_bytes), is_of_host);
    let mut handover = (true, Vec::new());
    if let Some(table) = &table {
        read_pool(table, &mut pool);
        if let Some(front) = table.get("front") {
            has_front = front.boolean().unwrap_or(has_front);
            if !is_of_host {
                front.wrong("`front` is of a whole host", "say it there, or give the paths a route with `try_files`");
            }
        }
        if let Some(params) = table.get("params").and_then(|value| value.table("params")) {
            gateway.params = upstream::params(&params);
        }
        gateway.passes_authorization = table.get("authorization").and_then(|value| value.boolean()).unwrap_or(false);
        handover = upstream::handover(table, true);
        table.finish();
    }
    let rules_of = upstream_of(pool, gateway, handover);
    Some((upstream::enter(value, (rules_of, None), rules)?, has_front))
}

fn gateway(root: &Path, alias_bytes: usize) -> Gateway {
    Gateway {
        root: Some(std::path::absolute(root).unwrap_or_else(|_| root.to_owned())),
        index: Some(INDEX.to_owned()),
        endings: vec![ENDING.to_owned()],
        alias_bytes,
        ..Gateway::default()
    }
}

/// What the configuration says of the processes.
fn read_pool(table: &Table<'_, '_>, pool: &mut PhpPool) {
    let read = workers::read(table);
    (pool.workers, pool.workers_max, pool.queue) = (read.workers, read.workers_max, read.queue);
    (pool.called, pool.user) = (read.called, read.user);
    if let Some(number) = table.get("renew").and_then(|value| value.integer(0..=1_000_000_000)) {
        pool.renew = number as u32;
    }
    pool.program = table.get("program").and_then(|value| value.path());
    let time = |key, to: &mut Duration| {
        if let Some(time) = table.get(key).and_then(|value| value.duration(Duration::ZERO..=DAY)) {
            *to = time;
        }
    };
    time("timeout", &mut pool.timeout);
    time("slow", &mut pool.slow);
    for (key, time) in [("timeout", pool.timeout), ("slow", pool.slow)] {
        if let Some(value) = table.get(key).filter(|_| time.subsec_nanos() > 0) {
            value.wrong(format!("`{key}` is no whole number of seconds"), "php-fpm looks once a second: write \"5 s\"");
        }
    }
    if let Some(value) = table.get("slow").filter(|_| !pool.timeout.is_zero() && pool.slow >= pool.timeout) {
        value.wrong("a worker is killed before it counts as stuck", "make `timeout` the longer one");
    }
    if let Some(ini) = table.get("ini").and_then(|value| value.table("ini")) {
        pool.ini = read_ini(&ini);
    }
}

/// Settings of PHP, as they go into a line of php-fpm's configuration.
fn read_ini(table: &Table<'_, '_>) -> Vec<(String, String)> {
    let entries = table.entries();
    if entries.len() > INI_MAX {
        table.wrong(format!("there are {} settings", entries.len()), format!("at most {INI_MAX} are possible"));
    }
    let mut ini = Vec::new();
    for (name, span, value) in entries.into_iter().take(INI_MAX) {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_name) {
            let what = format!("\"{name}\" is no setting of PHP");
            table.reader.wrong(span.start, what, "write one such as memory_limit, in quotes if it has a dot");
        }
        let text = if value.is_boolean() {
            Some(if value.is_false() { "0" } else { "1" }.to_owned())
        } else if value.is_integer() {
            value.integer(0..=i64::MAX as u64).map(|number| number.to_string())
        } else {
            value.string().map(str::to_owned)
        };
        let Some(text) = text else { continue };
        if text.bytes().any(|byte| byte.is_ascii_control() || matches!(byte, b'"' | b'\\' | b'$')) {
            value.wrong(
                format!("the value of {name} cannot be written for php-fpm"),
                "leave quotes, backslashes, dollars and control characters away",
            );
        }
        ini.push((name, text));
    }
    ini
}

/// How a pool is asked.
fn upstream_of(pool: PhpPool, gateway: Gateway, handover: (bool, Vec<PathBuf>)) -> UpstreamRules {
    let server = PoolServer {
        name: pool.called.clone().unwrap_or_else(|| pool.name()),
        socket: pool.socket_nowhere(),
        timeout: pool.timeout,
        workers: pool.workers,
        workers_max: pool.workers_max,
        queue: pool.queue,
    };
    UpstreamRules { php: Some(pool), ..workers::upstream_of(server, gateway, handover) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::Options;
    use crate::config::parse_configuration;
    use std::sync::Arc;

    fn read(text: &str) -> Result<Options, Vec<String>> {
        let folder = tempfile::tempdir().expect("a directory");
        for name in ["www", "blog"] {
            std::fs::create_dir(folder.path().join(name)).expect("creates");
        }
        parse_configuration(text, folder.path()).map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn equal_pools_are_run_once_and_have_a_place() {
        let text = r#"
            [[host]]
            names = ["a"]
            root = "www"
            php = true
            [[host]]
            names = ["b"]
            root = "blog"
            php = { slow = "5 s" }
            [[host]]
            names = ["c"]
            root = "blog"
            php = { name = "shop", workers = 3, workers_max = 9, user = "www-data", renew = 7, timeout = "30 s", slow = "2 s",
                ini = { memory_limit = "256M", "opcache.enable" = false }, params = { APP = "x" } }
        "#;
        let mut options = read(text).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        let pools = options.php_pools();
        assert_eq!(pools.len(), 2);
        assert_eq!(pools[0], PhpPool::default());
        assert_eq!((pools[1].workers, pools[1].user.as_deref(), pools[1].renew), (3, Some("www-data"), 7));
        let ini = pools[1].ini.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
        assert_eq!(ini, ["memory_limit=256M", "opcache.enable=0"]);
        assert_eq!(pools[1].workers_max, 9);
        assert!(options.php_upstreams().contains(&("shop".to_owned(), 9)), "{:?}", options.php_upstreams());
        let gates = options.hosts.as_ref().expect("hosts").0.upstreams.iter().map(|common| Arc::as_ptr(&common.gate));
        let gates: Vec<_> = gates.collect();
        assert!(gates[0] == gates[1] && gates[1] != gates[2], "the same workers have one gate: {gates:?}");
        // What tells them apart for rules, or for those that wait, gives them workers of their own.
        for other in ["{ name = \"b\" }", "{ queue = 7 }"] {
            let hosts = format!(
                "[[host]]\nnames = [\"a\"]\nroot = \"www\"\nphp = true\n[[host]]\nnames = [\"b\"]\nroot = \"blog\"\nphp = {other}"
            );
            let pools = read(&hosts).unwrap_or_else(|mistakes| panic!("{mistakes:#?}")).php_pools();
            assert_eq!(pools.len(), 2, "{other}");
        }
        options.place_php(Path::new("/run/here"));
        let hosts = options.hosts.expect("hosts");
        let places: Vec<String> =
            hosts.0.upstreams.iter().map(|common| common.rules.servers[0].place.to_string()).collect();
        assert_eq!(places[0], format!("unix:/run/here/{}.sock", pools[0].name()));
        assert_eq!(places.len(), 3);
    }

    #[test]
    fn mistakes_name_place_and_remedy() {
        for (text, expected) in [
            ("php = 3\nroot = \"www\"", "`php` is a number"),
            ("php = true\nproxy = \"http://a\"", "`php` runs scripts below a root"),
            ("php = false\nroot = \"www\"", "takes nothing back"),
            ("root = \"www\"\nphp = { slow = \"70 s\" }", "is killed before it counts as stuck"),
            ("root = \"www\"\nphp = { workers = 4, workers_max = 3 }", "more `workers` without a rule"),
            ("root = \"www\"\nphp = { name = \"7\" }", "is no name that rules can say"),
            ("root = \"www\"\nphp = { slow = \"500 ms\" }", "is no whole number of seconds"),
            ("root = \"www\"\nphp = { ini = { a = \"\\\"\" } }", "cannot be written for php-fpm"),
            ("root = \"www\"\nphp = { user = \"-x\" }", "is no user"),
            ("root = \"www\"\nphp = { accel = false, send_from = [\"www\"] }", "`send_from` means nothing"),
            ("root = \"www\"\n[[host.path]]\nprefix = \"/a\"\nphp = false", "takes nothing back"),
            ("root = \"www\"\n[[host.path]]\nglob = \"/a*\"\nphp = true", "`php` is for a host or a prefix"),
            ("root = \"www\"\n[[host.path]]\nprefix = \"/a\"\nroot = \"blog\"\nphp = true", "end it with a slash"),
            ("root = \"www\"\n[[host.path]]\nprefix = \"/a\"\nphp = { front = true }", "`front` is of a whole host"),
            ("root = \"www\"\n[[host.path]]\nprefix = \"/a\"\nstatus = 404\nphp = true", "nothing is left for scripts"),
        ] {
            let told = read(&format!("[[host]]\n{text}")).err().unwrap_or_default();
            assert!(told.len() == 1 && told[0].contains(expected), "{text} {told:#?}");
        }
    }
}
