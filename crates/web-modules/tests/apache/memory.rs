//! The module under AddressSanitizer: no read or write outside of its own memory, for any request and over reloads.

use crate::{BUILT, ask, get, required, site};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_testkit::{Apache, Cgi, require};
use weir_web_modules::{Told, arm_directory, make, wait_for};

const PARENT: &str = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";

/// The compiler's library, which is there before all others.
fn sanitizer() -> Option<PathBuf> {
    let output = Command::new("cc").arg("-print-file-name=libasan.so").output().expect("cc starts");
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    require::or_skip(path.is_absolute() && path.exists(), "libasan is not installed (make deps)").map(|()| path)
}

#[test]
fn it_stays_within_its_memory() {
    let Some(sanitizer) = required().and_then(|()| sanitizer()) else { return };
    let folder = arm_directory();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    let flags = "CFLAGS=-fsanitize=address -fno-omit-frame-pointer";
    let build = format!("BUILD={}", folder.path().display());
    let built = make("apache", &[&build, flags, "LDFLAGS=-fsanitize=address"]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let site = site(&[("a.txt", "a"), ("dir/b.txt", "b"), ("env.cgi", "#!/bin/sh\nprintf 'A: b\\n\\n'\nenv\n")]);
    let arm = arm_directory();
    let told = Told::over(arm.path());
    let found = folder.path().join("found");
    // What Apache itself keeps until its end is no concern here.
    let options = format!("detect_leaks=0:log_path={}", found.display());
    let directives = format!(
        r#"LoadModule arm_module {}
LogFormat "%{{arm-id}}n %{{arm-first-byte}}n %{{arm-last-byte}}n" arm
CustomLog access.log arm
Arm On
ArmUser *
ArmApplication pages group
ArmClient 127.0.0.0/8 ::1
ArmMatch "^/by/(.*)$" "by $1 and $1"
ArmMatch "\?q=(.+)" "query $1"
<Location /tenth>
  ArmSample 10%
</Location>
<Directory "{}/dir">
  ArmTransaction "{}"
  ArmTransactionInfo words
</Directory>"#,
        folder.path().join("mod_arm.so").display(),
        site.path().display(),
        "long ".repeat(60),
    );
    let apache = Apache::event().workers(4).processes(1).root(site.path()).cgi(Cgi::Daemon).directive(&directives);
    let apache = apache.environment("LD_PRELOAD", &sanitizer).environment("ASAN_OPTIONS", Path::new(&options));
    let apache = apache.environment("LD_LIBRARY_PATH", BUILT.path()).environment("WEIR_ARM_DIR", arm.path());
    let server = apache.start().expect("it starts");
    for round in 0..3 {
        for path in ["/a.txt", "/dir/b.txt", "/env.cgi", "/none", "/tenth", "/a.txt?q=%00%ff", "/by/", "/%zz"] {
            get(server.port, path);
        }
        for length in [1, 120, 126, 127, 128, 200, 3000] {
            get(server.port, &format!("/by/{}", "n".repeat(length)));
        }
        for number in 0..40 {
            get(server.port, &format!("/by/{round}-{number}"));
        }
        for value in ["", "0", "00", "001cd740", &"f".repeat(2000), &format!("001cd740{}", PARENT.replace('-', ""))] {
            ask(server.port, &format!("GET /env.cgi HTTP/1.1\r\nHost: a\r\nARM-Correlator: {value}"));
        }
        for value in ["", "00-", &"0".repeat(55), &format!("00-{PARENT}-01"), &format!("cc-{PARENT}-01-x")] {
            ask(server.port, &format!("GET /env.cgi HTTP/1.1\r\nHost: a\r\ntraceparent: {value}"));
        }
        ask(server.port, "GET / HTTP/1.1\r\nno field\r\nHost: a");
        // A client that goes away in the midst of its request.
        let mut gone = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).expect("it listens");
        gone.write_all(b"POST /env.cgi HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx").expect("it takes it");
        drop(gone);
        // SAFETY: a signal to a process that this test has started.
        unsafe { libc::kill(server.pid() as i32, libc::SIGUSR1) };
        wait_for("the reload", || server.log().matches("resuming normal operations").count() > round + 1);
    }
    wait_for("its transactions", || told.status().counts.finished > 150);
    let log = server.log();
    drop(server);
    assert!(!log.contains("exit signal"), "{log}");
    let mut said = String::new();
    for entry in fs::read_dir(folder.path()).expect("it is there").flatten() {
        if entry.file_name().to_string_lossy().starts_with("found") {
            fs::File::open(entry.path()).and_then(|mut file| file.read_to_string(&mut said)).expect("a report");
        }
    }
    assert!(said.is_empty(), "{said}");
}
