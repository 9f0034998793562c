//! A job that every host starts in the same moment, on real servers.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quorlock::{Client, blocking};
use quorlock_tests::Stage;

/// Of those who try at once each may get some of the votes. One of them runs the job all the
/// same, and one alone.
#[test]
fn of_those_who_start_at_once_one_runs_the_job() {
    const TICKS: usize = 150;
    let stage = Stage::new(3);
    let hosts: Vec<_> = (0..3).map(|_| Client::new(&stage.nodes).unwrap()).collect();
    // From here on all are connected.
    for host in &hosts {
        let lease = blocking::wait(host.lock("warm").acquire()).unwrap();
        blocking::wait(lease.release()).unwrap();
    }
    let (start, runs) = (Barrier::new(hosts.len()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for host in &hosts {
            let (start, runs) = (&start, &runs);
            scope.spawn(move || {
                for tick in 0..TICKS {
                    start.wait();
                    let job = host
                        .lock(format!("job-{tick}"))
                        .once(Duration::from_secs(60));
                    if let Some(lease) = blocking::wait(job.try_acquire()).unwrap() {
                        runs.fetch_add(1, Ordering::SeqCst);
                        blocking::wait(lease.release()).unwrap();
                    }
                    start.wait();
                    assert_eq!(runs.load(Ordering::SeqCst), tick + 1, "tick {tick}");
                    start.wait();
                }
            });
        }
    });
}
