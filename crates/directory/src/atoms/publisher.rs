//! The manifest of a folder, whose content goes into the store.

use super::digest::Digest;
use super::error::{AtomError, at};
use super::manifest::{FILES_MAX, File, Manifest};
use super::store::ContentStore;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Tries of a file that changes while it is read.
const TRIES: u32 = 3;
/// Folders within folders.
const DEPTH_MAX: usize = 64;

/// Takes all files of a folder into the store, and makes their manifest.
///
/// A symbolic link to a file within the folder stands for that file; empty folders are left out.
///
/// # Errors
///
/// Something in the folder cannot be read or published, or the store is full.
pub fn manifest_of(folder: &Path, store: &ContentStore) -> Result<Manifest, AtomError> {
    let root = folder.canonicalize().map_err(at(folder))?;
    let mut files = Vec::new();
    // Folders that are still to be read, with their depth.
    let mut open = vec![(root.clone(), 0)];
    while let Some((folder, depth)) = open.pop() {
        for entry in fs::read_dir(&folder).map_err(at(&folder))? {
            let path = entry.map_err(at(&folder))?.path();
            let metadata = fs::symlink_metadata(&path).map_err(at(&path))?;
            if metadata.is_dir() {
                if depth >= DEPTH_MAX {
                    return Err(refused(&path, "it lies more than 64 folders deep; move it up"));
                }
                open.push((path, depth + 1));
            } else {
                if files.len() >= FILES_MAX {
                    return Err(refused(&path, "there are more than 200,000 files; publish the site in parts"));
                }
                files.push(file_of(&root, &path, &metadata, store)?);
            }
        }
    }
    Ok(Manifest::new(files)?)
}

fn file_of(root: &Path, path: &Path, metadata: &Metadata, store: &ContentStore) -> Result<File, AtomError> {
    let within = path.strip_prefix(root).unwrap_or(path).to_str();
    let name = within.ok_or_else(|| refused(path, "its name is no UTF-8; rename it"))?.to_owned();
    let source = if metadata.is_symlink() { target(root, path)? } else { path.to_owned() };
    let metadata = fs::metadata(&source).map_err(at(&source))?;
    if !metadata.is_file() {
        return Err(refused(path, "it is no file, folder or link to a file; remove it from the folder"));
    }
    let (digest, bytes) = unchanged(&source, store)?;
    Ok(File { path: name, digest, bytes, mode: metadata.permissions().mode() & 0o777 })
}

/// What a symbolic link leads to; a link must not publish what lies elsewhere.
fn target(root: &Path, path: &Path) -> Result<PathBuf, AtomError> {
    let target = path.canonicalize().map_err(at(path))?;
    if target.starts_with(root) {
        Ok(target)
    } else {
        Err(refused(path, "the link leads out of the folder; copy the file"))
    }
}

/// Takes a file in as it is at one moment.
fn unchanged(path: &Path, store: &ContentStore) -> Result<(Digest, u64), AtomError> {
    let state = || {
        let metadata = fs::metadata(path).map_err(at(path))?;
        Ok::<_, AtomError>((metadata.len(), metadata.mtime(), metadata.mtime_nsec(), metadata.ino()))
    };
    for _ in 0..TRIES {
        let before = state()?;
        let (digest, bytes) = store.take_in(path)?;
        if state()? == before && bytes == before.0 {
            return Ok((digest, bytes));
        }
    }
    Err(refused(path, "it changes while it is read; publish when nothing writes to it"))
}

fn refused(path: &Path, why: &'static str) -> AtomError {
    AtomError::NotPublishable { path: path.to_owned(), why }
}
