//! What a probe costs where it stands: the kernel replaces an instruction by a trap, and must then make up for it.
//!
//! A few instructions it emulates; all others it single-steps, which is 20 to 30 times as dear. The rules are those of
//! the kernel's own decoder (arch/x86/kernel/uprobes.c: `push_setup_xol_ops`, `branch_setup_xol_ops`, `can_optimize`).

use super::release::Release;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Instruction, InstructionInfoFactory, OpAccess,
    Register,
};

/// What a hit of a probe costs the task that meets it, by how the kernel replays the instruction under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HitCost {
    /// A five-byte nop that the kernel turns into a call (Linux 6.18): about 0.3 us.
    Call,
    /// A trap and an emulated instruction: about 0.6 to 1.0 us.
    Trap,
    /// A trap and a single-stepped instruction: about 17 to 24 us.
    Stepped,
    /// The kernel refuses a probe there.
    Refused,
}

impl HitCost {
    /// In words, with the figures as measured on Linux 6.18.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Call => "about 0.3 us a hit: the kernel turns this nop into a call",
            Self::Trap => "about 0.6 to 1.0 us a hit: the kernel emulates this instruction",
            Self::Stepped => "17 to 24 us a hit: the kernel must single-step this instruction",
            Self::Refused => "the kernel refuses a probe on this instruction",
        }
    }
}

/// Where a probe is put, and what it costs there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Bytes behind the place that was asked for.
    pub shift: u64,
    /// What a hit costs.
    pub cost: HitCost,
    /// The instruction under the probe, as an assembler writes it.
    pub instruction: String,
}

/// The nop of five bytes that the kernel's decoder knows.
pub(crate) const NOP5: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
/// The landing mark of indirect branches, with which many distributions begin every function.
const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// Linux 6.18 turns it into a call; before, it is single-stepped like any other.
const NOP5_SINCE: Release = Release(6, 18);
/// Instructions that a probe may be moved over.
const MOST_SKIPPED: usize = 8;
/// Bytes of a function that are searched for branches back to its beginning.
const MOST_FUNCTION: usize = 1 << 20;

/// What a probe on the first instruction of `code` costs, on x86-64. The bytes after it are looked at for its length only.
#[must_use]
pub fn cost_of(code: &[u8], release: Release) -> HitCost {
    if code.starts_with(&NOP5) && release >= NOP5_SINCE {
        return HitCost::Call;
    }
    let mut rest = code;
    let (mut narrow, mut rex) = (false, 0u8);
    while let Some((&byte, after)) = rest.split_first() {
        match byte {
            0x66 => narrow = true,
            0x2e | 0x3e | 0x26 | 0x64 | 0x65 | 0x36 | 0x67 | 0xf2 | 0xf3 => {}
            _ => break,
        }
        rest = after;
    }
    if let Some((&byte @ 0x40..=0x4f, after)) = rest.split_first() {
        (rex, rest) = (byte, after);
    }
    let emulated = match *rest {
        // A push of a register: of the prefixes only the one that reaches the upper eight registers.
        [0x50..=0x57, ..] => match code.len() - rest.len() {
            0 => true,
            1 => rex == 0x41,
            _ => false,
        },
        [0x90, ..] => return if rex & 1 == 0 { HitCost::Trap } else { HitCost::Stepped },
        [0xeb | 0xe9 | 0xe8 | 0x70..=0x7f, ..] | [0x0f, 0x80..=0x8f, ..] => {
            // Intel and AMD disagree on what a 16-bit branch is.
            if narrow {
                return HitCost::Refused;
            }
            true
        }
        _ => false,
    };
    if emulated { HitCost::Trap } else { HitCost::Stepped }
}

/// The place for a probe that marks that a function was entered.
///
/// Where the first instruction is dear, the probe moves on to the first cheap one of those that always follow it, over
/// instructions that leave alone what `reads` names (the registers that the probe will read), provided that nothing in
/// the function jumps back to there, which would be counted as another entry. A probe of a function's return stands on
/// its first instruction, even a dear one: it finds the return address on the stack.
#[must_use]
pub fn place(function: &[u8], reads: &[Register], is_return: bool, release: Release) -> Placed {
    let at = |shift: usize| Placed {
        shift: shift as u64,
        cost: cost_of(&function[shift..], release),
        instruction: decoder(&function[shift..]).into_iter().next().map_or_else(String::new, text),
    };
    let first = at(0);
    if first.cost < HitCost::Stepped {
        return first;
    }
    let mut info = InstructionInfoFactory::new();
    let mut seen = 0;
    for instruction in &mut decoder(function) {
        let shift = instruction.ip() as usize;
        if shift > 0 && cost_of(&function[shift..], release) < HitCost::Stepped {
            return if jumps_into(function, 1..=shift as u64) { first } else { at(shift) };
        }
        // The landing mark does nothing else: the return address is found behind it as before it.
        let landing = function[shift..].starts_with(&LANDING);
        let straight = matches!(instruction.flow_control(), FlowControl::Next) && !instruction.is_invalid();
        let used = info.info(&instruction);
        let spoils = used.used_registers().iter().any(|used| {
            let writes =
                !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess);
            writes && reads.iter().any(|read| used.register().full_register() == read.full_register())
        });
        seen += 1;
        if !straight || spoils || (is_return && !landing) || seen >= MOST_SKIPPED {
            break;
        }
    }
    first
}

/// Where in some code a function is called by a five-byte call: offsets of the calls to any of `targets`.
///
/// Both are offsets from the code's beginning, targets outside it included. A call is emulated, so that a probe on it is
/// cheap, and it tells from where the function was called.
#[must_use]
pub(super) fn calls_to(code: &[u8], targets: &[u64]) -> Vec<u64> {
    let calls = decoder(code).into_iter().filter(|instruction| {
        instruction.is_call_near() && instruction.len() == 5 && targets.contains(&instruction.near_branch_target())
    });
    calls.map(|instruction| instruction.ip()).collect()
}

/// Of some code that is a table of jumps through pointers: where a call of each jump goes, and where its pointer is.
#[must_use]
pub(super) fn stubs(code: &[u8]) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for instruction in &mut decoder(code) {
        if instruction.is_jmp_near_indirect() && instruction.is_ip_rel_memory_operand() {
            let (at, pointer) = (instruction.ip(), instruction.ip_rel_memory_address());
            found.push((at, pointer));
            let landing = at.checked_sub(4).filter(|before| code[*before as usize..].starts_with(&LANDING));
            found.extend(landing.map(|before| (before, pointer)));
        }
    }
    found
}

fn decoder(code: &[u8]) -> Decoder<'_> {
    Decoder::with_ip(64, code, 0, DecoderOptions::NONE)
}

/// Whether a function jumps to one of these offsets in itself, or may: by a table.
fn jumps_into(function: &[u8], offsets: std::ops::RangeInclusive<u64>) -> bool {
    let function = &function[..function.len().min(MOST_FUNCTION)];
    decoder(function).into_iter().any(|instruction| match instruction.flow_control() {
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
            offsets.contains(&instruction.near_branch_target())
        }
        FlowControl::IndirectBranch => true,
        _ => false,
    })
}

fn text(instruction: Instruction) -> String {
    let mut text = String::new();
    GasFormatter::new().format(&instruction, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NEW: Release = Release(6, 18);
    const OLD: Release = Release(6, 1);

    /// What arch/x86/kernel/uprobes.c does with each encoding, read off it by hand.
    #[test]
    fn encodings_cost_what_the_kernel_does_with_them() {
        for (code, new, old) in [
            (&[0x0f, 0x1f, 0x44, 0x00, 0x00][..], HitCost::Call, HitCost::Stepped), // nopl 0x0(%rax,%rax,1)
            (&[0x0f, 0x1f, 0x40, 0x00], HitCost::Stepped, HitCost::Stepped),        // nopl 0x0(%rax)
            (&[0x90], HitCost::Trap, HitCost::Trap),                                // nop
            (&[0x66, 0x90], HitCost::Trap, HitCost::Trap),                          // xchg %ax,%ax
            (&[0x55], HitCost::Trap, HitCost::Trap),                                // push %rbp
            (&[0x41, 0x57], HitCost::Trap, HitCost::Trap),                          // push %r15
            (&[0x48, 0x55], HitCost::Stepped, HitCost::Stepped),                    // push %rbp with a needless prefix
            (&[0x66, 0x55], HitCost::Stepped, HitCost::Stepped),                    // push %bp
            (&[0xe8, 1, 0, 0, 0], HitCost::Trap, HitCost::Trap),                    // call
            (&[0xe9, 1, 0, 0, 0], HitCost::Trap, HitCost::Trap),                    // jmp
            (&[0xeb, 1], HitCost::Trap, HitCost::Trap),                             // jmp, short
            (&[0x74, 1], HitCost::Trap, HitCost::Trap),                             // je
            (&[0x0f, 0x84, 1, 0, 0, 0], HitCost::Trap, HitCost::Trap),              // je, near
            (&[0x66, 0xe8, 1, 0], HitCost::Refused, HitCost::Refused),              // callw
            (&[0x48, 0x83, 0xec, 0x08], HitCost::Stepped, HitCost::Stepped),        // sub $0x8,%rsp
            (&[0x48, 0x89, 0xf5], HitCost::Stepped, HitCost::Stepped),              // mov %rsi,%rbp
            (&[0xf3, 0x0f, 0x1e, 0xfa], HitCost::Stepped, HitCost::Stepped),        // endbr64
            (&[0xff, 0x25, 1, 0, 0, 0], HitCost::Stepped, HitCost::Stepped),        // jmp through memory
            (&[0x68, 1, 0, 0, 0], HitCost::Stepped, HitCost::Stepped),              // push of a constant
            (&[], HitCost::Stepped, HitCost::Stepped),
        ] {
            assert_eq!((cost_of(code, NEW), cost_of(code, OLD)), (new, old), "{code:02x?}");
        }
    }

    #[test]
    fn a_dear_beginning_is_stepped_over_where_that_is_sure() {
        let rdi = Register::RDI;
        // test %rdi,%rdi; je +1; ret; ret
        let checked = [0x48, 0x85, 0xff, 0x74, 0x01, 0xc3, 0xc3];
        let placed = place(&checked, &[rdi], false, NEW);
        assert_eq!((placed.shift, placed.cost), (3, HitCost::Trap));
        assert!(placed.instruction.starts_with("je"), "{}", placed.instruction);
        // endbr64; push %rbp: a return address is where it was.
        let landing = [0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x5d, 0xc3];
        assert_eq!(place(&landing, &[], true, NEW).shift, 4);
        // sub $0x8,%rsp; call: the return address is elsewhere by then.
        let framed = [0x48, 0x83, 0xec, 0x08, 0xe8, 1, 0, 0, 0, 0xc3];
        assert_eq!(place(&framed, &[], false, NEW).shift, 4);
        let returned = place(&framed, &[], true, NEW);
        assert_eq!(
            (returned.shift, returned.cost, returned.instruction.as_str()),
            (0, HitCost::Stepped, "sub $8,%rsp")
        );
    }

    #[test]
    fn it_stays_where_moving_would_count_or_read_wrongly() {
        // mov 0x8(%rdi),%rdi; push %rbx: what is to be read is gone by then.
        let spoilt = [0x48, 0x8b, 0x7f, 0x08, 0x53, 0x5b, 0xc3];
        assert_eq!(place(&spoilt, &[Register::RDI], false, NEW).shift, 0);
        assert_eq!(place(&spoilt, &[Register::RSI], false, NEW).shift, 4);
        // mov %rdi,%rax; nop; jmp back to the nop: every round would be an entry.
        let round = [0x48, 0x89, 0xf8, 0x90, 0xeb, 0xfd];
        assert_eq!(place(&round, &[], false, NEW).shift, 0);
        // mov %rdi,%rax; ret: nothing always follows.
        assert_eq!(place(&[0x48, 0x89, 0xf8, 0xc3], &[], false, NEW).shift, 0);
    }

    #[test]
    fn calls_are_found_through_their_stubs() {
        // Two stubs through pointers at 0x1000 and 0x2000, the second behind a landing mark.
        let mut table = vec![0xff, 0x25, 0xfa, 0x0f, 0, 0, 0x66, 0x90, 0xf3, 0x0f, 0x1e, 0xfa];
        table.extend([0xff, 0x25, 0xee, 0x1f, 0, 0]);
        assert_eq!(stubs(&table), [(0, 0x1000), (12, 0x2000), (8, 0x2000)]);
        // nop; call +3; call to 0x106.
        let code = [0x90, 0xe8, 3, 0, 0, 0, 0xe8, 0xfb, 0, 0, 0];
        assert_eq!(calls_to(&code, &[0x106]), [6]);
        assert!(calls_to(&code, &[0x107]).is_empty());
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(code in proptest::collection::vec(any::<u8>(), 0..120), is_return: bool) {
            let placed = place(&code, &[Register::RDI], is_return, NEW);
            prop_assert!(placed.shift as usize <= code.len());
            prop_assert_eq!(placed.cost, cost_of(&code[placed.shift as usize..], NEW));
            let _ = stubs(&code);
            prop_assert!(calls_to(&code, &[0]).iter().all(|at| code[*at as usize..].len() >= 5));
        }
    }
}
