//! The state of a set, as plain objects. What they mean stands in `probe.ts`.

use std::time::Duration;

use napi_derive::napi;

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// One thing that was found.
#[napi(object, object_from_js = false)]
pub struct Finding {
    pub id: &'static str,
    pub severity: &'static str,
    pub what: String,
    pub remedy: String,
}

/// The state of one node. Times in milliseconds.
#[napi(object, object_from_js = false, use_nullable = true)]
pub struct NodeReport {
    pub node: String,
    pub answers: bool,
    pub votes: bool,
    pub round_trip: Option<Vec<f64>>,
    pub server: Option<&'static str>,
    pub version: Option<String>,
    pub role: Option<&'static str>,
    pub uptime: Option<f64>,
    pub clock: Option<f64>,
    pub clock_error: Option<f64>,
    pub eviction: Option<String>,
    pub memory_used: Option<f64>,
    pub memory_limit: Option<f64>,
    pub record: &'static str,
    pub differences: Vec<String>,
    pub quarantine: f64,
    pub release: Option<&'static str>,
    pub findings: Vec<Finding>,
}

/// How it stands with the set.
#[napi(object, object_from_js = false)]
pub struct Probe {
    pub set_name: String,
    pub quorum: u32,
    pub max_ttl: f64,
    pub guard: bool,
    pub votes: u32,
    pub health: &'static str,
    pub findings: Vec<Finding>,
    pub nodes: Vec<NodeReport>,
}

impl From<&quorlock::Finding> for Finding {
    fn from(found: &quorlock::Finding) -> Finding {
        Finding {
            id: found.id,
            severity: found.severity.as_str(),
            what: found.what.clone(),
            remedy: found.remedy.clone(),
        }
    }
}

impl From<&quorlock::NodeReport> for NodeReport {
    fn from(report: &quorlock::NodeReport) -> NodeReport {
        let both = |(least, middle)| vec![millis(least), millis(middle)];
        NodeReport {
            node: report.node.clone(),
            answers: report.answers,
            votes: report.votes,
            round_trip: report.round_trip.map(both),
            server: report.server,
            version: report.version.clone(),
            role: report.role,
            uptime: report.uptime.map(millis),
            clock: report.clock.map(|clock| clock.micros as f64 / 1000.0),
            clock_error: report.clock.map(|clock| clock.error_micros as f64 / 1000.0),
            eviction: report.eviction.clone(),
            memory_used: report.memory_used.map(|bytes| bytes as f64),
            memory_limit: report.memory_limit.map(|bytes| bytes as f64),
            record: report.record,
            differences: report.differences.clone(),
            quarantine: millis(report.quarantine),
            release: report.release,
            findings: report.findings.iter().map(Finding::from).collect(),
        }
    }
}

impl From<&quorlock::Probe> for Probe {
    fn from(probe: &quorlock::Probe) -> Probe {
        Probe {
            set_name: probe.set_name.clone(),
            quorum: probe.quorum as u32,
            max_ttl: millis(probe.max_ttl),
            guard: probe.guard,
            votes: probe.votes as u32,
            health: probe.health.as_str(),
            findings: probe.findings.iter().map(Finding::from).collect(),
            nodes: probe.nodes.iter().map(NodeReport::from).collect(),
        }
    }
}
