//! Errors by kind: each by what it takes to get it.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use quorlock::{Client, ClientBuilder, Error, ErrorKind, blocking};
use quorlock_tests::Stage;

fn of(node: &str) -> ClientBuilder {
    Client::builder().nodes([node]).ttl(Duration::from_secs(1))
}

fn kind<T>(result: Result<T, Error>) -> Option<ErrorKind> {
    let error = result.err()?;
    assert!(!error.message().is_empty());
    Some(error.kind())
}

#[test]
fn every_kind_says_what_to_do() {
    let wait = |lock: &quorlock::Lock| kind(blocking::wait(lock.acquire()));
    let client = of("memory://errors").build().unwrap();
    let rival = of("memory://errors").build().unwrap();
    let lock = client.lock("a").renew(false);
    assert_eq!(
        kind(blocking::wait(lock.release())),
        Some(ErrorKind::NotOwner)
    );
    assert_eq!(
        kind(of("http://h").build()),
        Some(ErrorKind::InvalidArgument)
    );
    assert_eq!(wait(&client.lock("")), Some(ErrorKind::InvalidArgument));
    let lease = blocking::wait(lock.acquire()).unwrap();
    let other = rival.lock("a");
    assert_eq!(
        wait(&other.clone().wait(Duration::ZERO)),
        Some(ErrorKind::Contended)
    );
    let brief = other.wait(Duration::from_millis(100));
    assert_eq!(wait(&brief), Some(ErrorKind::Timeout));
    blocking::wait(lease.lost());
    assert_eq!(
        kind(blocking::wait(lease.extend(None))),
        Some(ErrorKind::LockLost)
    );
    blocking::wait(client.close());
    assert_eq!(wait(&lock), Some(ErrorKind::Closed));
    let nobody = of("redis://127.0.0.1:1").build().unwrap();
    let unreachable = nobody.lock("a").wait(Duration::ZERO);
    assert_eq!(wait(&unreachable), Some(ErrorKind::QuorumUnavailable));
}

#[test]
fn a_wrong_password_is_told_at_once() {
    let stage = Stage::new(1);
    let node = stage.nodes[0].replace("redis://", "redis://nobody:hunter2@");
    let client = of(&node).build().unwrap();
    let error = blocking::wait(client.lock("a").wait(None).acquire()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.nodes()[0].message().contains("WRONGPASS"), "{error}");
    assert!(!error.to_string().contains("hunter2"));
}

/// A port that takes no connection and refuses none, as behind a firewall: what waits to be accepted fills its
/// queue, and the first words of others are dropped.
fn dropping() -> (TcpListener, Vec<TcpStream>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    // SAFETY: the descriptor is the listener's; to listen again only sets how many may wait.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let at = listener.local_addr().expect("bound");
    let brief = Duration::from_millis(200);
    let waiting = (0..4).map_while(|_| TcpStream::connect_timeout(&at, brief).ok());
    let waiting = waiting.collect();
    (listener, waiting, format!("redis://{at}"))
}

/// A server that is down, one that hangs and one that nothing leads to are told apart, by an acquire and by a
/// probe.
#[test]
fn silence_is_told_from_refusal_and_from_no_way() {
    let (_listener, _waiting, dropped) = dropping();
    let hung = TcpListener::bind("127.0.0.1:0").expect("a port");
    let hung_url = format!("redis://{}", hung.local_addr().expect("bound"));
    let down = "redis://127.0.0.1:1".to_owned();
    let brief = Duration::from_millis(200);
    for (url, said) in [
        (dropped, "nothing has answered at its address"),
        (hung_url, "takes connections and has not answered"),
        (down, "refused"),
    ] {
        let client = of(&url).node_timeout(brief).connect_timeout(brief);
        let client = client.build().unwrap();
        let error = blocking::wait(client.lock("a").wait(Duration::ZERO).acquire()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::QuorumUnavailable);
        let told = error.nodes()[0].message();
        assert!(told.contains(said), "{told}");
        let probe = blocking::wait(client.probe()).unwrap();
        let found = &probe.nodes[0].findings[0];
        assert!(found.id == "QD01" && found.what.contains(said), "{found:?}");
    }
}
