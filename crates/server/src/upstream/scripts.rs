//! Which scripts are there, so that no program is asked for one that is not.
//!
//! PHP looks for another file if the one that it is asked for is not there (`cgi.fix_pathinfo`), and would run an upload.

use super::gateway::script::Scratch;
use std::cell::{RefCell, RefMut};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Scripts that are remembered.
const KNOWN_MAX: usize = 4096;
/// How long one is, in milliseconds. A look takes the kernel about a microsecond.
const KNOWN_MS: u64 = 1000;

/// What is known of a script.
#[derive(Debug, Clone, Copy)]
struct Known {
    is_there: bool,
    until_ms: u64,
}

/// Whether a script is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    There,
    Missing,
    /// Its root is not here: the program has it on another machine, and looks by itself.
    Elsewhere,
}

/// Looks for a file below a root; with its path.
pub(crate) fn look(root: &Path, script: &[u8]) -> (PathBuf, Presence) {
    let path = root.join(std::ffi::OsStr::from_bytes(script));
    let presence = match path.is_file() {
        true => Presence::There,
        false if root.is_dir() => Presence::Missing,
        false => Presence::Elsewhere,
    };
    (path, presence)
}

/// What one loop knows of scripts.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    known: RefCell<HashMap<Box<[u8]>, Known>>,
    /// The one that was asked for last, which is mostly asked for again.
    last: RefCell<(Vec<u8>, Option<Known>)>,
    scratch: RefCell<Scratch>,
    now_ms: std::cell::Cell<u64>,
}

impl Scripts {
    pub(crate) fn set_now(&self, now_ms: u64) {
        self.now_ms.set(now_ms);
    }

    pub(crate) fn scratch(&self) -> RefMut<'_, Scratch> {
        self.scratch.borrow_mut()
    }

    /// Whether a program may be asked for the file below the root.
    pub(crate) fn exists(&self, root: &Path, script: &[u8]) -> bool {
        let now_ms = self.now_ms.get();
        let (last, of_last) = &mut *self.last.borrow_mut();
        if let Some(found) = of_last.filter(|found| last == script && found.until_ms > now_ms) {
            return found.is_there;
        }
        let found = self.known(root, script, now_ms);
        last.clear();
        last.extend_from_slice(script);
        *of_last = Some(found);
        found.is_there
    }

    fn known(&self, root: &Path, script: &[u8], now_ms: u64) -> Known {
        let mut known = self.known.borrow_mut();
        if let Some(script) = known.get(script)
            && script.until_ms > now_ms
        {
            return *script;
        }
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        let is_there = look(root, script).1 != Presence::Missing;
        let found = Known { is_there, until_ms: now_ms + KNOWN_MS };
        known.insert(script.into(), found);
        found
    }
}
