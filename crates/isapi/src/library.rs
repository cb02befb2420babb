//! Loaded libraries: found by path, loaded again when the file has changed, ended when their number is too large.

use crate::abi::{self, GetExtensionVersion, HttpExtensionProc, TerminateExtension, VersionInfo};
use std::ffi::{CStr, CString, c_void};
use std::io;

/// Libraries that stay loaded, at most.
const LIBRARIES_MAX: usize = 64;

/// How long a file counts as unchanged after a look at it, in milliseconds: a busy library costs no system call each
/// time.
const UNCHANGED_MS: i64 = 50;

/// A library cannot be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// There is no such file.
    #[error("the file cannot be read ({0}): check its name and rights")]
    Unreadable(io::Error),
    /// The dynamic linker refuses it.
    #[error("it cannot be loaded: {0}")]
    NotLoaded(String),
    /// A function is missing.
    #[error("it has no function `{0}`: it is no ISAPI extension, or hides it (do not use -fvisibility=hidden)")]
    NoFunction(&'static str),
    /// `GetExtensionVersion` returned FALSE.
    #[error("its GetExtensionVersion returned FALSE")]
    Refused,
}

/// What changes when a file is replaced or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &CStr) -> io::Result<Self> {
        let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the path is NUL-terminated, the memory large enough; it is written if the call succeeds.
        let found = unsafe {
            if libc::stat(path.as_ptr(), found.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            found.assume_init()
        };
        Ok(Self {
            device: found.st_dev,
            inode: found.st_ino,
            bytes: found.st_size,
            modified: (found.st_mtime, found.st_mtime_nsec),
            changed: (found.st_ctime, found.st_ctime_nsec),
        })
    }
}

#[derive(Debug)]
struct Library {
    path: CString,
    stamp: Stamp,
    /// When the stamp was compared last, in milliseconds.
    seen_ms: i64,
    handle: *mut c_void,
    run: HttpExtensionProc,
    terminate: Option<TerminateExtension>,
}

/// Those that are loaded, the one used last first.
#[derive(Debug, Default)]
pub(crate) struct Libraries {
    kept: Vec<Library>,
    /// How often a library did not go when it was closed.
    stayed: usize,
}

impl Libraries {
    /// The function of the library at a path, which is loaded if it is not, or is another file now.
    pub(crate) fn get(&mut self, path: &CStr) -> Result<HttpExtensionProc, LoadError> {
        let now_ms = clock_ms();
        if let Some(first) = self.kept.first().filter(|first| first.path.as_c_str() == path)
            && now_ms - first.seen_ms < UNCHANGED_MS
        {
            return Ok(first.run);
        }
        let stamp = Stamp::of(path).map_err(LoadError::Unreadable);
        if let Some(at) = self.kept.iter().position(|library| library.path.as_c_str() == path) {
            if stamp.as_ref().is_ok_and(|stamp| *stamp == self.kept[at].stamp) {
                if at > 0 {
                    self.kept[..=at].rotate_right(1);
                }
                self.kept[0].seen_ms = now_ms;
                return Ok(self.kept[0].run);
            }
            let old = self.kept.remove(at);
            self.end(&old);
        }
        if self.kept.len() >= LIBRARIES_MAX
            && let Some(oldest) = self.kept.pop()
        {
            self.end(&oldest);
        }
        let library = self.load(path, stamp?)?;
        let run = library.run;
        self.kept.insert(0, library);
        Ok(run)
    }

    /// Ends all.
    pub(crate) fn end_all(&mut self) {
        for library in std::mem::take(&mut self.kept) {
            self.end(&library);
        }
    }

    fn end(&mut self, library: &Library) {
        // SAFETY: the library is loaded, and none of its functions runs. After this nothing of it is used.
        unsafe {
            if let Some(terminate) = library.terminate {
                terminate(abi::MUST_UNLOAD);
            }
            libc::dlclose(library.handle);
            // The linker keeps libraries with unique symbols of C++, and finds them by their name.
            let still = libc::dlopen(library.path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if !still.is_null() {
                libc::dlclose(still);
                self.stayed += 1;
            }
        }
    }

    fn load(&self, path: &CStr, stamp: Stamp) -> Result<Library, LoadError> {
        // Another name of the same file: one that stayed loaded is not taken for its successor.
        let (folder, name) = match path.to_bytes().iter().rposition(|&byte| byte == b'/') {
            Some(slash) => path.to_bytes().split_at(slash + 1),
            None => (&b"./"[..], path.to_bytes()),
        };
        let alias = CString::new([folder, b"./".repeat(self.stayed).as_slice(), name].concat());
        let alias = alias.map_err(|_| LoadError::Unreadable(io::ErrorKind::InvalidInput.into()))?;
        // SAFETY: the path is NUL-terminated; the constructors of the library run, as its user wants.
        let handle = unsafe { libc::dlopen(alias.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(LoadError::NotLoaded(linker_words()));
        }
        let library = begin(path, stamp, handle);
        if library.is_err() {
            // SAFETY: the handle is open, and nothing of the library is used after this.
            unsafe { libc::dlclose(handle) };
        }
        library
    }
}

/// Finds the functions of an opened library, and asks for its version.
fn begin(path: &CStr, stamp: Stamp, handle: *mut c_void) -> Result<Library, LoadError> {
    let symbol = |name: &CStr| {
        // SAFETY: the handle is open, the name NUL-terminated.
        let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    let version = symbol(c"GetExtensionVersion").ok_or(LoadError::NoFunction("GetExtensionVersion"))?;
    let run = symbol(c"HttpExtensionProc").ok_or(LoadError::NoFunction("HttpExtensionProc"))?;
    let terminate = symbol(c"TerminateExtension");
    // SAFETY: functions of these names have these types, by the interface.
    let (version, run, terminate) = unsafe {
        (
            std::mem::transmute::<*mut c_void, GetExtensionVersion>(version),
            std::mem::transmute::<*mut c_void, HttpExtensionProc>(run),
            terminate.map(|found| std::mem::transmute::<*mut c_void, TerminateExtension>(found)),
        )
    };
    let mut info = VersionInfo { version: 0, description: [0; abi::DESCRIPTION_BYTES] };
    // SAFETY: the memory is that of the structure which the function fills.
    if unsafe { version(&raw mut info) } == abi::FALSE {
        return Err(LoadError::Refused);
    }
    Ok(Library { path: path.to_owned(), stamp, seen_ms: clock_ms(), handle, run, terminate })
}

/// The time since the system's start, to some milliseconds, without a system call.
fn clock_ms() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the memory is that of the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

/// What the dynamic linker says of its last error.
fn linker_words() -> String {
    // SAFETY: the text, if there is one, is valid until the next call in this thread.
    unsafe {
        let words = libc::dlerror();
        if words.is_null() { "unknown error".to_owned() } else { CStr::from_ptr(words).to_string_lossy().into_owned() }
    }
}
