//! The inotify watches of a server, counted by the kernel. The test is alone in its process, which has no other
//! watches.
// scripts/test: serves

mod harness;

use harness::{Reply, Site};
use std::time::{Duration, Instant};
use weir_server::parse_configuration;

/// Instances of inotify of this process, and what they watch.
fn watched() -> (usize, usize) {
    let (mut instances, mut watches) = (0, 0);
    for entry in std::fs::read_dir("/proc/self/fd").expect("reads").flatten() {
        if std::fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == "anon_inode:inotify") {
            instances += 1;
            let info = std::path::Path::new("/proc/self/fdinfo").join(entry.file_name());
            let info = std::fs::read_to_string(info).unwrap_or_default();
            watches += info.lines().filter(|line| line.starts_with("inotify ")).count();
        }
    }
    (instances, watches)
}

fn get(site: &Site, host: &str, target: &str) -> Reply {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    Reply::parse(&site.exchange(request.as_bytes())).0
}

#[test]
fn hosts_share_one_instance_and_a_reload_gives_watches_back() {
    let hosts = |names: &[&str]| {
        let host = |name: &&str| format!("[[host]]\nnames = [\"{name}.org\"]\nroot = \"{name}\"\n");
        // The last one lies within the first one's directory.
        let last = "[[host]]\nnames = [\"sub.org\"]\nroot = \"a/sub\"\n".to_owned();
        names.iter().map(host).chain([last]).collect::<String>()
    };
    let files: &[(&str, &[u8])] = &[("a/f", b"a"), ("a/sub/f", b"sub"), ("b/f", b"b"), ("c/f", b"c")];
    let site = Site::start(files, |options| {
        let listen = options.listen.clone();
        *options = parse_configuration(&hosts(&["a", "b", "c"]), &options.root).expect("well-formed");
        options.listen = listen;
        options.loops = 1;
    });
    for host in ["a", "b", "c", "sub"] {
        assert_eq!(get(&site, &format!("{host}.org"), "/f").text(), host);
    }
    assert_eq!(get(&site, "a.org", "/sub/f").text(), "sub");
    assert_eq!(watched(), (1, 4), "one for each directory");
    site.write("a/sub/f", b"new");
    assert_eq!(get(&site, "a.org", "/sub/f").text(), "new");
    assert_eq!(get(&site, "sub.org", "/f").text(), "new", "the other host hears it too");
    let options = parse_configuration(&hosts(&["c"]), site.directory.path()).expect("well-formed");
    site.reloader.reload(options);
    let deadline = Instant::now() + Duration::from_secs(20);
    while get(&site, "a.org", "/f").status != 421 {
        assert!(Instant::now() < deadline, "the new configuration is not in use");
    }
    assert_eq!(watched(), (1, 2), "watches of directories that no host serves any longer are removed");
    site.write("a/sub/f", b"newest");
    assert_eq!(get(&site, "sub.org", "/f").text(), "newest", "it was watched for two, and is for one");
    site.write("c/f", b"newest");
    assert_eq!(get(&site, "c.org", "/f").text(), "newest");
}
