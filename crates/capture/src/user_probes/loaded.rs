//! The program in the kernel that all user probes lead to: loaded, told its sites, attached.

use super::plan::{Plan, Site};
use super::release::Release;
use super::texts::Rewriter;
use super::usdt::{Argument, From};
use crate::error::CaptureError;
use crate::event_source::EventSource;
use crate::kind_set::KindSet;
use crate::probes::Probes;
use crate::spine::{refusal, ring_mask};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, UprobeMultiOpts, UprobeOpts};
use skeleton::{UserProbesSkel, UserProbesSkelBuilder};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use weir_wire::{Kind, Record};

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/user_probes.skel.rs"));
}

/// How a value is come by, as numbered in user_probes.h.
const FROM_NOTHING: u8 = 0;
const FROM_CONSTANT: u8 = 1;
const FROM_REGISTER: u8 = 2;
const FROM_MEMORY: u8 = 3;
/// Flags of a site, as in user_probes.h.
const SITE_TEXT: u8 = 1;
const SITE_SIGNED: u8 = 2;
/// Kernels take many sites at a time since then.
const MULTI_SINCE: Release = Release(6, 6);

/// Loaded user probes.
pub struct UserProbes {
    skel: UserProbesSkel<'static>,
    sites: Vec<Site>,
    one_by_one: bool,
    links: Vec<Link>,
    rewriter: Rewriter,
}

impl UserProbes {
    /// Loads the program for a plan; queries and names of requests are kept whole only if `keep_queries` says so.
    ///
    /// # Errors
    /// [`CaptureError::Refused`].
    pub fn load(probes: &Probes, plan: Plan, keep_queries: bool) -> Result<Self, CaptureError> {
        Self::load_for(probes, plan, keep_queries, Release::running() < MULTI_SINCE)
    }

    /// The same, as on a kernel that takes many sites at a time, or one by one as older kernels do.
    ///
    /// # Errors
    /// [`CaptureError::Refused`].
    pub fn load_for(probes: &Probes, plan: Plan, keep_queries: bool, one_by_one: bool) -> Result<Self, CaptureError> {
        let refused = |doing| move |error: libbpf_rs::Error| refusal(doing, &error);
        // The skeleton borrows its object for as long as it lives, which is until the process ends: once a run.
        let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = UserProbesSkelBuilder::default().open(object).map_err(refused("opening the user probes"))?;
        probes.share(&mut open.maps.rings, Some(&mut open.maps.bss_targets))?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.ring_mask = ring_mask();
        }
        open.progs.on_hits.set_autoload(!one_by_one);
        open.progs.on_hit.set_autoload(one_by_one);
        let skel = open.load().map_err(refused("loading the user probes"))?;
        for (number, site) in plan.sites.iter().enumerate() {
            let key = (number as u32).to_ne_bytes();
            skel.maps
                .sites
                .update(&key, &site_bytes(site), MapFlags::ANY)
                .map_err(refused("listing the user probes"))?;
        }
        let rewriter = Rewriter::new(plan.points, keep_queries);
        Ok(Self { skel, sites: plan.sites, one_by_one, links: Vec::new(), rewriter })
    }

    /// Sites of one file and direction, as the kernel takes them in one call: number and site.
    fn groups(&self) -> BTreeMap<(PathBuf, bool), Vec<(usize, &Site)>> {
        let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (number, site) in self.sites.iter().enumerate() {
            groups.entry((site.file.clone(), site.is_return)).or_default().push((number, site));
        }
        groups
    }

    fn attach_all(&mut self) -> libbpf_rs::Result<Vec<Link>> {
        let groups: Vec<_> = self
            .groups()
            .into_iter()
            .map(|(key, sites)| {
                let sites: Vec<_> = sites
                    .into_iter()
                    .map(|(at, site)| (at as u64, site.offset as usize, site.semaphore as usize))
                    .collect();
                (key, sites)
            })
            .collect();
        let mut links = Vec::new();
        for ((file, retprobe), sites) in groups {
            if self.one_by_one {
                for (cookie, func_offset, ref_ctr_offset) in sites {
                    let options = UprobeOpts { cookie, retprobe, ref_ctr_offset, ..UprobeOpts::default() };
                    links.push(self.skel.progs.on_hit.attach_uprobe_with_opts(-1, &file, func_offset, options)?);
                }
                continue;
            }
            let options = UprobeMultiOpts {
                offsets: sites.iter().map(|(_, offset, _)| *offset).collect(),
                ref_ctr_offsets: sites.iter().map(|(_, _, semaphore)| *semaphore).collect(),
                cookies: sites.iter().map(|(cookie, _, _)| *cookie).collect(),
                retprobe,
                ..UprobeMultiOpts::default()
            };
            links.push(self.skel.progs.on_hits.attach_uprobe_multi_with_opts(-1, &file, "", options)?);
        }
        Ok(links)
    }
}

impl EventSource for UserProbes {
    fn name(&self) -> &'static str {
        "user probes"
    }

    fn attach(&mut self) -> Result<(), CaptureError> {
        self.links = self.attach_all().map_err(|error| refusal("attaching the user probes", &error))?;
        Ok(())
    }

    fn detach(&mut self) {
        self.links.clear();
    }

    fn rewrites(&self) -> KindSet {
        KindSet::of(&[Kind::ProbeHit, Kind::ProbeText])
    }

    fn rewrite(&mut self, record: &Record, tell: &mut dyn FnMut(Record, (u32, &str))) -> bool {
        self.rewriter.rewrite(record, tell)
    }
}

/// A site as `struct weir_site` of user_probes.h lies in memory.
fn site_bytes(site: &Site) -> [u8; 24] {
    let mut bytes = [0; 24];
    let (constant, offset, from, place) = match site.value.map(|value| value.from) {
        None => (0, 0, FROM_NOTHING, 0),
        Some(From::Constant(constant)) => (constant, 0, FROM_CONSTANT, 0),
        Some(From::Register(register)) => (0, 0, FROM_REGISTER, register.place()),
        Some(From::Memory(register, offset)) => (0, offset, FROM_MEMORY, register.place()),
    };
    let (size, signed) = site.value.map_or((8, false), |Argument { bytes, signed, .. }| (bytes, signed));
    bytes[..8].copy_from_slice(&constant.to_ne_bytes());
    bytes[8..12].copy_from_slice(&offset.to_ne_bytes());
    bytes[12..14].copy_from_slice(&site.point.to_ne_bytes());
    bytes[14] = from;
    bytes[15] = place;
    bytes[16] = size;
    bytes[17] = if site.is_text { SITE_TEXT } else { 0 } | if signed { SITE_SIGNED } else { 0 };
    bytes
}

impl std::fmt::Debug for UserProbes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("UserProbes").field("sites", &self.sites.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user_probes::{HitCost, usdt};

    #[test]
    fn a_site_lies_in_memory_as_the_header_says() {
        let site = Site {
            file: PathBuf::new(),
            offset: 0,
            is_return: false,
            semaphore: 0,
            value: usdt::argument("-4@-144(%rbp)"),
            is_text: true,
            point: 0x0102,
            cost: HitCost::Trap,
        };
        let bytes = site_bytes(&site);
        assert_eq!(bytes[8..12], (-144i32).to_ne_bytes());
        assert_eq!(bytes[12..14], 0x0102u16.to_ne_bytes());
        assert_eq!(bytes[14..18], [FROM_MEMORY, 4, 4, SITE_TEXT | SITE_SIGNED]);
    }
}
