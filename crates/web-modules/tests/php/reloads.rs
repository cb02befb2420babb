//! php-fpm whose processes serve few requests each, reloaded under load while its agents are killed.

use crate::required;
use crate::servers::{PAGE, fpm_with_arm, get, pages};
use weir_testkit::{Nginx, require};
use weir_web_modules::turnover::{Turnover, be_an_agent_if_asked, nothing_is_lost_or_stays};
use weir_web_modules::{arm_directory, asked, wait_for};

#[test]
fn an_agent_of_its_own() {
    be_an_agent_if_asked();
}

#[test]
fn php_fpm_is_reloaded_under_load() {
    let Some(()) = required("opcache").and_then(|()| require::nginx()) else { return };
    let arm = arm_directory();
    // Processes that are told to end have the time for what they have taken up.
    let fpm = fpm_with_arm(arm.path(), 4, &[]).global_setting("process_control_timeout", "20");
    let fpm = fpm.pool_setting("pm.max_requests", "5").start().expect("it starts");
    let pages = pages(&[("page.php", PAGE)]);
    let nginx = Nginx::new().root(pages.path()).php_fpm(&fpm).start().expect("it starts");
    let reloads = asked("WEIR_FPM_RELOADS", 4) as usize;
    let turnover = Turnover {
        reloads,
        answers: 40,
        ask: &|| {
            let (status, body) = get(nginx.port, "/page.php", "");
            assert!(status == 200 && body.parse::<u32>().is_ok(), "{status}: {body}");
        },
        reload: &|| {
            let begins = || fpm.log().matches("ready to handle connections").count();
            let before = begins();
            // SAFETY: a signal to a process that this test has started.
            unsafe { libc::kill(fpm.pid() as i32, libc::SIGUSR2) };
            wait_for("php-fpm's begin", || begins() > before);
        },
        parent: fpm.pid(),
        arm: arm.path(),
        role: "reloads::an_agent_of_its_own",
    };
    let (seen, agent) = turnover.run();
    println!("php-fpm: {seen:?}");
    let log = fpm.log();
    assert_eq!(log.matches("Reloading in progress").count(), reloads, "{log}");
    assert!(!log.contains("SIGSEGV") && !log.contains("SIGABRT") && !log.contains("SIGKILL"), "{log}");
    // It begins anew as a program, too.
    assert!(seen.parent_grew_kb() < 4_000, "{seen:?}");
    drop((nginx, fpm));
    nothing_is_lost_or_stays(agent);
}
