use std::collections::BTreeMap;

use super::*;
use crate::blocking::wait;
use crate::clock::system_now;
use crate::{Client, Lease, metrics_text};

/// The samples of a text, each by its name with labels. Every line has to be known to the format.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut family = String::new();
    let mut samples = BTreeMap::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            family = head.split(' ').next().unwrap().to_owned();
            continue;
        }
        if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').unwrap();
            assert_eq!(name, family);
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        assert!(sample.starts_with(&family), "{line} under {family}");
        assert!(
            samples
                .insert(sample.to_owned(), value.parse().unwrap())
                .is_none(),
            "{line} twice"
        );
    }
    samples
}

fn client(node: &str) -> Client {
    Client::new([format!("memory://{node}")]).unwrap()
}

fn held(client: &Client, group: &str) -> Lease {
    wait(client.lock("a").group(group).acquire()).unwrap()
}

#[test]
fn a_cycle_is_measured_with_its_group() {
    let client = client("measured");
    let lease = held(&client, "measured");
    let now = samples(&client.metrics().to_string());
    assert_eq!(now["quorlock_held"], 1.0);
    let won = "quorlock_acquire_duration_seconds_count{group=\"measured\",outcome=\"won\",mode=\"exclusive\"}";
    assert_eq!(now[won], 1.0);
    let busy = client.lock("a").group("measured").wait(Duration::ZERO);
    assert!(wait(busy.try_acquire()).unwrap().is_none());
    wait(lease.release()).unwrap();
    let metrics = client.metrics();
    let outcomes: Vec<_> = metrics
        .acquires
        .iter()
        .map(|of| (of.group, of.outcome))
        .collect();
    assert_eq!(outcomes, [("measured", "won"), ("measured", "contended")]);
    let hold = &metrics.holds[0];
    assert_eq!(
        (hold.group, hold.outcome, hold.times.count()),
        ("measured", "released", 1)
    );
    assert!(!hold.times.sum.is_zero());
    assert!(metrics.nodes[0].round_trips.count() >= 2);
    assert_eq!(metrics.held, 0);
}

#[test]
fn a_loss_is_measured_with_its_reason() {
    let client = client("measured-loss");
    let lease = held(&client, "measured-loss");
    wait(client.close());
    assert!(!lease.is_held());
    let now = samples(&client.metrics().to_string());
    assert_eq!(now["quorlock_lost_total{reason=\"closed\"}"], 1.0);
    let lost = "quorlock_hold_duration_seconds_count{group=\"measured-loss\",outcome=\"lost\",mode=\"exclusive\"}";
    assert_eq!(now[lost], 1.0);
}

#[test]
fn a_call_that_is_given_up_is_measured() {
    let client = client("measured-cancel");
    let lease = held(&client, "");
    let second = client.lock("a").group("measured-cancel");
    let mut waits = Box::pin(second.acquire());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    drop(waits);
    drop(lease);
    let cancelled = client.metrics().acquires;
    let cancelled = cancelled.iter().find(|of| of.group == "measured-cancel");
    assert_eq!(cancelled.unwrap().outcome, "cancelled");
}

#[test]
fn re_entries_and_several_names_are_one_call_each() {
    let client = client("measured-several");
    let owner = crate::Owner::named("me");
    let lock = client.lock("a").group("measured-several").owner(owner);
    let first = wait(lock.acquire()).unwrap();
    let again = wait(lock.acquire()).unwrap();
    assert_eq!(client.metrics().acquires[0].times.count(), 1);
    drop((first, again));
    let both = client.lock_all(["b", "c"]).group("measured-both");
    let leases = wait(both.acquire()).unwrap();
    let metrics = client.metrics();
    assert_eq!(metrics.held, 2);
    let of_both = metrics
        .acquires
        .iter()
        .find(|of| of.group == "measured-both");
    assert_eq!(of_both.unwrap().times.count(), 1);
    drop(leases);
}

#[test]
fn what_was_counted_outlives_its_client() {
    let counted = || {
        let won = "quorlock_acquire_duration_seconds_count{group=\"outlives\",outcome=\"won\",mode=\"exclusive\"}";
        samples(&metrics_text()).get(won).copied()
    };
    let first = client("outlives");
    drop(held(&first, "outlives"));
    assert_eq!(counted(), Some(1.0));
    let node_up = || {
        let up = "quorlock_node_up{node=\"memory://outlives\"}";
        samples(&metrics_text()).get(up).copied()
    };
    assert_eq!(node_up(), Some(1.0));
    wait(first.close());
    // A client reports how a node stands once it has asked it.
    assert_eq!(node_up(), None);
    drop(first);
    assert_eq!(counted(), Some(1.0));
    let second = client("outlives");
    drop(held(&second, "outlives"));
    assert_eq!(counted(), Some(2.0));
}

#[test]
fn a_reader_never_finds_less_while_clients_come_and_go() {
    let total = || -> f64 {
        let all = samples(&metrics_text());
        let of = all
            .iter()
            .filter(|(name, _)| name.contains("group=\"come-and-go\""));
        of.filter(|(name, _)| name.contains("hold_duration_seconds_count"))
            .map(|(_, value)| value)
            .sum()
    };
    let working = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                drop(held(&client("come-and-go"), "come-and-go"));
            }
            working.store(false, std::sync::atomic::Ordering::Release);
        });
        let mut last = 0.0;
        while working.load(std::sync::atomic::Ordering::Acquire) {
            let now = total();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
    });
    assert_eq!(total(), 200.0);
}

#[test]
fn labels_are_escaped_and_buckets_grow() {
    let client = client("escaped");
    drop(held(&client, "a\"b\\c"));
    let text = client.metrics().to_string();
    assert!(text.contains("group=\"a\\\"b\\\\c\""), "{text}");
    let buckets: Vec<f64> = text
        .lines()
        .filter(|line| line.starts_with("quorlock_hold_duration_seconds_bucket"))
        .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
        .collect();
    assert_eq!(buckets.len(), crate::protocol::measures::BOUNDS.len() + 1);
    assert!(
        buckets.is_sorted() && buckets.last() == Some(&1.0),
        "{buckets:?}"
    );
}

#[test]
fn a_lease_that_is_passed_on_is_each_time_of_the_group_that_has_it() {
    let client = client("measured-passed-on");
    let lock = client.lock("a").fencing(false).wait(None);
    let (one, other) = (
        lock.clone().group("measured-one"),
        lock.group("measured-other"),
    );
    let first = wait(one.acquire()).unwrap();
    let mut next = std::pin::pin!(other.acquire());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(next.as_mut().poll(&mut cx).is_pending());
    wait(first.release()).unwrap();
    let second = wait(next).unwrap();
    assert_eq!(second.token(), first.token());
    wait(second.release()).unwrap();
    let holds = client.metrics().holds;
    let of = |group| {
        let of = holds.iter().filter(|of| of.group == group);
        of.map(|of| of.times.count()).sum::<u64>()
    };
    assert_eq!((of("measured-one"), of("measured-other")), (1, 1));
}

fn oldest(client: &Client, group: &str) -> Oldest {
    let all = client.metrics().oldest;
    all.into_iter().find(|of| of.group == group).unwrap()
}

#[test]
fn the_oldest_hold_and_the_oldest_wait_are_told_of_each_group() {
    let client = client("oldest");
    let lock = |name: &str| client.lock(name).group("oldest");
    let first = wait(lock("a").acquire()).unwrap();
    let since = system_now();
    let second = wait(lock("b").acquire()).unwrap();
    let held = since.until(system_now());
    let now = oldest(&client, "oldest");
    assert!(now.hold >= held && now.wait.is_zero(), "{now:?}");
    let patient = lock("a").wait(None);
    let mut waits = Box::pin(patient.acquire());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let since = system_now();
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    let now = oldest(&client, "oldest");
    assert!(
        !now.wait.is_zero() && now.wait <= since.until(system_now()),
        "{now:?}"
    );
    let name = "quorlock_oldest_wait_seconds{group=\"oldest\",mode=\"exclusive\"}";
    assert!(samples(&metrics_text())[name] >= now.wait.as_secs_f64());
    drop(waits);
    drop((first, second));
    // The series stays.
    let now = oldest(&client, "oldest");
    assert_eq!((now.hold, now.wait), (Duration::ZERO, Duration::ZERO));
    wait(client.close());
}

#[test]
fn a_candidate_waits_for_as_long_as_another_leads() {
    let client = client("oldest-candidate");
    let election = || client.election("chief").group("oldest-candidate");
    let term = wait(election().campaign()).unwrap();
    let other = election();
    let mut waits = Box::pin(other.campaign());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    let now = oldest(&client, "oldest-candidate");
    assert!(now.wait.is_zero() && !now.hold.is_zero(), "{now:?}");
    drop((waits, term));
}

#[test]
fn a_set_tells_how_many_of_its_nodes_may_fail() {
    let spare = |nodes: usize| {
        let client = Client::new(crate::testing::nodes(nodes)).unwrap();
        drop(held(&client, "spare"));
        let sets = client.metrics().sets;
        sets.iter()
            .map(|of| (of.set.clone(), of.spare))
            .collect::<Vec<_>>()
    };
    let told = |spare| vec![("default".to_owned(), spare)];
    assert!(spare(1).is_empty() && spare(2).is_empty());
    assert_eq!((spare(3), spare(4), spare(5)), (told(1), told(1), told(2)));
    let mut all = Metrics::default();
    for spare in [1, -1, 2] {
        let sets = vec![SetMetrics {
            set: "a".into(),
            spare,
        }];
        all.add(&Metrics {
            sets,
            ..Metrics::default()
        });
    }
    assert_eq!((all.sets.len(), all.sets[0].spare), (1, -1));
    assert!(
        all.to_string()
            .contains("quorlock_spare_nodes{set=\"a\"} -1\n")
    );
    assert!(all.past().sets.is_empty());
}

#[test]
fn what_was_not_counted_yet_is_zero() {
    let none = samples(&Metrics::default().to_string());
    for outcome in ["won", "no_quorum", "failed", "timeout"] {
        assert_eq!(
            none[&format!("quorlock_acquires_total{{outcome=\"{outcome}\"}}")],
            0.0
        );
    }
    assert_eq!(none["quorlock_lost_total{reason=\"expired\"}"], 0.0);
    assert_eq!(
        none["quorlock_oldest_hold_seconds{group=\"\",mode=\"exclusive\"}"],
        0.0
    );
    let client = client("measured-outcomes");
    for group in ["measured-outcome", "measured-outcome-too"] {
        drop(held(&client, group));
    }
    let now = samples(&client.metrics().to_string());
    assert_eq!(now["quorlock_acquires_total{outcome=\"won\"}"], 2.0);
}

#[test]
fn of_a_node_that_several_clients_ask_the_worst_is_told() {
    let node = |used: Option<u64>, certificate_expires| NodeMetrics {
        node: "n".into(),
        up: Some(true),
        clock_offset: None,
        quarantine: Duration::ZERO,
        round_trips: Histogram::default(),
        connects: 0,
        clock_steps: 0,
        memory_used: used,
        memory_limit: used.map(|_| 100),
        certificate_expires,
    };
    let mut all = node(None, None);
    for more in [
        node(Some(7), Some(20)),
        node(None, Some(10)),
        node(Some(5), None),
    ] {
        all.add(&more);
    }
    let told = (all.memory_used, all.memory_limit, all.certificate_expires);
    assert_eq!(told, (Some(7), Some(100), Some(10)));
}
