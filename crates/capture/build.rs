//! Compiles the BPF objects and generates their skeletons. clang is needed; `make deps` installs it.

use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::path::PathBuf;

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
];

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let target = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "-D__TARGET_ARCH_arm64",
        _ => "-D__TARGET_ARCH_x86",
    };
    for object in OBJECTS {
        if let Err(error) = SkeletonBuilder::new()
            .source(format!("src/bpf/{object}.bpf.c"))
            .clang_args(["-mcpu=v3", "-O2", "-Wall", target])
            .build_and_generate(out.join(format!("{object}.skel.rs")))
        {
            eprintln!(
                "{object}.bpf.c does not build: {error:#}\nclang and libelf-dev are needed: `make deps` installs them"
            );
            std::process::exit(1);
        }
    }
}
