//! Servers that change their places in a list, and clocks that step in a quarantine: every short story.
//!
//! What decides here keeps what it knows to itself, so a state is the story so far, and is played anew at
//! each step.

use std::time::Duration;

use stateright::{Model, Property};

use super::{breaks, explore};
use crate::clock::Instant;
use crate::node::Reply;
use crate::node::admission::{Expectation, Roster, StepWatch};

const NOW: Instant = Instant(1_000_000_000);
const PLACES: usize = 2;

/// Servers that are met in two places of a list.
struct Seats {
    /// How long the stories are.
    steps: usize,
    /// The client forgets who sat where: what is wrong.
    forgetful: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Seat {
    /// The server of that number is met there. The last does not tell its run.
    Meets(usize, usize),
    /// The server that was met there last is admitted with its record.
    Admits(usize),
    /// Half of the time passes that a vote may stand.
    Waits,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Story {
    steps: Vec<Seat>,
    twice: bool,
    refused: bool,
    moved: bool,
}

const SERVERS: usize = 2;

/// Since when a server votes in a place no more, while votes may stand that it gave there.
#[derive(Clone, Copy)]
struct Voter {
    server: usize,
    place: usize,
    left: Option<Instant>,
}

impl Story {
    /// What comes of these steps: whether a server may have votes in two places at once.
    fn tell(model: &Seats, steps: Vec<Seat>) -> Story {
        let expected = Expectation::new("s", 3, Duration::from_secs(1), 0.01, true);
        let memory = expected.quarantine;
        let mut roster = Roster::new(&expected);
        let mut now = NOW;
        let (mut met, mut voters) = ([None; PLACES], Vec::<Voter>::new());
        let mut story = Story {
            steps,
            twice: false,
            refused: false,
            moved: false,
        };
        for step in &story.steps {
            match *step {
                Seat::Waits => now = now + memory / 2,
                Seat::Meets(place, server) => {
                    let run = (server + 1 < SERVERS).then(|| format!("r{server}"));
                    let shown = format!("node{place}");
                    if model.forgetful {
                        roster = Roster::new(&expected);
                    }
                    let ok = roster.meet(place, &shown, run.as_deref(), now).is_ok();
                    let left = voters
                        .iter_mut()
                        .filter(|v| v.place == place && v.left.is_none());
                    for voter in left.filter(|v| v.server != server || run.is_none()) {
                        voter.left = Some(now);
                    }
                    met[place] = ok.then_some(server);
                    story.refused |= !ok;
                }
                Seat::Admits(place) => {
                    let Some(server) = met[place] else { continue };
                    let record = format!("1 s 1 3 1000 n{server} - on");
                    if roster.admit(place, &record, now).is_err() {
                        met[place] = None;
                        story.refused = true;
                        continue;
                    }
                    let stands = |voter: &Voter| voter.left.is_none_or(|left| now < left + memory);
                    let same = |voter: &&Voter| voter.server == server;
                    let mut elsewhere = voters.iter().filter(same).filter(|v| v.place != place);
                    story.moved |= elsewhere.clone().next().is_some();
                    story.twice |= elsewhere.any(stands);
                    let here = |v: &Voter| v.place == place && v.left.is_none();
                    if !voters.iter().any(here) {
                        voters.push(Voter {
                            server,
                            place,
                            left: None,
                        });
                    }
                }
            }
        }
        story
    }
}

impl Model for Seats {
    type State = Story;
    type Action = Seat;

    fn init_states(&self) -> Vec<Story> {
        vec![Story::tell(self, Vec::new())]
    }

    fn actions(&self, state: &Story, steps: &mut Vec<Seat>) {
        if state.steps.len() == self.steps {
            return;
        }
        for place in 0..PLACES {
            steps.extend((0..SERVERS).map(|server| Seat::Meets(place, server)));
            // A server is admitted behind its being met.
            if matches!(state.steps.last(), Some(Seat::Meets(at, _)) if *at == place) {
                steps.push(Seat::Admits(place));
            }
        }
        if !state.steps.is_empty() {
            steps.push(Seat::Waits);
        }
    }

    fn next_state(&self, last: &Story, step: Seat) -> Option<Story> {
        let steps = [&last.steps[..], &[step]].concat();
        Some(Story::tell(self, steps))
    }

    fn properties(&self) -> Vec<Property<Seats>> {
        vec![
            Property::always("no server votes in two places", |_, story: &Story| {
                !story.twice
            }),
            Property::sometimes("a server is refused", |_, story: &Story| story.refused),
            Property::sometimes("a server moves", |_, story: &Story| story.moved),
        ]
    }
}

#[test]
#[ignore = "`make prove` runs it"]
fn a_server_votes_in_one_place() {
    let model = Seats {
        steps: 7,
        forgetful: false,
    };
    explore("seats", model, 170_000);
}

#[test]
fn a_client_that_forgets_its_seats_lets_a_server_vote_twice() {
    let model = Seats {
        steps: 4,
        forgetful: true,
    };
    breaks(model, "no server votes in two places");
}

/// A node in quarantine, whose clock steps.
struct Steps {
    steps: usize,
    /// No step is minded: what is wrong.
    careless: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Moment {
    /// A quarter of the quarantine passes.
    Waits,
    /// The node's clock steps forward, by half of the quarantine.
    StepsForward,
    /// And back.
    StepsBack,
    /// The client asks, and the node votes or says that it is in quarantine.
    Asks,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Quarantine {
    steps: Vec<Moment>,
    early: bool,
    minded: bool,
    voted: bool,
}

impl Quarantine {
    /// What comes of these steps: whether a vote counts before the quarantine has lasted.
    fn tell(model: &Steps, steps: Vec<Moment>) -> Quarantine {
        const LONG: u64 = 1_000_000_000;
        let length = Duration::from_nanos(LONG);
        let mut watch = StepWatch::new(length, 0.01);
        // The node's clock is ahead of the client's by so many µs.
        let (mut now, mut ahead) = (NOW, 5_000_000_i64);
        let time = |now: Instant, ahead: i64| (now.0 / 1000).wrapping_add_signed(ahead);
        watch.admitted(1, now, now, time(now, ahead));
        let from = now;
        let mut until = time(now, ahead) + LONG / 1000;
        let mut story = Quarantine {
            steps,
            early: false,
            minded: false,
            voted: false,
        };
        for step in &story.steps {
            match step {
                Moment::Waits => now = now + length / 4,
                Moment::StepsForward => ahead += LONG as i64 / 2000,
                Moment::StepsBack => ahead -= LONG as i64 / 2000,
                Moment::Asks => {
                    now = now + Duration::from_micros(10);
                    let here = time(now, ahead);
                    let quarantined = here < until;
                    let told = watch.told(1, now, now, here, quarantined) && !model.careless;
                    let vote = Reply::Granted {
                        fence: 0,
                        lasts: None,
                    };
                    let counts = !told || StepWatch::worth(vote.clone()) == vote;
                    if told {
                        // The quarantine begins again, over a new connection.
                        story.minded = true;
                        until = until.max(here + LONG / 1000);
                        watch.admitted(1, now, now, here);
                    }
                    if counts && !quarantined {
                        story.early |= now < from + length;
                        story.voted = true;
                    }
                }
            }
        }
        story
    }
}

impl Model for Steps {
    type State = Quarantine;
    type Action = Moment;

    fn init_states(&self) -> Vec<Quarantine> {
        vec![Quarantine::tell(self, Vec::new())]
    }

    fn actions(&self, state: &Quarantine, steps: &mut Vec<Moment>) {
        if state.steps.len() < self.steps {
            steps.extend([
                Moment::Waits,
                Moment::StepsForward,
                Moment::StepsBack,
                Moment::Asks,
            ]);
        }
    }

    fn next_state(&self, last: &Quarantine, step: Moment) -> Option<Quarantine> {
        let steps = [&last.steps[..], &[step]].concat();
        Some(Quarantine::tell(self, steps))
    }

    fn properties(&self) -> Vec<Property<Steps>> {
        vec![
            Property::always("a step ends no quarantine", |_, story: &Quarantine| {
                !story.early
            }),
            Property::sometimes("a step is seen", |_, story: &Quarantine| story.minded),
            Property::sometimes("a quarantine is over", |_, story: &Quarantine| story.voted),
        ]
    }
}

#[test]
#[ignore = "`make prove` runs it"]
fn a_quarantine_lasts_whatever_the_clock() {
    let model = Steps {
        steps: 7,
        careless: false,
    };
    explore("clock in quarantine", model, 20_000);
}

#[test]
fn a_client_that_minds_no_step_counts_a_vote_too_early() {
    let model = Steps {
        steps: 4,
        careless: true,
    };
    breaks(model, "a step ends no quarantine");
}
