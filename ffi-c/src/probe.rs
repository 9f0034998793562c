//! The state of a set and of its nodes.

use std::ffi::{CString, c_char};
use std::ptr;
use std::time::Duration;

use quorlock_core::binding::LazyValue;
use quorlock_core::{Finding, Health, NodeReport, Probe};

use crate::client::quorlock_client_t;
use crate::error::{Names, c_text, name_in, quorlock_error_t};
use crate::handle::{self, Handle, wait};

/// A quorum votes, and there is nothing to fix.
pub const QUORLOCK_HEALTH_WORKS: i32 = 1;
/// A quorum votes, but something needs to be fixed or waited for.
pub const QUORLOCK_HEALTH_WORKS_BUT: i32 = 2;
/// Fewer nodes than a quorum would vote: no lock can be won now.
pub const QUORLOCK_HEALTH_CANNOT: i32 = 3;

/// The state of a set. It tells how it was. Free it with quorlock_probe_free().
/// Its texts are UTF-8, end with NUL, have no secrets, and live as long as it does.
pub struct quorlock_probe_t {
    health: Health,
    set_name: CString,
    quorum: u64,
    votes: u64,
    max_ttl_ms: i64,
    guard: bool,
    nodes: Vec<ReportTexts>,
    findings: Vec<FindingTexts>,
}

impl Handle for quorlock_probe_t {
    const PLAIN: bool = true;
}

/// What a set is, as this client has it, and how many of its nodes would vote.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct quorlock_set_report_t {
    /// Its name.
    pub set_name: *const c_char,
    /// How many nodes must vote for a lock.
    pub quorum: u64,
    /// How many nodes would give a vote now.
    pub votes: u64,
    /// The longest ttl of its locks.
    pub max_ttl_ms: i64,
    /// Whether this client guards restarts.
    pub guard: bool,
}

/// The state of one node. What is not known of a node that cannot be used is NULL, or
/// -1 where no other meaning is named.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct quorlock_node_report_t {
    /// The node, as in errors; never with credentials.
    pub node: *const c_char,
    /// What it is: "redis", "valkey", or "memory" for a node within the process.
    pub server: *const c_char,
    /// The version of that.
    pub version: *const c_char,
    /// "master" or "replica".
    pub role: *const c_char,
    /// Its eviction policy.
    pub eviction: *const c_char,
    /// Its record: "expected", "none", "other", or "unknown" where it was not read. A node
    /// within the process needs none: "expected".
    pub record: *const c_char,
    /// How votes are given back there: "delifeq", "delex", or "script". NULL where that was
    /// not tried.
    pub release: *const c_char,
    /// The shortest of a few round trips, in microseconds.
    pub round_trip_least_us: i64,
    /// The one in the middle of them.
    pub round_trip_middle_us: i64,
    /// For how long it has run.
    pub uptime_ms: i64,
    /// By how many microseconds its clock is ahead of the one in the middle of the set's;
    /// negative: it is behind. 0 where clock_error_us is -1.
    pub clock_us: i64,
    /// By how many microseconds that may be wrong; -1: it is not known.
    pub clock_error_us: i64,
    /// How much memory it uses, in bytes.
    pub memory_used: i64,
    /// How much it may use, in bytes; -1 also where it has no limit.
    pub memory_limit: i64,
    /// For how many more milliseconds it gives no vote, for it may have lost its memory.
    pub quarantine_ms: i64,
    /// How many fields of its record are not as this client expects them: see
    /// quorlock_probe_difference().
    pub difference_count: u64,
    /// Whether it has answered.
    pub answers: bool,
    /// Whether it would give a vote now.
    pub votes: bool,
}

/// One thing that a probe has found. `docs/operations/doctor.md` lists all that there are.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct quorlock_finding_t {
    /// Which one it is, such as "QD01": the same forever.
    pub id: *const c_char,
    /// "error": it costs a vote, or breaks what is promised. "warning": to be fixed, or
    /// waited for. "note": worth knowing.
    pub severity: *const c_char,
    /// What is wrong, in words.
    pub what: *const c_char,
    /// What to do about it.
    pub remedy: *const c_char,
    /// The node that it is about. NULL: the set as a whole.
    pub node: *const c_char,
    /// The place of that node in the node list, from 0. -1: the set as a whole.
    pub node_index: i64,
}

/// A node, and its texts for C.
struct ReportTexts {
    report: NodeReport,
    node: CString,
    server: Option<CString>,
    version: Option<CString>,
    role: Option<CString>,
    eviction: Option<CString>,
    record: CString,
    release: Option<CString>,
    differences: Vec<CString>,
}

/// The texts of a finding, and its node.
struct FindingTexts {
    id: CString,
    severity: CString,
    what: CString,
    remedy: CString,
    node: Option<usize>,
}

fn whole(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

fn millis(time: Duration) -> i64 {
    whole(time.as_millis())
}

fn micros(time: Duration) -> i64 {
    whole(time.as_micros())
}

fn text(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}

impl ReportTexts {
    fn of(report: &NodeReport) -> ReportTexts {
        ReportTexts {
            node: c_text(&report.node),
            server: report.server.map(c_text),
            version: report.version.as_deref().map(c_text),
            role: report.role.map(c_text),
            eviction: report.eviction.as_deref().map(c_text),
            record: c_text(report.record),
            release: report.release.map(c_text),
            differences: report.differences.iter().map(|field| c_text(field)).collect(),
            report: report.clone(),
        }
    }

    fn for_c(&self) -> quorlock_node_report_t {
        let report = &self.report;
        quorlock_node_report_t {
            node: self.node.as_ptr(),
            server: text(&self.server),
            version: text(&self.version),
            role: text(&self.role),
            eviction: text(&self.eviction),
            record: self.record.as_ptr(),
            release: text(&self.release),
            round_trip_least_us: report.round_trip.map_or(-1, |(least, _)| micros(least)),
            round_trip_middle_us: report.round_trip.map_or(-1, |(_, middle)| micros(middle)),
            uptime_ms: report.uptime.map_or(-1, millis),
            clock_us: report.clock.map_or(0, |clock| clock.micros),
            clock_error_us: report.clock.map_or(-1, |clock| whole(clock.error_micros)),
            memory_used: report.memory_used.map_or(-1, whole),
            memory_limit: report.memory_limit.map_or(-1, whole),
            quarantine_ms: millis(report.quarantine),
            difference_count: self.differences.len() as u64,
            answers: report.answers,
            votes: report.votes,
        }
    }
}

impl FindingTexts {
    fn of(found: &Finding, node: Option<usize>) -> FindingTexts {
        FindingTexts {
            id: c_text(found.id),
            severity: c_text(found.severity.as_str()),
            what: c_text(&found.what),
            remedy: c_text(&found.remedy),
            node,
        }
    }
}

impl quorlock_probe_t {
    fn of(probe: &Probe) -> quorlock_probe_t {
        let of_set = probe.findings.iter().map(|found| FindingTexts::of(found, None));
        let of_nodes = probe.nodes.iter().enumerate();
        let of_nodes =
            of_nodes.flat_map(|(at, node)| node.findings.iter().map(move |found| FindingTexts::of(found, Some(at))));
        quorlock_probe_t {
            health: probe.health,
            set_name: c_text(&probe.set_name),
            quorum: probe.quorum as u64,
            votes: probe.votes as u64,
            max_ttl_ms: millis(probe.max_ttl),
            guard: probe.guard,
            findings: of_set.chain(of_nodes).collect(),
            nodes: probe.nodes.iter().map(ReportTexts::of).collect(),
        }
    }

    fn node(&self, index: usize) -> Result<&ReportTexts, quorlock_core::Error> {
        let beyond = || handle::invalid(format!("index is {index}: there are {} nodes", self.nodes.len()));
        self.nodes.get(index).ok_or_else(beyond)
    }
}

/// Checks the state of the set: which nodes answer, which would vote, and what
/// needs to be fixed, each with an id, what is wrong, and what to do. Made for monitors and for
/// people; `docs/operations/doctor.md` lists what may be found.
///
/// Over a connection of its own to each node it asks what a client asks when it connects,
/// and for the time. Nothing is admitted, founded or locked by it, and a server that is
/// new is still new afterwards. It takes at most the time to connect and eight times the node timeout. That nodes
/// do not answer, or cannot be used, is no error, but part of the result.
///
/// Fails with #QUORLOCK_CLOSED, #QUORLOCK_FORKED, #QUORLOCK_INVALID_ARGUMENT.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_probe(
    client: *const quorlock_client_t, probe: *mut *mut quorlock_probe_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(probe, "probe")?;
        let client = handle::share(client, "client")?;
        let found = wait(async move { client.probe().await })?;
        handle::give(probe, "probe", quorlock_probe_t::of(&found))
    })
}

/// Whether locks can be won: #QUORLOCK_HEALTH_WORKS and so on. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_probe_health(probe: *const quorlock_probe_t) -> i32 {
    boundary!(or 0, { Ok(handle::borrow(&probe, "probe")?.health.number()) })
}

/// A health as a word: "works", "works_but", "cannot". NULL for any other number. The text
/// lives as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_health_name(health: i32) -> *const c_char {
    static NAMES: LazyValue<Names> = LazyValue::new(|| {
        let all = [Health::Works, Health::WorksBut, Health::Cannot];
        all.iter().map(|health| (health.number(), c_text(health.as_str()))).collect()
    });
    boundary!(or ptr::null(), { Ok(name_in(&NAMES, health)) })
}

/// What the set is, and how many of its nodes would vote. `size` is
/// sizeof(quorlock_set_report_t): a later version has more at the end, and fills in as much
/// as there is room for.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_probe_set(
    probe: *const quorlock_probe_t, set: *mut quorlock_set_report_t, size: usize, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let found = handle::borrow(&probe, "probe")?;
        let known = quorlock_set_report_t {
            set_name: found.set_name.as_ptr(),
            quorum: found.quorum,
            votes: found.votes,
            max_ttl_ms: found.max_ttl_ms,
            guard: found.guard,
        };
        handle::fill(set, "set", size, &known)
    })
}

/// How many nodes the client has.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_probe_node_count(probe: *const quorlock_probe_t) -> usize {
    boundary!(or 0, { Ok(handle::borrow(&probe, "probe")?.nodes.len()) })
}

/// The state of one node, `index` counting from 0 in the order of the node list.
/// `size` is sizeof(quorlock_node_report_t), as above.
///
/// Fails with #QUORLOCK_INVALID_ARGUMENT for an index beyond the last.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_probe_node(
    probe: *const quorlock_probe_t, index: usize, report: *mut quorlock_node_report_t, size: usize,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let known = handle::borrow(&probe, "probe")?.node(index)?.for_c();
        handle::fill(report, "report", size, &known)
    })
}

/// What of a node's record is not as this client expects it: one field, `index` counting
/// from 0. NULL for an index beyond the last, of nodes or of fields.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_probe_difference(
    probe: *const quorlock_probe_t, node: usize, index: usize,
) -> *const c_char {
    boundary!(or ptr::null(), {
        let fields = &handle::borrow(&probe, "probe")?.node(node)?.differences;
        Ok(fields.get(index).map_or(ptr::null(), |field| field.as_ptr()))
    })
}

/// How many findings there are, of the set and of all nodes.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_probe_finding_count(probe: *const quorlock_probe_t) -> usize {
    boundary!(or 0, { Ok(handle::borrow(&probe, "probe")?.findings.len()) })
}

/// One finding, `index` counting from 0: those of the set first, then those of each node,
/// the gravest of it first. `size` is sizeof(quorlock_finding_t), as above.
///
/// Fails with #QUORLOCK_INVALID_ARGUMENT for an index beyond the last.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_probe_finding(
    probe: *const quorlock_probe_t, index: usize, finding: *mut quorlock_finding_t, size: usize,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let probe = handle::borrow(&probe, "probe")?;
        let Some(found) = probe.findings.get(index) else {
            return Err(handle::invalid(format!("index is {index}: there are {} findings", probe.findings.len())));
        };
        let known = quorlock_finding_t {
            id: found.id.as_ptr(),
            severity: found.severity.as_ptr(),
            what: found.what.as_ptr(),
            remedy: found.remedy.as_ptr(),
            node: found.node.map_or(ptr::null(), |at| probe.nodes[at].node.as_ptr()),
            node_index: found.node.map_or(-1, whole),
        };
        handle::fill(finding, "finding", size, &known)
    })
}

/// Frees a probe. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_probe_free(probe: *mut quorlock_probe_t) {
    boundary!({ handle::free(probe) });
}
