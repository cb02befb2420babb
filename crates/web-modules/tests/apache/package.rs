//! The package for Debian holds what it should, and what it holds works.

use crate::{BUILT, get, required};
use std::path::Path;
use std::process::Command;
use weir_testkit::{Apache, require};
use weir_web_modules::{Told, arm_directory};

fn run(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_package_has_the_module_and_its_configuration() {
    if required().is_none() || require::program("dpkg-deb").is_none() || require::program("strip").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native/apache");
    let build = format!("BUILD={}", folder.path().display());
    run(Command::new("make").arg("-C").arg(source).arg(build).arg("deb"));
    let architecture = run(Command::new("dpkg").arg("--print-architecture"));
    let name = format!("libapache2-mod-arm_{}_{}.deb", env!("CARGO_PKG_VERSION"), architecture.trim());
    let package = folder.path().join(name);
    let listed = run(Command::new("dpkg-deb").arg("--contents").arg(&package));
    for (file, owner) in [
        ("./usr/lib/apache2/modules/mod_arm.so", "-rw-r--r-- root/root"),
        ("./etc/apache2/mods-available/arm.load", "-rw-r--r-- root/root"),
        ("./etc/apache2/mods-available/arm.conf", "-rw-r--r-- root/root"),
        ("./usr/share/doc/libapache2-mod-arm/copyright", "-rw-r--r-- root/root"),
    ] {
        let line = listed.lines().find(|line| line.ends_with(file)).unwrap_or_else(|| panic!("{file}: {listed}"));
        assert!(line.starts_with(owner), "{line}");
    }
    let depends = run(Command::new("dpkg-deb").arg("--field").arg(&package).arg("Depends"));
    assert!(depends.contains("apache2-api-2012"), "the interface that Debian's httpd provides: {depends}");

    // Unpacked elsewhere, with its own configuration, it loads and measures where a section says so.
    let unpacked = folder.path().join("unpacked");
    run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&unpacked));
    let arm = arm_directory();
    let told = Told::over(arm.path());
    let module = unpacked.join("usr/lib/apache2/modules/mod_arm.so");
    let include = unpacked.join("etc/apache2/mods-available/arm.conf");
    let apache = Apache::prefork().workers(1).environment("LD_LIBRARY_PATH", BUILT.path());
    let server = apache
        .environment("WEIR_ARM_DIR", arm.path())
        .directive(&format!("LoadModule arm_module {}\nInclude {}", module.display(), include.display()))
        .directive("<Location \"/1k.txt\">\nArm On\n</Location>")
        .start()
        .expect("it starts");
    get(server.port, "/");
    get(server.port, "/1k.txt");
    assert_eq!(told.next(1)[0].name, "/1k.txt");
}
