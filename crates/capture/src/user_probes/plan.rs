//! From what is asked for to places in files: which probes a recording sets, what they cost, and what was left out.

use super::binary::Binary;
use super::error::ProbeError;
use super::go_tls;
use super::instruction::{HitCost, NOP5, Placed, cost_of, place};
use super::programs::Programs;
use super::query_text::Dialect;
use super::register::Register;
use super::release::Release;
use super::request::ProbeRequest;
use super::usdt::{Argument, From};
use crate::packs::{self, Entry, Pack, PackChoice, Place, Reads};
use crate::watch::Watched;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_wire::probe::{BY_HAND, END, PHASE, ProbePoint};

/// Places that a recording may probe, as in user_probes.h.
pub const MOST_SITES: usize = 1024;
/// Programs of a server that are looked at for a runtime that tells of waits.
const MOST_PROGRAMS: usize = 64;

/// What a probe stands for, and how its text is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// What the run says of it.
    pub told: ProbePoint,
    /// How a query that it tells is written.
    pub dialect: Option<Dialect>,
}

/// A place in a file where a probe is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The file.
    pub file: PathBuf,
    /// From its beginning, bytes.
    pub offset: u64,
    /// Whether the probe waits for the function's return.
    pub is_return: bool,
    /// The counter that switches a static probe on, from the file's beginning; 0 for none.
    pub semaphore: u64,
    /// The value that a hit tells.
    pub value: Option<Argument>,
    /// Whether the value points to text.
    pub is_text: bool,
    /// The point that it belongs to, a number of [`Plan::points`].
    pub point: u16,
    /// What a hit costs.
    pub cost: HitCost,
}

/// All probes of a recording.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What they stand for.
    pub points: Vec<Point>,
    /// Where they are.
    pub sites: Vec<Site>,
    /// What is worth saying of them: costs, and what was left out and why.
    pub notes: Vec<String>,
}

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Probes by hand.
    pub probes: Vec<ProbeRequest>,
    /// Packs.
    pub packs: PackChoice,
    /// Whether probes that must be single-stepped are set all the same.
    pub allow_slow: bool,
    /// What is watched: runtimes that carry requests from thread to thread tell of such waits.
    pub watched: Vec<Watched>,
}

impl Wanted {
    /// Whether no probe is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.probes.is_empty() && self.packs == PackChoice::None
    }
}

impl Plan {
    /// Finds the places for what is wanted in the programs that a server runs.
    ///
    /// # Errors
    /// [`ProbeError`]: a probe by hand is set or refused; of a pack what does not fit is left out, with a note.
    pub fn of(wanted: &Wanted, programs: &Programs, release: Release) -> Result<Self, ProbeError> {
        let mut planner = Planner { plan: Self::default(), wanted, release, open: BTreeMap::new() };
        for (pack, file) in packs::fitting(&wanted.packs, programs)? {
            planner.pack(pack, &file, programs);
        }
        for (pack, file) in packs::always(programs) {
            planner.quietly(pack, &file, programs);
        }
        for pack in packs::of_runtimes(&wanted.watched) {
            planner.of_runtime(pack, programs);
        }
        for request in &wanted.probes {
            planner.by_hand(request, &programs.file(request.binary())?)?;
        }
        let sites = planner.plan.sites.len();
        if sites > MOST_SITES {
            return Err(ProbeError::TooMany { sites, most: MOST_SITES });
        }
        Ok(planner.plan)
    }
}

struct Planner<'w> {
    plan: Plan,
    wanted: &'w Wanted,
    release: Release,
    /// Files that were read already.
    open: BTreeMap<PathBuf, Binary>,
}

impl Planner<'_> {
    fn binary(&mut self, path: &Path) -> Result<&Binary, ProbeError> {
        if !self.open.contains_key(path) {
            self.open.insert(path.to_owned(), Binary::open(path)?);
        }
        // It was inserted just now, if it was not there.
        Ok(&self.open[path])
    }

    fn point(&mut self, server: &str, name: &str, roles: u16, dialect: Option<Dialect>) -> u16 {
        let told = ProbePoint { server: server.to_owned(), name: name.to_owned(), roles };
        self.plan.points.push(Point { told, dialect });
        (self.plan.points.len() - 1) as u16
    }

    fn pack(&mut self, pack: &'static Pack, file: &Path, programs: &Programs) {
        let before = self.plan.sites.len();
        let mut missing = Vec::new();
        for entry in pack.entries {
            match self.entry(pack, entry, file, programs) {
                Ok(()) => {}
                Err(_) if entry.optional => {}
                Err(error) => missing.push(error.to_string()),
            }
        }
        let sites = &self.plan.sites[before..];
        let dearest = sites.iter().map(|site| site.cost).max();
        if let Some(cost) = dearest {
            self.plan.notes.push(format!(
                "pack {}: {} places in {}, {}",
                pack.name,
                sites.len(),
                file.display(),
                cost.words()
            ));
        }
        let left_out = missing.into_iter().map(|error| format!("pack {}: left out: {error}", pack.name));
        self.plan.notes.extend(left_out);
    }

    /// Sets probes that the user did not ask for. Points that are missing are not told: older programs of the name lack
    /// them.
    fn quietly(&mut self, pack: &'static Pack, file: &Path, programs: &Programs) {
        for entry in pack.entries {
            let _missing = self.entry(pack, entry, file, programs);
        }
    }

    /// Sets the probes of a runtime in the programs that have it.
    fn of_runtime(&mut self, pack: &'static Pack, programs: &Programs) {
        let files: Vec<PathBuf> = programs.programs().map(|(path, _)| path.to_owned()).collect();
        for file in files.iter().take(MOST_PROGRAMS) {
            if self.binary(file).is_ok_and(Binary::is_of_go) {
                self.pack(pack, file, programs);
            }
        }
    }

    /// Sets an entry's probe at the first of its places that there is.
    fn entry(&mut self, pack: &Pack, entry: &Entry, file: &Path, programs: &Programs) -> Result<(), ProbeError> {
        let mut outcome = Ok(());
        for place in entry.places {
            let at = match place {
                Place::Call(library, _) | Place::Library(library, _) => match programs.file(library) {
                    Ok(path) => path,
                    Err(error) => {
                        outcome = Err(error);
                        continue;
                    }
                },
                _ => file.to_owned(),
            };
            let sites = self.sites(*place, entry.reads, &at, self.wanted.allow_slow);
            match sites {
                Ok(sites) => {
                    let point = self.point(pack.name, entry.name, entry.roles, pack.dialect);
                    self.plan.sites.extend(sites.into_iter().map(|site| Site { point, ..site }));
                    return Ok(());
                }
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    fn by_hand(&mut self, request: &ProbeRequest, file: &Path) -> Result<(), ProbeError> {
        let (place, server, name, roles) = match request {
            ProbeRequest::Function { function, is_return: false, .. } => {
                (Place::Function(function), function.clone(), function.clone(), PHASE)
            }
            ProbeRequest::Function { function, .. } => {
                (Place::Return(function), function.clone(), format!("{function} returned"), END)
            }
            ProbeRequest::Static { provider, name, .. } => {
                (Place::Static(provider, name), format!("{provider}:{name}"), format!("{provider}:{name}"), PHASE)
            }
        };
        let sites = self.sites(place, Reads::Number(1), file, self.wanted.allow_slow)?;
        let dearest = sites.iter().map(|site| site.cost).max();
        if let Some(cost) = dearest.filter(|cost| *cost == HitCost::Stepped) {
            self.plan.notes.push(format!("--probe {}:{name}: {}", file.display(), cost.words()));
        }
        let point = self.point(&server, &name, roles | BY_HAND, None);
        self.plan.sites.extend(sites.into_iter().map(|site| Site { point, ..site }));
        Ok(())
    }

    /// The sites of a place, their point still to be filled in.
    fn sites(
        &mut self,
        place: Place<'_>,
        reads: Reads,
        file: &Path,
        allow_slow: bool,
    ) -> Result<Vec<Site>, ProbeError> {
        let release = self.release;
        let binary = self.binary(file)?;
        let site = |offset, value, cost| Site {
            file: file.to_owned(),
            offset,
            is_return: matches!(place, Place::Return(_)),
            semaphore: 0,
            value,
            is_text: matches!(reads, Reads::Text(_) | Reads::TextAt(..)),
            point: 0,
            cost,
        };
        match place {
            Place::Function(name) | Place::Return(name) | Place::Library(_, name) => {
                let is_return = matches!(place, Place::Return(_));
                let value = if is_return { Some(register_value(Register::RESULT)) } else { argument_value(reads) };
                let read: Vec<_> = value.into_iter().filter_map(Argument::register).map(Register::decoded).collect();
                let mut sites = Vec::new();
                for function in binary.functions(name)? {
                    let placed = self::place(&function.code, if is_return { &[] } else { &read }, is_return, release);
                    check(&placed, &format!("{}:{name}", file.display()), allow_slow)?;
                    sites.push(site(function.offset + placed.shift, value, placed.cost));
                }
                Ok(sites)
            }
            Place::Call(_, name) => {
                let calls = binary.calls(name)?;
                Ok(calls.into_iter().map(|offset| site(offset, argument_value(reads), HitCost::Trap)).collect())
            }
            Place::Static(provider, name) => {
                let found = binary.static_probes(provider, name)?;
                let mut sites = Vec::new();
                for probe in found {
                    // A nop of one byte for every kernel, and behind it one that new kernels turn into a call.
                    let pair = probe.code.first() == Some(&0x90) && cost_of(&probe.code[1..], release) == HitCost::Call;
                    let shift = u64::from(pair && probe.code[1..].starts_with(&NOP5));
                    let cost = cost_of(&probe.code[shift as usize..], release);
                    let value = reads
                        .number()
                        .and_then(|number| probe.arguments.get(usize::from(number) - 1).copied().flatten());
                    let placed = Placed { shift, cost, instruction: "nop".to_owned() };
                    check(&placed, &format!("{}:{provider}:{name}", file.display()), allow_slow)?;
                    sites.push(Site { semaphore: probe.semaphore, ..site(probe.offset + shift, value, cost) });
                }
                Ok(sites)
            }
            Place::Go(name) => {
                let missing = || ProbeError::NoFunction {
                    path: file.to_owned(),
                    name: name.to_owned(),
                    alike: Vec::new(),
                    stripped: false,
                };
                let (offset, code) = binary.go_function(name).ok_or_else(missing)?;
                let shift = go_tls::pushed(&code).ok_or_else(missing)?;
                let cost = cost_of(&code[shift as usize..], release);
                Ok(vec![site(offset + shift, argument_value(reads), cost)])
            }
        }
    }
}

fn check(placed: &Placed, place: &str, allow_slow: bool) -> Result<(), ProbeError> {
    let (place, instruction) = (place.to_owned(), placed.instruction.clone());
    match placed.cost {
        HitCost::Refused => Err(ProbeError::Impossible { place, instruction }),
        HitCost::Stepped if !allow_slow => Err(ProbeError::Slow { place, instruction }),
        _ => Ok(()),
    }
}

fn register_value(register: Register) -> Argument {
    Argument { from: From::Register(register), bytes: 8, signed: false }
}

/// Where a function finds what is to be read.
fn argument_value(reads: Reads) -> Option<Argument> {
    if let Reads::Held(name) | Reads::HeldAt(name, _) = reads {
        let register = Register::named(name)?;
        return Some(match reads {
            Reads::HeldAt(_, offset) => Argument { from: From::Memory(register, offset), bytes: 8, signed: false },
            _ => register_value(register),
        });
    }
    let register = Register::argument(reads.number()?)?;
    Some(match reads {
        Reads::TextAt(_, offset) => Argument { from: From::Memory(register, offset), bytes: 8, signed: false },
        _ => register_value(register),
    })
}
