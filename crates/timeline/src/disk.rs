//! What a task waits for in the way of storage: the file where it is known, else the device.

use crate::blocked::{Wait, wait_of};
use crate::notes::{APART_NS, Note};
use crate::refinement::Refine;
use crate::step::Step;
use crate::tasks::State;
use weir_measure::part::Part;
use weir_wire::watched::{NAMED_DEVICE, NAMED_FILE, PAGE_FAULT, SERVED};

/// Requests that are looked at for one wait; on a busier device the latest of them name it as well.
const MOST_REQUESTS: usize = 256;

/// Names what a wait for storage was for.
pub(crate) fn name(refine: &mut Refine<'_>, step: Step) -> Step {
    let text = file(refine, &step).or_else(|| device(refine, &step));
    text.map_or(step, |text| refine.named(step, &text))
}

/// A wait for a file that a process or another host serves, if it was one: by the call alone it may have been for any
/// descriptor.
pub(crate) fn served(refine: &mut Refine<'_>, step: Step) -> Option<Step> {
    let (State::Blocked { state, syscall, .. }, _) = refine.state(&step)? else { return None };
    let (_, flags) = note(refine, &step)?;
    if flags & SERVED == 0 || wait_of(state, syscall) != Wait::Descriptor {
        return None;
    }
    let text = file(refine, &step)?;
    Some(refine.named(Step { part: Part::WaitDisk, ..step }, &text))
}

/// The file that the kernel said when the task began to wait.
fn file(refine: &Refine<'_>, step: &Step) -> Option<String> {
    let (key, flags) = note(refine, step)?;
    let name = refine.notes.name(NAMED_FILE, key).filter(|_| key != 0)?;
    let page = if flags & PAGE_FAULT != 0 { "a page of " } else { "" };
    let system = refine.notes.file_system(key).map_or_else(String::new, |system| format!(" on {system}"));
    Some(format!("{page}{name}{system}"))
}

/// What was said of a file when the step's wait began: (key, flags).
fn note(refine: &Refine<'_>, step: &Step) -> Option<(u64, u8)> {
    let (_, since_ns) = refine.state(step)?;
    let notes = refine.notes.back(step.pid, since_ns.saturating_add(APART_NS));
    let mut recent = notes.take_while(|(at, _)| at.saturating_add(APART_NS) >= since_ns);
    recent.find_map(|(_, note)| match note {
        Note::File { key, flags } => Some((key, flags)),
        _ => None,
    })
}

/// The device whose request was done when the wait ended: the task's own request, or else the last that was under way.
fn device(refine: &Refine<'_>, step: &Step) -> Option<String> {
    let under_way = |(at_ns, _): &(u64, _)| *at_ns > step.from_ns;
    let ended = refine.notes.requests_back(step.to_ns.saturating_add(APART_NS)).take(MOST_REQUESTS);
    let requests: Vec<_> = ended.take_while(under_way).collect();
    let own = requests.iter().find(|(_, request)| request.pid == step.pid);
    let (_, request) = own.or(requests.first())?;
    let device = u64::from(request.device);
    Some(match refine.notes.name(NAMED_DEVICE, device) {
        Some(name) => format!("device {name}"),
        None => format!("device {}:{}", device >> 20, device & 0xf_ffff),
    })
}
