//! Trees of files: what a manifest names, from the store, for a server to serve.
//!
//! A tree is a folder named by the manifest's digest. Beside the trees a symbolic link named `current` leads to one;
//! it is replaced in one step, so that a server that opens files through it sees one version or the other.

use super::digest::Digest;
use super::elsewhere::{self, Elsewhere};
use super::error::{AtomError, at};
use super::manifest::{File, Manifest};
use super::store::ContentStore;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The name of the link.
pub const CURRENT: &str = "current";
/// What a tree is called while it is made.
const PARTIAL: &str = ".partial-";
/// Exported files are read-only: a program that wrote to one would change what the store keeps.
const READ_ONLY: u32 = 0o555;
/// Digits of a manifest's digest in the name of its tree.
const TREE_DIGITS: usize = 12;
/// The mode of files in the store.
const OF_STORE: u32 = 0o444;

/// Makes the tree of a manifest below `folder`, and lets `current` lead to it; returns the tree.
///
/// All trees but this one and the one that was current before are removed. Files have the permissions of the manifest
/// without those to write.
///
/// # Errors
///
/// [`AtomError::Missing`] where the store lacks some content; then `current` leads where it led.
pub fn export(manifest: &Manifest, store: &ContentStore, folder: &Path) -> Result<PathBuf, AtomError> {
    let name = manifest.digest().to_string();
    let (tree, before) = make_current((manifest, &Elsewhere::new()), store, folder, &name)?;
    // Requests that began before may still open files of the tree before.
    retire(folder, &[Path::new(&name), before.as_deref().unwrap_or(Path::new(&name))])?;
    Ok(tree)
}

/// What [`export_version`] calls the tree of a version.
#[must_use]
pub fn tree_name(version: u64, manifest: &Digest) -> String {
    // A directory that was made anew counts from 1 again: the digest tells its trees from those before.
    format!("{version}-{}", &manifest.to_string()[..TREE_DIGITS])
}

/// Makes the tree of a version below `folder`, and lets `current` lead to it; returns the tree.
///
/// The newest `kept` trees stay, and this one, and the one that was current before. Where the tree is there already, its
/// files are compared with the store's, and placed anew where they were changed. A link stands for what the store lacks
/// and lies `elsewhere`.
///
/// # Errors
///
/// As [`export`].
pub fn export_version(
    (manifest, elsewhere): (&Manifest, &Elsewhere),
    store: &ContentStore,
    folder: &Path,
    version: u64,
    kept: usize,
) -> Result<PathBuf, AtomError> {
    let name = tree_name(version, &manifest.digest());
    if folder.join(&name).exists() {
        mend((manifest.entries(), elsewhere), store, folder, &folder.join(&name))?;
    }
    let (tree, before) = make_current((manifest, elsewhere), store, folder, &name)?;
    let mut trees = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let name = entry.map_err(at(folder))?.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with(PARTIAL) {
            remove(&folder.join(name))?;
        } else if let Some(version) = version_of(name) {
            trees.push((version, name.to_owned()));
        }
    }
    trees.sort_unstable();
    let old = trees.len().saturating_sub(kept);
    for (_, old) in &trees[..old] {
        if *old != name && before.as_deref() != Some(Path::new(old)) {
            remove(&folder.join(old))?;
        }
    }
    Ok(tree)
}

/// Removes all trees of versions but the one that is current.
///
/// # Errors
///
/// The folder cannot be read, or a tree not be removed.
pub fn retire_versions(folder: &Path) -> Result<(), AtomError> {
    let current = fs::read_link(folder.join(CURRENT)).map_err(at(folder))?;
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let name = entry.map_err(at(folder))?.file_name();
        if name.to_str().is_some_and(|name| version_of(name).is_some()) && current.as_os_str() != name {
            remove(&folder.join(name))?;
        }
    }
    Ok(())
}

/// Places files of a tree below `folder` anew that are not what the store has: their content was damaged and has come
/// again, has come from elsewhere, or lies elsewhere from now on.
///
/// # Errors
///
/// [`AtomError::Missing`] for what is neither in the store nor elsewhere.
pub fn mend(
    (files, elsewhere): (&[File], &Elsewhere),
    store: &ContentStore,
    folder: &Path,
    tree: &Path,
) -> Result<(), AtomError> {
    for file in files {
        let path = tree.join(&file.path);
        if let Some(modified) = elsewhere.get(&file.digest) {
            let text = elsewhere::text(file, *modified);
            if fs::read_link(&path).ok().as_deref() != Some(Path::new(&text)) {
                let partial = folder.join(format!("{PARTIAL}file"));
                remove(&partial)?;
                symlink(text, &partial).map_err(at(&partial))?;
                fs::rename(&partial, &path).map_err(at(&path))?;
            }
            continue;
        }
        let of_store = store.open_content(&file.digest)?.metadata().map_err(at(&path))?;
        // One that is no hard link has the time of the store's, as `place` made it.
        let is_same = fs::symlink_metadata(&path).is_ok_and(|found| {
            found.ino() == of_store.ino() && found.dev() == of_store.dev()
                || (found.len(), found.mtime(), found.mtime_nsec())
                    == (of_store.len(), of_store.mtime(), of_store.mtime_nsec())
        });
        if !is_same {
            let partial = folder.join(format!("{PARTIAL}file"));
            remove(&partial)?;
            place(file, store, &partial)?;
            fs::rename(&partial, &path).map_err(at(&path))?;
        }
    }
    Ok(())
}

/// The version of a tree that [`export_version`] has made.
fn version_of(name: &str) -> Option<u64> {
    let (version, digits) = name.split_once('-')?;
    let is_ours = digits.len() == TREE_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    version.parse().ok().filter(|_| is_ours)
}

/// Makes a tree if it is missing, and lets `current` lead to it; where that led before.
fn make_current(
    (manifest, elsewhere): (&Manifest, &Elsewhere),
    store: &ContentStore,
    folder: &Path,
    name: &str,
) -> Result<(PathBuf, Option<PathBuf>), AtomError> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    let tree = folder.join(name);
    if !tree.exists() {
        let partial = folder.join(format!("{PARTIAL}{name}"));
        remove(&partial)?;
        let made =
            fill((manifest, elsewhere), store, &partial).and_then(|()| fs::rename(&partial, &tree).map_err(at(&tree)));
        if let Err(error) = made {
            let _ = fs::remove_dir_all(&partial);
            return Err(error);
        }
    }
    let before = fs::read_link(folder.join(CURRENT)).ok();
    if before.as_deref() == Some(Path::new(name)) {
        return Ok((tree, before));
    }
    let link = folder.join(format!("{PARTIAL}link"));
    remove(&link)?;
    symlink(name, &link).map_err(at(&link))?;
    let current = folder.join(CURRENT);
    fs::rename(&link, &current).map_err(at(&current))?;
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder))?;
    Ok((tree, before))
}

/// Makes a tree, and flushes it to the disk: one that is there under its name is whole, also after a loss of power.
fn fill((manifest, elsewhere): (&Manifest, &Elsewhere), store: &ContentStore, tree: &Path) -> Result<(), AtomError> {
    fs::create_dir_all(tree).map_err(at(tree))?;
    let mut folders = BTreeSet::from([tree.to_owned()]);
    for file in manifest.entries() {
        let path = tree.join(&file.path);
        let parent = path.parent().unwrap_or(tree);
        fs::create_dir_all(parent).map_err(at(parent))?;
        folders.extend(parent.ancestors().take_while(|folder| *folder != tree).map(Path::to_owned));
        match elsewhere.get(&file.digest) {
            Some(modified) => symlink(elsewhere::text(file, *modified), &path).map_err(at(&path))?,
            None => place(file, store, &path)?,
        }
    }
    for folder in folders {
        fs::File::open(&folder).and_then(|folder| folder.sync_all()).map_err(at(&folder))?;
    }
    Ok(())
}

/// Places one file: by a hard link where its mode allows it, else by sharing its blocks, else by a copy.
fn place(file: &File, store: &ContentStore, path: &Path) -> Result<(), AtomError> {
    let mut content = store.open_content(&file.digest)?;
    let metadata = content.metadata().map_err(at(path))?;
    let bytes = metadata.len();
    if bytes != file.bytes {
        return Err(AtomError::Length { digest: file.digest, expected: file.bytes, found: bytes });
    }
    let mode = file.mode & READ_ONLY;
    // Another file system, or more links than it allows, is no reason to fail.
    if mode == OF_STORE && fs::hard_link(store.path(&file.digest), path).is_ok() {
        return Ok(());
    }
    let mut made = fs::OpenOptions::new().write(true).create_new(true).open(path).map_err(at(path))?;
    if !shares_blocks(&content, &made) {
        io::copy(&mut content, &mut made).map_err(at(path))?;
    }
    // As a hard link has it: the same content has the same time on all nodes.
    let timed = metadata.modified().and_then(|modified| made.set_modified(modified));
    timed
        .and_then(|()| made.set_permissions(fs::Permissions::from_mode(mode)))
        .and_then(|()| made.sync_all())
        .map_err(at(path))
}

/// Lets one file have the blocks of another (ioctl_ficlone(2)); few file systems can do it.
fn shares_blocks(from: &fs::File, to: &fs::File) -> bool {
    // SAFETY: both descriptors are open through the call, which touches no memory of ours.
    unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE, from.as_raw_fd()) == 0 }
}

/// Removes all trees but those to keep, and what earlier exports left half made.
fn retire(folder: &Path, keep: &[&Path]) -> Result<(), AtomError> {
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let entry = entry.map_err(at(folder))?;
        let name = entry.file_name();
        let Some(text) = name.to_str() else { continue };
        let is_ours = text.parse::<Digest>().is_ok() || text.starts_with(PARTIAL);
        if is_ours && !keep.iter().any(|kept| kept.as_os_str() == name) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), AtomError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => return Ok(()),
    };
    removed.map_err(at(path))
}
