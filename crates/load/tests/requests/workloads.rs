//! Published workloads against a real server, judged by its own log.

use crate::server;

use server::load;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_load::workload::{Crowd, FileSet, Mix, Surge, fileset};
use weir_load::{LoadReport, Options, Request, Schedule, StopRule, Url};
use weir_testkit::{Nginx, RunningServer};

/// nginx with the files of a set, and its log.
struct Served {
    server: RunningServer,
    root: PathBuf,
    log: PathBuf,
    _directory: TempDir,
}

impl Served {
    fn new(set: &FileSet) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (root, log) = (directory.path().join("root"), directory.path().join("access.log"));
        fileset::write(set, &root, |_| true).expect("the files are written");
        open_to_all(directory.path());
        let server = Nginx::new().root(&root).directive(&format!("access_log \"{}\";", log.display()));
        Self { server: server.start().expect("nginx starts"), root, log, _directory: directory }
    }

    fn options(&self, mix: Mix, requests: u64) -> Options {
        let mut options = Options::new(Url::parse(&self.server.url("/")).expect("a URL"));
        options.requests.list = mix.requests(&options.url, &Request::default());
        options.requests.mix = Some(mix);
        options.stop = StopRule::Requests(requests);
        options.timeout = Duration::from_secs(10);
        options
    }

    /// Path, status and bytes of each request that was logged since the last look, waiting for so many.
    fn logged(&self, requests: usize) -> Vec<(String, u16, u64)> {
        let text = self.log_text(requests);
        text.lines().filter(|line| line.contains("weir/")).map(line_of).collect()
    }

    /// What was logged since the last look, waiting for so many requests.
    fn log_text(&self, requests: usize) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            // The code that waited for the server's start has asked it once or more.
            let lines = text.lines().filter(|line| line.contains("weir/")).count();
            if lines >= requests && text.ends_with('\n') {
                std::fs::File::create(&self.log).expect("the log");
                return text;
            }
            assert!(Instant::now() < deadline, "{requests} requests, in the log {lines}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A line of the log in its usual format.
fn line_of(line: &str) -> (String, u16, u64) {
    let mut quoted = line.split('"').skip(1);
    let target = quoted.next().and_then(|request| request.split(' ').nth(1)).expect("a request");
    let mut numbers = quoted.next().expect("status and bytes").split_whitespace();
    let status = numbers.next().and_then(|word| word.parse().ok()).expect("a status");
    let bytes = numbers.next().and_then(|word| word.parse().ok()).expect("bytes");
    (target.to_owned(), status, bytes)
}

/// The server's user is another than ours.
fn open_to_all(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).expect("our own directory");
}

fn assert_answered(report: &LoadReport, requests: u64) {
    assert_eq!((report.failures(), report.dropped, report.abandoned), (0, 0, 0), "{:?}", report.errors);
    assert_eq!(report.status, [(200, requests)]);
    assert_eq!(report.mix.as_ref().expect("a mix").wrong_sizes, 0);
}

#[test]
fn a_server_sees_the_mix_of_specweb96() {
    if weir_testkit::require::nginx().is_none() {
        return;
    }
    let set = FileSet::SpecWeb96 { directories: 3, seed: 1 };
    let served = Served::new(&set);
    let mix = |zipf| Mix { files: set.clone(), seed: 11, directories_zipf: zipf, crowd: None };
    let requests = 20_000;
    for (zipf, schedule, keep_alive, pipeline) in [
        (None, Schedule::Closed, true, 1),
        (Some(1.0), Schedule::Closed, true, 4),
        (Some(1.0), Schedule::Poisson { rate_per_s: 8_000.0, seed: 3 }, true, 1),
        (None, Schedule::Closed, false, 1),
    ] {
        let mut options = served.options(mix(zipf), requests);
        (options.schedule, options.keep_alive, options.pipeline, options.threads) = (schedule, keep_alive, pipeline, 2);
        let report = load(options);
        assert_answered(&report, requests);
        let sizes: BTreeMap<String, u64> =
            (0..set.len()).map(|file| (format!("/{}", set.path(file)), set.size(file))).collect();
        let (mut classes, mut directories) = ([0u64; 4], [0u64; 3]);
        for (path, status, bytes) in served.logged(requests as usize) {
            assert_eq!((status, Some(&bytes)), (200, sizes.get(&path)), "{path}");
            let number = |at: usize| usize::from(path.as_bytes()[at] - b'0');
            classes[number("/dir00000/class".len())] += 1;
            directories[number("/dir0000".len())] += 1;
        }
        let told: Vec<u64> = report.mix.expect("a mix").kinds.iter().map(|(_, count)| *count).collect();
        assert_eq!(told, classes);
        let chi_square = |seen: &[u64], shares: &[f64]| {
            let whole: f64 = shares.iter().sum();
            let terms = seen.iter().zip(shares).map(|(seen, share)| {
                let expected = share / whole * requests as f64;
                (*seen as f64 - expected).powi(2) / expected
            });
            terms.sum::<f64>()
        };
        // The critical values at 0.01 for 3 and 2 degrees of freedom.
        assert!(chi_square(&classes, &[35.0, 50.0, 14.0, 1.0]) < 11.34, "{classes:?}");
        let shares = [1.0, 2.0, 3.0].map(|rank: f64| zipf.map_or(1.0, |exponent: f64| rank.powf(-exponent)));
        assert!(chi_square(&directories, &shares) < 9.21, "{directories:?}");
    }
}

#[test]
fn a_server_sees_the_pages_of_surge() {
    if weir_testkit::require::nginx().is_none() {
        return;
    }
    let surge = FileSet::Surge(Surge::new(200, 1));
    let served = Served::new(&surge);
    let mix = Mix { files: surge.clone(), seed: 2, directories_zipf: None, crowd: None };
    // Some users come to a second page within four seconds, or later where the machine is slow.
    let mut runs = [4, 8, 16, 32].into_iter().map(|seconds| {
        let mut options = served.options(mix.clone(), 1);
        options.stop = StopRule::Duration(Duration::from_secs(seconds));
        (options.connections, options.threads) = (300, 2);
        let report = load(options);
        assert_answered(&report, report.requests);
        let logged = served.logged(report.requests as usize);
        (seconds, report, logged)
    });
    let completed = |report: &LoadReport| report.sessions.as_ref().map_or(0, |pages| pages.completed);
    let (seconds, report, logged) =
        runs.find(|(_, report, _)| completed(report) > 300).expect("users come to a second page");
    let sizes: BTreeMap<String, u64> =
        (0..surge.len()).map(|file| (format!("/{}", surge.path(file)), surge.size(file))).collect();
    let (whole, cut): (Vec<_>, Vec<_>) =
        logged.iter().partition(|(path, status, bytes)| *status == 200 && sizes.get(path) == Some(bytes));
    assert!(whole.len() as u64 >= report.requests, "{} of {}", whole.len(), report.requests);
    // The end may cut one response of each user off.
    assert!(cut.len() <= 300 && cut.iter().all(|(path, _, bytes)| sizes.get(path).is_some_and(|all| bytes <= all)));
    let pages = report.sessions.as_ref().expect("pages");
    // A user's page is a session: at least its own file and one in it. Over a second passes before the next.
    assert!(pages.completed < 300 * seconds && pages.failed == 0, "{pages:?}");
    assert!(pages.answers.iter().all(|(answers, _)| *answers >= 2), "{:?}", pages.answers);
    let in_pages: u64 = pages.answers.iter().map(|(answers, count)| u64::from(*answers) * count).sum();
    assert!(in_pages <= report.requests, "{in_pages} of {}", report.requests);
    assert_eq!(pages.connections, 300, "each user has one");
    // Pages of two parts are those whose Pareto number lies below 2.
    let two = pages.answers.iter().find(|(answers, _)| *answers == 2).map_or(0, |(_, count)| *count);
    assert!(two as f64 > 0.75 * pages.completed as f64, "{:?}", pages.answers);

    // Users have no rate.
    let mut pages = served.options(mix.clone(), 3);
    pages.connections = 3;
    let report = load(pages);
    let sessions = report.sessions.expect("pages");
    assert_eq!((sessions.completed, sessions.unfinished), (3, 0));
    let mut paced = served.options(mix, 40);
    paced.schedule = Schedule::Fixed { rate_per_s: 5.0 };
    assert!(weir_load::run(paced, &weir_load::Control::default()).is_err());
}

/// A line's client address and second of the day.
fn client_of(line: &str) -> (String, u64) {
    let clock = line.split('[').nth(1).expect("a time").split([':', ' ']).skip(1).take(3);
    let clock: Vec<u64> = clock.map(|number| number.parse().expect("a number")).collect();
    (line.split(' ').next().expect("an address").to_owned(), clock[0] * 3600 + clock[1] * 60 + clock[2])
}

#[test]
fn a_server_sees_a_flash_crowd() {
    if weir_testkit::require::nginx().is_none() {
        return;
    }
    let files = FileSet::SpecWeb96 { directories: 4, seed: 1 };
    let served = Served::new(&files);
    let time = |text: &str| Duration::try_from_secs_f64(text.strip_suffix('s')?.parse().ok()?).ok();
    let crowd = Crowd::parse("20*10/2s,1s,2s,1s", time).expect("a crowd");
    let crowd = Crowd { requests: 4, pause: Duration::from_millis(100), ..crowd };
    let mix = Mix { files, seed: 6, directories_zipf: None, crowd: Some(crowd.clone()) };
    let mut options = served.options(mix, 1);
    options.schedule = Schedule::Changing { profile: crowd.profile.clone(), poisson: Some(9) };
    options.stop = StopRule::Duration(crowd.profile.duration());
    (options.connections, options.threads) = (400, 2);
    // Ten networks, of which two are new.
    options.reach.sources = (1..=10).map(|host| std::net::Ipv4Addr::new(127, 0, 1, host).into()).collect();
    let report = load(options);
    assert_answered(&report, report.requests);
    let sessions = report.sessions.as_ref().expect("clients");
    let (came, with_crowd) = report.mix.as_ref().and_then(|mix| mix.clients).expect("clients");
    assert_eq!((sessions.completed + sessions.unfinished, report.queued), (came, 0));
    // 2 s * 20 + 1 s * 110 + 2 s * 200 + 1 s * 110 + 2 s * 20 = 700 come, 160 of them as always; by chance.
    assert!((came as f64 - 700.0).abs() < 5.0 * 700.0f64.sqrt(), "{came}");
    assert!((with_crowd as f64 - 540.0).abs() < 5.0 * 540.0f64.sqrt(), "{with_crowd}");
    // Each client asks as often as any other, crowd or not.
    assert!(sessions.answers.iter().filter(|(answers, _)| *answers != 4).count() == 0, "{:?}", sessions.answers);
    let text = served.log_text(report.requests as usize);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("weir/")).collect();
    let begin = client_of(lines[0]).1;
    let (mut networks, mut new_before, mut new) = (std::collections::BTreeSet::new(), 0, 0u64);
    let mut paths: BTreeMap<String, u64> = BTreeMap::new();
    for line in &lines {
        let (address, second) = client_of(line);
        let is_new = ["127.0.1.9", "127.0.1.10"].contains(&address.as_str());
        new_before += u64::from(is_new && second <= begin + 1);
        new += u64::from(is_new);
        networks.insert(address);
        *paths.entry(line_of(line).0).or_default() += 1;
    }
    assert_eq!((networks.len(), new_before), (10, 0));
    assert!(new > 0 && (new as f64) < 0.3 * lines.len() as f64, "{new} of {}", lines.len());
    let mut counts: Vec<u64> = paths.into_values().collect();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    let few: u64 = counts.iter().take(10).sum();
    assert!(few as f64 > 0.6 * lines.len() as f64, "{few} of {}", lines.len());
}

#[test]
fn a_file_of_another_length_is_counted() {
    if weir_testkit::require::nginx().is_none() {
        return;
    }
    let set = FileSet::SpecWeb96 { directories: 2, seed: 1 };
    let served = Served::new(&set);
    let changed = "dir00001/class1_4";
    std::fs::write(served.root.join(changed), "short").expect("a file");
    let requests = 5_000;
    let mix = Mix { files: set, seed: 5, directories_zipf: None, crowd: None };
    let report = load(served.options(mix.clone(), requests));
    let wrong = served.logged(requests as usize).iter().filter(|(path, ..)| path[1..] == *changed).count() as u64;
    assert!(wrong > 0 && report.status == [(200, requests)]);
    assert_eq!(report.mix.as_ref().expect("a mix").wrong_sizes, wrong);
    let told = format!("{wrong} responses were not as long as the files of specweb96 are");
    assert!(report.warnings.iter().any(|warning| warning.contains(&told)), "{:?}", report.warnings);

    // A response to HEAD has no body, and what is not there is told by its status.
    let mut head = served.options(mix.clone(), 500);
    for listed in &mut head.requests.list {
        listed.request.method = "HEAD".to_owned();
    }
    let report = load(head);
    assert_eq!((report.requests, report.mix.expect("a mix").wrong_sizes), (500, 0));
    let larger = Mix { files: FileSet::SpecWeb96 { directories: 4, seed: 1 }, ..mix };
    std::fs::remove_file(served.root.join(changed)).expect("it is there");
    let report = load(served.options(larger, 1000));
    let missing = report.status.iter().find(|(status, _)| *status == 404).map_or(0, |(_, count)| *count);
    assert!((400..600).contains(&missing), "{:?}", report.status);
    assert_eq!(report.mix.expect("a mix").wrong_sizes, 0);
}
