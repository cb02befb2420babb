//! Static probes at which a tracer can observe weir's own processes from outside, as `sys/sdt.h` makes them.
//!
//! A probe is two nops and a note in the program's file that tells where they are: one nop of one byte, which the
//! uprobes of every kernel replay cheaply, and one of five bytes, which Linux 6.18 and later turn into a call. Without
//! a tracer they cost nothing that can be measured. On processors other than x86-64 there are none.

/// A static probe of the provider `weir`: `read`, `route`, `cache`, `file`, `send` and `done` (of the server),
/// `script_activation`, `script_run`, `script_output` and `script_end` (of the processes that run scripts) without an
/// argument, `decision` (of the policy runtime) with a pointer to a text that a zero ends, `tls_opened` (of the server:
/// session, bytes, their number) and `tls_sealed` (session, pieces of bytes, how many, how many bytes of them).
#[macro_export]
macro_rules! static_probe {
    ($name:literal) => {
        $crate::static_probe!(@ $name, "", nomem)
    };
    ($name:literal, $pointer:expr) => {
        $crate::static_probe!(@ $name, "8@%rdi", readonly, in("rdi") $pointer)
    };
    ($name:literal, $first:expr, $second:expr, $third:expr, $fourth:expr) => {
        $crate::static_probe!(
            @ $name, "8@%rdi 8@%rsi 8@%rdx 8@%rcx", readonly,
            in("rdi") $first, in("rsi") $second, in("rdx") $third, in("rcx") $fourth
        )
    };
    (@ $name:literal, $arguments:literal, $memory:ident $(, $($operand:tt)+)?) => {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        // SAFETY: two nops, which leave registers and what they point to alone; the rest describes them in sections
        // that are not loaded, or (the base) hold one unused byte.
        unsafe {
            core::arch::asm!(
                "990: nop",
                ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
                ".pushsection .note.stapsdt, \"?\", \"note\"",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                ".8byte 0",
                ".asciz \"weir\"",
                concat!(".asciz \"", $name, "\""),
                concat!(".asciz \"", $arguments, "\""),
                "994: .balign 4",
                ".popsection",
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                $($($operand)+,)?
                options(att_syntax, $memory, nostack, preserves_flags)
            );
        }
    };
}
