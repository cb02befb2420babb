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
    /// Those of a path that a route has led to, and those of the file that answers in its place.
    Routed(Via, u128, Option<u128>),
    /// A path that cannot be read.
    Unreadable,
}

/// How a route has led to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Via {
    /// No route has: it is the path that was asked for.
    Nothing,
    /// A route has put it in the place of the path that was asked for, which has these tables.
    Mapped(u128),
    /// A site of a user takes the place of the root, by its number, and so many bytes of the path stand for it. Where
    /// a route has mapped the path before, with the tables of the path that was asked for.
    User(usize, usize, Option<u128>),
    /// The upstream for a user's scripts does likewise, by its number.
    UserScript(usize, Option<u128>),
}

impl Via {
    /// The tables of the path that was asked for, if it is another one.
    pub(super) fn asked(self) -> Option<u128> {
        match self {
            Self::Nothing => None,
            Self::Mapped(asked) => Some(asked),
            Self::User(_, _, asked) | Self::UserScript(_, asked) => asked,
        }
    }
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
