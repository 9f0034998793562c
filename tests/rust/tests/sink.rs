//! A log sink that blocks: in a process of its own, which has one sink.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use quorlock::{Client, Error, LossReason, blocking, set_log_sink, testing};
use quorlock_tests::queue::PATIENCE;

#[test]
fn what_blocks_withholds_no_loss_and_no_end_of_a_term() {
    let (blocks, blocked) = channel();
    let (go_on, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    set_log_sink(move |_, _| {
        let _ = blocks.send(());
        let _ = wait.lock().unwrap().recv();
    });
    let client = Client::new(["memory://sink"]).unwrap();
    // A leader whose work does not end by itself.
    let (led, leads) = channel();
    let (ended, ends) = channel();
    let election = client.election("term");
    let election = election.on_stopped(move || ended.send(()).unwrap());
    let mut terms = 0;
    let runs = std::thread::spawn(move || {
        blocking::wait(election.run(move |_| {
            terms += 1;
            led.send(()).unwrap();
            let first = terms == 1;
            async move {
                if first {
                    std::future::pending::<()>().await;
                }
                Ok::<(), Error>(())
            }
        }))
    });
    leads.recv_timeout(PATIENCE).expect("a term");
    let (callback_goes_on, waits) = channel::<()>();
    let mut waits = Some(waits);
    for name in ["first", "second"] {
        let lock = client.lock(name).ttl(Duration::from_millis(100));
        let lease = blocking::wait(lock.renew(false).acquire()).unwrap();
        let (told, hear) = channel();
        let waits = waits.take();
        lease.on_lost(move |reason| {
            told.send(reason).unwrap();
            // The first blocks.
            if let Some(waits) = waits {
                let _ = waits.recv();
            }
        });
        assert_eq!(hear.recv_timeout(PATIENCE), Ok(LossReason::Expired));
        // The loss is a line of the log too, which is stuck there.
        if name == "first" {
            blocked.recv_timeout(PATIENCE).expect("a line");
        }
    }
    assert_eq!(testing::lose("term", LossReason::Forced), 1);
    ends.recv_timeout(PATIENCE).expect("the work is dropped");
    drop((go_on, callback_goes_on));
    runs.join().unwrap().unwrap();
}
