//! `cgi`, `cgiplus`, `rte` and `isapi` of a host or of a path: scripts below a root, which processes beside this server
//! run.

use super::script_doubts;
use super::table::{Table, Value};
use super::upstream::{self, Around};
use super::workers::{self, PoolServer};
use crate::http::pattern::Pattern;
use crate::routing::routes::route::SCRIPTS_IN_HOMES;
use crate::routing::rules::Rules;
use crate::routing::settings::{Action, Said};
use crate::upstream::script_pool::{ScriptPool, ScriptWay};
use crate::upstream::settings::{Gateway, UpstreamRules};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Endings of scripts in one table: each has two tables of paths.
const ENDINGS_MAX: usize = 16;
/// Variables of the server's own environment that scripts get.
const PASS_MAX: usize = 64;
const DAY: Duration = Duration::from_secs(86_400);
/// Variables that say something of a request, so that no table can; and those whose names begin so.
const OF_REQUESTS: [&str; 25] = [
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_ID",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
];
const OF_REQUESTS_BEGIN: [&str; 2] = ["HTTP_", "CGIPLUS"];

/// What a table adds for scripts, beside itself.
type Added = (Pattern, String, Said);

/// A directory that is served as files.
#[derive(Debug)]
struct Served {
    /// What of a path it stands for, without a slash at its end.
    mount: String,
    directory: PathBuf,
}

/// A directory of which each file is a script.
#[derive(Debug)]
struct Ran {
    /// What of a path leads to it, with a slash at its end.
    prefix: String,
    directory: PathBuf,
    upstream: usize,
}

/// What the whole host says of scripts.
#[derive(Debug)]
struct OfHost {
    way: ScriptWay,
    endings: Vec<String>,
}

/// The scripts of one host.
#[derive(Debug, Default)]
pub(super) struct ScriptTables {
    /// Tables that are to be put behind the last one.
    added: Vec<Added>,
    of_host: Option<OfHost>,
    served: Vec<Served>,
    ran: Vec<Ran>,
    /// The line of the host.
    line: usize,
}

/// Tells of keys of one table that do not go together, and has all of them known.
pub(super) fn look_alone(table: &Table<'_, '_>) {
    let keys = std::iter::once("php").chain(ScriptWay::ALL.map(ScriptWay::key));
    let mut given = keys.filter_map(|key| Some((key, table.get(key)?)));
    let Some((first, _)) = given.next() else { return };
    for (other, value) in given {
        let remedy = "keep one of them, or give each its own [[host.path]] with a prefix";
        value.wrong(format!("`{other}` and `{first}` do not go together"), remedy);
    }
}

/// The scripts of a table; none if it has none, or others as well.
fn given<'r, 't>(table: &Table<'r, 't>) -> Option<(ScriptWay, Value<'r, 't>)> {
    let mut given = ScriptWay::ALL.into_iter().filter_map(|way| Some((way, table.get(way.key())?)));
    let first = given.next()?;
    let is_alone = given.next().is_none() && table.get("php").is_none();
    is_alone.then_some(first)
}

impl ScriptTables {
    /// What a host says of its scripts.
    pub(super) fn of_host(table: &Table<'_, '_>, said: &Said, around: &Around<'_>, rules: &mut Rules) -> Self {
        let mut tables = Self { line: table.line(), ..Self::default() };
        let root = around.root.filter(|_| matches!(said.action, Some(Action::Files { .. })));
        if let Some(root) = root {
            tables.served.push(Served { mount: String::new(), directory: real(root) });
        }
        let Some((way, value)) = given(table) else { return tables };
        let key = way.key();
        if value.is_false() {
            value.wrong(format!("`{key} = false` takes nothing back in a host"), "leave it away");
            return tables;
        }
        let Some(root) = root else {
            let remedy = "add root = \"DIRECTORY\", and give redirects and upstreams a [[host.path]] of their own";
            value.wrong(format!("`{key}` runs scripts below a root, and this host has none"), remedy);
            return tables;
        };
        let Some(read) = Reading::of(way, &value, root) else { return tables };
        if read.endings.is_empty() {
            all_of_a_site(key, &value);
            return tables;
        }
        let endings = read.endings.clone();
        let directory = root.to_owned();
        let Some(number) = read.enter(&value, (0, String::new(), &directory), rules) else { return tables };
        tables.add_endings("", &endings, (key, &Action::Upstream(number)));
        tables.of_host = Some(OfHost { way, endings });
        tables
    }

    /// What the table of a path says of scripts. Where it has a root of its own, those of the host do not run below it.
    pub(super) fn of_path(&mut self, table: &Table<'_, '_>, own: &Said, around: &Around<'_>, rules: &mut Rules) {
        let prefix = table.get("prefix").map(|value| value.text());
        let own_root = match own.action {
            Some(Action::Files { site, .. }) => Some(rules.sites[site].how.root.clone()),
            _ => None,
        };
        if let (Some(prefix), Some(root)) = (prefix, &own_root) {
            self.close(prefix);
            self.serve(prefix, real(root));
        }
        let Some((way, value)) = given(table) else { return };
        let key = way.key();
        if own.action.is_some() && own_root.is_none() {
            let remedy = format!("keep either `{key}` or what takes its place");
            value.wrong("nothing is left for scripts to answer", remedy);
            return;
        }
        let Some(prefix) = prefix else {
            value.wrong(format!("`{key}` is for a host or a prefix"), "write prefix = \"/...\"");
            return;
        };
        if value.is_false() {
            if self.of_host.as_ref().is_none_or(|host| host.way != way) {
                let what = format!("`{key} = false` takes nothing back: the host has no `{key}`");
                value.wrong(what, "leave it away");
            }
            self.close(prefix);
            return;
        }
        let Some((root, alias_bytes)) = workers::root_of((key, &value), prefix, (own_root, around.root)) else {
            return;
        };
        if let Some(read) = Reading::of(way, &value, &root) {
            if read.endings.is_empty() && prefix == "/" && self.served.iter().any(|served| served.mount.is_empty()) {
                all_of_a_site(key, &value);
                return;
            }
            self.add(read, (&value, prefix), (&root, alias_bytes), rules);
        }
    }

    /// Adds the tables of the scripts below a prefix.
    fn add(
        &mut self,
        read: Reading,
        (value, prefix): (&Value<'_, '_>, &str),
        (root, alias_bytes): (&Path, usize),
        rules: &mut Rules,
    ) {
        let (key, endings) = (read.pool.way.key(), read.endings.clone());
        let mount = format!("{}/", prefix.trim_end_matches('/'));
        let below = mount.get(alias_bytes..).unwrap_or("/").trim_matches('/');
        let directory = root.join(below);
        let Some(number) = read.enter(value, (alias_bytes, mount.clone(), &directory), rules) else { return };
        if !endings.is_empty() {
            self.add_endings(prefix, &endings, (key, &Action::Upstream(number)));
            return;
        }
        let directory = real(&directory);
        for served in &self.served {
            // The same files, as another path would send them.
            if let Some(other) = served.path_to(&directory).filter(|other| !other.starts_with(&mount)) {
                self.added.push(whole(&other, key, &Action::Status(404)));
            }
        }
        self.added.push(whole(&mount, key, &Action::Upstream(number)));
        self.ran.push(Ran { prefix: mount, directory, upstream: number });
    }

    /// Takes note of files that are sent from here on, but for those that are scripts of tables before.
    fn serve(&mut self, prefix: &str, directory: PathBuf) {
        let served = Served { mount: prefix.trim_end_matches('/').to_owned(), directory };
        for ran in &self.ran {
            let Some(path) = served.path_to(&ran.directory) else { continue };
            let action = if path == ran.prefix { Action::Upstream(ran.upstream) } else { Action::Status(404) };
            self.added.push(whole(&path, "scripts", &action));
        }
        self.served.push(served);
    }

    /// Has no scripts of the host run below a prefix.
    fn close(&mut self, prefix: &str) {
        if let Some(OfHost { way, endings }) = self.of_host.take() {
            self.add_endings(prefix, &endings, (way.key(), &Action::Status(404)));
            self.of_host = Some(OfHost { way, endings });
        }
    }

    /// Tables for the scripts below a prefix that have these endings.
    fn add_endings(&mut self, prefix: &str, endings: &[String], (key, action): (&str, &Action)) {
        for glob in globs(prefix, endings) {
            let said = Said { action: Some(action.clone()), ..Said::default() };
            self.added.extend(Pattern::glob(&glob).map(|pattern| (pattern, format!("{key} {glob}"), said)));
        }
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

    /// Paths that are asked for scripts by what was not put yet, or behind them, as globs.
    pub(super) fn paths(&self) -> impl Iterator<Item = String> {
        self.added.iter().filter(|(_, _, said)| matches!(said.action, Some(Action::Upstream(_)))).map(
            |(pattern, label, _)| {
                let glob = label.split_once(' ').map_or("", |(_, glob)| glob);
                if matches!(pattern, Pattern::Prefix(_)) { format!("{glob}**") } else { glob.to_owned() }
            },
        )
    }
}

impl Served {
    /// The path below which the files of a directory are sent, with a slash at its end; none if they are not.
    fn path_to(&self, directory: &Path) -> Option<String> {
        let below = directory.strip_prefix(&self.directory).ok()?;
        let below = String::from_utf8_lossy(below.as_os_str().as_bytes());
        let slash = if below.is_empty() { "" } else { "/" };
        Some(format!("{}/{below}{slash}", self.mount))
    }
}

/// Each file would be a script.
fn all_of_a_site(key: &str, value: &Value<'_, '_>) {
    let remedy = "give them a [[host.path]] with prefix = \"/cgi-bin/\", or write endings = [\".cgi\"]";
    value.wrong(format!("`{key}` of a whole host would run every file of the site"), remedy);
}

/// Paths, each with a slash at its end, below which all files of a root are scripts, where the root stands for `mount`.
pub(super) fn lie_at(rules: &Rules, mount: &str, root: &Path) -> Vec<String> {
    let served = Served { mount: mount.trim_end_matches('/').to_owned(), directory: real(root) };
    let gateways = rules.upstreams.iter().filter(|common| common.rules.scripts.is_some());
    let any = gateways.filter_map(|common| common.rules.gateway.as_ref()).filter(|gateway| gateway.is_any);
    let directories = any.filter_map(|gateway| {
        let below = gateway.mount.get(gateway.alias_bytes..)?.trim_matches('/');
        Some(real(&gateway.root.as_ref()?.join(below)))
    });
    directories.filter_map(|directory| served.path_to(&directory)).collect()
}

/// A table for all below a path.
fn whole(prefix: &str, key: &str, action: &Action) -> Added {
    let said = Said { action: Some(action.clone()), ..Said::default() };
    (Pattern::Prefix(prefix.as_bytes().to_vec()), format!("{key} {prefix}"), said)
}

/// Globs for scripts below a prefix, and for paths that go on behind their names.
fn globs(prefix: &str, endings: &[String]) -> impl Iterator<Item = String> {
    endings.iter().flat_map(move |ending| ["", "/**"].map(|behind| format!("{prefix}**{ending}{behind}")))
}

/// Scripts in the directories of users, which run as these.
#[derive(Debug)]
pub(super) struct HomeScripts<'r, 't> {
    read: Reading,
    value: Value<'r, 't>,
}

impl<'r, 't> HomeScripts<'r, 't> {
    /// What a route says of scripts in directories of this name, if it does.
    pub(super) fn of(table: &Table<'r, 't>, folder: &str) -> Option<Self> {
        if let Some(value) = table.misplaced(ScriptWay::Isapi.key()) {
            value.wrong("`isapi` is not for the directories of users", "write cgi, cgiplus or rte, or leave it away");
        }
        let ways = [ScriptWay::Cgi, ScriptWay::Cgiplus, ScriptWay::Rte];
        let mut given = ways.into_iter().filter_map(|way| Some((way, table.get(way.key())?)));
        let (way, value) = given.next()?;
        let key = way.key();
        for (other, value) in given {
            value.wrong(format!("`{}` and `{key}` do not go together", other.key()), "keep one of them");
        }
        if value.is_false() {
            value.wrong(format!("`{key} = false` takes nothing back in a route"), "leave it away");
            return None;
        }
        let of_table = if value.is_table() { value.table(key) } else { None };
        for name in ["as_owner", "user"] {
            if let Some(value) = of_table.as_ref().and_then(|table| table.misplaced(name)) {
                let what = format!("`{name}` means nothing here: scripts run as the owners of the directories");
                value.wrong(what, "leave it away");
                return None;
            }
        }
        let mut read = Reading::of(way, &value, Path::new("/"))?;
        (read.pool.as_owner, read.pool.home) = (true, Some(Path::new(folder).join(SCRIPTS_IN_HOMES.trim_matches('/'))));
        Some(Self { read, value })
    }

    /// Looks at the scripts of users: their names, numbers, homes, and directories that are served.
    pub(super) fn look<'h>(&self, users: impl Iterator<Item = (&'h str, u32, &'h str, PathBuf)>) {
        let homes: Vec<_> = users
            .map(|(user, uid, home, served)| {
                let directory = served.join(SCRIPTS_IN_HOMES.trim_matches('/'));
                script_doubts::Home { user, uid, home: Path::new(home), directory }
            })
            .collect();
        script_doubts::look_in_homes(&self.value, &self.read.pool, &homes, &self.read.endings);
    }

    /// The number of the upstream for the scripts of one user, whose directory `/~NAME` stands for.
    pub(super) fn enter(&self, name: &str, root: &Path, rules: &mut Rules) -> Option<usize> {
        let alias_bytes = "/~".len() + name.len();
        let mount = format!("/~{name}{SCRIPTS_IN_HOMES}");
        self.read.clone().enter_below(&self.value, (root.to_owned(), alias_bytes, mount), rules)
    }
}

/// A directory by the name that all links to it lead to.
fn real(directory: &Path) -> PathBuf {
    let absolute = || std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    directory.canonicalize().unwrap_or_else(|_| absolute())
}

/// What one table of scripts says.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pool: ScriptPool,
    /// How names of scripts end; none if each file is one.
    endings: Vec<String>,
    passes_authorization: bool,
    handover: (bool, Vec<PathBuf>),
}

impl Reading {
    /// The table, or `true`.
    fn of(way: ScriptWay, value: &Value<'_, '_>, root: &Path) -> Option<Self> {
        let table = if value.is_table() { value.table(way.key()) } else { None };
        if table.is_none() && value.boolean().is_none() {
            return None;
        }
        let pool = ScriptPool::new(way, std::path::absolute(root).unwrap_or_else(|_| root.to_owned()));
        let list: &[&str] = match way {
            ScriptWay::Cgi | ScriptWay::Cgiplus => &[],
            ScriptWay::Rte => &[".pl", ".cgi", ".py"],
            ScriptWay::Isapi => &[".so"],
        };
        let endings = list.iter().map(|ending| (*ending).to_owned()).collect();
        let mut read = Self { pool, endings, passes_authorization: false, handover: (true, Vec::new()) };
        if let Some(table) = &table {
            read.read_endings(table);
            read.read_pool(table);
            read.read_times(table);
            read.read_bounds(table);
            read.read_stay(table);
            read.read_run(table);
            read.read_env(table);
            read.passes_authorization = table.get("authorization").and_then(|value| value.boolean()).unwrap_or(false);
            read.handover = upstream::handover(table, true);
            if let Some(value) = table.misplaced("params") {
                value.wrong("`params` is of programs that others run", "write env = { NAME = \"value\" }");
            }
            table.finish();
        }
        Some(read)
    }

    /// The number of the upstream for these scripts, which lie in a directory.
    fn enter(
        self,
        value: &Value<'_, '_>,
        (alias_bytes, mount, directory): (usize, String, &Path),
        rules: &mut Rules,
    ) -> Option<usize> {
        script_doubts::look(value, &self.pool, directory, &self.endings);
        let root = self.pool.root.clone();
        self.enter_below(value, (root, alias_bytes, mount), rules)
    }

    /// The same for scripts below a root that is not that of all scripts of the pool.
    fn enter_below(
        self,
        value: &Value<'_, '_>,
        (root, alias_bytes, mount): (PathBuf, usize, String),
        rules: &mut Rules,
    ) -> Option<usize> {
        let Self { pool, endings, passes_authorization, handover } = self;
        let is_any = endings.is_empty();
        let gateway = Gateway {
            root: Some(root),
            endings,
            is_any,
            mount: if is_any { mount } else { String::new() },
            alias_bytes,
            passes_authorization,
            ..Gateway::default()
        };
        let server = PoolServer {
            name: pool.called.clone().unwrap_or_else(|| pool.name()),
            socket: pool.socket_nowhere(),
            timeout: pool.timeout,
            workers: pool.workers,
            workers_max: pool.workers_max,
            queue: pool.queue,
        };
        let of = UpstreamRules { scripts: Some(pool), ..workers::upstream_of(server, gateway, handover) };
        upstream::enter(value, (of, None), rules)
    }

    fn read_endings(&mut self, table: &Table<'_, '_>) {
        let Some(value) = table.get("endings") else { return };
        let example = if self.pool.way == ScriptWay::Isapi { ".so" } else { ".cgi" };
        self.endings = upstream::endings(&value, example);
        if self.endings.is_empty() {
            value.wrong("there is no ending", format!("write endings = [\"{example}\"], or leave it away"));
        }
        if self.endings.len() > ENDINGS_MAX {
            let what = format!("there are {} endings", self.endings.len());
            value.wrong(what, format!("at most {ENDINGS_MAX} are possible"));
            self.endings.truncate(ENDINGS_MAX);
        }
    }

    fn read_pool(&mut self, table: &Table<'_, '_>) {
        let read = workers::read(table);
        let pool = &mut self.pool;
        (pool.workers, pool.workers_max, pool.queue) = (read.workers, read.workers_max, read.queue);
        (pool.called, pool.user) = (read.called, read.user);
        if pool.way == ScriptWay::Isapi {
            if let Some(value) = table.misplaced("as_owner") {
                let what = "`as_owner` means nothing for `isapi`, whose libraries run in one process";
                value.wrong(what, "leave it away, or serve scripts by cgi, cgiplus or rte");
            }
            return;
        }
        pool.as_owner = table.get("as_owner").and_then(|value| value.boolean()).unwrap_or(pool.as_owner);
        if let Some(value) = table.get("user").filter(|_| pool.as_owner) {
            value.wrong("`user` means nothing where each script runs as its owner", "keep either `user` or `as_owner`");
        }
    }

    fn read_times(&mut self, table: &Table<'_, '_>) {
        let time = |key| table.get(key).and_then(|value| value.duration(Duration::ZERO..=DAY));
        let pool = &mut self.pool;
        pool.timeout = time("timeout").unwrap_or(pool.timeout);
        let is_longer = |slow: Duration| !pool.timeout.is_zero() && slow >= pool.timeout;
        match (table.get("slow"), time("slow")) {
            (Some(value), Some(slow)) => {
                if is_longer(slow) {
                    value.wrong("a script is killed before it counts as stuck", "make `timeout` the longer one");
                }
                pool.slow = slow;
            }
            // It is killed before, which is told as well.
            (None, _) if is_longer(pool.slow) => pool.slow = Duration::ZERO,
            _ => {}
        }
    }

    /// Bounds on what processes take.
    fn read_bounds(&mut self, table: &Table<'_, '_>) {
        let pool = &mut self.pool;
        if let Some(value) = table.get("cpu")
            && let Some(time) = value.duration(Duration::from_secs(1)..=DAY)
        {
            if time.subsec_nanos() > 0 {
                value.wrong("`cpu` is no whole number of seconds", "the kernel counts seconds: write \"10 s\"");
            }
            pool.cpu = time;
        }
        let bytes = |key, least| table.get(key).and_then(|value| value.bytes(least..=1 << 50)).unwrap_or(0);
        pool.memory = bytes("memory", 1 << 20);
        (pool.files, pool.output) = (bytes("files", 1), bytes("output", 1));
        if let Some(number) = table.get("processes").and_then(|value| value.integer(1..=1_000_000)) {
            pool.processes = number;
        }
    }

    /// How long processes stay, and how they are told of a request.
    fn read_stay(&mut self, table: &Table<'_, '_>) {
        let pool = &mut self.pool;
        let key = pool.way.key();
        if pool.way.is_persistent() {
            if let Some(number) = table.get("renew").and_then(|value| value.integer(0..=1_000_000_000)) {
                pool.renew = number as u32;
            }
            if let Some(time) = table.get("idle").and_then(|value| value.duration(Duration::from_millis(1)..=DAY)) {
                pool.idle = time;
            }
        } else {
            for name in ["renew", "idle"] {
                if let Some(value) = table.misplaced(name) {
                    let what = format!("`{name}` means nothing for `{key}`, which starts a script for each request");
                    value.wrong(what, "leave it away, or write cgiplus or rte for scripts that stay");
                }
            }
        }
        if pool.way != ScriptWay::Cgiplus {
            if let Some(value) = table.misplaced("record") {
                value.wrong(format!("`record` means nothing for `{key}`"), "leave it away: it is of cgiplus");
            }
            return;
        }
        let Some(value) = table.get("record") else { return };
        match value.string() {
            Some("struct") => pool.is_struct = true,
            Some("lines") | None => pool.is_struct = false,
            Some(other) => {
                value.wrong(format!("\"{other}\" is no form of the variables"), "write \"lines\" or \"struct\"");
            }
        }
    }

    /// Programs that run files in place of these themselves.
    fn read_run(&mut self, table: &Table<'_, '_>) {
        if self.pool.way == ScriptWay::Isapi {
            if let Some(value) = table.misplaced("run") {
                value.wrong("`run` means nothing for `isapi`, whose files are libraries", "leave it away");
            }
            return;
        }
        let Some(value) = table.get("run") else { return };
        let Some(run) = value.table("run") else { return };
        let entries = run.entries();
        if entries.is_empty() || entries.len() > ENDINGS_MAX {
            let what = format!("there are {} programs that run files", entries.len());
            value.wrong(what, format!("write 1 to {ENDINGS_MAX}, such as {{ \".pl\" = \"/usr/bin/perl\" }}"));
        }
        for (ending, span, program) in entries.into_iter().take(ENDINGS_MAX) {
            if !upstream::is_ending(&ending) {
                let what = format!("\"{ending}\" is no ending of a name");
                run.reader.wrong(span.start, what, "write one such as \".pl\", in quotes");
            } else if !self.endings.is_empty() && !self.endings.contains(&ending) {
                let what = format!("no script has a name with \"{ending}\"");
                run.reader.wrong(span.start, what, "add it to `endings`, or leave it away");
            }
            let Some(text) = program.string() else { continue };
            if !text.starts_with('/') {
                program.wrong(
                    format!("\"{text}\" is not the whole path of a program"),
                    "write one such as \"/usr/bin/perl\"",
                );
            }
            self.pool.interpreters.extend(program.path().map(|path| (ending, path)));
        }
    }

    /// Variables that are the same for all requests.
    fn read_env(&mut self, table: &Table<'_, '_>) {
        if let Some(env) = table.get("env").and_then(|value| value.table("env")) {
            self.pool.env = upstream::params(&env);
            for (name, span, _) in env.entries() {
                if is_of_requests(&name) {
                    let what = format!("{name} says something of a request");
                    env.reader.wrong(span.start, what, "leave it to the server, or give it another name");
                }
            }
        }
        let Some(value) = table.get("pass") else { return };
        let items = value.strings();
        if items.len() > PASS_MAX {
            value.wrong(format!("there are {} variables", items.len()), format!("at most {PASS_MAX} are possible"));
        }
        for item in items.iter().take(PASS_MAX) {
            let name = item.text();
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if name.is_empty() || !name.bytes().all(is_name) {
                item.wrong(format!("\"{name}\" is no name of a variable"), "write one such as \"LANG\"");
            } else if is_of_requests(name) {
                item.wrong(format!("{name} says something of a request"), "leave it away");
            } else if self.pool.env.iter().any(|(known, _)| known == name) {
                item.wrong(format!("`env` says the value of {name}"), "keep one of them");
            }
            self.pool.pass.push(name.to_owned());
        }
    }
}

/// The pool and the endings of scripts that stand for themselves, below a root of their own: those of a script server.
pub(super) fn alone(way: ScriptWay, value: &Value<'_, '_>, root: &Path) -> Option<(ScriptPool, Vec<String>)> {
    let read = Reading::of(way, value, root)?;
    script_doubts::look(value, &read.pool, root, &read.endings);
    Some((read.pool, read.endings))
}

pub(super) fn is_of_requests(name: &str) -> bool {
    OF_REQUESTS.contains(&name) || OF_REQUESTS_BEGIN.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::explanation::{RouteQuestion, explain_route};
    use crate::config::options::Options;
    use crate::config::parse_configuration;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    /// A directory with `www/cgi-bin/{a,sub/b.pl,.hidden}`, `www/{index.html,c.cgi}` and `other/a`.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a directory");
        for name in
            ["www/cgi-bin/a", "www/cgi-bin/sub/b.pl", "www/cgi-bin/.hidden", "www/c.cgi", "www/index.html", "other/a"]
        {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("creates");
            std::fs::write(&path, "#!/bin/sh\necho\n").expect("writes");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("sets the mode");
        }
        folder
    }

    fn read(text: &str, folder: &Path) -> Result<Options, Vec<String>> {
        parse_configuration(text, folder).map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
    }

    fn good(text: &str, folder: &Path) -> Options {
        read(text, folder).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes:#?}"))
    }

    #[test]
    fn a_table_of_scripts_is_a_pool() {
        let folder = folder();
        let text = r#"
            [[host]]
            names = ["a"]
            root = "www"
            [[host.path]]
            prefix = "/cgi-bin/"
            cgi = true
            [[host.path]]
            prefix = "/cgi-bin/sub/"
            cgiplus = { name = "shop", workers = 3, workers_max = 9, queue = 7, user = "web", timeout = "1500 ms",
                slow = "700 ms", endings = [".cgi", ".pl"], run = { ".pl" = "/bin/sh" }, env = { A = "b" }, pass = ["LANG"],
                cpu = "10 s", memory = "256 MiB", processes = 64, files = "1 GiB", output = "2 GiB", renew = 7,
                idle = "1 min", record = "struct" }
            [[host]]
            names = ["b"]
            root = "www"
            rte = true
            [[host.path]]
            prefix = "/dll/"
            isapi = { timeout = "3 s" }
        "#;
        let mut options = good(text, folder.path());
        let pools = options.script_pools();
        let root = folder.path().join("www");
        assert_eq!(
            pools.iter().map(|pool| pool.way).collect::<Vec<_>>(),
            [ScriptWay::Cgi, ScriptWay::Cgiplus, ScriptWay::Rte, ScriptWay::Isapi]
        );
        assert_eq!(pools[0], ScriptPool::new(ScriptWay::Cgi, root.clone()));
        assert_eq!(pools[2], ScriptPool::new(ScriptWay::Rte, root.clone()));
        let seconds = Duration::from_secs;
        // A script cannot be stuck for longer than it may run.
        let isapi = ScriptPool::new(ScriptWay::Isapi, root.clone());
        assert_eq!(pools[3], ScriptPool { timeout: seconds(3), slow: Duration::ZERO, ..isapi });
        let expected = ScriptPool {
            way: ScriptWay::Cgiplus,
            called: Some("shop".to_owned()),
            workers: 3,
            workers_max: 9,
            queue: 7,
            user: Some("web".to_owned()),
            timeout: Duration::from_millis(1500),
            slow: Duration::from_millis(700),
            root,
            interpreters: vec![(".pl".to_owned(), "/bin/sh".into())],
            env: vec![("A".to_owned(), "b".to_owned())],
            pass: vec!["LANG".to_owned()],
            cpu: seconds(10),
            memory: 256 << 20,
            processes: 64,
            files: 1 << 30,
            output: 2 << 30,
            renew: 7,
            idle: seconds(60),
            is_struct: true,
            as_owner: false,
            home: None,
        };
        assert_eq!(pools[1], expected);
        assert!(options.php_upstreams().contains(&("shop".to_owned(), 9)), "{:?}", options.php_upstreams());
        assert!(options.php_pools().is_empty());
        options.place_scripts(Path::new("/run/here"));
        let hosts = options.hosts.expect("hosts");
        let places: Vec<String> =
            hosts.0.upstreams.iter().map(|common| common.rules.servers[0].place.to_string()).collect();
        let sockets: Vec<String> = pools.iter().map(|pool| format!("unix:/run/here/{}.sock", pool.name())).collect();
        assert_eq!(places, sockets);
    }

    #[test]
    fn upstreams_of_the_same_scripts_have_one_gate() {
        let folder = folder();
        let text = "[[host]]\nroot = \"www\"\n[[host.path]]\nprefix = \"/cgi-bin\"\ncgi = true\n\
            [[host.path]]\nprefix = \"/cgi-bin/sub/\"\ncgi = { accel = false }\n\
            [[host.path]]\nprefix = \"/other/\"\nroot = \"other\"\ncgi = true";
        let options = good(text, folder.path());
        let hosts = options.hosts.as_ref().expect("hosts");
        let gates: Vec<_> = hosts.0.upstreams.iter().map(|common| Arc::as_ptr(&common.gate)).collect();
        assert!(gates.len() == 3 && gates[0] == gates[1] && gates[1] != gates[2], "{gates:?}");
        assert_eq!(options.script_pools().len(), 2);
    }

    #[test]
    fn mistakes_in_tables_of_scripts_name_place_and_remedy() {
        let folder = folder();
        let host = "root = \"www\"\n";
        let path = "root = \"www\"\n[[host.path]]\nprefix = \"/cgi-bin/\"\n";
        let user = "root = \"www\"\n[[host.route]]\nuser = \"public_html\"\n";
        for (text, expected) in [
            (format!("{host}cgi = 3"), "`cgi` is a number"),
            (format!("{host}cgi = true"), "would run every file of the site"),
            (format!("{host}cgiplus = {{ workers = 2 }}"), "would run every file of the site"),
            (format!("{host}[[host.path]]\nprefix = \"/\"\ncgi = true"), "would run every file of the site"),
            (format!("{host}rte = false"), "takes nothing back in a host"),
            ("rte = true\nproxy = \"http://a\"".to_owned(), "`rte` runs scripts below a root"),
            (format!("{host}php = true\nrte = true"), "`rte` and `php` do not go together"),
            (format!("{path}cgi = true\nisapi = true"), "`isapi` and `cgi` do not go together"),
            (format!("{path}cgi = true\nproxy = \"http://a\""), "nothing is left for scripts"),
            (format!("{path}cgi = true\nstatus = 404"), "nothing is left for scripts"),
            (format!("{path}cgi = false"), "takes nothing back"),
            (format!("{host}rte = true\n[[host.path]]\nprefix = \"/x/\"\ncgi = false"), "the host has no `cgi`"),
            (format!("{host}[[host.path]]\nglob = \"/a*\"\ncgi = true"), "is for a host or a prefix"),
            (format!("{host}[[host.path]]\nprefix = \"/a\"\nroot = \"other\"\ncgi = true"), "end it with a slash"),
            ("[[host.path]]\nprefix = \"/a\"\ncgi = true".to_owned(), "and there is none"),
            (format!("{path}cgi = {{ renew = 7 }}"), "`renew` means nothing for `cgi`"),
            (format!("{path}cgi = {{ idle = \"7 s\" }}"), "`idle` means nothing for `cgi`"),
            (format!("{path}rte = {{ record = \"lines\" }}"), "`record` means nothing for `rte`"),
            (format!("{path}cgiplus = {{ record = \"xml\" }}"), "is no form of the variables"),
            (format!("{path}cgi = {{ timeout = \"3 s\", slow = \"3 s\" }}"), "is killed before it counts as stuck"),
            (format!("{path}cgi = {{ workers = 4, workers_max = 3 }}"), "more `workers` without a rule"),
            (format!("{path}cgi = {{ cpu = \"1500 ms\" }}"), "no whole number of seconds"),
            (format!("{path}cgi = {{ memory = \"1 KiB\" }}"), "`memory` is no size"),
            (format!("{path}cgi = {{ endings = [] }}"), "there is no ending"),
            (format!("{path}cgi = {{ endings = [\"pl\"] }}"), "is no ending of a name"),
            (format!("{path}cgi = {{ run = {{ pl = \"/bin/sh\" }} }}"), "is no ending of a name"),
            (format!("{path}cgi = {{ run = {{ \".pl\" = \"perl\" }} }}"), "is not the whole path of a program"),
            (format!("{path}rte = {{ run = {{ \".rb\" = \"/bin/sh\" }} }}"), "no script has a name with"),
            (format!("{path}isapi = {{ run = {{ \".so\" = \"/bin/sh\" }} }}"), "`run` means nothing for `isapi`"),
            (format!("{path}cgi = {{ env = {{ HTTP_PROXY = \"x\" }} }}"), "says something of a request"),
            (format!("{path}cgi = {{ env = {{ A = \"x\\n\" }} }}"), "cannot be sent"),
            (format!("{path}cgi = {{ pass = [\"A=B\"] }}"), "is no name of a variable"),
            (format!("{path}cgi = {{ env = {{ A = \"x\" }}, pass = [\"A\"] }}"), "`env` says the value of A"),
            (format!("{path}cgi = {{ params = {{ A = \"x\" }} }}"), "write env ="),
            (format!("{path}cgi = {{ user = \"-x\" }}"), "is no user"),
            (format!("{path}cgi = {{ user = \"web\", as_owner = true }}"), "`user` means nothing where each script"),
            (format!("{host}[[host.route]]\npass = true\ncgi = true"), "in a route is for the directories of users"),
            (format!("{user}isapi = true"), "`isapi` is not for the directories of users"),
            (format!("{user}cgi = true\nrte = true"), "`rte` and `cgi` do not go together"),
            (format!("{user}cgi = false"), "takes nothing back in a route"),
            (format!("{user}cgi = {{ as_owner = true }}"), "`as_owner` means nothing here"),
            (format!("{user}rte = {{ user = \"web\" }}"), "`user` means nothing here"),
            (format!("{path}isapi = {{ as_owner = true }}"), "`as_owner` means nothing for `isapi`"),
            (format!("{path}cgi = {{ accel = false, send_from = [\"www\"] }}"), "`send_from` means nothing"),
            (format!("{path}cgi = {{ worker = 3 }}"), "did you mean `workers`"),
        ] {
            let told = read(&format!("[[host]]\n{text}"), folder.path()).err().unwrap_or_default();
            assert!(told.len() == 1 && told[0].contains(expected), "{text} {told:#?}");
        }
    }

    /// What answers for a path: the file that runs, the file that is sent, or the status.
    fn answered(options: &Options, target: &str) -> String {
        let told = explain_route(options, &RouteQuestion::new(target)).expect("is explained").answer;
        match (told.status, told.upstream.and_then(|upstream| upstream.script)) {
            (None, Some(script)) => format!("run {} {}", script.name, script.path_info),
            (Some(200), None) => "sent".to_owned(),
            (status, _) => status.map_or("-".to_owned(), |status| status.to_string()),
        }
    }

    #[test]
    fn files_that_are_scripts_are_run_and_never_sent() {
        let folder = folder();
        let cgi_bin = "[[host.path]]\nprefix = \"/cgi-bin/\"\ncgi = true\n";
        let whole = "[[host]]\nroot = \"www\"\n";
        let own = "[[host.path]]\nprefix = \"/run/\"\nroot = \"www/cgi-bin\"\ncgi = true\n";
        let again = "[[host.path]]\nprefix = \"/again/\"\nroot = \"www\"\n";
        let off = "[[host.path]]\nprefix = \"/cgi-bin/\"\ncgi = false\n";
        for (text, expected) in [
            (
                format!("{whole}{cgi_bin}"),
                &[
                    ("/index.html", "sent"),
                    ("/c.cgi", "sent"),
                    ("/cgi-bin/a", "run /cgi-bin/a "),
                    ("/cgi-bin/a/b/c", "run /cgi-bin/a /b/c"),
                    ("/cgi-bin/sub/b.pl/x", "run /cgi-bin/sub/b.pl /x"),
                    ("/cgi-bin/", "404"),
                    ("/cgi-bin/sub", "404"),
                    ("/cgi-bin/sub/", "404"),
                    ("/cgi-bin/none", "404"),
                    ("/cgi-bin/.hidden", "404"),
                    ("/cgi-bin/../cgi-bin/a", "400"),
                    ("/cgi-bin", "301"),
                ][..],
            ),
            (
                format!("{whole}cgi = {{ endings = [\".cgi\"] }}\n{off}"),
                &[
                    ("/c.cgi", "run /c.cgi "),
                    ("/c.cgi/info", "run /c.cgi /info"),
                    ("/none.cgi", "404"),
                    ("/index.html", "sent"),
                    ("/cgi-bin/a", "sent"),
                    ("/cgi-bin/none.cgi", "404"),
                ],
            ),
            // Other paths to the same directory.
            (format!("{whole}{own}"), &[("/run/a/x", "run /run/a /x"), ("/cgi-bin/a", "404"), ("/index.html", "sent")]),
            (
                format!("{whole}{cgi_bin}{again}"),
                &[("/again/cgi-bin/a", "404"), ("/again/index.html", "sent"), ("/cgi-bin/a", "run /cgi-bin/a ")],
            ),
            (
                format!("{whole}{cgi_bin}[[host.path]]\nprefix = \"/\"\nroot = \"www\"\n"),
                &[("/cgi-bin/a", "run /cgi-bin/a "), ("/index.html", "sent")],
            ),
            (
                format!("[[host]]\n{again}{own}"),
                &[("/again/cgi-bin/a", "404"), ("/run/a", "run /run/a "), ("/again/c.cgi", "sent")],
            ),
            // The script at the top of a site of PHP has nothing to do with scripts of other kinds.
            (
                format!("{whole}php = true\n{cgi_bin}"),
                &[("/cgi-bin/a/b", "run /cgi-bin/a /b"), ("/cgi-bin/none", "404")],
            ),
        ] {
            let options = good(&text, folder.path());
            for (target, expected) in expected {
                assert_eq!(answered(&options, target), *expected, "{target} in\n{text}");
            }
        }
    }

    #[test]
    fn a_host_that_sends_scripts_of_another_one_is_doubted() {
        let folder = folder();
        let text = "[[host]]\nnames = [\"a\"]\nroot = \"www\"\n[[host.path]]\nprefix = \"/cgi-bin/\"\ncgi = true\n\
            [[host]]\nnames = [\"b\"]\nroot = \"www\"\n";
        let warnings = |text: &str| good(text, folder.path()).warnings;
        let told = warnings(text);
        assert!(told.len() == 1 && told[0].line == 7 && told[0].what.contains("below /cgi-bin/"), "{told:#?}");
        assert!(warnings(&format!("{text}[[host.path]]\nprefix = \"/cgi-bin/\"\nstatus = 404\n")).is_empty());
    }

    #[test]
    fn the_explanation_names_script_way_and_pool() {
        let folder = folder();
        let text = "[[host]]\nroot = \"www\"\n[[host.path]]\nprefix = \"/cgi-bin/\"\n\
            cgiplus = { name = \"shop\", workers = 3 }\n";
        let options = good(text, folder.path());
        let told = explain_route(&options, &RouteQuestion::new("/cgi-bin/a/b")).expect("is explained");
        assert_eq!(told.answer.what, "a script answers by CGIplus in the pool shop");
        let upstream = told.answer.upstream.expect("an upstream");
        assert_eq!((upstream.speaks, upstream.servers[0].place.as_str()), ("CGIplus", "3 workers of this server"));
        assert_eq!(told.answer.file, Some(folder.path().join("www/cgi-bin/a").display().to_string()));
        let tables: Vec<_> = told.tables.iter().flat_map(|table| &table.says).collect();
        assert!(tables.iter().any(|says| *says == "cgiplus shop"), "{tables:?}");
    }

    #[test]
    fn what_keeps_scripts_from_being_run_is_doubted() {
        let folder = folder();
        let directory = folder.path().join("www/cgi-bin");
        let doubts = |table: &str| {
            let text = format!("[[host]]\nroot = \"www\"\n[[host.path]]\nprefix = \"/cgi-bin/\"\n{table}");
            let warnings = good(&text, folder.path()).warnings;
            assert!(warnings.iter().all(|warning| warning.line == 5), "{warnings:#?}");
            warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(doubts("cgi = true"), Vec::<String>::new());
        let write = |name: &str, text: &str, mode| {
            std::fs::write(directory.join(name), text).expect("writes");
            std::fs::set_permissions(directory.join(name), std::fs::Permissions::from_mode(mode)).expect("sets it");
        };
        let told = doubts("cgi = { as_owner = true }").join("\n");
        // SAFETY: the call takes nothing.
        let is_root = unsafe { libc::geteuid() } == 0;
        let expected = if is_root { "does not run as its owner: that is a user" } else { "only a server that root" };
        assert!(told.contains(expected), "{told}");
        write("x.pl", "#!/bin/sh\n", 0o644);
        write("y.pl", "#!/bin/sh\n", 0o600);
        let told = doubts("cgi = true");
        assert!(told.len() == 1 && told[0].contains("may not be executed, as 1 more"), "{told:#?}");
        assert_eq!(doubts("cgi = { run = { \".pl\" = \"/bin/sh\" } }"), Vec::<String>::new());
        assert_eq!(doubts("cgi = { endings = [\".sh\"] }"), Vec::<String>::new());
        assert_eq!(doubts("rte = true"), Vec::<String>::new());
        let told = doubts("cgi = { run = { \".pl\" = \"/nonexistent/perl\" } }");
        assert!(told.len() == 1 && told[0].contains("/nonexistent/perl is no program"), "{told:#?}");
        std::fs::remove_file(directory.join("x.pl"))
            .and_then(|()| std::fs::remove_file(directory.join("y.pl")))
            .expect("");
        write("z.py", "#!/usr/bin/env no-such-python -u\n", 0o755);
        let told = doubts("cgi = true");
        assert!(told.len() == 1 && told[0].contains("needs no-such-python, which is not there"), "{told:#?}");
        assert_eq!(doubts("rte = true").len(), 1);
        write("z.py", "#!/nonexistent/python\n", 0o755);
        assert!(doubts("cgi = true")[0].contains("needs /nonexistent/python"));
        write("z.py", "#!/bin/sh\r\n", 0o755);
        assert!(doubts("cgi = true")[0].contains("ends with CR LF"));
        assert_eq!(doubts("cgi = { run = { \".py\" = \"/bin/sh\" } }"), Vec::<String>::new());
        // The user that scripts run as, where the table names it.
        let set =
            |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("sets it");
        set(folder.path(), 0o700);
        write("z.py", "#!/bin/sh\n", 0o700);
        let told = doubts("cgi = { user = \"nobody\" }");
        assert!(!told.is_empty() && told[0].contains(&format!("{} is closed", folder.path().display())), "{told:#?}");
        set(folder.path(), 0o755);
        let told = doubts("cgi = { user = \"nobody\" }");
        assert!(told.iter().any(|told| told.contains("may not be executed by nobody")), "{told:#?}");
        write("z.py", "#!/bin/sh\n", 0o711);
        let told = doubts("cgi = { user = \"nobody\" }");
        assert!(told.iter().any(|told| told.contains("may not be read by nobody")), "{told:#?}");
        write("z.py", "#!/bin/sh\n", 0o755);
        assert_eq!(doubts("cgi = { user = \"nobody\" }"), Vec::<String>::new());
        write("z.py", "print()\n", 0o755);
        assert!(doubts("cgi = true")[0].contains("has no first line such as"));
        std::fs::remove_dir_all(&directory).expect("removes");
        let told = doubts("cgi = true");
        assert!(told.len() == 1 && told[0].contains("there is no directory"), "{told:#?}");
    }
}
