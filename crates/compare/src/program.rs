//! Looks for the programs of all commands before any of them is started: an experiment of an hour must not end at the
//! first slice of B for a name that was misspelt.
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::MissingPrograms;
use crate::plan::Plan;

/// Looks for every program of a plan.
///
/// # Errors
/// Those that are not there, each once.
pub(crate) fn look_for_all(plan: &Plan) -> Result<(), MissingPrograms> {
    let path = std::env::var_os("PATH");
    let mut missing: Vec<String> = Vec::new();
    for (name, command) in plan.commands() {
        let program = command.program();
        // What is filled in later cannot be looked for now.
        if program.contains('{') {
            continue;
        }
        if let Some(why) = why_not(program, path.as_deref()) {
            missing.push(format!("{name} cannot be run: {why} ({command})"));
        }
    }
    for server in &plan.servers {
        for need in server.needs.iter().filter(|need| !need.file.exists()) {
            let (file, package) = (need.file.display(), &need.package);
            missing.push(format!("{} needs {file}, of Debian's package {package}", server.name));
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(MissingPrograms(missing)) }
}

/// Why a program could not be run, if that can be told: it is looked for where the system's call looks.
fn why_not(program: &str, path: Option<&OsStr>) -> Option<String> {
    if program.contains('/') {
        return match fs::metadata(program) {
            Err(error) => Some(format!("{program}: {error}")),
            Ok(_) if is_program(Path::new(program)) => None,
            Ok(_) => Some(format!("{program} is no program (chmod +x makes a file one)")),
        };
    }
    // Without a PATH the system has one of its own.
    let found = std::env::split_paths(path?).any(|folder| is_program(&folder.join(program)));
    (!found).then(|| format!("there is no {program} in the folders of PATH"))
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_where_the_system_would() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("server");
        fs::write(&file, "#!/bin/sh\n").expect("written");
        let (path, whole) = (Some(folder.path().as_os_str()), file.to_str().expect("readable"));
        let told = why_not("server", path).expect("it may not be executed");
        assert!(told.contains("PATH"), "{told}");
        assert!(why_not(whole, path).is_some_and(|told| told.contains("chmod +x")));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("ours");
        assert_eq!((why_not("server", path), why_not(whole, path)), (None, None));
        assert!(why_not("serverx", path).is_some() && why_not("/nonexistent/server", path).is_some());
        assert_eq!(why_not("anything", None), None, "the system's own search is not ours to know");
    }
}
