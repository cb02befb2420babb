//! Slow storage, planted behind real servers: the disk is named, or the file, or who serves the file system.

use crate::support;

use std::fs;
use std::path::Path;
use support::number;
use support::planted::{explained, first, first_wait, said, share, undisturbed};
use weir_testkit::{Nginx, PhpFpm, RunningBackend, RunningServer, Site, SlowFs, require};

/// A site with a page that writes lines to a log of its own, and waits for each until it is on the disk.
fn logging_site(log: &Path, lines: u32) -> (RunningServer, RunningBackend, Site) {
    let site = Site::empty().expect("a site");
    let page = format!(
        "<?php $log = fopen('{}', 'a');\n\
         for ($n = 0; $n < {lines}; $n++) {{ fwrite($log, \"bought\\n\"); fsync($log); }}\n\
         header('Content-Type: text/plain'); echo 'logged';",
        log.display()
    );
    site.write("buy.php", page.as_bytes()).expect("the page");
    let php = PhpFpm::new().processes(2).start().expect("php-fpm starts");
    let web = Nginx::new().root(site.path()).php_fpm(&php).start().expect("nginx starts");
    (web, php, site)
}

/// The file system is another process, which sleeps for 20 ms in each fsync.
///
/// Two answers are true. The page is blocked in fsync, a call that only waits for storage, so `wait_disk` with the
/// file's or the file system's name says what a user may change; and who ends the wait is a process, so that
/// `wait_process`, or that process's own sleep where it is followed, says the mechanism. In each of them the culprit
/// must be named: the file's path, or the process that serves it.
#[test]
fn a_log_on_a_slow_file_system() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none() || require::nginx().is_none() || require::php_fpm().is_none() {
        return;
    }
    if require::fuse().is_none() {
        return;
    }
    let slow = SlowFs::mount(20).expect("the file system is mounted");
    let (web, php, _site) = logging_site(&slow.dir().join("shop.log"), 1);
    let (port, php) = (web.port.to_string(), php.pid().to_string());
    let options = ["--port", &port, "--pid", &php, "--watch", "disk", "-c", "1", "-d", "2s"];
    let report = explained(&web.url("/buy.php"), &options);
    let (part, who) = first(&report);
    assert!(matches!(part, "wait_disk" | "wait_process" | "wait_timer"), "{}", said(&report));
    let named = who.contains("weir-slow-fs") || who.contains("shop.log") || who.contains("fuse");
    assert!(named, "`{who}` is blamed: {}", said(&report));
    assert!(number(&report, &format!("/parts_ns/{part}")) > 19.5e6, "{}", said(&report));
}

/// The disk of this machine: the wait is for the disk alone, and the device or the file is named.
#[test]
fn a_log_that_is_written_through() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none() || require::nginx().is_none() || require::php_fpm().is_none() {
        return;
    }
    let logs = Site::empty().expect("a directory");
    let log = logs.path().join("shop.log");
    logs.write("shop.log", b"").expect("a log");
    open_to_all(&log);
    if on_a_disk(&log).is_none() {
        return;
    }
    let (web, php, _site) = logging_site(&log, 10);
    let (port, php) = (web.port.to_string(), php.pid().to_string());
    let options = ["--port", &port, "--pid", &php, "--watch", "disk", "-c", "1", "-d", "2s"];
    let report = explained(&web.url("/buy.php"), &options);
    assert!(fs::metadata(&log).expect("the log").len() > 0, "nothing was logged");
    let (part, who) = first_wait(&report);
    assert_eq!(part, "wait_disk", "{}", said(&report));
    assert!(share(&report, "wait_disk") > 0.15, "{}", said(&report));
    assert!(who.contains("shop.log") || names_a_disk(who), "`{who}` is blamed: {}", said(&report));
}

/// A page of memory that must be read from its file: the program drops it from the cache first, each time.
const FAULTING: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
int main(void) {
    const long size = 8L << 20;
    int file = open(FILE_NAME, O_RDONLY);
    posix_fadvise(file, 0, size, POSIX_FADV_DONTNEED);
    volatile const char *map = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    if (file < 0 || map == MAP_FAILED) return 1;
    madvise((void *)map, size, MADV_RANDOM);
    long sum = 0;
    for (long at = 0; at < size; at += 16 << 10) sum += map[at];
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("Status: %d\r\nContent-Type: text/plain\r\n\r\n%ld\n", usage.ru_majflt < 100 ? 500 : 200, sum);
    return 0;
}
"#;

#[test]
fn page_faults_that_read_a_file() {
    use weir_testkit::{Apache, Cgi};
    let _turn = undisturbed();
    if require::root_and_bpf().is_none() || require::apache_module("cgi").is_none() || require::program("cc").is_none()
    {
        return;
    }
    let site = Site::empty().expect("a site");
    let file = site.path().join("mapped.bin");
    site.write("mapped.bin", &vec![b'x'; 8 << 20]).expect("a file");
    if on_a_disk(&file).is_none() {
        return;
    }
    // Pages that wait to be written stay in the cache: POSIX_FADV_DONTNEED does not drop them.
    fs::File::open(&file).and_then(|file| file.sync_all()).expect("the file is on the disk");
    let define = format!("-DFILE_NAME=\"{}\"", file.display());
    site.compile("sum.cgi", FAULTING, &[define]).expect("the CGI program is compiled");
    let web = Apache::prefork().workers(2).root(site.path()).cgi(Cgi::Direct).start().expect("Apache starts");
    let port = web.port.to_string();
    let options = ["--port", &port, "--watch", "disk", "-c", "1", "-d", "2s", "--no-keepalive"];
    let report = explained(&web.url("/sum.cgi"), &options);
    assert_eq!(report["errors"], serde_json::json!({}), "the program counts fewer than 100 faults");
    let (part, who) = first_wait(&report);
    assert_eq!(part, "wait_disk", "{}", said(&report));
    assert!(share(&report, "wait_disk") > 0.15, "{}", said(&report));
    assert!(who.contains("mapped.bin") || names_a_disk(who), "`{who}` is blamed: {}", said(&report));
}

/// Whether the file lies on a block device: in memory nothing waits for a disk.
fn on_a_disk(file: &Path) -> Option<()> {
    use std::os::unix::fs::MetadataExt;
    let device = fs::metadata(file).expect("the file").dev();
    let name = format!("{}:{}", (device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xfff00));
    require::or_skip(Path::new("/sys/dev/block").join(name).exists(), "temporary files do not lie on a disk")
}

/// Whether a block device of this machine is named.
fn names_a_disk(who: &str) -> bool {
    let devices = fs::read_dir("/sys/class/block").expect("the kernel lists its disks");
    devices.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).any(|name| who.contains(&name))
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).expect("the file is ours");
}
