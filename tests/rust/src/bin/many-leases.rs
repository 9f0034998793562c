//! Holds many leases for a while and says what that costs:
//! `many-leases LEASES SECONDS`, nodes from `QUORLOCK_NODES`. Prints one line of
//! JSON; fails if a lease was lost.

use std::process::ExitCode;
use std::time::Duration;

use quorlock::{Client, Lease};
use quorlock_tests::{monotonic, resident_kib};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [leases, seconds] = &words[..] else {
        eprintln!("usage: many-leases LEASES SECONDS");
        return ExitCode::from(2);
    };
    let leases: usize = leases.parse().expect("a number of leases");
    let seconds: u64 = seconds.parse().expect("a number of seconds");
    let client = Client::builder()
        .ttl(Duration::from_secs(10))
        .build()
        .expect("settings");
    let (memory_before, begun) = (resident_kib(), monotonic());
    let held = acquire(&client, leases).await;
    let acquired_in = monotonic() - begun;

    let (cpu, wall) = (cpu_micros(), monotonic());
    #[allow(clippy::disallowed_methods)]
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (cpu, wall) = (cpu_micros() - cpu, (monotonic() - wall) / 1_000);

    let still = held.iter().filter(|lease| lease.is_held()).count();
    let stats = client.stats();
    println!(
        "{{\"leases\": {leases}, \"seconds\": {seconds}, \"held\": {still}, \"lost\": {}, \
         \"acquired_in_ms\": {}, \"renewals\": {}, \"cpu_percent\": {:.2}, \"threads\": {}, \
         \"memory_kib\": {}, \"memory_before_kib\": {memory_before}}}",
        stats.lost,
        acquired_in / 1_000_000,
        stats.renewals,
        100.0 * cpu as f64 / wall as f64,
        std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count),
        resident_kib(),
    );
    client.close().await;
    if still == leases && stats.lost == 0 && stats.renewals > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Acquires in parallel, a hundred at a time.
async fn acquire(client: &Client, count: usize) -> Vec<Lease> {
    let mut held = Vec::with_capacity(count);
    let names: Vec<String> = (0..count).map(|i| format!("lease-{i}")).collect();
    for names in names.chunks(100) {
        let tasks: Vec<_> = names
            .iter()
            .map(|name| {
                let lock = client.lock(name.as_str());
                tokio::spawn(async move { lock.acquire().await })
            })
            .collect();
        for task in tasks {
            held.push(task.await.expect("no panic").expect("the lock is free"));
        }
    }
    held
}

/// CPU time of this process so far, user and system.
fn cpu_micros() -> u64 {
    // SAFETY: an all-zero rusage is valid, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let micros = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    micros(usage.ru_utime) + micros(usage.ru_stime)
}
