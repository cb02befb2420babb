//! Where the published sites of a cluster are: the directory, which says what versions there are, and the content below
//! the cluster's own folder.

use super::directory_place::DirectoryPlace;
use super::members::{FILE, MembersFile};
use anyhow::{Context, ensure};
use std::collections::HashSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::{Path, PathBuf};
use weir_directory::atoms::{CURRENT, ContentStore, Elsewhere, export_version};
use weir_directory::{Digest, Directory, Manifest, Publication};

/// Below the cluster's folder: content by digest.
const CONTENT: &str = "atoms";
/// Below it: the trees of each site.
const SITES: &str = "sites";
/// Below it: held while content comes that no version names yet.
const LOCK: &str = "publishing.lock";
/// The tree of a site of which no version is there yet.
const EMPTY: &str = "0-empty";
/// Versions whose trees and content stay, besides the current one.
pub(crate) const VERSIONS_KEPT: usize = 3;

/// The directory, and the content of this node.
pub(crate) struct Published {
    pub(crate) directory: Box<dyn Directory>,
    pub(crate) store: ContentStore,
    /// Which engine the directory has, with its place.
    pub(crate) engine: String,
    folder: PathBuf,
}

impl Published {
    /// Opens what members.toml of a cluster's folder names.
    pub(crate) fn of(folder: &Path) -> anyhow::Result<Self> {
        refuse_other_user(folder)?;
        Self::open(folder, &place_of(folder)?)
    }

    pub(crate) fn open(folder: &Path, place: &DirectoryPlace) -> anyhow::Result<Self> {
        let directory = place.open(folder)?;
        let store = ContentStore::open(&folder.join(CONTENT), place.content_bytes_max())?;
        Ok(Self { directory, store, engine: place.words(folder), folder: folder.to_owned() })
    }

    /// Where the trees of a site are.
    pub(crate) fn site(&self, site: &str) -> PathBuf {
        self.folder.join(SITES).join(site)
    }

    /// What a server serves: the link to the tree of the current version.
    pub(crate) fn root(&self, site: &str) -> PathBuf {
        self.site(site).join(CURRENT)
    }

    /// Makes a version of a site what a server serves here; its content is there.
    /// What the store lacks lies `elsewhere`.
    pub(crate) fn switch(
        &self,
        site: &str,
        (manifest, elsewhere): (&Manifest, &Elsewhere),
        version: u64,
    ) -> anyhow::Result<()> {
        export_version((manifest, elsewhere), &self.store, &self.site(site), version, VERSIONS_KEPT)?;
        // What was served before the first version came.
        let empty = self.site(site).join(EMPTY);
        if empty.exists() {
            fs::remove_dir_all(&empty).with_context(|| empty.display().to_string())?;
        }
        Ok(())
    }

    /// Makes room for new content, by removing what no kept version names, the oldest first.
    ///
    /// # Errors
    /// If it is too much; or if the directory does not say what is to be kept.
    pub(crate) fn make_room(&self, wanted: u64) -> anyhow::Result<()> {
        let keep = self.kept()?;
        self.store.make_room(wanted, &keep, &|_| 0.0)?;
        Ok(())
    }

    /// The newest versions of a site and its current one, each once, and whether it is the current one.
    pub(crate) fn versions_kept(&self, site: &str) -> anyhow::Result<Vec<(Publication, bool)>> {
        let current = self.directory.current(site)?.into_value();
        let mut versions = self.directory.versions(site)?.into_value();
        let old = versions.len().saturating_sub(VERSIONS_KEPT);
        versions.drain(..old);
        let is_current = |version: u64| current.as_ref().is_some_and(|current| current.version == version);
        let is_there = versions.iter().any(|kept| is_current(kept.version));
        versions.extend(current.clone().filter(|_| !is_there));
        let with_mark = |kept: Publication| {
            let is_current = is_current(kept.version);
            (kept, is_current)
        };
        Ok(versions.into_iter().map(with_mark).collect())
    }

    /// The content of the current version of each site, and of the newest ones.
    fn kept(&self) -> anyhow::Result<HashSet<Digest>> {
        let mut keep = HashSet::new();
        for site in self.directory.sites()?.into_value() {
            for (Publication { version, .. }, _) in self.versions_kept(&site)? {
                let manifest = self.directory.manifest(&site, version)?.into_value();
                keep.extend(manifest.entries().iter().map(|file| file.digest));
            }
        }
        Ok(keep)
    }

    /// The same, unless another process does so now.
    pub(crate) fn try_lock(&self) -> anyhow::Result<Option<File>> {
        self.lock_by(libc::LOCK_EX | libc::LOCK_NB)
    }

    /// Waits until no other process publishes or removes content; until this is dropped none begins to.
    pub(crate) fn lock(&self) -> anyhow::Result<File> {
        self.lock_by(libc::LOCK_EX)?.context("the lock of publishers was not waited for; report this")
    }

    fn lock_by(&self, how: i32) -> anyhow::Result<Option<File>> {
        let path = self.folder.join(LOCK);
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        // SAFETY: the descriptor is open over the call, which touches no memory of ours.
        if unsafe { libc::flock(file.as_raw_fd(), how) } == 0 {
            return Ok(Some(file));
        }
        let error = std::io::Error::last_os_error();
        if error.kind() == std::io::ErrorKind::WouldBlock {
            return Ok(None);
        }
        Err(error).with_context(|| path.display().to_string())
    }
}

/// Opens the directory alone.
pub(crate) fn directory_of(folder: &Path) -> anyhow::Result<Box<dyn Directory>> {
    refuse_other_user(folder)?;
    place_of(folder)?.open(folder)
}

fn place_of(folder: &Path) -> anyhow::Result<DirectoryPlace> {
    MembersFile::read(folder)?.directory.with_context(|| {
        format!("{} has no [directory]; add one with sqlite or etcd to publish", folder.join(FILE).display())
    })
}

/// Refuses to write as root into a folder that another user's node process has to write to.
fn refuse_other_user(folder: &Path) -> anyhow::Result<()> {
    let owner = fs::metadata(folder).with_context(|| folder.display().to_string())?.uid();
    // SAFETY: the call takes nothing and always succeeds.
    let user = unsafe { libc::geteuid() };
    ensure!(
        owner == user,
        "{} belongs to another user; run this as that one: sudo -u '#{owner}' weir cluster …",
        folder.display()
    );
    Ok(())
}

/// Makes what a server can begin with where its root is a site of the cluster of which no version has come yet.
pub(crate) fn make_root(folder: Option<&Path>, root: &Path) -> anyhow::Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    let (Ok(folder), Some(site)) = (folder.canonicalize(), root.parent()) else { return Ok(()) };
    let is_site = root.file_name().is_some_and(|name| name == CURRENT)
        && site.parent().and_then(|sites| sites.file_name()).is_some_and(|name| name == SITES)
        && site.ancestors().nth(2).and_then(|above| above.canonicalize().ok()).is_some_and(|above| above == folder);
    if !is_site || root.symlink_metadata().is_ok() {
        return Ok(());
    }
    let owner = fs::metadata(&folder).with_context(|| folder.display().to_string())?;
    let made = |path: &Path| lchown(path, Some(owner.uid()), Some(owner.gid()));
    fs::create_dir_all(site.join(EMPTY))
        .and_then(|()| symlink(EMPTY, root))
        .and_then(|()| [&folder.join(SITES), site, &site.join(EMPTY), root].into_iter().try_for_each(made))
        .with_context(|| root.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_of_the_cluster_is_made_and_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("sites/www/current");
        make_root(Some(folder.path()), &root).expect("is made");
        assert!(root.metadata().expect("is there").is_dir());
        make_root(Some(folder.path()), &root).expect("is left alone");
        for other in ["sites/www/other", "trees/www/current", "sites/current"] {
            make_root(Some(folder.path()), &folder.path().join(other)).expect("is none");
            assert!(!folder.path().join(other).exists(), "{other}");
        }
    }
}
