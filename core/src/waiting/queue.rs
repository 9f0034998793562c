//! One caller's way to the lock past those of other clients: it asks, queues at
//! the lock's [home](super::home), is called, and asks again.
//!
//! Uncontended, all nodes are asked at once, and that is all. A caller that the
//! home refuses is queued there by the same request; a release reserves the
//! lock for the first in that queue and calls it. What the caller then does
//! about the other nodes is [`home::next`]. Timers stand in for calls that are
//! lost.
//!
//! A token lives from its first request until it is won or given up, over all
//! polls: a poll whose answer was lost is then one of our own. The waiter, which
//! is no token, may be left in a queue while tokens come and go; it becomes
//! another once it has left one.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::home::{self, Next};
use super::line::Place;
use crate::clock::{Instant, Sleep};
use crate::counters::count;
use crate::mutants::mutant;
use crate::node::{Line, Nodes};
use crate::post::{Letterbox, News, Post};
use crate::quorum::{Kind, quorum};
use crate::retry;
use crate::round::{Heard, Hold, IN_A_ROW, NoQuorum, Terms};
use crate::set::Set;

/// See the [module documentation](self). Dropped, the attempt is undone and the
/// queues are left.
pub(crate) struct Quest<'a> {
    set: &'a Arc<Set>,
    post: &'a Post,
    terms: &'a Terms,
    /// Our place in the line of this client.
    place: &'a Place,
    /// The nodes as the lock's homes.
    order: Vec<usize>,
    letters: Letterbox,
    /// The present token's; taken when it is won.
    hold: Option<Arc<Hold>>,
    /// How much of its progress we know.
    seen: u64,
    /// In whose queue our waiter stands, or may.
    home: Option<usize>,
    stage: Stage,
    /// The home has called before we knew its answer.
    called: bool,
    /// When nodes were asked last.
    asked: Instant,
    /// Attempts that came to their end.
    ended: u32,
    /// The token before, to which nodes may yet answer.
    before: Option<Arc<Hold>>,
    /// What the nodes said to those before that one.
    last: Option<NoQuorum>,
    /// As it was given up, wrong settings alone prevented a quorum.
    misconfigured: bool,
    /// The deadline has passed, and answers are awaited that say why in vain.
    overtime: bool,
    timer: Option<(Instant, Sleep)>,
}

/// What we are about.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The home alone was asked.
    Polling,
    /// It refused. It is asked again then, or when it calls.
    Waiting { until: Instant },
    /// All were asked; those that refused so many times, and again then.
    Asking { tries: u32, again: Option<Instant> },
    /// Nobody is asked before then.
    Pausing { until: Instant },
}

/// How a quest ended.
pub(crate) enum Ended<T> {
    /// The lease.
    Won(Arc<Hold>),
    /// The deadline came first. What the nodes have said.
    Deadline(NoQuorum),
    /// Nodes are set up so that there is no quorum.
    Misconfigured(NoQuorum),
    /// What `again` had to offer.
    Other(T),
}

enum Event {
    Progress,
    News(News),
    Timer,
}

impl<'a> Quest<'a> {
    pub(crate) fn new(
        set: &'a Arc<Set>,
        post: &'a Arc<Post>,
        terms: &'a Terms,
        place: &'a Place,
    ) -> Quest<'a> {
        Quest {
            set,
            post,
            terms,
            place,
            order: Vec::new(),
            letters: post.rent(&terms.keys.lock),
            hold: None,
            seen: 0,
            home: None,
            stage: Stage::Pausing {
                until: Instant::NEVER,
            },
            called: false,
            asked: Instant::NEVER,
            ended: 0,
            before: None,
            last: None,
            misconfigured: false,
            overtime: false,
            timer: None,
        }
    }

    /// Goes on until the lock is won, and at most until `deadline`; where answers
    /// that are under way then decide why it was not, until they are in, at most
    /// for another `node_timeout`. `again` runs when something has changed in
    /// this client, and at timers; it may end the quest with a result of its own.
    pub(crate) async fn run<T>(
        mut self,
        deadline: Instant,
        again: &mut impl FnMut() -> Option<T>,
    ) -> Ended<T> {
        let deadline = mutant!("attempt-past-deadline", deadline, Instant::FAR);
        let now = self.set.clock.now();
        if self.post.is_contended(&self.terms.keys.lock, now) {
            self.draw(self.most());
            self.poll();
        } else {
            self.draw(self.most().min(self.place.block()));
            self.ask_all();
        }
        let latest = deadline + self.terms.timing.node_timeout;
        loop {
            let at = match self.overtime {
                true => latest,
                false => self.wake_at(deadline),
            };
            let event = self.event(at).await;
            if self.hold().is_won() {
                return Ended::Won(self.hold.take().expect("looked at above"));
            }
            let now = self.set.clock.now();
            if now >= deadline {
                // Where the home has voted for us, the others are to be asked.
                if let Event::Progress = event {
                    self.go_on(now);
                }
                let lost = self.so_far();
                self.overtime =
                    mutant!("no-overtime", now < latest, false) && lost.kind() == Kind::Undecided;
                if !self.overtime {
                    let lost = mutant!("unmarked-did-not-answer", lost.in_the_end(), lost);
                    return match lost.misconfigured {
                        true => Ended::Misconfigured(lost),
                        false => Ended::Deadline(lost),
                    };
                }
                continue;
            }
            self.forget_answered();
            let look = match event {
                Event::Progress => false,
                Event::News(news) => news.look,
                Event::Timer => true,
            };
            if look && let Some(other) = again() {
                return Ended::Other(other);
            }
            match event {
                Event::News(news) => self.take_news(news, now),
                Event::Progress | Event::Timer => self.go_on(now),
            }
            if self.misconfigured {
                return Ended::Misconfigured(self.so_far());
            }
        }
    }

    fn hold(&self) -> &Arc<Hold> {
        self.hold.as_ref().expect("taken at the end only")
    }

    /// When to look although nothing has come.
    fn wake_at(&self, deadline: Instant) -> Instant {
        let mine = match self.stage {
            Stage::Waiting { until } | Stage::Pausing { until } => until,
            Stage::Asking {
                again: Some(again), ..
            } => again.min(self.hold().attempt_ends()),
            Stage::Asking { tries, .. } if tries > 0 => self.hold().attempt_ends(),
            // All that was asked is answered by then: with a deadline behind
            // it, an uncontended acquire needs no timer.
            Stage::Polling | Stage::Asking { .. } => {
                let answered = self.asked + 2 * self.terms.timing.node_timeout;
                return if deadline < answered {
                    deadline
                } else {
                    Instant::FAR
                };
            }
        };
        mine.min(deadline)
    }

    async fn event(&mut self, at: Instant) -> Event {
        if self.timer.as_ref().is_none_or(|(set, _)| *set != at) {
            self.timer = (at != Instant::FAR).then(|| (at, self.set.clock.sleep_until(at)));
        }
        poll_fn(|cx| {
            let hold = self.hold.as_ref().expect("taken at the end only");
            if hold.poll_progress(&mut self.seen, cx).is_ready() {
                return Poll::Ready(Event::Progress);
            }
            if self.overtime {
                self.before.iter().for_each(|before| before.listen(cx));
                if self.so_far().kind() != Kind::Undecided {
                    return Poll::Ready(Event::Progress);
                }
            }
            if let Poll::Ready(news) = self.letters.poll_news(cx) {
                return Poll::Ready(Event::News(news));
            }
            match &mut self.timer {
                Some((_, timer)) => timer.as_mut().poll(cx).map(|()| Event::Timer),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// What follows from the nodes' answers, and from the time.
    fn go_on(&mut self, now: Instant) {
        match self.stage {
            Stage::Polling => self.take_answer(now),
            Stage::Asking { tries, again } => self.look_at_votes(tries, again, now),
            Stage::Waiting { until } if until <= now => self.poll(),
            Stage::Pausing { until } if until <= now => match self.is_any_there() {
                true => self.poll(),
                false => self.ask_all(),
            },
            Stage::Waiting { .. } | Stage::Pausing { .. } => {}
        }
    }

    /// The home's, to a poll.
    fn take_answer(&mut self, now: Instant) {
        let home = self.home.expect("it was asked");
        match self.hold().heard()[home] {
            Heard::Awaited | Heard::Unasked => {}
            Heard::Granted => {
                let others = Nodes::all(self.order.len()).without(Nodes::one(home));
                self.stage = Stage::Asking {
                    tries: 0,
                    again: None,
                };
                self.asked = now;
                self.letters.stands_at(Nodes::one(home), None);
                self.hold().ask(others, Nodes::NONE);
                if others == Nodes::NONE {
                    // Its vote came too late to be worth anything.
                    self.look_at_votes(0, None, now);
                }
            }
            Heard::Refused { left, line } => {
                self.post.note_contention(&self.terms.keys.lock, now);
                self.wait_at(home, left, line, now);
                self.answer_call();
            }
            Heard::Out => {
                self.give_up(Some(home));
                match self.is_any_there() {
                    true => self.poll(),
                    false => self.pause_for_nodes(now),
                }
            }
        }
    }

    /// Asks all, if we were called in the moment in which the home refused.
    fn answer_call(&mut self) {
        let called = mutant!("early-call-unanswered", self.called, false);
        if called && self.is_quorum_there() {
            self.ask_all();
        }
    }

    fn wait_at(&mut self, home: usize, left: Option<Duration>, line: Option<Line>, now: Instant) {
        self.home = Some(home);
        let place = line.and_then(|line| line.place);
        self.letters.stands_at(Nodes::one(home), place);
        self.place.tell(Arc::new(self.so_far()));
        let deaf = line.is_some_and(|line| line.deaf);
        let (low, high) = retry::poll_pause(left, place, deaf);
        self.stage = Stage::Waiting {
            until: now + self.set.rng.between(low, high),
        };
    }

    /// What the nodes have said last.
    fn so_far(&self) -> NoQuorum {
        let before = self.before.as_ref();
        let before = before.map(|hold| hold.so_far().after(self.last.as_ref()));
        let before = before.as_ref().or(self.last.as_ref());
        self.hold().so_far().after(before)
    }

    /// The nodes', to an attempt.
    fn look_at_votes(&mut self, tries: u32, again: Option<Instant>, now: Instant) {
        self.look_up_order();
        let heard = self.hold().heard();
        let over = now >= self.hold().attempt_ends();
        if self.hold().so_far().misconfigured {
            return self.give_up(None);
        }
        match home::next(&self.order, &heard) {
            Next::Yield(home) => {
                self.post.note_contention(&self.terms.keys.lock, now);
                let Heard::Refused { left, line } = heard[home] else {
                    // A seeded bug alone gives way with the home's vote.
                    return self.pause_for_nodes(now);
                };
                if line.is_some_and(|line| line.place.is_some()) {
                    self.give_up(Some(home));
                    self.wait_at(home, left, line, now);
                    self.answer_call();
                } else {
                    self.give_up(None);
                    self.poll();
                }
            }
            Next::Pause => {
                self.give_up(self.home);
                self.pause_for_nodes(now);
            }
            _ if over => {
                self.give_up(None);
                let (low, high) = retry::back_off(self.ended);
                self.ended += 1;
                self.stage = Stage::Pausing {
                    until: now + self.set.rng.between(low, high),
                };
            }
            Next::Await => {}
            Next::Retry(nodes) => {
                let at = again.unwrap_or_else(|| {
                    let (low, high) = retry::retry_pause(tries);
                    now + self.set.rng.between(low, high)
                });
                if now < at {
                    self.stage = Stage::Asking {
                        tries,
                        again: Some(at),
                    };
                    return;
                }
                // Whoever holds those calls us from there too.
                let homes = if tries >= 2 { nodes } else { Nodes::NONE };
                let all = homes.iter().chain(self.home).collect();
                self.letters.stands_at(all, None);
                self.stage = Stage::Asking {
                    tries: tries + 1,
                    again: None,
                };
                self.hold().ask(nodes, homes);
            }
        }
    }

    fn take_news(&mut self, news: News, now: Instant) {
        match self.stage {
            Stage::Waiting { .. } if news.called && self.is_quorum_there() => self.ask_all(),
            // Without a quorum the attempt would fail. We are called once, so
            // we ask again when nodes may be back.
            Stage::Waiting { until } if news.called => {
                let soon = now + self.terms.timing.node_timeout;
                self.stage = Stage::Waiting {
                    until: until.min(soon),
                };
            }
            Stage::Waiting { .. } if mutant!("never-joins-again", news.listening, false) => {
                self.poll();
            }
            // Somebody has released what we were refused for.
            Stage::Asking {
                tries,
                again: Some(_),
            } if news.called => self.look_at_votes(tries, Some(now), now),
            Stage::Pausing { .. } if news.listening => {
                self.stage = Stage::Pausing { until: now };
                self.go_on(now);
            }
            // What the home is about to say may be older than the call.
            Stage::Polling | Stage::Asking { .. } => {
                self.called |= mutant!("early-call-forgotten", news.called, false);
            }
            Stage::Waiting { .. } | Stage::Pausing { .. } => {}
        }
    }

    /// Asks the home alone: another than before, if that is out.
    fn poll(&mut self) {
        self.look_up_order();
        let there = |node: &&usize| !self.set.is_out(**node);
        let first = self.order.iter().find(there).copied();
        let home = first.or(self.home).unwrap_or(self.order[0]);
        if self.home.is_some_and(|before| before != home) {
            self.give_up(None);
        }
        if self.home != Some(home) {
            self.home = Some(home);
            self.letters.stands_at(Nodes::one(home), None);
        }
        self.stage = Stage::Polling;
        self.called = false;
        self.asked = self.set.clock.now();
        self.hold().open(Nodes::one(home), Nodes::one(home));
    }

    /// Asks all nodes.
    fn ask_all(&mut self) {
        self.look_up_order();
        let there = |node: &&usize| !self.set.is_out(**node);
        let first = || self.order.iter().find(there).copied();
        let home = self.home.or_else(first).unwrap_or(self.order[0]);
        self.home = Some(home);
        self.letters.stands_at(Nodes::one(home), None);
        self.stage = Stage::Asking {
            tries: 0,
            again: None,
        };
        self.called = false;
        let all = Nodes::all(self.order.len());
        self.asked = self.set.clock.now();
        self.hold().open(all, Nodes::one(home));
    }

    /// A node's id is known once it was connected to; it gets another when it
    /// loses its memory.
    fn look_up_order(&mut self) {
        let ids = self.set.links.iter().map(|link| link.id());
        self.order = home::order(&self.terms.keys.lock, ids);
    }

    /// A pause while no node can vote.
    fn pause_for_nodes(&mut self, now: Instant) {
        let most = self.terms.timing.node_timeout;
        self.stage = Stage::Pausing {
            until: now + self.set.rng.between(most / 5, most),
        };
    }

    fn is_any_there(&self) -> bool {
        (0..self.order.len()).any(|node| !self.set.is_out(node))
    }

    fn is_quorum_there(&self) -> bool {
        let there = (0..self.order.len()).filter(|node| !self.set.is_out(*node));
        there.count() >= quorum(self.order.len())
    }

    /// Gives the token up and draws another. The waiter stays in the queue of
    /// `stay`, or becomes another.
    fn give_up(&mut self, stay: Option<usize>) {
        let lost = self.so_far();
        self.misconfigured = lost.misconfigured;
        self.place.tell(Arc::new(lost));
        let hold = self.hold.take().expect("taken at the end only");
        hold.give_up(stay);
        if hold.begun() != Instant::NEVER
            && let Some(before) = self.before.replace(hold)
        {
            self.last = Some(before.so_far().after(self.last.as_ref()).closed());
        }
        self.forget_answered();
        count(&self.set.counters.attempts_lost);
        self.home = stay;
        if stay.is_none() {
            self.letters.become_another();
        }
        self.draw(self.most());
    }

    /// Lets go of the token before, once nothing more is to come of it: there may be
    /// thousands who wait.
    fn forget_answered(&mut self) {
        if let Some(before) = self.before.take_if(|before| before.is_answered()) {
            self.last = Some(before.so_far().after(self.last.as_ref()));
        }
    }

    /// How many fences to ask for where others may come to wait behind us.
    fn most(&self) -> u32 {
        if self.terms.fair { 1 } else { 1 + IN_A_ROW }
    }

    fn draw(&mut self, block: u32) {
        let waiter = Some(self.letters.waiter());
        self.hold = Some(Hold::new(self.set, self.terms, block, waiter, self.home));
        self.seen = 0;
    }
}

#[cfg(test)]
mod tests;

impl Drop for Quest<'_> {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take()
            && mutant!("dropped-quest-stays", true, false)
        {
            hold.release();
        }
    }
}
