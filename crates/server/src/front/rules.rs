//! A configuration as the loops use it: compiled once, shared, never changed.

use super::host_names::HostNames;
use super::pattern::Pattern;
use super::settings::Said;
use crate::options::{Compression, Options, SiteWord, Symlinks};
use crate::root::place::Place;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Tables of one host; a request's are kept as a set of so many bits.
pub(crate) const PATHS_MAX: usize = 128;

/// Everything that hosts say.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) hosts: Vec<Host>,
    pub(crate) names: HostNames,
    pub(crate) sites: Vec<SiteRules>,
}

/// A host: its first name, what it says, and what its paths say.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: Arc<str>,
    pub(crate) said: Said,
    /// In the order of the file.
    pub(crate) paths: Vec<(Pattern, Said)>,
    /// Some of them may be for the compressed neighbours of files.
    pub(crate) tells_neighbours: bool,
}

/// A directory that is served, and how.
#[derive(Debug)]
pub(crate) struct SiteRules {
    pub(crate) how: SiteKind,
    /// It was opened when the configuration was read.
    pub(crate) place: Place,
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
    /// As the options say it of their root.
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            root: options.root.clone(),
            listing: options.listing,
            dot_files: options.dot_files,
            index: options.index.clone(),
            symlinks: options.symlinks,
            media_types: options.media_types.clone(),
            compression: options.compression.clone(),
            includes: options.includes,
        }
    }

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

    /// Has options say this of their root.
    pub(crate) fn put(self, options: &mut Options) {
        let Self { root, listing, dot_files, index, symlinks, media_types, compression, includes } = self;
        (options.root, options.listing, options.dot_files, options.index) = (root, listing, dot_files, index);
        (options.symlinks, options.media_types) = (symlinks, media_types);
        (options.compression, options.includes) = (compression, includes);
    }
}
