//! What a path leads to.

use super::elsewhere_file::ElsewhereFile;
use crate::files::resource::Resource;
use std::fs::{File, Metadata};
use std::io;
use std::rc::Rc;

/// What a path leads to.
pub(super) enum Located {
    File(File, Metadata),
    /// The file that stands for a directory, with its number among the names of such files.
    Index(File, Metadata, usize),
    /// A directory without an index; none where it may not be listed.
    Directory(Option<File>),
    /// A directory asked for without its slash.
    Redirect,
}

/// The same, ready to be served.
pub(super) enum Destination {
    Resource(Rc<Resource>),
    /// Governed content whose file would have to be looked at first; with when it was known to be what the file has.
    Doubtful(Rc<Resource>, u64),
    /// With how long its listing may be kept.
    Directory(File, u64),
    /// A directory without an index of which a listing is kept.
    Listed,
    Redirect,
    /// A file whose content lies on another machine.
    Elsewhere(Box<ElsewhereFile>),
    Failed(u16),
    /// The response is made already.
    Answered,
}

impl Destination {
    /// Whether the adviser is to be asked about it.
    #[inline]
    pub(super) fn is_governed(&self) -> bool {
        matches!(self, Self::Resource(resource) | Self::Doubtful(resource, _) if resource.is_governed)
    }
}

/// Refusals by the kernel as refusals of ours; a path that leaves the root looks like one that leads nowhere.
pub(super) fn status_of(error: &io::Error) -> u16 {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => 403,
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ELOOP | libc::EXDEV | libc::ENXIO) => 404,
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN) => 503,
        Some(_) => 500,
        None if error.kind() == io::ErrorKind::NotFound => 404,
        None if error.kind() == io::ErrorKind::ResourceBusy => 503,
        None => 500,
    }
}
