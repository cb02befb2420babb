//! A program of others, unchanged: Adminer as Debian packages it, with both modules.

use crate::servers::{libphp, within_apache};
use crate::with_apache::MOD_ARM;
use crate::{built, required};
use std::fs;
use std::path::Path;
use std::process::Command;
use weir_agent::transaction::Status;
use weir_testkit::{Postgres, require};
use weir_web_modules::{Told, arm_directory, context};

/// The pages of a person who looks at the rows of a table, and what they are called.
const DIRECTIVES: &str = r#"
LoadModule alias_module /usr/lib/apache2/modules/mod_alias.so
Alias /adminer /etc/adminer/conf.php
<Location /adminer>
  Arm On
  ArmApplication adminer
  ArmMatch "\?.*&select=([a-z_]+)" "rows of $1"
  ArmMatch "\?.*&table=([a-z_]+)" "table $1"
  ArmMatch "\?pgsql=" "schema"
  ArmMatch "^/adminer" "login"
</Location>
"#;

#[test]
fn a_program_of_others_is_shown_with_its_calls() {
    let adminer = Path::new("/etc/adminer/conf.php");
    let Some(()) = require::or_skip(adminer.exists(), "adminer is not installed (make deps)") else { return };
    let Some(()) = required("pdo_pgsql").and_then(|()| require::apache_module("alias")).and_then(|()| libphp()) else {
        return;
    };
    let programs = [require::postgres(), require::program("apxs"), require::program("curl")];
    if programs.iter().any(Option::is_none) {
        return;
    }
    let database = Postgres::new().start().expect("it starts");
    let table = "create table item (id int primary key, price int); insert into item values (1, 17)";
    database.sql(table).expect("it takes it");
    let told = Told::new();
    let (pages, dir) = (arm_directory(), arm_directory());
    fs::write(pages.path().join("1k.txt"), "x").expect("it is ours");
    let apache = within_apache(&told, pages.path(), dir.path(), &[]);
    let ini = format!(
        "extension={}\nextension=pdo\nextension=pdo_pgsql\narm.automatic=1\nsession.save_path={}\n",
        built().0.display(),
        dir.path().display()
    );
    fs::write(dir.path().join("php.ini"), ini).expect("it is ours");
    let apache = apache.directive(&format!("LoadModule arm_module {}\n{DIRECTIVES}", MOD_ARM.display()));
    let server = apache.start().expect("it starts");

    let port = database.backend.port.expect("it listens");
    let cookies = dir.path().join("cookies");
    let ask = |words: &str, more: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["--silent", "--fail", "--location", "--max-time", "20", "--cookie"]).arg(&cookies);
        let output = command.arg("--cookie-jar").arg(&cookies).args(more).output().expect("it starts");
        let page = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && page.contains(words), "{words}: {more:?}: {page} {}", server.log());
    };
    let url = server.url("/adminer");
    ask("<title>Login", &[&url]);
    let fields = format!("auth[driver]=pgsql auth[server]=127.0.0.1:{port} auth[username]=weir auth[db]=postgres");
    // The database asks for no password, and Adminer insists on one.
    let fields: Vec<String> = fields.split(' ').chain(["auth[password]=any"]).map(str::to_owned).collect();
    let login: Vec<&str> = fields.iter().flat_map(|field| ["--data-urlencode", field.as_str()]).collect();
    ask("name=\"logout\"", &[&login[..], &[&url]].concat());
    let place = format!("{url}?pgsql=127.0.0.1%3A{port}&username=weir&db=postgres&ns=public");
    ask("item", &[&place]);
    ask("price", &[&format!("{place}&table=item")]);
    told.up_to("table item");
    ask("17", &[&format!("{place}&select=item")]);

    let all = told.up_to("rows of item");
    let page = all.iter().find(|one| one.name == "rows of item").expect("it was awaited");
    assert_eq!((page.application.as_str(), page.status, page.parent), ("adminer", Status::Good, None));
    let calls: Vec<_> = all.iter().filter(|one| one.parent == Some(page.id)).collect();
    assert!(calls.len() >= 5 && calls.iter().all(|one| one.application == "adminer"), "{calls:#?}");
    // What stands in double quotes is text in some databases, so names in them are left out with the literals.
    let is_of_rows = |statement: &str| statement.to_lowercase().contains("select * from ? limit ?");
    let statements: Vec<_> = calls.iter().filter_map(|call| context(call, "statement")).collect();
    assert!(statements.iter().any(|statement| is_of_rows(statement)), "{statements:#?}");
    shown(&told, &page.id.to_string());
}

/// As people see it, where the command was built beside this test.
fn shown(told: &Told, id: &str) {
    let folder = std::env::current_exe().expect("this test");
    let weir = folder.ancestors().nth(2).expect("a folder").join("weir");
    let Some(()) = require::or_skip(weir.exists(), "weir is not built: what `weir arm show` says is not looked at")
    else {
        return;
    };
    let output = Command::new(weir).args(["arm", "show", id]).env("WEIR_ARM_DIR", told.arm()).output();
    let output = output.expect("it starts");
    let tree = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(tree.contains("adminer/rows of item"), "{tree}");
    assert!(tree.matches("|- ").count() + tree.matches("`- ").count() >= 5, "{tree}");
}
