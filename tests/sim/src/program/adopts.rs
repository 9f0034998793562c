//! Leases that go on elsewhere: their texts, and all who try to adopt them. AD1: of all one has
//! it; AD2: of what was exported nothing is stored anew; AD3: where nothing goes wrong a text is
//! adopted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quorlock::ErrorKind;

use super::acts::perhaps;
use super::{Handle, Place};
use crate::contender::{Client, Stage};
use crate::random::Random;

/// One who means to adopt a text.
struct Adopter {
    text: Arc<str>,
    at: Duration,
    cut: Option<u64>,
    /// There is no other adopter.
    alone: bool,
    /// Its exporter's lease has a cap.
    capped: bool,
    random: Random,
}

impl Client {
    /// Exports the lease, which others then try to go on with.
    pub(super) async fn exports(
        &self,
        stage: &Arc<Stage>,
        place: Place,
        handle: &Handle,
        cut: Option<u64>,
        random: Random,
    ) {
        let (world, lease, c) = (&stage.world, &handle.lease, self.number);
        let (before, begun) = (handle.stands(), self.now(stage));
        stage.says(|| "wants to export its lease".into());
        let outcome = perhaps(lease.export(), cut).await;
        if !matches!(outcome, Some(Ok(_))) {
            self.judge_untouched(stage, handle);
        }
        let text: Arc<str> = match outcome {
            None => return stage.says(|| "waits for the text no more".into()),
            Some(Err(error)) => {
                stage.says(|| format!("is told: not exported, {error}"));
                return self.judge_error_of(stage, before, begun, &error);
            }
            Some(Ok(text)) => text.into(),
        };
        self.in_time(stage, begun, handle.node_timeout(), "an export");
        if handle.ends() {
            let what = format!("AD1 c{c} is given the text of a lease that it gave back");
            return world.violated(what);
        }
        world.exported(handle.index, lease);
        world.done_with_tokens();
        stage.counts.exports.fetch_add(1, Ordering::Relaxed);
        if lease.is_held() {
            world.violated(format!("S5 c{c} holds what it exported"));
        }
        let adopters = *random.pick(&[1, 1, 2, 2, 3]);
        let capped = lease.hold().terms().asked.max_hold.is_some();
        for number in 0..adopters {
            let place = place.after(number);
            let who = if random.chance(40) {
                self.clone()
            } else {
                stage.somebody(&random, lease)
            };
            let (base, ttl) = (
                stage.plan.network.base.max(1),
                stage.plan.ttl.as_nanos() as u64,
            );
            let at = match random.below(6) {
                0..=2 => 0,
                3 => random.below(8 * base),
                4 => random.below(ttl * 5 / 4),
                // Just about at its end.
                _ => ttl * random.between(97, 103) / 100,
            };
            let adopter = Adopter {
                text: text.clone(),
                at: Duration::from_nanos(at),
                cut: random.chance(15).then(|| random.below(8)),
                alone: adopters == 1,
                capped,
                random: Random::new(random.bits()),
            };
            if place.is_done(stage) {
                let work = who.clone().adopts(stage.clone(), place, adopter);
                who.begins(stage, place, None, work);
            }
        }
    }

    async fn adopts(self, stage: Arc<Stage>, place: Place, adopter: Adopter) {
        let Adopter {
            text,
            at,
            cut,
            alone,
            capped,
            random,
        } = adopter;
        let (plan, c) = (&stage.plan, self.number);
        self.pauses(at).await;
        let begun = self.now(&stage);
        stage.says(|| "wants to go on with the exported lease".into());
        let lease = match perhaps(self.door.adopt(&text), cut).await {
            None => return stage.says(|| "wants to go on with it no more".into()),
            Some(Err(error)) => {
                stage.says(|| format!("is told: {error}"));
                // What is left of `max_hold` may be less than a way there and back; and in the calm at the
                // end connections break one after the other, for longer than an adopter waits.
                let late = stage.world.time() > plan.troubled;
                if !(capped || late) || error.kind() != ErrorKind::QuorumUnavailable {
                    self.judge_error(&stage, &error);
                }
                let most = plan.ttl.max(2 * plan.node_timeout) + plan.node_timeout;
                self.in_time(&stage, begun, most, "an adoption");
                let forced = stage.counts.forces.load(Ordering::Relaxed) > 0;
                let soon = at < plan.habit(c).ttl / 3 && !self.door.is_closed();
                if alone && !capped && soon && plan.is_healthy() && !forced {
                    let what = format!("AD3 c{c} cannot go on with an exported lease: {error}");
                    stage.world.violated(what);
                }
                if error.kind() == ErrorKind::InvalidArgument {
                    let what = format!("L5 a plan asks for what may not be: {error}");
                    stage.world.violated(what);
                }
                return;
            }
            Some(Ok(lease)) => lease,
        };
        stage.says(|| "goes on with the lease".into());
        stage.holds.fetch_add(1, Ordering::Relaxed);
        stage.counts.adoptions.fetch_add(1, Ordering::Relaxed);
        let handle = self.has(&stage, place, lease, false);
        stage.world.done_with_tokens();
        let late = stage.world.time() > plan.troubled;
        let again = random
            .chance(40)
            .then(|| random.below(8 * plan.network.base.max(1)));
        if place.depth() > 3 || late {
            self.gives_back(&stage, &handle, None).await
        } else {
            let random = Random::new(random.bits());
            self.goes_on(&stage, place, vec![handle], None, random)
                .await;
        }
        // Once more, though it was adopted, and was released.
        let Some(pause) = again.filter(|_| !late) else {
            return;
        };
        self.pauses(Duration::from_nanos(pause)).await;
        if let Ok(lease) = self.door.adopt(&text).await {
            let handle = self.has(&stage, place, lease, false);
            self.gives_back(&stage, &handle, None).await;
        }
    }
}
