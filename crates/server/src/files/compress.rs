//! Compression of whole contents. The levels suit results that are made once and sent often.

use crate::http::response::Variant;
use std::io::Write;

/// A form must be below this share of the plain bytes, in percent: else decoding it costs more than it spares.
const USEFUL_PERCENT: usize = 95;
const GZIP_LEVEL: u32 = 6;
const BROTLI_QUALITY: u32 = 6;
const ZSTD_LEVEL: i32 = 9;
/// Windows of 4 MiB for Brotli, which every decoder of HTTP takes.
const BROTLI_WINDOW: u32 = 22;
/// What the writer of Brotli holds back.
const BROTLI_BUFFER: usize = 64 << 10;

/// The bytes in another form; none where that is not worth its while.
pub(crate) fn compress(bytes: &[u8], variant: Variant) -> Option<Vec<u8>> {
    let out = Vec::with_capacity(bytes.len() / 3);
    let made = match variant {
        Variant::Identity => return None,
        Variant::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::new(GZIP_LEVEL));
            encoder.write_all(bytes).ok()?;
            encoder.finish().ok()?
        }
        Variant::Brotli => {
            let mut encoder = brotli::CompressorWriter::new(out, BROTLI_BUFFER, BROTLI_QUALITY, BROTLI_WINDOW);
            encoder.write_all(bytes).ok()?;
            encoder.into_inner()
        }
        // The window is never larger than the content here, and so below the 8 MiB of RFC 9659.
        Variant::Zstd => zstd::bulk::compress(bytes, ZSTD_LEVEL).ok()?,
    };
    (made.len() < bytes.len() * USEFUL_PERCENT / 100).then_some(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::coding::CODINGS;

    #[test]
    fn what_does_not_get_smaller_is_left() {
        let mut state = 1_u64;
        let noise: Vec<u8> = (0..5000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            })
            .collect();
        let text = "the same again and again, ".repeat(300);
        for coding in CODINGS {
            assert_eq!(compress(&noise, coding), None, "{coding:?}");
            let made = compress(text.as_bytes(), coding).expect("gets smaller");
            assert!(made.len() < text.len() / 10, "{coding:?}: {}", made.len());
        }
        assert_eq!(compress(text.as_bytes(), Variant::Identity), None);
    }
}
