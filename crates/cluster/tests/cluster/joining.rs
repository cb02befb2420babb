//! A machine joins by a token: once, in time, under a name of its own, and only the cluster that made the token.

use crate::{PATIENCE, cluster, name};
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, SystemTime};
use weir_cluster::{
    Admission, Authority, Identity, IdentityError, JoinError, Member, Role, Token, TokenError, Tokens, join,
};

const LIFE: Duration = Duration::from_secs(60);

/// Answers so many machines; returns what became of each.
fn admit(admission: &Admission, listener: &TcpListener, times: usize) -> Vec<Result<Member, JoinError>> {
    let admit = |_| admission.admit(listener.accept().expect("a machine").0, SystemTime::now());
    (0..times).map(admit).collect()
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

fn token(directory: &Path, role: Role) -> Token {
    let identity = Identity::load(directory).expect("an identity");
    Tokens::of(directory).make(&identity, role, LIFE, SystemTime::now()).expect("a token")
}

#[test]
fn a_machine_joins_and_both_keep_their_files_to_themselves() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_, founder) = cluster(first.path());
    let token = Token::parse(&token(first.path(), Role::Director).to_text()).expect("the same token");
    let (listener, address) = listener();
    let admission = Admission::open(first.path()).expect("an authority");
    let directory = second.path().join("keys");
    let joined = std::thread::scope(|scope| {
        scope.spawn(|| admit(&admission, &listener, 1));
        join(address, &token, &name("steering"), &directory, SystemTime::now()).expect("joined")
    });
    assert_eq!(joined.member, Member { name: name("steering"), role: Role::Director });
    let read = Identity::load(&directory).expect("kept");
    assert_eq!((read.member, read.certificate), (joined.member.clone(), joined.certificate));
    assert_eq!(read.authority, founder.authority);
    let members = admission.members().expect("a list");
    assert_eq!(members, [Member { name: name("first"), role: Role::Node }, joined.member]);
    for folder in [first.path().to_owned(), directory.clone()] {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode & 0o077, 0, "{:?} has {mode:o}", entry.path());
        }
    }
    // A key that others may read is refused.
    let key = directory.join("member.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(Identity::load(&directory), Err(IdentityError::Readable(path)) if path == key));
    // The directory is not overwritten.
    let again = join(address, &token, &name("other"), &directory, SystemTime::now());
    assert!(matches!(again, Err(JoinError::Identity(IdentityError::Exists(_)))));
    assert!(matches!(Authority::init(first.path(), &name("first"), SystemTime::now()), Err(IdentityError::Exists(_))));
    assert!(matches!(Authority::load(&directory), Err(IdentityError::NoAuthority(_))));
}

/// Why a machine is refused.
fn refusal(directory: &Path, token: &Token, member: &str, at: SystemTime) -> String {
    let (listener, address) = listener();
    let admission = Admission::open(directory).expect("an authority");
    let to = tempfile::tempdir().unwrap();
    let refused = std::thread::scope(|scope| {
        let admitting = scope.spawn(|| admission.admit(listener.accept().expect("a machine").0, at).map(|_| ()));
        let refused = join(address, token, &name(member), &to.path().join("keys"), SystemTime::now());
        assert!(admitting.join().expect("no panic").is_err());
        refused
    });
    assert!(!to.path().join("keys").exists(), "nothing is left");
    refused.map(|identity| identity.member).expect_err("refused").to_string()
}

#[test]
fn tokens_are_of_one_use_one_role_and_a_bounded_life() {
    let directory = tempfile::tempdir().unwrap();
    cluster(directory.path());
    let now = SystemTime::now();
    let used = token(directory.path(), Role::Node);
    let (listener, address) = listener();
    let admission = Admission::open(directory.path()).expect("an authority");
    let keys = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| admit(&admission, &listener, 1));
        join(address, &used, &name("second"), &keys.path().join("keys"), now).expect("joined");
    });
    assert!(refusal(directory.path(), &used, "third", now).contains("the token is not open"));
    let fresh = token(directory.path(), Role::Node);
    assert!(refusal(directory.path(), &fresh, "first", now).contains("first is the name of another member"));
    assert!(refusal(directory.path(), &fresh, "second", now).contains("second is the name of another member"));
    let mut other = fresh.clone();
    other.role = Role::Director;
    assert!(refusal(directory.path(), &other, "third", now).contains("the token is for the role node"));
    assert!(refusal(directory.path(), &fresh, "third", now + 2 * LIFE).contains("the token has expired"));
    let over = join(address, &fresh, &name("third"), &keys.path().join("more"), now + 2 * LIFE);
    assert!(matches!(over, Err(JoinError::Token(TokenError::Expired))));
    let identity = Identity::load(directory.path()).unwrap();
    let long = Tokens::of(directory.path()).make(&identity, Role::Node, Duration::from_secs(8 * 86_400), now);
    assert!(matches!(long, Err(TokenError::TooLong)));
}

#[test]
fn of_two_machines_with_one_token_one_joins() {
    let directory = tempfile::tempdir().unwrap();
    cluster(directory.path());
    for round in 0..4 {
        let token = token(directory.path(), Role::Node);
        let admission = Admission::open(directory.path()).expect("an authority");
        let (one, two) = (listener(), listener());
        let (begin, keys) = (Barrier::new(2), tempfile::tempdir().unwrap());
        let joined: usize = std::thread::scope(|scope| {
            let mut joining = Vec::new();
            for (which, (listener, address)) in [&one, &two].into_iter().enumerate() {
                let (admission, token, begin, keys) = (&admission, &token, &begin, keys.path());
                scope.spawn(move || admit(admission, listener, 1));
                joining.push(scope.spawn(move || {
                    begin.wait();
                    let member = name(&format!("round{round}-{which}"));
                    let joined = join(*address, token, &member, &keys.join(which.to_string()), SystemTime::now());
                    usize::from(joined.is_ok())
                }));
            }
            joining.into_iter().map(|joining| joining.join().expect("no panic")).sum()
        });
        assert_eq!(joined, 1);
    }
}

#[test]
fn only_the_cluster_of_the_token_is_believed() {
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    cluster(own.path());
    cluster(other.path());
    let (token, keys) = (token(own.path(), Role::Node), tempfile::tempdir().unwrap());
    let (listener, address) = listener();
    let admission = Admission::open(other.path()).expect("an authority");
    let refused = std::thread::scope(|scope| {
        scope.spawn(|| admit(&admission, &listener, 1));
        join(address, &token, &name("second"), &keys.path().join("keys"), SystemTime::now())
    });
    assert!(matches!(refused, Err(JoinError::Connection { .. })), "{refused:?}");
    // Nor another member than the one that made the token.
    let mut token = token;
    token.issuer = name("second");
    let admission = Admission::open(own.path()).expect("an authority");
    let refused = std::thread::scope(|scope| {
        scope.spawn(|| admit(&admission, &listener, 1));
        join(address, &token, &name("second"), &keys.path().join("keys"), SystemTime::now())
    });
    assert!(matches!(refused, Err(JoinError::Connection { .. })), "{refused:?}");
}

#[test]
fn secrets_are_not_shown() {
    let directory = tempfile::tempdir().unwrap();
    let (authority, identity) = cluster(directory.path());
    let token = token(directory.path(), Role::Node);
    let shown = format!("{authority:?} {identity:?} {token:?} {:?}", Admission::open(directory.path()));
    assert!(shown.contains("MemberKey(..)") && shown.contains("ClusterSecret(..)"), "{shown}");
    let secret = fs::read(directory.path().join("cluster.secret")).unwrap();
    assert_eq!(secret.len(), 32);
    let as_list = format!("{secret:?}");
    assert!(!shown.contains(as_list.trim_matches(['[', ']'])));
    assert!(!shown.contains(&token.to_text()[10..]));
}

#[test]
fn texts_that_are_no_tokens_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    cluster(directory.path());
    let text = token(directory.path(), Role::Node).to_text();
    for wrong in
        ["", "weir1.", &text[1..], &text[..text.len() - 7], &text.replace("weir1.", "weir2."), &"x".repeat(9_999)]
    {
        assert!(matches!(Token::parse(wrong), Err(TokenError::NoToken)), "{wrong}");
    }
    assert!(Token::parse(&format!(" {}\n", *text)).is_ok());
    assert!(PATIENCE > LIFE / 60);
}
