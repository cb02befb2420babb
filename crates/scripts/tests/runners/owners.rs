//! Scripts that run as the owners of their files. The supervisor sees two users more than the machine has: it has a
//! mount namespace of its own.

use super::client::{PATIENCE, Response, Stand};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_scripts::{Pool, Way};
use weir_testkit::require;

const ANN: u32 = 61_001;
const BOB: u32 = 61_002;
/// A user of the system, a user of whom nothing is known, one in root's group, and one whose own group is a system's.
const LOW: u32 = 99;
const UNKNOWN: u32 = 61_009;
const ADMIN: u32 = 61_003;
const DAEMON: u32 = 61_004;
/// A group of ann's besides her own.
const CREW: u32 = 61_100;

const WHO: &str = "#!/bin/sh\nprintf 'A: b\\n\\n'\necho \"$(id -u) $(id -g) $(id -G)\"\n";

/// A stand with users; `None` where that is not possible.
fn stand(way: Way, change: impl FnOnce(&mut Pool)) -> Option<Stand> {
    // SAFETY: the call takes nothing.
    require::or_skip(unsafe { libc::geteuid() } == 0, "needs root, to change users")?;
    let can_mount = Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    require::or_skip(can_mount, "needs the right to mount (CAP_SYS_ADMIN)")?;
    let command = |program: &Path, folder: &Path| {
        let home = |name: &str| folder.join("home").join(name).display().to_string();
        let known = |file: &str| fs::read_to_string(file).expect("is readable");
        let user = |name: &str, uid: u32, gid: u32| format!("{name}:x:{uid}:{gid}::{}:/bin/sh\n", home(name));
        let users =
            [user("ann", ANN, ANN), user("bob", BOB, BOB), user("admin", ADMIN, ADMIN), user("demon", DAEMON, 33)];
        let groups = format!("crew:x:{CREW}:ann\nwheel:x:0:admin\n");
        fs::write(folder.join("passwd"), known("/etc/passwd") + &users.concat()).expect("writes");
        fs::write(folder.join("group"), known("/etc/group") + &groups).expect("writes");
        let script = "mount --bind \"$0/passwd\" /etc/passwd && mount --bind \"$0/group\" /etc/group && exec \"$1\"";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script]).args([folder, program]);
        command
    };
    let change = |pool: &mut Pool| {
        pool.as_owner = true;
        change(pool);
    };
    let stand = Stand::begun(way, change, command);
    let root = stand.folder.path().join("scripts");
    for (name, uid) in [("ann", ANN), ("bob", BOB)] {
        own_folder(&root.join(name), uid);
    }
    Some(stand)
}

fn own_folder(folder: &Path, uid: u32) {
    fs::create_dir_all(folder).expect("creates");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("sets");
    chown(folder, Some(uid), Some(uid)).expect("gives it away");
}

/// Writes a script that belongs to a user.
fn script(stand: &Stand, name: &str, uid: u32, text: &str) -> PathBuf {
    let path = stand.script(name, text);
    chown(&path, Some(uid), Some(uid)).expect("gives it away");
    path
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("sets");
}

#[track_caller]
fn is_answer(response: &Response, text: &str) {
    assert_eq!((response.text().as_str(), response.end), (format!("A: b\n\n{text}").as_str(), Some(0)), "{response:?}");
}

#[test]
fn a_script_has_the_rights_of_its_owner_and_no_others() {
    let Some(stand) = stand(Way::Cgi, |pool| pool.processes = 200) else { return };
    let more = "grep -E '^(Cap(Inh|Prm|Eff|Amb)|Max processes)' /proc/self/status /proc/self/limits | tr -s ' \\t' ' '\n\
                pwd; echo \"$0\"; cat /dev/stdin; echo said >/dev/stderr; echo \"${LD_PRELOAD-none}\"\n";
    script(&stand, "ann/who", ANN, &format!("{WHO}{more}"));
    script(&stand, "bob/who", BOB, WHO);
    mode(&stand.pool.root.join("ann/who"), 0o700);
    let response = stand.ask("ann/who", &[("LD_PRELOAD", "/evil.so")], b"body\n");
    let text = response.text();
    assert!(text.starts_with(&format!("A: b\n\n{ANN} {ANN} {ANN} {CREW}\n")), "{response:?}");
    assert_eq!(text.matches(": 0000000000000000\n").count(), 4, "{text}");
    assert!(text.contains("Max processes 200 200 "), "{text}");
    let root = stand.pool.root.display();
    assert!(text.ends_with(&format!("\n{root}/ann\n{root}/ann/who\nbody\nnone\n")), "{text}");
    assert_eq!(response.log, "said\n");
    is_answer(&stand.ask("bob/who", &[], b""), &format!("{BOB} {BOB} {BOB}\n"));
    // A program, and not a script with an interpreter.
    fs::copy("/usr/bin/id", stand.pool.root.join("ann/id")).expect("copies");
    chown(stand.pool.root.join("ann/id"), Some(ANN), Some(ANN)).expect("gives it away");
    let told = stand.ask("ann/id", &[], b"");
    assert!(told.text().starts_with(&format!("uid={ANN}")), "{told:?}");
    for (name, text, status) in [("none", "#!/nonexistent/sh\n", 500), ("text", "hello", 500)] {
        script(&stand, &format!("ann/{name}"), ANN, text);
        stand.ask(&format!("ann/{name}"), &[], b"").is_refusal(status);
    }
    script(&stand, "ann/plain", ANN, WHO);
    mode(&stand.pool.root.join("ann/plain"), 0o644);
    stand.ask("ann/plain", &[], b"").is_refusal(403);
    stand.is_alone();
}

#[test]
fn the_runner_has_no_right_of_root_but_to_change_users() {
    let Some(stand) = stand(Way::Cgi, |_| {}) else { return };
    for runner in stand.runners() {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            let status = fs::read_to_string(format!("/proc/{runner}/status")).expect("is there");
            // Its process is root's until it has begun.
            if status.contains("CapEff:\t00000000000000e0") || Instant::now() >= until {
                break status;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let of =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or_default();
        assert_ne!(of("Uid:").split_whitespace().next(), Some("0"), "{status}");
        assert_eq!((of("CapEff:"), of("CapPrm:")), ("00000000000000e0", "00000000000000e0"), "{status}");
    }
}

#[test]
fn what_others_could_have_made_is_not_run() {
    let Some(stand) = stand(Way::Cgi, |pool| pool.workers = 1) else { return };
    let root = stand.pool.root.clone();
    let mut conn = stand.connect();
    for (uid, words) in [
        (0, "belongs to user 0, below 100"),
        (33, "belongs to user 33, below 100"),
        (LOW, "belongs to user 99, below 100"),
        (UNKNOWN, "whom the system does not know"),
        (ADMIN, "member of root's group"),
        (DAEMON, "has the group 33, below 100"),
    ] {
        let path = script(&stand, "who", uid, WHO);
        let response = conn.ask(&path, &[], b"");
        response.is_refusal(403);
        assert!(
            response.log.contains("/scripts/who is not run as its owner: ") && response.log.contains(words),
            "{response:?}"
        );
        fs::remove_file(path).expect("removes");
    }
    let path = script(&stand, "ann/who", ANN, WHO);
    let whole = format!("{ANN} {ANN} {ANN} {CREW}\n");
    is_answer(&conn.ask(&path, &[], b""), &whole);
    let mut refused = |asked: &Path, words: &str| {
        let response = conn.ask(asked, &[], b"");
        response.is_refusal(403);
        assert!(response.log.contains(words), "{words}: {response:?}");
    };
    for wrong in [0o775, 0o757] {
        mode(&path, wrong);
        refused(&path, "ann/who can be written by its group or by others");
    }
    for wrong in [0o4755, 0o2755] {
        mode(&path, wrong);
        refused(&path, "set-user-ID");
    }
    mode(&path, 0o755);
    for folder in [root.join("ann"), root.clone()] {
        for wrong in [0o775, 0o757, 0o1777] {
            mode(&folder, wrong);
            refused(&path, &format!("{} can be written by its group or by others", folder.display()));
        }
        mode(&folder, 0o755);
        chown(&folder, Some(BOB), None).expect("gives it away");
        refused(&path, &format!("{} belongs to user {BOB}", folder.display()));
        chown(&folder, Some(0), None).expect("takes it back");
    }
    // Links in the directory of another user.
    fs::hard_link(&path, root.join("bob/hard")).expect("links");
    refused(&root.join("bob/hard"), &format!("bob belongs to user {BOB}"));
    symlink(&path, root.join("bob/soft")).expect("links");
    refused(&root.join("bob/soft"), "bob/soft is a symbolic link");
    symlink(root.join("ann"), root.join("bob/ann")).expect("links");
    refused(&root.join("bob/ann/who"), "bob/ann is a symbolic link");
    is_answer(&conn.ask(&path, &[], b""), &whole);
}

#[test]
fn a_file_that_is_swapped_meanwhile_never_runs_as_another_user() {
    let Some(stand) = stand(Way::Cgi, |pool| pool.workers = 1) else { return };
    let bob = stand.pool.root.join("bob");
    let of_ann = script(&stand, "ann/who", ANN, WHO);
    let own = script(&stand, "bob/own", BOB, WHO);
    let asked = bob.join("x");
    fs::hard_link(&own, &asked).expect("links");
    let is_over = AtomicBool::new(false);
    let mut answered = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for (target, is_soft) in [(&of_ann, true), (&own, false), (&of_ann, false), (&own, false)] {
                    let next = bob.join("next");
                    if is_soft { symlink(target, &next) } else { fs::hard_link(target, &next) }.expect("links");
                    fs::rename(&next, &asked).expect("swaps");
                    // A rename to another name of the same file leaves both.
                    let _ = fs::remove_file(&next);
                }
            }
        });
        let mut conn = stand.connect();
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until {
            let response = conn.ask(&asked, &[], b"");
            let text = response.text();
            assert!(!text.contains(&ANN.to_string()), "{response:?}");
            answered += u32::from(text.contains(&BOB.to_string()));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(answered > 0);
}

#[test]
fn processes_of_other_users_end_with_their_request() {
    let Some(stand) = stand(Way::Cgi, |pool| (pool.timeout, pool.workers) = (Duration::from_millis(500), 1)) else {
        return;
    };
    let name = stand.pool.root.display().to_string();
    let leave = format!(
        "#!/bin/sh\nprintf 'A: b\\n\\nc'\nfor i in 1 2 3; do setsid sh -c 'sleep 1000; : {name}' </dev/null >/dev/null 2>&1 & done\n"
    );
    script(&stand, "ann/leave", ANN, &leave);
    script(&stand, "bob/deaf", BOB, "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1000; done\n");
    let left = stand.ask("ann/leave", &[], b"");
    is_answer(&left, "c");
    assert!(left.log.contains("processes behind; they were ended"), "{left:?}");
    let deaf = stand.ask("bob/deaf", &[], b"");
    deaf.is_refusal(504);
    stand.is_alone();
    // Those of a runner that is killed end too.
    script(&stand, "bob/stay", BOB, "#!/bin/sh\nsleep 1000\n");
    let mut conn = stand.connect();
    conn.send(&stand.pool.root.join("bob/stay"), &[], b"");
    stand.has_begun();
    drop(conn);
    stand.is_alone();
}

/// Counts its requests.
const PLUS: &str = "#!/bin/sh\ncount=0\nexec 4<\"$CGIPLUSIN\"\nwhile read -r line <&4; do\n  while read -r line <&4 && [ -n \"$line\" ]; do :; done\n  count=$((count + 1))\n  printf 'A: b\\n\\n%s %s\\n' \"$(id -u)\" \"$count\"\n  echo \"$CGIPLUSEOF\"\ndone\n";

#[test]
fn a_process_that_stays_has_one_owner() {
    let Some(stand) = stand(Way::Cgiplus, |pool| pool.workers = 1) else { return };
    let (ann, bob) = (script(&stand, "ann/count", ANN, PLUS), script(&stand, "bob/count", BOB, PLUS));
    let mut conn = stand.connect();
    for count in 1..=3 {
        is_answer(&conn.ask(&ann, &[], b""), &format!("{ANN} {count}\n"));
        is_answer(&conn.ask(&bob, &[], b""), &format!("{BOB} {count}\n"));
    }
    let folder = stand.pool.root.join("bob");
    for path in [&bob, &folder] {
        chown(path, Some(ANN), Some(ANN)).expect("gives it away");
    }
    is_answer(&conn.ask(&bob, &[], b""), &format!("{ANN} 1\n"));
    mode(&bob, 0o775);
    conn.ask(&bob, &[], b"").is_refusal(403);
    mode(&bob, 0o755);
    is_answer(&conn.ask(&bob, &[], b""), &format!("{ANN} 2\n"));
    // That of the owner before has ended.
    let until = Instant::now() + PATIENCE;
    while stand.processes().iter().filter(|line| line.contains("/bob/count")).count() > 1 {
        assert!(Instant::now() < until, "{:?}", stand.processes());
        conn.ask(&ann, &[], b"");
    }
}

#[test]
fn an_engine_runs_the_scripts_of_one_owner() {
    let Some(stand) = stand(Way::Rte, |pool| (pool.workers, pool.is_struct) = (1, true)) else { return };
    let mut conn = stand.connect();
    let perl = "our $n;\n$n++;\nprint \"A: b\\n\\n$> $$ $n \", ($ENV{PERL5LIB} // 'none'), \"\\n\";\n";
    let python =
        "import os\nprint('A: b\\n')\nprint(os.geteuid(), os.getpid(), 1, os.environ.get('PERL5LIB', 'none'))\n";
    let mut pids = std::collections::HashMap::new();
    for turn in 0..2 {
        for (name, uid) in [("ann", ANN), ("bob", BOB)] {
            for (ending, text) in [("pl", perl), ("py", python)] {
                for file in ["one", "two"] {
                    let path = stand.pool.root.join(format!("{name}/{file}.{ending}"));
                    if turn == 0 {
                        script(&stand, &format!("{name}/{file}.{ending}"), uid, text);
                        mode(&path, 0o600);
                    }
                    let response = conn.ask(&path, &[("PERL5LIB", "/evil")], b"");
                    let text = response.text();
                    let words: Vec<_> = text.split_whitespace().skip(2).collect();
                    let [user, pid, "1", "none"] = words[..] else { panic!("{response:?}") };
                    assert_eq!(user, uid.to_string());
                    let known = pids.entry((uid, ending)).or_insert_with(|| pid.to_owned());
                    assert_eq!(known, pid, "{name} {ending}: {response:?}");
                }
            }
        }
    }
    assert_eq!(pids.values().collect::<std::collections::HashSet<_>>().len(), 4, "{pids:?}");
}

#[test]
fn scripts_in_homes_lie_below_one_directory_there() {
    let homes = |pool: &mut Pool| (pool.root, pool.home) = ("/".into(), Some("public_html/cgi-bin".into()));
    let Some(stand) = stand(Way::Cgi, homes) else { return };
    let home = stand.folder.path().join("home");
    let write = |place: &str, uid: u32| {
        let path = home.join(place);
        let parts: Vec<_> = path.ancestors().skip(1).take_while(|part| *part != home).collect();
        parts.iter().rev().for_each(|part| own_folder(part, uid));
        fs::write(&path, WHO).expect("writes");
        mode(&path, 0o755);
        chown(&path, Some(uid), Some(uid)).expect("gives it away");
        path
    };
    let mut conn = stand.connect();
    let good = write("ann/public_html/cgi-bin/sub/who", ANN);
    is_answer(&conn.ask(&good, &[], b""), &format!("{ANN} {ANN} {ANN} {CREW}\n"));
    for path in
        [write("ann/public_html/who", ANN), write("ann/bin/who", ANN), write("other/public_html/cgi-bin/who", ANN)]
    {
        let response = conn.ask(&path, &[], b"");
        response.is_refusal(403);
        assert!(response.log.contains("public_html/cgi-bin, in the home of its owner"), "{response:?}");
    }
    let foreign = write("bob/public_html/cgi-bin/who", BOB);
    is_answer(&conn.ask(&foreign, &[], b""), &format!("{BOB} {BOB} {BOB}\n"));
    chown(&foreign, Some(ANN), Some(ANN)).expect("gives it away");
    conn.ask(&foreign, &[], b"").is_refusal(403);
    let refused = |stand: &Stand, words: &str| {
        let response = stand.connect().ask(&good, &[], b"");
        response.is_refusal(403);
        assert!(response.log.contains(words), "{response:?}");
    };
    drop(conn);
    mode(&home.join("ann/public_html"), 0o777);
    refused(&stand, "ann/public_html can be written by its group");
    mode(&home.join("ann/public_html"), 0o755);
    fs::rename(home.join("ann/public_html"), home.join("ann/other")).expect("renames");
    symlink("other", home.join("ann/public_html")).expect("links");
    refused(&stand, "ann/public_html is a symbolic link");
    let mut conn = stand.connect();
    conn.ask(Path::new("/etc/passwd"), &[], b"").is_refusal(403);
}
