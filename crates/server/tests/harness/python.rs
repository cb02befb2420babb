//! Pythons that clients of others run in.

use std::path::PathBuf;
use std::process::Command;
use weir_testkit::require;

/// A Python that has aioquic: what `scripts/http3-client` made beside the tests, or the system's own.
pub(crate) fn with_aioquic() -> Option<PathBuf> {
    // Tests lie in `deps` below the profile.
    let tests = std::env::current_exe().ok()?;
    let target = tests.ancestors().nth(3)?;
    let candidates = [target.join("http3-client/bin/python3"), PathBuf::from("/usr/bin/python3")];
    let has_it = |python: &PathBuf| {
        let asked = Command::new(python).args(["-c", "import aioquic"]).output();
        asked.is_ok_and(|output| output.status.success())
    };
    let found = candidates.into_iter().find(has_it);
    require::or_skip(found.is_some(), "no Python has aioquic (scripts/http3-client fetches it)")?;
    found
}
