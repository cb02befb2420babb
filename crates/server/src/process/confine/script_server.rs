//! How a program that runs a script server confines itself.

use super::confinement::Confinement;
use super::paths::Paths;
use crate::config::ScriptServerOptions;
use std::path::Path;

/// Gives up all files but those that are read when the configuration is read again, and all system calls but those of a
/// server: for this thread and those that it starts later, for good. It connects with Unix sockets alone, such as those of runners.
/// Returns what holds since, in words, and what the kernel lacks.
pub fn confine_script_server(file: &Path, options: &ScriptServerOptions) -> String {
    let paths = Paths::of_script_server(file, options);
    tracing::debug!(?paths, "confines itself to these paths");
    Confinement::of_paths(&paths)
}
