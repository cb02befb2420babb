//! The small set of things that every ready-made server can serve, for plans without a site of their own.
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Files of text and their sizes in bytes.
pub const SAMPLE_FILES: [(&str, usize); 4] =
    [("0.txt", 0), ("1k.txt", 1 << 10), ("64k.txt", 64 << 10), ("3900k.txt", 3_900_000)];

/// What a script of 64 KiB sends, in each language, is this many times this line.
const LINE: &str = "The quick brown fox jumps over the lazy dog, and then it rests.";
const LINES: usize = 1024;

/// Writes it.
pub(crate) fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    fs::write(folder.join("index.html"), "<!doctype html>\n<title>hello</title>\n<h1>hello</h1>\n")?;
    for (name, size) in SAMPLE_FILES {
        fs::write(folder.join(name), text_of(size))?;
    }
    let perl = |body: &str| format!("#!/usr/bin/perl\nprint \"Content-Type: text/plain\\r\\n\\r\\n\";\n{body}");
    let whole = perl(&format!("print \"{LINE}\\n\" x {LINES};\n"));
    let php = |body: &str| format!("<?php\nheader('Content-Type: text/plain');\n{body}");
    for (name, text) in [
        ("header.cgi", perl("")),
        ("64k.cgi", whole.clone()),
        // A module's last value has to be true.
        ("header.pl", perl("1;\n")),
        ("64k.pl", format!("{whole}1;\n")),
        ("header.php", php("")),
        ("hello.php", php("echo \"hello\\n\";\n")),
        ("64k.php", php(&format!("echo str_repeat(\"{LINE}\\n\", {LINES});\n"))),
        ("info.php", "<?php\nphpinfo();\n".to_owned()),
    ] {
        let file = folder.join(name);
        fs::write(&file, text)?;
        fs::set_permissions(&file, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Lines that differ, so that a piece in a wrong place shows.
fn text_of(size: usize) -> String {
    let mut text = String::with_capacity(size + 64);
    let mut line = 0;
    while text.len() < size {
        text.push_str(&format!("line {line:>8} of the sample site of weir compare\n"));
        line += 1;
    }
    text.truncate(size);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_scripts_have_their_sizes() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let site = folder.path().join("site");
        write(&site).expect("written");
        for (name, size) in SAMPLE_FILES {
            assert_eq!(fs::metadata(site.join(name)).expect("there").len(), size as u64);
        }
        assert_eq!((LINE.len() + 1) * LINES, 64 << 10);
    }
}
