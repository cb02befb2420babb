//! `weir serve` with scripts: a process beside the server runs them, as a confined server can start nothing.

use crate::side_pools::{self, SidePools};
use crate::side_process;
use anyhow::Context;
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;
use weir_scripts::{Pool, ToSupervisor, Wanted, Way};
use weir_server::{Options, PhpWatch, ScriptPool, ScriptWay};

/// The processes that run scripts for a server.
pub(crate) type ScriptProcesses = SidePools<Pool>;

/// The directory of the pools' sockets and of the engines; it is made when there is a pool.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<std::path::PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| side_pools::folder("weir-scripts"))
}

/// Runs scripts as the server says until that ends.
pub(crate) fn supervise() -> anyhow::Result<ExitCode> {
    let link = side_process::link().context("the socket to the server")?;
    weir_scripts::supervise(link).context("running scripts")?;
    Ok(ExitCode::SUCCESS)
}

/// Answers requests by ISAPI's extensions, as a process of a runner.
pub(crate) fn isapi() -> ExitCode {
    weir_isapi::run()
}

/// Starts the supervisor and waits until all pools listen; none where no host has scripts.
pub(crate) fn prepare(options: &Options) -> anyhow::Result<Option<ScriptProcesses>> {
    let pools = pools(options);
    if pools.is_empty() {
        return Ok(None);
    }
    begin(pools, options.user.clone(), (options.scripts.clone(), options.notice)).map(Some)
}

/// Starts the supervisor for some pools, and waits until all listen, for a server of this user.
pub(crate) fn begin(
    pools: Vec<Pool>,
    user: Option<String>,
    (watch, notice): (PhpWatch, fn(&str)),
) -> anyhow::Result<ScriptProcesses> {
    let longest = pools.iter().map(|pool| &pool.socket).max_by_key(|path| path.as_os_str().len());
    // Scripts read their engines there, as users of their own; only the server may connect to the sockets. It stays
    // root's: else the server's user could have scripts of other users run within another engine.
    side_pools::make_folder(folder(), None, longest.unwrap_or(&Default::default()), 0o755)?;
    let is_root = side_pools::is_root();
    if let Some(user) = pools.iter().find_map(|pool| pool.user.as_deref()).filter(|_| !is_root) {
        notice(&format!("scripts run as the server does and not as {user}: only root could"));
    }
    let wanted = Wanted { user: user.filter(|_| is_root), pools: pools.clone() };
    let message = ToSupervisor::Begin(Box::new(wanted));
    SidePools::begin(("serve-scripts", "scripts"), &message, pools, (watch, notice)).context("scripts")
}

/// Has the pools run that another configuration wants, before the server takes that up.
pub(crate) fn make_ready(processes: &mut ScriptProcesses, options: &Options) -> anyhow::Result<()> {
    processes.make_ready(pools(options), ToSupervisor::Pools)
}

fn pools(options: &Options) -> Vec<Pool> {
    options.script_pools().iter().map(pool).collect()
}

/// A pool as its supervisor knows it.
pub(crate) fn pool(of: &ScriptPool) -> Pool {
    Pool {
        name: of.name(),
        socket: of.socket(folder()),
        way: match of.way {
            ScriptWay::Cgi => Way::Cgi,
            ScriptWay::Cgiplus => Way::Cgiplus,
            ScriptWay::Rte => Way::Rte,
            ScriptWay::Isapi => Way::Isapi,
        },
        workers: of.workers_max,
        root: of.root.clone(),
        user: of.user.clone(),
        as_owner: of.as_owner,
        home: of.home.clone(),
        timeout: of.timeout,
        slow: of.slow,
        interpreters: of.interpreters.clone(),
        env: of.env.clone(),
        pass: of.pass.clone(),
        cpu: of.cpu,
        memory: of.memory,
        processes: of.processes,
        files: of.files,
        output: of.output,
        renew: of.renew,
        idle: of.idle,
        is_struct: of.is_struct,
    }
}
