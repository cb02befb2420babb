//! `weir serve` with PHP of its own: a process beside the server runs php-fpm, as a confined server can start nothing.

mod configuration;
mod fpm;
mod fpm_log;
mod messages;
mod program;
mod supervisor;

use crate::serve_policy::ids;
use crate::side_pools::{self, SidePools};
use anyhow::Context;
use messages::{ToSupervisor, Wanted};
use std::path::Path;
use std::sync::OnceLock;
use weir_server::{Options, PhpPool};

pub(crate) use supervisor::supervise;

/// The processes of PHP of a server.
pub(crate) type PhpProcesses = SidePools<PhpPool>;

/// The directory of the pools' sockets and files; it is made when there is one.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<std::path::PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| side_pools::folder("weir-php"))
}

/// Starts the supervisor and waits until all pools listen; none where no host has PHP.
pub(crate) fn prepare(options: &Options) -> anyhow::Result<Option<PhpProcesses>> {
    let pools = options.php_pools();
    if pools.is_empty() {
        return Ok(None);
    }
    for pool in &pools {
        program::find(pool.program.as_deref(), std::env::var_os("PATH").as_deref())?;
    }
    let folder = folder();
    let ids = options.user.as_deref().map(ids).transpose()?;
    let longest = pools.iter().map(|pool| pool.socket(folder)).max_by_key(|path| path.as_os_str().len());
    side_pools::make_folder(folder, ids, &longest.unwrap_or_default(), 0o700)?;
    let is_root = side_pools::is_root();
    if let Some(user) = pools.iter().find_map(|pool| pool.user.as_deref()).filter(|_| !is_root) {
        (options.notice)(&format!("workers of PHP run as the server does and not as {user}: only root could"));
    }
    let user = options.user.clone().filter(|_| is_root);
    let wanted = Wanted { folder: folder.to_owned(), is_root, user, pools: pools.clone() };
    SidePools::begin(
        ("serve-php", "PHP"),
        &ToSupervisor::Begin(Box::new(wanted)),
        pools,
        (options.php.clone(), options.notice),
    )
    .context("PHP")
    .map(Some)
}

/// Has the pools run that another configuration wants, before the server takes that up.
pub(crate) fn make_ready(processes: &mut PhpProcesses, options: &Options) -> anyhow::Result<()> {
    processes.make_ready(options.php_pools(), ToSupervisor::Pools)
}
