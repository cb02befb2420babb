//! The confinement of `weir serve` holds, as seen from outside, and nothing that the server needs is missing.

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

/// A user who can write in the log's directory could put a link there, and have the server write anywhere.
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
    // The server made no system call that the list lacks.
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
    // With a directory of its own the log can be rotated.
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
    let unknown = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--listen", "127.0.0.1:0", "--user", "no-such-user"])
        .arg(&root)
        .output()
        .expect("starts");
    let text = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(!unknown.status.success() && text.contains("cannot run as no-such-user"), "{text}");
}

fn text(served: &Served, path: &str) -> String {
    let reply = Connection::open(served.port).expect("connects").get(path).expect("an answer");
    String::from_utf8_lossy(&reply.body).into_owned()
}

/// Releases beside each other, each with its own number as its page.
fn releases(folder: &Path, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let release = folder.join(format!("releases/{number}/public"));
        fs::create_dir_all(&release).expect("creates");
        fs::write(release.join("index.html"), number.to_string()).expect("writes");
    }
}

/// As deployments do it: a link beside the other one, renamed over it.
fn switch(folder: &Path, to: impl AsRef<Path>) {
    std::os::unix::fs::symlink(to, folder.join("new")).expect("links");
    fs::rename(folder.join("new"), folder.join("current")).expect("renames");
}

#[test]
fn a_switched_link_is_served_by_a_confined_server() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    releases(folder, 1..4);
    switch(folder, "releases/1");
    fs::write(folder.join("weir.toml"), "listen = \"localhost:0\"\n[[host]]\nroot = \"current/public\"\n")
        .expect("writes");
    let plain = Served::start(folder, &[], "current/public/");
    let hosts = Served::start(folder, &["--no-listing"], "weir.toml");
    for served in [&plain, &hosts] {
        assert!(served.says("the server ").contains("finds releases in"));
        assert_eq!(text(served, "/"), "1");
    }
    for number in ["2", "3", "1"] {
        // By a relative path, and by an absolute one.
        let to = Path::new("releases").join(number);
        switch(folder, if number == "3" { folder.join(to) } else { to });
        for served in [&plain, &hosts] {
            wait_for(|| (text(served, "/") == number).then_some(()));
            served.says("now, and that is served");
        }
    }
    // A signal takes effect at once; with a link that leads nowhere the server goes on with the directory before.
    for served in [&plain, &hosts] {
        switch(folder, "releases/none");
        served.signal(libc::SIGHUP);
        let said = served.says("No such file or directory");
        assert!(said.contains("current/public"), "{said}");
        assert_eq!(text(served, "/"), "1");
        switch(folder, "releases/1");
        served.signal(libc::SIGHUP);
        served.says(if std::ptr::eq(served, &plain) {
            "no configuration to read again"
        } else {
            "was read again and holds"
        });
    }
    // The server made no system call that the list lacks.
    plain
        .said
        .try_iter()
        .chain(hosts.said.try_iter())
        .for_each(|line| assert!(!line.contains("was refused"), "{line}"));
}

#[test]
fn a_renamed_directory_is_served_and_one_out_of_reach_is_told_with_what_to_do() {
    let (folder, far) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let at = |name: &str| folder.path().join(name);
    releases(folder.path(), 1..3);
    releases(far.path(), 7..8);
    fs::create_dir(at("www")).expect("creates");
    fs::rename(at("releases/1/public"), at("www/site")).expect("renames");
    let served = Served::start(folder.path(), &[], at("www/site"));
    assert_eq!(text(&served, "/"), "1");
    fs::rename(at("releases/2/public"), at("www/new")).expect("renames");
    fs::rename(at("www/site"), at("www/old")).expect("renames");
    fs::rename(at("www/new"), at("www/site")).expect("renames");
    wait_for(|| (text(&served, "/") == "2").then_some(()));
    // A link in its place leads to where nothing was granted.
    fs::rename(at("www/site"), at("www/older")).expect("renames");
    std::os::unix::fs::symlink(far.path().join("releases/7/public"), at("www/site")).expect("links");
    served.says("out of reach of the confined server; restart that with --releases DIR");
    assert_eq!(text(&served, "/"), "2");
    drop(served);
    fs::remove_file(at("www/site")).expect("removes");
    fs::rename(at("www/older"), at("www/site")).expect("renames");
    let granted = ["--releases", &far.path().join("releases").display().to_string()].map(str::to_owned);
    let served = Served::start(folder.path(), &granted.each_ref().map(String::as_str), at("www/site"));
    fs::rename(at("www/site"), at("www/older")).expect("renames");
    std::os::unix::fs::symlink(far.path().join("releases/7/public"), at("www/site")).expect("links");
    wait_for(|| (text(&served, "/") == "7").then_some(()));
}

/// As `~/public_html` is in every guide to shared hosting.
#[test]
fn a_directory_that_may_only_be_passed_through_has_its_index_and_its_redirect() {
    let folder = tempfile::tempdir().expect("a directory");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    let root = site(folder.path());
    for name in ["home", "bare", "closed"] {
        fs::create_dir(root.join(name)).expect("creates");
    }
    fs::write(root.join("home/index.html"), "hi").expect("writes");
    fs::write(root.join("closed/index.html"), "hi").expect("writes");
    // SAFETY: the call takes no pointers.
    let is_root = unsafe { libc::geteuid() } == 0;
    let mode = |name: &str, of_others: u32, of_owner: u32| {
        let mode = if is_root { of_others } else { of_owner };
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).expect("ours");
    };
    mode("home", 0o711, 0o311);
    mode("bare", 0o711, 0o311);
    mode("closed", 0o700, 0o600);
    let served = Served::start(folder.path(), if is_root { &["--user", "nobody"] } else { &[] }, &root);
    for (path, expected) in [
        ("/home/index.html", 200),
        ("/home/", 200),
        ("/home", 301),
        ("/bare", 301),
        ("/bare/", 403),
        ("/closed/", 403),
        ("/closed/index.html", 403),
    ] {
        assert_eq!(status(&served, path), expected, "{path}");
    }
    for name in ["home", "bare", "closed"] {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o755)).expect("ours");
    }
}
