//! A directory of files to serve.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A temporary directory that a server can read as any user.
#[derive(Debug)]
pub struct Site {
    dir: TempDir,
}

impl Site {
    /// A directory without files.
    pub fn empty() -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("weir-site-").tempdir()?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        Ok(Self { dir })
    }

    /// `index.html`, `0.txt` (empty), `1k.txt`, `64k.bin` and `3.9m.bin`: small, middling, and
    /// larger than any socket buffer.
    pub fn sample() -> io::Result<Self> {
        let site = Self::empty()?;
        site.write("index.html", b"<!doctype html><title>weir</title><p>A sample page.\n")?;
        site.write("0.txt", b"")?;
        site.write("1k.txt", &pattern(1 << 10))?;
        site.write("64k.bin", &pattern(64 << 10))?;
        site.write("3.9m.bin", &pattern(3_900_000))?;
        Ok(site)
    }

    /// Writes a file, with the directories that its name has.
    pub fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let path = self.dir.path().join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content)
    }

    /// PHP pages on a database of two tables: `lookup.php`, `missing_index.php`, `sleep.php`,
    /// `hello.php` and `compute.php`. They read the address of PostgreSQL from the variable
    /// `WEIR_POSTGRES`; [`Self::TABLES`] fills it.
    ///
    /// - `lookup.php?id=N`: an indexed look-up over a connection that is kept, and some computing.
    /// - `missing_index.php?code=N`: a look-up by a column without an index.
    /// - `sleep.php?ms=N`: a query that sleeps.
    /// - `hello.php`: neither query nor work.
    /// - `compute.php?rounds=N`: work in PHP alone.
    pub fn php() -> io::Result<Self> {
        let site = Self::empty()?;
        for (name, page) in [
            ("lookup.php", include_str!("../pages/lookup.php")),
            ("missing_index.php", include_str!("../pages/missing_index.php")),
            ("sleep.php", include_str!("../pages/sleep.php")),
            ("hello.php", include_str!("../pages/hello.php")),
            ("compute.php", include_str!("../pages/compute.php")),
        ] {
            site.write(name, page.as_bytes())?;
        }
        Ok(site)
    }

    /// The statements that make the tables of [`Self::php`] in PostgreSQL: `items` with 100,000 rows
    /// and an index on `id` alone.
    pub const TABLES: &str = include_str!("../pages/tables.sql");

    /// Writes a file that can be executed, such as a CGI script.
    pub fn write_program(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.write(name, content)?;
        fs::set_permissions(self.dir.path().join(name), Permissions::from_mode(0o755))
    }

    /// Compiles a C program with `cc`, such as a CGI program; the options are those of the compiler,
    /// such as `-DNAME=1`.
    pub fn compile(&self, name: &str, source: &str, options: &[String]) -> io::Result<()> {
        let path = self.dir.path().join(name);
        let text = path.with_extension("c");
        fs::write(&text, source)?;
        let output = Command::new("cc").args(["-O1", "-o"]).arg(&path).args(options).arg(&text).output()?;
        fs::remove_file(&text)?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        fs::set_permissions(path, Permissions::from_mode(0o755))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Printable bytes of which no two nearby stretches are equal, so that a shifted or repeated piece
/// of a body is seen.
fn pattern(length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 16);
    while bytes.len() < length {
        bytes.extend_from_slice(format!("{:014}\n", bytes.len()).as_bytes());
    }
    bytes.truncate(length);
    bytes
}
