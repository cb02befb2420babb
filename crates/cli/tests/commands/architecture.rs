//! ARCHITECTURE.md is true: imports have one direction, the three walks name files that exist, and no crate knows what
//! it must not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What each crate may use of ours, in the program itself (tests may use more).
const MAY_USE: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("acme", &[]),
    ("trace", &["wire"]),
    ("formats", &["trace", "wire"]),
    ("measure", &[]),
    ("timeline", &["measure", "wire"]),
    ("tiles", &["measure", "objects", "timeline", "trace", "wire"]),
    ("objects", &["diagnostic", "wire"]),
    ("access-log", &[]),
    ("client", &[]),
    ("load", &["access-log", "client", "measure", "wire"]),
    ("plan", &["access-log", "measure"]),
    ("predict", &["measure"]),
    ("python", &["load", "measure"]),
    ("capture", &["trace", "wire"]),
    ("server", &["arm", "diagnostic", "exposition", "wire"]),
    // Rules read figures that are calculated and named like those in reports.
    ("policy-runtime", &["adapt", "exposition", "measure", "server", "store"]),
    ("endpoint", &[]),
    ("session", &["client", "endpoint"]),
    ("adapt", &["diagnostic"]),
    ("compare", &["measure", "report"]),
    ("report", &["measure"]),
    ("agent", &["exposition", "measure", "wire"]),
    ("arm", &["wire"]),
    ("arm-c", &["arm"]),
    ("arm2-c", &["arm"]),
    ("store", &["measure"]),
    ("testkit", &[]),
    ("diagnostic", &[]),
    ("mcp", &["measure"]),
    ("directory", &[]),
    ("exposition", &[]),
    ("import", &[]),
    ("isapi", &[]),
    ("keeper", &[]),
    ("scripts", &["arm", "wire"]),
    // It hands requests to runners, in their own form.
    ("script-server", &["scripts"]),
    // Content is placed by the planner's own ring and order.
    ("cluster", &["keeper", "plan"]),
    ("compat", &["load", "terminal"]),
    ("scenario", &["diagnostic", "load", "measure"]),
    ("descriptions", &["diagnostic", "load", "scenario"]),
    ("k6", &["load", "scenario", "terminal"]),
    ("advise", &["capture", "compare", "load", "measure", "report", "terminal", "trace"]),
    (
        "explain",
        &[
            "adapt",
            "capture",
            "measure",
            "objects",
            "policy-runtime",
            "predict",
            "report",
            "terminal",
            "timeline",
            "trace",
            "wire",
        ],
    ),
    ("record", &["agent", "capture", "compare", "explain", "load", "measure", "terminal", "timeline", "trace", "wire"]),
    ("query", &["measure", "objects", "tiles", "timeline", "trace", "wire"]),
    ("export", &["query"]),
    ("terminal", &["measure"]),
    ("web-modules", &["agent"]),
    (
        "cli",
        &[
            "acme",
            "adapt",
            "advise",
            "agent",
            "arm",
            "capture",
            "cluster",
            "compare",
            "compat",
            "descriptions",
            "diagnostic",
            "directory",
            "endpoint",
            "explain",
            "export",
            "exposition",
            "formats",
            "import",
            "isapi",
            "k6",
            "keeper",
            "load",
            "mcp",
            "measure",
            "objects",
            "plan",
            "predict",
            "query",
            "record",
            "report",
            "scenario",
            "script-server",
            "scripts",
            "server",
            "session",
            "policy-runtime",
            "store",
            "terminal",
            "tiles",
            "timeline",
            "trace",
            "wire",
        ],
    ),
];

/// Words that a crate's sources must not hold: what it must not know.
const MUST_NOT_SAY: &[(&str, &[&str])] = &[
    ("diagnostic", &["std::fs", "std::net", "std::io"]),
    // It says what is to be run, and what came of it; files are looked for, not read.
    ("mcp", &["clap", "std::process", "std::thread", "std::time", "std::io", "std::net::Tcp"]),
    // It knows what nodes agree on, not how they serve or move sessions.
    ("directory", &["weir_server", "weir_cluster", "weir_keeper", "httparse", "clap", "tokio"]),
    // Options are the command's.
    ("advise", &["clap"]),
    ("compat", &["clap"]),
    ("scenario", &["clap", "std::net::Tcp"]),
    // It gets texts, and the files that they name by a trait.
    ("descriptions", &["clap", "std::fs", "std::net", "std::env", "std::process", "std::time"]),
    ("explain", &["clap"]),
    ("record", &["clap"]),
    ("terminal", &["clap"]),
    ("exposition", &["std::fs", "std::net", "std::io"]),
    // It gets texts, and the files around by a trait.
    ("import", &["std::fs", "std::net::Tcp", "std::env", "std::process", "std::time", "weir_server", "clap"]),
    // It knows descriptors and an interface, not the server or the runner that starts it.
    ("isapi", &["std::net", "std::process::Command", "httparse", "clap"]),
    // It knows connections, not what they carry or who decides.
    ("keeper", &["httparse", "rustls", "weir_server", "weir_cluster", "clap"]),
    // It speaks FastCGI to a server, and does not know which.
    ("scripts", &["std::net::Tcp", "httparse", "weir_server", "clap"]),
    // It takes FastCGI from any server that it trusts, and starts nothing.
    ("script-server", &["std::process::Command", "httparse", "weir_server", "clap"]),
    // It moves sessions whose content it does not know.
    ("cluster", &["httparse", "weir_server", "clap"]),
    ("measure", &["std::fs", "std::net", "std::time::Instant", "SystemTime", "libc::"]),
    ("timeline", &["std::fs", "std::time::Instant", "SystemTime", "hdrhistogram"]),
    ("report", &["std::fs", "std::net", "std::time::Instant"]),
    // It gets times and readings, and other crates carry out what it decides.
    ("adapt", &["std::fs", "std::net", "std::time::", "SystemTime", "libc::", "httparse"]),
    // The server knows the form of a request, the rules know the form of a condition.
    ("policy-runtime", &["httparse", "std::net::Tcp", "TcpListener", "check_policy"]),
    ("access-log", &["std::fs", "std::net", "std::time"]),
    // It knows what events mean, not where they stand or how its figures are shown.
    ("objects", &["std::fs", "std::net::Tcp", "std::time::", "SystemTime", "weir_trace", "weir_report", "clap"]),
    // It knows what a trace says, not what it means.
    ("formats", &["std::net", "std::process::Command", "weir_timeline", "weir_measure", "clap"]),
    // It knows what questions are, not how answers are shown or which formats others have.
    ("query", &["std::net", "std::process", "serde_json", "clap"]),
    // It knows tables, not how a run is recorded.
    ("export", &["std::net", "std::process", "weir_trace", "weir_wire", "clap"]),
    ("client", &["std::fs", "std::net"]),
    ("plan", &["std::fs", "std::net", "std::time::Instant", "SystemTime"]),
    // It gets what requests did, and knows no run, no server and no load.
    ("predict", &["std::fs", "std::net", "std::time::", "SystemTime", "clap", "weir_timeline"]),
    // It runs within other people's threads and signals' handlers.
    ("arm", &["std::fs", "Mutex", "std::thread", "print!", "println!", "panic!", ".unwrap()", ".expect("]),
    ("arm-c", &["weir_wire", "std::fs", "Mutex", "print!", "println!", "panic!", ".unwrap()", ".expect("]),
    ("wire", &["std::fs", "std::time::Instant", "libc::", "std::process"]),
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Our own crates in the section `[dependencies]` of a manifest.
fn own_dependencies(manifest: &str) -> BTreeSet<String> {
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]")).unwrap_or_default();
    let names = section.lines().filter_map(|line| line.strip_prefix("weir-")?.split(['.', ' ', '=']).next());
    names.map(str::to_owned).collect()
}

pub(crate) fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn imports_have_one_direction() {
    let may_use: BTreeMap<&str, BTreeSet<String>> =
        MAY_USE.iter().map(|(name, uses)| (*name, uses.iter().map(|&used| used.to_owned()).collect())).collect();
    for entry in fs::read_dir(root().join("crates")).expect("the crates").flatten() {
        let manifest = entry.path().join("Cargo.toml");
        if !manifest.exists() {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let allowed =
            may_use.get(name.as_str()).unwrap_or_else(|| panic!("{name} is not in the table: what may it use?"));
        for used in own_dependencies(&read(&manifest)) {
            assert!(allowed.contains(&used), "{name} must not use {used}; see the map in ARCHITECTURE.md");
        }
    }
}

/// Rustdoc takes seconds for each library that it is asked to look through, so it is asked only where there is an example.
#[test]
fn examples_in_comments_are_tested_and_nothing_is_looked_through_in_vain() {
    // What stands behind the mark of an example that rustdoc runs or compiles.
    const RUNS: [&str; 4] = ["", "no_run", "should_panic", "compile_fail"];
    for entry in fs::read_dir(root().join("crates")).expect("the crates").flatten() {
        if !entry.path().join("src/lib.rs").exists() {
            continue;
        }
        let mut files = Vec::new();
        sources(&entry.path().join("src"), &mut files);
        let has_example = files.iter().any(|file| {
            let text = read(file);
            let comments = text.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
            let marks = comments.filter_map(|line| line.strip_prefix(['/', '!'])?.trim_start().strip_prefix("```"));
            // Every second one ends a block.
            marks.step_by(2).any(|word| RUNS.contains(&word))
        });
        let is_tested = !read(&entry.path().join("Cargo.toml")).contains("doctest = false");
        assert_eq!(is_tested, has_example, "{}: `doctest` of its [lib] says the contrary", entry.path().display());
    }
}

#[test]
fn no_crate_knows_what_it_must_not() {
    for (name, words) in MUST_NOT_SAY {
        let mut files = Vec::new();
        sources(&root().join("crates").join(name).join("src"), &mut files);
        assert!(!files.is_empty(), "{name} has no sources");
        for file in files {
            let text = read(&file);
            // Tests at a file's end may do what the crate may not.
            let program = text.split("#[cfg(test)]").next().unwrap_or_default();
            for word in *words {
                assert!(!program.contains(word), "{} says {word}", file.display());
            }
        }
    }
}

/// The numbered files of a section of ARCHITECTURE.md.
fn walk(heading: &str) -> Vec<String> {
    let text = read(&root().join("ARCHITECTURE.md"));
    let section = text.split("\n## ").find(|section| section.starts_with(heading)).expect("the section").to_owned();
    let numbered = section.lines().filter(|line| line.split_once(". `").is_some_and(|(n, _)| n.parse::<u32>().is_ok()));
    numbered.filter_map(|line| line.split('`').nth(1).map(str::to_owned)).collect()
}

#[test]
fn the_three_walks_are_short_and_name_files_that_exist() {
    let walks = [
        ("The way of a kernel event", 9),
        ("The way of a served request", 7),
        ("The way of a business transaction", 8),
    ];
    for (heading, most) in walks {
        let files = walk(heading);
        assert!((3..=most).contains(&files.len()), "{heading}: {files:?}");
        for file in files {
            assert!(root().join(&file).is_file(), "{heading}: {file} does not exist");
        }
    }
}
