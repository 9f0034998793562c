//! Whether the server whose place another has taken gives no votes any more.

use std::sync::Arc;
use std::time::Duration;

use super::talk::{exchange, login, within};
use super::target::Target;
use crate::node::Fault;
use crate::node::address::Endpoint;
use crate::node::redis::dial::DialError;
use crate::node::redis::replies::text;
use crate::node::redis::wire::Wire;

/// How long one look may take, and the pause before the next.
const PATIENCE: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_millis(500);

/// Ends once the server that was at `endpoint` is known to give no votes any more: no process
/// listens there, so the server has ended and all its connections with it; or the server reports
/// that it is a replica. A server that hangs, or is not reached, may yet go on.
pub(crate) async fn is_over(target: Arc<Target>, endpoint: Endpoint) {
    let clock = &target.gate.clock;
    while !is_over_now(&target, &endpoint).await {
        clock.sleep_until(clock.now() + PAUSE).await;
    }
}

/// Whether that is known now.
pub(super) async fn is_over_now(target: &Target, endpoint: &Endpoint) -> bool {
    let looked = within(&target.gate.clock, PATIENCE, look(target, endpoint)).await;
    looked.unwrap_or(false)
}

async fn look(target: &Target, endpoint: &Endpoint) -> Result<bool, Fault> {
    let stream = match target.dial.dial(endpoint).await {
        Ok(stream) => stream,
        Err(DialError::Refused(_)) => return Ok(true),
        Err(DialError::Other(fault)) => return Err(fault),
    };
    let mut wire = Wire::new(stream, target.gate.inbox.clone(), target.gate.clock.clone());
    let mut commands = login(&target.address);
    commands.push(redis::cmd("INFO").arg("replication").take());
    let replies = exchange(&mut wire, &commands).await?;
    let said = replies.last().map(text).unwrap_or_default();
    Ok(said.lines().any(|line| line.trim_end() == "role:slave"))
}
