//! What other languages know of the kinds, made from the one table.
//!
//! A test compares the committed files with these texts; `WEIR_BLESS=1` writes them anew.

use crate::kinds::KINDS;
use std::fmt::Write;

/// Schema of this version: (major, minor). A new kind raises the minor; a changed meaning would raise the major.
pub const VERSION: (u16, u16) = (1, 0);

/// The C header of the kinds.
#[must_use]
pub fn c_header() -> String {
    let mut text = String::from(
        "/* Made from the table of kinds in crates/wire/src/kinds.rs; do not edit. */\n#ifndef WEIR_KINDS_H\n#define WEIR_KINDS_H\n#include <stdint.h>\n\n",
    );
    let (major, minor) = VERSION;
    let _ = writeln!(text, "#define WEIR_SCHEMA_MAJOR {major}\n#define WEIR_SCHEMA_MINOR {minor}\n");
    text.push_str("struct weir_record {\n\tuint64_t time_ns;\n\tuint16_t kind;\n\tuint8_t flags;\n\tuint8_t slots;\n\tuint32_t lane;\n\tuint64_t a;\n\tuint64_t b;\n};\n\nenum weir_kind {\n");
    for spec in KINDS {
        let _ = writeln!(text, "\tWEIR_{} = {:#06x}, /* {} */", spec.name.to_uppercase(), spec.code, spec.doc);
    }
    text.push_str("};\n\n#endif\n");
    text
}

/// The header of the 16-byte form for BPF programs.
#[must_use]
pub fn bpf_header() -> String {
    let mut text = String::from(
        "/* Made from the table of kinds in crates/wire/src/kinds.rs; do not edit.\n * The 16-byte form: word 0 = time_ns << 20 | sub << 6 | kind, word 1 = argument. */\n#pragma once\n\nenum weir_bpf_kind {\n",
    );
    for spec in KINDS.iter().filter(|spec| spec.bpf != 0) {
        let _ = writeln!(text, "\tWEIR_BPF_{} = {},", spec.name.to_uppercase(), spec.bpf);
    }
    text.push_str("};\n");
    text
}

/// The schema as JSON, for the console and for other people's tools.
#[must_use]
pub fn json() -> String {
    let (major, minor) = VERSION;
    let mut text = format!("{{\n  \"schema\": \"{major}.{minor}\",\n  \"record_bytes\": 32,\n  \"kinds\": [\n");
    for (index, spec) in KINDS.iter().enumerate() {
        let comma = if index + 1 == KINDS.len() { "" } else { "," };
        let _ = writeln!(
            text,
            "    {{ \"code\": {}, \"name\": {:?}, \"since\": \"{}.{}\", \"a\": {:?}, \"b\": {:?}, \"payload\": {:?}, \"doc\": {:?} }}{comma}",
            spec.code, spec.name, spec.since.0, spec.since.1, spec.a, spec.b, spec.payload, spec.doc
        );
    }
    text.push_str("  ]\n}\n");
    text
}
