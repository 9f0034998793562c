//! Locks in Redisson's layout, on real servers. Java's side is played by what its `RLock` and
//! `RFencedLock` tell a server; the real one takes part in tests/interop/redisson.

use std::task::{Context, Waker};
use std::time::Duration;

use quorlock::{Client, Error, ErrorKind, Layout, Lease, Lock, Owner, blocking};
use quorlock_tests::queue::{since, until};
use quorlock_tests::{Stage, escaped, monotonic};

const JAVA: &str = "0e1d-java:1";

/// `RLock.tryLock`, for half a minute.
const ENTER: &str = "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then \
    redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return -9 end \
    return redis.call('pttl', KEYS[1])";

/// `RLock.unlock`.
const LEAVE: &str = "if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return -9 end \
    if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then redis.call('pexpire', KEYS[1], ARGV[1]) return 0 end \
    redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], 0) return 1";

/// Java's thread of that name.
struct Java<'a>(&'a Stage, &'static str);

impl Java<'_> {
    fn call(&self, script: &str) -> i64 {
        let said = self.0.tell(&format!(
            "redis 1 EVAL {} 2 a redisson_lock__channel:{{a}} 30000 {}",
            escaped(script),
            self.1
        ));
        said.trim().parse().expect("a number")
    }

    fn enter(&self) -> bool {
        self.call(ENTER) == -9
    }

    fn leave(&self) -> i64 {
        self.call(LEAVE)
    }

    /// `RLock.forceUnlock`.
    fn force(&self) {
        self.0.tell("redis 1 DEL a");
        self.0.tell("redis 1 PUBLISH redisson_lock__channel:{a} 0");
    }
}

fn lock(client: &Client) -> Lock {
    client.lock("a").layout(Layout::Redisson)
}

fn get(lock: Lock) -> Result<Lease, Error> {
    blocking::wait(lock.acquire())
}

fn release(lease: &Lease) -> bool {
    blocking::wait(lease.release()).expect("nothing is wrong")
}

fn contended(lock: Lock) {
    let refused = get(lock.wait(Duration::ZERO)).expect_err("it is held");
    assert_eq!(refused.kind(), ErrorKind::Contended, "{refused}");
}

/// Nothing of the lock is left but its counter.
fn await_free(stage: &Stage) {
    until("nothing is left but the counter", || {
        let keys = stage.tell("redis 1 KEYS %2A");
        let mut keys = keys.split_whitespace();
        keys.all(|key| key == "redisson_lock_token:{a}" || key == "lock:#node")
    });
    until("nobody listens", || {
        let channels = stage.tell("redis 1 PUBSUB CHANNELS redisson%2A");
        channels.trim().is_empty()
    });
}

#[test]
fn each_keeps_the_other_out_and_fences_are_of_one_order() -> Result<(), Error> {
    let stage = Stage::new(1);
    let (one, java) = (Client::new(&stage.nodes)?, Java(&stage, JAVA));
    let mut last = 0;
    for _ in 0..10 {
        let lease = get(lock(&one))?;
        assert!(!java.enter());
        contended(lock(&one));
        let fence = lease.fence().expect("it has one");
        assert!(fence > last);
        assert!(release(&lease) && !release(&lease));
        assert!(java.enter());
        contended(lock(&one));
        let counted = stage.tell("redis 1 INCR redisson_lock_token:{a}");
        last = counted.trim().parse().expect("a number");
        assert!(last > fence);
        assert_eq!(java.leave(), 1);
    }
    assert_eq!(
        stage.tell("redis 1 PTTL redisson_lock_token:{a}").trim(),
        "-1"
    );
    await_free(&stage);
    Ok(())
}

#[test]
fn fences_of_what_is_passed_on_are_before_the_next_of_java() -> Result<(), Error> {
    let stage = Stage::new(1);
    let one = Client::new(&stage.nodes)?;
    let patient = lock(&one).wait(None);
    let mut held = get(lock(&one))?;
    let mut waits: Vec<_> = (0..3).map(|_| Box::pin(patient.acquire())).collect();
    for wait in &mut waits {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut cx).is_pending());
    }
    let count = |command| -> u64 {
        let counted = stage.tell(&format!("redis 1 {command} redisson_lock_token:{{a}}"));
        counted.trim().parse().expect("a number")
    };
    let mut passed = 0;
    for wait in waits {
        assert!(release(&held));
        let next = blocking::wait(wait)?;
        let fence = next.fence().expect("it has one");
        assert!(Some(fence) > held.fence() && fence <= count("GET"));
        passed += u32::from(next.token() == held.token());
        held = next;
    }
    assert_eq!(passed, 2, "the first of them asks the node");
    let last = held.fence();
    assert!(release(&held));
    assert!(Some(count("INCR")) > last);
    await_free(&stage);
    Ok(())
}

#[test]
fn each_wakes_the_other() -> Result<(), Error> {
    let stage = Stage::new(1);
    let java = Java(&stage, JAVA);
    let clients: Vec<Client> = (0..2)
        .map(|_| Client::new(&stage.nodes))
        .collect::<Result<_, _>>()?;
    let mut slowest = Duration::ZERO;
    for round in 0..20 {
        // Of Java, and of another client of ours.
        let held = match round % 2 {
            0 => {
                assert!(java.enter());
                None
            }
            _ => Some(get(lock(&clients[1]))?),
        };
        let waits = lock(&clients[0]).wait(Duration::from_secs(20));
        let waiter = std::thread::spawn(move || get(waits).map(|lease| (monotonic(), lease)));
        until("it listens", || {
            let channels = stage.tell("redis 1 PUBSUB CHANNELS redisson%2A");
            channels.trim() == "redisson_lock__channel:{a}"
        });
        let begun = monotonic();
        match held {
            None => assert_eq!(java.leave(), 1),
            Some(lease) => assert!(release(&lease)),
        }
        let (woken, lease) = waiter.join().expect("it ends")?;
        slowest = slowest.max(since(begun).saturating_sub(since(woken)));
        assert!(release(&lease));
        await_free(&stage);
    }
    println!("the slowest of 20 was there {slowest:?} after the release");
    // How fast is for a bench to say; a busy machine may take its time.
    assert!(slowest < Duration::from_secs(10));
    Ok(())
}

#[test]
fn a_named_owner_is_one_in_all_processes_and_in_java() -> Result<(), Error> {
    let stage = Stage::new(1);
    let (one, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    let (java, stranger) = (Java(&stage, JAVA), Java(&stage, "0e1d-java:2"));
    let ours = |client: &Client| {
        let short = lock(client).ttl(Duration::from_secs(3));
        short.owner(Owner::named(JAVA))
    };
    let first = get(ours(&one))?;
    // Within a client no request is needed, and nothing is counted there.
    let again = get(ours(&one))?;
    assert_eq!(stage.tell(&format!("redis 1 HGET a {JAVA}")).trim(), "1");
    let second = get(ours(&other))?;
    assert_eq!(second.fence(), first.fence(), "it is the owner's");
    assert!(java.enter() && !stranger.enter());
    contended(lock(&other));
    assert_eq!(stage.tell(&format!("redis 1 HGET a {JAVA}")).trim(), "3");
    assert!(release(&first) && again.is_held());
    assert_eq!(stage.tell(&format!("redis 1 HGET a {JAVA}")).trim(), "3");
    assert!(release(&again));
    assert_eq!(java.leave(), 0);
    blocking::wait(second.extend(None))?;
    contended(lock(&one));
    assert!(!stranger.enter());
    assert!(release(&second));
    await_free(&stage);
    let later = get(ours(&one))?;
    assert!(later.fence() > second.fence());
    assert!(release(&later));
    // A lock of Java's that takes no fence: ours has one above all before it.
    assert!(java.enter());
    let inside = get(ours(&one))?;
    assert!(inside.fence() > later.fence());
    assert!(release(&inside));
    assert_eq!(java.leave(), 1);
    await_free(&stage);
    Ok(())
}

#[test]
fn what_is_forced_open_is_lost_and_stays_so() -> Result<(), Error> {
    let stage = Stage::new(1);
    let (one, java) = (Client::new(&stage.nodes)?, Java(&stage, JAVA));
    for owner in [None, Some(Owner::named(JAVA))] {
        let lease = get(lock(&one).owner(owner))?;
        java.force();
        let lost = blocking::wait(lease.extend(None)).expect_err("it is gone");
        assert_eq!(lost.kind(), ErrorKind::LockLost, "{lost}");
        assert!(!release(&lease));
        assert!(java.enter());
        assert_eq!(java.leave(), 1);
        await_free(&stage);
    }
    Ok(())
}

#[test]
fn waits_end_in_time_and_nobody_listens_any_more() -> Result<(), Error> {
    let stage = Stage::new(1);
    let (one, java) = (Client::new(&stage.nodes)?, Java(&stage, JAVA));
    assert!(java.enter());
    let late = get(lock(&one).wait(Duration::from_millis(300))).expect_err("it is held");
    assert_eq!(late.kind(), ErrorKind::Timeout, "{late}");
    assert!(late.to_string().contains(JAVA), "{late}");
    until("nobody listens", || {
        stage
            .tell("redis 1 PUBSUB CHANNELS redisson%2A")
            .trim()
            .is_empty()
    });
    // A lock whose time is over is had without a word of its holder.
    stage.tell("redis 1 PEXPIRE a 700");
    let lease = get(lock(&one).wait(Duration::from_secs(20)))?;
    assert!(release(&lease));
    await_free(&stage);
    Ok(())
}

#[test]
fn other_layouts_are_told_apart() -> Result<(), Error> {
    let stage = Stage::new(1);
    let (client, other) = (Client::new(&stage.nodes)?, Client::new(&stage.nodes)?);
    let plain = get(other.lock("a").raw(true))?;
    let refused = get(lock(&client)).expect_err("the key is a string");
    assert_eq!(refused.kind(), ErrorKind::Misconfigured, "{refused}");
    assert!(release(&plain));
    let java = Java(&stage, JAVA);
    assert!(java.enter());
    let refused = get(client.lock("a").raw(true)).expect_err("the key is a hash");
    assert_eq!(refused.kind(), ErrorKind::Misconfigured, "{refused}");
    assert!(refused.to_string().contains("layout"), "{refused}");
    assert!(!refused.to_string().contains("delete it"), "{refused}");
    assert_eq!(java.leave(), 1);
    stage.tell("redis 1 HSET a mode read");
    let refused = get(lock(&client)).expect_err("it is a read-write lock");
    assert_eq!(refused.kind(), ErrorKind::Misconfigured, "{refused}");
    assert!(refused.to_string().contains("RReadWriteLock"), "{refused}");
    Ok(())
}

#[test]
fn many_nodes_and_memory_keep_such_locks_too() -> Result<(), Error> {
    let stage = Stage::new(3);
    let memory = ["memory://redisson".to_owned()];
    for nodes in [&stage.nodes[..], &memory[..]] {
        let (one, other) = (Client::new(nodes)?, Client::new(nodes)?);
        let lease = get(lock(&one))?;
        contended(lock(&other));
        assert!(blocking::wait(lock(&other).is_locked())?);
        let waits = lock(&other).wait(Duration::from_secs(20));
        let waiter = std::thread::spawn(move || get(waits));
        blocking::wait(lease.extend(None))?;
        assert!(release(&lease));
        let second = waiter.join().expect("it ends")?;
        assert!(second.fence() > lease.fence());
        let owner = || Owner::named("x");
        assert!(release(&second));
        let (a, b) = (
            get(lock(&one).owner(owner()))?,
            get(lock(&other).owner(owner()))?,
        );
        assert!(release(&a) && b.is_held());
        contended(lock(&one));
        assert!(release(&b));
        let third = get(lock(&one))?;
        assert!(third.fence() > b.fence());
        assert!(release(&third));
    }
    Ok(())
}

#[test]
fn what_redisson_does_not_know_is_refused() -> Result<(), Error> {
    let client = Client::new(["memory://refused"])?;
    let refused = |lock: Lock, word: &str| {
        let error = lock.check().expect_err("it is refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    };
    refused(lock(&client).shared(true), "shared");
    refused(lock(&client).slots(3), "slots");
    refused(lock(&client).keep(Duration::from_secs(1)), "keep");
    refused(lock(&client).owner(Owner::named("")), "256");
    refused(lock(&client).owner(Owner::named("a\n")), "control");
    assert!("hash".parse::<Layout>().is_err());
    let lease = get(lock(&client))?;
    let error = blocking::wait(lease.export()).expect_err("it is not exported");
    assert!(error.to_string().contains("layout"), "{error}");
    assert!(release(&lease));
    Ok(())
}

/// What a script does may be refused in its middle, by a user that lacks one command or key: what
/// is Java's stays Java's, and a release says what it has done.
#[test]
fn what_a_user_may_not_do_takes_nothing_from_java() -> Result<(), Error> {
    let stage = Stage::like(1, &["auth"]);
    let java = Java(&stage, JAVA);
    let all = "~* &* +@all";
    let permit = |words: &str| stage.permit(words.split(' '));
    let count = || {
        stage
            .tell(&format!("redis 1 HGET a {JAVA}"))
            .trim()
            .to_owned()
    };
    let lacking = [
        "hgetall", "hget", "hset", "hincrby", "hdel", "get", "set", "del", "pttl", "pexpire",
        "publish", "time",
    ];
    let lacking = lacking.map(|command| format!("{all} -{command}"));
    let keys = [
        "%R~a ~lock:* ~redisson*",
        "~a %R~lock:#h* ~lock:#[^h]* ~redisson*",
        "~a ~lock:* %R~redisson*",
    ];
    let keys = keys.map(|keys| format!("{keys} &* +@all"));
    let (mut refused, mut undone) = (0, 0);
    for words in lacking.iter().chain(&keys) {
        // From before it is entered, or when it is to be left.
        for before in [true, false] {
            for held_by_java in [true, false] {
                let case = format!("{words}, before {before}, Java's {held_by_java}");
                assert!(!held_by_java || java.enter());
                permit(if before { words } else { all });
                let client = Client::new(&stage.nodes)?;
                let ours = lock(&client).owner(Owner::named(JAVA));
                let entered = get(ours.wait(Duration::ZERO));
                permit(words);
                let mut left = usize::from(held_by_java);
                match entered {
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{case}: {error}");
                        refused += 1;
                    }
                    Ok(lease) if release(&lease) => {}
                    Ok(_) => {
                        left += 1;
                        undone += 1;
                    }
                }
                // Its releases have been answered by then.
                blocking::wait(client.close());
                let left = Some(left.to_string()).filter(|_| left > 0);
                assert_eq!(count(), left.unwrap_or("nil".into()), "{case}");
                // Nothing stands for ever.
                assert_ne!(stage.tell("redis 1 PTTL a").trim(), "-1", "{case}");
                // A release that was refused is tried again, and is to find nothing of a later case.
                for tokens in stage.tell("redis 1 KEYS lock:%23h*").split_whitespace() {
                    stage.tell(&format!("redis 1 DEL {}", escaped(tokens)));
                }
                stage.tell("redis 1 DEL a");
            }
        }
    }
    assert!(refused > 10 && undone > 2, "{refused} {undone}");
    Ok(())
}
