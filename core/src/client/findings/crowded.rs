//! What will keep locks of a node from being won soon: memory, connections and certificates that come
//! to their ends, and a client that floods it.

use std::time::Duration;

use super::found;
use crate::config::defaults;
use crate::node::redis::connect::Diagnosis;
use crate::report::{Finding, Severity};

/// A share of memory, or of connections, from which on a server is nearly full, in percent.
const NEARLY: u64 = 80;
/// How long before its end a certificate is reported.
const RENEWED: Duration = Duration::from_secs(14 * 86_400);
/// How many commands a second of one client flood a server.
pub(super) const FLOOD: u64 = 2000;

/// What will keep locks from being won soon.
pub(super) fn crowded(looked: &Diagnosis) -> Vec<Finding> {
    let (server, census) = (&looked.server, &looked.census);
    let mut findings = Vec::new();
    let mut soon = |id, what: String, remedy| {
        findings.push(found(Severity::Warning, id, what, remedy));
    };
    let nearly = |used: u64, most: u64| most > 0 && used.saturating_mul(100) / most >= NEARLY;
    if let (Some(used), Some(most)) = (server.memory_used, server.memory_limit)
        && nearly(used, most)
    {
        let share = used.saturating_mul(100) / most;
        let names = census.ending.map_or_else(String::new, |keys| {
            let rate = keys as f64 / defaults::FENCE_TTL.as_secs_f64();
            format!(
                ": {keys} keys end by themselves, nearly all of them counters of fences, each of which lives \
                 for {:?} after a lock was used, which is {rate:.1} new names a second",
                defaults::FENCE_TTL
            )
        });
        soon(
            "QD39",
            format!(
                "it uses {share} % of its maxmemory, and takes no new lock where that is full{names}"
            ),
            "raise its maxmemory, use fewer names, or a shorter fence_ttl (`quorlock explain sizes`)",
        );
    }
    if let Some((connected, most)) = census.clients
        && nearly(connected, most)
    {
        soon(
            "QD40",
            format!("{connected} clients are connected to it, and it takes {most} at most"),
            "raise its maxclients and its limit of open files; share one client in each process",
        );
    }
    // By the clock of the server, which its clients' are held against elsewhere.
    let left = looked
        .certificate_expires
        .zip(looked.told)
        .map(|(ends, told)| Duration::from_secs(ends).saturating_sub(Duration::from_micros(told)));
    if let Some(left) = left.filter(|left| *left < RENEWED) {
        let hours = left.as_secs() / 3600;
        soon(
            "QD41",
            format!(
                "its certificate is good for {} days and {} h more, and no client connects afterwards",
                hours / 24,
                hours % 24
            ),
            "renew it, and have the server read it: CONFIG SET tls-cert-file …",
        );
    }
    if let Some((name, rate)) = &census.busiest
        && *rate >= FLOOD
    {
        soon(
            "QD42",
            format!("the client {name} sends it {rate} commands a second"),
            "let that client wait for locks, in place of trying again and again",
        );
    }
    findings
}
