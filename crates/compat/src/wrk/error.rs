//! Why a run ends without a report.

use super::script::ScriptError;
use weir_load::LoadError;

/// Why a run ends without a report.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoRun {
    /// A script is wrong.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The URL is none.
    #[error("invalid URL: {0}")]
    Url(#[from] weir_load::UrlError),
    /// The server has no address.
    #[error("{0}; check the host's name, or try: getent hosts NAME")]
    Unresolved(#[from] super::address::Unresolved),
    /// None of the server's addresses can be connected to.
    #[error("unable to connect to {host}:{service} {cause}; does a server listen there?")]
    Unreachable {
        /// The host.
        host: String,
        /// The port, or the scheme where the URL has none.
        service: String,
        /// What the kernel said.
        cause: String,
    },
    /// The engine cannot make the run.
    #[error(transparent)]
    Load(#[from] LoadError),
}
