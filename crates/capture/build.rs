//! Compiles the BPF objects and generates their skeletons. clang is needed; `make deps` installs it.

use libbpf_cargo::SkeletonBuilder;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Each is `src/bpf/NAME.bpf.c` and becomes `NAME.skel.rs`.
const OBJECTS: &[&str] = &[
    "spine",
    "arrivals",
    "calls",
    "functions",
    "servers",
    "disk",
    "locks",
    "interrupts",
    "timers",
    "splices",
    "samples",
    "user_probes",
    "streams",
    "pids",
    "generator",
];

/// Those of them that every recording needs, or that explain a wait: they are built once more, for kernels before Linux
/// 5.15 (`src/form.rs`).
const WITHOUT_FETCH: &[&str] =
    &["spine", "arrivals", "calls", "functions", "servers", "disk", "locks", "interrupts", "timers", "splices"];

/// How a skeleton opens its object, and how it is to open it where there are two.
const OPENS: &str = "ObjectSkeletonConfigBuilder::new(&DATA)";
/// What a skeleton does with a map that it does not know, once before and once after loading.
const REFUSES: &str = r#"_ => panic!("encountered unexpected map: `{name}`")"#;

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let target = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "-D__TARGET_ARCH_arm64",
        _ => "-D__TARGET_ARCH_x86",
    };
    for object in OBJECTS {
        if let Err(error) = build(object, target, &out) {
            eprintln!(
                "{object}.bpf.c does not build: {error:#}\nclang and libelf-dev are needed: `make deps` installs them"
            );
            std::process::exit(1);
        }
    }
}

fn build(object: &str, target: &str, out: &Path) -> Result<(), Box<dyn Error>> {
    let arguments = ["-mcpu=v3", "-O2", "-Wall", target];
    let source = format!("src/bpf/{object}.bpf.c");
    let skeleton = out.join(format!("{object}.skel.rs"));
    SkeletonBuilder::new().source(&source).clang_args(arguments).build_and_generate(&skeleton)?;
    if !WITHOUT_FETCH.contains(&object) {
        return Ok(());
    }
    let other = out.join(format!("{object}_without_fetch.o"));
    let arguments = arguments.into_iter().chain(["-DWEIR_WITHOUT_FETCH"]);
    SkeletonBuilder::new().source(&source).obj(&other).clang_args(arguments).build()?;
    // Maps, programs and constants are those of the first form, but for maps that only the other one needs: so one
    // skeleton does for both.
    let text = fs::read_to_string(&skeleton)?;
    for (part, times) in [(OPENS, 1), (REFUSES, 2)] {
        if text.matches(part).count() != times {
            return Err(format!("its skeleton has not {times} times `{part}`: libbpf-cargo has changed").into());
        }
    }
    let both = format!("ObjectSkeletonConfigBuilder::new(crate::form::Form::choose(&DATA, include_bytes!({other:?})))");
    Ok(fs::write(&skeleton, text.replace(OPENS, &both).replace(REFUSES, "_ => {}"))?)
}
