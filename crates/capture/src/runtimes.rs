//! Runtimes whose threads take up any work that is ready: which process has one.

use object::read::ReadCache;
use object::{File, Object};

/// The section that the linker of Go gives every program, stripped or not.
const OF_GO: &str = ".go.buildinfo";

/// Whether a process runs a program of Go; of one that may not be looked at it is not known, and told as no.
pub(crate) fn is_of_go(process: u32) -> bool {
    std::fs::File::open(format!("/proc/{process}/exe")).is_ok_and(|program| has_go(&ReadCache::new(program)))
}

fn has_go(program: &ReadCache<std::fs::File>) -> bool {
    File::parse(program).is_ok_and(|file| file.section_by_name(OF_GO).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_none_and_a_damaged_program_is_none() {
        assert!(!is_of_go(std::process::id()));
        assert!(!is_of_go(u32::MAX));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        let whole = std::fs::read("/bin/true").expect("readable");
        for length in [0, 3, 64, whole.len() / 2] {
            std::fs::write(&path, &whole[..length]).expect("written");
            let file = std::fs::File::open(&path).expect("there");
            assert!(!has_go(&ReadCache::new(file)), "{length}");
        }
    }
}
