//! Defaults that follow what was given, and what is said where what was given
//! contradicts itself.

use std::time::Duration;

use quorlock::{Client, ClientBuilder, blocking};

#[test]
fn contradictions_name_both_values_and_no_limit_but_the_sets() {
    let client = || Client::builder().nodes(["memory://config"]);
    let seconds = Duration::from_secs;
    let refused = |builder: ClientBuilder| builder.build().unwrap_err().message().to_owned();
    for (builder, words) in [
        (
            client().ttl(seconds(20)).max_ttl(seconds(5)),
            ["ttl is 20s", "max_ttl (5s)"],
        ),
        (client().ttl(seconds(90)), ["ttl is 90s", "max_ttl (60s)"]),
        (
            client().ttl(seconds(1_000_000_000)),
            ["ttl is 1000000000s", "max_ttl (60s)"],
        ),
        (client().ttl(seconds(0)), ["ttl is 0:", "10ms to 60s"]),
        (
            client().ttl(seconds(20)).max_hold(seconds(5)),
            ["max_hold is 5s", "ttl (20s)"],
        ),
        (
            client().max_hold(Duration::from_millis(1)),
            ["max_hold is 1ms", "give 10ms"],
        ),
        (
            client().fence_ttl(seconds(60)),
            ["fence_ttl is 60s", "max_ttl (60s)"],
        ),
        (
            client().node_timeout(seconds(0)),
            ["node_timeout is 0:", "give 1ms to 60s"],
        ),
        (
            client().connect_timeout(seconds(61)),
            ["connect_timeout is 61s", "give 1ms to 60s"],
        ),
    ] {
        let message = refused(builder);
        for word in words {
            assert!(message.contains(word), "{word}: {message}");
        }
    }
    let lock = client().max_ttl(seconds(5)).build().unwrap().lock("a");
    lock.check().unwrap();
    let lock = lock.max_hold(seconds(2));
    lock.check().unwrap();
    assert!(lock.ttl(seconds(3)).check().is_err());
}

#[test]
fn what_was_not_given_follows_what_was() {
    let client = || Client::builder().nodes(["memory://follows"]);
    let seconds = Duration::from_secs;
    let lease = |builder: ClientBuilder| {
        let client = builder.build().unwrap();
        blocking::wait(client.lock("a").acquire()).unwrap()
    };
    assert!(lease(client().max_ttl(seconds(5))).remaining() <= seconds(5));
    assert!(lease(client().max_ttl(seconds(600))).remaining() <= seconds(10));
    assert!(lease(client().max_hold(seconds(5))).remaining() <= seconds(5));
    let long = lease(client().max_ttl(seconds(4000)).ttl(seconds(4000)));
    assert!(long.remaining() > seconds(3900), "{long:?}");
}

#[test]
fn parts_of_a_millisecond_are_rounded_up() {
    let third = Duration::from_secs(10) / 3;
    let client = Client::builder().nodes(["memory://rounded"]).ttl(third);
    let client = client.max_ttl(Duration::from_secs(20) / 3).build().unwrap();
    let lease = blocking::wait(client.lock("a").renew(false).acquire()).unwrap();
    let more = lease.remaining() + third + Duration::from_nanos(1);
    blocking::wait(lease.extend(more)).unwrap();
    assert!(lease.remaining() > third, "{lease:?}");
}
