//! `quorlock list`: the locks that are held or waited for now; once, or again and again.

mod top;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorlock::{Client, ErrorKind, Holder, Inspection, NodeError, Verdict, blocking};
use serde_json::{Value, json};

use crate::args::List;
use crate::connect;
use crate::exit::{self, Failure};
use crate::given;
use crate::inspect::as_object;
use crate::output::{Ink, fit, ink, line, object, plain, size};
use crate::times;
use crate::together::together;

/// This many are listed at most.
const MOST: usize = 1000;
/// This many are looked at together.
const AT_ONCE: usize = 64;

pub fn list(options: &List) -> Result<i32, Failure> {
    given::check("the pattern", options.names.as_deref().unwrap_or_default())?;
    let client = connect::client(&options.connection, None)?;
    if options.watch {
        return top::top(&client, options.names.as_deref());
    }
    let found = found(&client, options.names.as_deref())?;
    if options.json {
        object(&found.as_object())
    } else {
        found.rows(None).iter().for_each(|row| line(row))
    }
    Ok(found.lacks.map_or(0, exit::of))
}

/// The locks of a set at a moment.
struct ListState {
    locks: Vec<Inspection>,
    complete: bool,
    unread: Vec<NodeError>,
    /// Why these are of too few nodes, if they are.
    lacks: Option<ErrorKind>,
}

/// Asks for them. Those that are wanted most come first.
fn found(client: &Client, names: Option<&str>) -> Result<ListState, Failure> {
    let (listing, lacks) = blocking::wait(client.list_partly(names, MOST))?;
    let mut locks = Vec::with_capacity(listing.names.len());
    for names in listing.names.chunks(AT_ONCE) {
        let looks = names.iter().map(|name| client.inspect(name.clone()));
        for look in blocking::wait(together(looks)) {
            locks.push(look?);
        }
    }
    // What is left of a lock that has ended meanwhile has no holder.
    locks.retain(|lock| lock.verdict() != Verdict::Free || lock.queued() > 0);
    for semaphores in listing.semaphores.chunks(AT_ONCE) {
        let of = |(name, slots): &(Vec<u8>, u32)| client.semaphore(name.clone(), *slots);
        let looks = semaphores.iter().map(of);
        let looks = looks.map(|semaphore| async move { semaphore.inspect().await });
        for look in blocking::wait(together(looks)) {
            let found = look?;
            if found.slots_held() > 0 || found.queued() > 0 || found.verdict() == Verdict::Unknown {
                locks.push(found);
            }
        }
    }
    locks.sort_by(|a, b| b.queued().cmp(&a.queued()).then(a.name().cmp(b.name())));
    Ok(ListState {
        locks,
        complete: listing.complete,
        unread: listing.unread,
        lacks,
    })
}

/// What is shown of a lock, and how wide that may be.
const COLUMNS: [(&str, usize); 6] = [
    ("NAME", 40),
    ("HOLDER", 32),
    ("SINCE", 12),
    ("LEFT", 8),
    ("VOTES", 5),
    ("WAIT", 4),
];
/// Which columns are given up first where there is no room.
const SPARED: [usize; 4] = [4, 3, 2, 1];

impl ListState {
    fn as_object(&self) -> Value {
        let unread: BTreeMap<_, _> = self
            .unread
            .iter()
            .map(|e| (e.node(), e.message()))
            .collect();
        json!({
            "locks": self.locks.iter().map(as_object).collect::<Vec<_>>(),
            "complete": self.complete,
            "unread": unread,
        })
    }

    /// Its lines, a heading first, for a terminal as wide as there is; `like`: only those whose
    /// name holds this.
    fn rows(&self, like: Option<&str>) -> Vec<String> {
        let shown = self.locks.iter().map(cells);
        let shown: Vec<_> = shown
            .filter(|cells| like.is_none_or(|like| cells[0].contains(like)))
            .collect();
        let mut rows = Vec::new();
        let width = size().map_or(usize::MAX, |(columns, _)| columns);
        let columns = columns(&shown, width);
        let joined = |cells: &[String; 6]| {
            let fitted = columns.iter().map(|(at, width)| fit(&cells[*at], *width));
            fitted.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        rows.push(ink(
            Ink::Faint,
            &joined(&COLUMNS.map(|(name, _)| name.to_owned())),
        ));
        rows.extend(shown.iter().map(joined));
        if self.lacks.is_some() {
            rows.push(ink(
                Ink::Wrong,
                "too few nodes were read, so this may not be all of it",
            ));
        } else if !self.complete {
            rows.push(ink(
                Ink::Warning,
                &format!("there are more than {MOST}: name some, as in `quorlock list 'orders:*'`"),
            ));
        }
        for error in &self.unread {
            rows.push(ink(
                Ink::Warning,
                &plain(&format!(
                    "{} was not read: {}",
                    error.node(),
                    error.message()
                )),
            ));
        }
        rows
    }
}

/// Which columns there is room for, and how wide each is.
fn columns(rows: &[[String; 6]], width: usize) -> Vec<(usize, usize)> {
    let longest = |at: usize| {
        let cells = rows.iter().map(|cells| cells[at].chars().count());
        cells.max().unwrap_or(0).max(COLUMNS[at].0.len())
    };
    let mut kept: Vec<(usize, usize)> = (0..COLUMNS.len())
        .map(|at| (at, longest(at).min(COLUMNS[at].1)))
        .collect();
    let needed =
        |kept: &[(usize, usize)]| kept.iter().map(|(_, width)| width + 2).sum::<usize>() - 2;
    for spare in SPARED {
        if needed(&kept) > width {
            kept.retain(|(at, _)| *at != spare);
        }
    }
    // A name gives way last.
    let over = needed(&kept).saturating_sub(width);
    kept[0].1 = kept[0].1.saturating_sub(over).max(1);
    kept
}

fn cells(lock: &Inspection) -> [String; 6] {
    let holder = lock.holder();
    let slots: Vec<_> = lock.slots().iter().filter_map(Inspection::holder).collect();
    // Of a semaphore the slot that has been held for longest, and the slot that ends next.
    let holders = || holder.iter().copied().chain(slots.iter().copied());
    let since = holders().filter_map(|holder| holder.since()?.elapsed().ok());
    let (since, left) = (since.max(), holders().filter_map(Holder::left).min());
    let short = |time: Option<Duration>| time.map(times::shown).unwrap_or_default();
    let name = plain(&String::from_utf8_lossy(lock.name()));
    let who = match (holder, lock.verdict()) {
        (Some(holder), Verdict::Kept) => format!("kept for {}", label(holder.label())),
        (Some(holder), _) => label(holder.label()),
        // How many slots it has only its users know.
        (None, _) if !lock.slots().is_empty() => {
            let labels: BTreeSet<_> = slots.iter().map(|slot| label(slot.label())).collect();
            let labels = Vec::from_iter(labels).join(", ");
            match lock.slots_held() {
                1 => format!("1 slot held: {labels}"),
                held => format!("{held} slots held: {labels}"),
            }
        }
        (None, verdict) => verdict.as_str().to_owned(),
    };
    [
        name,
        who,
        short(since),
        short(left),
        holder
            .map(|holder| holder.votes().to_string())
            .unwrap_or_default(),
        lock.queued().to_string(),
    ]
}

fn label(label: Option<&str>) -> String {
    label.map_or("without a label".to_owned(), plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> [String; 6] {
        [
            name,
            "web-2:4711:backup.sh",
            "4 min 2 s",
            "9.1 s",
            "3",
            "12",
        ]
        .map(str::to_owned)
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns() {
        let rows = [row("orders:42")];
        let at = |width| -> Vec<usize> { columns(&rows, width).iter().map(|c| c.0).collect() };
        assert_eq!(at(usize::MAX), [0, 1, 2, 3, 4, 5]);
        assert_eq!(at(60), [0, 1, 2, 3, 5]);
        assert_eq!(at(40), [0, 1, 5]);
        assert_eq!(at(20), [0, 5]);
        for width in [8, 20, 40, 60, 200] {
            let columns = columns(&rows, width);
            let wide: usize = columns.iter().map(|(_, width)| width + 2).sum();
            assert!(wide - 2 <= width, "{width}: {columns:?}");
        }
    }
}
