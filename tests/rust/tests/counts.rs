//! What an uncontended cycle costs, by the servers' own counters.

use quorlock::{Client, blocking};
use quorlock_tests::Stage;

#[test]
fn a_cycle_runs_one_acquire_and_one_release_script_on_each_node() {
    for nodes in [1, 3, 5] {
        let stage = Stage::new(nodes);
        let client = Client::new(&stage.nodes).unwrap();
        let lock = client.lock("counted");
        let cycle = || {
            let lease = blocking::wait(lock.acquire()).unwrap();
            assert!(blocking::wait(lease.release()).unwrap());
        };
        cycle();
        stage.tell("await-free lock:{counted} 5000");
        stage.tell("reset-counters");
        for _ in 0..100 {
            cycle();
        }
        let calls = 100 * nodes;
        // A release deletes (DEL); each is one script.
        for (command, times) in [("evalsha", 2 * calls), ("del", calls)] {
            stage.tell(&format!("expect-calls {command} {times} {times} 5000"));
        }
        for command in ["eval", "pexpire"] {
            stage.tell(&format!("expect-calls {command} 0 0 0"));
        }
        blocking::wait(client.close());
    }
}
