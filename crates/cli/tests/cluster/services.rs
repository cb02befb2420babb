//! The units for systemd and the manifest for Kubernetes: their commands exist, and the rights that they give suffice, as
//! the stand of all these tests has no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const INSTALLED: &str = "/usr/local/bin/weir";

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/cluster")
}

fn manifest() -> String {
    fs::read_to_string(packaging().join("kubernetes.yaml")).expect("the manifest")
}

/// The capabilities of a container in the manifest.
fn capabilities_of(container: &str) -> BTreeSet<String> {
    let manifest = manifest();
    let (_, from) = manifest.split_once(&format!("- name: {container}\n")).expect("the container");
    let (_, added) = from.split_once("add: [").expect("its capabilities");
    let (added, _) = added.split_once(']').expect("their end");
    added.split(", ").map(str::to_owned).collect()
}

/// Options of setpriv(1) by which a program has no others.
pub(crate) fn rights_of(container: &str) -> [String; 2] {
    let added: Vec<String> =
        capabilities_of(container).iter().map(|name| format!("+{}", name.to_lowercase())).collect();
    [format!("--bounding-set=-all,{}", added.join(",")), "--inh-caps=-all".to_owned()]
}

/// The units, by name.
fn units() -> Vec<(String, String)> {
    let files = fs::read_dir(packaging()).expect("it is there").map(|file| file.expect("is read").path());
    let units = files.filter(|path| path.extension().is_some_and(|ends| ends == "service"));
    let name = |path: &Path| path.file_name().expect("has one").to_string_lossy().into_owned();
    units.map(|path| (name(&path), fs::read_to_string(&path).expect("is text"))).collect()
}

/// Checks that the program has each option of a command line.
fn check_command(line: &str, of: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_command = |word: &&&str| word.chars().all(|letter| letter.is_ascii_lowercase());
    let commands: Vec<&str> = words.iter().take_while(is_command).copied().collect();
    let help = Command::new(WEIR).args(&commands).arg("--help").output().expect("weir starts");
    assert!(help.status.success(), "{of}: {commands:?}");
    let help = String::from_utf8(help.stdout).expect("text");
    for option in words.iter().filter(|word| word.starts_with("--")) {
        let known = help.split(|letter: char| !(letter.is_ascii_lowercase() || letter == '-'));
        assert!(known.clone().any(|word| word == *option), "{of}: {commands:?} has no {option}");
    }
}

#[test]
fn the_commands_of_units_and_manifest_exist() {
    let mut commands = 0;
    for (name, unit) in units() {
        for line in unit.lines().filter(|line| line.starts_with("Exec")) {
            let (_, line) = line.split_once('=').expect("a setting");
            if let Some(line) = line.trim_start_matches('-').strip_prefix(INSTALLED) {
                check_command(line, &name);
                commands += 1;
            }
        }
    }
    let manifest = manifest();
    for (_, line) in manifest.match_indices("exec weir ").map(|(at, begin)| (at, &manifest[at + begin.len()..])) {
        let (line, _) = line.split_once("securityContext").expect("what follows");
        check_command(line, "the manifest");
        commands += 1;
    }
    assert_eq!(commands, 9, "the units have six, the manifest has three");
}

#[test]
fn units_give_the_rights_of_the_manifest() {
    for (name, unit) in units() {
        let Some(set) = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")) else { continue };
        // No container runs etcd: what is given to the unit is nothing.
        if set.is_empty() {
            continue;
        }
        let container = name.trim_start_matches("weir-").trim_end_matches(".service");
        let set: BTreeSet<String> = set.split(' ').map(|name| name.trim_start_matches("CAP_").to_owned()).collect();
        assert_eq!(set, capabilities_of(container), "{name}");
    }
}

#[test]
fn systemd_finds_no_fault_in_the_units() {
    if weir_testkit::require::program("systemd-analyze").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, unit) in units() {
        let lines = unit.lines().filter(|line| !line.starts_with("Documentation=man:"));
        let lines: Vec<String> = lines.map(|line| line.replace(INSTALLED, WEIR)).collect();
        fs::write(folder.path().join(name), lines.join("\n")).expect("writes");
    }
    for (name, _) in units() {
        let checked = Command::new("systemd-analyze").arg("verify").arg(folder.path().join(&name)).output();
        let checked = checked.expect("it starts");
        let said = String::from_utf8_lossy(&checked.stderr);
        // Units of the machine that it loads besides may have faults of their own.
        let faults: Vec<&str> = said.lines().filter(|line| line.contains(&name)).collect();
        assert!(faults.is_empty(), "{faults:?}");
    }
}

/// The figures by which others scale are there: a server shows each of them.
#[test]
fn the_figures_of_the_autoscalers_are_shown() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/run-a-cluster-as-services.md");
    let texts = [packaging().join("autoscaling.yaml"), page].map(|path| fs::read_to_string(path).expect("is text"));
    // Names that the adapter gives are its own: they stand behind `as:` and `name:`.
    let own: BTreeSet<&str> =
        texts.iter().flat_map(|text| text.split("{as: ").skip(1)).filter_map(|rest| rest.split('}').next()).collect();
    let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let words = texts.iter().flat_map(|text| text.split(|letter: char| !is_of_name(letter)));
    let named: BTreeSet<&str> = words.filter(|word| word.starts_with("weir_") && !own.contains(word)).collect();
    assert!(named.len() >= 4, "{named:?}");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a.txt"), "hello").expect("writes");
    let (listen, admin) = (format!("127.0.0.1:{}", weir_testkit::free_port()), folder.path().join("admin.sock"));
    let mut server = Command::new(WEIR)
        .arg("serve")
        .arg(folder.path())
        .args(["--listen", &listen, "--admin", &format!("unix:{}", admin.display())])
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("weir starts");
    let deadline = std::time::Instant::now() + crate::PATIENCE;
    let shown = loop {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "10", "--unix-socket"]).arg(&admin).arg("http://w/metrics");
        let asked = curl.output().expect("curl starts");
        if asked.status.success() || std::time::Instant::now() > deadline {
            break String::from_utf8_lossy(&asked.stdout).into_owned();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    server.kill().expect("is ours");
    server.wait().expect("is ours");
    for name in named {
        assert!(shown.lines().any(|line| line.starts_with(&format!("# TYPE {name} "))), "{name} is not shown");
    }
}
