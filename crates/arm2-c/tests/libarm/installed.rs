//! What `make install` lays out serves: programs of the documents are built with it and run; and the package for
//! Python does what it says.

use crate::support::{library, repository, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_testkit::require;
use weir_wire::arm;

/// A root under which `scripts/install-arm` has installed below `/usr`.
pub(crate) struct Installed(tempfile::TempDir);

impl Installed {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let built = library();
        run(Command::new(repository().join("scripts/install-arm"))
            .env("ARM_LIBRARIES", built.parent().expect("a folder"))
            .env("DESTDIR", root.path())
            .env("PREFIX", "/usr")
            .env("LIBDIR", "lib64"));
        Self(root)
    }

    /// A path below `/usr` there.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.0.path().join("usr").join(below)
    }

    /// The flags for a compiler, as pkg-config gives them.
    fn flags(&self, package: &str) -> Vec<String> {
        let said = run(Command::new("pkg-config")
            .args(["--cflags", "--libs", package])
            .env("PKG_CONFIG_PATH", self.path("lib64/pkgconfig"))
            // What is asked for by name is looked for in the system's folders too, which have no -I and -L.
            .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
            .env("PKG_CONFIG_SYSROOT_DIR", self.0.path()));
        String::from_utf8_lossy(&said.stdout).split_whitespace().map(str::to_owned).collect()
    }

    /// Builds and runs a program.
    fn build_and_run(&self, compiler: &str, package: &str, name: &str, source: &str) {
        let file = self.path(name);
        fs::write(&file, source).expect("a written file");
        let program = file.with_extension("");
        let strict = ["-Wall", "-Wextra", "-Werror", "-O1"];
        run(Command::new(compiler).args(strict).arg("-o").arg(&program).arg(&file).args(self.flags(package)));
        run(Command::new(&program).env("LD_LIBRARY_PATH", self.path("lib64")).env("WEIR_ARM_DIR", self.path("share")));
    }
}

const PAGE: &str = "docs/how-to/instrument-a-program.md";

/// The blocks of the page in a language.
fn blocks(language: &str) -> Vec<String> {
    let page = fs::read_to_string(repository().join(PAGE)).expect(PAGE);
    let begin = format!("```{language}\n");
    let found: Vec<String> =
        page.split(&begin).skip(1).filter_map(|rest| Some(rest.split_once("```")?.0.to_owned())).collect();
    assert!(!found.is_empty(), "{PAGE} has nothing in {language}");
    found
}

#[test]
fn programs_are_built_with_what_is_installed() {
    if require::program("pkg-config").is_none() {
        return;
    }
    let installed = Installed::new();
    for (at, source) in blocks("c").iter().enumerate() {
        installed.build_and_run("cc", "arm4", &format!("c{at}.c"), source);
    }
    if require::program("c++").is_some() {
        for (at, source) in blocks("cpp").iter().enumerate() {
            installed.build_and_run("c++", "arm4", &format!("cpp{at}.cpp"), source);
        }
    }
    // The examples of the manual.
    for (page, package) in [("arm4", "arm4"), ("arm", "arm")] {
        let text = fs::read_to_string(installed.path(&format!("share/man/man3/{page}.3"))).expect("a page");
        let example = text.split(".EX\n").nth(1).and_then(|rest| rest.split(".EE").next()).expect("an example");
        installed.build_and_run("cc", package, &format!("{page}.c"), example);
    }
    // Both in one program: their headers do not contradict each other.
    let both = "#include <arm.h>\n#include <arm4.h>\nint main(void) { return ARM_GOOD + ARM_STATUS_GOOD; }\n";
    installed.build_and_run("cc", "arm4", "both.c", both);
}

#[test]
fn the_libraries_lie_under_the_names_by_which_they_are_asked_for() {
    let installed = Installed::new();
    for (name, version) in [("libarm4.so", "4.1.0"), ("libarm.so", "2.0.0")] {
        let whole = fs::canonicalize(installed.path(&format!("lib64/{name}"))).expect(name);
        assert!(whole.ends_with(format!("{name}.{version}")), "{}", whole.display());
        let by_name = installed.path(&format!("lib64/{name}.{}", &version[..1]));
        assert_eq!(fs::canonicalize(by_name).expect("the name in programs"), whole);
    }
    for header in ["arm.h", "arm4.h", "arm4os.h"] {
        assert!(installed.path(&format!("include/{header}")).is_file(), "{header}");
    }
}

#[test]
fn the_example_in_rust_is_that_of_the_page() {
    let example = fs::read_to_string(repository().join("crates/arm/examples/checkout.rs")).expect("the example");
    let (_, program) = example.split_once("\n\n").expect("a line of its own before the program");
    assert_eq!(blocks("rust"), [program], "crates/arm/examples/checkout.rs is another than in {PAGE}");
}

#[test]
fn the_package_for_python_tells_what_it_says() {
    if require::program("python3").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let package = repository().join("python/weir_arm");
    let made = run(Command::new("python3")
        .arg(package.join("make_wheel.py"))
        .arg(folder.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("WEIR_LIBARM4", library().with_file_name("libarm4.so")));
    let wheel = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    let version = format!("weir_arm-{}-py3-none-linux_", env!("CARGO_PKG_VERSION"));
    assert!(wheel.contains(&version), "{wheel}: the version of pyproject.toml is not that of the program");
    let unpacked = folder.path().join("unpacked");
    run(Command::new("python3").args(["-m", "zipfile", "-e", &wheel]).arg(&unpacked));
    check_record(&unpacked);

    let layout = format!(
        r#"{{"heartbeat_at": {}, "positions_at": {}, "position_words": {}, "read": {}, "written": {}, "lanes": {},
            "lanes_at": {}, "lane_slots": {}}}"#,
        arm::HEAD_HEARTBEAT * 8,
        arm::POSITIONS_AT,
        arm::POSITION_WORDS,
        arm::LANE_READ,
        arm::LANE_WRITTEN,
        arm::LANES,
        arm::LANES_AT,
        arm::LANE_SLOTS
    );
    let python = |argument: &Path| {
        let mut command = Command::new("python3");
        command
            .arg(argument)
            .env("PYTHONPATH", &unpacked)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("WEIR_ARM_DIR", folder.path())
            .env("WEIR_TEST_LAYOUT", &layout);
        command
    };
    run(&mut python(&package.join("tests/test_arm.py")));
    for (at, source) in blocks("python").iter().enumerate() {
        let file = folder.path().join(format!("block{at}.py"));
        fs::write(&file, source).expect("a written file");
        run(&mut python(&file));
        // A library that is not there takes nothing from the program.
        run(python(&file).env("WEIR_LIBARM4", "/nowhere/libarm4.so"));
    }
}

/// The wheel says of each file what it holds: pip refuses it otherwise.
fn check_record(unpacked: &Path) {
    let info = format!("weir_arm-{}.dist-info/RECORD", env!("CARGO_PKG_VERSION"));
    let record = fs::read_to_string(unpacked.join(&info)).expect("a record");
    let mut seen = 0;
    for line in record.lines() {
        let (path, rest) = line.split_once(',').expect("a path");
        let bytes = fs::metadata(unpacked.join(path)).unwrap_or_else(|error| panic!("{path}: {error}")).len();
        if path != info {
            assert!(rest.starts_with("sha256=") && rest.ends_with(&format!(",{bytes}")), "{line}");
            seen += 1;
        }
    }
    assert!(seen >= 8, "{record}");
}
