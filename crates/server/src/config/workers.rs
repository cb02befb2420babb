//! What pools of processes beside the server have in common: how many there are, who they are, and how they are asked.

use super::table::{Table, Value};
use super::upstream;
use crate::upstream::settings::{
    Balance, ForwardingFields, Gateway, HealthRules, PathRule, Place, PoolBounds, RetryRules, Speaks, UpstreamRules,
    UpstreamServer, UpstreamTimeouts, UpstreamTls,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Workers of one pool.
const WORKERS_MAX: u64 = 10_000;
const DAY: Duration = Duration::from_secs(86_400);
/// How much later than the process beside it the server gives a request up, which says less of it.
const LATER: Duration = Duration::from_secs(5);

/// What a table says of the processes of a pool.
#[derive(Debug)]
pub(super) struct Workers {
    pub(super) workers: u32,
    pub(super) workers_max: u32,
    pub(super) queue: u64,
    pub(super) called: Option<String>,
    pub(super) user: Option<String>,
}

/// A pool as the server asks it.
#[derive(Debug)]
pub(super) struct PoolServer {
    pub(super) name: String,
    pub(super) socket: PathBuf,
    /// How long a request may run; zero = for ever.
    pub(super) timeout: Duration,
    pub(super) workers: u32,
    pub(super) workers_max: u32,
    pub(super) queue: u64,
}

/// What a table says of the processes of a pool.
pub(super) fn read(table: &Table<'_, '_>) -> Workers {
    let mut read = Workers { workers: 8, workers_max: 8, queue: 1024, called: upstream::name(table), user: None };
    if let Some(number) = table.get("workers").and_then(|value| value.integer(1..=WORKERS_MAX)) {
        read.workers = number as u32;
    }
    read.workers_max = read.workers;
    if let Some(value) = table.get("workers_max")
        && let Some(number) = value.integer(1..=WORKERS_MAX)
    {
        if (number as u32) < read.workers {
            value.wrong("there are more `workers` without a rule", "write at least as many as `workers`");
        }
        read.workers_max = number as u32;
    }
    if let Some(number) = table.get("queue").and_then(|value| value.integer(0..=1_000_000)) {
        read.queue = number;
    }
    if let Some(value) = table.get("user") {
        let name = value.string().unwrap_or_default();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.starts_with('-') || !name.bytes().all(is_name) {
            value.wrong(format!("\"{name}\" is no user"), "write a name such as \"www-data\"");
        }
        read.user = Some(name.to_owned());
    }
    read
}

/// Where the scripts of a path lie: the root, and how many bytes of a path it stands for; none where that is not said.
pub(super) fn root_of(
    (key, value): (&str, &Value<'_, '_>),
    prefix: &str,
    (own, of_host): (Option<PathBuf>, Option<&Path>),
) -> Option<(PathBuf, usize)> {
    match (own, of_host) {
        (Some(root), _) if prefix.ends_with('/') => return Some((root, prefix.len() - 1)),
        (Some(_), _) => {
            value.wrong("the prefix of scripts with a root of their own is a directory", "end it with a slash");
        }
        (None, Some(root)) => return Some((root.to_owned(), 0)),
        (None, None) => {
            let what = format!("`{key}` runs scripts below a root, and there is none");
            value.wrong(what, "add root = \"DIRECTORY\"");
        }
    }
    None
}

/// How a pool is asked.
pub(super) fn upstream_of(server: PoolServer, gateway: Gateway, handover: (bool, Vec<PathBuf>)) -> UpstreamRules {
    let patience = if server.timeout.is_zero() { DAY } else { server.timeout + LATER };
    let mut health = HealthRules::default();
    // It is the only one: to leave it out helps no client, and the process beside the server looks after it.
    (health.passive.failures, health.passive.percent) = (0, 0);
    let (connections_max, idle_max, queue_max) =
        (server.workers as usize, server.workers_max as usize, server.queue as usize);
    UpstreamRules {
        name: server.name,
        servers: vec![UpstreamServer { place: Place::Unix(server.socket), weight: 1, tls_name: None }],
        speaks: Speaks::FastCgi,
        balance: Balance::Waiting,
        timeouts: UpstreamTimeouts { head: patience, body: patience, ..UpstreamTimeouts::default() },
        pool: PoolBounds { connections_max, idle_max, queue_max, ..PoolBounds::default() },
        retries: RetryRules::default(),
        health,
        forwarding: ForwardingFields::XForwarded,
        host: None,
        tls: UpstreamTls::default(),
        streams_max: 1,
        proxy_header: None,
        path: PathRule::Unchanged,
        gateway: Some(gateway),
        resolve_every: DAY,
        accel: handover.0,
        send_from: handover.1,
        php: None,
        scripts: None,
    }
}
