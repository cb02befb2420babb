//! The members of a cluster that `weir console` was given, asked as `weir cluster top`, `atoms` and `events` ask it.

use crate::cluster::{LatelyError, events_lately, map, members::MembersFile};
use anyhow::ensure;
use serde_json::Value;
use std::path::PathBuf;
use weir_console::{ClusterQuestion, LiveCluster, LiveError};

/// Members of one cluster, by their directories on this machine.
#[derive(Debug)]
pub(super) struct Members {
    folders: Vec<PathBuf>,
    written: String,
}

impl Members {
    /// Those of some directories, which need not run yet.
    ///
    /// # Errors
    /// If a directory has no list of members, or that of another cluster.
    pub(super) fn new(folders: &[PathBuf]) -> anyhow::Result<Self> {
        let mut service = None;
        for folder in folders {
            let members = MembersFile::read(folder)?;
            let first = service.get_or_insert_with(|| members.services.clone());
            ensure!(
                *first == members.services,
                "{} is of a cluster with another service; name members of one cluster",
                folder.display()
            );
        }
        let written: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        Ok(Self { folders: folders.to_vec(), written: written.join(", ") })
    }
}

impl LiveCluster for Members {
    fn directory(&self) -> &str {
        &self.written
    }

    fn ask(&self, question: &ClusterQuestion<'_>) -> Result<Value, LiveError> {
        let told = match *question {
            ClusterQuestion::Map => {
                return map::map(&self.folders).map_err(|error| LiveError::Silent(format!("{error:#}")));
            }
            ClusterQuestion::Events { node, most } => events_lately(&self.folders, node, most),
        };
        told.map_err(|error| match error {
            LatelyError::NoMember { .. } => LiveError::Refused { status: 400, words: error.to_string() },
            LatelyError::Unreadable(_) => LiveError::Silent(error.to_string()),
        })
    }
}
