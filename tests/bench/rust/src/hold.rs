//! Many locks held and renewed, and what that costs.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::measure::{cpu, monotonic};
use crate::words::Words;

const TTL: Duration = Duration::from_secs(10);
/// Acquired in parallel, this many at a time.
const TOGETHER: usize = 100;

pub(crate) async fn quorlock(words: &Words, on_caller: bool) {
    let watched = Watched::begin();
    let mut builder = words.client().ttl(TTL);
    if on_caller {
        builder = builder.on_current_runtime();
    }
    let client = builder.build().expect("settings");
    let mut leases = Vec::with_capacity(words.workers);
    while leases.len() < words.workers {
        let tasks: Vec<_> = (leases.len()..words.workers.min(leases.len() + TOGETHER))
            .map(|i| {
                let lock = client.lock(words.lock_name(i));
                tokio::task::spawn_local(async move { lock.acquire().await })
            })
            .collect();
        for task in tasks {
            leases.push(task.await.expect("no panic").expect("the lock is free"));
        }
    }
    let lost = || leases.iter().filter(|lease| !lease.is_held()).count();
    watched.watch(words, lost).await;
    client.close().await;
}

pub(crate) async fn rslock(words: &Words) {
    let watched = Watched::begin();
    let manager = Rc::new(rslock::LockManager::new(words.nodes.clone()));
    let (held, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let mut begun = 0;
    while begun < words.workers {
        let more = TOGETHER.min(words.workers - begun);
        for i in begun..begun + more {
            let (manager, name) = (manager.clone(), words.lock_name(i).into_bytes());
            let (held, ended) = (held.clone(), ended.clone());
            // Only `using` renews; its body here never ends.
            tokio::task::spawn_local(async move {
                let body = async || {
                    held.set(held.get() + 1);
                    std::future::pending::<()>().await
                };
                let _ = manager.using(&name, TTL, body).await;
                ended.set(ended.get() + 1);
            });
        }
        begun += more;
        while held.get() + ended.get() < begun {
            tokio::task::yield_now().await;
        }
    }
    watched.watch(words, || ended.get()).await;
}

/// Memory, threads and CPU around a hold.
struct Watched {
    begun: u64,
    memory: u64,
    threads: u64,
}

impl Watched {
    fn begin() -> Watched {
        Watched {
            begun: monotonic(),
            memory: status("VmRSS:"),
            threads: status("Threads:"),
        }
    }

    async fn watch(self, words: &Words, lost: impl Fn() -> usize) {
        let acquired = monotonic() - self.begun;
        words.ready_async().await;
        let (wall, used) = (monotonic(), cpu());
        #[allow(clippy::disallowed_methods)]
        tokio::time::sleep(Duration::from_secs_f64(words.seconds)).await;
        let percent = 100.0 * (cpu() - used) as f64 / (monotonic() - wall) as f64;
        println!(
            "{{\"peer\": \"{}\", \"locks\": {}, \"lost\": {}, \"acquired_s\": {:.2}, \"cpu_percent\": {percent:.2}, \
             \"rss_kib\": {}, \"rss_before_kib\": {}, \"threads\": {}, \"threads_before\": {}}}",
            words.peer,
            words.workers,
            lost(),
            acquired as f64 / 1e9,
            status("VmRSS:"),
            self.memory,
            status("Threads:"),
            self.threads,
        );
        words.end_async().await;
    }
}

/// A number from this process's status.
fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}
