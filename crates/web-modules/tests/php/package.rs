//! What is installed: Debian's package.

use crate::{built, php, required};
use std::fs;
use std::process::Command;
use weir_testkit::require;
use weir_web_modules::{arm_directory, make};

#[test]
fn the_package_has_what_phpenmod_and_php_look_for() {
    let Some(()) = required("").and_then(|()| require::program("dpkg-deb")) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    // Built once, for all tests.
    fs::copy(built().0, folder.path().join("arm.so")).expect("a copy");
    let output = make("php", &["--old-file=Makefile", &format!("BUILD={}", folder.path().display()), "deb"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut packages = fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.path());
    let package = packages.find(|path| path.extension().is_some_and(|kind| kind == "deb")).expect("a package");
    let root = folder.path().join("root");
    let unpacked = Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&root).status().expect("it starts");
    assert!(unpacked.success());
    let ini = fs::read_to_string(root.join("etc/php/8.2/mods-available/arm.ini")).expect("its settings");
    assert!(ini.starts_with("; priority=30\nextension=arm.so\n"), "as phpenmod reads it: {ini}");
    for file in ["usr/share/doc/php8.2-arm/copyright", "usr/share/doc/php8.2-arm/arm-in-php.md"] {
        assert!(root.join(file).is_file(), "{file}");
    }
    let depends = Command::new("dpkg-deb").arg("--field").arg(&package).arg("Depends").output().expect("it starts");
    assert!(String::from_utf8_lossy(&depends.stdout).contains("phpapi-20220829"));
    // Each setting of the file is one that the extension has, with the value that it says.
    let arm = arm_directory();
    let installed = root.join("usr/lib/php/20220829/arm.so");
    let mut command = Command::new("php8.2");
    command.arg("-n").arg("-d").arg(format!("extension={}", installed.display()));
    let environment: Vec<_> =
        php(&[], arm.path()).get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    command.envs(environment.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let said = command.args(["-r", "echo json_encode(ini_get_all('arm', false));"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let settings: Vec<&str> =
        ini.lines().filter_map(|line| line.strip_prefix(';')).filter(|line| line.starts_with("arm.")).collect();
    assert_eq!(settings.len(), 6, "{ini}");
    for line in settings {
        let (name, value) = line.split_once('=').expect("a setting");
        // The file shows how the first is switched on.
        let value = if name == "arm.automatic" { "0" } else { value.trim_matches('"') };
        assert!(said.contains(&format!("\"{name}\":\"{value}\"")), "{line}: {said}");
    }
}
