//! PHP that the server runs itself: pages, workers that are stuck, reloads, and that nothing is left at the end.

use super::support::planted::wait_for;
use super::support::served::Served;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_testkit::require;

const INDEX: &str = "<?php echo 'index ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['SERVER_PORT'], ' ', \
    $_SERVER['REQUEST_SCHEME'], ' ', $_SERVER['REMOTE_PORT'] > 0 ? 'port' : 'none', ' ', strlen($_SERVER['REQUEST_ID']);";

/// A site of PHP, which a worker of another user may read.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    let www = folder.path().join("www");
    fs::create_dir_all(www.join("own")).expect("creates");
    for (name, content) in [
        ("index.php", INDEX),
        ("pid.php", "<?php echo getmypid();"),
        ("info.php", "<?php echo 'info ', $_SERVER['PATH_INFO'] ?? '-';"),
        ("slow.php", "<?php function wait_long() { sleep(60); } wait_long();"),
        ("work.php", "<?php usleep(2000); echo 'done';"),
        ("a.txt", "file"),
        ("own/secret.php", "<?php echo 'source';"),
        ("own/b.txt", "own"),
    ] {
        fs::write(www.join(name), content).expect("writes");
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("sets");
    folder
}

/// Writes a configuration with these settings of PHP.
fn configure(folder: &Path, php: &str) {
    let text =
        format!("[[host]]\nroot = \"www\"\nphp = {php}\n[[host.path]]\nprefix = \"/static/\"\nroot = \"www/own\"\n");
    fs::write(folder.join("weir.toml"), text).expect("writes");
}

fn get(served: &Served, path: &str) -> Option<(u16, String)> {
    ask(served.port, path).ok()
}

/// Status and body of an answer, whose end is that of the connection.
fn ask(port: u16, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n").as_bytes())?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let status = reply.split(' ').nth(1).and_then(|status| status.parse().ok());
    let (_, body) = reply.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    Ok((status.ok_or(std::io::ErrorKind::InvalidData)?, body.to_owned()))
}

/// The processes of a group, which are those of one php-fpm.
fn group(leader: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_of = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name: state, parent, group.
        let mut rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
        let is_dead = rest.next() == Some("Z");
        !is_dead && rest.nth(1).and_then(|group| group.parse().ok()) == Some(leader)
    };
    pids.filter(is_of).collect()
}

/// The main process of the php-fpm that answers.
fn leader(served: &Served) -> u32 {
    let (status, pid) = wait_for(|| get(served, "/pid.php").filter(|(status, _)| *status == 200));
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a worker that lives");
    let (_, rest) = stat.rsplit_once(") ").expect("a name");
    let group = rest.split(' ').nth(2).and_then(|group| group.parse().ok());
    group.unwrap_or_else(|| panic!("{status} {pid} {stat}"))
}

fn kill(pid: u32) {
    // SAFETY: the call takes no pointers.
    assert_eq!(unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) }, 0);
}

#[test]
fn a_directory_is_a_site_of_php_until_the_server_ends() {
    if require::php_fpm().is_none() {
        return;
    }
    let folder = folder();
    let mut served = Served::start(folder.path(), &["--php", "--loops", "1"], "www");
    let index = |uri: &str| (200, format!("index {uri} {} http port 16", served.port));
    for (path, expected) in [
        ("/", index("/")),
        ("/a.txt", (200, "file".to_owned())),
        ("/some/where?x=y", index("/some/where?x=y")),
        ("/info.php/more", (200, "info /more".to_owned())),
        ("/own/secret.php", (200, "source".to_owned())),
    ] {
        assert_eq!(get(&served, path), Some(expected), "{path}");
    }
    let before = leader(&served);
    kill(before);
    assert!(served.says("it is started again").contains("has ended (signal: 9"));
    let after = wait_for(|| Some(leader(&served)).filter(|leader| *leader != before));
    wait_for(|| group(before).is_empty().then_some(()));
    assert!(!group(after).is_empty());
    served.signal(libc::SIGTERM);
    assert!(served.child.wait().expect("it ends").success());
    wait_for(|| group(after).is_empty().then_some(()));
}

#[test]
fn a_worker_that_is_stuck_is_named_and_sources_are_not_sent() {
    if require::php_fpm().is_none() {
        return;
    }
    let folder = folder();
    configure(folder.path(), "{ workers = 2, slow = \"1 s\", timeout = \"50 s\" }");
    let mut served = Served::start(folder.path(), &["--loops", "1", "--admin", "unix:admin.sock"], "weir.toml");
    // Below a root of its own nothing is run, and no source is sent.
    assert_eq!(get(&served, "/static/b.txt"), Some((200, "own".to_owned())));
    for path in ["/static/secret.php", "/static/secret.php/x"] {
        assert_eq!(get(&served, path).map(|(status, _)| status), Some(404), "{path}");
    }
    let leader = leader(&served);
    let mut slow = TcpStream::connect(("127.0.0.1", served.port)).expect("connects");
    slow.write_all(b"GET /slow.php?a=b HTTP/1.1\r\nHost: a\r\n\r\n").expect("asks");
    let told = served.says("is stuck in");
    assert!(
        told.contains("/slow.php for ") && told.contains("GET /slow.php?a=b)") && told.contains("(request "),
        "{told}"
    );
    assert!(told.contains("stack: sleep() ") && told.contains("wait_long()") || told.contains("no stack: "), "{told}");
    let (_, id) = told.split_once("(request ").expect("a number");
    let id = id.split(',').next().expect("a number");
    let mut admin = std::os::unix::net::UnixStream::connect(folder.path().join("admin.sock")).expect("connects");
    admin.write_all(b"GET /status.json HTTP/1.0\r\n\r\n").expect("asks");
    let mut status = String::new();
    admin.read_to_string(&mut status).expect("an answer");
    assert!(status.contains("\"stuck\":[{") && status.contains(id) && status.contains("\"restarts\":0"), "{status}");
    drop(slow);
    served.signal(libc::SIGKILL);
    served.child.wait().expect("it ends");
    wait_for(|| group(leader).is_empty().then_some(()));
}

#[test]
fn another_configuration_and_another_server_fail_no_request() {
    if require::php_fpm().is_none() {
        return;
    }
    let folder = folder();
    configure(folder.path(), "{ workers = 2 }");
    let served = Served::start(folder.path(), &["--loops", "1"], "weir.toml");
    let first = leader(&served);
    let (stop, good) = (AtomicBool::new(false), AtomicU64::new(0));
    let port = served.port;
    let failed = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut failed = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let reply = ask(port, "/work.php");
                match reply {
                    Ok((200, body)) if body == "done" => {
                        good.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok((status, body)) => failed.push(format!("{status} {body}")),
                    Err(error) => failed.push(error.to_string()),
                }
            }
            failed
        });
        let some = || {
            let (until, now) = (good.load(Ordering::Relaxed) + 20, Instant::now());
            while good.load(Ordering::Relaxed) < until && now.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        some();
        configure(folder.path(), "{ workers = 3, renew = 10 }");
        served.signal(libc::SIGHUP);
        served.says("was read again and holds");
        some();
        wait_for(|| Some(leader(&served)).filter(|leader| *leader != first));
        // What cannot run is not taken up.
        configure(folder.path(), "{ program = \"/nonexistent/php-fpm\" }");
        served.signal(libc::SIGHUP);
        let told = served.says("/nonexistent/php-fpm is no program; install it (apt-get install php-fpm)");
        assert!(!told.contains("holds"), "{told}");
        some();
        configure(folder.path(), "{ workers = 3, renew = 10 }");
        let pid = served.child.id().to_string();
        let listen = format!("127.0.0.1:{port}");
        let mut successor = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["serve", "--loops", "1", "--take-over", &pid, "--listen", &listen, "weir.toml"])
            .current_dir(folder.path())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("it starts");
        served.says("stopped after");
        some();
        stop.store(true, Ordering::Relaxed);
        let failed = load.join().expect("the load");
        let _ = successor.kill();
        let _ = successor.wait();
        failed
    });
    assert!(failed.is_empty() && good.load(Ordering::Relaxed) >= 60, "{} {failed:?}", good.load(Ordering::Relaxed));
}

#[test]
fn a_package_that_is_missing_is_told() {
    let folder = folder();
    configure(folder.path(), "{ program = \"/nonexistent/php-fpm\" }");
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--listen", "127.0.0.1:0", "weir.toml"])
        .current_dir(folder.path())
        .output()
        .expect("it starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("install it (apt-get install php-fpm)"), "{told}");
}

/// A worker serves one connection, and those that are kept for one host are of the workers of the other.
#[test]
fn hosts_with_the_same_workers_and_loops_do_not_keep_them_from_each_other() {
    if require::php_fpm().is_none() {
        return;
    }
    let folder = folder();
    for name in ["one", "two"] {
        fs::create_dir(folder.path().join(name)).expect("creates");
        fs::write(folder.path().join(name).join("index.php"), format!("<?php usleep(20000); echo '{name}';"))
            .expect("writes");
    }
    let host = |name: &str| format!("[[host]]\nnames = [\"{name}\"]\nroot = \"{name}\"\nphp = {{ workers = 2 }}\n");
    fs::write(folder.path().join("weir.toml"), host("one") + &host("two")).expect("writes");
    let served = Served::start(folder.path(), &["--loops", "3"], "weir.toml");
    let from = |name: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
        stream.write_all(format!("GET / HTTP/1.0\r\nHost: {name}\r\n\r\n").as_bytes()).expect("sends");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).map(|_| reply)
    };
    let began = Instant::now();
    for _ in 0..10 {
        for name in ["one", "two"] {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let reply = from(name);
                        assert!(reply.as_ref().is_ok_and(|reply| reply.ends_with(name)), "{name} {reply:?}");
                    });
                }
            });
        }
    }
    assert!(began.elapsed() < Duration::from_secs(15), "kept connections held workers up: {:?}", began.elapsed());
}

/// How long two requests take together that each take 0.4 s of a worker.
fn pair(port: u16) -> Duration {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| ask(port, "/pause.php").expect("an answer"));
        }
    });
    began.elapsed()
}

#[test]
fn a_rule_has_more_workers_until_it_is_released() {
    if require::php_fpm().is_none() {
        return;
    }
    let folder = folder();
    fs::write(folder.path().join("www/pause.php"), "<?php usleep(400000); echo getmypid();").expect("writes");
    let rules = "pool apps = { php };\n\
                 atom \"/**\" { rule full: every 100ms if queue@php > 2jobs then workers 4 of apps\n\
                     until queue@php < 1jobs hold 1s; }\n";
    fs::write(folder.path().join("site.policy"), rules).expect("writes");
    let text = "[policy]\nfile = \"site.policy\"\ntick = \"50 ms\"\n[[host]]\nroot = \"www\"\n\
                php = { name = \"php\", workers = 1, workers_max = 3 }\n";
    fs::write(folder.path().join("weir.toml"), text).expect("writes");
    let served = Served::start(folder.path(), &["--loops", "2"], "weir.toml");
    served.says("`workers 4` of `php` gives it 3, its `workers_max`");
    let first = leader(&served);
    let one_at_a_time = Duration::from_millis(800);
    assert!(pair(served.port) >= one_at_a_time, "there is one worker");
    let stop = AtomicBool::new(false);
    let workers = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        // Those that would wait for too long are refused.
                        let status = ask(served.port, "/pause.php").map(|(status, _)| status);
                        assert!(matches!(status, Ok(200 | 503)), "{status:?}");
                    }
                })
            })
            .collect();
        // The main process is one of the group.
        let grown = wait_for(|| Some(group(first).len() - 1).filter(|workers| *workers == 3));
        std::thread::sleep(Duration::from_millis(600));
        let most = group(first).len() - 1;
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().expect("no panic"));
        (grown, most)
    });
    assert_eq!(workers, (3, 3), "as many as there may be, and no more");
    wait_for(|| (pair(served.port) >= one_at_a_time).then_some(()));
}
