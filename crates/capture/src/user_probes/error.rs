//! Why a probe cannot be had, with the remedy.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a probe cannot be had.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The option is not understood.
    #[error(
        "--probe {text:?}: {reason}; write BINARY:FUNCTION, BINARY:FUNCTION:ret or usdt:BINARY:PROVIDER:NAME, such as /usr/sbin/nginx:ngx_http_process_request"
    )]
    Spelling {
        /// What was written.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No file of this name is mapped by the server.
    #[error(
        "no process of the server runs or maps a file named {name:?}; give its whole path (`ls -l /proc/PID/exe`, `cat /proc/PID/maps`)"
    )]
    NotMapped {
        /// The name.
        name: String,
    },
    /// It is no ELF file.
    #[error("{}: this is no program that can be probed: {reason}; a script's interpreter can be", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It is for another machine.
    #[error("{}: it is for {architecture}; probes know x86-64 only so far", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The machine.
        architecture: String,
    },
    /// It has no names at all.
    #[error(
        "{}: it is stripped and exports nothing, so that {name} cannot be found; run a build with symbols (`nm` lists them), or use its static probes (`readelf -n`)",
        path.display()
    )]
    Stripped {
        /// The file.
        path: PathBuf,
        /// The function that was asked for.
        name: String,
    },
    /// It has no function of this name.
    #[error(
        "{}: no function {name}{}{}",
        path.display(),
        if alike.is_empty() { String::new() } else { format!("; alike are {}", alike.join(", ")) },
        if *stripped {
            "; the file is stripped down to what it exports, which `nm -D --defined-only` lists: name one of those, or run a build with symbols"
        } else {
            "; `nm` lists those that there are, C++ and Rust names as the compiler writes them"
        }
    )]
    NoFunction {
        /// The file.
        path: PathBuf,
        /// The function that was asked for.
        name: String,
        /// Names that are alike.
        alike: Vec<String>,
        /// Whether the file names only what it exports.
        stripped: bool,
    },
    /// The function is another file's.
    #[error("{}: it only calls {name}, which is a library's; probe the library (`ldd {}` lists them)", path.display(), path.display())]
    Imported {
        /// The file.
        path: PathBuf,
        /// The function.
        name: String,
    },
    /// It does not call the function.
    #[error("{}: it holds no plain call of {name}", path.display())]
    NoCall {
        /// The file.
        path: PathBuf,
        /// The function.
        name: String,
    },
    /// It has no static probe of this name.
    #[error(
        "{}: no static probe {probe}; {}",
        path.display(),
        if known.is_empty() { "it has none at all (`readelf -n` would list them)".to_owned() } else { format!("there are {}", listed(known)) }
    )]
    NoStaticProbe {
        /// The file.
        path: PathBuf,
        /// Provider and name.
        probe: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The probe would be dear.
    #[error(
        "{place}: its first instruction is `{instruction}`, which the kernel must single-step under a probe: 17 to 24 us for every hit instead of 0.6 to 1.0 us, on each call by any process; probe another function (or the function's static probe), or pass --allow-slow-probes"
    )]
    Slow {
        /// File and function.
        place: String,
        /// The instruction.
        instruction: String,
    },
    /// The kernel does not take the probe.
    #[error("{place}: the kernel refuses a probe on `{instruction}`; probe another function")]
    Impossible {
        /// File and function.
        place: String,
        /// The instruction.
        instruction: String,
    },
    /// More sites than there is room for.
    #[error("{sites} places are to be probed, more than {most}: ask for fewer")]
    TooMany {
        /// How many were asked for.
        sites: usize,
        /// How many may be.
        most: usize,
    },
    /// No pack has this name.
    #[error("no pack is named {name:?}; there are {known}, besides auto and none")]
    NoPack {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A pack that was asked for by name fits none of the server's processes.
    #[error("--packs {name}: none of the server's processes runs {programs}; `--packs auto` takes what fits")]
    NoProgram {
        /// The pack.
        name: &'static str,
        /// The programs that it is for.
        programs: String,
    },
}

fn listed(known: &[String]) -> String {
    const MOST: usize = 20;
    let more = known.len().saturating_sub(MOST);
    let list = known[..known.len() - more].join(", ");
    if more > 0 { format!("{list} and {more} more (`readelf -n` lists them)") } else { list }
}
