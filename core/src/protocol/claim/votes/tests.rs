use super::*;
use crate::node::Repair;
use crate::protocol::claim::release::Residue;

/// When the requests were sent, and when they are answered.
const SENT: Instant = Instant(1_000_000_000);
const NOW: Instant = Instant(1_020_000_000);
const TTL: Duration = Duration::from_secs(1);
/// Until when a vote counts: the ttl less 1 % and the 2 ms of the nodes' clocks.
const COUNTED: Instant = Instant(SENT.0 + 988_000_000);

const ACQUIRE: Op = Op::Acquire {
    ttl: TTL,
    candidate: 40,
    home: false,
    let_in: false,
    block: 1,
};
const EXTEND: Op = Op::Extend {
    ttl: TTL,
    repair: Repair::Yes,
    fence: 0,
    behind: 0,
};
const CONFIRM: Op = Op::Confirm {
    ttl: TTL,
    fence: 44,
    block: 1,
};

fn granted(fence: u64) -> Reply {
    Reply::Granted { fence, lasts: None }
}

fn rules() -> Rules {
    Rules {
        timing: Timing::of(TTL, 0.01, 0.1, Duration::from_millis(50)),
        drift: 0.01,
        renew_every: Duration::from_millis(300),
    }
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn ticket(op: Op) -> RequestContext {
    RequestContext {
        node: 0,
        sent: SENT,
        deadline: SENT + millis(50),
        op,
        server: 7,
    }
}

/// The votes of two nodes that were asked for them.
fn asked() -> Votes {
    let mut votes = Votes::new([0, 0].into_iter(), None);
    for node in 0..2 {
        votes.0[node].ask(40, node == 0, SENT + millis(300));
    }
    votes
}

/// The votes of two nodes, the first of which has voted and has 400 ms left.
fn held() -> Votes {
    let mut votes = asked();
    let end = SENT + millis(400);
    votes.0[0].vote = Vote::Granted(end);
    votes.0[0].end = end;
    votes.0[0].answer = Answer::Granted;
    votes.0[0].queued = false;
    votes
}

/// What may be left on the first node.
fn residue(votes: &Votes) -> Residue {
    votes.residues(None).next().expect("there is a node")
}

fn quarantined(left: u64) -> Reply {
    Reply::Quarantined { left: millis(left) }
}

fn failed(kind: FaultKind, sent: bool) -> Reply {
    Reply::Failed(Fault::new(kind, "no vote", sent))
}

#[test]
fn what_a_reply_makes_of_a_vote() {
    use Phase::{Asking, Dead, Held};
    let refused = Reply::Refused {
        left: Some(millis(700)),
        holder: Some("host:1".into()),
        place: Some(3),
        subscribers: 0,
        shared: false,
    };
    let extended = Reply::Extended { repaired: false };
    let (granted, greater) = (granted(41), Reply::Greater { fence: 9 });
    let timeout = failed(FaultKind::Timeout, true);
    let unsent = failed(FaultKind::Unreachable, false);
    let not_ready = failed(FaultKind::NotReady, true);
    let unwanted = Reply::Failed(Fault::unwanted());
    let (full, short) = (Vote::Granted(COUNTED), Vote::Granted(SENT + millis(400)));
    let (no, none) = (Vote::Refused, Vote::Failed);
    // A first vote, the token's phase, the reply; until when the node holds the
    // token then, in ms from when it was asked, and its vote.
    for (phase, reply, end, vote) in [
        (Asking, &granted, Some(988), full),
        (Asking, &refused, None, no),
        (Asking, &quarantined(700), None, none),
        (Asking, &timeout, None, none),
        (Asking, &unsent, None, none),
        (Asking, &not_ready, None, none),
        // A lease is held without this node, which has yet to answer.
        (Held, &granted, Some(988), full),
        (Held, &timeout, None, none),
        (Held, &Reply::Late, None, none),
        // The round is over, and this is the node's answer to it.
        (Dead, &granted, Some(988), full),
        (Dead, &timeout, None, none),
        (Dead, &Reply::Late, None, none),
        (Dead, &unwanted, None, Vote::Unasked),
    ] {
        becomes(asked(), ACQUIRE, phase, reply, end, vote);
    }
    // The same of a node that has voted, and counts for another 400 ms.
    for (op, phase, reply, end, vote) in [
        (ACQUIRE, Asking, &granted, Some(988), full),
        (ACQUIRE, Asking, &refused, None, no),
        (ACQUIRE, Asking, &not_ready, Some(400), none),
        (CONFIRM, Asking, &Reply::Confirmed, Some(988), full),
        (CONFIRM, Asking, &greater, Some(400), short),
        (CONFIRM, Held, &Reply::Late, Some(400), short),
        (CONFIRM, Asking, &timeout, Some(400), short),
        (EXTEND, Held, &extended, Some(988), full),
        (EXTEND, Held, &Reply::NotMine, None, no),
        (EXTEND, Held, &quarantined(200), Some(196), none),
        (EXTEND, Held, &quarantined(700), Some(400), none),
        (EXTEND, Held, &Reply::Late, Some(400), short),
        (EXTEND, Held, &timeout, Some(400), short),
        (EXTEND, Held, &not_ready, Some(400), short),
    ] {
        becomes(held(), op, phase, reply, end, vote);
    }
}

/// Has the first node give that reply.
fn becomes(mut votes: Votes, op: Op, phase: Phase, reply: &Reply, end: Option<u64>, vote: Vote) {
    let again = votes.0[0].take(&ticket(op), reply, NOW, phase, &rules());
    let what = format!("{op:?} {phase:?} {reply:?}");
    assert_eq!(again, Repeat::No, "{what}");
    let stands = votes.0[0].end != Instant::NEVER;
    let stands = stands.then(|| SENT.until(votes.0[0].end).as_millis() as u64);
    assert_eq!((stands, votes.0[0].vote), (end, vote), "{what}");
    // The other has said nothing.
    let other = (votes.0[1].end, votes.0[1].vote);
    assert_eq!(other, (Instant::NEVER, Vote::Awaited), "{what}");
}

#[test]
fn a_fence_stands_where_it_was_stored() {
    let mut votes = asked();
    let apply = |votes: &mut Votes, op, reply: Reply| {
        let _ = votes.0[0].take(&ticket(op), &reply, NOW, Phase::Asking, &rules());
        votes.0[0].mark
    };
    let mark = apply(&mut votes, ACQUIRE, granted(41));
    assert_eq!((mark.stored, mark.found), (41, 0));
    votes.0[0].mark.asked = 44;
    let mark = apply(&mut votes, CONFIRM, Reply::Greater { fence: 50 });
    assert_eq!((mark.stored, mark.found, mark.asked), (41, 50, 0));
    let mark = apply(&mut votes, CONFIRM, Reply::Confirmed);
    assert_eq!((mark.stored, mark.failed), (44, false));
    let mark = apply(&mut votes, CONFIRM, failed(FaultKind::Timeout, true));
    assert_eq!((mark.stored, mark.failed), (44, true));
    // A node that was asked without a candidate reports what others have stored.
    let mut blind = asked();
    blind.0[0].ask(0, false, NOW);
    let mark = apply(&mut blind, ACQUIRE, granted(41));
    assert_eq!((mark.stored, mark.found), (0, 41));
}

#[test]
fn a_late_request_is_sent_once_more_while_there_is_time() {
    let apply = |votes: &mut Votes, op, now, phase| {
        votes.0[0].take(&ticket(op), &Reply::Late, now, phase, &rules()) == Repeat::Yes
    };
    let mut votes = asked();
    assert!(apply(&mut votes, ACQUIRE, NOW, Phase::Asking));
    assert_eq!(
        votes.0[0].vote,
        Vote::Awaited,
        "nothing else has come of it"
    );
    assert!(matches!(votes.0[0].answer, Answer::Nothing));
    assert_eq!(
        votes.0[0].requests.reached, 2,
        "what the first has left counts, too"
    );
    assert!(
        !apply(&mut votes, ACQUIRE, NOW, Phase::Asking),
        "twice is enough"
    );
    assert_eq!(votes.0[0].vote, Vote::Failed);
    assert!(votes.0[0].mark.failed);
    assert!(matches!(votes.0[0].answer, Answer::Late));
    assert_eq!(votes.0[0].requests.renew_at, NOW);
    // Nor behind the deadline, nor once the round is over; but in the next again.
    for (now, phase) in [
        (SENT + millis(50), Phase::Asking),
        (NOW, Phase::Held),
        (NOW, Phase::Dead),
    ] {
        assert!(
            !apply(&mut asked(), ACQUIRE, now, phase),
            "{now:?} {phase:?}"
        );
    }
    votes.0[0].ask(40, false, NOW);
    assert!(apply(&mut votes, ACQUIRE, NOW, Phase::Asking));
}

#[test]
fn who_may_know_the_token_is_known() {
    for (op, reply, reached) in [
        (ACQUIRE, failed(FaultKind::Timeout, true), 1),
        (ACQUIRE, failed(FaultKind::Unreachable, false), 0),
        (EXTEND, failed(FaultKind::Unreachable, false), 0),
        // It was not counted as it was sent.
        (CONFIRM, failed(FaultKind::Unreachable, false), 1),
        (ACQUIRE, Reply::Late, 1),
        (ACQUIRE, quarantined(9), 1),
    ] {
        let mut votes = asked();
        let _ = votes.0[0].take(&ticket(op), &reply, NOW, Phase::Held, &rules());
        assert_eq!(votes.0[0].requests.reached, reached, "{op:?} {reply:?}");
    }
}

#[test]
fn a_place_in_the_queue_ends_with_the_vote_alone() {
    let refused = Reply::Refused {
        left: None,
        holder: None,
        place: Some(2),
        subscribers: 1,
        shared: false,
    };
    for (reply, queued, place) in [
        (refused, true, Some(2)),
        (granted(0), false, None),
        (failed(FaultKind::Timeout, true), true, None),
        (quarantined(9), true, None),
    ] {
        let mut votes = asked();
        let _ = votes.0[0].take(&ticket(ACQUIRE), &reply, NOW, Phase::Asking, &rules());
        let node = &votes.0[0];
        assert_eq!(node.queued, queued, "{reply:?}");
        assert_eq!(node.line.and_then(|line| line.place), place, "{reply:?}");
    }
}

#[test]
fn when_a_vote_is_renewed() {
    let due = |at: Instant| rules().coarse(at);
    for (reply, failures, at) in [
        (
            Reply::Extended { repaired: true },
            0,
            due(SENT + millis(300)),
        ),
        (Reply::NotMine, 1, due(NOW + millis(300))),
        (quarantined(700), 1, due(NOW + millis(300))),
        (quarantined(100), 1, due(NOW + millis(100))),
        (Reply::Late, 1, NOW),
        (failed(FaultKind::Timeout, true), 2, NOW + millis(40)),
    ] {
        let mut votes = held();
        votes.0[0].requests.failures = 1;
        votes.0[0].requests.renewing = Some(NOW);
        let _ = votes.0[0].take(&ticket(EXTEND), &reply, NOW, Phase::Held, &rules());
        let requests = votes.0[0].requests;
        assert_eq!(requests.renewing, None, "{reply:?}");
        assert_eq!(
            (requests.failures, requests.renew_at),
            (failures, at),
            "{reply:?}"
        );
    }
}

#[test]
fn renewals_are_due_on_a_grid_of_a_256th_of_the_ttl() {
    for (at, due) in [
        (0, 0),
        (1, 3_906_250),
        (3_906_250, 3_906_250),
        (3_906_251, 7_812_500),
    ] {
        assert_eq!(rules().coarse(Instant(at)), Instant(due), "{at}");
    }
}

#[test]
fn a_round_awaits_the_answer_of_each_node_that_was_asked() {
    assert!(Votes::new([0, 0].into_iter(), None).are_in(), "none asked");
    let mut votes = asked();
    assert!(votes.is_awaited(&ticket(ACQUIRE)));
    assert!(!votes.is_awaited(&ticket(EXTEND)), "of no round");
    assert!(!votes.are_in());
    votes.0[0].vote = Vote::Refused;
    assert!(!votes.is_awaited(&ticket(ACQUIRE)), "it has answered");
    assert!(!votes.are_in(), "the other has not");
    votes.0[1].vote = Vote::Failed;
    assert!(votes.are_in());
}

#[test]
fn a_refusal_tells_whether_the_node_can_call_the_waiter() {
    for (subscribers, deaf) in [(0, true), (1, false), (2, false)] {
        let line = answered(&Reply::Refused {
            left: None,
            holder: None,
            place: Some(0),
            subscribers,
            shared: false,
        })
        .0[0]
            .line;
        assert_eq!(line.map(|line| line.deaf), Some(deaf), "{subscribers}");
    }
}

#[test]
fn a_token_that_was_taken_away_is_told_from_one_that_is_not_there() {
    let said = |reply| answered(&reply).0[0].answer.clone();
    assert_eq!(said(Reply::Banned), Answer::Forced);
    let none = Answer::Refused {
        left: None,
        holder: None,
        shared: false,
    };
    assert_eq!(said(Reply::NotMine), none);
}

#[test]
fn a_certain_vote_is_remembered_with_its_server() {
    let mut votes = asked();
    let mut vote = |sent: Instant, server| {
        let ticket = RequestContext {
            sent,
            server,
            ..ticket(EXTEND)
        };
        let reply = Reply::Extended { repaired: false };
        let _ = votes.0[0].take(&ticket, &reply, NOW, Phase::Held, &rules());
        (votes.0[0].confirmed.until, votes.0[0].confirmed.server)
    };
    assert_eq!(vote(SENT, 7), (COUNTED, 7));
    // An answer that was overtaken shortens nothing.
    let before = Instant(SENT.0 - 5);
    assert_eq!(vote(before, 7), (COUNTED, 7));
    // Another server has no part in what the previous server held.
    assert_eq!(vote(before, 8), (Instant(COUNTED.0 - 5), 8));
    let _ = votes.0[0].take(&ticket(EXTEND), &Reply::NotMine, NOW, Phase::Held, &rules());
    assert_eq!(votes.0[0].end, Instant::NEVER);
    assert_eq!(votes.0[0].confirmed.until, Instant(COUNTED.0 - 5));
}

#[test]
fn a_step_of_the_clock_shortens_what_was_promised_by_it() {
    let mut votes = held();
    votes.0[0].confirmed.until = SENT + millis(400);
    assert!(votes.0[0].step(150_000));
    assert!(!votes.0[0].step(150_000), "once");
    assert!(votes.0[0].step(200_000));
    let end = SENT + millis(200);
    assert_eq!((votes.0[0].end, votes.0[0].vote), (end, Vote::Granted(end)));
    assert_eq!(votes.0[0].confirmed.until, end);
}

/// A node that was asked by plain commands, and has answered so.
fn answered(reply: &Reply) -> Votes {
    let mut votes = asked();
    let _ = votes.0[0].take(&ticket(ACQUIRE), reply, NOW, Phase::Asking, &rules());
    votes
}

#[test]
fn a_vote_that_ends_by_the_nodes_clock_counts_no_longer() {
    let short = Reply::Granted {
        fence: 3,
        lasts: Some(millis(400)),
    };
    let drift = clock::drift_allowance(millis(400), rules().drift);
    assert_eq!(answered(&short).0[0].end, SENT + (millis(400) - drift));
}

#[test]
fn who_is_told_that_it_is_taken_has_left_nothing_there() {
    let votes = answered(&Reply::Taken);
    assert_eq!(votes.0[0].vote, Vote::Refused);
    assert!(!residue(&votes).token);
}

#[test]
fn plain_commands_undo_what_is_known_alone() {
    for (reply, scripted) in [
        (granted(3), false),
        (failed(FaultKind::Timeout, true), true),
        (Reply::Late, true),
        (quarantined(9), true),
    ] {
        let mut votes = answered(&reply);
        if matches!(reply, Reply::Late) {
            // Asked once more, as late.
            let _ = votes.0[0].take(&ticket(ACQUIRE), &reply, NOW, Phase::Asking, &rules());
        }
        let traces = residue(&votes);
        assert_eq!(
            (traces.token, traces.scripted),
            (true, scripted),
            "{reply:?}"
        );
    }
}
