//! What is quick to check of the packages, the site, the list of crates and the install script; `make test-packages`
//! installs them.

use crate::architecture::{read, root};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use weir_testkit::require;

/// What a script of Python says where a module that it needs is missing.
const CANNOT: i32 = 77;

fn run(command: &mut Command) -> Output {
    command.current_dir(root()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_site_has_no_broken_link_and_asks_no_other_host() {
    let output = run(Command::new(root().join("scripts/site")).arg("--check"));
    if require::or_skip(output.status.code() != Some(CANNOT), "needs python3-markdown-it (make deps)").is_none() {
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn the_bill_of_materials_lists_every_crate_with_its_checksum() {
    let output = run(&mut Command::new(root().join("scripts/sbom")));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let bill: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let listed: BTreeSet<(String, String, Option<String>)> = bill["components"]
        .as_array()
        .expect("components")
        .iter()
        .map(|one| {
            let word = |value: &Value| value.as_str().map(str::to_owned);
            let named = |name: &str| word(&one[name]).unwrap_or_else(|| panic!("{name} of {one}"));
            (named("name"), named("version"), word(&one["hashes"][0]["content"]))
        })
        .collect();
    let lock: toml::Table = read(&root().join("Cargo.lock")).parse().expect("TOML");
    let locked: BTreeSet<(String, String, Option<String>)> = lock["package"]
        .as_array()
        .expect("packages")
        .iter()
        .map(|one| {
            let word = |name: &str| one.get(name).and_then(toml::Value::as_str).map(str::to_owned);
            (word("name").expect("a name"), word("version").expect("a version"), word("checksum"))
        })
        .collect();
    assert_eq!(listed, locked);
    let required = |name: &str| {
        let found = bill["components"].as_array().expect("components").iter().find(|one| one["name"] == name);
        found.unwrap_or_else(|| panic!("{name}"))["scope"].clone()
    };
    assert_eq!(required("rustls"), "required", "it is linked into the program");
    assert_eq!(required("proptest"), "excluded", "only tests use it");
}

/// The paragraphs of the control file: the name of each package and its fields.
fn paragraphs() -> Vec<(String, String)> {
    let control = read(&root().join("packaging/debian/control"));
    let name = |block: &str| block.lines().find_map(|line| line.strip_prefix("Package: ")).expect("a name").to_owned();
    control.split("\n\n").map(|block| (name(block), block.to_owned())).collect()
}

#[test]
fn the_control_file_describes_each_package_and_each_package_has_files() {
    let contents = read(&root().join("packaging/debian/contents"));
    let owners: BTreeSet<&str> = contents
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(' ').next().expect("a package"))
        .collect();
    let packages = paragraphs();
    let names: BTreeSet<String> = packages.iter().map(|(name, _)| name.replace("${php}", "")).collect();
    assert_eq!(owners, names.iter().map(String::as_str).collect(), "contents and control name the same packages");
    for (name, fields) in packages {
        for field in ["Section", "Depends", "Description"] {
            assert!(fields.contains(&format!("\n{field}: ")), "{name} has no {field}");
        }
        let synopsis = fields.lines().find_map(|line| line.strip_prefix("Description: ")).expect("a synopsis");
        assert!(synopsis.len() <= 70 && !synopsis.ends_with('.'), "{name}: {synopsis}");
        assert!(fields.lines().all(|line| line.len() <= 80), "{name}: a line is longer than 80 columns");
    }
}

#[test]
fn scripts_of_packages_are_sh_and_end_at_the_first_failure() {
    let mut seen = 0;
    for entry in fs::read_dir(root().join("packaging/debian")).expect("a folder").flatten() {
        let path = entry.path();
        let kind = path.extension().map(|kind| kind.to_string_lossy().into_owned()).unwrap_or_default();
        if !["preinst", "postinst", "prerm", "postrm"].contains(&&*kind) {
            continue;
        }
        seen += 1;
        let source = read(&path);
        assert!(source.starts_with("#!/bin/sh\n") && source.contains("\nset -e\n"), "{}", path.display());
        let output = run(Command::new("sh").arg("-n").arg(&path));
        assert!(output.status.success(), "{}: {}", path.display(), text(&output.stderr));
    }
    assert!(seen >= 8, "{seen} scripts");
}

/// A folder with an archive and its sums, as `make archive` writes them. The archive is none: what is refused here is
/// refused before it is unpacked.
fn archive(sums: Option<&str>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::write(folder.path().join("weir-1.0-x86_64.tar.gz"), "not what was published").expect("written");
    if let Some(sums) = sums {
        fs::write(folder.path().join("SHA256SUMS"), sums).expect("written");
    }
    folder
}

fn install(words: &[&Path], prefix: &Path) -> (bool, String) {
    let script = root().join("packaging/install.sh");
    let output = run(Command::new("sh").arg(script).args(words).arg("--prefix").arg(prefix));
    (output.status.success(), text(&output.stderr))
}

#[test]
fn an_archive_that_is_not_as_published_is_not_installed() {
    let prefix = tempfile::tempdir().expect("a temporary directory");
    let wrong = format!("{}  weir-1.0-x86_64.tar.gz\n", "0".repeat(64));
    for (sums, words) in [
        (None, "SHA256SUMS is missing"),
        (Some("0000  another.tar.gz\n"), "does not list weir-1.0-x86_64.tar.gz"),
        (Some(wrong.as_str()), "is not as SHA256SUMS says"),
    ] {
        let folder = archive(sums);
        let (done, said) = install(&[folder.path()], prefix.path());
        assert!(!done && said.contains(words), "{words}: {said}");
        assert_eq!(fs::read_dir(prefix.path()).expect("a folder").count(), 0, "{words}");
    }
}

#[test]
fn what_is_removed_lies_below_the_prefix() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let prefix = folder.path().join("prefix");
    fs::create_dir_all(prefix.join("share/weir")).expect("a folder");
    let kept = folder.path().join("kept");
    fs::write(&kept, "another's").expect("written");
    fs::write(prefix.join("share/weir/installed"), "../kept\n").expect("written");
    let (done, said) = install(&[Path::new("--uninstall")], &prefix);
    assert!(!done && said.contains("not below"), "{said}");
    assert!(kept.exists());
    let (done, said) = install(&[Path::new("--uninstall")], &folder.path().join("other"));
    assert!(!done && said.contains("nothing was installed"), "{said}");
}

#[test]
fn the_scripts_of_delivery_can_be_run() {
    for name in
        ["packages", "packages-arm64", "test-packages", "image", "site", "sbom", "musl", "reproducible", "archive"]
    {
        let path = root().join("scripts").join(name);
        let mode = fs::metadata(&path).unwrap_or_else(|error| panic!("{name}: {error}")).permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "scripts/{name} may not be run");
        assert!(read(&root().join("Makefile")).contains(&format!("@scripts/{name}")), "no target runs scripts/{name}");
    }
}
