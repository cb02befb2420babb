//! What the tables of a host say together.

use crate::routing::settings::Settings;
use crate::site::looked_up::LookedUp;
use std::rc::Rc;

/// Tables that were put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Tables {
    /// Those of a path.
    Path(u128),
    /// Those of a path, and those of the file that answers in its place.
    File(u128, u128),
    /// A path that cannot be read.
    Unreadable,
}

/// The index of a directory, for which other tables hold than for the directory.
pub(super) struct Index {
    pub(super) looked_up: LookedUp,
    /// Where it lies in the paths of the host; none where no file stands for the directory.
    pub(super) file: Option<Vec<u8>>,
    /// What holds for both.
    pub(super) settings: Rc<Settings>,
}

/// A refusal: its status, and fields.
pub(super) type Refusal = (u16, String);
