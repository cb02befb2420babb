//! Debian 12's own kernel, in an emulated machine: every rung that it allows explains nginx and Apache, planted faults
//! are named, and our server is explained. The other kernels are tried by `make test-kernels`.
// scripts/test: counts, long

use std::path::Path;
use std::process::{Command, Stdio};
use weir_testkit::require;

/// How `scripts/test-kernels` says that packages cannot be had.
const SKIPPED: i32 = 77;

#[test]
fn debian_12s_own_kernel_is_explained_on_each_rung() {
    let needed = ["qemu-system-x86_64", "mmdebstrap", "cpio", "strip"].map(require::program);
    if needed.contains(&None) || require::root_and_bpf().is_none() {
        return;
    }
    let script = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/test-kernels"));
    let run = Command::new(script)
        .args(["--weir", env!("CARGO_BIN_EXE_weir"), "6.1"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .output()
        .expect("the script starts");
    let said = String::from_utf8_lossy(&run.stdout);
    eprintln!("{said}{}", String::from_utf8_lossy(&run.stderr));
    if run.status.code() == Some(SKIPPED) {
        let why =
            said.lines().find_map(|line| line.strip_prefix("test-kernels: skipped: ")).unwrap_or("without a word");
        require::or_skip(false, why);
        return;
    }
    assert!(run.status.success(), "{said}");
    // Of nothing all is right: the rungs and the faults must have been tried.
    assert!(said.matches(" right\n").count() >= 15, "{said}");
}
