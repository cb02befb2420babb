//! Known servers' own functions, where a request begins and where it is answered: the source for kernels that tell neither
//! of sockets nor of system calls.

use crate::error::CaptureError;
use crate::spine::{Spine, refusal, ring_mask};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject, ProgramMut, UprobeOpts};
use skeleton::{ServersSkel, ServersSkelBuilder};
use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/servers.skel.rs"));
}

/// A server whose functions are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    Apache,
    Nginx,
}

impl Known {
    /// The server of a program's file name.
    fn of(program: &str) -> Option<Self> {
        match program {
            "apache2" | "httpd" => Some(Self::Apache),
            "nginx" => Some(Self::Nginx),
            _ => None,
        }
    }
}

/// The loaded programs.
pub(crate) struct Servers {
    skel: ServersSkel<'static>,
}

impl Servers {
    pub(crate) fn load(spine: &Spine) -> Result<Self, CaptureError> {
        let refused = |error: libbpf_rs::Error| refusal("loading the probes of servers", &error);
        // As for the spine: once a run, and it lives as long as the process.
        let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = ServersSkelBuilder::default().open(object).map_err(refused)?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.ring_mask = ring_mask();
        }
        spine.share(&mut open.maps.rings, Some(&mut open.maps.bss_targets))?;
        spine.share_numbers(open.open_object_mut())?;
        Ok(Self { skel: open.load().map_err(refused)? })
    }

    /// Attaches to the programs that these processes run; children run the same.
    pub(crate) fn attach(&self, pids: &[u32], links: &mut Vec<Link>) -> Result<(), CaptureError> {
        let programs = programs_of(pids);
        let progs = &self.skel.progs;
        for (file, known) in programs.values() {
            let points: &[(&ProgramMut<'_>, &str, bool)] = match known {
                Known::Apache => &[
                    (&progs.apache_begins, "ap_process_async_request", false),
                    (&progs.apache_writes, "ap_core_output_filter", false),
                    (&progs.apache_has_written, "ap_core_output_filter", true),
                ],
                Known::Nginx => &[
                    (&progs.nginx_begins, "ngx_http_process_request", false),
                    (&progs.nginx_ends, "ngx_http_finalize_request", false),
                ],
            };
            for (program, function, retprobe) in points {
                let options = UprobeOpts {
                    func_name: Some((*function).to_owned()),
                    retprobe: *retprobe,
                    ..UprobeOpts::default()
                };
                let attached = program.attach_uprobe_with_opts(-1, file, 0, options);
                links.push(attached.map_err(|error| refusal("attaching the probes of servers", &error))?);
            }
        }
        if programs.is_empty() {
            return Err(CaptureError::NoKnownServer { programs: names_of(pids) });
        }
        Ok(())
    }
}

/// Whether any of these processes runs a server whose functions are known.
pub(crate) fn check(pids: &[u32]) -> Result<(), CaptureError> {
    if programs_of(pids).is_empty() {
        return Err(CaptureError::NoKnownServer { programs: names_of(pids) });
    }
    Ok(())
}

/// Known programs by device and inode: many processes run one file.
fn programs_of(pids: &[u32]) -> BTreeMap<(u64, u64), (PathBuf, Known)> {
    let mut programs = BTreeMap::new();
    for pid in pids {
        // By the link in /proc, which leads into a container's file system, too.
        let link = PathBuf::from(format!("/proc/{pid}/exe"));
        if let Some(known) = program_of(&link).and_then(|name| Known::of(&name))
            && let Ok(file) = fs::metadata(&link)
        {
            programs.entry((file.dev(), file.ino())).or_insert((link, known));
        }
    }
    programs
}

/// The file name of the program that a link leads to.
fn program_of(link: &Path) -> Option<String> {
    let file = fs::read_link(link).ok()?;
    let name = file.file_name()?.to_string_lossy().into_owned();
    // An update replaces the file, and the processes that run the old one are told so.
    Some(name.strip_suffix(" (deleted)").map_or(name.clone(), str::to_owned))
}

/// What these processes run, for a message.
fn names_of(pids: &[u32]) -> String {
    let mut names: Vec<String> =
        pids.iter().filter_map(|pid| program_of(Path::new(&format!("/proc/{pid}/exe")))).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(4);
    if names.is_empty() { "nothing that could be looked at".to_owned() } else { names.join(", ") }
}
