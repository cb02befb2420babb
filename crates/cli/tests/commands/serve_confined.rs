//! What `weir serve` takes away from itself holds, seen from outside, and nothing that it needs is missing.

use crate::support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::planted::wait_for;
use support::served::Served;
use weir_testkit::client::Connection;
use weir_testkit::require;

fn status(served: &Served, path: &str) -> u16 {
    Connection::open(served.port).expect("connects").get(path).expect("an answer").status
}

/// A field of all threads of the server, as the kernel tells it.
fn fields(served: &Served, name: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", served.child.id())).expect("it runs");
    let field = |task: PathBuf| {
        let text = fs::read_to_string(task.join("status")).expect("readable");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("a field");
        value.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    tasks.map(|task| field(task.expect("a thread").path())).collect()
}

fn site(folder: &Path) -> PathBuf {
    let root = folder.join("site");
    fs::create_dir_all(&root).expect("creates");
    fs::write(root.join("a.txt"), "a").expect("writes");
    root
}

#[test]
fn every_thread_has_the_filter_and_none_can_get_more_rights() {
    let folder = tempfile::tempdir().expect("a directory");
    let root = site(folder.path());
    fs::create_dir(folder.path().join("log")).expect("creates");
    let served = Served::start(folder.path(), &["--access-log", "log/access.log"], &root);
    let line = served.says("the server ");
    assert!(line.contains(&format!("serves only {}", root.display())) && line.contains("system calls"), "{line}");
    assert!(line.contains(&format!("writes in {}", folder.path().join("log").display())), "{line}");
    assert_eq!(status(&served, "/a.txt"), 200);
    for (field, value) in [("Seccomp", "2"), ("NoNewPrivs", "1")] {
        let all = fields(&served, field);
        assert!(all.len() >= 4 && all.iter().all(|one| one == value), "{field}: {all:?}");
    }
    drop(served);
    let free = Served::start(folder.path(), &["--no-sandbox"], &root);
    free.says("is not confined (--no-sandbox)");
    assert!(fields(&free, "Seccomp").iter().all(|one| one == "0"));
}

/// Whoever can write in the log's directory could have the server write anywhere: links are followed there.
#[test]
fn a_log_that_became_a_link_to_elsewhere_is_not_written() {
    let folder = tempfile::tempdir().expect("a directory");
    let root = site(folder.path());
    for (args, is_written) in [(&[][..], false), (&["--no-sandbox"][..], true)] {
        let (logs, outside) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let (log, elsewhere) = (logs.path().join("access.log"), outside.path().join("stolen"));
        let log_is = log.display().to_string();
        let served = Served::start(folder.path(), &[args, &["--access-log", &log_is]].concat(), &root);
        served.says("the server ");
        fs::remove_file(&log).expect("removes");
        std::os::unix::fs::symlink(&elsewhere, &log).expect("links");
        served.signal(libc::SIGUSR1);
        if is_written {
            wait_for(|| elsewhere.exists().then_some(()));
        } else {
            let line = served.says("the access log goes on where it was");
            assert!(line.contains("Permission denied"), "{line}");
            assert!(!elsewhere.exists());
        }
        assert_eq!(status(&served, "/a.txt"), 200);
    }
}

#[test]
fn a_reload_reads_its_files_again_and_a_root_elsewhere_waits_for_a_restart() {
    let folder = tempfile::tempdir().expect("a directory");
    let (root, other) = (site(folder.path()), tempfile::tempdir().expect("a directory"));
    fs::create_dir(root.join("below")).expect("creates");
    let etc = folder.path().join("etc");
    fs::create_dir(&etc).expect("creates");
    let config = etc.join("weir.toml");
    // Written beside it and renamed, as editors do: another file under the same name.
    let write = |root: &Path, more: &str| {
        let text = format!("listen = \"localhost:0\"\n[[host]]\nroot = \"{}\"\n{more}\n", root.display());
        fs::write(etc.join("new"), text).expect("writes");
        fs::rename(etc.join("new"), &config).expect("renames");
    };
    write(&root, "");
    fs::write(etc.join("page.html"), "mine").expect("writes");
    let served = Served::start(folder.path(), &[], &config);
    assert!(served.says("the server ").contains(&etc.display().to_string()));
    write(&root, "error_pages = { 404 = \"page.html\" }");
    served.signal(libc::SIGHUP);
    served.says("was read again and holds");
    // Each loop takes it up between two events.
    wait_for(|| {
        let reply = Connection::open(served.port).expect("connects").get("/none").expect("an answer");
        assert_eq!(reply.status, 404);
        (reply.body == b"mine").then_some(())
    });
    // A root below the one that is served is within reach.
    write(&root.join("below"), "");
    served.signal(libc::SIGHUP);
    served.says("was read again and holds");
    wait_for(|| (status(&served, "/a.txt") == 404).then_some(()));
    write(other.path(), "");
    served.signal(libc::SIGHUP);
    served.says("out of reach until a restart");
    // Nobody has made a call that the list lacks.
    served.said.try_iter().for_each(|line| assert!(!line.contains("was refused"), "{line}"));
}

#[test]
fn roots_rights_are_given_up_and_the_log_goes_on() {
    // SAFETY: the call takes no pointers.
    if require::or_skip(unsafe { libc::geteuid() } == 0, "only root can give up root's rights").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    let (root, logs) = (site(folder.path()), folder.path().join("logs"));
    fs::create_dir(&logs).expect("creates");
    let log = logs.join("access.log");
    let served = Served::start(folder.path(), &["--user", "nobody", "--access-log", &log.display().to_string()], &root);
    assert!(served.says("the server ").contains("runs as nobody"));
    let id = "65534 65534 65534 65534";
    for field in ["Uid", "Gid"] {
        assert!(fields(&served, field).iter().all(|one| one == id), "{:?}", fields(&served, field));
    }
    for field in ["CapEff", "CapPrm", "CapInh"] {
        assert!(fields(&served, field).iter().all(|one| one == "0000000000000000"), "{field}");
    }
    assert!(fields(&served, "Groups").iter().all(|groups| groups == "65534"), "{:?}", fields(&served, "Groups"));
    assert_eq!(status(&served, "/a.txt"), 200);
    assert_eq!(fs::metadata(&log).expect("it is there").uid(), 65534);
    // With a directory of its own the log can be turned round.
    chown(&logs, Some(65534), None).expect("root may");
    fs::rename(&log, logs.join("old")).expect("renames");
    served.signal(libc::SIGUSR1);
    wait_for(|| log.exists().then_some(()));
    assert_eq!(status(&served, "/a.txt"), 200);
    wait_for(|| (fs::metadata(&log).ok()?.len() > 0).then_some(()));
    // What only root may read is not there.
    fs::write(root.join("mine.txt"), "mine").expect("writes");
    fs::set_permissions(root.join("mine.txt"), fs::Permissions::from_mode(0o600)).expect("ours");
    assert_eq!(status(&served, "/mine.txt"), 403);
    let nobody = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--listen", "127.0.0.1:0", "--user", "no-such-user"])
        .arg(&root)
        .output()
        .expect("starts");
    let text = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(!nobody.status.success() && text.contains("cannot run as no-such-user"), "{text}");
}
