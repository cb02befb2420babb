//! A page within Apache that mod_arm measures: its transaction is the parent of what the page does, or all is off.

use crate::servers::{PAGE, fpm, get, libphp, pages, within_apache};
use crate::{built, required};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use weir_agent::transaction::Status;
use weir_testkit::{Apache, require};
use weir_web_modules::{Told, arm_directory, tree};

/// mod_arm as its own Makefile builds it.
pub(crate) static MOD_ARM: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native/apache");
    let folder = built().1;
    let output = Command::new("make").arg("-C").arg(source).arg(format!("BUILD={}", folder.display())).output();
    let output = output.expect("make is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder.join("mod_arm.so")
});

fn measured(apache: Apache) -> Apache {
    // Only there: starting asks for a page, too.
    let lines = "ArmApplication shop\n<Location /page.php>\nArm On\nArmTransaction page\n</Location>";
    apache.directive(&format!("LoadModule arm_module {}\n{lines}", MOD_ARM.display()))
}

/// Asks for both pages, again and again; what is switched off in Apache is off in PHP.
fn both(told: &Told, port: u16) {
    for _ in 0..3 {
        assert_eq!(get(port, "/page.php", "").0, 200);
        let all = told.next(3);
        let expected = [
            ("page", Status::Good, None),
            ("outer", Status::Good, Some("page")),
            ("inner", Status::Good, Some("outer")),
        ];
        assert_eq!(tree(&all), expected, "{all:#?}");
        assert!(all.iter().all(|one| one.application == "shop"), "{all:#?}");
        assert!(all[0].start_ns <= all[1].start_ns && all[0].duration_ns >= all[1].duration_ns);
        assert_eq!(get(port, "/other.php", "").0, 200);
    }
    assert!(told.rest().is_empty());
}

#[test]
fn a_page_within_apache_is_the_parent_of_what_it_does() {
    let Some(()) = required("").and_then(|()| require::apache()).and_then(|()| libphp()) else { return };
    let Some(()) = require::program("apxs") else { return };
    let told = Told::new();
    let (pages, dir) = (pages(&[("page.php", PAGE), ("other.php", PAGE)]), arm_directory());
    let apache = measured(within_apache(&told, pages.path(), dir.path(), &[])).start().expect("it starts");
    both(&told, apache.port);
}

#[test]
fn a_page_of_php_fpm_behind_apache_likewise() {
    let Some(()) = required("").and_then(|()| require::apache_module("proxy_fcgi")) else { return };
    let Some(()) = require::program("apxs") else { return };
    let told = Told::new();
    let fpm = fpm(&told, 2, &[("arm.require_server", "1")]);
    let pages = pages(&[("page.php", PAGE), ("other.php", PAGE)]);
    let apache = Apache::event().workers(4).processes(1).root(pages.path()).php_fpm(&fpm);
    let apache = apache.environment("LD_LIBRARY_PATH", &built().1).environment("WEIR_ARM_DIR", told.arm());
    both(&told, measured(apache).start().expect("it starts").port);
}
