//! Programs within which scripts run: engines of languages (RTE), and the host of ISAPI's extensions.

use crate::pool::{Pool, Way};
use crate::program::{NotRun, Program, Stamp};
use std::ffi::CString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Bytes of a script that may hold its first line.
const FIRST_LINE_BYTES: u64 = 256;
/// What the engines are, by language, and what interprets them.
const ENGINES: [(&str, &str, &str, &str); 2] = [
    ("perl", ".pl", "rte.pl", include_str!("../../../native/cgiplus/rte.pl")),
    ("python", ".py", "rte.py", include_str!("../../../native/cgiplus/rte.py")),
];

/// Writes the engines beside the sockets of the pools. Runners start them whenever they like, so that none is ever there
/// in part: on a disk without room, those that are there stay as they are.
pub(crate) fn install(folder: &Path) -> io::Result<()> {
    ENGINES.iter().try_for_each(|(_, _, name, text)| {
        let path = folder.join(name);
        if fs::read(&path).is_ok_and(|found| found == text.as_bytes()) {
            return Ok(());
        }
        let new = folder.join(format!("{name}.new"));
        let written = fs::write(&new, text)
            // Scripts of all users read it, also where the umask takes that right away.
            .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(0o644)))
            .and_then(|()| fs::rename(&new, &path));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    })
}

/// Removes the engines, and the directory itself if nothing else is in it.
pub(crate) fn remove(folder: &Path) {
    for (_, _, name, _) in ENGINES {
        let _ = fs::remove_file(folder.join(name));
    }
    let _ = fs::remove_dir(folder);
}

/// What runs a script in place of its own program, and what that is kept by.
pub(crate) fn of_script(
    way: Way,
    pool: &Pool,
    mut program: Program,
    script: &[u8],
) -> Result<(Program, Vec<u8>), NotRun> {
    if way == Way::Isapi {
        let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
        program.file = text(own.as_os_str().as_bytes());
        program.arguments = vec![program.file.clone(), c"serve-isapi".to_owned()];
        return Ok((program, script.to_owned()));
    }
    let Some(&(language, ending, name, _)) = language_of(script) else {
        return Err(NotRun::NoEngine(program.name));
    };
    let named =
        pool.interpreters.iter().find(|(of, _)| of == ending).map(|(_, program)| program.as_os_str().as_bytes());
    let interpreter: &[u8] = named.unwrap_or(if language == "perl" { b"/usr/bin/perl" } else { b"/usr/bin/python3" });
    let engine = pool.socket.with_file_name(name);
    // The supervisor writes engines before it starts runners, and a script's changes are the engine's matter.
    program.stamp = Stamp::default();
    program.file = text(interpreter);
    program.arguments = vec![text(interpreter), text(engine.as_os_str().as_bytes())];
    program.folder = text(pool.root.as_os_str().as_bytes());
    Ok((program, language.as_bytes().to_owned()))
}

/// By its ending, or else by its first line.
fn language_of(script: &[u8]) -> Option<&'static (&'static str, &'static str, &'static str, &'static str)> {
    if let Some(engine) = ENGINES.iter().find(|(_, ending, ..)| script.ends_with(ending.as_bytes())) {
        return Some(engine);
    }
    let file = fs::File::open(Path::new(std::ffi::OsStr::from_bytes(script))).ok()?;
    let mut start = Vec::new();
    file.take(FIRST_LINE_BYTES).read_to_end(&mut start).ok()?;
    let line = start.split(|&byte| byte == b'\n').next()?.strip_prefix(b"#!")?;
    let line = String::from_utf8_lossy(line).into_owned();
    ENGINES.iter().find(|(language, ..)| line.contains(language))
}

fn text(bytes: &[u8]) -> CString {
    // Paths have no byte 0.
    CString::new(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_whole_or_stay_as_they_are() {
        let folder = tempfile::tempdir().expect("a directory");
        let own = folder.path().join("sockets");
        fs::create_dir(&own).expect("creates");
        install(&own).expect("there is room");
        let perl = own.join("rte.pl");
        let before = fs::read(&perl).expect("it is there");
        assert!(before.starts_with(b"#!") || !before.is_empty());
        assert_eq!(fs::metadata(&perl).expect("it is there").permissions().mode() & 0o777, 0o644);
        // Where nothing can be written, nothing is touched: a directory stands where the new file would be.
        fs::write(&perl, "of another version").expect("writes");
        fs::create_dir(own.join("rte.pl.new")).expect("creates");
        assert!(install(&own).is_err());
        assert_eq!(fs::read(&perl).expect("it is there"), b"of another version");
        fs::remove_dir(own.join("rte.pl.new")).expect("removes");
        install(&own).expect("there is room");
        assert_eq!(fs::read(&perl).expect("it is there"), before);
        fs::write(own.join("other"), "").expect("writes");
        remove(&own);
        assert!(own.join("other").exists() && !perl.exists());
        fs::remove_file(own.join("other")).expect("removes");
        remove(&own);
        assert!(!own.exists());
    }
}
