//! A script server that reads its file again, and what it confines itself to.

use super::remote::{ScriptServer, TRUSTED, ask, folder, web};
use super::support::planted::wait_for;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// Changes the file of a script server, and has it read again.
fn change(folder: &Path, server: &ScriptServer, change: impl FnOnce(String) -> String) {
    let file = folder.join("scripts.toml");
    let text = fs::read_to_string(&file).expect("it is there");
    let changed = change(text.clone());
    assert_ne!(text, changed, "nothing would change");
    fs::write(&file, changed).expect("writes");
    // SAFETY: the call takes no pointers.
    assert_eq!(unsafe { libc::kill(server.child.id().cast_signed(), libc::SIGHUP) }, 0);
}

#[test]
fn a_script_server_takes_up_another_file_and_keeps_connections() {
    let folder = folder();
    fs::create_dir(folder.path().join("more")).expect("creates");
    let script = folder.path().join("more/new.sh");
    fs::write(&script, "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nnew '\necho \"$KIND\"\n").expect("writes");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("sets");
    // The server is another user by then, if root has started it.
    fs::set_permissions(folder.path().join("web.key"), fs::Permissions::from_mode(0o644)).expect("sets");
    let scripts = ScriptServer::secure(folder.path(), "");
    let web = web(folder.path(), scripts.port, &format!("{TRUSTED}connections = 1\nkeep = 1\n"));
    let get = |path: &str| ask(&web, "GET", path, "");
    assert_eq!((get("/cgi-bin/hello.sh").0, get("/cgi-bin/more/new.sh").0), (200, 404));
    let more = "[[scripts]]\nprefix = \"/cgi-bin/more/\"\nroot = \"more\"\ncgi = { env = { KIND = \"a\" } }\n";
    change(folder.path(), &scripts, |text| text + more);
    scripts.says("scripts.toml was read again and holds");
    assert_eq!(get("/cgi-bin/more/new.sh"), (200, "new a\n".to_owned()));
    // A wrong file, in each way: what is said, and that all stays as it is.
    // SAFETY: the call takes nothing. Only root becomes other users.
    let is_root = unsafe { libc::geteuid() } == 0;
    let wrong = [
        ("cgi = { env", "cgl = { env", "did you mean `cgi`?"),
        ("scripts.key", "web.key", "cannot be used with its certificate"),
        ("[[scripts]]", "[[scripts", "mend the TOML here first"),
        ("KIND = \"a\" }", "KIND = \"b\" }, user = \"no-such-user\"", "no user no-such-user"),
    ];
    let wrong = &wrong[..if is_root { 4 } else { 3 }];
    for (from, to, words) in wrong {
        let before = fs::read_to_string(folder.path().join("scripts.toml")).expect("it is there");
        change(folder.path(), &scripts, |text| text.replacen(from, to, 1));
        let told = scripts.says(words);
        assert!(told.contains("scripts.toml:") || !words.contains("mean"), "{told}");
        scripts.says("scripts.toml was not taken up; all is as before");
        assert_eq!(get("/cgi-bin/more/new.sh"), (200, "new a\n".to_owned()), "{words}");
        fs::write(folder.path().join("scripts.toml"), before).expect("writes");
    }
    change(folder.path(), &scripts, |text| {
        text.replace("KIND = \"a\"", "KIND = \"c\"").replace("127.0.0.1:", "127.0.0.2:")
    });
    scripts.says("was read again and holds; only after a restart: listen");
    assert_eq!(get("/cgi-bin/more/new.sh"), (200, "new c\n".to_owned()));
    drop(web);
    // All of it took one connection.
    let report = scripts.end();
    let (requests, answered) = (wrong.len() + 4, wrong.len() + 3);
    let expected = format!("ended: 1 connections, {requests} requests, {answered} answered");
    assert!(report.contains(&expected), "{report}");
}

#[test]
fn a_peer_that_is_no_longer_believed_loses_its_connection() {
    let folder = folder();
    let scripts = ScriptServer::secure(folder.path(), "names = [\"web.test\"]\n");
    let web = web(folder.path(), scripts.port, &format!("{TRUSTED}connections = 1\nkeep = 1\n"));
    assert_eq!(ask(&web, "GET", "/cgi-bin/hello.sh", "").0, 200);
    change(folder.path(), &scripts, |text| text.replace("web.test", "other.test"));
    scripts.says("was read again and holds");
    assert_eq!(ask(&web, "GET", "/cgi-bin/hello.sh", "").0, 502);
    scripts.says("its certificate is for none of `names`");
    change(folder.path(), &scripts, |text| text.replace("other.test", "web.test"));
    scripts.says("was read again and holds");
    wait_for(|| (ask(&web, "GET", "/cgi-bin/hello.sh", "").0 == 200).then_some(()));
}

/// What the kernel says of a process: whether a filter of its system calls holds, and whether it can gain rights.
fn confinement(process: &str) -> [String; 2] {
    let text = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    ["Seccomp:", "NoNewPrivs:"].map(|name| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.rsplit('\t').next().unwrap_or_default().to_owned()
    })
}

#[test]
fn a_script_server_confines_itself_and_its_scripts_are_free() {
    let folder = folder();
    let script = folder.path().join("bin/free.sh");
    let text =
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nwc -l </etc/passwd\ngrep NoNewPrivs: /proc/self/status\n";
    fs::write(&script, text).expect("writes");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("sets");
    let scripts = ScriptServer::secure(folder.path(), "");
    let [filter, no_new] = confinement(&scripts.child.id().to_string());
    let has_filters = Path::new("/proc/sys/kernel/seccomp").is_dir();
    assert!(!has_filters || (filter == "2" && no_new == "1"), "{filter} {no_new}");
    let web = web(folder.path(), scripts.port, TRUSTED);
    let (status, told) = ask(&web, "GET", "/cgi-bin/free.sh", "");
    let [_, own] = confinement("self");
    assert!(status == 200 && told.ends_with(&format!("\t{own}\n")) && !told.starts_with('0'), "{told}");
    drop(web);
    let report = scripts.end();
    assert!(report.contains("1 answered"), "{report}");
}

#[test]
fn a_script_server_makes_no_system_call_that_it_lacks() {
    let folder = folder();
    let scripts = ScriptServer::start(folder.path(), "connections = 2\n", "queue = 0");
    // Peers of all kinds: silent, gone, too many, with garbage.
    for bytes in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"\x01\x01\0\x01\0\x08\0\0"] {
        for _ in 0..4 {
            let mut stream = TcpStream::connect(("127.0.0.1", scripts.port)).expect("connects");
            stream.write_all(bytes).expect("sends");
            stream.set_read_timeout(Some(Duration::from_millis(50))).expect("sets");
            let _ = stream.read(&mut [0]);
        }
    }
    let mut scripts = scripts;
    // SAFETY: the call takes no pointers.
    assert_eq!(unsafe { libc::kill(scripts.child.id().cast_signed(), libc::SIGTERM) }, 0);
    assert!(scripts.child.wait().expect("it ends").success());
    let said: Vec<String> = scripts.said.iter().collect();
    assert!(said.iter().any(|line| line.contains("ended: ")), "{said:?}");
    assert!(!said.iter().any(|line| line.contains("a system call that a server does not make")), "{said:?}");
}
