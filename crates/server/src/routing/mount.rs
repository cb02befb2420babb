//! Roots that stand for the first bytes of a path.

use crate::http::target::{self, Target};

/// The path that a root stands for, without a slash at its end.
pub(super) fn mount<'t>(mount_bytes: usize, found: &Target<'t>) -> &'t [u8] {
    let mount = &found.path[..mount_bytes.min(found.path.len())];
    mount.strip_suffix(b"/").unwrap_or(mount)
}

/// Whether the path is that of a mounted root itself, without the slash that it has as a directory.
pub(super) fn is_top_without_slash(mount_bytes: usize, found: &Target<'_>) -> bool {
    mount_bytes > 0 && found.path.len() <= mount_bytes && !found.path.ends_with(b"/")
}

/// The target below a root that stands for the first bytes of the path, with its query.
pub(super) fn below_mount(mount_bytes: usize, found: &Target<'_>, text: &mut Vec<u8>) {
    let rest = &found.path[mount_bytes.min(found.path.len())..];
    text.clear();
    if !rest.starts_with(b"/") {
        text.push(b'/');
    }
    target::encode(rest, text);
    text.extend_from_slice(found.query);
}
