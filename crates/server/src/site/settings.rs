//! How a directory is served, and how much it may use.

use crate::exchange::elsewhere::ElsewhereHandle;
use crate::files::settings::{Compression, Symlinks};
use std::collections::HashMap;
use std::path::PathBuf;

/// What is said of all sites at once, by a command line for example; what is not said is as each of them says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteWord {
    /// As [`Options::listing`](crate::Options::listing).
    pub listing: Option<bool>,
    /// As [`Options::dot_files`](crate::Options::dot_files).
    pub dot_files: Option<bool>,
    /// As [`Options::symlinks`](crate::Options::symlinks).
    pub symlinks: Option<Symlinks>,
    /// Both ways of [`Options::compression`](crate::Options::compression).
    pub compression: Option<bool>,
    /// As [`Options::includes`](crate::Options::includes).
    pub includes: Option<bool>,
    /// Before those of [`Options::media_types`](crate::Options::media_types).
    pub media_types: HashMap<String, String>,
}

/// How a directory is served: what makes two sites the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SiteKind {
    pub(crate) root: PathBuf,
    pub(crate) listing: bool,
    pub(crate) dot_files: bool,
    pub(crate) index: Vec<String>,
    pub(crate) symlinks: Symlinks,
    pub(crate) media_types: HashMap<String, String>,
    pub(crate) compression: Compression,
    pub(crate) includes: bool,
}

impl SiteKind {
    /// The same with what was said of all sites.
    pub(crate) fn under(mut self, word: &SiteWord) -> Self {
        self.listing = word.listing.unwrap_or(self.listing);
        self.dot_files = word.dot_files.unwrap_or(self.dot_files);
        self.symlinks = word.symlinks.unwrap_or(self.symlinks);
        self.includes = word.includes.unwrap_or(self.includes);
        if let Some(compresses) = word.compression {
            self.compression.neighbours = compresses;
            self.compression.on_the_fly = compresses;
        }
        self.media_types.extend(word.media_types.clone());
        self
    }
}

/// How much a site of one loop may use.
#[derive(Debug, Clone)]
pub(crate) struct SiteBounds {
    /// Bytes of content in memory.
    pub(crate) cache_bytes_max: u64,
    /// Files up to this size are held in memory.
    pub(crate) cached_file_bytes_max: u64,
    /// Directories that are watched.
    pub(crate) watches_max: usize,
    /// Ranges that are answered in one response.
    pub(crate) ranges_max: usize,
    /// Entries of a listing.
    pub(crate) listing_entries_max: usize,
    /// What brings content that lies on other machines.
    pub(crate) elsewhere: Option<ElsewhereHandle>,
    /// Whether it counts how long it looks at files for requests.
    pub(crate) times_looks: bool,
}

impl SiteBounds {
    /// An equal share of them for each of so many sites.
    pub(crate) fn shared_by(&self, sites: usize) -> Self {
        Self {
            cache_bytes_max: self.cache_bytes_max / sites as u64,
            watches_max: self.watches_max.div_ceil(sites),
            ..self.clone()
        }
    }
}
