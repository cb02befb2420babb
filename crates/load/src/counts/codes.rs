//! The codes by which HTTP/2 and HTTP/3 tell errors.

/// The name and the number of a code (RFC 9113 7).
pub(crate) fn code_words(code: u32) -> String {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    match NAMES.get(code as usize) {
        Some(name) => format!("{name} ({code})"),
        None => format!("the unknown code {code}"),
    }
}

/// The name and the number of a code of HTTP/3 (RFC 9114 8.1, RFC 9204 6).
pub(crate) fn http3_code_words(code: u64) -> String {
    const NAMES: [&str; 17] = [
        "H3_NO_ERROR",
        "H3_GENERAL_PROTOCOL_ERROR",
        "H3_INTERNAL_ERROR",
        "H3_STREAM_CREATION_ERROR",
        "H3_CLOSED_CRITICAL_STREAM",
        "H3_FRAME_UNEXPECTED",
        "H3_FRAME_ERROR",
        "H3_EXCESSIVE_LOAD",
        "H3_ID_ERROR",
        "H3_SETTINGS_ERROR",
        "H3_MISSING_SETTINGS",
        "H3_REQUEST_REJECTED",
        "H3_REQUEST_CANCELLED",
        "H3_REQUEST_INCOMPLETE",
        "H3_MESSAGE_ERROR",
        "H3_CONNECT_ERROR",
        "H3_VERSION_FALLBACK",
    ];
    const QPACK_NAMES: [&str; 3] =
        ["QPACK_DECOMPRESSION_FAILED", "QPACK_ENCODER_STREAM_ERROR", "QPACK_DECODER_STREAM_ERROR"];
    let within = |first: u64, names: &[&'static str]| {
        usize::try_from(code.checked_sub(first)?).ok().and_then(|place| names.get(place).copied())
    };
    match within(0x100, &NAMES).or_else(|| within(0x200, &QPACK_NAMES)) {
        Some(name) => format!("{name} ({code:#x})"),
        None => format!("the unknown code {code:#x}"),
    }
}
