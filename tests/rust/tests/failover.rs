//! Many leases of one client over a failover on real servers: all of them go on that
//! docs/operations/sentinel.md keeps. `FAILOVERS=33` does each kind as often.

use std::time::Duration;

use quorlock::{Client, Error, Lease, blocking};
use quorlock_tests::queue::{since, until};
use quorlock_tests::{Stage, monotonic};

/// So many locks one client holds.
const LEASES: usize = 12;
/// How long the old master has to be reckoned with where it does not say what it is.
const GRACE: Duration = Duration::from_secs(15);
/// How long after an extension that failed the next one may be counted.
const SLACK: Duration = Duration::from_secs(2);

/// When the old master gives no votes any more.
enum Over {
    /// Its process has ended.
    AtOnce,
    /// It says that it is a replica.
    Told,
    /// Nothing tells: after this.
    After(Duration),
}

/// The master of a node fails as told, while one client holds many locks of that `ttl` there.
/// Those must go on that are valid until another is promoted, and the old one gives no votes.
fn leases_go_on(fail: &str, ttl: Duration, over: &Over) -> Result<(), Error> {
    let times = std::env::var("FAILOVERS").map_or(1, |times| times.parse().expect("a number"));
    for _ in 0..times {
        let stage = Stage::like(1, &["replicas=2", "sentinels=3"]);
        let client = Client::builder().nodes(&stage.nodes).ttl(ttl).build()?;
        let names = (0..LEASES).map(|n| format!("k{n}"));
        let leases = names.map(|name| blocking::wait(client.lock(name).acquire()));
        let leases: Vec<Lease> = leases.collect::<Result<_, _>>()?;
        stage.tell("await-order 1 30000");
        let valid: Vec<Duration> = leases.iter().map(Lease::remaining).collect();
        let begun = monotonic();
        stage.tell(fail);
        stage.tell("await-failover 1 30000");
        let promoted = monotonic();
        let over = match over {
            Over::AtOnce => since(begun),
            Over::After(long) => since(begun) + *long,
            Over::Told => {
                let most = since(begun) + GRACE;
                stage.tell("await 1.old starts:slave 90000 ROLE");
                since(begun).min(most)
            }
        };
        let most = over + SLACK + ttl / 12;
        let kept = leases.iter().zip(valid).filter(|(_, valid)| *valid > most);
        let kept: Vec<&Lease> = kept.map(|(lease, _)| lease).collect();
        eprintln!(
            "{fail}: over after {over:?}, {} of {LEASES} must go on",
            kept.len()
        );
        for lease in kept {
            // What was lengthened before the failover ends sooner.
            until("it is lengthened by the promoted server", || {
                assert!(lease.is_held(), "{:?}", lease.loss());
                since(promoted) + lease.remaining() > ttl - ttl / 50
            });
            assert!(blocking::wait(lease.release())?);
        }
        eprintln!("{fail}: lengthened after {:?}", since(promoted));
    }
    Ok(())
}

#[test]
fn every_lease_goes_on_where_the_master_is_killed() -> Result<(), Error> {
    leases_go_on("kill 1", Duration::from_secs(10), &Over::AtOnce)
}

#[test]
fn every_lease_goes_on_where_the_master_hangs() -> Result<(), Error> {
    leases_go_on("stop 1", Duration::from_secs(30), &Over::After(GRACE))
}

#[test]
fn every_lease_goes_on_where_the_master_is_told_to_give_way() -> Result<(), Error> {
    leases_go_on("failover 1", Duration::from_secs(20), &Over::Told)
}
