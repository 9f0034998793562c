//! When a command has to stop, so that it does not outlive its lock. Pure.

use std::time::Duration;

use quorlock::LossReason;

/// So long before the lock ends is the latest moment for KILL.
const KILL_BEFORE: Duration = Duration::from_millis(200);
/// The shortest notice that a command gets.
const NOTICE: Duration = Duration::from_secs(1);
/// The part of the ttl that is a longer one.
const PART: f64 = 0.3;
/// Above this part of its ttl a lease stays as long as its renewals are answered: it is asked
/// for again after at most 0.36 of it, and an answer takes at most a quarter.
const HEALTHY: f64 = 0.36;

/// What is to be done now.
#[derive(Debug, PartialEq, Eq)]
pub enum Act {
    /// Look again after so long.
    Wait(Duration),
    /// Ask the command to end.
    Term(EndReason),
    /// End it.
    Kill,
}

/// Why a command has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The lock will be over in so long, for nothing lengthens it.
    Ending(Duration),
    /// It is lost, and that came without notice.
    Lost(LossReason),
}

/// Watches over one command. It asks once, and kills once.
#[derive(Debug)]
pub struct Guard {
    early: Duration,
    late: Duration,
    grace: Duration,
    termed: bool,
    kill_at: Option<Duration>,
    killed: bool,
}

impl Guard {
    pub fn new(ttl: Duration, grace: Duration) -> Guard {
        let early = NOTICE.max(ttl.mul_f64(PART)).min(ttl.mul_f64(HEALTHY));
        Guard {
            early,
            late: KILL_BEFORE.min(early / 2),
            grace,
            termed: false,
            kill_at: None,
            killed: false,
        }
    }

    /// When the supervisor of this process is to end the command: it has had its chance then.
    pub fn too_late(&self, now: Duration, left: Duration, lost: Option<LossReason>) -> Duration {
        now.saturating_add(self.kill_in(now, left, lost))
            .saturating_add(self.late / 2)
    }

    fn kill_in(&self, now: Duration, left: Duration, lost: Option<LossReason>) -> Duration {
        match lost {
            None => left.saturating_sub(self.late),
            Some(_) if !self.termed => self.grace,
            // A command that was asked in time has had its time when the loss comes.
            Some(_) => self.kill_at.unwrap_or(now).saturating_sub(now),
        }
    }

    /// `now` on any clock that goes forward; `remaining`: of the lease.
    pub fn look(&mut self, now: Duration, remaining: Duration, lost: Option<LossReason>) -> Act {
        if self.killed {
            return Act::Wait(Duration::MAX);
        }
        if !self.termed {
            let why = match lost {
                Some(reason) => {
                    self.kill_at = Some(now.saturating_add(self.grace));
                    EndReason::Lost(reason)
                }
                None if remaining < self.early => EndReason::Ending(remaining),
                None => return Act::Wait(remaining - self.early + Duration::from_millis(1)),
            };
            self.termed = true;
            return Act::Term(why);
        }
        let kill_in = self.kill_in(now, remaining, lost);
        if kill_in.is_zero() {
            self.killed = true;
            return Act::Kill;
        }
        Act::Wait(kill_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn one_that_is_not_renewed_is_asked_and_then_killed_before_the_end() {
        let mut guard = Guard::new(ms(10_000), ms(10_000));
        assert_eq!(guard.look(ms(0), ms(9_900), None), Act::Wait(ms(6_901)));
        assert_eq!(guard.look(ms(6_900), ms(3_000), None), Act::Wait(ms(1)));
        let why = EndReason::Ending(ms(2_999));
        assert_eq!(guard.look(ms(6_901), ms(2_999), None), Act::Term(why));
        assert_eq!(guard.look(ms(6_901), ms(2_999), None), Act::Wait(ms(2_799)));
        assert_eq!(guard.look(ms(9_700), ms(200), None), Act::Kill);
        let lost = Some(LossReason::Expired);
        let never = Act::Wait(Duration::MAX);
        assert_eq!(guard.look(ms(9_900), ms(0), lost), never);
    }

    #[test]
    fn a_renewal_that_succeeds_in_the_end_spares_the_kill() {
        let mut guard = Guard::new(ms(10_000), ms(10_000));
        assert!(matches!(guard.look(ms(0), ms(2_000), None), Act::Term(_)));
        assert_eq!(guard.look(ms(1_500), ms(9_900), None), Act::Wait(ms(9_700)));
        assert_eq!(guard.look(ms(11_200), ms(200), None), Act::Kill);
    }

    #[test]
    fn a_loss_without_notice_leaves_the_grace() {
        let lost = Some(LossReason::Forced);
        let mut guard = Guard::new(ms(10_000), ms(700));
        let why = EndReason::Lost(LossReason::Forced);
        assert_eq!(guard.look(ms(50), ms(0), lost), Act::Term(why));
        assert_eq!(guard.look(ms(50), ms(0), lost), Act::Wait(ms(700)));
        assert_eq!(guard.look(ms(750), ms(0), lost), Act::Kill);
    }

    #[test]
    fn a_loss_after_notice_leaves_none() {
        let mut guard = Guard::new(ms(10_000), ms(10_000));
        assert!(matches!(guard.look(ms(0), ms(2_000), None), Act::Term(_)));
        let lost = Some(LossReason::Refused);
        assert_eq!(guard.look(ms(10), ms(0), lost), Act::Kill);
    }

    #[test]
    fn the_warden_comes_behind_and_before_the_end() {
        let lost = Some(LossReason::Forced);
        let mut guard = Guard::new(ms(10_000), ms(700));
        assert_eq!(guard.too_late(ms(5), ms(9_000), None), ms(8_905));
        assert_eq!(guard.too_late(ms(5), ms(0), lost), ms(805));
        let _ = guard.look(ms(5), ms(0), lost);
        assert_eq!(guard.too_late(ms(105), ms(0), lost), ms(805));
    }

    #[test]
    fn healthy_renewals_never_stop_a_command() {
        for ttl in [10, 500, 1_000, 2_000, 3_000, 10_000, 60_000] {
            // Less the drift, the longest time between renewals, and the slowest answer.
            let least = ms(ttl).mul_f64(0.99 - 0.36 - 0.25);
            let act = Guard::new(ms(ttl), ms(0)).look(ms(0), least, None);
            assert!(matches!(act, Act::Wait(_)), "{ttl}: {act:?}");
        }
    }
}
