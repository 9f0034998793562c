//! The checker refuses a trace that lacks a step, or has one too many: each here is one of the simulator, changed so, and what it is
//! refused as.

use std::sync::Arc;

use quorlock::sim::{AfterRelease, Instant, Keys, Op, Reply, Request, Value};
use quorlock_proof::spec::Action;
use quorlock_proof::trace::Checker;
use quorlock_sim::schedule::traced;
use quorlock_sim::trace::{Served, Step, Trace, Traced};

/// Later than anything that is due.
const LATER: u64 = 100_000_000_000;
/// No schedule has as many messages.
const FRESH: u64 = 1 << 40;

fn verdict(steps: &[Traced]) -> Option<Action> {
    let trace = Trace(steps.to_vec());
    Checker::default()
        .check(&trace)
        .err()
        .map(|refused| refused.action)
}

/// As what the trace is refused, in which the first step is changed that can be, in the first of these schedules that has one.
fn refused(change: impl Fn(&[Traced], usize) -> Option<Vec<Traced>>) -> Option<Action> {
    for seed in 1..2_000 {
        let steps = traced(seed).1.0;
        let Some(changed) = (0..steps.len()).find_map(|i| change(&steps, i)) else {
            continue;
        };
        assert_eq!(verdict(&steps), None, "seed {seed}, as it is");
        return verdict(&changed);
    }
    panic!("no schedule has such a step");
}

/// The same of the first of those changes that is refused: what a node does not answer in time is not told, so some pass.
fn some_refused(change: impl Fn(&[Traced], usize) -> Option<Vec<Traced>>) -> Option<Action> {
    let found = (1..2_000).find_map(|seed| {
        let steps = traced(seed).1.0;
        let changed = (0..steps.len()).filter_map(|i| change(&steps, i));
        changed.take(3).find_map(|changed| verdict(&changed))
    });
    assert!(found.is_some(), "no schedule has such a step");
    found
}

fn without(steps: &[Traced], i: usize) -> Vec<Traced> {
    let mut steps = steps.to_vec();
    steps.remove(i);
    steps
}

/// With these steps behind the one at `i`, at its moment.
fn with(steps: &[Traced], i: usize, more: Vec<Step>) -> Vec<Traced> {
    let at = steps[i].at;
    let more = more.into_iter().map(|step| Traced { at, step });
    let mut steps = steps.to_vec();
    steps.splice(i + 1..i + 1, more);
    steps
}

/// The trace up to that step, with it, and then nothing for a long time.
fn cut(steps: &[Traced], i: usize) -> Vec<Traced> {
    let mut cut = steps[..=i].to_vec();
    let at = steps[i].at + LATER;
    cut.push(Traced {
        at,
        step: Step::Ends,
    });
    cut
}

/// The request of a message, and its place among the steps.
fn asked(steps: &[Traced], of: u64) -> Option<(usize, &Request)> {
    steps
        .iter()
        .enumerate()
        .find_map(|(i, traced)| match &traced.step {
            Step::Asks {
                message, request, ..
            } if *message == of => Some((i, &**request)),
            _ => None,
        })
}

fn is_release(steps: &[Traced], message: u64) -> bool {
    let of = |(_, request): (_, &Request)| {
        request.op == Op::Release && !matches!(request.leaving, AfterRelease::Forced(_))
    };
    asked(steps, message).is_some_and(of)
}

/// Every client's leases are told as they are won.
fn is_told(steps: &[Traced]) -> bool {
    let unseen = |traced: &Traced| matches!(traced.step, Step::Client { unseen: true, .. });
    !steps.iter().any(unseen)
}

#[test]
fn an_answer_that_no_node_gave() {
    let found = refused(|steps, i| match &steps[i].step {
        Step::Serves {
            message,
            request,
            served: Served::Script(Some(Reply::Granted { .. }), _),
            ..
        } if request.keys.field.is_none() => {
            let hears =
                |t: &Traced| matches!(&t.step, Step::Hears { message: m, .. } if m == message);
            steps.iter().any(hears).then(|| without(steps, i))
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::Lose));
}

#[test]
fn an_answer_that_comes_twice() {
    let found = refused(|steps, i| match &steps[i].step {
        hears @ Step::Hears { .. } => Some(with(steps, i, vec![hears.clone()])),
        _ => None,
    });
    assert_eq!(found, Some(Action::Lose));
}

#[test]
fn a_request_that_no_client_made() {
    let found = refused(|steps, i| match steps[i].step.clone() {
        Step::Serves {
            between,
            record,
            request,
            views,
            served,
            ..
        } => {
            let serves = Step::Serves {
                message: FRESH,
                between,
                record,
                request,
                views,
                served,
            };
            Some(with(steps, i, vec![serves]))
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::Repeat));
}

#[test]
fn a_node_that_has_something_from_the_beginning() {
    let found = refused(|steps, i| match steps[i].step.clone() {
        Step::Serves {
            between,
            message,
            record,
            request,
            mut views,
            served,
        } if request.keys.field.is_none() => {
            views.before[0].counter = Some((7, Instant(u64::MAX)));
            let mut steps = steps.to_vec();
            steps[i].step = Step::Serves {
                between,
                message,
                record,
                request,
                views,
                served,
            };
            Some(steps)
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::Tick));
}

#[test]
fn a_release_that_is_not_written_to_the_next_connection() {
    let found = refused(|steps, i| match (&steps[i].step, &steps.get(i + 1)?.step) {
        (
            Step::Ready { between, .. },
            Step::Puts {
                connection,
                message,
                ..
            },
        ) if between.connection == *connection && is_release(steps, *message) => {
            Some(without(steps, i + 1))
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientRelease));
}

#[test]
fn a_native_release_in_doubt_without_its_script() {
    let found = refused(|steps, i| match (&steps[i].step, &steps.get(i + 1)?.step) {
        (
            Step::Doubts { connection, .. },
            Step::Puts {
                connection: to,
                message,
                native: false,
                ..
            },
        ) if connection == to && is_release(steps, *message) => Some(without(steps, i + 1)),
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientRelease));
}

#[test]
fn a_release_that_counts_as_done_by_another_connection() {
    let found = refused(|steps, i| match &steps[i].step {
        Step::Hears { message, .. } if is_release(steps, *message) => {
            let mut steps = steps.to_vec();
            if let Step::Hears { connection, .. } = &mut steps[i].step {
                *connection += 1;
            }
            Some(steps)
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientRelease));
}

#[test]
fn a_winner_that_stays_in_a_queue() {
    let found = some_refused(|steps, i| match &steps[i].step {
        Step::Asks { request, .. }
            if request.op == Op::Release
                && request.value.0.is_empty()
                && request.waiter.is_some() =>
        {
            let now = steps.iter().skip(i).take_while(|t| t.at == steps[i].at);
            let wins = |t: &Traced| matches!(t.step, Step::Won { .. });
            let won = now.clone().position(wins)? + i;
            let at = steps[i].at;
            let mut steps = cut(steps, won);
            steps.remove(i);
            steps.retain(|t| t.at != at || !matches!(t.step, Step::Puts { .. }));
            Some(steps)
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientLeave));
}

#[test]
fn a_waiter_that_is_called_and_does_not_ask() {
    let found = refused(|steps, i| match &steps[i].step {
        Step::Hears {
            client,
            place,
            request,
            reply: Reply::Refused { place: Some(_), .. },
            ..
        } if request.keys.field.is_none() => {
            let number = request.waiter.as_ref()?.number;
            let (client, place) = (*client, *place);
            let calls = Step::Calls {
                client,
                place,
                number,
            };
            Some(cut(&with(steps, i, vec![calls]), i + 1))
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientHear));
}

#[test]
fn a_waiter_that_asks_before_its_poll() {
    let found = refused(|steps, i| match &steps[i].step {
        Step::Calls { client, number, .. } => {
            let asks = |t: &&Traced| {
                matches!(&t.step, Step::Asks { client: c, request, .. }
                if c == client && request.waiter.as_ref().is_some_and(|w| w.number == *number))
            };
            let before = steps[..i].iter().rev().find(asks)?;
            let told = |t: &Traced| {
                matches!(&t.step, Step::Hears { client: c, request, reply: Reply::Refused { place: Some(_), left: Some(left), .. }, .. }
                if c == client && request.waiter.as_ref().is_some_and(|w| w.number == *number) && left.as_millis() > 5)
            };
            let mut since = steps[..i].iter().filter(|t| t.at > before.at);
            let next = steps[i..].iter().find(asks)?;
            let soon = next.at == steps[i].at
                && matches!(&next.step, Step::Asks { request, .. } if request.op != Op::Release);
            let last = since.rfind(|t| told(t))?;
            (soon && steps[i].at < last.at + 4_000_000).then(|| without(steps, i))
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientJoin));
}

#[test]
fn an_attempt_that_is_not_given_up() {
    let found = some_refused(|steps, i| match &steps[i].step {
        Step::Asks { request, .. }
            if request.op == Op::Release && !request.value.0.is_empty() && is_told(steps) =>
        {
            let granted = |t: &Traced| matches!(&t.step, Step::Hears { request: of, reply: Reply::Granted { .. }, .. } if of.value == request.value);
            let won = |t: &Traced| matches!(&t.step, Step::Won { hold, .. } if request.value.0.starts_with(&hold.token));
            let before = &steps[..i];
            let over = |t: &Traced| matches!(&t.step, Step::Asks { request: of, .. } if of.op == Op::Release && of.value == request.value);
            let voted = before.iter().any(granted) && !before.iter().any(over);
            (voted && !steps.iter().any(won)).then(|| cut(steps, i - 1))
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientGiveUp));
}

#[test]
fn a_node_that_is_asked_twice_at_once() {
    let found = refused(|steps, i| match steps[i].step.clone() {
        Step::Asks {
            client,
            place,
            node,
            now,
            request,
            ticket,
            drift,
            lease,
            ..
        } if matches!(request.op, Op::Acquire { .. }) => {
            let again = Step::Asks {
                message: FRESH,
                client,
                place,
                node,
                now,
                request,
                ticket,
                drift,
                lease,
            };
            Some(with(steps, i, vec![again]))
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientAsk));
}

/// What is asked at the step at `i`, changed.
fn asks_other(steps: &[Traced], i: usize, change: impl Fn(&mut Request)) -> Option<Step> {
    let mut step = steps[i].step.clone();
    let Step::Asks {
        message,
        request,
        ticket,
        lease,
        ..
    } = &mut step
    else {
        return None;
    };
    change(request);
    (*message, ticket.op, *lease) = (FRESH + *message, request.op, None);
    Some(step)
}

#[test]
fn a_waiter_that_asks_again_and_again() {
    let found = refused(|steps, i| match &steps[i].step {
        Step::Asks { request, .. }
            if request.waiter.is_some() && matches!(request.op, Op::Acquire { home: true, .. }) =>
        {
            let mut more = Vec::new();
            for n in 0..1_000u64 {
                let value = Value(format!("{n:040}.").into_bytes().into());
                let asks = asks_other(steps, i, |request| {
                    request.value = value.clone();
                    request.waiter.iter_mut().for_each(|w| w.number = FRESH + n);
                });
                let gives_up = asks_other(steps, i, |request| {
                    request.value = value.clone();
                    request.op = Op::Release;
                });
                more.extend(asks.into_iter().chain(gives_up));
            }
            Some(with(steps, i, more))
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientJoin));
}

#[test]
fn a_client_that_is_closed_and_asks() {
    let found = refused(|steps, i| match &steps.get(i + 1)?.step {
        Step::Asks {
            client, request, ..
        } if request.native && request.op != Op::Release => {
            Some(with(steps, i, vec![Step::Closed { client: *client }]))
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientAsk));
}

#[test]
fn a_lock_with_the_companions_of_another_namespace() {
    let found = refused(|steps, i| match &steps[i].step {
        Step::Asks { request, .. } if &*request.keys.lock == b"lock:{k}" => {
            let mut steps = steps.to_vec();
            if let Step::Asks { request, .. } = &mut steps[i].step {
                request.keys = Arc::new(Keys {
                    lock: b"near:{k}".to_vec().into(),
                    ..(*request.keys).clone()
                });
            }
            Some(steps)
        }
        _ => None,
    });
    assert!(found.is_some());
}

/// The win of a token, as its other handle has it.
fn again(steps: &[Traced], of: &[u8]) -> Option<Step> {
    let won = |t: &&Traced| matches!(&t.step, Step::Won { hold, .. } if hold.token == *of);
    let mut won = steps.iter().find(won)?.step.clone();
    if let Step::Won { again, .. } = &mut won {
        *again = true;
    }
    Some(won)
}

#[test]
fn an_export_beside_another_handle() {
    let found = refused(|steps, i| match &steps.get(i + 1)?.step {
        Step::GivesUp { hold, .. } if matches!(&steps.get(i + 2)?.step, Step::Exports { .. }) => {
            let other = again(steps, &hold.token)?;
            Some(with(steps, i, vec![other.clone(), other]))
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientExport));
}

#[test]
fn an_exported_vote_that_is_released() {
    let found = refused(|steps, i| match &steps.get(i + 1)?.step {
        Step::GivesUp {
            hold, now: then, ..
        } if matches!(&steps.get(i + 2)?.step, Step::Exports { .. }) => {
            let voted = |t: &Traced| match &t.step {
                Step::Hears {
                    message,
                    request,
                    reply: Reply::Granted { .. },
                    ..
                } => request.value.0.starts_with(&hold.token).then_some(*message),
                _ => None,
            };
            let (asked, _) = asked(steps, steps[..i].iter().find_map(voted)?)?;
            let mut release = asks_other(steps, asked, |request| request.op = Op::Release)?;
            if let Step::Asks { now, .. } = &mut release {
                *now = *then;
            }
            Some(with(steps, i, vec![release]))
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientRelease));
}

#[test]
fn a_lease_that_is_passed_on_too_often() {
    let found = refused(|steps, i| match &steps[i].step {
        Step::Won { hold, .. } if hold.number > 0 => {
            let mut steps = steps.to_vec();
            if let Step::Won { hold, .. } = &mut steps[i].step {
                hold.number = 17;
            }
            Some(steps)
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientPassOn));
}

#[test]
fn a_lease_that_is_passed_on_without_a_taker() {
    let found = refused(|steps, i| match &steps[i].step {
        Step::Won { hold, again, .. } if hold.number > 0 && !again && is_told(steps) => {
            Some(without(steps, i))
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientPassOn));
}

#[test]
fn a_lease_that_no_user_is_told_of() {
    let found = refused(|steps, i| {
        let nodes = |t: &Traced| matches!(t.step, Step::Client { nodes: 1, .. });
        match &steps.get(i + 1)?.step {
            Step::Won { hold, again, .. }
                if hold.number == 0 && !again && is_told(steps) && steps.iter().any(nodes) =>
            {
                Some(cut(steps, i))
            }
            _ => None,
        }
    });
    assert_eq!(found, Some(Action::ClientWin));
}

#[test]
fn a_lock_that_no_quorum_has_taken_away() {
    let found = refused(|steps, i| match &steps[i].step {
        Step::Asks {
            client, request, ..
        } if matches!(request.leaving, AfterRelease::Forced(_)) => {
            let (client, lock) = (*client, request.keys.lock.clone());
            let told = Step::Forced {
                client,
                lock,
                done: true,
            };
            Some(with(steps, i, vec![told]))
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientForce));
}

#[test]
fn a_release_of_which_its_user_is_not_told() {
    let found = refused(|steps, i| match &steps[i].step {
        Step::Awaits { .. } => Some(cut(steps, i)),
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientRelease));
}

#[test]
fn a_fence_that_is_written_back_to_a_node_that_has_it() {
    let found = refused(|steps, i| match &steps[i].step {
        Step::Hears {
            message,
            now: then,
            reply: Reply::Confirmed,
            ..
        } => {
            let (asked, _) = asked(steps, *message)?;
            let mut again = asks_other(steps, asked, |_| ())?;
            if let Step::Asks { now, .. } = &mut again {
                *now = *then;
            }
            Some(with(steps, i, vec![again]))
        }
        _ => None,
    });
    assert_eq!(found, Some(Action::ClientWriteBack));
}
