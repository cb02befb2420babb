//! Whether the user that scripts run as may enter their directories and execute them.

use crate::io::user::User;
use std::path::{Path, PathBuf};

/// Bits of one class of users in the mode of a file (chmod(2)).
pub(super) const EXECUTE: u32 = 1;
pub(super) const READ: u32 = 4;

/// The first directory on the way to a path that a user may not enter.
pub(super) fn closed(user: &User, path: &Path) -> Option<PathBuf> {
    let mut ways: Vec<&Path> = path.ancestors().filter(|way| !way.as_os_str().is_empty()).collect();
    ways.reverse();
    let closed = |way: &&&Path| way.metadata().is_ok_and(|metadata| metadata.is_dir() && !user.may(&metadata, EXECUTE));
    ways.iter().find(closed).map(|way| way.to_path_buf())
}

/// Whether a user may do this with a file; so it is said of one that cannot be looked at.
pub(super) fn may(user: &User, file: &Path, what: u32) -> bool {
    file.metadata().map_or(true, |metadata| user.may(&metadata, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_first_closed_directory_is_named() {
        let Ok(user) = User::named("nobody") else { return };
        let folder = tempfile::tempdir().expect("a directory");
        let inner = folder.path().join("a/b");
        fs::create_dir_all(&inner).expect("creates");
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("sets it");
        set(folder.path(), 0o700);
        assert_eq!(closed(&user, &inner).as_deref(), Some(folder.path()));
        set(folder.path(), 0o711);
        assert_eq!(closed(&user, &inner), None);
        set(&inner, 0o640);
        assert_eq!(closed(&user, &inner), Some(inner.clone()));
        let file = folder.path().join("x");
        fs::write(&file, "").expect("writes");
        set(&file, 0o751);
        assert!(may(&user, &file, EXECUTE) && !may(&user, &file, READ));
        assert!(may(&user, &folder.path().join("none"), READ));
        let root = User::named("root").expect("everywhere");
        assert!(may(&root, &file, READ) && closed(&root, &inner).is_none());
    }
}
