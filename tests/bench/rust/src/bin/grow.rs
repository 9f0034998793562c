//! What clients, names and waiters cost as they become more: `grow KIND COUNT`, nodes from `QUORLOCK_NODES`.
//!
//! | kind | what there is COUNT of | what each line of standard input does |
//! |---|---|---|
//! | `clients` | clients with a lock each | all acquire and release at once |
//! | `names` | locks of one client, 64 in flight | each is acquired and released once |
//! | `queue` | clients that wait for one lock, which another has | it is released, and each in turn has it |
//! | `local` | calls of one client that wait for one lock | the same |
//!
//! For each line it prints one of JSON, and one when all is there. It ends with its input.

#[allow(dead_code)]
#[path = "../measure.rs"]
mod measure;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use measure::{Meter, monotonic};
use quorlock::{Client, ErrorKind, Lease, Lock};
use tokio::task::{JoinHandle, spawn_local};

const IN_FLIGHT: usize = 64;
/// How long a waiter waits, and a client for a lock that no other wants.
const WAIT: Duration = Duration::from_secs(300);
const WAIT_ALONE: Duration = Duration::from_secs(10);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((kind, count)) = words.first().zip(words.get(1).and_then(|n| n.parse().ok())) else {
        eprintln!("usage: grow clients|names|queue|local COUNT");
        std::process::exit(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        match kind.as_str() {
            "clients" => clients(count).await,
            "names" => names(count).await,
            "queue" => queue((0..count).map(|_| client(WAIT)).collect()).await,
            "local" => queue(vec![client(WAIT); count]).await,
            other => eprintln!("no kind {other}"),
        }
    });
    runtime.shutdown_background();
}

fn client(wait: Duration) -> Client {
    Client::builder().wait(wait).build().expect("settings")
}

async fn clients(count: usize) {
    let clients: Vec<Client> = (0..count).map(|_| client(WAIT_ALONE)).collect();
    let lock = |(number, client): (usize, &Client)| client.lock(format!("grow-{number}"));
    let locks: Vec<Lock> = clients.iter().enumerate().map(lock).collect();
    // The first time each connects.
    each_once(&locks, count).await;
    while line().await {
        each_once(&locks, count).await;
    }
}

async fn names(count: usize) {
    let client = client(WAIT_ALONE);
    let locks: Vec<Lock> = (0..count)
        .map(|n| client.lock(format!("grow-{n}")))
        .collect();
    each_once(&locks[..1], 1).await;
    while line().await {
        each_once(&locks, IN_FLIGHT).await;
    }
}

/// Acquires and releases each lock, so many of them at a time.
async fn each_once(locks: &[Lock], together: usize) {
    let (meter, left) = (
        Rc::new(RefCell::new(Meter::default())),
        Rc::new(RefCell::new(locks.to_vec())),
    );
    meter.borrow_mut().start();
    let tasks: Vec<JoinHandle<()>> = (0..together.min(locks.len()))
        .map(|_| {
            let (meter, left) = (meter.clone(), left.clone());
            spawn_local(async move {
                loop {
                    let Some(lock) = left.borrow_mut().pop() else {
                        break;
                    };
                    let begun = monotonic();
                    let good = match lock.acquire().await {
                        Ok(lease) => lease.release().await.unwrap_or(false),
                        Err(error) => failed(&error),
                    };
                    meter
                        .borrow_mut()
                        .add(vec![monotonic() - begun], u64::from(!good));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    say(meter.take());
}

/// Has one client hold a lock that all of these wait for.
async fn queue(waiters: Vec<Client>) {
    let holder = client(WAIT);
    loop {
        let held = holder.lock("grow").acquire().await.expect("it is free");
        let meter = Rc::new(RefCell::new(Meter::default()));
        let waits = |client: &Client| {
            let (lock, meter) = (client.lock("grow"), meter.clone());
            spawn_local(async move {
                let begun = monotonic();
                let good = match lock.acquire().await {
                    Ok(lease) => ended(lease).await,
                    Err(error) => failed(&error),
                };
                meter
                    .borrow_mut()
                    .add(vec![monotonic() - begun], u64::from(!good));
            })
        };
        let tasks: Vec<JoinHandle<()>> = waiters.iter().map(waits).collect();
        println!("{{\"waiting\": {}, {}}}", tasks.len(), process());
        if !line().await {
            return;
        }
        meter.borrow_mut().start();
        ended(held).await;
        for task in tasks {
            task.await.expect("no panic");
        }
        say(meter.take());
    }
}

async fn ended(lease: Lease) -> bool {
    lease.release().await.unwrap_or(false)
}

/// A refusal is what some runs are for, so it is said.
fn failed(error: &quorlock::Error) -> bool {
    let kind: ErrorKind = error.kind();
    eprintln!("{kind:?}: {error}");
    false
}

fn say(meter: Meter) {
    println!(
        "{}, {}}}",
        meter.finish().json("quorlock").trim_end_matches('}'),
        process()
    );
}

/// Memory, threads and files of this process.
fn process() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let number = |field: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(field));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
            .unwrap_or(0)
    };
    let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    format!(
        "\"rss_kib\": {}, \"threads\": {}, \"files\": {files}",
        number("VmRSS:"),
        number("Threads:")
    )
}

/// Waits for a line of standard input; false at its end.
async fn line() -> bool {
    let read = || {
        std::io::stdin()
            .read_line(&mut String::new())
            .is_ok_and(|length| length > 0)
    };
    tokio::task::spawn_blocking(read).await.expect("no panic")
}
