//! mod_arm in Debian's Apache, with an agent that reads what it tells.
// scripts/test: serves

mod correlators;
mod cost;
mod directives;
mod http2;
mod libraries;
mod memory;
mod names;
mod package;
mod reloads;
mod switches;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;
use tempfile::TempDir;
use weir_testkit::{Apache, require};
use weir_web_modules::{make, wait_for};

/// The module as `make` builds it, and the library under the name that it looks for.
pub(crate) static BUILT: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = site(&[]);
    let built = make("apache", &[&format!("BUILD={}", folder.path().display())]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let library = std::env::current_exe().expect("this test").with_file_name("libarm4.so");
    symlink(library, folder.path().join("libarm4.so.4")).expect("a link");
    folder
});

/// Apache, its modules, and what builds ours.
pub(crate) fn required() -> Option<()> {
    require::apache()?;
    require::program("apxs")
}

/// A server with the module, which finds library and agent.
pub(crate) fn armed(apache: Apache, arm: &Path) -> Apache {
    let module = BUILT.path().join("mod_arm.so");
    let apache = apache.environment("LD_LIBRARY_PATH", BUILT.path()).environment("WEIR_ARM_DIR", arm);
    apache.directive(&format!("LoadModule arm_module {}", module.display()))
}

/// A site of files, with their texts.
pub(crate) fn site(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    for (name, text) in files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(&file, text).expect("a file");
        let mode = if name.ends_with(".cgi") { 0o755 } else { 0o644 };
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    folder
}

/// An answer, and the address that it was asked from.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    pub(crate) from: SocketAddr,
}

/// Asks by a connection of its own; `head` is the request line and fields, without the last empty line.
pub(crate) fn ask(port: u16, head: &str) -> Answer {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(20)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it is open");
    let from = stream.local_addr().expect("it is open");
    stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).expect("it takes it");
    let _ = stream.shutdown(Shutdown::Write);
    let mut whole = Vec::new();
    stream.read_to_end(&mut whole).expect("it answers");
    let whole = String::from_utf8_lossy(&whole).into_owned();
    let status = whole.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{whole}"));
    let body = whole.split_once("\r\n\r\n").map(|parts| parts.1.to_owned()).unwrap_or_default();
    Answer { status, body, from }
}

/// Asks for a path.
pub(crate) fn get(port: u16, path: &str) -> Answer {
    ask(port, &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1"))
}

/// A line in a file that a server writes, as soon as it is there.
pub(crate) fn line_of(file: &PathBuf, mark: &str) -> String {
    let mut found = None;
    wait_for(mark, || {
        let text = fs::read_to_string(file).unwrap_or_default();
        found = text.lines().find(|line| line.contains(mark)).map(str::to_owned);
        found.is_some()
    });
    found.expect("it was found")
}
