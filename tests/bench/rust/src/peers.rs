//! Quorlock and rslock: workers that acquire and release for a while.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use quorlock::{Lock, blocking};

use crate::measure::{Meter, monotonic};
use crate::words::{COLD_NAMES, Words, cold_name};

const TTL: Duration = Duration::from_secs(30);
const WARM_CYCLES: usize = 200;
/// Enough that each is used up before the run is over.
const COLD_CLIENTS: usize = 160;
/// In shared mode a holder stays inside for so long: without it two holders
/// could hardly meet.
const INSIDE: Duration = Duration::from_millis(1);

/// Who is inside, to see whether two ever are.
#[derive(Clone, Default)]
pub(crate) struct Inside {
    holders: Arc<AtomicU64>,
    violations: Arc<AtomicU64>,
}

impl Inside {
    async fn stay(&self, words: &Words) {
        if words.shared {
            if self.holders.fetch_add(1, Ordering::Relaxed) != 0 {
                self.violations.fetch_add(1, Ordering::Relaxed);
            }
            #[allow(clippy::disallowed_methods)]
            tokio::time::sleep(INSIDE).await;
            self.holders.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

pub(crate) async fn quorlock(words: &Words, on_caller: bool) {
    let open = || {
        let mut builder = words.client().ttl(TTL);
        if on_caller {
            builder = builder.on_current_runtime();
        }
        builder.build().expect("settings")
    };
    // Few names, each taken by many clients in turn, once by each: to the server they are
    // as near as one client's, and no client has used its name lately.
    let cold = words.settings == "cold";
    let clients: Vec<_> = (0..if cold { COLD_CLIENTS } else { 1 })
        .map(|_| open())
        .collect();
    for client in clients.iter().filter(|_| cold) {
        let lease = client.lock("warm").acquire().await;
        lease.expect("the lock is free").release().await.ok();
    }
    let (inside, shared) = (Inside::default(), Arc::new(words.clone()));
    run(words, inside.clone(), |i| {
        let (lock, words) = (clients[0].lock(words.lock_name(i)), shared.clone());
        let (clients, inside, count) = (clients.clone(), inside.clone(), AtomicUsize::new(0));
        move || {
            let lock = if cold {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let client = &clients[number / COLD_NAMES % COLD_CLIENTS];
                client.lock(cold_name(i, number))
            } else {
                lock.clone()
            };
            cycle(lock, words.clone(), inside.clone())
        }
    })
    .await;
}

async fn cycle(lock: Lock, words: Arc<Words>, inside: Inside) -> bool {
    let Ok(lease) = lock.acquire().await else {
        return false;
    };
    inside.stay(&words).await;
    lease.release().await.unwrap_or(false)
}

pub(crate) fn quorlock_blocking(words: &Words) {
    let client = words.client().ttl(TTL).build().expect("settings");
    let lock = client.lock(words.lock_name(0));
    let once = || {
        blocking::wait(lock.acquire())
            .is_ok_and(|lease| blocking::wait(lease.release()).unwrap_or(false))
    };
    (0..WARM_CYCLES).for_each(|_| {
        once();
    });
    let mut meter = Meter::default();
    words.ready();
    meter.start();
    let end = monotonic() + (words.seconds * 1e9) as u64;
    while monotonic() < end {
        meter.time(once);
    }
    println!("{}", meter.finish().json(&words.peer));
    words.end();
}

pub(crate) async fn rslock(words: &Words) {
    let manager = Arc::new(rslock::LockManager::new(words.nodes.clone()));
    run(words, Inside::default(), |i| {
        let (manager, name) = (manager.clone(), words.lock_name(i).into_bytes());
        move || {
            let (manager, name) = (manager.clone(), name.clone());
            async move {
                let Ok(lock) = manager.lock(&name, TTL).await else {
                    return false;
                };
                manager.unlock(&lock).await;
                true
            }
        }
    })
    .await;
}

/// Workers that go on for a while, each on a lock of its own unless shared. They are tasks of the runtime, as a service's
/// are: a `LocalSet` would have the runtime look for what its sockets have brought between a reply and the worker that
/// waits for it.
async fn run<M, C, F>(words: &Words, inside: Inside, mut make: M)
where
    M: FnMut(usize) -> C,
    C: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = bool> + Send + 'static,
{
    let cycles: Vec<C> = (0..words.workers).map(&mut make).collect();
    for cycle in &cycles {
        for _ in 0..(WARM_CYCLES / words.workers).max(2) {
            cycle().await;
        }
    }
    let mut meter = Meter::default();
    words.ready_async().await;
    meter.start();
    let end = monotonic() + (words.seconds * 1e9) as u64;
    let tasks: Vec<_> = cycles
        .into_iter()
        .map(|cycle| {
            tokio::spawn(async move {
                let (mut times, mut failures) = (Vec::with_capacity(1 << 16), 0);
                while monotonic() < end {
                    let begun = monotonic();
                    failures += u64::from(!cycle().await);
                    times.push(monotonic() - begun);
                }
                (times, failures)
            })
        })
        .collect();
    for task in tasks {
        let (times, failures) = task.await.expect("no panic");
        meter.add(times, failures);
    }
    meter.violations = inside.violations.load(Ordering::Relaxed);
    println!("{}", meter.finish().json(&words.peer));
    words.end_async().await;
}
