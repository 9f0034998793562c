//! What an uncontended cycle costs, by the servers' own counters.

use quorlock::blocking;
use quorlock_tests::Stage;
use quorlock_tests::queue::patient;

#[test]
fn a_cycle_runs_plain_commands_and_one_lean_script_on_each_node() {
    for nodes in [1, 3, 5] {
        let stage = Stage::new(nodes);
        // An attempt that is tried again because the machine stood still would count.
        let client = patient(&stage.nodes);
        let lock = client.lock("counted");
        let cycle = || {
            let lease = blocking::wait(lock.acquire()).unwrap();
            assert!(blocking::wait(lease.release()).unwrap());
        };
        // By the second one the nodes' clocks are known, and the counter's life is told.
        cycle();
        cycle();
        stage.tell("await-free lock:{counted} 5000");
        stage.tell("reset-counters");
        for _ in 0..100 {
            cycle();
        }
        let calls = 100 * nodes;
        // Without a guard, which sets of three and more have, there is no record to
        // be read.
        let guarded = if nodes < 3 { 0 } else { calls };
        // Where a quorum has voted, and others have yet to answer when the lock is
        // released, these are sent the whole script. Nobody knows how many.
        let whole = if nodes == 1 { 0 } else { calls };
        // An acquire is a vote (SET), its fence (ZADD), and a trailer behind it; a
        // release looks at the vote (MGET) and deletes it, by the lean script where the
        // server has no command for that.
        for (command, least, most) in [
            ("set", calls, calls),
            ("zadd", calls, calls),
            ("mget", guarded + calls - whole, guarded + calls),
            ("time", calls, calls + whole),
            ("evalsha", calls, calls),
            ("get", 0, whole),
            ("del", calls, calls),
            ("zrange", 0, whole),
            // The life of the counter is told for the first of many.
            ("pexpire", 0, 0),
            ("eval", 0, 0),
            ("pttl", 0, 0),
            ("zcard", 0, 0),
            ("publish", 0, 0),
        ] {
            stage.tell(&format!("expect-calls {command} {least} {most} 5000"));
        }
        blocking::wait(client.close());
    }
}
