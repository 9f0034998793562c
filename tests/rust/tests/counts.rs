//! What an uncontended cycle costs, by the servers' own counters.

use quorlock::blocking;
use quorlock_tests::Stage;
use quorlock_tests::queue::patient;

#[test]
fn a_cycle_runs_one_acquire_and_one_release_script_on_each_node() {
    for nodes in [1, 3, 5] {
        let stage = Stage::new(nodes);
        // An attempt that is tried again because the machine stood still would count.
        let client = patient(&stage.nodes);
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
        // Without a guard, which sets of three and more have, acquire looks for a
        // line by a call of its own.
        let unguarded = if nodes < 3 { calls } else { 0 };
        // Each is one script. An acquire asks for TIME, reads the record and
        // whether anybody waits (MGET), votes and counts (SET), and counts again
        // where the proposed fence is not above the last; a release looks at the
        // vote and whether anybody waits (MGET), and deletes it.
        for (command, least, most) in [
            ("evalsha", 2 * calls, 2 * calls),
            ("time", calls, calls),
            ("mget", 2 * calls - unguarded, 2 * calls - unguarded),
            ("get", unguarded, unguarded),
            ("set", 2 * calls, 3 * calls),
            ("del", calls, calls),
        ] {
            stage.tell(&format!("expect-calls {command} {least} {most} 5000"));
        }
        for command in ["eval", "pexpire", "pttl", "zcard", "zrange", "publish"] {
            stage.tell(&format!("expect-calls {command} 0 0 0"));
        }
        blocking::wait(client.close());
    }
}
