//! Files that change while they are sent over TLS and over HTTP/2: no response has bytes of two versions, and a client
//! can tell that a response was cut off.
// scripts/test: counts

mod harness;

use harness::{Site, certificate};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command};

const LARGE: usize = 24 << 20;

/// The ways that a response takes: over TLS or not, and the version.
const WAYS: [(bool, &str); 3] = [(true, "--http1.1"), (true, "--http2"), (false, "--http2-prior-knowledge")];

struct Download {
    site: Site,
    curl: Child,
    received: PathBuf,
    _certificates: tempfile::TempDir,
}

/// A file of one letter, and a client that has begun to read it.
fn begun(is_secure: bool, version: &str) -> Download {
    let certificates = tempfile::tempdir().expect("a directory");
    let site = Site::start(&[("large.bin", &vec![b'o'; LARGE])], |options| {
        if is_secure {
            options.certificates = vec![certificate::make(certificates.path(), "a", &["a"])];
        }
    });
    let received = certificates.path().join("received");
    let scheme = if is_secure { "https" } else { "http" };
    let curl = Command::new("timeout")
        .args(["120", "curl", "-sSk", "--limit-rate", "8M", version, "-o"])
        .arg(&received)
        .arg(format!("{scheme}://{}/large.bin", site.addr))
        .spawn()
        .expect("curl starts; `make deps` installs it");
    harness::wait_until(|| std::fs::metadata(&received).is_ok_and(|metadata| metadata.len() > 0));
    Download { site, curl, received, _certificates: certificates }
}

#[test]
fn a_file_written_or_truncated_while_it_is_sent_is_not_sent_to_its_end() {
    for (is_secure, version) in WAYS {
        for truncate in [false, true] {
            let way = format!("TLS {is_secure} {version} truncated {truncate}");
            let mut download = begun(is_secure, version);
            let path = download.site.directory.path().join("large.bin");
            let file = std::fs::File::options().write(true).open(path).expect("opens");
            if truncate {
                file.set_len(LARGE as u64 / 2).expect("truncates");
            } else {
                file.write_all_at(&vec![b'n'; 1 << 20], LARGE as u64 - (1 << 20)).expect("writes");
            }
            let status = download.curl.wait().expect("curl ends");
            // A part of a file (18) or the end of the connection (56); a stream that was reset (92).
            let codes: &[i32] = if version == "--http1.1" { &[18, 56] } else { &[92] };
            assert!(status.code().is_some_and(|code| codes.contains(&code)), "{way}: {status}");
            let bytes = std::fs::read(&download.received).expect("reads");
            assert!(bytes.len() < LARGE && bytes.iter().all(|&byte| byte == b'o'), "{way}: {} bytes", bytes.len());
            let counts = download.site.stop();
            let broken = (counts.connections_broken, counts.http2_streams_broken);
            assert_eq!(broken, if version == "--http1.1" { (1, 0) } else { (0, 1) }, "{way}");
        }
    }
}

#[test]
fn a_file_replaced_or_deleted_while_it_is_sent_is_sent_as_it_was() {
    for (is_secure, version) in WAYS {
        for delete in [false, true] {
            let mut download = begun(is_secure, version);
            let path = download.site.directory.path().join("large.bin");
            if delete {
                std::fs::remove_file(path).expect("removes");
            } else {
                download.site.write("new", &vec![b'n'; LARGE]);
                std::fs::rename(download.site.directory.path().join("new"), path).expect("renames");
            }
            assert!(download.curl.wait().expect("curl ends").success());
            let bytes = std::fs::read(&download.received).expect("reads");
            assert!(bytes.len() == LARGE && bytes.iter().all(|&byte| byte == b'o'), "TLS {is_secure} {version}");
            assert_eq!(download.site.stop().connections_broken, 0);
        }
    }
}

#[test]
fn a_client_that_is_killed_in_mid_body_leaves_nothing_behind() {
    for (is_secure, version) in WAYS {
        let mut download = begun(is_secure, version);
        // Killing `timeout` alone would leave curl running, which holds the socket: kill the children.
        kill_children(download.curl.id());
        let _ = download.curl.wait();
        harness::wait_until(|| download.site.counters.read().connections_broken == 1);
        let counts = download.site.stop();
        assert_eq!(counts.requests, 1, "TLS {is_secure} {version}");
        assert!(counts.bytes_sent < LARGE as u64, "{counts:?}");
    }
}

/// Kills the processes that this one has started, at once.
fn kill_children(pid: u32) {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("reads");
    for child in children.split_ascii_whitespace() {
        // SAFETY: the call takes no pointers; the process is a child of ours' that runs as long as ours waits for it.
        unsafe { libc::kill(child.parse().expect("a number"), libc::SIGKILL) };
    }
}
