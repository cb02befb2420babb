//! Files that come from the disk, and files that do not.

use crate::support;

use std::fs;
use std::path::Path;
use support::number;
use support::planted::{explained, first_wait, said, share, undisturbed};
use weir_testkit::{Nginx, Site, require};

/// A file that nginx reads past the page cache: each piece comes from the disk.
#[test]
fn reads_that_are_not_cached() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none() || require::nginx().is_none() {
        return;
    }
    let site = Site::empty().expect("a site");
    site.write("large.bin", &vec![b'x'; 4 << 20]).expect("a file");
    if on_a_disk(&site.path().join("large.bin")).is_none() {
        return;
    }
    let direct = Nginx::new().root(site.path()).directive("directio 4k; output_buffers 1 128k;");
    let web = direct.start().expect("nginx starts");
    let port = web.port.to_string();
    let options = ["--port", &port, "--watch", "disk", "-c", "1", "-d", "2s"];
    let report = explained(&web.url("/large.bin"), &options);
    let (part, who) = first_wait(&report);
    assert_eq!(part, "wait_disk", "{}", said(&report));
    assert!(share(&report, "wait_disk") > 0.15, "{}", said(&report));
    assert!(who.contains("large.bin") || names_a_disk(who), "`{who}` is blamed: {}", said(&report));
}

/// The same without a fault: the file is in the page cache, and the disk has nothing to do with it.
#[test]
fn reads_that_are_cached() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none() || require::nginx().is_none() {
        return;
    }
    let site = Site::empty().expect("a site");
    site.write("large.bin", &vec![b'x'; 8 << 20]).expect("a file");
    let web = Nginx::new().root(site.path()).start().expect("nginx starts");
    let port = web.port.to_string();
    let report = explained(&web.url("/large.bin"), &["--port", &port, "--watch", "disk", "-c", "1", "-d", "2s"]);
    assert!(number(&report, "/parts_ns/wait_disk") < 0.01 * number(&report, "/response_ns/mean"), "{}", said(&report));
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
