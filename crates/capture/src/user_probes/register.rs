//! The registers of x86-64 that hold what a probe reads.

/// A general register, by its place in the kernel's `struct pt_regs` in words of eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Register(u8);

/// By their place: the names of 8, 4, 2 and 1 byte of each.
const NAMES: [[&str; 4]; 21] = [
    ["r15", "r15d", "r15w", "r15b"],
    ["r14", "r14d", "r14w", "r14b"],
    ["r13", "r13d", "r13w", "r13b"],
    ["r12", "r12d", "r12w", "r12b"],
    ["rbp", "ebp", "bp", "bpl"],
    ["rbx", "ebx", "bx", "bl"],
    ["r11", "r11d", "r11w", "r11b"],
    ["r10", "r10d", "r10w", "r10b"],
    ["r9", "r9d", "r9w", "r9b"],
    ["r8", "r8d", "r8w", "r8b"],
    ["rax", "eax", "ax", "al"],
    ["rcx", "ecx", "cx", "cl"],
    ["rdx", "edx", "dx", "dl"],
    ["rsi", "esi", "si", "sil"],
    ["rdi", "edi", "di", "dil"],
    ["", "", "", ""],
    ["rip", "eip", "", ""],
    ["", "", "", ""],
    ["", "", "", ""],
    ["rsp", "esp", "sp", "spl"],
    ["", "", "", ""],
];
/// Places of the registers in which a function finds its arguments (System V ABI, figure 3.4).
const ARGUMENTS: [u8; 6] = [14, 13, 12, 11, 9, 8];

impl Register {
    /// In which a function gives its result.
    pub const RESULT: Self = Self(10);

    /// The register of a name without the assembler's `%`, which may be that of a part of the register.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let place = NAMES.iter().position(|names| names.contains(&name) && !name.is_empty())?;
        // Relative to the instruction is another form of address, not a register's content.
        (place != 16).then_some(Self(place as u8))
    }

    /// In which a function finds its argument of a number, counted from 1; `None` beyond the sixth.
    #[must_use]
    pub fn argument(number: u8) -> Option<Self> {
        ARGUMENTS.get(usize::from(number).checked_sub(1)?).copied().map(Self)
    }

    /// Its place in `struct pt_regs`, words.
    #[must_use]
    pub fn place(self) -> u8 {
        self.0
    }

    /// The register that the disassembler means, which is one of eight bytes.
    pub(crate) fn of_decoded(register: iced_x86::Register) -> Option<Self> {
        (0..NAMES.len() as u8)
            .map(Self)
            .find(|known| register != iced_x86::Register::None && known.decoded() == register)
            .filter(|known| *known != Self(16))
    }

    /// The same as the disassembler knows it.
    pub(crate) fn decoded(self) -> iced_x86::Register {
        use iced_x86::Register as Iced;
        const BY_PLACE: [Iced; 21] = [
            Iced::R15,
            Iced::R14,
            Iced::R13,
            Iced::R12,
            Iced::RBP,
            Iced::RBX,
            Iced::R11,
            Iced::R10,
            Iced::R9,
            Iced::R8,
            Iced::RAX,
            Iced::RCX,
            Iced::RDX,
            Iced::RSI,
            Iced::RDI,
            Iced::None,
            Iced::RIP,
            Iced::None,
            Iced::None,
            Iced::RSP,
            Iced::None,
        ];
        BY_PLACE[usize::from(self.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_the_same_register_as_the_disassembler() {
        for names in NAMES.iter().filter(|names| !names[0].is_empty() && names[0] != "rip") {
            let register = Register::named(names[0]).expect("a name of the table");
            assert!(names.iter().all(|name| Register::named(name) == Some(register)));
            assert_eq!(format!("{:?}", register.decoded()).to_lowercase(), names[0]);
        }
        assert_eq!(Register::named("rip"), None);
        assert_eq!(Register::named(""), None);
        assert_eq!(Register::argument(1), Register::named("rdi"));
        assert_eq!(Register::argument(6), Register::named("r9"));
        assert_eq!((Register::argument(0), Register::argument(7)), (None, None));
        assert_eq!(Some(Register::RESULT), Register::named("rax"));
    }
}
