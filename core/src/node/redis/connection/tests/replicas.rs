//! Votes that wait for replicas: which answers pass at once, and what those are worth that
//! do not.

use super::*;
use crate::node::Repair;

const EXTEND: Op = Op::Extend {
    ttl: Duration::from_secs(1),
    repair: Repair::No,
    fence: 0,
    behind: 0,
};
const ONE: &str = ":1\r\n";

/// A link whose votes wait for this many replicas.
fn link(replicas: u32) -> Link {
    let mut link = Link::connected();
    link.wait_replicas = replicas;
    link.connects();
    link.connection.old = None;
    link
}

#[tokio::test]
async fn votes_are_told_once_replicas_have_them() {
    let mut link = link(2);
    link.asks_all(&[ACQUIRE, Op::Release, EXTEND], false);
    // The task writes one `WAIT` for all of them.
    assert_eq!(link.written(), [0, 4]);
    link.answered(&[ONE]);
    assert!(lock(&link.heard.1).is_empty());
    link.answered(&[ONE]);
    assert_eq!(*lock(&link.heard.1), [Reply::Released { held: true }]);
    link.answered(&[ONE]);
    assert_eq!(lock(&link.heard.1).len(), 1);
    link.answered(&[":2\r\n"]);
    let votes = [
        Reply::Granted {
            fence: 0,
            lasts: None,
        },
        Reply::Extended { repaired: false },
    ];
    assert_eq!(lock(&link.heard.1)[1..], votes);
    assert!(lock(&link.heard.0).is_empty());
    // A write without a vote waits for no replica.
    link.asks(Op::Release);
    assert_eq!(link.written(), [0, 1]);
}

#[tokio::test]
async fn a_vote_that_too_few_have_is_none() {
    for short in [":1\r\n", ":0\r\n", "-ERR no\r\n"] {
        let mut link = link(2);
        link.asks_all(&[ACQUIRE, EXTEND], false);
        link.answered(&[ONE, ONE, short]);
        assert!(lock(&link.heard.1).is_empty());
        let none = [FaultKind::NotReady, FaultKind::NotReady];
        assert_eq!(*lock(&link.heard.0), none, "{short:?}");
        // The vote may stand, and is to be undone.
        assert_eq!(*lock(&link.heard.2), [true, true], "{short:?}");
    }
    // Any other reply passes as it is, and at once.
    let mut link = link(2);
    link.asks(EXTEND);
    link.answered(&[":0\r\n"]);
    assert_eq!(*lock(&link.heard.1), [Reply::NotMine]);
    link.answered(&[":0\r\n"]);
    assert_eq!(link.written(), [0, 0]);
}

#[tokio::test]
async fn a_fence_is_written_back_once_replicas_have_it() {
    const CONFIRM: Op = Op::Confirm {
        ttl: Duration::from_secs(1),
        fence: 7,
        block: 1,
    };
    let mut link = link(1);
    link.asks(CONFIRM);
    link.answered(&[ONE]);
    assert!(lock(&link.heard.1).is_empty());
    link.answered(&[ONE]);
    assert_eq!(*lock(&link.heard.1), [Reply::Confirmed]);
    link.asks(CONFIRM);
    link.answered(&[ONE, ":0\r\n"]);
    assert_eq!(*lock(&link.heard.0), [FaultKind::NotReady]);
}

#[tokio::test]
async fn votes_of_plain_commands_wait_behind_their_trailer() {
    let mut link = link(1);
    link.asks_all(&[ACQUIRE], true);
    assert_eq!(link.written(), [0, 3]);
    link.answered(&[OK, OURS, TIME]);
    assert!(lock(&link.heard.1).is_empty());
    link.answered(&[ONE]);
    assert_eq!(lock(&link.heard.1).len(), 1);
}

#[tokio::test]
async fn a_vote_that_waits_ends_at_its_deadline() {
    let mut link = link(1);
    link.asks(ACQUIRE);
    link.answered(&[ONE]);
    link.patience_ends();
    assert_eq!(*lock(&link.heard.0), [FaultKind::Timeout]);
    // The connection is in doubt, as after any answer that does not come.
    assert_eq!(link.written(), [1, 0]);
    assert!(lock(&link.heard.1).is_empty());
    // A lost connection takes its parked votes with it.
    let mut link = super::replicas::link(1);
    link.asks(ACQUIRE);
    link.answered(&[ONE]);
    link.connection.lose_connection(&stray());
    assert_eq!(*lock(&link.heard.0), [FaultKind::Unreachable]);
}

#[tokio::test]
async fn the_answers_of_each_write_wait_for_their_own() {
    let mut link = link(1);
    link.asks(ACQUIRE);
    link.asks(EXTEND);
    assert_eq!(link.written(), [0, 4]);
    link.answered(&[ONE, ONE]);
    assert_eq!(lock(&link.heard.1).len(), 1);
    link.answered(&[ONE, ":0\r\n"]);
    assert_eq!(lock(&link.heard.1).len(), 1);
    assert_eq!(*lock(&link.heard.0), [FaultKind::NotReady]);
}
