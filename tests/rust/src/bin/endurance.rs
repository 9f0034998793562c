//! Cycles of a lock, as many as it is told: see `tests/endurance.py`.
//! `endurance blocking|async NAMES`, nodes from `QUORLOCK_NODES`.

use std::io::{BufRead, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quorlock::{Client, Error, Lease, blocking};

const TASKS: usize = 16;

/// Does cycles, each with the next name.
struct Cycles {
    client: Client,
    names: usize,
    leak: bool,
    done: AtomicUsize,
}

impl Cycles {
    async fn one(&self) -> Result<(), Error> {
        let number = self.done.fetch_add(1, Ordering::Relaxed) % self.names;
        let name = format!("endures:{number}");
        let lease = self.client.lock(name.as_str()).acquire().await?;
        lease.release().await?;
        self.keep(lease);
        Ok(())
    }

    fn keep(&self, lease: Lease) {
        if self.leak {
            std::mem::forget(lease);
        }
    }
}

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kind, names] = &words[..] else {
        panic!("usage: endurance blocking|async NAMES");
    };
    let cycles = Arc::new(Cycles {
        client: Client::builder().build()?,
        names: names.parse().expect("a number of names"),
        leak: std::env::var_os("QUORLOCK_LEAK").is_some_and(|leak| !leak.is_empty()),
        done: AtomicUsize::new(0),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("a runtime");
    for line in stdin().lock().lines() {
        let count: usize = line.expect("a line").parse().expect("a number of cycles");
        if kind == "blocking" {
            for _ in 0..count {
                blocking::wait(cycles.one())?;
            }
        } else {
            runtime.block_on(abreast(&cycles, count))?;
        }
        println!("done");
    }
    blocking::wait(cycles.client.close());
    Ok(())
}

async fn abreast(cycles: &Arc<Cycles>, count: usize) -> Result<(), Error> {
    let task = |cycles: Arc<Cycles>| async move {
        for _ in 0..count / TASKS {
            cycles.one().await?;
        }
        Ok(())
    };
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| tokio::spawn(task(cycles.clone())))
        .collect();
    for task in tasks {
        task.await.expect("no panic")?;
    }
    Ok(())
}
