//! Reads the file of a running script server again.

use super::configuration::{need_descriptors, notice, pools, settings, tell, warn};
use crate::serve_scripts::ScriptProcesses;
use std::path::Path;
use weir_script_server::{Prepared, Reloader};
use weir_scripts::ToSupervisor;
use weir_server::{ConfigurationError, ScriptServerOptions, read_script_server};

/// What it takes to have another configuration hold.
pub(super) struct Reloading<'f> {
    pub(super) file: &'f Path,
    /// What holds.
    pub(super) options: ScriptServerOptions,
    pub(super) reloader: Reloader,
    pub(super) is_confined: bool,
}

/// A file is not taken up.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Mistaken(#[from] ConfigurationError),
    #[error(transparent)]
    Unusable(#[from] weir_script_server::ServerError),
    #[error("{0:#}")]
    Pools(anyhow::Error),
}

impl Reloading<'_> {
    /// Reads the file, and has the next requests go by it; with mistakes in it, all stays as it is.
    pub(super) fn read_again(&mut self, processes: &mut ScriptProcesses) {
        let file = self.file.display();
        match self.prepare(processes) {
            Ok((mut options, prepared)) => {
                if prepared.keeps_key() {
                    notice(
                        "the certificate and its key may not be read any more, and stay as they are until a restart",
                    );
                }
                self.reloader.take_up(prepared);
                need_descriptors(&options);
                let rest = match self.after_restart(&options).as_slice() {
                    [] => String::new(),
                    changed => format!("; only after a restart: {}", changed.join(", ")),
                };
                warn(self.file, &options);
                notice(&format!("{file} was read again and holds{rest}"));
                // What holds only after a restart differs from the file until then.
                (options.listen, options.user) = (self.options.listen, self.options.user.take());
                self.options = options;
            }
            Err(error) => {
                tell(&error.to_string());
                let is_denied = self.is_confined && error.to_string().contains("ermission denied");
                let hint =
                    if is_denied { "; what was not named at the start is out of reach until a restart" } else { "" };
                notice(&format!("{file} was not taken up; all is as before{hint}"));
            }
        }
    }

    /// Has everything ready that another configuration needs.
    fn prepare(&self, processes: &mut ScriptProcesses) -> Result<(ScriptServerOptions, Prepared), Refused> {
        let metadata = self.file.metadata();
        // Reading a pipe would hold all up.
        let is_file = metadata.and_then(|found| match found.is_file() {
            true => Ok(()),
            false => Err(std::io::Error::other("it is no file")),
        });
        is_file.map_err(|source| ConfigurationError::Unreadable { path: self.file.to_owned(), source })?;
        let options = read_script_server(self.file)?;
        let prepared = self.reloader.prepare(&settings(&options))?;
        processes.make_ready(pools(&options), ToSupervisor::Pools).map_err(Refused::Pools)?;
        Ok((options, prepared))
    }

    /// What was changed, and holds only after a restart.
    fn after_restart(&self, options: &ScriptServerOptions) -> Vec<&'static str> {
        let changed = [("listen", self.options.listen != options.listen), ("user", self.options.user != options.user)];
        changed.into_iter().filter(|(_, is_changed)| *is_changed).map(|(what, _)| what).collect()
    }
}
