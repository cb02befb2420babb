//! The configuration of one pool, as php-fpm reads it.

use std::fmt::Write as _;
use std::path::Path;
use weir_server::PhpPool;

/// Users in the order in which workers run as them: that of the pool, that of the server, Debian's for the web.
const USER: &str = "www-data";
/// Seconds without a request after which a worker ends that a rule may have ordered.
const IDLE_S: u32 = 60;

/// Who the processes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owners<'o> {
    /// Whether php-fpm runs as root, so that its workers run as another user.
    pub(super) is_root: bool,
    /// The user of the server, who connects.
    pub(super) server: Option<&'o str>,
}

/// Writes it for a pool whose files lie in a directory.
pub(super) fn write(pool: &PhpPool, folder: &Path, owners: Owners<'_>) -> String {
    let name = pool.name();
    let mut text = String::new();
    let mut put = |key: &str, value: &dyn std::fmt::Display| {
        // Writing to memory does not fail.
        let _ = writeln!(text, "{key} = {value}");
    };
    // A worker that was told to end finishes its request within that time; without one it would drop it at once.
    let patience_s = if pool.timeout.is_zero() { 60 } else { pool.timeout.as_secs() + 1 };
    put("[global]\nerror_log", &"/proc/self/fd/2");
    put("log_level", &"notice");
    put("daemonize", &"no");
    put("process_control_timeout", &format!("{patience_s}s"));
    put(&format!("[{name}]\nlisten"), &pool.socket(folder).display());
    put("listen.mode", &"0600");
    put("listen.backlog", &511);
    if owners.is_root {
        put("listen.owner", &owners.server.unwrap_or("root"));
        put("user", &pool.user.as_deref().or(owners.server).filter(|user| *user != "root").unwrap_or(USER));
    } else {
        put("process.dumpable", &"yes");
    }
    if pool.workers_max > pool.workers {
        // Rules say how many get requests. Workers come with the first request that finds none, at once: by `dynamic`
        // php-fpm would look once a second.
        put("pm", &"ondemand");
        put("pm.process_idle_timeout", &format!("{IDLE_S}s"));
    } else {
        put("pm", &"static");
    }
    put("pm.max_children", &pool.workers_max);
    put("pm.max_requests", &pool.renew);
    put("request_terminate_timeout", &format!("{}s", pool.timeout.as_secs()));
    if !pool.slow.is_zero() {
        put("request_slowlog_timeout", &format!("{}s", pool.slow.as_secs()));
        put("slowlog", &slow_log(pool, folder).display());
    }
    put("catch_workers_output", &"yes");
    put("decorate_workers_output", &"no");
    put("security.limit_extensions", &".php");
    for (name, value) in &pool.ini {
        put(&format!("php_admin_value[{name}]"), &format!("\"{value}\""));
    }
    text
}

/// The log of slow requests of a pool.
pub(super) fn slow_log(pool: &PhpPool, folder: &Path) -> std::path::PathBuf {
    folder.join(pool.name()).with_extension("slow")
}

/// The file of a pool's configuration.
pub(super) fn file(pool: &PhpPool, folder: &Path) -> std::path::PathBuf {
    folder.join(pool.name()).with_extension("conf")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn workers_run_as_another_user_than_root() {
        let ini = vec![("memory_limit".to_owned(), "64M".to_owned())];
        let pool = PhpPool { workers: 3, workers_max: 3, renew: 7, ini, ..PhpPool::default() };
        let of = |pool: &PhpPool, is_root, server| write(pool, Path::new("/run/x"), Owners { is_root, server });
        let text = of(&pool, true, None);
        for line in [
            "user = www-data",
            "listen.owner = root",
            "listen.mode = 0600",
            "pm = static",
            "pm.max_children = 3",
            "pm.max_requests = 7",
            "process_control_timeout = 61s",
            "request_slowlog_timeout = 5s",
            "php_admin_value[memory_limit] = \"64M\"",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
        assert!(of(&pool, true, Some("web")).contains("\nuser = web\n"));
        assert!(of(&pool, true, Some("root")).contains("\nuser = www-data\n"));
        let own = PhpPool { user: Some("app".to_owned()), slow: Duration::ZERO, ..PhpPool::default() };
        let text = of(&own, true, Some("web"));
        assert!(
            text.contains("\nuser = app\n") && text.contains("\nlisten.owner = web\n") && !text.contains("slowlog")
        );
        assert!(!of(&own, false, None).contains("user ="));
        let grows = of(&PhpPool { workers: 2, workers_max: 9, ..PhpPool::default() }, false, None);
        assert!(grows.contains("\npm = ondemand\n") && grows.contains("\npm.max_children = 9\n"), "{grows}");
    }
}
