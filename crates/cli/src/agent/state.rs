//! Where the agent keeps what outlives it.

use std::path::PathBuf;

/// The store's file in the directory of what is kept.
pub(crate) const STORE_NAME: &str = "transactions.sqlite";

/// Where it is kept: what systemd gives, the system's place for root, or the user's own.
pub(crate) fn usual_state() -> PathBuf {
    let named = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    // systemd joins several with colons; the unit has one.
    if let Some(state) = named("STATE_DIRECTORY") {
        return state;
    }
    // SAFETY: the call takes and changes nothing.
    if unsafe { libc::geteuid() } == 0 {
        return PathBuf::from("/var/lib/weir-agent");
    }
    let home = named("XDG_STATE_HOME").or_else(|| named("HOME").map(|home| home.join(".local/state")));
    home.unwrap_or_else(std::env::temp_dir).join("weir-agent")
}
