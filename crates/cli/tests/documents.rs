//! The documents say what is so: their commands run, their links lead somewhere, the options that they name exist.
//!
//! A block whose info string begins with `sh run` is run by bash, all blocks of a page in one shell, in a temporary
//! directory, with the built `weir` first on the search path and `PORT` set to a free port.
//! One that begins with `python run` is run by python3 in its turn, with the package `weir` on its search path.
//! Words after `run` say what a block needs besides: `bpf`, or the name of a program.
// scripts/test: 4 threads

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};
use weir_testkit::require;

/// A page's commands may take so long.
const PAGE_LIMIT: Duration = Duration::from_secs(60);

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// A fenced block of a page.
#[derive(Debug)]
struct Block {
    /// The line of its first line, from 1.
    line: usize,
    info: Vec<String>,
    text: String,
}

/// A page: its blocks, and its text without them.
#[derive(Debug)]
struct Page {
    path: PathBuf,
    blocks: Vec<Block>,
    /// (line from 1, text) outside of blocks.
    prose: Vec<(usize, String)>,
}

impl Page {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut page = Self { path: path.to_owned(), blocks: Vec::new(), prose: Vec::new() };
        let mut open: Option<Block> = None;
        for (index, line) in text.lines().enumerate() {
            match (line.trim_start().strip_prefix("```"), open.take()) {
                (Some(_), Some(block)) => page.blocks.push(block),
                (Some(info), None) => {
                    let info = info.split_whitespace().map(str::to_owned).collect();
                    open = Some(Block { line: index + 2, info, text: String::new() });
                }
                (None, Some(mut block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                    open = Some(block);
                }
                (None, None) => page.prose.push((index + 1, line.to_owned())),
            }
        }
        assert!(open.is_none(), "{}: a block is not closed", path.display());
        page
    }

    fn name(&self) -> String {
        let path = self.path.strip_prefix(repository()).unwrap_or(&self.path);
        path.display().to_string()
    }

    /// The contents of `code spans`, with their lines.
    fn spans(&self) -> impl Iterator<Item = (usize, &str)> {
        self.prose.iter().flat_map(|(number, line)| line.split('`').skip(1).step_by(2).map(|span| (*number, span)))
    }
}

/// The folders of docs/ with pages for users. Decisions and promises are for people who work on weir.
const FORMS: &[&str] = &["docs/tutorials", "docs/how-to", "docs/reference", "docs/explanation"];

/// README.md, LEXICON.md, the index of docs/ and the pages of its folders: what this file answers for.
fn pages() -> Vec<Page> {
    let root = repository();
    let mut paths: Vec<PathBuf> = ["README.md", "LEXICON.md", "docs/README.md"].map(|name| root.join(name)).into();
    for form in FORMS {
        let folder = fs::read_dir(root.join(form)).unwrap_or_else(|error| panic!("{form}: {error}"));
        paths.extend(folder.map(|entry| entry.expect("a readable entry").path()).filter(|path| is_markdown(path)));
    }
    paths.sort();
    paths.iter().map(|path| Page::read(path)).collect()
}

fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// Every Markdown file of the repository that is not built or recorded.
fn all_markdown() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![repository()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_dir() {
                let skipped =
                    name.starts_with('.') || ["target", "runs", "weir-runs", "node_modules"].contains(&&*name);
                if !skipped && !path.is_symlink() {
                    folders.push(path);
                }
            } else if is_markdown(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn help(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).arg("--help").output();
    let output = output.expect("the command starts");
    assert!(output.status.success(), "weir {arguments:?} --help failed");
    String::from_utf8(output.stdout).expect("help is text")
}

/// The long options of each command, by its name (`load`, `arm top`); those of `weir` itself under "".
fn options() -> BTreeMap<String, BTreeSet<String>> {
    let top = help(&[]);
    let of = |text: &str| {
        let lines = text.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
        lines.flat_map(|line| words(line).into_iter().filter(|word| word.starts_with("--"))).collect()
    };
    let mut options: BTreeMap<String, BTreeSet<String>> = BTreeMap::from([(String::new(), of(&top))]);
    for name in commands(&top) {
        let text = help(&[&name]);
        for own in commands(&text) {
            options.insert(format!("{name} {own}"), of(&help(&[&name, &own])));
        }
        options.insert(name, of(&text));
    }
    assert!(["explain", "serve", "arm top"].iter().all(|name| options.contains_key(*name)), "{options:?}");
    options.insert("help".to_owned(), BTreeSet::new());
    options
}

/// The commands that a help text lists.
fn commands(help: &str) -> Vec<String> {
    let list = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The words of a line as far as an option's name may be one: no quotes, commas or values.
fn words(line: &str) -> Vec<String> {
    line.split(|letter: char| letter.is_whitespace() || "'\"()[]{},;|=`".contains(letter))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn commands_and_options_exist() {
    let options = options();
    let all: BTreeSet<&String> = options.values().flatten().collect();
    // A program of its own, which the tests do not build, has its options there.
    let wasm = fs::read_to_string(repository().join("wasm/src/options.rs")).expect("it is there");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for page in pages() {
        for block in page.blocks.iter().filter(|block| block.info.first().is_some_and(|info| info == "sh")) {
            // A command goes on in the next line behind a backslash.
            for (number, line) in block.text.replace("\\\n", " ").lines().enumerate() {
                check(line, &options, &mut seen, |what| {
                    wrong.push(format!("{}, block at {}, line {}: {what}", page.name(), block.line, number + 1));
                });
            }
        }
        for (line, span) in page.spans() {
            if span.starts_with("--") && span.len() > 2 {
                let name = words(span).first().cloned().unwrap_or_default();
                let is_of_wasm = page.name() == "docs/how-to/wasm.md" && wasm.contains(&format!("\"{name}\""));
                if !all.contains(&name) && !is_of_wasm {
                    wrong.push(format!("{}:{line}: no command has {name}", page.name()));
                }
            } else {
                check(span, &options, &mut seen, |what| wrong.push(format!("{}:{line}: {what}", page.name())));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(seen > 30, "only {seen} commands found: the search is wrong");
}

/// Checks each `weir …` of a command line, also those in quotes of another one.
fn check(line: &str, options: &BTreeMap<String, BTreeSet<String>>, seen: &mut u32, mut wrong: impl FnMut(String)) {
    // What is in quotes is a command of its own, behind which the outer one goes on.
    let mut outer: Option<String> = None;
    for (index, part) in line.split(['\'', '"']).enumerate() {
        let mut current = if index % 2 == 0 { outer.take() } else { None };
        let mut before = "";
        for word in part.split_whitespace() {
            let word = word.trim_start_matches(['(', '$']).trim_end_matches([')', ';', ',']);
            if before == "weir" {
                let name = word.to_owned();
                if options.contains_key(&name) {
                    *seen += 1;
                    current = Some(name);
                } else if name.starts_with("--") {
                    current = Some(String::new());
                } else if name.bytes().all(|letter| letter.is_ascii_lowercase()) {
                    wrong(format!("there is no `weir {name}`"));
                }
            }
            // Of a command with commands of its own, such as `weir arm`, the next word is one of these.
            let outer = current.clone().filter(|name| name == before && !name.is_empty());
            if let Some(name) = outer.filter(|name| options.keys().any(|key| key.starts_with(&format!("{name} ")))) {
                let own = format!("{name} {word}");
                if options.contains_key(&own) {
                    current = Some(own);
                } else if word.bytes().all(|letter| letter.is_ascii_lowercase()) {
                    wrong(format!("there is no `weir {own}`"));
                }
            }
            if ["|", "||", "&&", "&", ";", "--", "then", "do"].contains(&word) {
                current = None;
            }
            if let Some(command) = current.as_ref().filter(|_| word.len() > 2 && word.starts_with("--")) {
                let name = word.split('=').next().unwrap_or(word).to_owned();
                if !options[command].contains(&name) {
                    wrong(format!("weir {command} has no {name}"));
                }
            }
            before = word;
        }
        if index % 2 == 0 {
            outer = current;
        }
    }
}

#[test]
fn the_readme_names_every_command() {
    let readme = fs::read_to_string(repository().join("README.md")).expect("README.md is there");
    for name in options().keys().filter(|name| !name.is_empty() && !name.contains(' ')) {
        assert!(readme.contains(&format!("weir {name}")), "README.md does not name `weir {name}`");
    }
}

#[test]
fn the_index_names_every_page() {
    let index = fs::read_to_string(repository().join("docs/README.md")).expect("docs/README.md is there");
    for page in pages() {
        if let Some(name) = page.name().strip_prefix("docs/").filter(|name| name.contains('/')) {
            assert!(index.contains(&format!("]({name})")), "docs/README.md does not name {name}");
        }
    }
}

#[test]
fn every_part_and_every_kind_is_explained() {
    let text =
        |path: &str| fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (parts, lexicon, format) =
        (text("docs/reference/parts.md"), text("LEXICON.md"), text("docs/reference/run-format.md"));
    for part in weir_measure::part::Part::ALL {
        assert!(
            parts.contains(&format!("\n## `{}`\n", part.name())),
            "docs/reference/parts.md has no section on {}",
            part.name()
        );
        assert!(lexicon.contains(&format!("`{}`", part.name())), "LEXICON.md does not name {}", part.name());
    }
    for name in weir_measure::part::Part::NOT_OBSERVED {
        assert!(
            parts.contains(&format!("`{name}`")),
            "docs/reference/parts.md does not say that {name} is not observed"
        );
    }
    for reason in weir_timeline::Unjoinable::ALL {
        assert!(lexicon.contains(&format!("`{}`", reason.name())), "LEXICON.md does not name {}", reason.name());
    }
    for kind in weir_wire::KINDS {
        assert!(
            format.contains(&format!("| `{}` |", kind.name)),
            "docs/reference/run-format.md does not name {}",
            kind.name
        );
    }
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    for path in all_markdown() {
        let page = Page::read(&path);
        for (line, text) in &page.prose {
            for target in links(text) {
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
                let to = if file.is_empty() { path.clone() } else { path.with_file_name("").join(file) };
                if !to.exists() || !is_below(&to) {
                    wrong.push(format!("{}:{line}: {target} is not there", page.name()));
                } else if !anchor.is_empty() && is_markdown(&to) && !anchors(&Page::read(&to)).contains(anchor) {
                    wrong.push(format!("{}:{line}: {target} has no such heading", page.name()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Whether a path stays within the repository.
fn is_below(path: &Path) -> bool {
    let relative = path.strip_prefix(repository()).unwrap_or(path);
    let mut depth = 0i32;
    relative.components().all(|part| {
        depth += if part == Component::ParentDir { -1 } else { 1 };
        depth >= 0
    })
}

/// The targets of `[text](target)` in a line; what stands in code spans is no link.
fn links(line: &str) -> Vec<String> {
    let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let mut targets = Vec::new();
    let mut rest = &text[..];
    while let Some(at) = rest.find("](") {
        rest = &rest[at + 2..];
        let Some(end) = rest.find(')') else { break };
        targets.push(rest[..end].split_whitespace().next().unwrap_or_default().to_owned());
        rest = &rest[end..];
    }
    targets
}

/// The anchors that a page's headings make.
fn anchors(page: &Page) -> BTreeSet<String> {
    let headings = page.prose.iter().filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| {
            let text = line.trim_start_matches('#').trim().to_lowercase();
            text.chars()
                .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
                .map(|letter| if letter == ' ' { '-' } else { letter })
                .collect()
        })
        .collect()
}

/// Pages run beside each other, as their figures are not looked at.
static TURN: RwLock<()> = RwLock::new(());
/// Those whose commands end differently where others load the machine run alone.
const ALONE: &[&str] = &["docs/how-to/what-to-change.md", "docs/how-to/load-over-time.md"];

/// Runs the blocks of a page.
fn run(name: &str) {
    let _beside = (!ALONE.contains(&name)).then(|| TURN.read().unwrap_or_else(PoisonError::into_inner));
    let _alone = ALONE.contains(&name).then(|| TURN.write().unwrap_or_else(PoisonError::into_inner));
    let page = Page::read(&repository().join(name));
    let is_run = |block: &&Block| block.info.get(1).is_some_and(|info| info == "run");
    let mut blocks: Vec<Block> = page.blocks.into_iter().filter(|block| is_run(&block)).collect();
    for block in &mut blocks {
        match block.info[0].as_str() {
            "sh" => {}
            "python" => {
                block.info.push("python3".to_owned());
                block.text = format!("python3 - <<'END_OF_PYTHON'\n{}END_OF_PYTHON\n", block.text);
            }
            other => panic!("{name}:{}: nothing runs {other}", block.line),
        }
    }
    assert!(!blocks.is_empty(), "{name} has no block to run");
    // What is missing is said once, for all blocks that need it.
    let needs: BTreeSet<&String> = blocks.iter().flat_map(|block| &block.info[2..]).collect();
    let missing: BTreeSet<&String> = needs.into_iter().filter(|need| !is_there(need)).collect();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut script = String::from("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
    for block in &blocks {
        if block.info[2..].iter().all(|need| !missing.contains(need)) {
            script += &format!("echo '== {name}:{}' >&2\n{}", block.line, block.text);
        }
    }
    if blocks.iter().any(|block| block.info[0] == "python") {
        python_package(&directory.path().join(".python"));
    }
    if blocks.iter().any(|block| block.text.contains("-larm4") || block.text.contains("mod_arm.so")) {
        arm_library(&directory.path().join(".lib"));
    }
    if blocks.iter().any(|block| block.info.iter().any(|need| need == "php-config8.2")) && missing.is_empty() {
        arm_library(&directory.path().join(".lib"));
        php_extension(&directory.path().join(".php"));
    }
    let file = directory.path().join(".script");
    fs::write(&file, script).expect("the script can be written");
    finish(name, &file, directory.path());
}

/// Lays out the library as an installation does.
fn arm_library(to: &Path) {
    fs::create_dir_all(to).expect("a new directory");
    let built = std::env::current_exe().expect("this test").with_file_name("libarm4.so");
    for name in ["libarm4.so", "libarm4.so.4"] {
        fs::copy(&built, to.join(name)).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
    }
}

/// Builds the extension arm, with a file that has PHP load it.
fn php_extension(to: &Path) {
    fs::create_dir_all(to).expect("a new directory");
    let build = format!("BUILD={}", to.display());
    let made = Command::new("make").arg("-C").arg(repository().join("native/php")).arg(build).output();
    let made = made.expect("make is there");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    fs::write(to.join("arm.ini"), format!("extension={}\n", to.join("arm.so").display())).expect("a new file");
}

/// The package for Python, with the module that Cargo has built for the tests.
fn python_package(to: &Path) {
    let to = to.join("weir");
    fs::create_dir_all(&to).expect("a new directory");
    for entry in fs::read_dir(repository().join("python/weir")).expect("the package").flatten() {
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }
    let built = std::env::current_exe().expect("this test").with_file_name("libweir_python.so");
    fs::copy(&built, to.join("_native.abi3.so")).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
}

/// Runs a script to its end, or ends it with everything that it started.
fn finish(name: &str, script: &Path, directory: &Path) {
    let built = Path::new(env!("CARGO_BIN_EXE_weir")).with_file_name("");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let search = std::iter::once(built).chain(std::env::split_paths(&path)).chain([PathBuf::from("/usr/sbin")]);
    let log = directory.join(".log");
    let output = fs::File::create(&log).expect("the log can be written");
    let mut command = Command::new("bash");
    command
        .arg(script)
        .current_dir(directory)
        .env("PATH", std::env::join_paths(search).expect("no colon in a path"))
        .env("PORT", free_port().to_string())
        .env("SOURCES", repository())
        .env("NO_COLOR", "1")
        .env("PYTHONPATH", directory.join(".python"))
        // Where `make install` puts them, compilers and programs look by themselves.
        .env("LIBRARY_PATH", directory.join(".lib"))
        .env("LD_LIBRARY_PATH", directory.join(".lib"))
        .env("C_INCLUDE_PATH", repository().join("native/include"))
        // Behind the system's own directory of settings.
        .env("PHP_INI_SCAN_DIR", format!(":{}", directory.join(".php").display()))
        .stdin(Stdio::null())
        .stderr(output.try_clone().expect("a second handle"))
        .stdout(output)
        .process_group(0);
    let mut child = command.spawn().expect("bash is there");
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().expect("the child is ours") {
            Some(status) => break Some(status),
            None if begin.elapsed() > PAGE_LIMIT => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    // Programs that a page has left running end with its group.
    let group = i32::try_from(child.id()).expect("a process id");
    // SAFETY: the group is that of a child of ours; a negative number names the group.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    let _reaped = child.wait();
    let mut said = String::new();
    let _ = fs::File::open(&log).and_then(|mut file| file.read_to_string(&mut said));
    let tail: Vec<&str> = said.lines().rev().take(60).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    assert!(
        status.is_some_and(|status| status.success()),
        "{name}: {}; the last lines:\n{}",
        status.map_or_else(|| format!("not done after {PAGE_LIMIT:?}"), |status| status.to_string()),
        tail.join("\n")
    );
}

/// Whether what a block needs is there; says what is not.
fn is_there(need: &str) -> bool {
    match need {
        "bpf" => require::socket_tracepoints(),
        "nginx" => require::nginx(),
        "apache" => require::apache(),
        program => require::program(program),
    }
    .is_some()
}

/// A port that was free a moment ago, below those that Linux gives to clients; pages may use the next one, too.
fn free_port() -> u16 {
    // Each is asked for once: what is free now may be taken by another page a moment later.
    static STEP: AtomicU16 = AtomicU16::new(0);
    let bind = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    let start = std::process::id() as u16 % 8000;
    (0..2000)
        .map(|_| 16_000 + (start + 7 * (STEP.fetch_add(1, Ordering::Relaxed) % 2000)) % 14_000)
        .find(|port| bind(*port) && bind(port + 1))
        .expect("a free port")
}

/// A test for each page, so that a failure names it and a skipped one is counted.
macro_rules! pages_run {
    ($($test:ident: $page:literal,)*) => {
        $(#[test] fn $test() { run($page); })*
        const RUN: &[&str] = &[$($page),*];
    };
}

pages_run! {
    the_readme_runs: "README.md",
    install_runs: "docs/how-to/install.md",
    watch_requests_runs: "docs/how-to/watch-requests.md",
    scenarios_run: "docs/how-to/write-a-scenario.md",
    descriptions_run: "docs/how-to/load-from-a-description.md",
    the_first_minute_runs: "docs/how-to/first-minute.md",
    the_checks_run: "docs/reference/doctor.md",
    the_slow_page_is_found: "docs/tutorials/find-the-slow-page.md",
    a_site_adapts_to_a_flood: "docs/tutorials/a-site-that-adapts.md",
    client_certificates_run: "docs/how-to/client-certificates.md",
    the_console_runs: "docs/how-to/console.md",
    look_at_a_run_runs: "docs/how-to/look-at-a-run.md",
    where_does_the_time_go_runs: "docs/how-to/where-does-the-time-go.md",
    which_code_runs: "docs/how-to/which-code.md",
    what_to_change_runs: "docs/how-to/what-to-change.md",
    how_much_load_runs: "docs/how-to/how-much-load.md",
    load_over_time_runs: "docs/how-to/load-over-time.md",
    load_over_http3_runs: "docs/how-to/load-over-http3.md",
    load_streams_runs: "docs/how-to/load-streams.md",
    load_grpc_runs: "docs/how-to/load-grpc.md",
    fail_a_build_runs: "docs/how-to/fail-a-build.md",
    coming_from_ab_runs: "docs/how-to/coming-from-ab.md",
    coming_from_k6_runs: "docs/how-to/coming-from-k6.md",
    load_through_runs: "docs/how-to/load-through.md",
    from_a_script_runs: "docs/how-to/from-a-script.md",
    load_many_urls_runs: "docs/how-to/load-many-urls.md",
    load_from_many_hosts_runs: "docs/how-to/load-from-many-hosts.md",
    slow_clients_run: "docs/how-to/slow-clients.md",
    realistic_workloads_runs: "docs/how-to/realistic-workloads.md",
    plan_capacity_runs: "docs/how-to/plan-capacity.md",
    is_it_faster_runs: "docs/how-to/is-it-faster.md",
    compare_servers_runs: "docs/how-to/compare-servers.md",
    record_a_running_server_runs: "docs/how-to/record-a-running-server.md",
    explain_production_runs: "docs/how-to/explain-production.md",
    phases_and_probes_runs: "docs/how-to/phases-and-probes.md",
    web_tests_runs: "docs/how-to/web-tests.md",
    record_a_session_runs: "docs/how-to/record-a-session.md",
    serve_files_runs: "docs/how-to/serve-files.md",
    serve_a_site_runs: "docs/how-to/serve-a-site.md",
    routes_run: "docs/how-to/routes.md",
    see_a_servers_activity_runs: "docs/how-to/see-a-servers-activity.md",
    persistent_scripts_run: "docs/how-to/persistent-scripts.md",
    coming_from_nginx_runs: "docs/how-to/coming-from-nginx.md",
    upgrade_the_server_runs: "docs/how-to/upgrade-the-server.md",
    adapt_a_server_runs: "docs/how-to/adapt-a-server.md",
    write_a_policy_runs: "docs/how-to/write-a-policy.md",
    variants_runs: "docs/how-to/variants.md",
    hand_on_transactions_runs: "docs/how-to/hand-on-transactions.md",
    cgi_runs: "docs/how-to/cgi.md",
    remote_scripts_runs: "docs/how-to/remote-scripts.md",
    arm_in_php_runs: "docs/how-to/arm-in-php.md",
    run_format_runs: "docs/reference/run-format.md",
    which_kernel_runs: "docs/reference/which-kernel.md",
    what_observing_costs_runs: "docs/explanation/what-observing-costs.md",
    what_is_waited_for_runs: "docs/how-to/what-is-waited-for.md",
    business_transactions_runs: "docs/how-to/business-transactions.md",
    for_agents_runs: "docs/how-to/for-agents.md",
    arm_in_apache_runs: "docs/how-to/arm-in-apache.md",
}

/// Pages whose configurations are whole, and how many lines each may have.
const CONFIGURATIONS: &[(&str, usize)] = &[("docs/how-to/applications.md", 10), ("docs/how-to/certificates.md", 16)];

#[test]
fn configurations_of_applications_are_short_and_right() {
    for (name, lines_max) in CONFIGURATIONS {
        let page = Page::read(&repository().join(name));
        let blocks: Vec<&Block> = page.blocks.iter().filter(|block| block.info == ["toml"]).collect();
        assert!(!blocks.is_empty(), "{name} has no configuration");
        for block in blocks {
            let at = format!("{name}:{}", block.line);
            assert!(block.text.lines().count() <= *lines_max, "{at}: more than {lines_max} lines");
            let folder = tempfile::tempdir().expect("a directory");
            // Directories of the server that the page speaks of.
            let mut text = block.text.clone();
            for path in block.text.split('"').filter(|word| word.starts_with("/srv/") || word.starts_with("/var/lib/"))
            {
                let own = folder.path().join(&path[1..]);
                fs::create_dir_all(&own).expect("a directory");
                text = text.replace(&format!("\"{path}\""), &format!("\"{}\"", own.display()));
            }
            let file = folder.path().join("weir.toml");
            fs::write(&file, text).expect("a file");
            let checked = Command::new(env!("CARGO_BIN_EXE_weir")).arg("check").arg(&file).output();
            let checked = checked.expect("the command starts");
            let said = String::from_utf8_lossy(&checked.stdout) + String::from_utf8_lossy(&checked.stderr);
            assert!(checked.status.success() && said.contains("without mistakes"), "{at}: {said}");
        }
    }
}

#[test]
fn no_page_with_commands_is_left_out() {
    for page in pages() {
        let runs = page.blocks.iter().any(|block| block.info.get(1).is_some_and(|info| info == "run"));
        assert_eq!(runs, RUN.contains(&page.name().as_str()), "{} is not where it belongs", page.name());
    }
}

#[test]
fn blocks_are_found_and_commands_checked() {
    let options = options();
    let wrong = |line: &str| {
        let mut wrong = Vec::new();
        check(line, &options, &mut 0, |what| wrong.push(what));
        wrong
    };
    assert_eq!(wrong("weir load --rate 5 http://127.0.0.1/ | jq --arg x"), Vec::<String>::new());
    assert_eq!(wrong("weir lod --rate 5"), ["there is no `weir lod`"]);
    assert_eq!(wrong("weir load --rat 5"), ["weir load has no --rat"]);
    assert_eq!(wrong("weir arm tail --failed -n 1 | xargs weir arm show --json"), Vec::<String>::new());
    assert_eq!(
        wrong("weir arm tail --every 1s; weir arm tall"),
        ["weir arm tail has no --every", "there is no `weir arm tall`"]
    );
    assert_eq!(wrong("weir compare --a 'weir serve --blocks 3' --url U"), ["weir serve has no --blocks"]);
    assert_eq!(
        wrong("weir compare --a 'weir serve --listen A s' --blocks 3 --block 4"),
        ["weir compare has no --block"]
    );
    assert_eq!(wrong("weir explain --load URL -- nginx --no-such"), Vec::<String>::new());
    assert_eq!(links("see [a](b.md#c) and `[x](y)` or [d](e)"), ["b.md#c", "e"]);
}
