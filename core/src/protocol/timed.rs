//! How long one caller takes to get a lock.

use crate::clock::Instant;
use crate::error::{Error, ErrorKind};
use crate::protocol::group::Group;
use crate::protocol::measures::AcquireOutcome;
use crate::protocol::set::Set;

/// Measures one call. Dropped before its end, it was given up by its caller.
pub(crate) struct CallTimer<'a> {
    set: &'a Set,
    group: Group,
    begun: Instant,
    /// It counts among those that wait.
    waits: bool,
    outcome: Option<AcquireOutcome>,
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl<'a> CallTimer<'a> {
    /// A call begins; `waits`: it counts among those that wait, as one does that is ever to end.
    pub(crate) fn begin(set: &'a Set, group: Group, name: &[u8], waits: bool) -> CallTimer<'a> {
        #[cfg(not(feature = "tracing"))]
        let _ = name;
        let begun = set.clock.now();
        if waits {
            set.counters.measures.waits(group, begun);
        }
        CallTimer {
            #[cfg(feature = "tracing")]
            span: tracing::info_span!(
                target: "quorlock",
                "acquire",
                lock = %crate::error::plain(name),
                group = group.name(),
                outcome = tracing::field::Empty,
                error = tracing::field::Empty,
            ),
            set,
            group,
            begun,
            waits,
            outcome: Some(AcquireOutcome::Cancelled),
        }
    }

    /// The call ends; of a call that has succeeded: whether it has only entered a lease once more.
    /// That took no time, and is counted elsewhere.
    pub(crate) fn end(mut self, outcome: Result<bool, &Error>) {
        self.outcome = match outcome {
            Ok(true) => None,
            Ok(false) => Some(AcquireOutcome::Won),
            Err(error) => Some(of(error.kind())),
        };
        #[cfg(feature = "tracing")]
        match outcome {
            Ok(true) => drop(self.span.record("outcome", "reentered")),
            Ok(false) => {}
            Err(error) => drop(self.span.record("error", error.kind().name())),
        }
    }
}

impl Drop for CallTimer<'_> {
    fn drop(&mut self) {
        let measures = &self.set.counters.measures;
        if self.waits {
            measures.waits_no_more(self.group, self.begun);
        }
        if let Some(outcome) = self.outcome {
            #[cfg(feature = "tracing")]
            self.span.record("outcome", outcome.as_str());
            let took = self.begun.until(self.set.clock.now());
            measures.acquired(self.group, outcome, took);
        }
    }
}

fn of(kind: ErrorKind) -> AcquireOutcome {
    match kind {
        ErrorKind::Contended => AcquireOutcome::Contended,
        ErrorKind::Timeout => AcquireOutcome::Timeout,
        ErrorKind::QuorumUnavailable => AcquireOutcome::NoQuorum,
        ErrorKind::TooManyWaiters => AcquireOutcome::Busy,
        _ => AcquireOutcome::Failed,
    }
}

#[cfg(all(test, feature = "tracing"))]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use crate::blocking::wait;
    use crate::{Client, testing};

    /// Keeps the fields of all spans.
    #[derive(Default)]
    struct Keeps {
        last: AtomicU64,
        spans: Mutex<BTreeMap<u64, BTreeMap<&'static str, String>>>,
    }

    struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            let text = format!("{value:?}");
            self.0.insert(field.name(), text.trim_matches('"').into());
        }
    }

    impl Subscriber for &'static Keeps {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "quorlock"
        }

        fn new_span(&self, attributes: &Attributes<'_>) -> Id {
            let id = self.last.fetch_add(1, Ordering::SeqCst) + 1;
            let mut spans = self.spans.lock().unwrap();
            let fields = spans.entry(id).or_default();
            fields.insert("span", attributes.metadata().name().into());
            attributes.record(&mut Fields(fields));
            Id::from_u64(id)
        }

        fn record(&self, span: &Id, values: &Record<'_>) {
            let mut spans = self.spans.lock().unwrap();
            values.record(&mut Fields(spans.entry(span.into_u64()).or_default()));
        }

        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn each_call_is_a_span_with_its_outcome() {
        let keeps: &'static Keeps = Box::leak(Box::default());
        tracing::subscriber::with_default(keeps, || {
            let client = Client::new(testing::nodes(1)).unwrap();
            let lease = wait(client.lock("traced").group("tests").acquire()).unwrap();
            let busy = client.lock("traced").wait(Duration::ZERO);
            assert!(wait(busy.acquire()).is_err());
            drop(lease);
        });
        let spans: Vec<_> = keeps.spans.lock().unwrap().values().cloned().collect();
        let of = |place: usize, field: &str| spans[place].get(field).map(String::as_str);
        assert_eq!(spans.len(), 2);
        assert_eq!(of(0, "span"), Some("acquire"));
        assert_eq!(
            (of(0, "lock"), of(0, "group")),
            (Some("traced"), Some("tests"))
        );
        assert_eq!((of(0, "outcome"), of(0, "error")), (Some("won"), None));
        assert_eq!(
            (of(1, "outcome"), of(1, "error")),
            (Some("contended"), Some("Contended"))
        );
    }
}
