//! The page as it was built from `console/`: it is part of the program, so that building weir needs no Node.

/// Names, media types and contents.
const FILES: [(&str, &str, &[u8]); 3] = [
    ("", "text/html; charset=utf-8", include_bytes!("../../../console/dist/index.html")),
    ("console.js", "text/javascript; charset=utf-8", include_bytes!("../../../console/dist/console.js")),
    ("console.css", "text/css; charset=utf-8", include_bytes!("../../../console/dist/console.css")),
];

/// The colours of the parts, the same as in the report, as a style sheet of its own.
const COLOURS: &str = "parts.css";

/// A file of the page: its media type and its bytes.
pub(crate) fn file(name: &str) -> Option<(&'static str, Vec<u8>)> {
    if name == COLOURS {
        return Some(("text/css; charset=utf-8", colours().into_bytes()));
    }
    let found = FILES.iter().find(|(known, ..)| *known == name)?;
    Some((found.1, found.2.to_vec()))
}

fn colours() -> String {
    let lines = weir_measure::part::Part::ALL.iter();
    let lines: String = lines.map(|part| format!("--{}: {};\n", part.name(), weir_report::colour(*part))).collect();
    format!(":root {{\n{lines}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    /// FNV-1a of 64 bits, as `console/sources.ts` computes it: a name, a zero, the contents, a zero, file by file.
    fn digest(files: &[(String, Vec<u8>)]) -> String {
        let bytes = files.iter().flat_map(|(name, bytes)| {
            name.bytes().chain([0]).chain(bytes.iter().copied()).chain([0]).collect::<Vec<_>>()
        });
        let hash = bytes
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        format!("{hash:016x}")
    }

    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                below(&path, found);
            } else {
                found.push(path);
            }
        }
    }

    /// Who changes the sources and not the bundle would ship the page of before.
    #[test]
    fn the_bundle_is_of_these_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut paths = Vec::new();
        below(&root.join("console/src"), &mut paths);
        // The lanes are drawn by the viewer's own code.
        below(&root.join("crates/cli/src/view"), &mut paths);
        paths.retain(|path| ["ts", "css", "js"].iter().any(|end| path.extension().is_some_and(|own| own == *end)));
        let named =
            ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "sources.ts"];
        paths.extend(named.map(|name| root.join("console").join(name)));
        let mut files: Vec<(String, Vec<u8>)> = paths
            .iter()
            .map(|path| {
                let name = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
                (name, std::fs::read(path).expect("a source"))
            })
            .collect();
        files.sort();
        let page = String::from_utf8(file("").expect("the page").1).expect("text");
        let told = page.split("data-sources=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        assert_eq!(told, digest(&files), "console/dist is not built from console/src: run `make console`");
    }

    #[test]
    fn the_page_asks_for_nothing_but_its_own_files() {
        let page = String::from_utf8(file("").expect("the page").1).expect("text");
        for quoted in page.split('"').skip(1).step_by(2).filter(|text| text.ends_with(".js") || text.ends_with(".css"))
        {
            assert!(file(quoted.trim_start_matches("./")).is_some(), "{quoted}");
        }
        for word in ["http:", "https:", "<style", " style=", "onclick", "javascript:"] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn every_part_has_a_colour() {
        assert!(weir_measure::part::Part::ALL.iter().all(|part| colours().contains(&format!("--{}: #", part.name()))));
    }
}
