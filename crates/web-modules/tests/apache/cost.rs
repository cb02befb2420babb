//! What a small static file costs with the module, in instructions: nothing where it is off, little where it is on.

use crate::{BUILT, required, site};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use weir_testkit::client::Connection;
use weir_testkit::{free_port, require};
use weir_web_modules::{Told, arm_directory, wait_for};

/// Requests of a run, after some that are not counted.
const REQUESTS: u64 = 200;
/// Instructions that a measured request takes more than one without the module: with an agent that listens, and without.
/// Measured with Debian's Apache 2.4 and the library of Rust 1.95; a tenth of room.
const MOST: [(&str, u64); 2] = [("listen", 1_450), ("alone", 500)];

/// A server under callgrind that is ended with its test.
struct Counted(Child);

impl Drop for Counted {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Instructions of one request, over all that its connection takes.
fn instructions(directives: &str, arm: &Path) -> u64 {
    let folder = site(&[("small.txt", "a small file\n")]);
    // The counts are written by the user that the server runs as: from its start, as it could not open them later.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    let path = folder.path().display();
    let port = free_port();
    let modules = "/usr/lib/apache2/modules";
    let text = format!(
        r#"
ServerRoot "{path}"
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
PidFile "{path}/apache.pid"
DefaultRuntimeDir "{path}"
ErrorLog "{path}/error.log"
LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so
LoadModule authz_core_module {modules}/mod_authz_core.so
DocumentRoot "{path}"
MaxKeepAliveRequests 0
{directives}
"#
    );
    fs::write(folder.path().join("apache.conf"), text).expect("it is ours");
    let counts = folder.path().join("counts");
    let mut command = Command::new("valgrind");
    // SAFETY: it only asks.
    if unsafe { libc::geteuid() } == 0 {
        command.uid(65_534).gid(65_534);
    }
    let child = command
        .args(["--tool=callgrind", "--toggle-collect=ap_run_process_connection"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .args(["/usr/sbin/apache2", "-X", "-f"])
        .arg(folder.path().join("apache.conf"))
        .env("LD_LIBRARY_PATH", BUILT.path())
        .env("WEIR_ARM_DIR", arm)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = Counted(child.expect("valgrind is there"));
    let mut connection = None;
    wait_for("the server", || {
        connection = Connection::open(port).ok();
        connection.is_some()
    });
    let mut connection = connection.expect("it is open");
    for _ in 0..REQUESTS {
        assert_eq!(connection.get("/small.txt").expect("an answer").status, 200);
    }
    drop(connection);
    // SAFETY: a signal to the process that was started above.
    unsafe { libc::kill(child.0.id() as i32, libc::SIGTERM) };
    child.0.wait().expect("it ends");
    let text = fs::read_to_string(counts).expect("callgrind has written it");
    let line = text.lines().find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")));
    line.and_then(|count| count.trim().parse::<u64>().ok()).expect("a count") / REQUESTS
}

#[test]
fn off_is_free_and_on_is_cheap() {
    if required().is_none() || require::program("valgrind").is_none() {
        return;
    }
    let folders: [TempDir; 2] = std::array::from_fn(|_| arm_directory());
    let [listened, alone] = folders.each_ref().map(TempDir::path);
    let _told = Told::over(listened);
    let load = format!("LoadModule arm_module {}\n", BUILT.path().join("mod_arm.so").display());
    let on = format!("{load}Arm On\nArmTransaction small\n");
    let [without, off, listen, alone] = std::thread::scope(|scope| {
        let without = scope.spawn(|| instructions("", alone));
        let off = scope.spawn(|| instructions(&format!("{load}Arm Off\nArmTransaction small\n"), listened));
        let listen = scope.spawn(|| instructions(&on, listened));
        let lone = scope.spawn(|| instructions(&on, alone));
        [without, off, listen, lone].map(|run| run.join().expect("it was counted"))
    });
    println!("instructions of a request: {without} without, off {off}, on {listen}, on without an agent {alone}");
    // What is read in one piece and what in two differs by the moment.
    assert!(off.abs_diff(without) <= without / 500, "off: {off} instead of {without}");
    for ((name, most), found) in MOST.into_iter().zip([listen, alone]) {
        let more = found.saturating_sub(without);
        assert!(more <= most, "{name}: {more} instructions more, at most {most}");
        // Were it not on, there would be nothing to find.
        assert!(more > 100, "{name}: {more}");
    }
}
