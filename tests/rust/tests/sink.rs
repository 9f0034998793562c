//! A log sink that blocks: in a process of its own, which has one sink.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use quorlock::{Client, LossReason, blocking, set_log_sink};
use quorlock_tests::queue::PATIENCE;

#[test]
fn a_log_sink_that_blocks_withholds_no_loss() {
    let (blocks, blocked) = channel();
    let (go_on, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    set_log_sink(move |_, _| {
        let _ = blocks.send(());
        let _ = wait.lock().unwrap().recv();
    });
    let client = Client::new(["memory://sink"]).unwrap();
    for name in ["first", "second"] {
        let lock = client.lock(name).ttl(Duration::from_millis(100));
        let lease = blocking::wait(lock.renew(false).acquire()).unwrap();
        let (told, hear) = channel();
        lease.on_lost(move |reason| told.send(reason).unwrap());
        assert_eq!(hear.recv_timeout(PATIENCE), Ok(LossReason::Expired));
        // The loss is a line of the log too, which is stuck there.
        if name == "first" {
            blocked.recv_timeout(PATIENCE).expect("a line");
        }
    }
    drop(go_on);
}
