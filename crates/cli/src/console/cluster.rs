//! The member of a cluster of `weir console`, asked as `weir cluster top`, `atoms` and `events` ask it.

use crate::cluster::{LatelyError, events_lately, map, members::MembersFile};
use serde_json::Value;
use std::path::{Path, PathBuf};
use weir_console::{ClusterQuestion, LiveCluster, LiveError};

/// A member by its directory.
#[derive(Debug)]
pub(super) struct Member {
    folder: PathBuf,
    written: String,
}

impl Member {
    /// The member of a directory, which need not run yet.
    ///
    /// # Errors
    /// If the directory has no list of members.
    pub(super) fn new(folder: &Path) -> anyhow::Result<Self> {
        MembersFile::read(folder)?;
        Ok(Self { folder: folder.to_owned(), written: folder.display().to_string() })
    }
}

impl LiveCluster for Member {
    fn directory(&self) -> &str {
        &self.written
    }

    fn ask(&self, question: &ClusterQuestion<'_>) -> Result<Value, LiveError> {
        let told = match *question {
            ClusterQuestion::Map => {
                return map::map(&self.folder).map_err(|error| LiveError::Silent(format!("{error:#}")));
            }
            ClusterQuestion::Events { node, most } => events_lately(&self.folder, node, most),
        };
        told.map_err(|error| match error {
            LatelyError::NoMember { .. } => LiveError::Refused { status: 400, words: error.to_string() },
            LatelyError::Unreadable(_) => LiveError::Silent(error.to_string()),
        })
    }
}
