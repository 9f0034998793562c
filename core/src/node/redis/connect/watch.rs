//! Watching for a failover: one connection to one sentinel, which says so when the master
//! is another.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::Value as Resp;

use super::locate::{ask, say};
use super::talk::{next, send, within};
use super::target::Target;
use crate::event::event;
use crate::foreign;
use crate::node::address::{Endpoint, Sentinels};
use crate::node::redis::replies::text;
use crate::node::redis::wire::{ServerMessage, Wire};
use crate::node::{Fault, FaultKind};

/// A sentinel that has said nothing for so long is asked whether it is there, and has as long to
/// answer: a sentinel that hangs would leave a failover unseen.
const QUIET: Duration = Duration::from_secs(2);
/// The first and the longest pause when no sentinel is reached.
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Ends when the sentinels of a node name a server other than the one at `here`.
///
/// The client hears at once what the sentinels publish (`+switch-master`); it asks for what
/// happened before it had subscribed. Never ends for a node that has no sentinels.
pub(crate) async fn moved(target: Arc<Target>, here: Endpoint) {
    let Endpoint::Sentinel(sentinels) = &target.address.endpoint else {
        return std::future::pending().await;
    };
    let mut pause = PAUSE;
    loop {
        for place in target.located.order(sentinels.hosts.len()) {
            let watched = watch(&target, sentinels, place, &here, &mut pause).await;
            if watched.is_ok() {
                return;
            }
            target.located.pass(place);
        }
        if !target.located.told_away.swap(true, Ordering::Relaxed) {
            (target.gate.warn)(event!(
                "sentinels_unreached",
                "no sentinel of the node {node} is reached: its connection is kept, but a failover \
                 is noticed late",
                node = target.address.shown,
            ));
        }
        let clock = &target.gate.clock;
        clock.sleep_until(clock.now() + pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Ends well when that sentinel names another server than `here`, and badly when it is lost.
async fn watch(
    target: &Target,
    sentinels: &Sentinels,
    place: usize,
    here: &Endpoint,
    pause: &mut Duration,
) -> Result<(), Fault> {
    let subscribe = redis::cmd("SUBSCRIBE").arg("+switch-master").take();
    let (mut wire, _) = say(target, sentinels, place, subscribe).await?;
    // The question goes behind the subscription, so that no failover falls between the two.
    if ask(target, sentinels, place)
        .await?
        .is_some_and(|named| named != *here)
    {
        return Ok(());
    }
    target.located.answered(place);
    target.located.told_away.store(false, Ordering::Relaxed);
    *pause = PAUSE;
    loop {
        let reply = hear(target, &mut wire).await?;
        if switched_to(&reply, sentinels).is_some_and(|named| named != *here) {
            return Ok(());
        }
    }
}

/// What a sentinel says next.
async fn hear(target: &Target, wire: &mut Wire) -> Result<Resp, Fault> {
    let clock = &target.gate.clock;
    loop {
        let said = match within(clock, QUIET, next(wire)).await {
            // A silent sentinel may hang, which looks like a master that stays.
            Err(fault) if fault.kind == FaultKind::Timeout => {
                let ping = async {
                    send(wire, &[redis::cmd("PING")]).await?;
                    next(wire).await
                };
                within(clock, QUIET, ping).await?
            }
            said => said?,
        };
        if let ServerMessage::Reply(reply) = said {
            return Ok(reply);
        }
    }
}

/// Where the master is by a message: its name, its old host and port, and its new ones.
fn switched_to(message: &Resp, sentinels: &Sentinels) -> Option<Endpoint> {
    let Resp::Array(parts) = message else {
        return None;
    };
    let [kind, _, said] = &parts[..] else {
        return None;
    };
    if text(kind) != "message" {
        return None;
    }
    let said = text(said);
    let mut words = said.split(' ');
    let (name, host, port) = (words.next()?, words.nth(2)?, words.next()?);
    // Sentinels publish for all their masters; the message has to name this one.
    (name == sentinels.master).then_some(Endpoint::Tcp {
        host: foreign::host(host)?,
        port: port.parse().ok()?,
        tls: sentinels.tls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::parse_redis_value;

    #[test]
    fn a_message_says_where_the_master_is_now() {
        let sentinels = Sentinels {
            master: "m".into(),
            hosts: Vec::new(),
            tls: true,
            user: None,
            password: None,
        };
        let message = |kind: &str, said: &str| {
            let wire = format!(
                "*3\r\n${}\r\n{kind}\r\n$14\r\n+switch-master\r\n${}\r\n{said}\r\n",
                kind.len(),
                said.len()
            );
            switched_to(&parse_redis_value(wire.as_bytes()).unwrap(), &sentinels)
        };
        let there = Endpoint::Tcp {
            host: "10.0.0.2".into(),
            port: 7001,
            tls: true,
        };
        let said = "m 10.0.0.1 7000 10.0.0.2 7001";
        assert_eq!(message("message", said), Some(there));
        assert_eq!(message("pmessage", said), None);
        for other in [
            "mm 10.0.0.1 7000 10.0.0.2 7001",
            "m 10.0.0.1 7000",
            "m a 1 b x",
            "m 10.0.0.1 7000 \u{202e}h 7001",
            "m 10.0.0.1 7000 \x1b[2J 7001",
            "",
        ] {
            assert_eq!(message("message", other), None, "{other}");
        }
        let pong = parse_redis_value(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n").unwrap();
        assert_eq!(switched_to(&pong, &sentinels), None);
    }
}
