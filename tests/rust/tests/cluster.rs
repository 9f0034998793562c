//! A Redis Cluster as one node, on real servers.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorlock::{Client, Error, ErrorKind, Lease, Lock, RestartGuard, blocking};
use quorlock_tests::queue::{since, until};
use quorlock_tests::{Stage, monotonic};

const SOON: Duration = Duration::from_millis(300);

fn get(lock: Lock) -> Result<Lease, Error> {
    blocking::wait(lock.acquire())
}

#[test]
fn locks_of_all_shards_are_held_and_given_back() -> Result<(), Error> {
    for clusters in [1, 3] {
        let stage = Stage::like(clusters, &["shards=3"]);
        let (one, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
        for name in (0..30).map(|n| format!("k{n}")) {
            let lease = get(one.lock(&*name))?;
            assert!(lease.is_held() && lease.fence().is_some());
            blocking::wait(lease.extend(Duration::from_secs(20)))?;
            let refused = get(other.lock(&*name).wait(Duration::ZERO)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Contended, "{refused}");
            assert!(blocking::wait(lease.release())?);
            let next = get(other.lock(&*name).wait(SOON))?;
            assert!(next.fence() > lease.fence());
            blocking::wait(next.release())?;
        }
        let shared = get(one.lock("s").shared(true))?;
        let beside = get(other.lock("s").shared(true))?;
        assert!(shared.is_held() && beside.is_held());
        let slots = [get(one.semaphore("p", 2))?, get(other.semaphore("p", 2))?];
        assert_ne!(slots[0].slot(), slots[1].slot());
        let late = get(one.semaphore("p", 2).wait(SOON)).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Timeout, "{late}");
        drop((shared, beside, slots));
        stage.await_nothing_left();
    }
    Ok(())
}

#[test]
fn who_waits_is_called() -> Result<(), Error> {
    let stage = Stage::like(1, &["shards=3"]);
    let (one, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    for name in ["a", "b", "c", "d", "e"] {
        let held = get(one.lock(name))?;
        let waits = other.clone();
        let name = name.to_owned();
        let waiter = std::thread::spawn(move || get(waits.lock(&*name).wait(None)));
        until("it queues", || other.stats().queued == 1);
        let begun = monotonic();
        blocking::wait(held.release())?;
        let lease = waiter.join().unwrap()?;
        eprintln!("handed over after {:?}", since(begun));
        blocking::wait(lease.release())?;
    }
    stage.await_nothing_left();
    Ok(())
}

/// The hash slot of a lock is moved, step by step, while it is held, and while somebody waits
/// for it.
#[test]
fn a_lock_outlives_the_move_of_its_hash_slot() -> Result<(), Error> {
    let stage = Stage::like(1, &["shards=3"]);
    let client = |ttl| {
        let builder = Client::builder().nodes(&stage.nodes);
        builder.ttl(Duration::from_millis(ttl)).build()
    };
    let (one, other) = (client(1000)?, client(1000)?);
    for step in ["held", "waited"] {
        let lock = one.lock(step).wait(None);
        let held = get(lock)?;
        let waiter = (step == "waited").then(|| {
            let waits = other.clone();
            let waiter = std::thread::spawn(move || get(waits.lock("waited").wait(None)));
            until("it queues", || other.stats().queued == 1);
            waiter
        });
        stage.tell(&format!("begin-move 1 lock:{{{step}}} next"));
        // Longer than its ttl: it is renewed.
        quorlock_tests::nap(Duration::from_millis(1500));
        assert!(held.is_held(), "{:?}", held.loss());
        stage.tell(&format!("move-keys 1 lock:{{{step}}}"));
        quorlock_tests::nap(Duration::from_millis(1500));
        assert!(held.is_held(), "{:?}", held.loss());
        let refused = get(one.lock(step).wait(Duration::ZERO)).unwrap_err();
        assert!(refused.to_string().contains("is being moved"), "{refused}");
        stage.tell(&format!("end-move 1 lock:{{{step}}}"));
        quorlock_tests::nap(Duration::from_millis(500));
        assert!(held.is_held());
        let begun = monotonic();
        assert!(blocking::wait(held.release())?);
        let next = match waiter {
            Some(waiter) => waiter.join().unwrap()?,
            None => get(other.lock(step).wait(SOON))?,
        };
        eprintln!("{step}: handed over after {:?}", since(begun));
        assert!(next.fence() > held.fence());
        blocking::wait(next.release())?;
    }
    stage.await_nothing_left();
    Ok(())
}

/// A server that has joined gives no vote before it serves a hash slot: nothing says until then
/// whether keys of those that are on their way to it were lost. Then its shard is new, and marked.
#[test]
fn a_server_that_is_given_its_first_hash_slot_does_not_vote() -> Result<(), Error> {
    let stage = Stage::like(1, &["shards=3"]);
    let client = Client::new(&stage.nodes)?;
    let refused = |why: &str| {
        let error = get(client.lock("arriving").wait(Duration::from_secs(2))).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    };
    blocking::wait(get(client.lock("arriving"))?.release())?;
    stage.tell("await-free lock:{arriving} 5000");
    stage.tell("join 1");
    stage.tell("begin-move 1 lock:{arriving} new");
    stage.tell("move-keys 1 lock:{arriving}");
    refused("first hash slots");
    stage.tell("end-move 1 lock:{arriving}");
    refused("quarantine");
    let elsewhere = get(client.lock("elsewhere"))?;
    assert!(blocking::wait(elsewhere.release())?);
    Ok(())
}

/// A text that has that hash slot as its tag.
fn tag(slot: u16) -> String {
    let tags = (0..).map(|n: u32| n.to_string());
    let of = |tag: &String| quorlock::sim::probe::hash_slot(tag.as_bytes());
    { tags }.find(|tag| of(tag) == slot).expect("each has one")
}

/// A process that comes at any moment of a reshard finds every shard voting: also while the
/// hash slot moves in which its shard has its stamp, or the cluster its record; and however many
/// have moved away.
#[test]
fn hash_slots_that_move_put_no_shard_in_quarantine() -> Result<(), Error> {
    let stage = Stage::like(1, &["shards=3"]);
    let wait = Duration::from_secs(20);
    let comes = |name: &str| {
        let client = Client::new(&stage.nodes)?;
        let lease = get(client.lock(name).wait(wait))?;
        assert!(blocking::wait(lease.release())?, "{name}");
        blocking::wait(client.close());
        Ok::<_, Error>(())
    };
    // One in each third of the hash slots; those of the first are moved below this one.
    let names = [5_000, 8_000, 14_000].map(|slot| format!("{{{}}}", tag(slot)));
    let first = Client::new(&stage.nodes)?;
    let held: Vec<Lease> = names
        .iter()
        .map(|name| get(first.lock(format!("{name}held"))))
        .collect::<Result<_, _>>()?;
    comes(&names[0])?;
    for key in [0, 5_460, 512].map(|slot| format!("{{{}}}", tag(slot))) {
        for step in [
            "begin-move 1 KEY shard3",
            "move-keys 1 KEY",
            "end-move 1 KEY",
        ] {
            stage.tell(&step.replace("KEY", &key));
            comes(&names[0])?;
        }
    }
    for step in ["begin-move 1 lock:#node shard3", "move-keys 1 lock:#node"] {
        stage.tell(step);
        comes(&names[0])?;
    }
    stage.tell("end-move 1 lock:#node");
    let over = AtomicBool::new(false);
    let counts = std::thread::scope(|scope| {
        let (over, comes) = (&over, &comes);
        let come = |name| {
            scope.spawn(move || -> Result<u32, Error> {
                let mut count = 0;
                while !over.load(Ordering::Acquire) {
                    comes(name)?;
                    count += 1;
                }
                Ok(count)
            })
        };
        let come: Vec<_> = names.iter().map(|name| come(name)).collect();
        stage.tell(&format!("reshard 1 {} 2730 shard3", names[0]));
        over.store(true, Ordering::Release);
        let counts = come.into_iter().map(|task| task.join().expect("it ends"));
        counts.collect::<Result<Vec<_>, _>>()
    })?;
    eprintln!("{counts:?} processes came meanwhile");
    comes(&names[0])?;
    assert_eq!(stage.tell("redis 1 KEYS lock:%23quarantine*"), "");
    for lease in held {
        assert!(lease.is_held() && blocking::wait(lease.release())?);
    }
    Ok(())
}

/// A name whose lock is in the first shard, or is not.
fn name_in(stage: &Stage, first: bool) -> String {
    let is_there = |name: &String| {
        let slot = stage.tell(&format!("redis 1.shard1 CLUSTER KEYSLOT lock:{{{name}}}"));
        (slot.parse::<u32>().expect("a number") < 16_384 / 3) == first
    };
    let mut names = (0..).map(|n| format!("k{n}"));
    names.find(is_there).expect("one of them is")
}

/// Waits until the replica has all that this primary has been given by now. `WAIT` tells that
/// of what its own connection has written, which is nothing here.
fn replicated(stage: &Stage, primary: &str) {
    let offset = |behind: &str| -> u64 {
        let info = stage.tell(&format!("redis {primary} INFO replication"));
        let (_, rest) = info.split_once(behind).expect("a primary with a replica");
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a number")
    };
    let given = offset("master_repl_offset:");
    until("it is replicated", || offset(",offset=") >= given);
}

/// A replica takes the place of a primary that has died: whoever held a lock there has it, as
/// far as its vote was replicated, nobody gets one that may be held, and other shards go on.
#[test]
fn a_shard_that_failed_over_gives_no_vote_for_a_while() -> Result<(), Error> {
    let stage = Stage::like(1, &["shards=3", "replicas=1"]);
    let (one, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    let (here, elsewhere) = (name_in(&stage, true), name_in(&stage, false));
    let held = get(one.lock(&*here).ttl(Duration::from_secs(30)))?;
    replicated(&stage, "1.shard1");
    stage.tell("kill 1.shard1");
    stage.tell("await-failover 1 20000");
    let next = get(other.lock(&*elsewhere).wait(Duration::from_secs(5)))?;
    assert!(held.is_held() && next.is_held());
    let refused = get(other.lock(&*here).wait(SOON)).unwrap_err();
    eprintln!("{refused}");
    let new = get(other
        .lock(format!("new:{{{here}}}"))
        .wait(Duration::from_secs(2)));
    let new = new.unwrap_err();
    assert!(new.to_string().contains("quarantine"), "{new}");
    // Its shard has the vote, and takes the release.
    assert!(blocking::wait(held.release())?);
    stage.tell(&format!("await-free lock:{{{here}}} 5000"));
    Ok(())
}

/// A connection of ours to a server.
struct Raw(BufReader<TcpStream>);

impl Raw {
    fn to(stage: &Stage, node: &str) -> Raw {
        let port = stage.tell(&format!("redis {node} CONFIG GET port"));
        let port = port.split_whitespace().last().expect("a port");
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
        Raw(BufReader::new(stream))
    }

    /// Bytes of a command.
    fn command(words: &[&[u8]]) -> Vec<u8> {
        let mut out = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            out.extend(format!("${}\r\n", word.len()).bytes());
            out.extend(word.iter().chain(b"\r\n"));
        }
        out
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    }

    /// The answer to a command, without what says how long it is.
    fn call(&mut self, words: &[&str]) -> Vec<String> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.0
            .get_mut()
            .write_all(&Raw::command(&words))
            .expect("it is written");
        let first = self.line();
        match first.as_bytes()[0] {
            b'*' => (0..first[1..].parse().expect("a number"))
                .map(|_| self.one())
                .collect(),
            b'$' if first != "$-1" => vec![self.line()],
            _ => vec![first],
        }
    }

    fn one(&mut self) -> String {
        let first = self.line();
        if first.starts_with('$') {
            self.line()
        } else {
            first
        }
    }
}

/// The script that lengthens a vote while its hash slot is being moved stores nothing, and takes
/// nothing from anybody.
#[test]
fn prolong_lengthens_what_stands_and_does_nothing_else() {
    let stage = Stage::new(1);
    let mut raw = Raw::to(&stage, "1");
    let (script, _) = quorlock::sim::probe::prolong();
    let time: u64 = raw.call(&["TIME"])[0].parse().expect("a number");
    let (soon, past) = ((time + 1) * 1_000_000, (time - 9) * 1_000_000);
    let late = (time + 1000) * 1_000_000;
    let mine = &format!("{:040x}.mine", 1);
    let another = &format!("{:040x}.mine", 2);
    let cases = [
        // What stands there, its life, when it is too late; the answer, and the least life then.
        (None, 0, late, ":0", None),
        (Some(mine.clone()), 1_000, late, ":1", Some(4_000)),
        (Some(mine.clone()), 60_000, late, ":1", Some(50_000)),
        (Some(another.clone()), 1_000, late, ":0", Some(0)),
        (
            Some(format!("={soon} {mine}")),
            1_000,
            late,
            ":1",
            Some(4_000),
        ),
        (Some(format!("={past} {mine}")), 1_000, late, ":0", Some(0)),
        (
            Some(format!("={soon} {another}")),
            1_000,
            late,
            ":0",
            Some(0),
        ),
        (Some(format!("-{soon} {mine}")), 1_000, late, ":0", Some(0)),
        (Some(format!("@{soon} {mine}")), 1_000, late, ":0", Some(0)),
        (Some(mine.clone()), 1_000, 1, ":5", Some(0)),
    ];
    for (value, life, not_after, says, least) in cases {
        raw.call(&["DEL", "k"]);
        if let Some(value) = &value {
            raw.call(&["SET", "k", value, "PX", &life.to_string()]);
        }
        let answer = raw.call(&[
            "EVAL",
            script,
            "1",
            "k",
            mine,
            "5000",
            &not_after.to_string(),
        ]);
        assert_eq!(answer[0], says, "{value:?}");
        let left: i64 = raw.call(&["PTTL", "k"])[0][1..].parse().expect("a number");
        let Some(least) = least else {
            assert_eq!(left, -2, "nothing is stored");
            continue;
        };
        assert!(
            left >= least && (least > 0 || left <= 1_000),
            "{value:?} lives for {left}"
        );
        let stands = raw.call(&["GET", "k"])[0].clone();
        if says != ":1" || !value.as_ref().unwrap().starts_with('=') {
            assert_eq!(Some(stands), value);
        } else {
            let (till, whose) = stands[1..].split_once(' ').expect("two words");
            assert!(
                whose == mine && till.parse::<u64>().unwrap() > soon,
                "{stands}"
            );
        }
    }
    raw.call(&["DEL", "k"]);
    raw.call(&["ZADD", "k", "1", mine]);
    assert_eq!(
        raw.call(&["EVAL", script, "1", "k", mine, "5000", &late.to_string()])[0],
        ":0"
    );
}

/// The numbers of hash slots, as the servers count them, of names of every shape.
#[test]
fn hash_slots_are_those_of_the_servers() {
    let stage = Stage::like(1, &["shards=3"]);
    let mut raw = Raw::to(&stage, "1.shard1");
    let mut random = 7_u64;
    let mut next = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) as usize
    };
    let keys: Vec<Vec<u8>> = (0..10_000)
        .map(|n| match n {
            0 => b"lock:{}x".to_vec(),
            1 => b"lock:{{a}}".to_vec(),
            2 => b"}a{".to_vec(),
            _ => (0..1 + next() % 24)
                .map(|_| b"ab{}:\xff\x00z"[next() % 8])
                .collect(),
        })
        .collect();
    let out: Vec<u8> = keys
        .iter()
        .flat_map(|key| Raw::command(&[b"CLUSTER", b"KEYSLOT", key]))
        .collect();
    let mut writes = raw.0.get_ref().try_clone().expect("a socket");
    let writer = std::thread::spawn(move || writes.write_all(&out));
    for key in &keys {
        let slot: u16 = raw.line()[1..].parse().expect("a number");
        assert_eq!(
            quorlock::sim::probe::hash_slot(key),
            slot,
            "{}",
            key.escape_ascii()
        );
    }
    writer.join().unwrap().expect("all is written");
}

/// Servers of two clusters in one URL would be one node with two memories.
#[test]
fn servers_of_two_clusters_are_not_one_node() -> Result<(), Error> {
    for guard in [RestartGuard::Off, RestartGuard::Auto] {
        let stage = Stage::like(2, &["shards=3", "new"]);
        let urls: Vec<&str> = stage
            .nodes
            .iter()
            .map(|url| url.rsplit("//").next().unwrap())
            .collect();
        let both = format!("redis+cluster://{};{}", urls[0], urls[1]);
        let client = Client::builder()
            .nodes([both])
            .restart_guard(guard)
            .build()?;
        // What was found out is told from then on; the first may have been won before.
        let mut last = None;
        until("it is refused", || {
            last = get(client.lock("a").wait(Duration::ZERO)).err();
            last.as_ref()
                .is_some_and(|e| e.kind() == ErrorKind::Misconfigured)
        });
        let error = last.expect("looked at above").to_string();
        assert!(error.contains("another cluster"), "{error}");
    }
    Ok(())
}

/// A cluster behind an address translation announces what clients cannot reach.
#[test]
fn an_announced_address_that_nobody_answers_at_is_named() -> Result<(), Error> {
    // Of several servers the others would tell the former address for a while.
    let stage = Stage::like(1, &["shards=1"]);
    stage.tell("redis 1 CONFIG SET cluster-announce-ip 127.9.9.9");
    stage.tell("await 1 has:127.9.9.9 5000 CLUSTER NODES");
    let client = Client::new(&stage.nodes)?;
    let error = get(client.lock("a").wait(SOON)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuorumUnavailable, "{error}");
    let error = error.to_string();
    assert!(
        error.contains("127.9.9.9") && error.contains("cluster-announce-ip"),
        "{error}"
    );
    Ok(())
}

/// Whoever is no part of a cluster is told from one that does not answer, and the other way round.
#[test]
fn a_wrong_kind_of_url_is_told() -> Result<(), Error> {
    let alone = Stage::new(1);
    let cluster = Stage::like(1, &["shards=3"]);
    let as_cluster = alone.nodes[0].replace("redis://", "redis+cluster://");
    let port = as_cluster.rsplit('/').next().unwrap();
    let host = cluster.nodes[0]
        .rsplit('/')
        .next()
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    for (url, says) in [
        (
            format!("redis+cluster://{port}"),
            "redis:// in place of redis+cluster://",
        ),
        (format!("redis://{host}"), "redis+cluster://"),
    ] {
        let client = Client::new([&url])?;
        let error = get(client.lock("a").wait(SOON)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    Ok(())
}
