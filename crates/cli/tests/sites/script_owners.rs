//! Scripts that run as the owners of their files, and those in the directories of users. The server sees two users more
//! than the machine has: it has a mount namespace of its own.

use super::support::served::Served;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use weir_testkit::require;

const ANN: u32 = 58_001;
const BOB: u32 = 58_002;
/// `nobody` of Debian.
const NOBODY: u32 = 65_534;
const WHO: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n\
                   echo \"$(id -u) $SCRIPT_NAME $PATH_INFO $DOCUMENT_ROOT $QUERY_STRING\"\n";

/// Writes a script that belongs to a user.
fn write(path: &Path, uid: u32, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("creates");
    fs::write(path, text).expect("writes");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("sets");
    chown(path, Some(uid), Some(uid)).expect("gives it away");
}

fn own(folder: &Path, uid: u32) {
    fs::create_dir_all(folder).expect("creates");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("sets");
    chown(folder, Some(uid), Some(uid)).expect("gives it away");
}

/// A folder with the homes of two users, and `www` with scripts of both.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("sets");
    let mut users = fs::read_to_string("/etc/passwd").expect("is readable");
    for (name, uid) in [("ann", ANN), ("bob", BOB)] {
        let home = folder.path().join("home").join(name);
        users.push_str(&format!("{name}:x:{uid}:{uid}::{}:/bin/sh\n", home.display()));
        for below in ["", "public_html", "public_html/cgi-bin"] {
            own(&home.join(below), uid);
        }
        write(&home.join("public_html/cgi-bin/who"), uid, WHO);
        write(&home.join("public_html/index.html"), uid, name);
        own(&folder.path().join("www/run").join(name), uid);
        write(&folder.path().join("www/run").join(name).join("who"), uid, WHO);
    }
    fs::write(folder.path().join("passwd"), users).expect("writes");
    let text = "[[host]]\nroot = \"www\"\n[[host.route]]\nuser = \"public_html\"\ncgi = { workers = 1 }\n\
                [[host.path]]\nprefix = \"/run/\"\ncgi = { as_owner = true, workers = 1 }\n";
    fs::write(folder.path().join("weir.toml"), text).expect("writes");
    folder
}

fn get(served: &Served, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", served.port)).expect("connects");
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n").as_bytes()).expect("asks");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("an answer");
    let status = reply.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, reply.split_once("\r\n\r\n").expect("a head").1.to_owned())
}

#[test]
fn scripts_in_the_directories_of_users_run_as_these() {
    // SAFETY: the call takes nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    let Some(()) = require::or_skip(is_root, "needs root, to change users") else { return };
    let can_mount = Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    let Some(()) = require::or_skip(can_mount, "needs the right to mount (CAP_SYS_ADMIN)") else { return };
    let folder = folder();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount --bind \"$0/passwd\" /etc/passwd && exec \"$@\""]).arg(folder.path());
    command.arg(env!("CARGO_BIN_EXE_weir"));
    let served = Served::start_by(command, folder.path(), &["--loops", "1", "--user", "nobody"], "weir.toml");
    let home = |name: &str| folder.path().join("home").join(name).join("public_html");
    // They share one runner, which keeps no connection from the other.
    for _ in 0..3 {
        for (name, uid) in [("ann", ANN), ("bob", BOB)] {
            let root = home(name).display().to_string();
            let expected = format!("{uid} /~{name}/cgi-bin/who /a/b {root} q\n");
            assert_eq!(get(&served, &format!("/~{name}/cgi-bin/who/a/b?q")), (200, expected));
            let root = folder.path().join("www").display().to_string();
            let expected = format!("{uid} /run/{name}/who  {root} \n");
            assert_eq!(get(&served, &format!("/run/{name}/who")), (200, expected));
        }
    }
    assert_eq!(get(&served, "/~ann/"), (200, "ann".to_owned()));
    for (path, status) in [
        ("/~ann/cgi-bin", 301),
        ("/~ann/cgi-bin/", 404),
        ("/~ann/cgi-bin/none", 404),
        ("/~root/cgi-bin/who", 404),
        ("/~eve/cgi-bin/who", 404),
    ] {
        assert_eq!(get(&served, path).0, status, "{path}");
    }
    let script = home("ann").join("cgi-bin/who");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o775)).expect("sets");
    assert_eq!(get(&served, "/~ann/cgi-bin/who").0, 403);
    let told = served.says("is not run as its owner");
    assert!(told.contains("ann/public_html/cgi-bin/who") && told.contains("can be written by its group"), "{told}");
    assert_eq!(get(&served, "/~bob/cgi-bin/who").0, 200);
}

#[test]
fn weir_check_looks_at_scripts_in_the_directories_of_users() {
    // SAFETY: the call takes nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    let Some(()) = require::or_skip(is_root, "needs root, to give files away") else { return };
    let can_mount = Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    let Some(()) = require::or_skip(can_mount, "needs the right to mount (CAP_SYS_ADMIN)") else { return };
    let folder = folder();
    let home = |name: &str| folder.path().join("home").join(name).join("public_html/cgi-bin");
    for (name, uid) in [("ann", ANN), ("bob", BOB)] {
        write(&home(name).join("gone"), uid, "#!/usr/bin/no-such-program\n");
        write(&home(name).join("windows"), uid, "#!/bin/sh\r\necho\r\n");
        write(&home(name).join("plain"), uid, WHO);
        write(&home(name).join("writable"), uid, WHO);
    }
    fs::set_permissions(home("ann").join("plain"), fs::Permissions::from_mode(0o644)).expect("sets");
    fs::set_permissions(home("bob").join("writable"), fs::Permissions::from_mode(0o775)).expect("sets");
    write(&home("bob").join("of-ann"), ANN, WHO);
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount --bind \"$0/passwd\" /etc/passwd && exec \"$@\""]).arg(folder.path());
    command.args([env!("CARGO_BIN_EXE_weir"), "check", "weir.toml"]).current_dir(folder.path());
    let output = command.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("public_html")).collect();
    for words in [
        "cgi-bin/gone needs /usr/bin/no-such-program, which is not there, as 1 more",
        "cgi-bin/windows ends with CR LF, so that its interpreter is not found, as 1 more",
        "ann/public_html/cgi-bin/plain may not be executed; chmod +x",
        "bob/public_html/cgi-bin/writable does not run as its owner: its group or others can write it",
        "bob/public_html/cgi-bin/of-ann does not run as its owner: it belongs to another user than the home",
    ] {
        assert!(lines.iter().any(|line| line.contains(words)), "{words}: {told}");
    }
    assert_eq!(lines.len(), 5, "{told}");
    assert!(lines.iter().all(|line| line.starts_with("weir.toml:5:")), "{told}");
}

#[test]
fn only_root_runs_scripts_as_their_owners() {
    let folder = tempfile::tempdir().expect("a directory");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("sets");
    fs::create_dir_all(folder.path().join("www/run")).expect("creates");
    let text = "listen = [\"127.0.0.1:0\"]\n[[host]]\nroot = \"www\"\n[[host.path]]\nprefix = \"/run/\"\ncgi = { as_owner = true }\n";
    fs::write(folder.path().join("weir.toml"), text).expect("writes");
    // SAFETY: the call takes nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    // A copy, as another user may not reach the directory of the program.
    let program = folder.path().join("weir");
    fs::copy(env!("CARGO_BIN_EXE_weir"), &program).expect("copies");
    let run = |command: &str| {
        let mut run = Command::new(&program);
        run.args([command, "weir.toml"]).current_dir(folder.path()).env_remove("XDG_RUNTIME_DIR");
        if is_root {
            run.uid(NOBODY).gid(NOBODY);
        }
        let output = run.output().expect("it runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout),
        )
    };
    let (code, told) = run("check");
    assert!(code == Some(0) && told.contains("only a server that root starts can run scripts as the owners"), "{told}");
    let (code, told) = run("serve");
    assert!(code != Some(0) && told.contains("only root may change users"), "{code:?} {told}");
}
