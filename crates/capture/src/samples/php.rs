//! Functions of PHP: where an interpreter keeps them, and what they are called.

use super::memory;
use super::objects::CodeFile;
use super::space::Space;

/// Frames of PHP's that are read of one stack.
pub(super) const MOST_FRAMES: u32 = 64;
/// Bytes of names and paths that are read, as many as the program in the kernel reads, which ends them with a zero.
const MOST_NAME: usize = 63;
const MOST_PATH: usize = 127;
/// PHP's number for a function that is written in C.
const INTERNAL: u32 = 1;

/// Where an interpreter keeps its frames: the address of the pointer to the innermost, and places in PHP's structures.
/// The layout is that of `struct weir_php` in samples.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Places {
    pub(super) current: u64,
    pub(super) function: u32,
    pub(super) previous: u32,
    pub(super) name: u32,
    pub(super) scope: u32,
    pub(super) scope_name: u32,
    pub(super) file: u32,
    pub(super) line: u32,
    pub(super) text: u32,
}

/// A version's places, by its interface for extensions, and of `current_execute_data` in the executor's globals.
///
/// From the headers of Debian's php8.2-dev 8.2.36 by `offsetof`, for 64-bit systems: `zend_executor_globals`,
/// `zend_execute_data` (func, prev_execute_data), `zend_op_array` (function_name, scope, filename, line_start),
/// `zend_class_entry` (name), `zend_string` (val).
const VERSIONS: &[(&str, u64, Places)] = &[(
    "API420220829,NTS",
    488,
    Places {
        current: 0,
        function: 24,
        previous: 48,
        name: 8,
        scope: 16,
        scope_name: 8,
        file: 152,
        line: 160,
        text: 24,
    },
)];

/// Why functions of PHP cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoFunctions {
    #[error("no PHP functions of {path} ({version}): only PHP 8.2 without threads is known")]
    OtherVersion { path: String, version: String },
    #[error("no PHP functions of {path}: it does not tell where its globals are")]
    NoGlobals { path: String },
}

/// The places of an interpreter in a process.
pub(super) fn places(space: &Space, code: &CodeFile) -> Option<Result<Places, NoFunctions>> {
    let php = code.php.as_ref()?;
    let path = || code.told.path.clone();
    let known = VERSIONS.iter().find(|(interface, ..)| *interface == php.interface);
    let Some((_, offset, places)) = known else {
        let version = if php.interface.is_empty() { "of an unknown version" } else { &php.interface };
        return Some(Err(NoFunctions::OtherVersion { path: path(), version: version.to_owned() }));
    };
    let Some(globals) = php.globals else {
        return Some(Err(NoFunctions::NoGlobals { path: path() }));
    };
    let current = space.loaded_at(code.told.object, globals)?.wrapping_add(*offset);
    Some(Ok(Places { current, ..*places }))
}

impl Places {
    /// The functions of PHP that a process is in, the innermost first; it must stand still meanwhile.
    pub(super) fn read(&self, pid: u32) -> Vec<String> {
        let mut functions = Vec::new();
        let mut frame = memory::word(pid, self.current).unwrap_or(0);
        for _ in 0..MOST_FRAMES {
            let at = |place: u32| frame.wrapping_add(u64::from(place));
            let (Some(function), Some(previous)) =
                (memory::word(pid, at(self.function)), memory::word(pid, at(self.previous)))
            else {
                break;
            };
            frame = previous;
            // A frame without a function stands between the engine and what it calls.
            if function != 0
                && let Some(name) = self.function_of(pid, function)
            {
                functions.push(name);
            }
            if frame == 0 {
                break;
            }
        }
        functions
    }

    fn function_of(&self, pid: u32, function: u64) -> Option<String> {
        let at = |address: u64, place: u32| address.wrapping_add(u64::from(place));
        let pointer = |address| memory::word(pid, address).filter(|address| *address != 0);
        let text = |address: u64, most| memory::text(pid, at(address, self.text), most).unwrap_or_default();
        let kind = memory::word(pid, function)? as u8;
        let name = pointer(at(function, self.name)).map(|at| text(at, MOST_NAME)).unwrap_or_default();
        let scope = pointer(at(function, self.scope)).and_then(|scope| pointer(at(scope, self.scope_name)));
        let scope = scope.map(|at| text(at, MOST_NAME)).unwrap_or_default();
        if u32::from(kind) == INTERNAL {
            return Some(called(&name, &scope, "", 0, INTERNAL));
        }
        let file = pointer(at(function, self.file)).map(|at| text(at, MOST_PATH)).unwrap_or_default();
        let line = memory::word(pid, at(function, self.line)).unwrap_or(0) as u32;
        Some(called(&name, &scope, &file, line, u32::from(kind)))
    }
}

/// What a function of PHP is called in stacks: with the file and the line where it begins, never with arguments.
pub(super) fn called(name: &str, scope: &str, file: &str, line: u32, kind: u32) -> String {
    let function = match (name, scope) {
        ("", _) => "{main}".to_owned(),
        (name, "") => name.to_owned(),
        (name, scope) => format!("{scope}::{name}"),
    };
    if kind == INTERNAL { format!("php: {function}") } else { format!("php: {function} ({file}:{line})") }
}

#[cfg(test)]
pub(super) fn tests_places() -> Places {
    VERSIONS[0].2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_called_by_class_file_and_line() {
        assert_eq!(called("render", "Page", "/srv/page.php", 12, 2), "php: Page::render (/srv/page.php:12)");
        assert_eq!(called("usleep", "", "", 0, INTERNAL), "php: usleep");
        assert_eq!(called("", "", "/srv/index.php", 1, 2), "php: {main} (/srv/index.php:1)");
    }
}
