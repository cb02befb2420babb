//! The servers of this host that can be watched: processes of weir that listen at a Unix socket which answers as an admin
//! address does.

use anyhow::bail;
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a socket may take to answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// Bytes of an answer that are looked at.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// The flag of a socket that listens, in /proc/net/unix.
const LISTENS: u32 = 1 << 16;

/// The admin address of the only server.
pub(super) fn only_server() -> anyhow::Result<String> {
    let mut found = servers();
    match found.len() {
        0 => bail!(
            "no server of this user with --admin unix:PATH runs on this host; name its address by --admin, or start \
             one: weir serve --admin unix:admin.sock DIRECTORY"
        ),
        1 => Ok(format!("unix:{}", found.remove(0).display())),
        _ => {
            let names: Vec<_> = found.iter().map(|path| format!("  --admin unix:{}", path.display())).collect();
            bail!("several servers run on this host; name one of them:\n{}", names.join("\n"))
        }
    }
}

/// The sockets of all servers that this user may ask.
fn servers() -> Vec<PathBuf> {
    let sockets = listening();
    let mut found: Vec<PathBuf> = processes()
        .into_iter()
        .flat_map(|process| {
            let of_process = inodes(&process).into_iter().filter_map(|inode| sockets.get(&inode)).cloned();
            of_process.map(|path| place(&process, &path)).collect::<Vec<_>>()
        })
        .filter(|path| is_admin(path))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Unix sockets that listen, by their inodes.
fn listening() -> HashMap<u64, PathBuf> {
    let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, flags, _, _, inode, path] = fields.as_slice() else { return None };
        let listens = u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & LISTENS != 0);
        (listens && !path.starts_with('@')).then_some((inode.parse().ok()?, PathBuf::from(path)))
    };
    text.lines().skip(1).filter_map(socket).collect()
}

/// The folders in /proc of processes that are called weir.
fn processes() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_weir = |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == "weir");
    entries.filter(is_weir).collect()
}

fn inodes(process: &Path) -> Vec<u64> {
    let entries = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let inode = |path: PathBuf| {
        let link = fs::read_link(path).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.filter_map(|entry| inode(entry.path())).collect()
}

/// A socket's path as this process sees it.
fn place(process: &Path, path: &Path) -> PathBuf {
    if path.is_absolute() {
        return path.to_owned();
    }
    let relative = fs::read_link(process.join("cwd")).unwrap_or_default().join(path);
    if relative.exists() { relative } else { process.join("cwd").join(path) }
}

/// Whether an admin address answers there.
fn is_admin(path: &Path) -> bool {
    let asked = || {
        let mut stream = UnixStream::connect(path).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(b"GET /status.json HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = Vec::new();
        // What came before the time was over is looked at.
        let _ = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        // One that wants a token is one as well.
        let is_one = answer.contains("\"uptime_ms\":") || answer.contains("Authorization: Bearer TOKEN");
        Some(answer.contains("\r\nServer: weir\r\n") && is_one)
    };
    asked().unwrap_or(false)
}
