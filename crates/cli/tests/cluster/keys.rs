//! Keys that change while a cluster runs: a certificate that is renewed, and tickets that all nodes read.

use crate::stand::{PATIENCE, SERVICE, Stand, wait_for, weir};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use weir_cluster::{Authority, Identity};

fn text(path: &Path) -> &str {
    path.to_str().expect("is text")
}

#[test]
fn a_running_node_has_its_certificate_renewed_and_all_nodes_read_one_ticket() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let stand = Stand::keyed(&[("a.txt", b"hello")], 300);
    let (n2, certificate) = (stand.path("n2"), stand.path("n2").join("member.crt"));
    wait_for(&stand.path("serve2.log"), "the certificate of this member was renewed; it ends in 36");
    let renewed = fs::read(&certificate).expect("is there");
    assert!(Identity::load(&n2).expect("is there").validity().is_some_and(|it| !it.is_due(SystemTime::now())));
    // By hand as well, and without a restart.
    let told = stand.nodes[1].within(|| weir(&["cluster", "renew", text(&n2)], None));
    assert!(told.starts_with("the certificate of n2 is renewed; it ends in 36"), "{told}");
    assert_ne!(fs::read(&certificate).expect("is there"), renewed);
    let deadline = Instant::now() + PATIENCE;
    while stand.said("serve2").matches("was renewed").count() < 2 {
        assert!(Instant::now() < deadline, "{}", stand.said("serve2"));
        std::thread::sleep(Duration::from_millis(20));
    }
    let status: Value =
        serde_json::from_str(&weir(&["cluster", "status", text(&n2), "--json"], None)).expect("is JSON");
    assert_eq!(status["status"]["warnings"].as_array().map(Vec::len), Some(0), "{status}");

    for version in ["-tls1_2", "-tls1_3"] {
        let deadline = Instant::now() + PATIENCE;
        // Until the nodes have told each other their keys.
        while !is_resumed(&stand, version, "shared") {
            assert!(Instant::now() < deadline, "{version}: no ticket of node 1 is read by node 2");
        }
    }
    top_ends_at_ctrl_c(&stand);
}

/// Without the option a node does not read the tickets of another one: what is above would not be by chance.
#[test]
fn without_the_option_each_node_reads_its_own_tickets_alone() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let stand = Stand::new(2, &[("a.txt", b"hello")]);
    for version in ["-tls1_2", "-tls1_3"] {
        assert!(!is_resumed(&stand, version, "own"), "{version}");
        assert!(resumes(&stand, 1, version, "own"), "{version}: at its own node it is");
    }
}

/// Whether a session that openssl has begun at the first node is resumed at the second one.
fn is_resumed(stand: &Stand, version: &str, name: &str) -> bool {
    let session = stand.path(&format!("{name}{version}.pem"));
    let told = openssl(stand, 1, &[version, "-sess_out", text(&session)]);
    assert!(told.contains("New, "), "{told}");
    resumes(stand, 2, version, name)
}

fn resumes(stand: &Stand, node: usize, version: &str, name: &str) -> bool {
    let session = stand.path(&format!("{name}{version}.pem"));
    let told = openssl(stand, node, &[version, "-sess_in", text(&session)]);
    assert!(told.contains("hello"), "the request is answered: {told}");
    told.contains("Reused, ")
}

/// A request of a node's own machine over TLS, by another implementation than the server's.
fn openssl(stand: &Stand, node: usize, options: &[&str]) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &format!("{SERVICE}:443"), "-ign_eof"]).args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = stand.nodes[node - 1].within(move || command.spawn().expect("openssl is there"));
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"GET /a.txt HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n").expect("is taken");
    let output = child.wait_with_output().expect("is ours");
    drop(stdin);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Ctrl-C at the terminal of `weir cluster top`: it ends in order, and the terminal is as it was.
fn top_ends_at_ctrl_c(stand: &Stand) {
    let (mut ours, mut theirs) = (0, 0);
    let none = std::ptr::null_mut::<libc::c_char>();
    let size = libc::winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: both places are valid for the results, and the size is read only.
    let made = unsafe {
        libc::openpty(&raw mut ours, &raw mut theirs, none, std::ptr::null_mut(), (&raw const size).cast_mut())
    };
    assert_eq!(made, 0, "a pseudo-terminal can be made");
    // SAFETY: both descriptors were just made, and nothing else owns them.
    let (mut ours, theirs) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    // SAFETY: the call takes numbers only.
    unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    let before = modes(&theirs);
    let stdio = || Stdio::from(theirs.try_clone().expect("a descriptor"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["cluster", "top", text(&stand.path("n1")), "--every", "100ms"]);
    command.stdin(stdio()).stdout(stdio()).stderr(stdio());
    // SAFETY: between fork and exec it calls setsid and ioctl only, which are safe there (signal-safety(7)).
    unsafe {
        command.pre_exec(|| {
            // The terminal is its own, so that the key goes to it.
            if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let mut top = command.spawn().expect("it starts");
    let mut seen = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while String::from_utf8_lossy(&seen).matches("nodes there").count() < 3 {
        // Ends with an error: there is no more now.
        let _ = ours.read_to_end(&mut seen);
        assert!(Instant::now() < deadline, "{}", String::from_utf8_lossy(&seen));
        std::thread::sleep(Duration::from_millis(20));
    }
    ours.write_all(b"\x03").expect("the key is taken");
    let status = top.wait().expect("is ours");
    assert_eq!(status.code(), Some(0), "{status}");
    let _ = ours.read_to_end(&mut seen);
    let seen = String::from_utf8_lossy(&seen);
    assert_eq!(modes(&theirs), before, "the modes of the terminal are those of before");
    assert!(seen.ends_with("\x1b[J"), "the table is erased, and the cursor stands where it began: {seen:?}");
    for hidden in ["\x1b[?25l", "\x1b[?1049h"] {
        assert!(!seen.contains(hidden), "no cursor is hidden and no other screen is shown: {seen:?}");
    }
}

/// The modes of a terminal (termios(3)).
fn modes(terminal: &OwnedFd) -> [u32; 4] {
    // SAFETY: the structure is plain numbers, of which any are valid, and the call fills it.
    let modes = unsafe {
        let mut modes: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &raw mut modes), 0);
        modes
    };
    [modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag]
}

/// The end of a certificate is told in time, and with what is to be done.
#[test]
fn status_warns_of_a_certificate_that_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let n1 = folder.path().join("n1");
    weir(&["cluster", "init", text(&n1), "--name", "n1"], None);
    let status = || {
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(["cluster", "status", text(&n1)]).output();
        String::from_utf8_lossy(&output.expect("weir starts").stdout).into_owned()
    };
    assert!(!status().contains("the certificate of"), "{}", status());
    let age = |days: u64| {
        let mut identity = Identity::load(&n1).expect("is there");
        let then = SystemTime::now() - Duration::from_secs(days * 86_400);
        let authority = Authority::load(&n1).expect("is there");
        identity.certificate = authority.issue(&identity.member, &identity.key.public(), then).expect("is signed");
        identity.save(&n1).expect("is kept");
    };
    age(340);
    assert!(status().contains("the certificate of this member ends in 2"), "{}", status());
    age(366);
    assert!(status().contains("the certificate of this member has ended: on the node of weir cluster init"));
    let told = weir(&["cluster", "renew", text(&n1)], None);
    assert!(told.contains("the certificate of n1 is renewed; it ends in 36"), "{told}");
    assert!(!status().contains("the certificate of"), "{}", status());
    // That of the authority, too: what was signed before is believed by it, and what is signed now by the one of before.
    let before = Authority::load(&n1).expect("is there").certificate().clone();
    let old = Identity::load(&n1).expect("is there");
    let told = weir(&["cluster", "renew", text(&n1), "--authority"], None);
    assert!(told.contains("the certificate of the cluster's authority is renewed; it ends in 10"), "{told}");
    let after = Identity::load(&n1).expect("is there").authority;
    assert!(after != before && old.authority == before);
    weir(&["cluster", "renew", text(&n1)], None);
    let new = Identity::load(&n1).expect("is there").certificate;
    for authority in [&before, &after] {
        for certificate in [&old.certificate, &new] {
            assert!(is_signed(&folder.path().join("check"), certificate, authority));
        }
    }
    let other = folder.path().join("n0");
    weir(&["cluster", "init", text(&other), "--name", "n0"], None);
    let stranger = Identity::load(&other).expect("is there").authority;
    assert!(!is_signed(&folder.path().join("check"), &new, &stranger), "openssl tells them apart");
    // Certificates of a shorter life, where that is wanted.
    let n2 = folder.path().join("n2");
    weir(&["cluster", "init", text(&n2), "--name", "n2", "--certificates-for", "1h"], None);
    let left = Identity::load(&n2).expect("is there").validity().expect("is read").left(SystemTime::now());
    assert!((3_000..=3_600).contains(&left.as_secs()), "{left:?}");
    let refused = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["cluster", "init", text(&folder.path().join("n3")), "--name", "n3", "--certificates-for", "5s"])
        .output()
        .expect("weir starts");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("give 1 minute to 10 years"));
}

/// Whether openssl takes a certificate for one that this authority has signed.
fn is_signed(folder: &Path, certificate: &[u8], authority: &[u8]) -> bool {
    fs::create_dir_all(folder).expect("makes");
    let [of, by] = [("of", certificate), ("by", authority)].map(|(name, der)| {
        let (from, to) = (folder.join(name), folder.join(format!("{name}.pem")));
        fs::write(&from, der).expect("writes");
        let converted = Command::new("openssl")
            .args(["x509", "-inform", "DER", "-in", text(&from), "-out", text(&to)])
            .status()
            .expect("openssl is there");
        assert!(converted.success());
        to
    });
    let verified = Command::new("openssl").args(["verify", "-CAfile", text(&by), text(&of)]).output();
    verified.expect("openssl is there").status.success()
}
