//! What is published: the contents of all versions that are kept, and how often each is asked for.

use super::level::level_of;
use super::wishes::{Copies, Fits, Wishes};
use crate::gossip::Asked;
use std::collections::HashMap;

/// The SHA-256 of content.
pub type ContentDigest = [u8; 32];

/// Names of files that stand for their directory: a request for the directory is one for them.
const INDEX: &str = "index.html";

/// A file of a published version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published<'p> {
    /// From the root of the site, without a slash before it.
    pub path: &'p str,
    /// Its content.
    pub digest: ContentDigest,
    /// Bytes of that.
    pub bytes: u64,
    /// Whether the version is one that is served, rather than one to which it can be rolled back.
    pub is_current: bool,
}

/// A content to place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Which one.
    pub digest: ContentDigest,
    /// Its bytes.
    pub bytes: u64,
    /// Whether a version that is served has it.
    pub is_current: bool,
    /// How popular it is, see [`level_of`]; 0 = not known to be asked for.
    pub level: u8,
    /// What policies want.
    pub wish: Option<Copies>,
}

/// All contents, each once, in the order of their digests.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    contents: Vec<Content>,
    /// Requests of all nodes in a second, for each content.
    rates: Vec<f64>,
    /// Of the current versions: the paths of requests, with the place of their content.
    paths: HashMap<String, u32>,
}

impl Catalogue {
    /// Of these files. Where two sites have the same path, the content of the last one counts as what it leads to.
    #[must_use]
    pub fn of(files: &[Published<'_>]) -> Self {
        let mut contents: HashMap<ContentDigest, Content> = HashMap::with_capacity(files.len());
        for Published { digest, bytes, is_current, .. } in files {
            let content = contents.entry(*digest).or_insert(Content {
                digest: *digest,
                bytes: *bytes,
                is_current: false,
                level: 0,
                wish: None,
            });
            content.is_current |= is_current;
        }
        let mut contents: Vec<Content> = contents.into_values().collect();
        contents.sort_unstable_by_key(|content| content.digest);
        let mut this = Self { rates: vec![0.0; contents.len()], contents, paths: HashMap::new() };
        for file in files.iter().filter(|file| file.is_current) {
            let Some(at) = this.position(&file.digest) else { continue };
            if let Some(folder) = file.path.strip_suffix(INDEX).filter(|it| it.is_empty() || it.ends_with('/')) {
                this.paths.insert(format!("/{folder}"), at as u32);
            }
            this.paths.insert(format!("/{}", file.path), at as u32);
        }
        this
    }

    /// The contents to place.
    #[must_use]
    pub fn contents(&self) -> &[Content] {
        &self.contents
    }

    /// Where a content stands among them.
    #[must_use]
    pub fn position(&self, digest: &ContentDigest) -> Option<usize> {
        self.contents.binary_search_by_key(digest, |content| content.digest).ok()
    }

    /// Requests of all nodes in a second for the content at a position.
    #[must_use]
    pub fn rate(&self, position: usize) -> f64 {
        self.rates.get(position).copied().unwrap_or(0.0)
    }

    /// What a path leads to, as a position.
    #[must_use]
    pub fn leads_to(&self, path: &str) -> Option<usize> {
        self.paths.get(path).map(|at| *at as usize)
    }

    /// The paths of the current versions, each with the position of its content.
    pub fn paths(&self) -> impl Iterator<Item = (&str, usize)> {
        self.paths.iter().map(|(path, at)| (path.as_str(), *at as usize))
    }

    /// Takes the tables of all nodes, in place of those before.
    pub fn set_popular(&mut self, tables: &[&[Asked]]) {
        self.rates.fill(0.0);
        for asked in tables.iter().copied().flatten() {
            if let Some(at) = self.paths.get(&asked.path) {
                self.rates[*at as usize] += asked.requests_per_s;
            }
        }
        for (content, rate) in self.contents.iter_mut().zip(&self.rates) {
            content.level = level_of(*rate);
        }
    }

    /// Takes the wishes of policies, in place of those before.
    pub fn set_wishes(&mut self, wishes: &Wishes, fits: Fits<'_>) {
        self.contents.iter_mut().for_each(|content| content.wish = None);
        if wishes.0.is_empty() {
            return;
        }
        // In the order of their paths, so that each node takes the same one of several.
        let mut paths: Vec<(&String, u32)> = self.paths.iter().map(|(path, at)| (path, *at)).collect();
        paths.sort_unstable();
        for (path, at) in paths {
            let wish = &mut self.contents[at as usize].wish;
            if let Some(copies) = wishes.of(path, fits).filter(|it| it.count > wish.as_ref().map_or(0, |it| it.count)) {
                *wish = Some(copies.clone());
            }
        }
    }
}
