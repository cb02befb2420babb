//! The kernel: its version, its type information, the rung of the ladder, io_uring.

use super::check::{Check, Files, Job, Subject};
use std::io::ErrorKind;
use weir_capture::{BoundarySource, Footing, Ladder};

/// All of them; finding the rung loads the probes, as a recording does.
pub(super) fn checks(files: &Files, with_rung: bool) -> Vec<Check> {
    let mut checks = vec![version(files), btf(files)];
    checks.extend(with_rung.then(rung));
    checks.push(io_uring(files));
    checks
}

fn version(files: &Files) -> Check {
    let subject = Subject("kernel", &[Job::Explain]);
    let release = match files.text("proc/sys/kernel/osrelease") {
        Ok(release) => release,
        Err(why) => return subject.unknown(why, "which rungs this kernel may have"),
    };
    let found = format!("Linux {release}");
    match numbers(&release) {
        None => subject.unknown(format!("{found} is no version"), "which rungs this kernel may have"),
        Some(version) if version >= (6, 3) => subject.ok(found, "recordings give all that weir knows of"),
        Some(version) if version >= (5, 10) => subject.limited(
            found,
            "it has no socket tracepoints (6.3): a lower rung is taken",
            "what each kernel gives is in docs/reference/which-kernel.md; Linux 6.3 or later gives all",
        ),
        Some(_) => subject.missing(found, "recording needs Linux 5.10", "use a newer kernel; full results need 6.3"),
    }
}

/// The first two numbers of a release such as `6.1.0-50-amd64`.
fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn btf(files: &Files) -> Check {
    let subject = Subject("btf", &[Job::Explain]);
    if files.names("sys/kernel/btf").iter().any(|name| name == "vmlinux") {
        return subject.ok("/sys/kernel/btf/vmlinux", "probes find the kernel's structures");
    }
    subject.missing(
        "no /sys/kernel/btf/vmlinux",
        "no probe can be loaded",
        "boot a kernel with CONFIG_DEBUG_INFO_BTF, as all current distributions' are",
    )
}

/// By the function that a recording uses.
fn rung() -> Check {
    let subject = Subject("rung", &[Job::Explain]);
    match Ladder::default().climb() {
        Ok(footing) => of_footing(subject, &footing),
        Err(why) => subject.missing("none", why.to_string(), "see above what is missing"),
    }
}

fn of_footing(subject: Subject, footing: &Footing) -> Check {
    let found = footing.source.name();
    let why = || footing.notes.join("; ");
    match footing.source {
        BoundarySource::SocketTracepoints | BoundarySource::Functions => {
            subject.ok(found, "its probes were loaded and removed again: every request is followed")
        }
        BoundarySource::SystemCalls => subject.limited(
            found,
            format!("requests are followed, but for io_uring: {}", why()),
            "Linux 6.3 or later has socket tracepoints",
        ),
        BoundarySource::UserProbes => subject.limited(
            found,
            format!("only requests of Apache and nginx are followed: {}", why()),
            "Linux 6.3 or later has socket tracepoints",
        ),
        BoundarySource::ProcOnly | BoundarySource::ClientOnly => {
            subject.missing(found, format!("no request is followed: {}", why()), "see what is missing above")
        }
    }
}

/// Asked of the kernel itself: a filter of system calls may refuse what the setting allows.
fn io_uring(files: &Files) -> Check {
    let setting = match files.number("proc/sys/kernel/io_uring_disabled") {
        Ok(level) => format!("kernel.io_uring_disabled = {level}"),
        Err(why) => why.to_string(),
    };
    of_answer(ring(), &setting)
}

fn of_answer(answer: std::io::Result<()>, setting: &str) -> Check {
    let subject = Subject("io-uring", &[Job::Load, Job::Serve]);
    match answer {
        Ok(()) => subject
            .ok(format!("a ring can be made ({setting})"), "`--io uring` works; it is the default where it is cheaper"),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => subject.limited(
            format!("refused ({setting})"),
            "epoll is used, which takes more system calls for each request",
            "set kernel.io_uring_disabled = 0, or let the container's filter of system calls pass io_uring_setup",
        ),
        Err(error) => subject.limited(
            format!("{error} ({setting})"),
            "epoll is used, which takes more system calls for each request",
            "a kernel with CONFIG_IO_URING, 5.19 or later, has it",
        ),
    }
}

/// Makes a ring of one entry and closes it.
fn ring() -> std::io::Result<()> {
    // The kernel reads and writes 120 bytes of parameters (struct io_uring_params, linux/io_uring.h); zeros ask for the
    // usual.
    let mut parameters = [0u64; 15];
    // SAFETY: the pointer is to as many bytes as the kernel takes and fills.
    let made = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    match i32::try_from(made) {
        Ok(descriptor) if descriptor >= 0 => {
            // SAFETY: the descriptor was just made, and nothing else owns it.
            unsafe { libc::close(descriptor) };
            Ok(())
        }
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::super::check::tests::files;
    use super::*;

    #[test]
    fn a_kernel_is_judged_by_its_release() {
        for (release, expected) in [
            ("6.18.44-fc", State::Ok),
            ("6.3.0", State::Ok),
            ("6.1.0-50-amd64", State::Limited),
            ("5.10.0", State::Limited),
            ("5.9.16", State::Missing),
            ("4.19", State::Missing),
            ("rolling", State::Unknown),
        ] {
            let (_folder, files) = files(&[("proc/sys/kernel/osrelease", release)]);
            assert_eq!(version(&files).state, expected, "{release}");
        }
    }

    #[test]
    fn each_rung_is_judged_by_what_it_follows() {
        let footing = |source| Ladder { forced: Some(source), ..Ladder::default() }.climb();
        let proc = of_footing(Subject("rung", &[]), &footing(BoundarySource::ProcOnly).expect("needs nothing"));
        assert_eq!((proc.state, proc.found.as_str()), (State::Missing, "proc only"));
        assert!(proc.means.contains("no request is followed through the server"), "{}", proc.means);
    }

    #[test]
    fn a_refused_ring_is_told_with_the_setting() {
        let refused = of_answer(Err(std::io::Error::from_raw_os_error(libc::EPERM)), "kernel.io_uring_disabled = 2");
        assert_eq!(refused.state, State::Limited);
        assert_eq!(refused.found, "refused (kernel.io_uring_disabled = 2)");
        let absent = of_answer(Err(std::io::Error::from_raw_os_error(libc::ENOSYS)), "none");
        assert!(absent.remedy.is_some_and(|remedy| remedy.contains("CONFIG_IO_URING")));
    }
}
